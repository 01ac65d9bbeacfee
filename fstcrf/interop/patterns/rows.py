"""From the texts of attributes to keys and rows.

==========  ==================================================================
Side        the attributes of one kind of pattern, and the text of each row
sides       both sides of an index
==========  ==================================================================
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError
from fstcrf.features import TemplateSet
from fstcrf.features.derive import Source
from fstcrf.features.keys import KeyTable, Packing, Vocabulary, width_of
from fstcrf.features.reader import Family, families, padding, sources
from fstcrf.features.tables import Tables, Vocabularies
from fstcrf.interop.patterns.checks import decoded, shown
from fstcrf.interop.patterns.cuts import Budget, cuts
from fstcrf.interop.patterns.model import Pattern, PatternModel
from fstcrf.interop.patterns.strings import Strings

__all__ = ["Side", "sides"]

_NO, _YES = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The attributes of labels, or of label pairs.

    Parameters
    ----------
    tables : Tables
    attribute : int64 [tables.n_rows]
        Of each row, the place of its text among the attributes of the model.
    """

    tables: Tables
    attribute: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Cut:
    """The texts of one pattern, cut: the attribute of each cut, and the number of each string."""

    attribute: NDArray[np.int64]
    codes: list[NDArray[np.uint64]]


def sides(model: PatternModel, templates: TemplateSet) -> tuple[Side, Side]:
    """Return the attributes of labels and those of label pairs.

    Attributes whose weights are all zero are left out.

    Parameters
    ----------
    model : PatternModel
    templates : TemplateSet
        Those of its patterns, columns by name.

    Raises
    ------
    ModelFileError
        Texts that can be cut in too many ways, or that are of another encoding.
    """
    node, arc = families(templates, arc=False), families(templates, arc=True)
    cutter = _Cutter(model, sources((*node, *arc)), padding(model.boundary, (*node, *arc)))
    node_cuts, arc_cuts = cutter.cuts("node", node), cutter.cuts("arc", arc)
    cutter.check()
    # Numbers have as many bits as all strings of a source need: only now is that known.
    vocabularies = cutter.vocabularies()
    return _side(node, vocabularies, node_cuts), _side(arc, vocabularies, arc_cuts)


class _Cutter:
    """Cuts the texts of a model, pattern by pattern.

    Parameters
    ----------
    model : PatternModel
    used : sequence of Plain or Derived
        What its patterns read.
    reach : int
        Distance of the farthest pad.
    """

    def __init__(self, model: PatternModel, used: Sequence[Source], reach: int) -> None:
        self._model, self._reach = model, reach
        self._strings = {s: Strings(s, reach, model.boundary, model.encoding) for s in used}
        self._budget = Budget(model.size, model.where)
        self._legible = bytearray(len(model.attributes))

    def cuts(self, kind: Literal["node", "arc"], group: Sequence[Family]) -> list[_Cut]:
        """Return the cuts of the patterns of a kind that became templates, in their order."""
        patterns = [p for p in self._model.patterns if p.kind == kind]
        if kind == "arc":
            patterns = [p for p in patterns if p.holes]
        return [self._cut(*pair) for pair in zip(patterns, group, strict=True)]

    def check(self) -> None:
        """Check that the texts which patterns gave are of the model's encoding.

        Raises
        ------
        ModelFileError
            One is not.
        """
        model = self._model
        place = self._legible.find(_NO)
        if place >= 0:
            decoded(model.attributes[place], model.encoding, model.where, "attribute")
            text = shown(model.attributes[place])
            raise ModelFileError(f"{model.where}: attribute {text} is cut within a character")

    def vocabularies(self) -> Vocabularies:
        """Return the strings that were met."""
        by_source = {source: Vocabulary(s.texts) for source, s in self._strings.items()}
        return Vocabularies(self._reach, by_source, self._model.boundary)

    def _cut(self, pattern: Pattern, family: Family) -> _Cut:
        strings = [self._strings[source] for source in family.sources]
        choices = [column.choices for column in strings]
        attributes, codes = array("q"), [array("Q") for _ in strings]
        for place in _candidates(self._model, pattern):
            for pieces in cuts(self._model.attributes[place], pattern.literals, choices):
                columns = zip(strings, pieces, pattern.holes, strict=True)
                options = [column.numbers(piece, hole) for column, piece, hole in columns]
                found = _YES if all(options) else _NO
                self._legible[place] = max(self._legible[place], found)
                self._budget.spend(max(prod(map(len, options)), 1), pattern.text)
                for chosen in product(*options):
                    attributes.append(place)
                    for column, number in zip(codes, chosen, strict=True):
                        column.append(number)
        numbers = [np.array(column, dtype=np.uint64) for column in codes]
        return _Cut(np.array(attributes, dtype=np.int64), numbers)


def _candidates(model: PatternModel, pattern: Pattern) -> list[int]:
    """Return the attributes with weights that begin as the pattern does."""
    head = pattern.literals[0]
    begin = bisect_left(model.attributes, head)
    # All that begins with `head` is one run.
    end = bisect_left(model.attributes, 1, begin, key=lambda text: not text.startswith(head))
    first = model.first(pattern.kind)[begin:end]
    used = (first >= 0) & (model.weights.counts(first, model.block(pattern.kind)) > 0)
    return (begin + np.flatnonzero(used)).tolist()


def _side(group: Sequence[Family], vocabularies: Vocabularies, found: Sequence[_Cut]) -> Side:
    packings: list[Packing] = []
    tables: list[KeyTable] = []
    attribute = [np.empty(0, dtype=np.int64)]
    total = 0
    for family, cut in zip(group, found, strict=True):
        widths = [width_of(vocabularies.size(source)) for source in family.sources]
        packing = Packing.fitted(widths, cut.codes)
        keys, _ = packing.pack(cut.codes, len(cut.attribute))
        # Two texts have one key only where halves of a character are shown as text.
        keys, first = np.unique(keys, return_index=True)
        packings.append(packing)
        tables.append(KeyTable(keys, np.arange(total, total + len(keys), dtype=np.int32)))
        attribute.append(cut.attribute[first])
        total += len(keys)
    made = Tables(tuple(group), vocabularies, tuple(packings), tuple(tables), total)
    return Side(made, np.concatenate(attribute))

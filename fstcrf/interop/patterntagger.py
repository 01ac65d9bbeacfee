"""Taggers of CRF++ and of Wapiti as CRFs over columns.

Both programs know an attribute by its text: a pattern with its holes filled. A CRF of ours knows it
by the strings in the holes. One text may be cut into such strings in several ways (``a/b/c`` at
``%x[0,0]/%x[1,0]``) and may come from several patterns; each way is a row with the same weights.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import ModelFileError, OptionError, TemplateError
from fstcrf.features import FeatureIndex, Macro, Template, TemplateSet
from fstcrf.features.bytewise import show
from fstcrf.features.derive import Derived, Source, resolved, root
from fstcrf.features.keys import KeyTable, Packing, Vocabulary, width_of
from fstcrf.features.reader import (
    Boundary,
    Family,
    families,
    pad_names,
    pad_texts,
    padding,
    sources,
)
from fstcrf.features.tables import AttributeTables, Vocabularies
from fstcrf.interop.patterns import CutBudget, Hole, PatternModel, TextPattern, cuts, decoded, shown
from fstcrf.joint import CRF
from fstcrf.kernel import padded
from fstcrf.topology import chain_topology
from fstcrf.train.problem import ParameterSpace

__all__ = ["tagger"]


class _Strings:
    """The strings that one source gives, numbered as they are met, behind the pads.

    The farthest pad is `reach` tokens away.
    """

    def __init__(self, source: Source, reach: int, boundary: Boundary, encoding: str) -> None:
        self._numbers: dict[str, int] = {}
        self._reach, self._encoding = reach, encoding
        self._has_halves = _has_halves(source)
        self._is_test = isinstance(source, Derived) and source.function == "wapiti_test"
        self._pads: dict[bytes, list[int]] = {}
        texts = pad_texts(source, reach, boundary)
        for number, text in enumerate(texts):
            self._pads.setdefault(text.encode(), []).append(number)
        pairs = zip(texts, pad_names(reach, boundary), strict=True)
        self._names = {text.encode() for text, name in pairs if text == name}

    @property
    def choices(self) -> tuple[bytes, ...] | None:
        """What the strings may be; None: anything."""
        return (b"true", b"false") if self._is_test else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The strings, in the order of their numbers."""
        return tuple(self._numbers)

    def numbers(self, piece: bytes, hole: Hole) -> tuple[int, ...]:
        """Return the numbers that a piece of an attribute's text stands for.

        Those of the pads that the hole can meet and that have this text, and that of the string,
        unless it is the very name of such a pad. None where no string of this encoding has these
        bytes.
        """
        pads: tuple[int, ...] = ()
        if piece in self._pads:
            # As many as its offset, on one side: so it is for places of the sentence as well.
            first = 0 if hole.offset < 0 else self._reach
            met = range(first, first + abs(hole.offset))
            pads = tuple(number for number in self._pads[piece] if number in met)
            if pads and piece in self._names:
                return pads
        try:
            text = show(piece) if self._has_halves else piece.decode(self._encoding)
        except UnicodeDecodeError:
            return pads
        number = self._numbers.setdefault(text, len(self._numbers))
        return (*pads, 2 * self._reach + number)


def _has_halves(source: Source) -> bool:
    """Return whether a source may give a part of a character."""
    while isinstance(source, Derived):
        if source.function == "wapiti_find":
            return True
        source = source.source
    return False


# --- Rows -----------------------------------------------------------------------------------------

_NO, _YES = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The attributes of labels, or of label pairs.

    Parameters
    ----------
    tables : AttributeTables
    attribute : int64 [tables.n_rows]
        Of each row, the place of its text among the attributes of the model.
    """

    tables: AttributeTables
    attribute: Longs


@dataclass(frozen=True, slots=True)
class _Cut:
    """The texts of one pattern, cut: the attribute of each cut, and the number of each string."""

    attribute: Longs
    codes: list[NDArray[np.uint64]]


def _sides(model: PatternModel, templates: TemplateSet) -> tuple[_Side, _Side]:
    """Return the attributes of labels and those of label pairs.

    Attributes whose weights are all zero are left out.
    """
    node, arc = families(templates, arc=False), families(templates, arc=True)
    cutter = _Cutter(model, sources((*node, *arc)), padding(model.boundary, (*node, *arc)))
    node_cuts, arc_cuts = cutter.cuts("node", node), cutter.cuts("arc", arc)
    cutter.check()
    # Numbers have as many bits as all strings of a source need: only now is that known.
    vocabularies = cutter.vocabularies()
    return _side(node, vocabularies, node_cuts), _side(arc, vocabularies, arc_cuts)


class _Cutter:
    """Cuts the texts of a model, pattern by pattern."""

    def __init__(self, model: PatternModel, used: Sequence[Source], reach: int) -> None:
        self._model, self._reach = model, reach
        self._strings = {s: _Strings(s, reach, model.boundary, model.encoding) for s in used}
        self._budget = CutBudget(model.size, model.where)
        self._legible = bytearray(len(model.attributes))

    def cuts(self, kind: Literal["node", "arc"], group: Sequence[Family]) -> list[_Cut]:
        """Return the cuts of the patterns of a kind that became templates, in their order."""
        patterns = [p for p in self._model.patterns if p.kind == kind]
        if kind == "arc":
            patterns = [p for p in patterns if p.holes]
        return [self._cut(*pair) for pair in zip(patterns, group, strict=True)]

    def check(self) -> None:
        """Check that the texts which patterns gave are of the model's encoding."""
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

    def _cut(self, pattern: TextPattern, family: Family) -> _Cut:
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


def _candidates(model: PatternModel, pattern: TextPattern) -> list[int]:
    """Return the attributes with weights that begin as the pattern does."""
    head = pattern.literals[0]
    begin = bisect_left(model.attributes, head)
    # All that begins with `head` is one run.
    end = bisect_left(model.attributes, 1, begin, key=lambda text: not text.startswith(head))
    first = model.first(pattern.kind)[begin:end]
    used = (first >= 0) & (model.weights.counts(first, model.block(pattern.kind)) > 0)
    return (begin + np.flatnonzero(used)).tolist()


def _side(group: Sequence[Family], vocabularies: Vocabularies, found: Sequence[_Cut]) -> _Side:
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
    made = AttributeTables(tuple(group), vocabularies, tuple(packings), tuple(tables), total)
    return _Side(made, np.concatenate(attribute))


# --- Templates ------------------------------------------------------------------------------------

_MOST_HOLES = 64
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f]")
_LETTER = {"node": "U", "arc": "B"}


def _column_names(names: Sequence[str] | None, count: int, tape: str) -> tuple[str, ...]:
    """Return the columns of the data."""
    given = tuple(str(number) for number in range(count)) if names is None else tuple(names)
    if isinstance(names, str) or len(given) < count:
        raise OptionError(f"columns are {names!r}, expected names for {count} columns")
    columns = given if tape in given else (*given, tape)
    odd = [c for c in columns if not c or c.startswith("%y[") or _UNPRINTED.search(c)]
    if odd or len(set(columns)) < len(columns):
        raise OptionError(f"columns are {', '.join(map(repr, columns))}, expected distinct names")
    return columns


def _template_set(model: PatternModel, names: Sequence[str]) -> TemplateSet:
    """Return the templates of the patterns that have holes or condition one label.

    Each is a family of its own: where CRF++ and Wapiti count an attribute twice because two
    patterns give it, two rows count once each. So patterns of the same text and columns get a
    number: ``U:%x[-1,0]``, ``U#2:%x[1,0]``.
    """
    found: list[Template] = []
    seen: set[tuple[object, ...]] = set()
    for pattern in model.patterns:
        if pattern.kind == "arc" and not pattern.holes:
            continue
        try:
            found.append(_template(pattern, model, names, seen))
        except TemplateError as error:
            raise ModelFileError(f"{model.where}: pattern {pattern.text!r}: {error}") from None
    has_transitions = any(p.kind == "arc" and not p.holes for p in model.patterns)
    return TemplateSet(tuple(found), has_transitions)


def _template(
    pattern: TextPattern, model: PatternModel, names: Sequence[str], seen: set[tuple[object, ...]]
) -> Template:
    if len(pattern.holes) > _MOST_HOLES:
        raise TemplateError(f"reads {len(pattern.holes)} strings, expected at most {_MOST_HOLES}")
    macros = [_macro(hole, names) for hole in pattern.holes]
    literals = _printed(pattern, model.encoding)
    number, marked = 1, literals
    # What makes a family: see `fstcrf.features.reader`.
    while (key := (pattern.kind, marked, tuple(m.source for m in macros))) in seen:
        number += 1
        marked = (_marked(literals[0], number), *literals[1:])
    seen.add(key)
    parts: list[str | Macro] = [marked[0]]
    for macro, literal in zip(macros, marked[1:], strict=True):
        parts += [macro, literal]
    return Template(pattern.kind, tuple(part for part in parts if part != ""))


def _macro(hole: Hole, names: Sequence[str]) -> Macro:
    column = root(hole.source)
    if not isinstance(column, int) or column >= len(names):
        raise TemplateError(f"reads column {column}, the model has {len(names)}")
    source = resolved(hole.source, names[column])
    return Macro("x", source, hole.offset, hole.offset, absolute=hole.absolute)


def _printed(pattern: TextPattern, encoding: str) -> tuple[str, ...]:
    """Return the literals as text of one line, beginning with U or B; only people read them."""
    texts = [_UNPRINTED.sub(" ", t.decode(encoding, "backslashreplace")) for t in pattern.literals]
    texts[0] = texts[0].lstrip(" ")
    texts[-1] = texts[-1].rstrip(" ")
    letter = _LETTER[pattern.kind]
    texts[0] = letter + texts[0].removeprefix(letter).removeprefix(letter.lower())
    return tuple(texts)


def _marked(literal: str, number: int) -> str:
    head, colon, rest = literal.partition(":")
    return f"{head}#{number}{colon}{rest}"


# --- The tagger -----------------------------------------------------------------------------------


def tagger(model: PatternModel, columns: Sequence[str] | None, tape: str) -> CRF:
    """Return a model as a CRF over columns, with the same answers.

    Raises
    ------
    ModelFileError
        A pattern that no template can say, texts that can be cut in too many ways, or weights that
        are not finite.
    OptionError
        Too few names, or names that are not distinct.
    """
    names = _column_names(columns, model.n_columns, tape)
    if not np.isfinite(model.weights.values).all():
        raise ModelFileError(f"{model.where}: a weight is not finite")
    templates = _template_set(model, names)
    node, arc = _sides(model, templates)
    size = len(model.labels)
    transitions = _transitions(model)
    slots = np.flatnonzero(transitions).astype(np.int32)
    order = 1 if len(arc.attribute) or len(slots) else 0
    node_cells, node_weights = model.weights.cells(
        model.node_first[node.attribute], size, stride=padded(size)
    )
    arc_cells, arc_weights = model.weights.cells(
        model.arc_first[arc.attribute], size**2, stride=padded(size**2)
    )
    none = np.empty(0, dtype=np.int32)
    space = ParameterSpace(
        topology=chain_topology(model.labels, order),
        n_node_rows=node.tables.n_rows,
        n_arc_rows=arc.tables.n_rows,
        node_cells=node_cells,
        transitions=slots,
        arc_cells=arc_cells,
        initial=none,
        final=none,
    )
    index = FeatureIndex(templates, model.boundary, node=node.tables, arc=arc.tables)
    theta = np.concatenate([node_weights, transitions[slots], arc_weights])
    return CRF(space.topology, index, space, theta, tape, names)


def _transitions(model: PatternModel) -> Floats:
    """Return the weight of each label pair by itself, float64 [L²]: of patterns without holes."""
    size = len(model.labels) ** 2
    total = np.zeros(size)
    for pattern in model.patterns:
        if pattern.kind == "node" or pattern.holes:
            continue
        place = bisect_left(model.attributes, pattern.literals[0])
        if model.attributes[place : place + 1] == [pattern.literals[0]]:
            first = model.arc_first[place : place + 1]
            cells, values = model.weights.cells(first, size, stride=size)
            total[cells] += values * (first[0] >= 0)
    return total

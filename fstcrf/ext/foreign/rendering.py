"""Taggers over columns in the form of CRF++ and Wapiti: patterns, their texts, weights.

The inverse of `fstcrf.ext.foreign.patterns`. A tagger that a program cannot represent is refused,
with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Longs, Ragged
from fstcrf.errors import OptionError
from fstcrf.ext.foreign.patterns import SparseWeights
from fstcrf.taggers import CRF
from fstcrf.text.features import FeatureIndex
from fstcrf.text.features.derive import Derived, Plain, Source, root
from fstcrf.text.features.keys import KeyTable, Packing
from fstcrf.text.features.reader import Boundary, Family, Position, pad_names, pad_texts
from fstcrf.text.features.tables import AttributeTables, Vocabularies
from fstcrf.training.problem import slot_table

_FIRST, _LAST = "__first__", "__last__"  # patterns of the weights of beginnings and ends
_NAMED = 5
"""Tokens outside a sentence that Wapiti has names for."""
_HALF = re.compile(r"\\x([89a-f][0-9a-f])")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The patterns of a program.

    Parameters
    ----------
    title : str
        For messages: ``"CRF++'s format"``.
    letters : (str, str)
        First letters of patterns of labels and of label pairs.
    boundary : {"pad", "wapiti"}
        The values outside a sentence.
    farthest : int, optional
        Largest offset, if there is a limit.
    hole : callable
        (source, place in the text of a macro, number of the column) → the macro; `None` if the
        program has no such macro.
    absolute : bool
        Whether a place of the sentence can be read.
    """

    title: str
    letters: tuple[str, str]
    boundary: Boundary
    farthest: int | None
    hole: Callable[[Source, str, int], str | None]
    absolute: bool = False

    def refused(self, why: str) -> OptionError:
        """Return the error about a tagger that the program cannot represent."""
        return OptionError(f"{self.title} has no place for this: {why}")


@dataclass(frozen=True, slots=True, eq=False)
class TextModel:
    """A tagger as patterns, texts and weights.

    Parameters
    ----------
    labels : tuple of str
    patterns : list of bytes
        As the program writes them.
    attributes : list of bytes
        A texts that patterns give, sorted, each once.
    is_arc : bool [A]
        Whether an attribute belongs to label pairs.
    first : int64 [A + 1]
        Number of each attribute's first weight: it has one for each label, or for each pair, the
        later label faster.
    weights : SparseWeights
        Natural-log scores.
    n_columns : int
        How many columns the patterns read.
    """

    labels: tuple[str, ...]
    patterns: list[bytes]
    attributes: list[bytes]
    is_arc: Bools
    first: Longs
    weights: SparseWeights
    n_columns: int


class _Weighted(NamedTuple):
    """Attributes of a family that have weights."""

    texts: list[bytes]  # [R]
    is_arc: bool
    row: Longs  # [W], rising: whose each weight is
    place: Longs  # [W]: which label, or pair of labels
    value: Floats  # [W]


def rendered(crf: CRF, dialect: Dialect) -> TextModel:
    """Return a tagger as a program's patterns, texts and weights.

    Raises
    ------
    OptionError
        The program cannot represent the tagger; the message names the reason.
    """
    index = _sayable(crf, dialect)
    writer = _Writer(crf, index, dialect)
    parts = list(writer.parts())
    labels = len(crf.labels)
    texts = [text for part in parts for text in part.texts]
    is_arc = np.array([part.is_arc for part in parts for _ in part.texts], dtype=bool)
    counts = Ragged.from_lengths(len(part.texts) for part in parts).offsets
    row = np.concatenate([p.row + n for p, n in zip(parts, counts, strict=False)] or [_none()])
    place = np.concatenate([p.place for p in parts] or [_none()])
    value = np.concatenate([p.value for p in parts] or [np.empty(0)])
    order, kept = _distinct(texts, row, place, value, dialect)
    rank = np.full(len(texts), -1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    first = Ragged.from_lengths(np.where(is_arc[order], labels**2, labels)).offsets
    number = first[rank[row[kept]]] + place[kept]
    rising = np.argsort(number)
    return TextModel(
        crf.labels,
        writer.patterns,
        [texts[i] for i in order.tolist()],
        is_arc[order],
        first,
        SparseWeights(number[rising], value[kept][rising]),
        writer.n_columns,
    )


def column_order(crf: CRF) -> tuple[str, ...]:
    """Return the columns that a file of CRF++ or Wapiti must have, before its labels."""
    record = crf.record
    target = None if record is None else record.target
    return tuple(c for c in crf.columns if c != target)


def _none() -> Longs:
    return np.empty(0, dtype=np.int64)


def _sayable(crf: CRF, dialect: Dialect) -> FeatureIndex:
    """Return the index of a tagger with a structure that the program has, too."""
    if not isinstance(crf, CRF):
        raise dialect.refused(
            "a composition is several taggers or a grammar; convert one of the taggers, "
            "such as model.taggers[0]"
        )
    topology, index = crf.topology, crf.index
    if not isinstance(index, FeatureIndex):
        problem = "the tagger reads lists of attributes: train it on columns, with a template"
    elif crf.reads or index.tapes:
        problem = f"the tagger reads the labels of {', '.join(index.tapes)}: train it without %y"
    elif not isinstance(index.node, AttributeTables):
        problem = "the attributes are hashed, so nobody knows their texts: train without hash_bits="
    elif not topology.direct:
        problem = "the tagger is of order 2: train it with order=1"
    elif len(topology.source) < topology.n_states**2 and len(crf.labels) > 1:
        problem = (
            "the tagger forbids label sequences: train it without scheme= and grammar=, and "
            "constrain it where it tags"
        )
    elif not (topology.initial.all() and topology.final.all()):
        problem = "the tagger forbids first or last labels: train it without scheme= and grammar="
    else:
        return index
    raise dialect.refused(problem)


def _distinct(
    texts: list[bytes], row: Longs, place: Longs, value: Floats, dialect: Dialect
) -> tuple[Longs, Bools]:
    """Return the attributes in the order of their texts, each once, and which weights are theirs.

    Two of one text must have the same weights.
    """
    order = sorted(range(len(texts)), key=texts.__getitem__)
    bounds = np.searchsorted(row, np.arange(len(texts) + 1))
    dropped = np.zeros(len(texts), dtype=bool)
    for a, b in pairwise(order):
        if texts[a] != texts[b]:
            continue
        mine, others = (slice(bounds[i], bounds[i + 1]) for i in (a, b))
        same = np.array_equal(place[mine], place[others])
        if not (same and np.array_equal(value[mine], value[others])):
            raise dialect.refused(
                f"the attribute name {texts[a].decode('utf-8', 'replace')!r} is ambiguous: "
                "the values contain the separator of the template; choose another separator"
            )
        dropped[b] = True
    return np.asarray([i for i in order if not dropped[i]], dtype=np.int64), ~dropped[row]


class _Writer:
    """Writes the families of a tagger as patterns, and their attributes as texts."""

    def __init__(self, crf: CRF, index: FeatureIndex, dialect: Dialect) -> None:
        self._crf, self._index, self._dialect = crf, index, dialect
        self._columns = {name: i for i, name in enumerate(column_order(crf))}
        self.patterns: list[bytes] = []
        self.n_columns = 1

    def parts(self) -> Iterator[_Weighted]:
        """Yield the attributes of each family with their weights; write its pattern."""
        node, transition, arc, initial, final = self._crf.space.parts(self._crf.theta)
        heads = self._heads()
        space = self._crf.space
        node_cells = _by_cell(space.node_cells, space.width, node)
        arc_cells = _by_cell(space.arc_cells, space.arc_width, arc)
        for side, cells in ((self._index.node, node_cells), (self._index.arc, arc_cells)):
            if not isinstance(side, AttributeTables):  # told before
                continue
            families = zip(side.families, side.packings, side.keys, strict=True)
            for number, (family, packing, table) in enumerate(families):
                pair = side is self._index.arc
                head = heads[family.kind == "arc", number]
                yield self._family(family, head, packing, table, side.vocabularies, cells, pair)
        for name, states, value in ((_FIRST, space.initial, initial), (_LAST, space.final, final)):
            if value.any():
                yield self._ends(name, states.astype(np.int64), value)
        if self._index.templates.has_transitions or transition.any():
            letter = self._dialect.letters[1].encode()
            self.patterns.append(letter)
            place = self._pairs()[space.transitions]
            yield _weighted([letter], np.zeros_like(place), place, transition, is_arc=True)

    def _heads(self) -> dict[tuple[bool, int], str]:
        """Return the beginning of each pattern; no beginning starts another pattern's text."""
        found: dict[tuple[bool, int], str] = {}
        for pair, side in ((False, self._index.node), (True, self._index.arc)):
            letter = self._dialect.letters[pair]
            heads = [
                f.literals[0] if f.kind in ("bos", "eos") else f.literals[0][1:]
                for f in side.families
            ]
            width = len(str(len(heads)))
            order = sorted([*heads, _FIRST, _LAST, *[""] * pair])
            clash = any(b.startswith(a) for a, b in pairwise(order))
            for number, head in enumerate(heads):
                text = f"{number:0{width}d}:{head}" if clash else head
                found[pair, number] = letter + text
        return found

    def _family(
        self,
        family: Family,
        head: str,
        packing: Packing,
        table: KeyTable,
        vocabularies: Vocabularies,
        cells: tuple[Longs, Longs, Floats],
        pair: bool,  # noqa: FBT001 (an inner function)
    ) -> _Weighted:
        literals = self._pattern(family, head)
        row, place, value = cells
        of_row = np.full(max(int(row.max(initial=-1)), int(table.rows.max(initial=-1))) + 1, -1)
        of_row[table.rows] = np.arange(len(table.rows))
        mine = np.flatnonzero(of_row[row] >= 0)
        used, number = np.unique(of_row[row[mine]], return_inverse=True)
        if family.kind in ("bos", "eos"):
            pad = pad_names(1, self._dialect.boundary)[family.kind == "eos"]
            columns = [[pad.encode()] * len(used)]
        else:
            codes = packing.unpack(table.keys[used])
            columns = [
                self._strings(vocabularies, source, code)
                for source, code in zip(family.sources, codes, strict=True)
            ]
        texts = [_joined(literals, [column[i] for column in columns]) for i in range(len(used))]
        slots = self._pairs()[place[mine]] if pair else place[mine]
        return _weighted(texts, number, slots, value[mine], is_arc=pair)

    def _pattern(self, family: Family, head: str) -> list[bytes]:
        """Write the pattern of a family; return its literals."""
        refused, shown = self._dialect.refused, _shown(family)
        if family.kind in ("bos", "eos"):
            offset = -1 if family.kind == "bos" else 1
            literals = [f"{head}:", ""]
            holes = [self._hole(Plain(next(iter(self._columns), "0")), Position(offset, True))]  # noqa: FBT003
        else:
            if family.values:
                raise refused(f"template {shown} has a real value")
            if len(family.members) > 1:
                raise refused(
                    f"template {shown} yields the same attribute for several offsets: give the "
                    "template of each offset another name, U01:, U02:"
                )
            literals = [head, *family.literals[1:]]
            holes = []
            for source, position in zip(family.sources, family.members[0], strict=True):
                self._check(source, position, shown)
                holes.append(self._hole(source, position, shown))
        if any("%" in literal for literal in literals):
            raise refused(f"template {shown} has a % in its text")
        text = literals[0] + "".join(h + t for h, t in zip(holes, literals[1:], strict=True))
        self.patterns.append(text.encode())
        return [literal.encode() for literal in literals]

    def _check(self, source: Source, position: Position, shown: str) -> None:
        refused = self._dialect.refused
        if not position.pads:
            raise refused(f"template {shown} reads a bag of strings")
        if position.absolute and not self._dialect.absolute:
            raise refused(f"template {shown} reads a place of the sentence")
        farthest = self._dialect.farthest
        if farthest is None and self._index.boundary == "pad":
            # places further out share one name there, but have several names here
            farthest = _NAMED
        if farthest is not None and abs(position.offset) > farthest:
            raise refused(
                f"template {shown} reads {abs(position.offset)} tokens away, which is beyond "
                f"{farthest}"
            )
        pads = position.offset and self._index.boundary != self._dialect.boundary
        plain = isinstance(source, Plain) or (
            source.function == "lower_ascii" and isinstance(source.source, Plain)
        )
        if pads and not plain:
            raise refused(
                f"template {shown}: {source} is also applied to the padding outside the "
                "sentence in that format, which gives other attributes"
            )

    def _hole(self, source: Source, position: Position, shown: str = "") -> str:
        name = str(root(source))
        column = self._columns.get(name, 0)
        self.n_columns = max(self.n_columns, column + 1)
        place = f"{'@' if position.absolute else ''}{position.offset}"
        found = self._dialect.hole(source, place, column)
        if found is None:
            raise self._dialect.refused(f"template {shown} reads {source}")
        return found

    def _strings(
        self, vocabularies: Vocabularies, source: Source, codes: NDArray[np.uint64]
    ) -> list[bytes]:
        """Return the strings of a hole; outside the sentence, the strings of the program."""
        reach, strings = vocabularies.reach, vocabularies.by_source[source].strings
        pads = [text.encode() for text in pad_texts(source, reach, self._dialect.boundary)]
        halves = isinstance(source, Derived) and "wapiti_find" in str(source)
        return [
            pads[i] if i < len(pads) else _bytes(strings[i - len(pads)], halves=halves)
            for i in codes.tolist()
        ]

    def _ends(self, name: str, states: Longs, value: Floats) -> _Weighted:
        """Return the weights of first or last labels, as an attribute outside the sentence."""
        offset = -1 if name == _FIRST else 1
        hole = self._hole(Plain(next(iter(self._columns), "0")), Position(offset, True))  # noqa: FBT003
        head = f"{self._dialect.letters[0]}{name}:"
        self.patterns.append((head + hole).encode())
        pad = pad_names(1, self._dialect.boundary)[name == _LAST]
        text = (head + pad).encode()
        return _weighted([text], np.zeros_like(states), states, value, is_arc=False)

    def _pairs(self) -> Longs:
        """Return the place of each arc slot among the label pairs, the later label faster."""
        topology = self._crf.topology
        table = slot_table(topology).ravel()
        found = np.full(topology.n_arc_slots, -1, dtype=np.int64)
        found[table[table >= 0]] = np.flatnonzero(table >= 0)
        return found


def _by_cell(cells: Longs, width: int, value: Floats) -> tuple[Longs, Longs, Floats]:
    """Return row, slot and value of the weights that are not zero."""
    kept = np.flatnonzero(value)
    row, slot = np.divmod(cells[kept], max(width, 1))
    return row, slot, value[kept]


def _weighted(
    texts: list[bytes], row: Longs, place: Longs, value: Floats, *, is_arc: bool
) -> _Weighted:
    """Return attributes with sorted nonzero weights."""
    kept = np.flatnonzero(value)
    order = kept[np.lexsort((place[kept], row[kept]))]
    return _Weighted(texts, is_arc, row[order], place[order], value[order])


def _joined(literals: Sequence[bytes], strings: Sequence[bytes]) -> bytes:
    pairs = zip(strings, literals[1:], strict=True)
    return literals[0] + b"".join(string + literal for string, literal in pairs)


def _bytes(text: str, *, halves: bool) -> bytes:
    r"""Return a string as bytes; it contains halves of characters as ``\x..``."""
    if not halves or "\\x" not in text:
        return text.encode()
    parts = _HALF.split(text)
    return b"".join(bytes.fromhex(part) if i % 2 else part.encode() for i, part in enumerate(parts))


def _shown(family: Family) -> str:
    """Return a family as a template, for messages."""
    if family.kind in ("bos", "eos"):
        return repr(family.kind.upper())
    member = family.members[0]
    holes = [f"%x[{p.offset},{s}]" for s, p in zip(family.sources, member, strict=True)]
    text = family.literals[0] + "".join(
        h + t for h, t in zip(holes, family.literals[1:], strict=True)
    )
    return repr(text)

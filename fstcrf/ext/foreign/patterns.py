"""Models of CRF++ and Wapiti (patterns, texts and weights) as CRFs over columns.

Both programs identify an attribute by its text: a pattern with filled holes. A CRF of fstcrf
identifies it by the strings in the holes. A text may be cut into such strings in several ways
(``a/b/c`` at ``%x[0,0]/%x[1,0]``) and may belong to several patterns; each way is a row with the
same weights.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Longs, Ragged
from fstcrf.errors import ModelFileError, OptionError, TemplateError
from fstcrf.kernel import padded
from fstcrf.machines.topology import chain_topology
from fstcrf.taggers import CRF
from fstcrf.text.features import FeatureIndex, Macro, Template, TemplateSet
from fstcrf.text.features.bytewise import show
from fstcrf.text.features.derive import Derived, Source, resolved, root
from fstcrf.text.features.keys import KeyTable, Packing, Vocabulary, width_of
from fstcrf.text.features.reader import (
    Boundary,
    Family,
    families,
    pad_names,
    pad_texts,
    padding,
    sources,
)
from fstcrf.text.features.tables import AttributeTables, Vocabularies
from fstcrf.training.problem import ParameterSpace

_FEW_PAIRS = 10_000
_SHOWN = 40


def check_labels(labels: Sequence[str], size: int, where: str) -> None:
    """Check labels before tables of their pairs are made."""
    if not labels or not all(labels) or len(set(labels)) < len(labels):
        raise ModelFileError(f"{where}: labels must be distinct, not empty, and at least one")
    if len(labels) ** 2 > _FEW_PAIRS + size:
        raise ModelFileError(f"{where}: {len(labels)} labels in a file of {size} bytes")


def decoded(data: bytes, encoding: str, where: str, what: str) -> str:
    """Return bytes of a file as text."""
    try:
        text = data.decode(encoding)
    except UnicodeError:
        raise ModelFileError(
            f"{where}: {what} {shown(data)} is not {encoding}: give the model's encoding"
        ) from None
    if "\n" in text or "\0" in text:
        raise ModelFileError(f"{where}: {what} {shown(data)} is not one line of text")
    return text


def shown(data: bytes) -> str:
    """Return bytes of a file as a message shows them."""
    return repr(data[:_SHOWN])[1:]


# --- Weights --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SparseWeights:
    """The weights that are not zero."""

    numbers: Longs  # int64 [n], rising
    values: Floats  # float64 [n], natural-log scores

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, weights: Floats) -> SparseWeights:
        """Return the sparse form of a dense vector."""
        numbers = np.flatnonzero(weights)
        return cls(numbers, weights[numbers])

    def counts(self, first: Longs, size: int) -> Longs:
        """Return the number of stored weights in each range of `size` numbers, int64 [R]."""
        begin, end = self._bounds(first, size)
        return end - begin

    def cells(self, first: Longs, size: int, stride: int) -> tuple[Longs, Floats]:
        """Lay blocks of weights out as rows of `size` weights of a table with `stride` columns.

        Returns cells, ``row * stride + column``, rising, and their values; `first` is the number of
        each row's first weight.
        """
        begin, end = self._bounds(first, size)
        blocks = Ragged.from_lengths(end - begin)
        rows, places = blocks.rows(), blocks.ranges(begin)
        return rows * stride + self.numbers[places] - first[rows], self.values[places]

    def _bounds(self, first: Longs, size: int) -> tuple[Longs, Longs]:
        begin = np.searchsorted(self.numbers, first)
        return begin, np.searchsorted(self.numbers, first + size)


# --- Patterns -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hole:
    """One place of a pattern."""

    source: Source  # the source of its string; columns by number
    offset: int  # relative to the token; or a place of the sentence, from 1 or from its end at −1
    absolute: bool = False  # which of the two


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A pattern, of attributes of labels or of label pairs."""

    kind: Literal["node", "arc"]
    text: str  # as the file has it, for messages
    literals: tuple[bytes, ...]  # [m + 1], the text around the holes
    holes: tuple[Hole, ...] = ()  # [m]


@dataclass(frozen=True, slots=True, eq=False)
class PatternModel:
    """The contents of a tagger's file."""

    labels: tuple[str, ...]  # in the order of the file
    patterns: tuple[TextPattern, ...]  # those on labels and those on label pairs
    attributes: list[bytes]  # texts, sorted, each once
    # node_first, arc_first: int64 [A], number of each attribute's first weight on a label (L of
    # them) and on a label pair (L², the later label faster); −1 without such weights
    node_first: Longs
    arc_first: Longs
    weights: SparseWeights  # natural-log scores
    n_columns: int  # columns that the patterns may read
    boundary: Boundary  # the values outside a sentence
    encoding: str  # of all texts
    size: int  # bytes of the file
    where: str  # name of the file, for messages

    def first(self, kind: Literal["node", "arc"]) -> Longs:
        """Return the number of each attribute's first weight of a kind, −1 without one."""
        return self.node_first if kind == "node" else self.arc_first

    def block(self, kind: Literal["node", "arc"]) -> int:
        """Return the number of weights of a kind of an attribute."""
        return len(self.labels) if kind == "node" else len(self.labels) ** 2


# --- Cuts -----------------------------------------------------------------------------------------

_ALWAYS = 1000

Choices: TypeAlias = Sequence[Collection[bytes] | None]


class CutBudget:
    """The limit of a model's cuts: no file may request more memory than its size justifies."""

    def __init__(self, size: int, where: str) -> None:
        self._left = _ALWAYS + size // 2
        self._where = where

    def spend(self, count: int, pattern: str) -> None:
        """Take some away."""
        self._left -= count
        if self._left < 0:
            raise ModelFileError(
                f"{self._where}: the texts of pattern {pattern!r} can be cut in too many ways: "
                "its places need text between them"
            )


def cuts(text: bytes, literals: Sequence[bytes], choices: Choices) -> Iterator[tuple[bytes, ...]]:
    """Yield the strings between the literals, for every way of cutting the text.

    The first literal begins the text, the last ends it; the choice `None` allows any string.
    """
    first, last = literals[0], literals[-1]
    if len(literals) == 1:
        if text == first:
            yield ()
        return
    end = len(text) - len(last)
    if end < len(first) or not (text.startswith(first) and text.endswith(last)):
        return
    if len(literals) == 2:  # most patterns
        string = text[len(first) : end]
        if choices[0] is None or string in choices[0]:
            yield (string,)
        return
    latest = _latest(text, literals[1:-1], len(first), end)
    if latest is not None:
        yield from _between(
            text, len(first), end, list(zip(literals[1:-1], latest, strict=True)), choices
        )


def _latest(text: bytes, middle: Sequence[bytes], begin: int, end: int) -> list[int] | None:
    """Return the last possible place of each literal; `None` if they do not fit."""
    places: list[int] = []
    for literal in reversed(middle):
        end = text.rfind(literal, begin, end)
        if end < 0:
            return None
        places.append(end)
    return places[::-1]


def _between(
    text: bytes, begin: int, end: int, middle: Sequence[tuple[bytes, int]], choices: Choices
) -> Iterator[tuple[bytes, ...]]:
    """Yield the strings from `begin` to `end`, cut at literals, each with its last place.

    Apart from choices, a literal is only placed if the remaining literals still fit.
    """
    choice = choices[0]
    if not middle:
        if choice is None or text[begin:end] in choice:
            yield (text[begin:end],)
        return
    (literal, latest), place = middle[0], begin
    while (place := text.find(literal, place, latest + len(literal))) >= 0:
        if choice is None or text[begin:place] in choice:
            for rest in _between(text, place + len(literal), end, middle[1:], choices[1:]):
                yield text[begin:place], *rest
        place += 1


# --- Strings between the literals -----------------------------------------------------------------


class _Strings:
    """The strings of one source: the pads, then others in order of appearance.

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
        """The possible strings; `None` if any string is possible."""
        return (b"true", b"false") if self._is_test else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The strings, in the order of their numbers."""
        return tuple(self._numbers)

    def numbers(self, piece: bytes, hole: Hole) -> tuple[int, ...]:
        """Return the numbers that a piece of an attribute's text may represent.

        These are the numbers of the possible pads of the hole with this text, and the number of the
        string, unless it is the name of such a pad. `None` if no string of this encoding has these
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
    """The attributes of labels, or of label pairs."""

    tables: AttributeTables
    attribute: Longs  # int64 [tables.n_rows], place of each row's text in the model


@dataclass(frozen=True, slots=True)
class _Cut:
    """The texts of one pattern, cut: the attribute of each cut, and the number of each string."""

    attribute: Longs
    codes: list[NDArray[np.uint64]]


def _sides(model: PatternModel, templates: TemplateSet) -> tuple[_Side, _Side]:
    """Return the attributes of labels and the attributes of label pairs.

    Attributes whose weights are all zero are left out.
    """
    node, arc = families(templates, arc=False), families(templates, arc=True)
    cutter = _Cutter(model, sources((*node, *arc)), padding(model.boundary, (*node, *arc)))
    node_cuts, arc_cuts = cutter.cuts("node", node), cutter.cuts("arc", arc)
    cutter.check()
    # The bits of a number depend on the strings of all sources, which are known only now.
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
        packing = Packing.of_codes(widths, cut.codes, len(cut.attribute))
        keys, _ = packing.pack(cut.codes, len(cut.attribute))
        # Two texts have one key only where halves of a character are shown as text.
        keys, first = np.unique(keys, return_index=True)
        packings.append(packing)
        tables.append(KeyTable.of(keys, total))
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

    Each pattern is a family: CRF++ and Wapiti count an attribute of two patterns twice, and so two
    rows count once each. So patterns of the same text and columns get a number: ``U:%x[-1,0]``,
    ``U#2:%x[1,0]``.
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
    # `fstcrf.text.features.reader` describes families.
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
    """Return a model as a CRF over columns, with the same answers."""
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
    rows = node.tables.n_rows, arc.tables.n_rows
    topology = chain_topology(model.labels, order)
    space = ParameterSpace(topology, *rows, node_cells, slots, arc_cells)
    index = FeatureIndex(templates, model.boundary, node=node.tables, arc=arc.tables)
    theta = np.concatenate([node_weights, transitions[slots], arc_weights])
    return CRF(space.topology, index, space, theta, tape, names)


def _transitions(model: PatternModel) -> Floats:
    """Return the total weight of each label pair from patterns without holes, float64 [L²]."""
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

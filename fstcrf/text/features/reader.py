"""A corpus seen through templates: the string or number at each position.

Templates that share attributes are a *family*. An attribute is a text: ``U:%x[-1,word]`` and
``U:%x[1,word]`` give the same text for the same word, so they share their attributes, as in CRF++;
a bag ``U:%x{-4..-1,word}`` is such a family of four members. Templates of equal text that read
*different* columns are different families.

``%d`` in a template reads strings beyond the ends of a sentence, within its document. Functions cut
a corpus into runs of sentences. So the strings around each token are stored as columns while
documents are whole: the column ``%d[-1,word]`` has the word before each token. Its strings are
strings of ``word``; outside the document they are ``_B-1``, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, Singles
from fstcrf.errors import DataError, TemplateError
from fstcrf.lazy import made_once
from fstcrf.text.corpus.corpus import Column, Corpus
from fstcrf.text.features.derive import Plain, Source, is_multiple, root, strings_of
from fstcrf.text.features.design import Block
from fstcrf.text.features.template import Macro, Template, TemplateKind, TemplateSet, tape_column


def surrounding_column(name: str, offset: int) -> str:
    """Return the name of the corpus column for an offset in the document.

    Examples
    --------
    >>> surrounding_column("word", -1)
    '%d[-1,word]'
    """
    return f"%d[{offset},{name}]"


def is_surrounding(column: str) -> bool:
    """Return whether a corpus column has the strings around the tokens of another column."""
    return column.startswith("%d[")


def with_surroundings(corpus: Corpus, templates: TemplateSet) -> Corpus:
    """Return a corpus with added columns of the strings that templates read around tokens.

    Existing columns are kept: the corpus may be a part of a document.

    Parameters
    ----------
    corpus : Corpus
        A corpus of whole documents; without document numbers it is one document.
    templates : TemplateSet
        Templates over missing columns add no column.
    """
    if not templates.reads_documents:
        return corpus
    columns = dict(corpus.columns)
    document: Longs | None = None
    for name, offset in _read(templates, tuple(columns)):
        if (made := surrounding_column(name, offset)) in columns:
            continue
        if document is None:
            document = _bounds(corpus)
        columns[made] = _moved(columns[name], offset, *document)
    return corpus if document is None else corpus.changed(columns=columns)


def pad_number(string: str, offset: int, reach: int) -> int | None:
    """Return the number of a pad string, one of 2 · reach; `None` for text.

    Pads before the document have the first numbers, the nearest one first.
    """
    sign = "_B-" if offset < 0 else "_B+"
    if not string.startswith(sign) or not string[3:].isdecimal():
        return None
    distance = int(string[3:])
    if not 1 <= distance <= abs(offset):
        return None
    return distance - 1 + (reach if offset > 0 else 0)


def surrounded(name: str, columns: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the columns that have strings around the tokens of a column, with their offsets."""
    for other in columns:
        offset, comma, rest = other.removeprefix("%d[").partition(",")
        if is_surrounding(other) and comma and rest == f"{name}]":
            yield other, int(offset)


def _read(templates: TemplateSet, columns: Sequence[str]) -> Iterable[tuple[str, int]]:
    """Return the columns and offsets that templates read, each once; offset 0 is the token."""
    plain = [name for name in columns if not name.startswith(("%y[", "%d["))]
    places: dict[tuple[str, int], None] = {}
    for macro in (macro for template in templates for macro in template.macros if macro.document):
        column = root(macro.source)
        numbered = isinstance(column, int) and column < len(plain)
        name = plain[int(column)] if numbered else str(column)
        if name in plain:
            offsets = range(macro.first, macro.last + 1)
            places |= dict.fromkeys((name, offset) for offset in offsets if offset)
    return places


def _bounds(corpus: Corpus) -> Longs:
    """Return the first and the end token of each token's document, int64 [2, N]."""
    slices = corpus.document_slices()
    first = corpus.offsets[[part.start for part in slices]]
    end = corpus.offsets[[part.stop for part in slices]]
    return np.repeat(np.stack([first, end]), end - first, axis=1)


def _moved(column: Column, offset: int, first: Longs, end: Longs) -> Column:
    place = np.arange(len(column.ids)) + offset
    # The k-th token outside has the k-th of the added strings.
    outside = np.where(offset < 0, first - place, place - end + 1)
    inside = outside <= 0
    ids = np.where(
        inside,
        column.ids[np.where(inside, place, 0)] if len(place) else 0,
        len(column.values) + outside - 1,
    )
    pads = [f"_B{'+' if offset > 0 else '-'}{k}" for k in range(1, abs(offset) + 1)]
    return Column(ids.astype(np.int32), (*column.values, *pads))


Boundary = Literal["pad", "skip", "wapiti"]
BOUNDARIES = ("pad", "skip", "wapiti")
_FARTHEST = 4  # Wapiti has one name for all positions farther outside
_FIXED_TEXT = {"bos": "__BOS__", "eos": "__EOS__"}


class Position(NamedTuple):
    """The position of a string that a family member reads."""

    offset: int  # position relative to the token
    # Whether a position outside the sentence may yield ``_B-1``; in a bag it yields no string.
    pads: bool
    # The offset is a position in the sentence, from 1, or from its end at −1.
    absolute: bool = False
    document: bool = False  # may be in another sentence of the document


@dataclass(frozen=True, slots=True)
class Family:
    """Templates that share attributes."""

    kind: TemplateKind  # of its templates
    literals: tuple[str, ...]  # [m + 1]: text around the strings of an attribute
    # [m]: source of each string; a tape is a column named by `tape_column`.
    sources: tuple[Source, ...] = ()
    values: tuple[Macro, ...] = ()  # numbers that multiply the attribute
    members: tuple[tuple[Position, ...], ...] = ((),)  # [m]: offsets of each member

    @property
    def identity(self) -> str:
        """Text that distinguishes the family from others, without offsets."""
        return "\0".join([*self.literals, *map(str, self.sources), *map(str, self.values)])

    def attribute(self, strings: Sequence[str]) -> str:
        """Return the text of the attribute with these strings."""
        pairs = zip(strings, self.literals[1:], strict=True)
        return self.literals[0] + "".join(s + literal for s, literal in pairs)

    def readings(self, attribute: str) -> Iterator[tuple[str, ...]]:
        """Yield the strings of an attribute, for every way to split its text."""
        if attribute.startswith(self.literals[0]):
            yield from _cuts(attribute[len(self.literals[0]) :], self.literals[1:])

    @property
    def columns(self) -> set[str]:
        """Columns of the corpus that the family reads."""
        read = (*self.sources, *(macro.source for macro in self.values))
        return {str(root(source)) for source in read}

    @property
    def is_plural(self) -> bool:
        """Whether a token may have several of its attributes, or one of them twice."""
        return len(self.members) > 1 or any(is_multiple(s) for s in self.sources)

    @property
    def is_absolute(self) -> bool:
        """Whether it reads a fixed position of the sentence, the same for all its tokens."""
        return any(place.absolute for member in self.members for place in member)

    @property
    def is_wide(self) -> bool:
        """Whether it reads past the ends of a sentence."""
        return any(place.document for member in self.members for place in member)


def families(templates: TemplateSet, *, arc: bool) -> tuple[Family, ...]:
    """Return the families of the templates on labels, or on label pairs, in their order."""
    members: dict[Family, list[tuple[Position, ...]]] = {}
    for template in templates:
        if (template.kind == "arc") == arc:
            family = _family(template)
            members.setdefault(family, []).extend(_members(template))
    return tuple(
        Family(f.kind, f.literals, f.sources, f.values, tuple(dict.fromkeys(places)))
        for f, places in members.items()
    )


def padding(boundary: Boundary, group: Iterable[Family]) -> int:
    """Return the largest distance at which positions are padded; 0 without padding."""
    places = [t for family in group for member in family.members for t in member if t.pads]
    return max((abs(t.offset) for t in places), default=0) if boundary != "skip" else 0


def sources(group: Iterable[Family]) -> list[Source]:
    """Return the sources that families read, each once."""
    return list(dict.fromkeys(source for family in group for source in family.sources))


def pad_names(distance: int, boundary: Boundary = "pad") -> list[str]:
    """Return the names of the positions before the sentence, then of those after it.

    Examples
    --------
    >>> pad_names(2)
    ['_B-1', '_B-2', '_B+1', '_B+2']
    >>> pad_names(5, "wapiti")[3:7]
    ['_x-4', '_x-#', '_x+1', '_x+2']
    """
    places = [str(i) for i in range(1, distance + 1)]
    if boundary == "wapiti":
        places[_FARTHEST:] = ["#"] * len(places[_FARTHEST:])
    letter = "x" if boundary == "wapiti" else "B"
    return [f"_{letter}{sign}{place}" for sign in "-+" for place in places]


def pad_texts(source: Source, distance: int, boundary: Boundary) -> list[str]:
    """Return the text of each pad in an attribute; Wapiti also derives strings from pads."""
    names = pad_names(distance, boundary)
    if boundary != "wapiti" or is_multiple(source):
        return names
    make = strings_of(source)
    return [make(name)[0] for name in names]


def _family(template: Template) -> Family:
    if template.kind in _FIXED_TEXT:
        return Family(template.kind, (_FIXED_TEXT[template.kind],))
    literals = [""]
    sources: list[Source] = []
    for part in template.parts:
        if isinstance(part, str):
            literals[-1] += part
        elif part.kind != "value":
            sources.append(_source(part))
            literals.append("")
    values = tuple(m for m in template.macros if m.kind == "value")
    return Family(template.kind, tuple(literals), tuple(sources), values)


def _members(template: Template) -> list[tuple[Position, ...]]:
    choices = [
        [_position(m, offset) for offset in range(m.first, m.last + 1)]
        for m in template.macros
        if m.kind != "value"
    ]
    return list(product(*choices))


def _position(macro: Macro, offset: int) -> Position:
    document = macro.document and offset != 0
    return Position(offset, macro.kind == "x", macro.absolute, document)


def _cuts(text: str, literals: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the strings between the literals, for every match; the last literal ends the text."""
    if not literals:
        if not text:
            yield ()
        return
    head, *rest = literals
    place = len(text) - len(head) if not rest else 0
    while 0 <= (place := text.find(head, place)) <= len(text):
        for strings in _cuts(text[place + len(head) :], tuple(rest)):
            yield text[:place], *strings
        place += 1


def _source(macro: Macro) -> Source:
    if macro.kind == "tape":
        return Plain(tape_column(str(root(macro.source))))
    return macro.source


# --- Strings at offsets ---------------------------------------------------------------------------
# A position has a *local* number: a string outside the sentence (a pad) is below ``2 * reach``, the
# column's strings follow, −1 means no string.

_SPARSE = 4


class OffsetColumn(NamedTuple):
    """The strings at one offset of every token."""

    numbers: Ints  # [N]: local numbers
    complete: bool  # whether no number is −1


class Reader:
    """One pass over a corpus; caches data that several templates need.

    `reach`: largest distance of pads outside the sentence; 0: no pads.
    """

    def __init__(self, corpus: Corpus, *, reach: int) -> None:
        self.corpus = corpus
        self.n_tokens = corpus.n_tokens
        self.reach = reach
        self._columns: dict[str, Column] = {}
        self._made: dict[Source, list[list[str]]] = {}
        self._local: dict[tuple[str, Position], OffsetColumn] = {}
        # Strings around tokens in the document: local numbers; -2 - k for the k-th pad.
        self._surroundings: dict[tuple[str, int], Ints] = {}

    @made_once
    def _before(self) -> Ints:
        """Number of tokens before each token in its sentence."""
        return Ragged(self.corpus.offsets).ranges().astype(np.int32)

    @made_once
    def _after(self) -> Ints:
        """Number of tokens after each token in its sentence."""
        rows = Ragged(self.corpus.offsets)
        return (rows.repeat(rows.lengths) - 1 - rows.ranges()).astype(np.int32)

    def column(self, name: str) -> Column:
        """Return a column restricted to strings that occur at tokens or around them."""
        if name not in self._columns:
            if name not in self.corpus.columns:
                columns = ", ".join(map(repr, self.corpus.columns)) or "none"
                raise TemplateError(
                    f"the templates read column {name!r}; there are {columns}",
                    path=self.corpus.source,
                )
            used = without_unused(self.corpus.columns[name])
            self._check_strings(name, used)
            self._columns[name] = self._with_surroundings(name, used)
        return self._columns[name]

    def _check_strings(self, name: str, column: Column) -> None:
        try:
            "".join(column.values)  # faster than checking each type
        except TypeError:
            values: tuple[object, ...] = column.values
            odd = next(i for i, value in enumerate(values) if not isinstance(value, str))
            raise DataError(
                f"column {name!r} is {column.values[odd]!r}, expected a string",
                **self._where(int(np.argmax(column.ids == odd))),
            ) from None

    def _with_surroundings(self, name: str, column: Column) -> Column:
        """Return a column with the strings that occur only around tokens; remember these."""
        number: dict[str, int] = {}
        for other, offset in surrounded(name, self.corpus.columns):
            number = number or {string: k for k, string in enumerate(column.values)}
            used = without_unused(self.corpus.columns[other])
            numbers = [
                number.setdefault(string, len(number)) + 2 * self.reach if pad is None else -2 - pad
                for string in used.values
                for pad in [pad_number(string, offset, max(self.reach, abs(offset)))]
            ]
            self._surroundings[name, offset] = np.asarray(numbers, dtype=np.int32)[used.ids]
        return Column(column.ids, tuple(number)) if number else column

    def made(self, source: Source) -> list[list[str]]:
        """Return the strings that a source derives from each string of its column."""
        if source not in self._made:
            self._made[source] = list(
                map(remembered(source), self.column(str(root(source))).values)
            )
        return self._made[source]

    def strings(self, source: Source) -> list[str]:
        """Return the distinct strings that a source derives in the corpus."""
        return list(dict.fromkeys(chain.from_iterable(self.made(source))))

    def at(self, source: Source, place: Position) -> OffsetColumn:
        """Return the local numbers of the column of a source at an offset."""
        name = str(root(source))
        place = place._replace(pads=place.pads and self.reach > 0)
        if (name, place) not in self._local:
            ids = self.column(name).ids
            if place.document:
                self._local[name, place] = self._surrounding(name, place)
            else:
                local = self._placed if place.absolute else self._shifted
                self._local[name, place] = local(ids, place)
        return self._local[name, place]

    def firing(self, family: Family) -> Bools | None:
        """Return the tokens at which a family may fire; `None` for all."""
        mask: Bools | None = None
        if family.kind == "bos":
            mask = self._before == 0
        elif family.kind == "eos":
            mask = self._after == 0
        elif family.kind == "arc":
            mask = self._before > 0  # first tokens end no pair of labels
        for macro in family.values:
            local = self.at(macro.source, Position(macro.first, pads=False))
            if not local.complete:
                inside = local.numbers >= 0
                mask = inside if mask is None else mask & inside
        return mask

    def block(self, family: Family, tokens: Ints | None, rows: Ints) -> Block:
        """Return the block of a family's entries; rows of −1 are dropped, repeated ones merged."""
        if len(rows) and int(rows.min()) < 0:
            keep = np.flatnonzero(rows >= 0)
            tokens = keep.astype(np.int32) if tokens is None else tokens[keep]
            rows = rows[keep]
        if family.is_plural:
            tokens, rows = once(tokens, rows)
        return Block(tokens, rows, self._values(family, tokens))

    def _shifted(self, ids: Ints, place: Position) -> OffsetColumn:
        size, step, n_pads = self.n_tokens, abs(place.offset), 2 * self.reach
        kept = max(size - step, 0)
        numbers = np.full(size, -1, dtype=np.int32)
        if place.offset < 0:
            numbers[step:] = ids[:kept] + n_pads
            margin, first_pad = self._before, 0
        else:
            numbers[:kept] = ids[step:] + n_pads
            margin, first_pad = self._after, self.reach
        outside = np.flatnonzero(margin < step)
        numbers[outside] = first_pad + step - margin[outside] - 1 if place.pads else -1
        return OffsetColumn(numbers, place.pads or not len(outside))

    def _placed(self, ids: Ints, place: Position) -> OffsetColumn:
        length = self._before + self._after + 1
        position = place.offset - 1 if place.offset > 0 else length + place.offset
        inside = (position >= 0) & (position < length)
        tokens = np.arange(self.n_tokens) - self._before + np.where(inside, position, 0)
        beyond = self.reach + position - length if place.offset > 0 else -1 - position
        outside = beyond if place.pads else np.int64(-1)
        numbers = np.where(inside, ids[tokens] + 2 * self.reach, outside).astype(np.int32)
        return OffsetColumn(numbers, place.pads or bool(inside.all()))

    def _surrounding(self, name: str, place: Position) -> OffsetColumn:
        numbers = self._surroundings[name, place.offset]
        outside = numbers < 0
        numbers = np.where(outside, -2 - numbers if place.pads else -1, numbers).astype(np.int32)
        return OffsetColumn(numbers, place.pads or not outside.any())

    def _values(self, family: Family, tokens: Ints | None) -> Singles | None:
        """Return the value of each entry; `None` if all are 1."""
        if not family.values:
            return None
        product = np.ones(self.n_tokens if tokens is None else len(tokens))
        for macro in family.values:
            local = self.at(macro.source, Position(macro.first, pads=False)).numbers
            chosen = local if tokens is None else local[tokens]
            product *= self._numbers(macro)[chosen - 2 * self.reach]
        with np.errstate(over="ignore"):
            values = product.astype(np.float32)
        if not np.isfinite(values).all():
            entry = int(np.flatnonzero(~np.isfinite(values))[0])
            token = entry if tokens is None else int(tokens[entry])
            raise DataError(f"the value {product[entry]} exceeds float32", **self._where(token))
        return values

    def _numbers(self, macro: Macro) -> Floats:
        column = self.column(str(root(macro.source)))
        function = strings_of(macro.source)
        numbers = np.array([_number(function(v)[0]) for v in column.values], dtype=np.float64)
        if not np.isfinite(numbers).all():
            token = int(np.flatnonzero(~np.isfinite(numbers)[column.ids])[0])
            text = column.values[column.ids[token]]
            raise DataError(
                f"column {root(macro.source)!r} is {text!r}, expected a finite number for {macro}",
                **self._where(token),
            )
        return numbers

    def _where(self, token: int) -> dict[str, Any]:
        return cast("dict[str, Any]", self.corpus.where(token))


def once(tokens: Ints | None, rows: Ints) -> tuple[Ints, Ints]:
    """Return entries sorted by token and row, without duplicates."""
    if tokens is None:
        tokens = np.arange(len(rows), dtype=np.int32)
    size = int(rows.max(initial=0)) + 1
    pairs = np.sort(tokens.astype(np.int64) * size + rows)
    first = np.ones(len(pairs), dtype=bool)
    np.not_equal(pairs[1:], pairs[:-1], out=first[1:])
    kept_tokens, kept_rows = np.divmod(pairs[first], size)
    return kept_tokens.astype(np.int32), kept_rows.astype(np.int32)


@lru_cache(maxsize=64)
def remembered(source: Source) -> Callable[[str], list[str]]:
    """Return a cached function from a string to the strings of a source, shared by taggers."""
    make = strings_of(source)
    return make if isinstance(source, Plain) else lru_cache(maxsize=50_000)(make)


def without_unused(column: Column) -> Column:
    """Return a column without strings that no token has."""
    ids: NDArray[np.integer[Any]] = column.ids
    values = column.values
    if len(values) > _SPARSE * len(ids):  # one sentence of a large corpus
        used, ids = np.unique(ids, return_inverse=True)
    else:
        used = np.flatnonzero(np.bincount(ids, minlength=len(values)))
        if len(used) == len(values):
            return column
        place = np.zeros(len(values), dtype=np.int32)
        place[used] = np.arange(len(used), dtype=np.int32)
        ids = place[ids]
    return Column(ids.astype(np.int32), tuple([values[i] for i in used.tolist()]))


def _number(text: str) -> float:
    """Return the number that a text represents, or NaN."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


# --- Numbers of strings ---------------------------------------------------------------------------
# The strings that a source derives from its column are a table indexed by local number, so that a
# derived column costs one gather a token.


class Coder(Protocol):
    """Assigns numbers to the strings of a source."""

    def pads(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """Return the numbers of the pads outside a sentence."""

    def codes(self, source: Source, strings: Sequence[str]) -> tuple[NDArray[np.uint64], Bools]:
        """Return the numbers of strings, and a mask of the strings that have one."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The attributes of one family."""

    # [n]: token of each entry, sorted within each member; ``0 .. n - 1`` if `None`.
    tokens: Ints | None
    codes: list[NDArray[np.uint64]]  # [n]: their numbers, one array per macro
    count: int  # number of entries, n


@dataclass(frozen=True, slots=True)
class _Symbols:
    """The table of a source from local numbers to its numbers.

    Local number ``i`` has ``codes[first[i] : first[i + 1]]``. For a single-valued source `first` is
    `None`: ``codes[i]`` is the number if ``defined[i]``, and the last entry of both arrays is for
    local number −1.
    """

    codes: NDArray[np.uint64]
    defined: Bools
    first: Longs | None = None

    def present(self, local: OffsetColumn) -> Bools | None:
        """Return the tokens that may have a number; `None` for all."""
        if self.first is not None:
            return None if local.complete else local.numbers >= 0
        everywhere = local.complete and bool(self.defined[:-1].all())
        return None if everywhere else self.defined[local.numbers]


class Encoder:
    """The attributes of families over one corpus; the coder numbers the strings."""

    def __init__(self, reader: Reader, coder: Coder) -> None:
        self.reader = reader
        self._coder = coder
        self._symbols: dict[Source, _Symbols] = {}

    def entries(self, family: Family) -> Entries:
        """Return the attributes of a family, member by member."""
        several = [self._member(family, places) for places in family.members]
        if len(several) == 1:
            return several[0]
        tokens = np.concatenate(
            [np.arange(e.count, dtype=np.int32) if e.tokens is None else e.tokens for e in several]
        )
        codes = [np.concatenate([e.codes[i] for e in several]) for i in range(len(family.sources))]
        return Entries(tokens, codes, len(tokens))

    def _member(self, family: Family, places: tuple[Position, ...]) -> Entries:
        pairs = list(zip(family.sources, places, strict=True))
        symbols = [self._of(source) for source in family.sources]
        locals_ = [self.reader.at(source, place) for source, place in pairs]
        mask = self.reader.firing(family)
        for symbol, local in zip(symbols, locals_, strict=True):
            present = symbol.present(local)
            if present is not None:
                mask = present if mask is None else mask & present
        tokens = None if mask is None else np.flatnonzero(mask).astype(np.int32)
        count = self.reader.n_tokens if tokens is None else len(tokens)
        chosen = [k.numbers if tokens is None else k.numbers[tokens] for k in locals_]
        if any(symbol.first is not None for symbol in symbols):
            return _multiplied(tokens, symbols, chosen, count)
        codes = [symbol.codes[local] for symbol, local in zip(symbols, chosen, strict=True)]
        return Entries(tokens, codes, count)

    def _of(self, source: Source) -> _Symbols:
        if source not in self._symbols:
            self._symbols[source] = self._made(source)
        return self._symbols[source]

    def _made(self, source: Source) -> _Symbols:
        pads = pad_names(self.reader.reach)
        made = self.reader.made(source)
        codes, in_vocabulary = self._coder.codes(source, list(chain.from_iterable(made)))
        codes = np.concatenate([self._coder.pads(pads), codes])
        in_vocabulary = np.concatenate([np.ones(len(pads), dtype=np.bool), in_vocabulary])
        if not is_multiple(source):
            return _Symbols(np.append(codes, np.uint64(0)), np.append(in_vocabulary, np.False_))
        strings = Ragged.from_lengths([1] * len(pads) + [len(each) for each in made])
        return _Symbols(
            codes[in_vocabulary], in_vocabulary, strings.filtered(in_vocabulary).offsets
        )


def _multiplied(
    tokens: Ints | None, symbols: Sequence[_Symbols], chosen: Sequence[Ints], count: int
) -> Entries:
    """Return one entry for each choice among the strings of the multi-valued sources."""
    entry = np.arange(count)
    codes: list[NDArray[np.uint64]] = []
    for symbol, local in zip(symbols, chosen, strict=True):
        here = local[entry]
        if symbol.first is None:
            codes.append(symbol.codes[here])
            continue
        strings = Ragged(symbol.first)
        copies = strings.select(here).rows()
        codes = [code[copies] for code in codes]
        codes.append(symbol.codes[strings.entries(here)])
        entry = entry[copies]
    repeated = entry.astype(np.int32) if tokens is None else tokens[entry]
    return Entries(repeated, codes, len(repeated))

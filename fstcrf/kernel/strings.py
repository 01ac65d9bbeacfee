"""Strings and column files: bytes to numbers, numbers to bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np

from fstcrf.arrays import Bytes, Ints, Longs, Ragged
from fstcrf.errors import DataError, FstcrfError, ShapeError
from fstcrf.kernel.native import array_in, array_out, check, ffi, frozen, lib

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData


_ROOM = 1 << 10
_LINE_END = 10


class Strings:
    """Distinct strings as UTF-8, numbered by first appearance; `read_lines` adds to them.

    It starts from strings ``text[offsets[k] : offsets[k + 1]]``, no two the same.
    """

    def __init__(self, text: Bytes | None = None, offsets: Longs | None = None) -> None:
        self._text = np.empty(8 * _ROOM, dtype=np.uint8) if text is None else text
        bounds = np.zeros(_ROOM + 1, dtype=np.int64) if offsets is None else frozen(offsets)
        # a copy if others could write to it, because each search reads them
        self._offsets: Longs = bounds
        self.view = ffi.new("fc_strings *")
        self.view.count = 0 if offsets is None else len(offsets) - 1
        self._hash()

    def __len__(self) -> int:
        return int(self.view.count)

    @property
    def offsets(self) -> Longs:
        """Start of each string in `text`, int64 [n + 1]."""
        return self._offsets[: len(self) + 1]

    @property
    def text(self) -> Bytes:
        """The bytes of all strings."""
        return self._text[: self._offsets[len(self)]]

    def strings(self) -> tuple[str, ...]:
        """Return the strings in the order of their numbers."""
        data, bounds = self.text.tobytes(), self.offsets.tolist()
        if data.isascii():
            text = data.decode("ascii")
            return tuple([text[a:b] for a, b in pairwise(bounds)])
        return tuple([data[a:b].decode() for a, b in pairwise(bounds)])

    def numbers(self, text: Bytes, offsets: Longs) -> Longs:
        """Return the ids of other strings, int64 [m], −1 for unknown ones."""
        out = np.empty(len(offsets) - 1, dtype=np.int64)
        status = lib.fc_find_strings(
            self.view,
            len(out),
            array_in(offsets, np.int64, offsets.shape, "offsets"),
            array_in(text, np.uint8, text.shape, "text"),
            len(text),
            array_out(out),
        )
        check(status, "looking strings up")
        return out

    def grow(self, size: int) -> None:
        """Make room for more strings, among them one of `size` bytes."""
        n, used = len(self), len(self.text)
        offsets = np.zeros(4 * n + _ROOM, dtype=np.int64)
        offsets[: n + 1] = self.offsets
        text = np.empty(4 * used + 8 * _ROOM + size, dtype=np.uint8)
        text[:used] = self.text
        self._text, self._offsets = text, offsets
        self._hash()

    def _hash(self) -> None:
        room = len(self._offsets) - 1
        slots = np.empty(1 << (2 * room).bit_length(), dtype=np.uint64)
        view, where = self.view, ffi.new("int64_t *")
        view.room, view.space, view.slots = room, len(self._text), len(slots)
        self._memory = (
            array_out(slots),
            array_in(self._offsets, np.int64, (room + 1,), "offsets"),
            array_in(self._text, np.uint8, self._text.shape, "text"),
        )
        view.slot, view.offset, view.text = self._memory
        if lib.fc_hash_strings(view, where) != lib.FC_OK:
            raise ShapeError(f"string {where[0]} is there twice, or the offsets do not fit")


def line_count(data: bytes) -> int:
    """Count line ends, five times faster than `bytes.count` if lines are short."""
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == _LINE_END))


def pack_strings(
    strings: Sequence[str], *, surrogates: Literal["strict", "surrogatepass"] = "strict"
) -> tuple[Bytes, Longs]:
    """Return strings as one blob of UTF-8, and offsets, int64 [n + 1].

    "surrogatepass" gives lone surrogates bytes that are not UTF-8; otherwise they are a DataError.
    """
    try:
        joined = "".join(strings)
    except TypeError:
        odd = next(value for value in cast("Sequence[object]", strings) if type(value) is not str)
        raise DataError(f"{odd!r} is not a string") from None
    sizes: Iterable[int]
    if joined.isascii():
        blob, sizes = joined.encode(), map(len, strings)
    else:
        try:
            blob = joined.encode(errors=surrogates)
        except UnicodeEncodeError as error:
            odd = next(s for s in strings if joined[error.start] in s)
            raise DataError(f"{odd!r} holds a lone surrogate: it is not Unicode") from None
        sizes = [len(s) if s.isascii() else len(s.encode(errors=surrogates)) for s in strings]
    return np.frombuffer(blob, dtype=np.uint8), Ragged.from_lengths(sizes).offsets


class RowError(FstcrfError):
    """A line with the wrong number of fields, or an empty one.

    Parameters
    ----------
    line : int
        Number of the line, from 0.
    fields : int
        Number of fields.
    empty : int or None
        Index of an empty field, if the number is right.
    row : int
        Number of rows before the line.
    """

    def __init__(self, line: int, fields: int, *, empty: int | None, row: int) -> None:
        super().__init__(f"line {line} has {fields} fields")
        self.line = line
        self.row = row
        self.fields = fields
        self.empty = empty


class Lines(NamedTuple):
    """Contents of lines."""

    ids: list[Ints]  # [N] string id of each token, for each column
    lines: Longs  # [N] line of each token, from 0
    starts: Longs  # [S] first token of each sentence
    blank_lines: Ints  # [S] blank lines after each sentence, up to the next other line
    headers: Longs  # [H] lines that open a document


def read_lines(
    data: bytes, strings: Sequence[Strings], *, separator: bytes = b"", mark: bytes = b""
) -> Lines:
    """Return the fields of lines as numbers.

    RowError is raised for the first bad line. All lines end in a line feed. Each field has its own
    Strings, to which new strings are added. If `separator` is empty, any run of blanks and tabs
    separates fields. `mark` is the first field of lines that open a document; if it is empty, no
    line does.
    """
    n = line_count(data)
    ids = np.empty((len(strings), n), dtype=np.int32)
    lines, starts, headers = (np.empty(n, dtype=np.int64) for _ in range(3))
    blank = np.empty(n, dtype=np.int32)
    columns = ffi.new("fc_strings[]", [s.view[0] for s in strings])
    fields = {
        "text": ffi.from_buffer("uint8_t[]", data),
        "separator": ffi.from_buffer("uint8_t[]", separator),
        "mark": ffi.from_buffer("uint8_t[]", mark),
        "strings": columns,
        "ids": array_out(ids),
        "token_line": array_out(lines),
        "start": array_out(starts),
        "blank": array_out(blank),
        "header": array_out(headers),
    }
    sizes = {"size": len(data), "lines": n, "C": len(strings)}
    texts = {"n_separator": len(separator), "n_mark": len(mark)}
    state = ffi.new("fc_lines *", {**sizes, **texts, **fields})
    while (status := lib.fc_read_lines(state)) == lib.FC_EFULL:
        _make_room(data, state, columns, strings)
    for column, view in zip(strings, columns, strict=True):
        column.view.count = view.count
    if status == lib.FC_EROW:
        count, n_fields = state.found, len(strings)
        wrong, empty = (count, None) if count >= 0 else (n_fields, ~count)
        raise RowError(state.line, wrong, empty=empty, row=state.tokens)
    check(status, "reading lines", state.line)
    tokens, sentences = state.tokens, state.sentences
    return Lines(
        [ids[c, :tokens] for c in range(len(strings))],
        lines[:tokens],
        starts[:sentences],
        blank[:sentences],
        headers[: state.headers],
    )


def _make_room(data: bytes, state: CData, columns: CData, strings: Sequence[Strings]) -> None:
    longest = data.index(b"\n", state.at) - state.at
    for c, column in enumerate(strings):
        column.view.count = columns[c].count
        if column.view.room == column.view.count or column.view.space < longest + len(column.text):
            column.grow(longest)
            columns[c] = column.view[0]


class Forms(NamedTuple):
    """The surface text of S sentences: M forms, each of one token or several."""

    offsets: Longs  # [S + 1] first form of each sentence
    begin: Longs  # [M] start of the form in `data`
    size: Longs  # [M] its bytes
    covered: Longs  # [M] number of tokens that it covers
    spaced: Bytes  # [M] 1: a space follows
    data: Bytes


def located_forms(
    forms: Forms, starts: Longs, texts: Mapping[int, bytes], opens: Bytes, position: int
) -> tuple[Ints, int]:
    """Return start and end of each token in its document, int32 [N, 2], and the next position.

    Positions count characters; the tokens of a sentence whose text does not match get -1. `starts`
    are the first tokens, int64 [S + 1]; `texts` are texts of some sentences, the others are built
    from the forms; `opens` marks sentences that open a document, uint8 [S]. DataError: a document
    of 2^31 characters.
    """
    n, chars = len(opens), np.empty((int(starts[-1]), 2), dtype=np.int32)
    begin, size = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    sentences, lengths = list(texts), Ragged.from_lengths(map(len, texts.values()))
    begin[sentences], size[sentences] = lengths.offsets[:-1], lengths.lengths
    room = Ragged.from_lengths(forms.size + 1).offsets
    longest = int(np.max(np.diff(np.take(room, forms.offsets, mode="clip")), initial=0))
    text, scratch = b"".join(texts.values()), np.empty(longest, dtype=np.uint8)
    m = len(forms.begin)
    fields = {
        "surface": array_in(forms.offsets, np.int64, (n + 1,), "offsets"),
        "start": array_in(starts, np.int64, (n + 1,), "starts"),
        "begin": array_in(forms.begin, np.int64, (m,), "begin"),
        "size": array_in(forms.size, np.int64, (m,), "size"),
        "covered": array_in(forms.covered, np.int64, (m,), "covered"),
        "spaced": array_in(forms.spaced, np.uint8, (m,), "spaced"),
        "forms": array_in(forms.data, np.uint8, forms.data.shape, "data"),
        "text_begin": array_in(begin, np.int64, (n,), "begin"),
        "text_size": array_in(size, np.int64, (n,), "size"),
        "text": ffi.from_buffer("uint8_t[]", text),
        "opens": array_in(opens, np.uint8, (n,), "opens"),
        "scratch": array_out(scratch),
        "chars": array_out(chars),
    }
    counts = {"S": n, "M": m, "N": len(chars), "position": position}
    room_of = {"n_forms": len(forms.data), "n_text": len(text), "n_scratch": longest}
    surface = ffi.new("fc_surface *", {**counts, **room_of, **fields})
    where = ffi.new("int64_t *")
    status = lib.fc_locate_forms(surface, where)
    if status == lib.FC_EFULL:
        raise DataError("a document of more than 2,147,483,647 characters")
    check(status, "finding forms: sentence", where[0])
    return chars, int(surface.position)


class TextColumn(NamedTuple):
    """A column of tokens: strings by number."""

    ids: Ints  # [N]
    text: Bytes  # the bytes of the distinct strings
    offsets: Longs  # [n + 1] start of each of them


def joined_rows(columns: Sequence[TextColumn], breaks: Ints, *, separator: bytes) -> memoryview:
    """Return a line for each token, followed by ``breaks[token]`` empty lines."""
    n, memory, views = len(breaks), [], []
    for ids, text, offsets in columns:
        fields = {
            "ids": array_in(ids, np.int32, (n,), "ids"),
            "offset": array_in(offsets, np.int64, offsets.shape, "offsets"),
            "text": array_in(text, np.uint8, text.shape, "text"),
        }
        memory.append(fields)
        views.append({"count": len(offsets) - 1, "size": len(text), **fields})
    table = ffi.new("fc_column[]", views)
    lines = array_in(breaks, np.int32, (n,), "breaks")
    size, where = ffi.new("int64_t *"), ffi.new("int64_t *")
    inputs = n, len(columns), table, len(separator), ffi.from_buffer("uint8_t[]", separator), lines
    status = lib.fc_write_rows(*inputs, size, ffi.NULL, where)
    check(status, "joining rows: token", where[0])
    out = np.empty(size[0], dtype=np.uint8)
    check(lib.fc_write_rows(*inputs, size, array_out(out), where), "joining rows: token", where[0])
    return out.data

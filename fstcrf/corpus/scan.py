"""The inner loop of column files: bytes to interned columns.

============= ================================================================
Layout        how the lines of a column file are to be read
Interner      strings numbered by first appearance, kept across blocks
Scan          what one block holds: ids, sentence offsets, document lines
scan          read one block
first_width   number of fields of the first row of a block
============= ================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.blocks import Block
from fstcrf.corpus.files import decoded
from fstcrf.errors import DataError

__all__ = ["Interner", "Layout", "Scan", "first_width", "scan"]

# bytes.split() without argument also splits at these, which are no separators here.
_OTHER_BLANKS = re.compile(rb"[\r\x0b\x0c]")
_BLANKS = re.compile(rb"[ \t]+")
_SHOWN = 60

Text = TypeVar("Text", bytes, str)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a column file are to be read.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns.
    separator : str, optional
        Splits exactly; any run of spaces and tabs when absent.
    docstart : str, optional
        First field of the lines that open a document; none do when absent.
    path : str
        The file, for messages.
    """

    columns: tuple[str, ...]
    separator: str | None
    docstart: str | None
    path: str


class Interner(dict[Text, int]):
    """Strings numbered by first appearance: ``interner["the"]`` numbers it if it is new."""

    def __missing__(self, string: Text) -> int:
        """Give a new string the next number."""
        number = self[string] = len(self)
        return number

    def ids(self, strings: Sequence[Text]) -> NDArray[np.int32]:
        """Return int32 [N], the number of each string."""
        return np.fromiter(map(self.__getitem__, strings), dtype=np.int32, count=len(strings))

    def strings(self) -> tuple[str, ...]:
        """Return the strings in the order of their numbers."""
        return tuple(map(_text, self))


def _text(string: bytes | str) -> str:
    return string.decode() if isinstance(string, bytes) else string


@dataclass(frozen=True, slots=True)
class Scan:
    """What one block of a column file holds.

    Attributes
    ----------
    ids : list of int32 [N]
        One array per column.
    lines : int64 [N]
        Line of each token in the file, from 1.
    starts : int64 [S]
        First token of each sentence.
    blank_lines : int32 [S]
        Blank lines that follow each sentence.
    header_lines : int64 [H]
        Lines that open a document.
    headers : list of str
        These lines.
    """

    ids: list[NDArray[np.int32]]
    lines: NDArray[np.int64]
    starts: NDArray[np.int64]
    blank_lines: NDArray[np.int32]
    header_lines: NDArray[np.int64]
    headers: list[str]


def scan(block: Block, layout: Layout, interners: Sequence[Interner[bytes]]) -> Scan:
    """Read one block of a column file.

    Raises
    ------
    DataError
        A byte that is not UTF-8, a row of another width, an empty field; names file and line.
    """
    decoded(block.data, layout.path, first_line=block.first_line)
    lines = block.data.split(b"\n")
    headers = _take_headers(lines, block.data, layout)
    rows = _rows(lines, block.data, layout.separator)
    widths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    token_lines = np.flatnonzero(widths)
    width = len(layout.columns)
    ragged = token_lines[widths[token_lines] != width]
    if len(ragged):
        raise _ragged(int(ragged[0]), int(widths[ragged[0]]), block, layout)
    fields = list(chain.from_iterable(rows))
    if layout.separator is not None and b"" in fields:
        raise _empty_field(fields.index(b""), token_lines, block, layout)
    starts = np.flatnonzero(np.diff(token_lines, prepend=-2) != 1)
    header_lines = np.asarray(list(headers), dtype=np.int64)
    return Scan(
        ids=[interner.ids(fields[c::width]) for c, interner in enumerate(interners)],
        lines=token_lines + block.first_line,
        starts=starts,
        blank_lines=_blank_lines(token_lines, starts, header_lines, len(lines) - 1),
        header_lines=header_lines + block.first_line,
        headers=[line.decode() for line in headers.values()],
    )


def first_width(block: Block, layout: Layout) -> int:
    """Return the number of fields of the first row of a block, 0 where it has none."""
    lines = block.data.split(b"\n")
    _take_headers(lines, block.data, layout)
    rows = (_rows([line], line, layout.separator)[0] for line in lines)
    return next((len(row) for row in rows if row), 0)


def _rows(lines: list[bytes], data: bytes, separator: str | None) -> list[list[bytes]]:
    if separator is not None:
        exact = separator.encode()
        return [line.split(exact) if line.strip(b" \t") else [] for line in lines]
    if _OTHER_BLANKS.search(data) is None:
        return list(map(bytes.split, lines))
    return [[f for f in _BLANKS.split(line) if f] for line in lines]


def _take_headers(lines: list[bytes], data: bytes, layout: Layout) -> dict[int, bytes]:
    # Document lines are lifted out, leaving blank lines.
    if layout.docstart is None:
        return {}
    mark = layout.docstart.encode()
    if mark not in data:
        return {}
    after = (b" ", b"\t", (layout.separator or " ").encode())
    found = {
        n: line
        for n, line in enumerate(lines)
        if line == mark or (line.startswith(mark) and line[len(mark) :].startswith(after))
    }
    for number in found:
        lines[number] = b""
    return found


def _blank_lines(
    token_lines: NDArray[np.int64],
    starts: NDArray[np.int64],
    header_lines: NDArray[np.int64],
    n_lines: int,
) -> NDArray[np.int32]:
    # Up to the next sentence, document line or end of the block.
    if len(starts) == 0:
        return np.zeros(0, dtype=np.int32)
    last = token_lines[np.append(starts[1:], len(token_lines)) - 1]
    stops = np.sort(np.concatenate([token_lines[starts], header_lines, [n_lines]]))
    blank: NDArray[np.int64] = stops[np.searchsorted(stops, last, side="right")] - last - 1
    return blank.astype(np.int32)


def _ragged(number: int, found: int, block: Block, layout: Layout) -> DataError:
    text = block.data.split(b"\n")[number].decode()
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return DataError(
        f"{found} columns, expected {len(layout.columns)} ({', '.join(layout.columns)}): {shown!r}",
        path=layout.path,
        line=block.first_line + number,
    )


def _empty_field(
    field: int, token_lines: NDArray[np.int64], block: Block, layout: Layout
) -> DataError:
    row, column = divmod(field, len(layout.columns))
    return DataError(
        f"column {layout.columns[column]!r} is empty",
        path=layout.path,
        line=block.first_line + int(token_lines[row]),
    )

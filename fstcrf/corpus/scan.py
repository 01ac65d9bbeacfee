"""The inner loop of column files: bytes to interned columns.

============= ================================================================
Layout        how the lines of a column file are to be read
Scan          what one block holds: ids, sentence offsets, document lines
WidthError    a row with another number of columns than expected
scan          read one block
first_width   number of fields of the first row of a block
============= ================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.blocks import Block
from fstcrf.corpus.files import decoded
from fstcrf.errors import DataError
from fstcrf.kernel.strings import Lines, RowError, Strings, read_lines

__all__ = ["Layout", "Scan", "WidthError", "first_width", "scan"]

_SHOWN = 60


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


class WidthError(DataError):
    """A row with another number of columns than expected.

    Parameters
    ----------
    message : str
    path : str
    line : int
    width : int
        How many it has.
    first : bool
        It is the first row of the file.
    """

    def __init__(self, message: str, *, path: str, line: int, width: int, first: bool) -> None:
        self.width, self.first = width, first
        super().__init__(message, path=path, line=line)


def scan(block: Block, layout: Layout, interned: Sequence[Strings]) -> Scan:
    """Read one block of a column file; new strings are added to those of its column.

    Raises
    ------
    DataError
        A byte that is not UTF-8, a row of another width (`WidthError`), an empty field; names file
        and line.
    """
    decoded(block.data, layout.path, first_line=block.first_line)
    try:
        found = _read(block, layout, interned)
    except RowError as error:
        raise _located(error, block, layout) from None
    headers = []
    if len(found.headers):
        lines = block.data.split(b"\n")
        headers = [lines[number].decode() for number in found.headers.tolist()]
    return Scan(
        ids=found.ids,
        lines=found.lines + block.first_line,
        starts=found.starts,
        blank_lines=found.blank_lines,
        header_lines=found.headers + block.first_line,
        headers=headers,
    )


def first_width(block: Block, layout: Layout) -> int:
    """Return the number of fields of the first row of a block, 0 where it has none."""
    try:
        return min(len(_read(block, layout, [Strings()]).lines), 1)
    except RowError as error:
        return 1 if error.row else error.fields


def _read(block: Block, layout: Layout, interned: Sequence[Strings]) -> Lines:
    return read_lines(
        block.data,
        interned,
        separator=(layout.separator or "").encode(),
        mark=(layout.docstart or "").encode(),
    )


def _located(error: RowError, block: Block, layout: Layout) -> DataError:
    line = block.first_line + error.line
    if error.empty is not None:
        name = layout.columns[error.empty]
        return DataError(f"column {name!r} is empty", path=layout.path, line=line)
    text = block.data.split(b"\n", error.line + 1)[error.line].decode()
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return WidthError(
        f"{error.fields} columns, expected {len(layout.columns)} "
        f"({', '.join(layout.columns)}): {shown!r}",
        path=layout.path,
        line=line,
        width=error.fields,
        first=block.first_line == 1 and error.row == 0,
    )

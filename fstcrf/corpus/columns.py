"""Column files: one token a line, a blank line after each sentence.

=============== ==============================================================
read_columns    a whole file as one corpus
stream_columns  a file of any size, some sentences at a time
ColumnWriter    writes corpora one after the other into one file
write_columns   writes one corpus
=============== ==============================================================

::

    -DOCSTART- -X- O O          opens a document (kept, not a token)

    EU      NNP  I-ORG          fields split at spaces and tabs, or at a given separator
    rejects VBZ  O
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.batching import DocumentCounter, batches
from fstcrf.corpus.blocks import Block, blocks
from fstcrf.corpus.corpus import Column, Corpus
from fstcrf.corpus.files import Source, open_binary, source_name
from fstcrf.corpus.scan import Layout, Scan, first_width, scan
from fstcrf.corpus.writing import ColumnWriter, write_columns
from fstcrf.errors import DataError, OptionError
from fstcrf.kernel.strings import Strings

__all__ = ["ColumnWriter", "read_columns", "stream_columns", "write_columns"]

# Large enough that numpy's fixed costs vanish, small enough that a block fits in cache.
_BLOCK_LINES = 1 << 16


def read_columns(
    path: Source,
    columns: Sequence[str] | None,
    *,
    min_columns: int | None = None,
    separator: str | None = None,
    docstart: str | None = "-DOCSTART-",
    allow_empty: bool = False,
) -> Corpus:
    r"""Read a column file.

    Parameters
    ----------
    path : path, "-" or binary file
        UTF-8, perhaps gzipped; ``"-"`` is standard input. A byte order mark and Windows line
        ends are accepted.
    columns : sequence of str or None
        Names of the columns, one for each field of a row. None: as many as the first row has,
        named ``"0"``, ``"1"``, and so on.
    min_columns : int, optional
        The file may leave out its last columns down to so many; its first row decides.
    separator : str, optional
        Splits rows exactly, so that fields may hold spaces (``"\t"``). When absent, any run of
        spaces and tabs splits; no other character does.
    docstart : str, optional
        First field of the lines that open a document. None: no line does.
    allow_empty : bool
        Accept a file without sentences.

    Returns
    -------
    Corpus
        With `lines` (for messages), and documents where the file opens any.

    Raises
    ------
    DataError
        A row with another number of fields, an empty field, a byte that is not UTF-8, a
        damaged gzip file, no sentence; names file and line.
    OptionError
        Column names that repeat, or an impossible separator.
    """
    layout = _layout(path, columns, separator, docstart)
    interned: list[Strings] = []
    scans: list[Scan] = []
    with open_binary(path) as file:
        for block, fitted in _fitted_blocks(file, _BLOCK_LINES, layout, min_columns):
            if len(interned) != len(fitted.columns):  # no row was read yet
                interned = [Strings() for _ in fitted.columns]
            layout = fitted
            scans.append(scan(block, layout, interned))
    interned = interned or [Strings() for _ in layout.columns]
    documents = DocumentCounter()
    numbers = [documents.number(s.lines[s.starts], s.header_lines, s.headers) for s in scans]
    if not any(len(s.starts) for s in scans) and not allow_empty:
        raise DataError("holds no sentences", path=layout.path)
    return _corpus(scans, numbers, interned, layout, documents.take())


def stream_columns(
    path: Source,
    columns: Sequence[str] | None,
    *,
    min_columns: int | None = None,
    batch_tokens: int = 100_000,
    separator: str | None = None,
    docstart: str | None = "-DOCSTART-",
) -> Iterator[Corpus]:
    """Read a column file of any size, some sentences at a time.

    Parameters
    ----------
    path, columns, min_columns, separator, docstart
        As in `read_columns`.
    batch_tokens : int
        Most tokens of a batch; a longer sentence is a batch of its own.

    Yields
    ------
    Corpus
        Whole sentences, in order. Documents are numbered through the whole file; a batch knows
        the headers of its own documents. A file without sentences gives no batch.

    Raises
    ------
    DataError, OptionError
        As `read_columns`, when the batch is reached.
    """
    layout = _layout(path, columns, separator, docstart)
    if batch_tokens < 1:
        raise OptionError(f"batch_tokens={batch_tokens}, expected at least 1")
    return _stream(path, layout, batch_tokens, min_columns)


def _stream(
    path: Source, unfitted: Layout, batch_tokens: int, min_columns: int | None
) -> Iterator[Corpus]:
    documents = DocumentCounter()
    with open_binary(path) as file:
        for block, layout in _fitted_blocks(file, batch_tokens, unfitted, min_columns):
            interned = [Strings() for _ in layout.columns]
            part = scan(block, layout, interned)
            starts = part.lines[part.starts]
            numbers = documents.number(starts, part.header_lines, part.headers)
            if len(numbers):
                known = documents.take()
                yield from batches(
                    _corpus([part], [numbers], interned, layout, known), batch_tokens
                )


def _fitted_blocks(
    file: BinaryIO, lines: int, layout: Layout, min_columns: int | None
) -> Iterator[tuple[Block, Layout]]:
    """Yield each block with the layout for it, which the first row of the file decides."""
    numbered = not layout.columns
    open_ended = numbered or min_columns is not None
    if numbered:
        layout = replace(layout, columns=("0",))  # for blocks without rows
    for block in blocks(file, lines):
        if open_ended and (width := first_width(block, layout)):
            if numbered:
                layout = replace(layout, columns=tuple(map(str, range(width))))
            elif min_columns is not None and min_columns <= width:
                layout = replace(layout, columns=layout.columns[:width])
            open_ended = False
        yield block, layout


def _layout(
    path: Source, columns: Sequence[str] | None, separator: str | None, docstart: str | None
) -> Layout:
    if isinstance(columns, str):
        raise OptionError(f"columns={columns!r}, expected a sequence: columns=({columns!r},)")
    if columns is not None and not columns:
        raise OptionError("columns names no column")
    columns = columns or ()
    repeated = sorted({name for name in columns if list(columns).count(name) > 1})
    if repeated:
        raise OptionError(f"column {repeated[0]!r} is named twice in {tuple(columns)}")
    if separator is not None and (not separator or "\n" in separator or "\r" in separator):
        raise OptionError(f"separator={separator!r}, expected at least one character of a line")
    return Layout(tuple(columns), separator, docstart or None, source_name(path))


def _corpus(
    scans: Sequence[Scan],
    numbers: Sequence[NDArray[np.int32]],
    interned: Sequence[Strings],
    layout: Layout,
    documents: tuple[int, tuple[str, ...]],
) -> Corpus:
    n_tokens = np.cumsum([0, *(len(s.lines) for s in scans)])
    starts = [s.starts + n for s, n in zip(scans, n_tokens.tolist(), strict=False)]
    none = np.zeros(0, dtype=np.int64)
    return Corpus(
        {
            name: Column(
                np.concatenate([none.astype(np.int32), *(s.ids[c] for s in scans if len(s.lines))]),
                strings.strings(),
            )
            for c, (name, strings) in enumerate(zip(layout.columns, interned, strict=True))
        },
        np.concatenate([none, *starts, n_tokens[-1:]]),
        documents=np.concatenate([none.astype(np.int32), *numbers]),
        document_headers=documents[1],
        first_document=documents[0],
        source=layout.path,
        lines=np.concatenate([none, *(s.lines for s in scans)]),
        blank_lines=np.concatenate([none.astype(np.int32), *(s.blank_lines for s in scans)]),
    )

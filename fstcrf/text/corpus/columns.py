"""Column files: one token a line, a blank line after each sentence.

::

    -DOCSTART- -X- O O          opens a document (kept, not a token)

    EU      NNP  I-ORG          fields split at spaces and tabs, or at a given separator
    rejects VBZ  O
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from fstcrf.arguments import check_strings, first_twice, name_tuple
from fstcrf.errors import DataError, OptionError
from fstcrf.files import Source, Target, open_target
from fstcrf.kernel.strings import (
    Lines,
    RowError,
    Strings,
    TextColumn,
    joined_rows,
    pack_strings,
    read_lines,
)
from fstcrf.text.corpus.batches import BlockReader, Scan, TextBlock, read_batches, read_whole
from fstcrf.text.corpus.corpus import Column, Corpus
from fstcrf.text.lines import decoded, text_fields

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class _Layout:
    """The format of a column file's lines."""

    columns: tuple[str, ...]
    separator: str | None  # separates fields exactly; `None`: any run of spaces and tabs does
    docstart: str | None  # first field of the lines that open a document; `None`: no line does


def shortened(line: str) -> str:
    """Return the beginning of a line, for messages."""
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


class WidthError(DataError):
    """A row of `width` columns where another number is expected; `first`: of the first row."""

    def __init__(self, message: str, *, path: str, line: int, width: int, first: bool) -> None:
        self.width, self.first = width, first
        super().__init__(message, path=path, line=line)


class _ColumnReader(BlockReader):
    """Reads the blocks of a column file; its first row determines the number of columns.

    Without names, columns are numbered; with `min_columns`, the last ones are optional.
    """

    def __init__(self, source: Source, layout: _Layout, min_columns: int | None) -> None:
        super().__init__(source)
        self._layout, self._least = layout, min_columns
        self._numbered = not layout.columns
        self._fitted = not self._numbered and min_columns is None
        if self._numbered:
            self._layout = replace(layout, columns=("0",))  # for blocks without rows
        self.forget()

    def forget(self) -> None:
        """Discard all string ids."""
        self._interned = [Strings() for _ in self._layout.columns]

    def strings(self) -> dict[str, tuple[str, ...]]:
        """Return the distinct strings of each column in the order of their numbers."""
        pairs = zip(self._layout.columns, self._interned, strict=True)
        return {name: strings.strings() for name, strings in pairs}

    def scan(self, block: TextBlock) -> Scan:
        """Read the next block."""
        self._fit(block)
        decoded(block.data, self.path, first_line=block.first_line)
        try:
            read = self._lines(block, self._interned)
        except RowError as error:
            raise self._located(error, block) from None
        headers = []
        if len(read.headers):
            lines = block.data.split(b"\n")
            headers = [lines[number].decode() for number in read.headers.tolist()]
        first = block.first_line
        places = read.lines + first, read.starts, read.headers + first
        return Scan(read.ids, *places, headers, read.blank_lines)

    def _fit(self, block: TextBlock) -> None:
        """Determine the columns from the first row."""
        if self._fitted:
            return
        try:
            width = min(len(self._lines(block, [Strings()]).lines), 1)
        except RowError as error:
            width = 1 if error.row else error.fields
        if not width:
            return
        names = self._layout.columns
        if self._numbered:
            names = tuple(map(str, range(width)))
        elif self._least is not None and self._least <= width:
            names = names[:width]
        self._layout, self._fitted = replace(self._layout, columns=names), True
        self.forget()

    def _lines(self, block: TextBlock, interned: Sequence[Strings]) -> Lines:
        separator, mark = self._layout.separator or "", self._layout.docstart or ""
        return read_lines(block.data, interned, separator=separator.encode(), mark=mark.encode())

    def _located(self, error: RowError, block: TextBlock) -> DataError:
        line, names = block.first_line + error.line, self._layout.columns
        if error.empty is not None:
            return DataError(f"column {names[error.empty]!r} is empty", path=self.path, line=line)
        text = shortened(block.data.split(b"\n", error.line + 1)[error.line].decode())
        return WidthError(
            f"{error.fields} columns, expected {len(names)} ({', '.join(names)}): {text!r}",
            path=self.path,
            line=line,
            width=error.fields,
            first=block.first_line == 1 and error.row == 0,
        )


# --- Reading --------------------------------------------------------------------------------------


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
        UTF-8, perhaps gzipped; ``"-"`` is standard input. A byte order mark is skipped; a line
        feed, CR LF or CR ends a line.
    columns : sequence of str or None
        Names of the columns, one for each field of a row. `None`: the columns of the first row,
        named ``"0"``, ``"1"``, and so on.
    min_columns : int, optional
        The file may omit its last columns, down to this number; its first row decides.
    separator : str, optional
        Splits rows exactly, so that fields may hold spaces (``"\t"``). If absent, any run of spaces
        and tabs separates fields; no other character does.
    docstart : str, optional
        First field of the lines that open a document. `None`: no line does.
    allow_empty : bool
        Accept a file without sentences.

    Returns
    -------
    Corpus
        With `lines` (for messages), and with documents if the file opens any.

    Raises
    ------
    DataError
        A row with another number of fields, an empty field, a byte that is not UTF-8, a
        damaged gzip file, no sentence; names file and line.
    OptionError
        Column names that repeat, or an impossible separator.
    """
    reader = _ColumnReader(path, _layout(columns, separator, docstart), min_columns)
    return read_whole(path, reader, allow_empty=allow_empty)


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
        Maximum number of tokens in a batch; a longer sentence becomes a batch.

    Yields
    ------
    Corpus
        Whole sentences, in order. Document numbers count through the whole file; a batch has the
        headers of its documents. A file without sentences yields no batch.

    Raises
    ------
    DataError, OptionError
        As `read_columns`, when the batch is reached.
    """
    reader = _ColumnReader(path, _layout(columns, separator, docstart), min_columns)
    return read_batches(path, reader, batch_tokens)


def _layout(columns: Sequence[str] | None, separator: str | None, docstart: str | None) -> _Layout:
    columns = columns if columns is None else name_tuple(columns, "columns")
    if columns is not None and not columns:
        raise OptionError("columns names no column")
    columns = columns or ()
    if (twice := first_twice(columns)) is not None:
        raise OptionError(f"column {twice!r} is named twice in {tuple(columns)}")
    if separator is not None and (not separator or "\n" in separator or "\r" in separator):
        raise OptionError(f"separator={separator!r}, expected at least one character of a line")
    return _Layout(tuple(columns), separator, docstart or None)


# --- Writing --------------------------------------------------------------------------------------

_BLANKS = " \t"


class ColumnWriter:
    r"""Writes corpora one after the other into an open file, such as those of `stream_columns`.

    Parameters
    ----------
    file : binary or text file
        The file to write to.
    columns : sequence of str, optional
        The columns to write, in this order; all columns of each corpus if absent.
    separator : str
        Between the fields of a row.
    docstart : str
        First field of the lines that open a document.
    """

    def __init__(
        self,
        file: BinaryIO | io.TextIOBase,
        columns: Sequence[str] | None = None,
        *,
        separator: str = " ",
        docstart: str = "-DOCSTART-",
    ) -> None:
        if not separator or set(separator) & set("\r\n"):
            raise OptionError(f"separator={separator!r}, expected at least one character of a line")
        self._file = file
        self._columns = columns if columns is None else name_tuple(columns, "columns")
        self._separator = separator
        self._docstart = docstart
        self._document: int | None = None

    def write(self, corpus: Corpus) -> None:
        """Write all sentences, each followed by its blank lines, and the lines of documents.

        Raises
        ------
        DataError
            No such column; or a string that would read back differently: an empty one, one that
            holds the separator or a line end, or one that makes a line blank or opens a document.
        """
        names = list(corpus.columns) if self._columns is None else list(self._columns)
        columns = [corpus.column(name) for name in names]
        for name, column in zip(names, columns, strict=True):
            self._check(name, column)
        if columns:
            self._check_lines(names, columns)
        rows = _Rows(corpus, columns, self._separator)
        done = 0
        for number in self._openings(corpus):
            self._put(rows.lines(done, number))
            done = number
            self._write(self._headers(corpus, int(corpus.documents[number])))
        self._put(rows.lines(done, len(corpus)))
        self._write(self._trailing_headers(corpus))

    def _openings(self, corpus: Corpus) -> list[int]:
        """Return the sentences before which headers or blank lines must be written."""
        documents = corpus.documents
        opening = (np.flatnonzero(np.diff(documents)) + 1).tolist()
        first = len(documents) > 0 and int(documents[0]) != self._document
        return [0, *opening] if first else opening

    def _headers(self, corpus: Corpus, document: int) -> list[str]:
        # Also returns headers of documents without sentences between the last written one and this
        # one.
        before = self._document
        first = corpus.first_document if before is None else before + 1
        lines: list[str] = []
        for number in range(first, document):
            lines += self._header(corpus, number)
        self._document = document
        # A document without a header needs a line unless it is the first.
        return lines + (
            self._header(corpus, document) or ([] if before is None else [self._docstart, ""])
        )

    def _trailing_headers(self, corpus: Corpus) -> list[str]:
        first = corpus.first_document if self._document is None else self._document + 1
        lines: list[str] = []
        for number in range(first, corpus.first_document + len(corpus.document_headers)):
            if header := self._header(corpus, number):
                lines += header
                self._document = number
        return lines

    def _header(self, corpus: Corpus, document: int) -> list[str]:
        header = corpus.document_header(document)
        if not header:
            return []
        opens = text_fields(header)[:1] == [self._docstart]
        return [header if opens else f"{self._docstart} {header}", ""]

    def _check(self, name: str, column: Column) -> None:
        bad = {self._separator, "\n", "\r"} | ({"\t"} if self._separator == " " else set())
        try:
            together = "".join(column.values)
        except TypeError:
            check_strings(column.values, f"a value of column {name!r}")
            raise
        if "" not in column.values and not any(character in together for character in bad):
            return
        for value in column.values:
            if not value or any(character in value for character in bad):
                raise DataError(
                    f"{value!r} in column {name!r} would not read back; "
                    f"choose another separator than {self._separator!r}"
                    if value
                    else f"empty string in column {name!r}"
                )

    def _check_lines(self, names: Sequence[str], columns: Sequence[Column]) -> None:
        """Refuse rows that would be read back as blank lines or document headers."""
        mark, between = self._docstart, self._separator if len(columns) > 1 else ""
        for value in columns[0].values:
            line = value + between
            rest = line.removeprefix(mark)
            is_field = not rest or rest[0] in _BLANKS or rest.startswith(self._separator)
            if mark and line.startswith(mark) and is_field:
                raise DataError(f"token {value!r} in column {names[0]!r} opens a document")
        if between.strip(_BLANKS):
            return
        blank = np.ones(len(columns[0].ids), dtype=bool)
        for column in columns:
            empty = [not value.strip(_BLANKS) for value in column.values]
            if not any(empty):
                return
            blank &= np.asarray(empty)[column.ids]
        if blank.any():
            raise DataError(
                f"token {int(blank.argmax()) + 1} has only blanks in {', '.join(names)}: it "
                "would be read back as a blank line, the end of a sentence"
            )

    def _write(self, lines: Sequence[str]) -> None:
        if lines:
            self._put("".join([line + "\n" for line in lines]).encode())

    def _put(self, data: bytes | memoryview) -> None:
        if not len(data):
            return
        if isinstance(self._file, io.TextIOBase):
            self._file.write(bytes(data).decode())
        else:
            self._file.write(data)


class _Rows:
    """The sentences of a corpus as bytes, in portions."""

    def __init__(self, corpus: Corpus, columns: Sequence[Column], separator: str) -> None:
        self._columns = [TextColumn(c.ids, *pack_strings(c.values)) for c in columns]
        self._separator = separator.encode()
        self._offsets = corpus.offsets
        blank = corpus.blank_lines
        self._blank = (
            np.ones(len(corpus), dtype=np.int32) if blank is None else np.maximum(blank, 1)
        )

    def lines(self, first: int, last: int) -> bytes | memoryview:
        """Return the lines of sentences, each followed by its blank lines."""
        a, b = int(self._offsets[first]), int(self._offsets[last])
        breaks = np.zeros(b - a, dtype=np.int32)
        ends, blank = self._offsets[first + 1 : last + 1] - a - 1, self._blank[first:last]
        # several empty sentences may end at one token
        np.add.at(breaks, ends[ends >= 0], blank[ends >= 0])
        leading = b"\n" * int(blank[ends < 0].sum())
        if a == b:
            return leading
        columns = [TextColumn(c.ids[a:b], c.text, c.offsets) for c in self._columns]
        rows = joined_rows(columns, breaks, separator=self._separator)
        return leading + bytes(rows) if leading else rows


def write_columns(
    corpus: Corpus,
    file: Target,
    columns: Sequence[str] | None = None,
    separator: str = " ",
    *,
    docstart: str = "-DOCSTART-",
) -> None:
    r"""Write a corpus as a column file.

    Reading it back with the same columns and separator gives the same tokens, sentences and
    documents.

    Parameters
    ----------
    corpus : Corpus
        Corpus to write.
    file : path, "-" or binary file
        A path appears only when it is complete, and is compressed when it ends in ``.gz``;
        ``"-"`` is standard output.
    columns : sequence of str, optional
        The columns to write, in this order; all if absent.
    separator : str
        Separator of the fields of a row; use ``"\t"`` if fields contain spaces.
    docstart : str
        First field of the lines that open a document.

    Raises
    ------
    DataError
        No such column; or a string that would read back differently.
    OSError
        The file cannot be written.
    """
    with open_target(file) as target:
        ColumnWriter(target, columns, separator=separator, docstart=docstart).write(corpus)

"""Writing corpora as column files.

============= ================================================================
ColumnWriter  writes corpora one after the other into one file
write_columns writes one corpus
============= ================================================================
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from fstcrf.corpus.corpus import Column, Corpus
from fstcrf.corpus.files import Target, open_target
from fstcrf.errors import DataError, OptionError
from fstcrf.kernel.strings import TextColumn, joined_rows, pack_strings

__all__ = ["ColumnWriter", "write_columns"]


class ColumnWriter:
    r"""Writes corpora one after the other into one open file, as `stream_columns` gives them.

    Parameters
    ----------
    file : binary or text file
        Where to write to.
    columns : sequence of str, optional
        The columns to write, in this order; those of each corpus when absent.
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
        self._columns = columns
        self._separator = separator
        self._docstart = docstart
        self._document: int | None = None

    def write(self, corpus: Corpus, *, comments: Sequence[str] | None = None) -> None:
        """Write all sentences, each followed by its blank lines, and the lines of documents.

        Parameters
        ----------
        corpus : Corpus
        comments : sequence of str, optional
            A line before each sentence. A file with such lines does not read back.

        Raises
        ------
        DataError
            No such column; or a string that would read back differently: an empty one, or one
            that holds the separator or a line end.
        """
        names = list(corpus.columns) if self._columns is None else list(self._columns)
        columns = [corpus.column(name) for name in names]
        for name, column in zip(names, columns, strict=True):
            self._check(name, column)
        if columns and self._docstart in columns[0].values:
            raise DataError(f"token {self._docstart!r} in column {names[0]!r} opens a document")
        rows = _Rows(corpus, columns, self._separator)
        done = 0
        for number in self._openings(corpus, comments):
            self._put(rows.lines(done, number))
            done = number
            if int(corpus.documents[number]) != self._document:
                self._write(self._headers(corpus, int(corpus.documents[number])))
            if comments is not None:
                self._write([comments[number]])
        self._put(rows.lines(done, len(corpus)))
        self._write(self._trailing_headers(corpus))

    def _openings(self, corpus: Corpus, comments: Sequence[str] | None) -> list[int]:
        """Return the sentences before which something else is to be written."""
        if comments is not None:
            return list(range(len(corpus)))
        documents = corpus.documents
        opening = (np.flatnonzero(np.diff(documents)) + 1).tolist()
        first = len(documents) > 0 and int(documents[0]) != self._document
        return [0, *opening] if first else opening

    def _headers(self, corpus: Corpus, document: int) -> list[str]:
        # Also of the documents without sentences that stand between the last one and this one.
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
        opens = header.split()[:1] == [self._docstart]
        return [header if opens else f"{self._docstart} {header}", ""]

    def _check(self, name: str, column: Column) -> None:
        bad = {self._separator, "\n", "\r"} | ({"\t"} if self._separator == " " else set())
        together = "".join(column.values)
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
    """The sentences of a corpus as bytes, some at a time."""

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
        np.add.at(breaks, ends[ends >= 0], blank[ends >= 0])  # empty sentences end where others do
        leading = b"\n" * int(blank[ends < 0].sum())
        if a == b:
            return leading
        columns = [TextColumn(c.ids[a:b], c.text, c.offsets) for c in self._columns]
        found = joined_rows(columns, breaks, separator=self._separator)
        return leading + bytes(found) if leading else found


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
        What to write.
    file : path, "-" or binary file
        A path appears only when it is complete, and is compressed when it ends in ``.gz``;
        ``"-"`` is standard output.
    columns : sequence of str, optional
        The columns to write, in this order; all when absent.
    separator : str
        Between the fields of a row; ``"\t"`` where fields hold spaces.
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

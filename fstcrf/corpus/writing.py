"""Writing corpora as column files.

============= ================================================================
ColumnWriter  writes corpora one after the other into one file
write_columns writes one corpus
============= ================================================================
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from typing import BinaryIO

from fstcrf.corpus.corpus import Column, Corpus
from fstcrf.corpus.files import Target, open_target
from fstcrf.errors import DataError, OptionError

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
        lists = [column.strings() for column in columns]
        rows = list(map(self._separator.join, zip(*lists, strict=True)))
        text: list[str] = []
        blanks = [1] * len(corpus) if corpus.blank_lines is None else corpus.blank_lines.tolist()
        bounds = itertools.pairwise(corpus.offsets.tolist())
        for number, ((start, end), document, blank) in enumerate(
            zip(bounds, corpus.documents.tolist(), blanks, strict=True)
        ):
            if document != self._document:
                text += self._headers(corpus, document)
            if comments is not None:
                text.append(comments[number])
            text += rows[start:end]
            text += [""] * max(blank, 1)
        text += self._trailing_headers(corpus)
        self._write("".join([line + "\n" for line in text]))

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
        for value in column.values:
            if not value or any(character in value for character in bad):
                raise DataError(
                    f"{value!r} in column {name!r} would not read back; "
                    f"choose another separator than {self._separator!r}"
                    if value
                    else f"empty string in column {name!r}"
                )

    def _write(self, text: str) -> None:
        if isinstance(self._file, io.TextIOBase):
            self._file.write(text)
        else:
            self._file.write(text.encode())


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

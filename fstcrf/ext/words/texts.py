"""Annotated texts in files: CoNLL-U, MeCab's training corpora, characters with marks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from fstcrf.errors import DataError
from fstcrf.ext.words.annotation import Annotation, KnownWord, label_of
from fstcrf.ext.words.templates import fields_of
from fstcrf.files import open_binary, source_name
from fstcrf.text.lines import read_lines

_COLUMNS = {"upos": 3, "xpos": 4}
_TEXT = "# text = "
UNKNOWN, OPEN = "?", "??"


class _Row(NamedTuple):
    line: int
    text: str


def read_words(
    path: str | os.PathLike[str], *, label: Sequence[int] = (0,), column: str = "xpos"
) -> list[Annotation]:
    """Return the annotated texts of a file.

    Either CoNLL-U: the text of a sentence comes from ``# text =``, or else from its joined words; a
    label comes from a column. Or one word per line, ``word<TAB>label``, with a blank line or EOS
    after each sentence; its text is the joined words. A label with commas is a whole feature, and
    some of its fields form the label. The label ``?`` is unknown; ``text<TAB>??`` is text with
    unknown words.

    Parameters
    ----------
    path : path
    label : sequence of int
        Fields that make a label, where features are whole.
    column : str
        Column of labels in CoNLL-U: ``upos`` or ``xpos``; ``_`` is unknown.

    Raises
    ------
    DataError
        An invalid line, words that do not occur in the text, or no text at all.
    OSError
        It cannot be read.
    """
    if column not in _COLUMNS:
        raise DataError(f"column {column!r}, expected {' or '.join(_COLUMNS)}")
    found = []
    for block in _blocks(path):
        rows = [row for row in block if not row.text.startswith("# ")]
        tabular = bool(rows) and rows[0].text.count("\t") >= 9
        try:
            found.append(
                _sentence(block, rows, _COLUMNS[column]) if tabular else _listed(rows, label)
            )
        except DataError as error:
            if error.line is not None:
                raise
            raise DataError(str(error), path=source_name(path), line=block[0].line) from None
        except _LineError as error:
            raise DataError(error.what, path=source_name(path), line=error.line) from None
    if not found:
        raise DataError("no words", path=source_name(path))
    return found


def read_marked(path: str | os.PathLike[str]) -> list[Annotation]:
    """Return the texts of a file whose lines `Annotation.of_marks` reads; blank ones are left out.

    Raises
    ------
    DataError
        An invalid line; the message names it.
    OSError
        It cannot be read.
    """
    found = []
    for row in _rows(path):
        if row.text.strip():
            try:
                found.append(Annotation.of_marks(row.text))
            except DataError as error:
                raise DataError(str(error), path=source_name(path), line=row.line) from None
    return found


class _LineError(Exception):
    def __init__(self, line: int, what: str) -> None:
        self.line, self.what = line, what


def _rows(path: str | os.PathLike[str]) -> Iterator[_Row]:
    name = source_name(path)
    with open_binary(path) as file:
        for number, line in enumerate(read_lines(file, name), start=1):
            yield _Row(number, line)


def _blocks(path: str | os.PathLike[str]) -> Iterator[list[_Row]]:
    block: list[_Row] = []
    for row in chain(_rows(path), [_Row(0, "")]):
        if row.text.strip(" \t") and row.text != "EOS":
            block.append(row)
        elif any(not one.text.startswith("# ") for one in block):
            yield block
            block = []
        else:
            block = []


def _sentence(block: Sequence[_Row], rows: Sequence[_Row], column: int) -> Annotation:
    """Return a sentence of CoNLL-U; a multiword token counts instead of its parts."""
    texts = [row.text.removeprefix(_TEXT) for row in block if row.text.startswith(_TEXT)]
    words: list[tuple[str, str | None]] = []
    covered = tokens = 0
    for row in rows:
        fields = row.text.split("\t")
        if len(fields) != 10:
            raise _LineError(row.line, f"{len(fields)} columns, expected 10")
        first, _, last = fields[0].partition("-")
        if not first.isdigit():  # an empty node
            continue
        if not last:
            tokens += 1
            if first != str(tokens):
                asked = ": is the blank line before a sentence missing?" * (first == "1")
                raise _LineError(row.line, f"id {first!r}, expected '{tokens}'{asked}")
        if last.isdigit():
            covered = int(last)
        elif int(first) <= covered:
            continue
        label = fields[column]
        words.append((fields[1], None if last or label == "_" else label))
    return Annotation.of_words(words, texts[0] if texts else None)


def _listed(rows: Sequence[_Row], label: Sequence[int]) -> Annotation:
    text, words = "", []
    for row in rows:
        word, _, given = row.text.partition("\t")
        if not word or "\t" in given:
            raise _LineError(row.line, f"{row.text[:40]!r}, expected a word, a tab and its label")
        start, text = len(text), text + word
        if given != OPEN:
            own = label_of(fields_of(given), label) if "," in given else given
            words.append(KnownWord(start, len(text), None if own in (UNKNOWN, "") else own))
    return Annotation(text, words)

r"""CRFsuite's item text: one token a line, its label and its attributes between tabs.

::

    B-NP <TAB> w[0]=He <TAB> length:2 <TAB> t\:tale        w[0]=He 1, length 2, t:tale 1
    B-VP <TAB> w[0]=reckons

A blank line ends a sentence. A colon in an attribute is written ``\:``, a backslash ``\\``; the
number after a plain colon is the attribute's value, which is 1 by default. A label has no value:
its colons may be written either way, and ``:`` is a label. ``@weight:2`` before a label, the weight
of the sentence in training, is skipped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import numpy as np

from fstcrf.errors import DataError
from fstcrf.files import Source, open_binary, source_name
from fstcrf.text.corpus.corpus import Column, Corpus
from fstcrf.text.lines import read_lines

LABEL, ATTRIBUTES = "label", "attributes"

# Text up to the first plain colon, and the text after it.
_FIELD = re.compile(r"((?:\\[\\:]|[^:])*)(?::(.*))?", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\:])")
_WEIGHT = "@weight"


def read_items(path: Source) -> Corpus:
    """Read a file of item text.

    Parameters
    ----------
    path : path, "-" or binary file
        UTF-8, perhaps gzipped; ``"-"`` is standard input.

    Returns
    -------
    Corpus
        With the columns ``label`` and ``attributes``. The latter is the text of a token's
        attributes, which `item_of` reads and models over attribute lists accept.

    Raises
    ------
    DataError
        A line without a label, a byte that is not UTF-8, no sentence, or no attribute in the whole
        file; names file and line.
    """
    corpus = next(stream_items(path, batch_tokens=sys.maxsize), None)
    if corpus is None:
        raise DataError("holds no sentences", path=source_name(path))
    return corpus


def stream_items(path: Source, *, batch_tokens: int = 100_000) -> Iterator[Corpus]:
    """Read a file of item text, some sentences at a time.

    Parameters
    ----------
    path
        As in `read_items`.
    batch_tokens : int
        A batch ends with the sentence that reaches this number of tokens.

    Yields
    ------
    Corpus
        As `read_items` returns it.

    Raises
    ------
    DataError
        As `read_items`.
    """
    name = source_name(path)
    batch = _Batch(name)
    with open_binary(path) as file:
        for number, text in enumerate(read_lines(file, name), 1):
            if text:
                batch.add(text, number)
                continue
            batch.end()
            if len(batch.lines) >= batch_tokens:
                yield batch.corpus()
                batch = _Batch(name)
    batch.end()
    if batch.lines:
        yield batch.corpus()


class _Batch:
    """Sentences of item text, line by line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.labels: list[str] = []
        self.items: list[str] = []
        self.lines: list[int] = []
        self.bounds = [0]

    def add(self, text: str, number: int) -> None:
        label, _, rest = text.lstrip("\t").partition("\t")
        if label.startswith(_WEIGHT) and label[len(_WEIGHT) :][:1] in {"", ":"}:
            if not rest:
                return
            label, _, rest = rest.lstrip("\t").partition("\t")
        if not label:
            raise DataError(
                "no label, expected LABEL, a tab, and attributes between tabs",
                path=self.source,
                line=number,
            )
        self.labels.append(_ESCAPED.sub(r"\1", label))
        self.items.append(rest)
        self.lines.append(number)

    def end(self) -> None:
        if len(self.lines) > self.bounds[-1]:
            self.bounds.append(len(self.lines))

    def corpus(self) -> Corpus:
        if not any(self.items):
            raise DataError(
                "no line has attributes, expected LABEL, and attributes, between tabs",
                path=self.source,
                line=self.lines[0],
            )
        return Corpus(
            {LABEL: Column.from_strings(self.labels), ATTRIBUTES: Column.from_strings(self.items)},
            np.array(self.bounds, dtype=np.int64),
            source=self.source,
            lines=np.array(self.lines, dtype=np.int64),
        )


def item_of(text: str) -> list[str] | dict[str, float]:
    r"""Return the attributes of a token: a list, or a dict if they have values.

    They are separated by tabs. Values of repeated attributes are added, as in CRFsuite; a value
    that is not a number raises ValueError.

    >>> item_of("w=He\tfirst")
    ['w=He', 'first']
    >>> item_of("w=10\\:30\tlength:5")
    {'w=10:30': 1.0, 'length': 5.0}
    """
    fields = [field for field in text.split("\t") if field]
    if ":" not in text and "\\" not in text:
        return fields
    values: dict[str, float] = {}
    for field in fields:
        name, value = _parted(field)
        try:
            number = float(value) if value else 1.0
        except ValueError:
            raise ValueError(
                f"attribute {name!r} has the value {value!r}, expected a number; a colon in an "
                r"attribute is written \:"
            ) from None
        values[name] = values.get(name, 0.0) + number
    return values


def _parted(field: str) -> tuple[str, str]:
    """Return name and value of a field; a missing value is empty."""
    if ":" not in field and "\\" not in field:
        return field, ""
    match = _FIELD.match(field)
    name, value = match.groups(default="") if match else (field, "")
    return _ESCAPED.sub(r"\1", name), value

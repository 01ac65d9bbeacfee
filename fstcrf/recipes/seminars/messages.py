"""Tagged messages as text with fields, and as tokens with exact offsets.

==============  =====================================================================
Message         a text and its fields
read_message    from the tagged text
tokens          where the tokens of a text are
corpus_of       messages as a corpus: one message a sentence, one a document
retokenised     another corpus, its words cut as those of messages are
==============  =====================================================================
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fstcrf.corpus import Column, Corpus
from fstcrf.errors import DataError
from fstcrf.recipes.seminars.layout import LAYOUT, layout
from fstcrf.recipes.seminars.surroundings import MARKS, marks

__all__ = [
    "FIELDS",
    "TWINS",
    "Field",
    "Message",
    "corpus_of",
    "read_message",
    "retokenised",
    "tokens",
]

FIELDS = ("stime", "etime", "location", "speaker")
TWINS = (0, 25)  # numbers of two messages that are the same: never one to train, one to test

# Runs of letters, of digits, of one sign: a field may end between any two of them.
_TOKEN = re.compile(r"[^\W\d_]+|\d+|([^\w\s]|_)\1*")
_TAG = re.compile(r"<(/?)(sentence|paragraph|stime|etime|location|speaker)>")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message: characters ``start : end`` of its text."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message without its tags.

    Parameters
    ----------
    text : str
    fields : tuple of Field
        In the order of their ends.
    """

    text: str
    fields: tuple[Field, ...]


def read_message(path: Path) -> Message:
    """Read a message; sentence and paragraph tags, which may cross fields, are left out.

    Tags are in lower case; whatever else stands between ``<`` and ``>`` is text. Bytes that are
    no UTF-8 become ``U+FFFD``, silently.

    Raises
    ------
    DataError
        A field that ends without having begun, begins within another, or does not end.
    """
    tagged = path.read_bytes().decode("utf-8", "replace")
    parts: list[str] = []
    fields: list[Field] = []
    open_at: dict[str, int] = {}
    size = place = 0
    for tag in _TAG.finditer(tagged):
        parts.append(tagged[place : tag.start()])
        size += tag.start() - place
        place = tag.end()
        closing, name = tag.groups()
        if name not in FIELDS:
            continue
        line = tagged.count("\n", 0, tag.start()) + 1
        if not closing:
            if open_at:  # a token has one field
                outer = next(iter(open_at))
                raise DataError(f"<{name}> within <{outer}>", path=str(path), line=line)
            open_at[name] = size
        elif name not in open_at:
            raise DataError(f"</{name}> without <{name}>", path=str(path), line=line)
        else:
            fields.append(Field(open_at.pop(name), size, name))
    if open_at:
        raise DataError(f"<{next(iter(open_at))}> has no end", path=str(path))
    return Message("".join([*parts, tagged[place:]]), tuple(fields))


def tokens(text: str) -> list[tuple[int, int]]:
    """Return start and end of each token.

    Examples
    --------
    >>> [text[a:b] for text in ["Room 4A, 3:30pm --"] for a, b in tokens(text)]
    ['Room', '4', 'A', ',', '3', ':', '30', 'pm', '--']
    """
    return [found.span() for found in _TOKEN.finditer(text)]


def corpus_of(messages: Sequence[Message]) -> Corpus:
    """Return messages as a corpus: columns ``word``, `MARKS`, `LAYOUT`, ``field`` (IOB2).

    A message is one sentence and one document. A token belongs to the field in which it starts.
    """
    columns: dict[str, list[str]] = {name: [] for name in ("word", *MARKS, *LAYOUT, "field")}
    offsets, places = [0], []
    for message in messages:
        spans = tokens(message.text)
        columns["word"] += [message.text[a:b] for a, b in spans]
        for name, column in (marks(message.text, spans) | layout(message.text, spans)).items():
            columns[name] += column
        columns["field"] += _labels(message, spans)
        places += spans
        offsets.append(len(places))
    return Corpus(
        {name: Column.from_strings(strings) for name, strings in columns.items()},
        np.asarray(offsets, dtype=np.int64),
        documents=np.arange(len(messages), dtype=np.int32),
        document_headers=("",) * len(messages),
        char_offsets=np.asarray(places, dtype=np.int32).reshape(-1, 2),
    )


def _labels(message: Message, spans: Sequence[tuple[int, int]]) -> list[str]:
    labels = ["O"] * len(spans)
    starts = np.asarray([a for a, _ in spans])
    for field in message.fields:
        first, end = np.searchsorted(starts, (field.start, field.end)).tolist()
        labels[first:end] = [f"B-{field.name}", *[f"I-{field.name}"] * (end - first - 1)][
            : end - first
        ]
    return labels


def retokenised(corpus: Corpus, column: str, *, spans: bool) -> Corpus:
    """Return words and labels of a corpus, its words cut as those of messages are.

    Parameters
    ----------
    corpus : Corpus
        With a column ``word`` or ``form``.
    column : str
        The labels; a part of a word has the label of the word.
    spans : bool
        They are IOB2: only the first part of a word begins a span.
    """
    word = "word" if "word" in corpus.columns else "form"
    columns: dict[str, list[str]] = {name: [] for name in ("word", *MARKS, column)}
    offsets = [0]
    for words, labels in zip(corpus.column_lists(word), corpus.column_lists(column), strict=True):
        text = " ".join(words)
        places = tokens(text)
        columns["word"] += [text[a:b] for a, b in places]
        columns[column] += _spread(words, labels, places, spans=spans)
        for name, marked in marks(text, places).items():
            columns[name] += marked
        offsets.append(len(columns["word"]))
    return Corpus(
        {name: Column.from_strings(strings) for name, strings in columns.items()},
        np.asarray(offsets, dtype=np.int64),
    )


def _spread(
    words: Sequence[str], labels: Sequence[str], places: Sequence[tuple[int, int]], *, spans: bool
) -> Iterator[str]:
    """Yield the label of the word in which each token lies."""
    starts = np.asarray(list(itertools.accumulate((len(w) + 1 for w in words), initial=0)))
    last = -1
    for start, _ in places:
        word = int(np.searchsorted(starts, start, side="right")) - 1
        label = labels[word]
        yield f"I-{label[2:]}" if spans and word == last and label != "O" else label
        last = word

"""Corpora that several recipes read, and how labels of them are scored."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from fstcrf.arrays import Longs
from fstcrf.errors import DataError
from fstcrf.evaluate import evaluate_spans
from fstcrf.ext.significance import SpanCounts, span_counts
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.message_features import LAYOUT, MARKS, layout, marks
from fstcrf.text.corpus import Column, Corpus, convert_column, read_columns, spans


@dataclass(frozen=True, slots=True)
class DataSplit:
    """Sentences to train on, to choose by, to test on."""

    train: Corpus  # all to train on
    part: Corpus  # those to train on while something is chosen
    dev: Corpus  # those to choose by
    test: Corpus


CHUNK_FILES = "conll2000/train.txt", "conll2000/test.txt"
ENTITY_FILES = "conll2003/eng.train", "conll2003/eng.testa", "conll2003/eng.testb"

PHRASE = "np"  # column of the labels of noun phrases

PHRASES = ("O", "B-NP", "I-NP")  # the labels of noun phrases, in IOB2

ENTITY = "ner"  # column of the labels of entities, unless another one is asked for


def chunk_file(setting: Setting, part: Literal["train", "test"]) -> Corpus:
    return read_columns(setting.files(f"conll2000/{part}.txt")[0], ("word", "pos", "chunk"))


def noun_phrase_file(setting: Setting, part: Literal["train", "test"]) -> Corpus:
    corpus = chunk_file(setting, part)
    labels = [
        [label if label.endswith("-NP") else "O" for label in sentence]
        for sentence in corpus.column_lists("chunk")
    ]
    return corpus.with_column(PHRASE, labels)


def entities(
    setting: Setting, part: str, scheme: Literal["iob2", "bioes"], target: str = ENTITY
) -> Corpus:
    """Return ``eng.PART`` of CoNLL-2003, its labels (IOB1) in a scheme, in the column `target`."""
    path = setting.files(f"conll2003/eng.{part}")[0]
    corpus = read_columns(path, ("word", "pos", "chunk", target))
    return convert_column(corpus, target, "iob1", scheme)


def span_f(corpus: Corpus, target: str, labels: Sequence[Sequence[str]]) -> float:
    return 100.0 * evaluate_spans(corpus.column_lists(target), labels).f


MESSAGES = "seminars/docs/*.txt"  # the files of the seminar announcements

FIELDS = ("stime", "etime", "location", "speaker")

TWINS = (0, 25)  # numbers of two messages that are the same: never one to train, one to test

# Runs of letters, of digits, or of one sign: the possible ends of fields.
_TOKEN = re.compile(r"[^\W\d_]+|\d+|([^\w\s]|_)\1*")
_TAG = re.compile(r"<(/?)(sentence|paragraph|stime|etime|location|speaker)>")


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a message: characters ``start : end`` of its text."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Message:
    text: str
    fields: tuple[MessageField, ...]  # in the order of their ends


BREAK = "<br>"  # the token for a line break, if line breaks are tokens


def all_messages(setting: Setting, *, breaks: bool = False) -> Corpus:
    """Read the seminar announcements; line breaks may be tokens."""
    return corpus_of([read_message(path) for path in setting.files(MESSAGES)], breaks=breaks)


def read_message(path: Path) -> Message:
    """Read a message without its tags; sentence and paragraph tags may cross fields.

    Bytes that are no UTF-8 become ``U+FFFD``. DataError for a field that does not end in turn.
    """
    tagged = path.read_bytes().decode("utf-8", "replace")
    parts: list[str] = []
    fields: list[MessageField] = []
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
            fields.append(MessageField(open_at.pop(name), size, name))
    if open_at:
        raise DataError(f"<{next(iter(open_at))}> has no end", path=str(path))
    return Message("".join([*parts, tagged[place:]]), tuple(fields))


_TOKEN_OR_BREAK = re.compile(rf"{_TOKEN.pattern}|\n")


def tokens(text: str, *, breaks: bool = False) -> list[tuple[int, int]]:
    """Return start and end of each token, and of line breaks if they are asked for."""
    pattern = _TOKEN_OR_BREAK if breaks else _TOKEN
    return [found.span() for found in pattern.finditer(text)]


def corpus_of(messages: Sequence[Message], *, breaks: bool = False) -> Corpus:
    """Return messages as a corpus: columns ``word``, `MARKS`, `LAYOUT`, ``field`` (IOB2).

    A message is one sentence and one document. A token belongs to the field in which it starts.
    """
    columns: dict[str, list[str]] = {name: [] for name in ("word", *MARKS, *LAYOUT, "field")}
    offsets, places = [0], []
    for message in messages:
        bounds = tokens(message.text, breaks=breaks)
        words = [message.text[a:b] for a, b in bounds]
        columns["word"] += [BREAK if word == "\n" else word for word in words]
        for name, column in (marks(message.text, bounds) | layout(message.text, bounds)).items():
            columns[name] += column
        columns["field"] += _labels(message, bounds)
        places += bounds
        offsets.append(len(places))
    return Corpus(
        {name: Column.from_strings(strings) for name, strings in columns.items()},
        np.asarray(offsets, dtype=np.int64),
        documents=np.arange(len(messages), dtype=np.int32),
        document_headers=("",) * len(messages),
        char_offsets=np.asarray(places, dtype=np.int32).reshape(-1, 2),
    )


def without_breaks(
    words: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]
) -> list[list[str]]:
    pairs = zip(words, labels, strict=True)
    return [[y for w, y in zip(*row, strict=True) if w != BREAK] for row in pairs]


def _labels(message: Message, bounds: Sequence[tuple[int, int]]) -> list[str]:
    labels = ["O"] * len(bounds)
    starts = np.asarray([a for a, _ in bounds])
    for field in message.fields:
        first, end = np.searchsorted(starts, (field.start, field.end)).tolist()
        labels[first:end] = [f"B-{field.name}", *[f"I-{field.name}"] * (end - first - 1)][
            : end - first
        ]
    return labels


def documents_of(test: Corpus) -> Longs | None:
    """Return the number of each sentence's document, from 0; `None` for a single document."""
    numbers = np.unique(test.documents, return_inverse=True)[1].astype(np.int64)
    return numbers if len(numbers) and numbers.max() > 0 else None


def counted(test: Corpus, target: str, labels: Sequence[Sequence[str]]) -> SpanCounts:
    """Count spans by document, or by sentence in a text that has but one."""
    found, documents = span_counts(test.column_lists(target), labels), documents_of(test)
    return found if documents is None else found.grouped(documents)


def retokenised(corpus: Corpus, column: str, *, spans: bool) -> Corpus:
    """Return words split like the words of messages, with their labels; `spans` are in IOB2."""
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
        documents=corpus.documents,
        document_headers=corpus.document_headers,
        first_document=corpus.first_document,
    )


def _spread(
    words: Sequence[str], labels: Sequence[str], places: Sequence[tuple[int, int]], *, spans: bool
) -> Iterator[str]:
    starts = np.asarray(list(itertools.accumulate((len(w) + 1 for w in words), initial=0)))
    last = -1
    for start, _ in places:
        word = int(np.searchsorted(starts, start, side="right")) - 1
        label = labels[word]
        yield f"I-{label[2:]}" if spans and word == last and label != "O" else label
        last = word


#
# A message is taken to give one value of a field. It is right if its tokens are equal to one of the
# field's true mentions in the message. The paper takes one value, without naming it.

POLICIES = ("first", "frequent")
"""``first``: the first span. ``frequent``: the value of most spans, or the first such value."""

_Words = tuple[str, ...]


class Tally(msgspec.Struct, frozen=True):
    """The numbers of right, found and gold items: tokens of a type, or messages with a field."""

    right: int = 0
    found: int = 0
    there: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.right + other.right, self.found + other.found, self.there + other.there)

    @property
    def f(self) -> float:
        return 2 * self.right / (self.found + self.there) if self.found + self.there else 0.0


def mean_f(counts: Mapping[str, Tally]) -> float:
    """Return the mean of F over the types or fields, in [0, 1]: the papers' overall figure."""
    return sum(each.f for each in counts.values()) / len(counts)


def token_counts(
    gold: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], types: Sequence[str]
) -> dict[str, Tally]:
    """Return the counts of tokens of each type, wherever its spans begin."""
    there, found, right = (Counter[str]() for _ in range(3))
    for true, guess in zip(gold, labels, strict=True):
        for a, b in zip(true, guess, strict=True):
            there[a[2:]] += 1
            found[b[2:]] += 1
            right[a[2:]] += a[2:] == b[2:]
    return {name: Tally(right[name], found[name], there[name]) for name in types}


def token_f(gold: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> float:
    """Return F of tokens with the type of a field, all fields together, in [0, 1]."""
    return sum(token_counts(gold, labels, FIELDS).values(), Tally()).f


def values(
    words: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], policy: str = "first"
) -> list[dict[str, _Words]]:
    """Return the value of each field that is found in each message."""
    return [
        {field: _value(several, policy) for field, several in _mentions(w, y).items() if several}
        for w, y in zip(words, labels, strict=True)
    ]


def field_counts(
    words: Sequence[Sequence[str]],
    gold: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str]],
    policy: str = "first",
) -> SpanCounts:
    """Return, [4, M], whether a message's value of a field is right, is found, is there."""
    guesses = values(words, labels, policy)
    mentions = [_mentions(w, y) for w, y in zip(words, gold, strict=True)]
    pairs = list(zip(guesses, mentions, strict=True))
    each = [
        [(guess.get(field) in true[field], field in guess, bool(true[field])) for field in FIELDS]
        for guess, true in pairs
    ]
    counts = np.array(each, dtype=np.int64).reshape(len(pairs), len(FIELDS), 3)
    return SpanCounts(*(np.ascontiguousarray(counts[..., k].T) for k in range(3)))


def scored(
    words: Sequence[Sequence[str]],
    gold: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str]],
    policy: str = "first",
) -> dict[str, Tally]:
    """Count the messages whose value of a field is right, that were given one, that have one."""
    return tallies(field_counts(words, gold, labels, policy))


def tallies(counts: SpanCounts) -> dict[str, Tally]:
    sums = (each.sum(axis=-1).tolist() for each in (counts.right, counts.found, counts.wanted))
    return {field: Tally(*each) for field, *each in zip(FIELDS, *sums, strict=True)}


def _mentions(words: Sequence[str], labels: Sequence[str]) -> dict[str, list[_Words]]:
    found: dict[str, list[_Words]] = {field: [] for field in FIELDS}
    for span in spans(labels):
        found[span.type].append(tuple(words[span.start : span.end]))
    return found


def _value(several: Sequence[_Words], policy: str) -> _Words:
    if policy == "first":
        return several[0]
    plain = [tuple(word.lower() for word in value if word.isalnum()) for value in several]
    most = Counter(plain).most_common(1)[0][0]  # of equals the one met first
    return several[plain.index(most)]

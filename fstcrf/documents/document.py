"""A document as violation models see it: its tokens, the sequences that it repeats, its spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Bytes, Ints, Longs
from fstcrf.corpus import Corpus
from fstcrf.corpus.schemes import OUTSIDE, named_scheme, split_label, tables
from fstcrf.errors import LabelError

__all__ = [
    "Document",
    "RepeatedSequences",
    "SpanTables",
    "documents",
    "repeated_sequences",
    "span_tables",
    "span_types",
]


@dataclass(frozen=True, eq=False)
class Document:
    """The tokens of a document; sentences without tokens are left out.

    Parameters
    ----------
    corpus : Corpus
        Its sentences.
    number : int
        Among the documents, from 0, for messages.
    """

    corpus: Corpus
    number: int = 0

    def __len__(self) -> int:
        return self.corpus.n_tokens

    @cached_property
    def offsets(self) -> Longs:
        """Bounds of the sentences, int64 [B + 1]; none is empty."""
        bounds = self.corpus.offsets
        return np.concatenate([bounds[:1], bounds[1:][np.diff(bounds) > 0]])

    def column(self, name: str) -> list[str]:
        """Return a column as one string for each token.

        Raises
        ------
        DataError
            There is no such column.
        """
        return self.corpus.column(name).strings()


def documents(corpus: Corpus, first: int = 0) -> Iterator[Document]:
    """Yield the documents of a corpus, numbered from `first`; without any it is one document."""
    for number, part in enumerate(corpus.document_slices(), first):
        yield Document(corpus[part], number)


# --- Sequences ------------------------------------------------------------------------------------

# Consistency asks whether two spans say the same, and whether one is a part of another. A span
# whose tokens come once in the document agrees with everything; only repeated sequences need a
# number.


class RepeatedSequences(NamedTuple):
    """Numbers of the token sequences that occur at least twice, within sentences.

    Attributes
    ----------
    first : int64 [N + 1]
        Where the sequences from each token on begin in ...
    number : int32
        ... the numbers of those of 1, 2, ... tokens; a longer one occurs once.
    """

    first: Longs
    number: Ints

    def of(self, start: int, end: int) -> int:
        """Return the number of the sequence of some tokens, −1 where it occurs once."""
        room = int(self.first[start + 1] - self.first[start])
        length = end - start
        return int(self.number[self.first[start] + length - 1]) if length <= room else -1

    def inside(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield number and length of the sequences among some tokens, but for all of them."""
        for first in range(start, end):
            for stop in range(first + 1, end + 1):
                number = self.of(first, stop)
                if number < 0:
                    break
                if stop - first < end - start:
                    yield number, stop - first


def repeated_sequences(tokens: Longs, offsets: Longs) -> RepeatedSequences:
    """Find and number all repeated sequences of a document.

    Parameters
    ----------
    tokens : int [N]
        Equal where tokens are equal.
    offsets : int64 [B + 1]
        Sentences.

    Returns
    -------
    RepeatedSequences
        Numbers count from 0, shorter sequences first.
    """
    n, known = len(tokens), 0
    last = np.repeat(offsets[1:], np.diff(offsets))  # end of each token's sentence
    number = np.full(n + 1, -1, dtype=np.int64)  # of the sequence of this length from each token
    number[:n] = _numbered(np.asarray(tokens, dtype=np.int64))
    found: list[tuple[Longs, Longs]] = []
    length = 1
    while True:
        at = np.flatnonzero(number >= 0)
        if not len(at):
            break
        found.append((at, number[at] + known))
        count = int(number.max()) + 1
        known += count
        length += 1
        # It can repeat only where both sequences that are a token shorter do.
        at = at[(at + length <= last[at]) & (number[np.minimum(at + 1, n)] >= 0)]
        key = number[at] * count + number[at + 1]
        number = np.full(n + 1, -1, dtype=np.int64)
        number[at] = _numbered(key)
    place = np.concatenate([at for at, _ in found]) if found else np.zeros(0, dtype=np.int64)
    numbers = np.concatenate([k for _, k in found]) if found else place
    first = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(place, minlength=n), out=first[1:])
    order = np.argsort(place, kind="stable")  # by token, and by length for each
    return RepeatedSequences(first, numbers[order].astype(np.int32))


def _numbered(keys: Longs) -> Longs:
    """Return numbers for the keys that are there twice or more, −1 for others."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    group = np.cumsum(new) - 1
    repeated = np.bincount(group, minlength=1) > 1
    name = np.cumsum(repeated) - 1
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = np.where(repeated[group], name[group], -1)
    return out


# --- Spans: as neighbouring labels say them, whatever their scheme, by the rules of conlleval -----


class SpanTables(NamedTuple):
    """Whether a span starts at, or goes on to, a label, by the label before it.

    Attributes
    ----------
    starts, inside : uint8 [L + 1, L]
        Row L begins a sentence.
    type : int32 [L]
        Index into `types`, −1 for labels outside of spans.
    types : tuple of str
    """

    starts: Bytes
    inside: Bytes
    type: Ints
    types: tuple[str, ...]

    def spans(self, labels: Sequence[int], before: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and type of the spans of label numbers behind the label `before`."""
        start, kind = -1, -1
        for t, label in enumerate(labels):
            if start >= 0 and not self.inside[before, label]:
                yield start, t, kind
                start = -1
            if start < 0 and self.starts[before, label]:
                start, kind = t, int(self.type[label])
            before = label
        if start >= 0:
            yield start, len(labels), kind


def span_types(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the types of spans that labels are of, sorted.

    Examples
    --------
    >>> span_types(["O", "B-PER", "I-PER", "S-LOC"])
    ('LOC', 'PER')
    """
    scheme = named_scheme("conlleval")
    parts = (split_label(label, scheme) for label in labels)
    return tuple(sorted({name for letter, name in parts if letter in scheme.letters and name}))


def span_tables(labels: Sequence[str], types: Sequence[str], *, strict: bool = True) -> SpanTables:
    """Return the tables of a set of labels, for spans of some types; other spans are none.

    Raises
    ------
    LabelError
        No label is of any of the types.
    """
    scheme = named_scheme("conlleval")
    starts, inside, _ = tables(scheme)
    letters = scheme.letters + "?"
    parts = [split_label(label, scheme) for label in labels]
    number = {name: k for k, name in enumerate(types)}
    kind = np.asarray(
        [-1 if letter == OUTSIDE else number.get(name, -1) for letter, name in parts],
        dtype=np.int32,
    )
    if strict and (kind < 0).all():
        raise LabelError(
            f"no label is of the types {', '.join(types)}; the labels are {', '.join(labels[:12])}"
        )
    first = [*parts, (OUTSIDE, "")]
    a = np.asarray([letters.index(letter) for letter, _ in first])
    same = np.asarray([[x[1] == y[1] for y in parts] for x in first], dtype=np.int64)
    found = [
        (table[a[:, None], a[None, :-1], same] & (kind >= 0)).astype(np.uint8)
        for table in (starts, inside)
    ]
    return SpanTables(found[0], found[1], kind, tuple(types))

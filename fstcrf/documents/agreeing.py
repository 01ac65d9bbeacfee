"""Consistency of one document in Python, for use beside models that are written in Python.

The kernel keeps the same counts (``csrc/agreement.h``); tests compare the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.documents.document import Document
from fstcrf.documents.sequences import repeated_sequences
from fstcrf.documents.spans import SpanTables, span_tables

if TYPE_CHECKING:
    from fstcrf.documents.consistency import Consistency

__all__ = ["Agreeing"]

Spans = list[tuple[int, int, int]]


class Agreeing:
    """Scores of a consistency model for one document.

    Parameters
    ----------
    model : Consistency
    document : Document
    """

    def __init__(self, model: Consistency, document: Document) -> None:
        self._types = model.types
        same, within = model.tables()
        self._same, self._within = same.tolist(), within.tolist()
        tokens = document.corpus.column(model.column).ids.astype(np.int64)
        self._repeated = repeated_sequences(tokens, document.offsets)
        bounds = document.offsets
        lengths = np.diff(bounds)
        self._begin = np.repeat(bounds[:-1], lengths).tolist()
        self._end = np.repeat(bounds[1:], lengths).tolist()
        self._whole: Counter[tuple[int, int]] = Counter()
        self._part: Counter[tuple[int, int]] = Counter()
        self._number: dict[str, int] = {}
        self._known: list[str] = []
        self._reading: SpanTables | None = None
        self._labels: list[str] = []
        self._pending: tuple[int, list[str], Spans, Spans] | None = None

    def start(self, labels: Sequence[str]) -> float:
        """Return the score of labels, and remember them."""
        self._whole.clear()
        self._part.clear()
        self._labels = list(labels)
        total, at = 0.0, 0
        while at < len(labels):
            total += self._enter(self._spans(at, self._end[at], self._labels))
            at = self._end[at]
        return total

    def change(self, first: int, labels: Sequence[str]) -> float:
        """Return by how much the score changes if tokens from `first` on had these labels."""
        if not labels:
            self._pending = None
            return 0.0
        begin, end = self._begin[first], self._end[first + len(labels) - 1]
        changed = self._labels.copy()
        changed[first : first + len(labels)] = labels
        old, new = (list(self._sentences(begin, end, x)) for x in (self._labels, changed))
        common = set(old) & set(new)  # most spans stay
        old = [span for span in old if span not in common]
        new = [span for span in new if span not in common]
        self._leave(old)
        was = self._enter(old)
        self._leave(old)
        now = self._enter(new)
        self._leave(new)
        self._enter(old)
        self._pending = (first, list(labels), old, new)
        return now - was

    def keep(self) -> None:
        """Remember the labels of the last `change`."""
        if self._pending is None:
            return
        first, labels, old, new = self._pending
        self._leave(old)
        self._enter(new)
        self._labels[first : first + len(labels)] = labels
        self._pending = None

    def _sentences(self, begin: int, end: int, labels: list[str]) -> Iterator[tuple[int, int, int]]:
        while begin < end:
            yield from self._spans(begin, self._end[begin], labels)
            begin = self._end[begin]

    def _spans(self, begin: int, end: int, labels: list[str]) -> Spans:
        part = labels[begin:end]
        reading = self._tables(part)
        numbers = [self._number[label] for label in part]
        found = reading.spans(numbers, len(self._known))
        return [(begin + a, begin + b, kind) for a, b, kind in found]

    def _tables(self, labels: list[str]) -> SpanTables:
        if self._reading is None or not all(label in self._number for label in labels):
            self._known = [*self._known, *sorted(set(labels) - set(self._known))]
            self._number = {label: k for k, label in enumerate(self._known)}
            self._reading = span_tables(self._known, self._types, strict=False)
        return self._reading

    def _enter(self, spans: Spans) -> float:
        """Count spans; return what they cost together with all that are counted."""
        total = 0.0
        for start, end, kind in spans:
            own = self._repeated.of(start, end)
            if own >= 0:
                for y in range(len(self._types)):
                    total += (end - start) * (
                        self._whole[own, y] * self._same[kind][y]
                        + self._part[own, y] * self._within[y][kind]
                    )
            for number, length in self._repeated.inside(start, end):
                for y in range(len(self._types)):
                    total += length * self._whole[number, y] * self._within[kind][y]
            self._count(start, end, kind, 1)
        return total

    def _leave(self, spans: Spans) -> None:
        for start, end, kind in spans:
            self._count(start, end, kind, -1)

    def _count(self, start: int, end: int, kind: int, by: int) -> None:
        own = self._repeated.of(start, end)
        if own >= 0:
            self._whole[own, kind] += by
        for number, _ in self._repeated.inside(start, end):
            self._part[number, kind] += by

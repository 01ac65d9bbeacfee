"""Segments of sentences: the spans of a labelling, or whole sentences.

===============  =====================================
Segments         runs of tokens of a batch
label_segments   the spans of some labels
gold_segments    those of the gold labels
whole_sentences  every sentence
===============  =====================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.corpus import Column
from fstcrf.corpus.span import span_arrays
from fstcrf.train.batches import Batch

__all__ = ["Segments", "gold_segments", "label_segments", "whole_sentences"]

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of tokens that do not overlap, in order.

    Parameters
    ----------
    start, end : int64 [M]
        First token and the one behind the last.
    type : int64 [M]
        Number of the type.
    """

    start: Longs
    end: Longs
    type: Longs

    def __len__(self) -> int:
        """Return the number of segments, M."""
        return len(self.start)

    def chosen(self, which: NDArray[np.bool_]) -> Segments:
        """Return some of the segments."""
        return Segments(self.start[which], self.end[which], self.type[which])

    def without(self, others: Segments, tokens: int) -> Segments:
        """Return the segments that are not among the others (of the same bounds and type)."""
        end, kind = np.full((2, tokens), -1, dtype=np.int64)
        end[others.start], kind[others.start] = others.end, others.type
        return self.chosen((end[self.start] != self.end) | (kind[self.start] != self.type))


def label_segments(labels: NDArray[np.int32], offsets: Longs, names: tuple[str, ...]) -> Segments:
    """Return the spans of some sentences' labels, as conlleval reads them.

    Parameters
    ----------
    labels : int32 [n]
    offsets : int64 [B + 1]
    names : tuple of str
        The labels.
    """
    found = span_arrays(Column(labels, names), offsets, "conlleval", illegal="repair")
    return Segments(found.start, found.end, found.type.astype(np.int64))


def gold_segments(batch: Batch) -> Segments:
    """Return the spans of a batch's gold labels."""
    return label_segments(batch.label, batch.offsets, batch.problem.topology.labels)


def whole_sentences(batch: Batch) -> Segments:
    """Return every sentence as a segment."""
    return Segments(
        batch.offsets[:-1], batch.offsets[1:], np.zeros(len(batch.sentences), dtype=np.int64)
    )

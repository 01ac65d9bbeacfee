"""Gold segments of a corpus: read from its labels, and made such as lattices have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fstcrf.arrays import Bools, Ints, Longs, Ragged, distinct
from fstcrf.errors import DataError, LabelWarning, warn
from fstcrf.text.corpus import Corpus, span_arrays
from fstcrf.text.corpus.schemes import OUTSIDE

OnMissing = Literal["error", "nearest", "skip"]


@dataclass(frozen=True, eq=False)
class GoldSegments:
    """Segments of all sentences, in order; tokens are numbered through.

    Parameters
    ----------
    start, end : int64 [M]
    label : int64 [M]
    """

    start: Longs
    end: Longs
    label: Longs

    def chosen(self, offsets: Longs, kept: Longs) -> GoldSegments:
        """Return the segments of some sentences, with new token numbers."""
        own = np.searchsorted(offsets, self.start, side="right") - 1
        there = np.isin(own, kept)
        shift = np.zeros(len(offsets) - 1, dtype=np.int64)
        shift[kept] = Ragged(offsets).select(kept).offsets[:-1] - offsets[kept]
        moved = shift[own[there]]
        return GoldSegments(self.start[there] + moved, self.end[there] + moved, self.label[there])


def gold_segments(corpus: Corpus, target: str, scheme: str) -> tuple[GoldSegments, tuple[str, ...]]:
    """Return gold segments, including one for each token outside, and their labels."""
    if target not in corpus.columns:
        there = ", ".join(map(str, corpus.columns))
        raise DataError(f"no column {target!r}: the columns are {there}", path=corpus.source)
    column = corpus.columns[target]
    found = span_arrays(column, corpus.offsets, scheme)
    used = distinct(found.type)
    types = [found.types[k] for k in used.tolist()]
    if OUTSIDE in types:
        raise DataError(
            'a type of spans is called "O", which is reserved for tokens outside of spans'
        )
    labels = (*sorted(types), OUTSIDE)
    number = np.zeros(len(found.types) + 1, dtype=np.int64)
    for k, name in zip(used.tolist(), types, strict=True):
        number[k] = labels.index(name)
    covered = np.zeros(corpus.n_tokens + 1, dtype=np.int64)
    np.add.at(covered, found.start, 1)
    np.add.at(covered, found.end, -1)
    outside = np.flatnonzero(np.cumsum(covered)[:-1] == 0)
    start = np.concatenate([found.start, outside]).astype(np.int64)
    end = np.concatenate([found.end, outside + 1]).astype(np.int64)
    label = np.concatenate([number[found.type], np.full(len(outside), len(labels) - 1)])
    order = np.argsort(start, kind="stable")
    return GoldSegments(start[order], end[order], label[order]), labels


def length_limits(
    gold: GoldSegments, labels: int, longest: int, *, tails: bool
) -> tuple[Ints, Bools]:
    """Return the longest segment of each label, and whether there may be longer ones."""
    most = np.ones(labels, dtype=np.int64)
    np.maximum.at(most, gold.label, gold.end - gold.start)
    limits = np.minimum(most, longest).astype(np.int32)
    tailed = np.full(labels, tails)
    tailed[-1] = False  # each token outside is a segment
    return limits, tailed


def present_segments(
    corpus: Corpus,
    gold: GoldSegments,
    labels: tuple[str, ...],
    limits: Ints,
    tailed: Bools,
    on_missing: OnMissing,
) -> tuple[Corpus, GoldSegments]:
    """Return the corpus and gold segments that the lattices have."""
    size = gold.end - gold.start
    missing = np.flatnonzero((size > limits[gold.label]) & ~tailed[gold.label])
    if not len(missing):
        return corpus, gold
    sentence = np.searchsorted(corpus.offsets, gold.start[missing], side="right") - 1
    k, own = int(missing[0]), int(sentence[0])
    name = labels[int(gold.label[k])]
    what = (
        f"{len(missing)} gold segments are longer than their label's longest, the first a {name} "
        f"of {size[k]} tokens"
    )
    if on_missing == "error":
        raise DataError(
            f"{what}: allow tails, give a larger longest=, or set on_missing='nearest' or 'skip'",
            sentence=own,
            token=int(gold.start[k] - corpus.offsets[own]),
        )
    if on_missing == "skip":
        kept = np.setdiff1d(np.arange(len(corpus)), sentence)
        warn(f"{what}: {len(corpus) - len(kept)} sentences are left out", LabelWarning)
        if not len(kept):
            raise DataError("no sentence is left to train on", path=corpus.source)
        return corpus.select(kept), gold.chosen(corpus.offsets, kept)
    warn(f"{what}: they are cut into pieces", LabelWarning)
    return corpus, _cut(gold, limits)


def _cut(gold: GoldSegments, limits: Ints) -> GoldSegments:
    """Cut segments into pieces of at most their label's longest."""
    size, most = gold.end - gold.start, limits[gold.label].astype(np.int64)
    pieces = Ragged.from_lengths(-(-size // most))
    which = pieces.rows()
    start = gold.start[which] + pieces.ranges() * most[which]
    end = np.minimum(start + most[which], gold.end[which])
    return GoldSegments(start, end, gold.label[which])

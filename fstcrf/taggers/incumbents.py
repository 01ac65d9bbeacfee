"""The incumbents of a search: the n best distinct labellings of each sentence that were met so far.

Labellings are distinct where some tape that is shown has other labels. Equal ones are looked for by
a hash of their labels, and compared where hashes agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.ragged import Ragged

_WIDE = 1024  # labellings of a sentence there is room for at first

_Hashes = NDArray[np.uint64]


class Incumbents:
    """The n best labellings of the tapes shown, of each sentence of a corpus, best first.

    Parameters
    ----------
    offsets : int64 [B + 1]
    n : int
    tapes : int
        How many are shown.
    repeated : bool
        Whether one labelling may be met several times.

    Attributes
    ----------
    labels : list of int32 [W, N]
        For each tape; −1 where a sentence has no such labelling. W is n, of many as many as needed.
    score : float64 [B, W]
        Falling; −inf where there is no such labelling.
    bound : float64 [B]
        No labelling that is not among them scores more.
    """

    def __init__(self, offsets: Longs, n: int, tapes: int, *, repeated: bool) -> None:
        size, width = len(offsets) - 1, min(n, _WIDE)
        self.offsets, self.n, self.repeated = offsets, n, repeated
        self.score = np.full((size, width), -np.inf)
        self.labels = [np.full((width, int(offsets[-1])), -1, np.int32) for _ in range(tapes)]
        self.bound = np.full(size, -np.inf)
        self._none = np.full(size, -np.inf)
        self._lengths = np.diff(offsets)

    @property
    def threshold(self) -> Floats:
        """What a labelling must exceed to be among the n best, [B]; −inf while there is room."""
        return self.score[:, -1] if self.score.shape[1] == self.n else self._none

    @property
    def count(self) -> int:
        """Labellings of the sentence that has the most."""
        return int((self.score > -np.inf).sum(axis=1).max(initial=0))

    def columns(self, n: int) -> Floats:
        """Return the scores, [B, n]."""
        score, more = self.score[:, :n], max(0, n - self.score.shape[1])
        return np.pad(score, ((0, 0), (0, more)), constant_values=-np.inf) if more else score

    def rows(self, tape: int, n: int) -> Ints:
        """Return the labels of a tape, [n, N]."""
        labels, more = self.labels[tape][:n], max(0, n - self.score.shape[1])
        return np.pad(labels, ((0, more), (0, 0)), constant_values=-1) if more else labels

    def labellings(self, sentence: Longs, rank: Longs) -> list[Ints]:
        """Return the labels of some of them for each tape, one after the other."""
        at = self._tokens(sentence)
        row = np.repeat(rank, self._lengths[sentence])
        return [mine[row, at] for mine in self.labels]

    def put(self, sentence: Longs, score: Floats, labels: Sequence[Ints]) -> None:
        """Take over labellings that are among the n best.

        Parameters
        ----------
        sentence : int64 [P]
            Not falling.
        score : float64 [P]
        labels : sequence of int32
            For each tape the labels of all of them, one after the other.
        """
        if self.n == 1:
            self._put_best(sentence, score, labels)
            return
        rows, place = np.unique(sentence, return_inverse=True)
        width, tokens = self.score.shape[1], self.labels[0].shape[1]
        held = self.offsets[rows, None] + tokens * np.arange(width)
        row = np.concatenate([np.repeat(np.arange(len(rows)), width), place])
        pool = Ragged.from_lengths(self._lengths[rows[row]])
        kept = pool.part(0, held.size).ranges(held.ravel())
        every = [
            np.concatenate([mine.reshape(-1).take(kept), more])
            for mine, more in zip(self.labels, labels, strict=True)
        ]
        both = np.concatenate([self.score[rows].ravel(), score])
        order = np.lexsort((-both, row))  # of equals, those held first
        order = order[both[order] > -np.inf]
        if self.repeated:
            order = order[_first_of_equals(row[order], pool, order, every)]
        mine = row[order]
        rank = np.arange(len(order)) - np.searchsorted(mine, mine)
        order, rank = order[rank < self.n], rank[rank < self.n]
        if len(rank) and rank.max() >= width:
            self._widen(int(rank.max()) + 1)
        self._write(rows, row[order], rank, both[order], pool, order, every)

    def _put_best(self, sentence: Longs, score: Floats, labels: Sequence[Ints]) -> None:
        """Take over the best of each sentence, of equals the first, where it is better."""
        best = np.lexsort((-score, sentence))
        best = best[np.append(True, sentence[best[1:]] != sentence[best[:-1]])]
        best = best[score[best] > self.score[sentence[best], 0]]
        rows = sentence[best]
        self.score[rows, 0] = score[best]
        at, to = Ragged.from_lengths(self._lengths[sentence]).entries(best), self._tokens(rows)
        for mine, more in zip(self.labels, labels, strict=True):
            mine[0, to] = more.take(at)

    def _tokens(self, sentences: Longs) -> Longs:
        return Ragged(self.offsets).entries(sentences)

    def _write(
        self,
        rows: Longs,
        row: Longs,
        rank: Longs,
        score: Floats,
        pool: Ragged,
        order: Longs,
        labels: Sequence[Ints],
    ) -> None:
        block = np.full((len(rows), self.score.shape[1]), -np.inf)
        block[row, rank] = score
        self.score[rows] = block
        chosen, at = pool.select(order), pool.entries(order)
        to = chosen.ranges(rank * self.labels[0].shape[1] + self.offsets[rows[row]])
        for mine, every in zip(self.labels, labels, strict=True):
            mine.reshape(-1)[to] = every.take(at)

    def _widen(self, width: int) -> None:
        more = min(self.n, max(width, 2 * self.score.shape[1])) - self.score.shape[1]
        self.score = np.pad(self.score, ((0, 0), (0, more)), constant_values=-np.inf)
        self.labels = [
            np.pad(mine, ((0, more), (0, 0)), constant_values=-1) for mine in self.labels
        ]

    def promising(self, sentence: Longs, score: Floats) -> tuple[Longs, Floats]:
        """Return which of some labellings of the tapes shown may be among the n best.

        They are distinct, and none of them is held. Returned is also what the n-th best scores with
        them, [B].

        Parameters
        ----------
        sentence : int64 [P]
            Not falling.
        score : float64 [P]
            At least.
        """
        better = np.flatnonzero(score > self.threshold[sentence])
        rows, place = np.unique(sentence[better], return_inverse=True)
        held = self.score[rows]
        row = np.concatenate([np.repeat(np.arange(len(rows)), held.shape[1]), place])
        both = np.concatenate([held.ravel(), score[better]])
        order = np.lexsort((-both, row))
        order = order[both[order] > -np.inf]
        rank = np.arange(len(order)) - np.searchsorted(row[order], row[order])
        raised = self.threshold.copy()
        last = order[rank == self.n - 1]
        raised[rows[row[last]]] = both[last]
        chosen = order[rank < self.n] - held.size
        return better[np.sort(chosen[chosen >= 0])], raised

    def own(self, sentence: Longs, labels: Sequence[Ints]) -> Floats:
        """Return what labellings of the tapes shown score where they are held, else −inf, [P]."""
        rows, tokens = Ragged(self.offsets).select(sentence), self._tokens(sentence)
        held = np.full(len(sentence), -np.inf)
        for rank in range(self.count):
            differs = np.zeros(len(tokens), dtype=bool)
            for mine, more in zip(self.labels, labels, strict=True):
                differs |= mine[rank].take(tokens) != more
            same = _sums(differs, rows) == 0
            held[same] = self.score[sentence[same], rank]
        return held

    def replace(self, sentences: Longs, other: Incumbents) -> None:
        """Take over the incumbents of some of the sentences from a search of these alone."""
        if other.score.shape[1] > self.score.shape[1]:
            self._widen(other.score.shape[1])
        width, tokens = other.score.shape[1], self._tokens(sentences)
        self.score[sentences], self.score[sentences, :width] = -np.inf, other.score
        for mine, more in zip(self.labels, other.labels, strict=True):
            mine[:, tokens] = -1
            mine[:width, tokens] = more
        self.bound[sentences] = other.bound


# --- Equal labellings -----------------------------------------------------------------------------


def _first_of_equals(row: Longs, pool: Ragged, order: Longs, labels: Sequence[Ints]) -> Longs:
    """Return which labellings, `order` of a pool, no earlier one of the same row equals."""
    key = _hashes(pool, labels)[order]
    for _ in range(2):
        group = np.lexsort((key, row))
        again = (row[group[1:]] == row[group[:-1]]) & (key[group[1:]] == key[group[:-1]])
        first, second = group[:-1][again], group[1:][again]
        if _equal(pool, order[first], order[second], labels).all():
            break
        key = _numbers(pool, order, labels)  # hashes of others agree
    return np.delete(np.arange(len(order)), second)


def _hashes(pool: Ragged, labels: Sequence[Ints]) -> _Hashes:
    """Return a number for each labelling of some tapes, uint64 [P]."""
    total: _Hashes = np.zeros(len(pool), np.uint64)
    place = pool.ranges().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for tape, ids in enumerate(labels):
        mixed = (ids.astype(np.uint64) + np.uint64(tape << 32)) * np.uint64(0xD6E8FEB86659FD93)
        mixed = (mixed ^ place) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        total += _sums(mixed ^ (mixed >> np.uint64(32)), pool)
    return total


def _equal(pool: Ragged, first: Longs, second: Longs, labels: Sequence[Ints]) -> Bools:
    """Return whether labellings of equal length are the same, pair by pair."""
    one, other = pool.entries(first), pool.entries(second)
    differs = np.zeros(len(one), dtype=bool)
    for ids in labels:
        differs |= ids.take(one) != ids.take(other)
    return np.equal(_sums(differs, pool.select(first)), 0)


def _sums(values: Bools | _Hashes, rows: Ragged) -> _Hashes:
    """Return the sum of each row, modulo 2^64; a row may be empty."""
    total = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, dtype=np.uint64, out=total[1:])
    return total[rows.offsets[1:]] - total[rows.offsets[:-1]]


def _numbers(pool: Ragged, order: Longs, labels: Sequence[Ints]) -> _Hashes:
    """Return one number for each labelling that differs from others."""
    known: dict[tuple[bytes, ...], int] = {}
    bounds = pool.offsets.tolist()
    keys = [
        tuple(ids[bounds[i] : bounds[i + 1]].tobytes() for ids in labels) for i in order.tolist()
    ]
    return np.asarray([known.setdefault(key, len(known)) for key in keys], dtype=np.uint64)

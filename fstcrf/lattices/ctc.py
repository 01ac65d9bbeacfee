"""Frames that collapse to strings: connectionist temporal classification as a lattice.

States / Start / Final / Arcs
    A node between frames; the class of an arc is the symbol it reads, a blank among them. A symbol
    behind another one, or behind a blank, begins a segment; the same symbol again carries it on.
    All of this is who may follow whom: T frames and V symbols have T (2 V − 1) arcs.

A path is a symbol for each frame; its string is what is left without repetitions and blanks. The
best path and the best string differ: a string has many paths, whose probabilities add up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Bools, Floats
from fstcrf.errors import TooLargeError
from fstcrf.lattices.arcs import MOST_ARCS
from fstcrf.lattices.sequences import Found
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor, intersect
from fstcrf.machines.plans import scaled


class Frames(NamedTuple):
    """What the search for strings reads: scores of frames, and what strings are legal."""

    score: Floats  # [T, V]
    blank: int
    acceptor: Acceptor | None

    def under(self, acceptors: Sequence[Acceptor]) -> Frames:
        """Return the same under acceptors of strings."""
        named = [replace(one, tapes=("",)) for one in acceptors]
        return self._replace(acceptor=reduce(intersect, named) if named else None)

    def restrict(self, mask: Bools) -> Frames:
        """Return the same with the symbols that a mask [T, V] allows."""
        return self._replace(score=np.where(mask, self.score, -np.inf))

    def scale(self, factor: float) -> Frames:
        """Return the same with the scores of frames times a factor."""
        return self._replace(score=scaled(self.score, factor))

    def log_sum(self, labels: Sequence[int]) -> float:
        """Return the log of the sum over all paths of a string."""
        return _string_sum(self, tuple(labels))

    def search(self, budget: int, n: int, likely: tuple[int, ...]) -> Iterator[Found]:
        """Yield strings, the most probable first; `likely` is one where the budget ends first."""
        return map(Found._make, _search(self, budget, n, likely))


@dataclass(frozen=True, slots=True)
class _Prefix:
    """A string that may go on: its labels, its state, and the log of what each frame has of it."""

    labels: tuple[int, ...]
    state: int
    symbol: Floats  # [T + 1] paths whose last frame has its last label
    blank: Floats  # [T + 1] paths whose last frame is blank


# --- The search for strings -----------------------------------------------------------------------


def _others(values: Floats) -> Floats:
    """Log of the sum over all other columns, [..., V], without a subtraction."""
    left, right = np.full_like(values, -np.inf), np.full_like(values, -np.inf)
    left[..., 1:] = np.logaddexp.accumulate(values, axis=-1)[..., :-1]
    right[..., :-1] = np.logaddexp.accumulate(values[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return np.logaddexp(left, right)


class _Strings:
    """Suffix sums of frames under an acceptor of strings, and the steps that lead to prefixes."""

    def __init__(self, frames: Frames) -> None:
        self.score, self.blank = frames.score, frames.blank
        size = self.score.shape[1]
        acceptor = frames.acceptor
        if acceptor is None:
            self.target = np.zeros((1, size), dtype=np.int64)
            self.gain, self.final = np.zeros((1, size)), np.zeros(1)
        else:
            self.target = acceptor.target.astype(np.int64)
            gain = np.zeros(self.target.shape) if acceptor.score is None else acceptor.score
            self.gain, self.final = gain, acceptor.final
        dead = self.target < 0
        dead[:, self.blank] = True
        self.gain = np.where(dead, -np.inf, self.gain)
        self.target = np.maximum(self.target, 0)

    @made_once
    def suffix(self) -> tuple[Floats, Floats]:
        """Logs of sums of all ways on: [T + 1, Q] behind a blank, [T + 1, Q, V] behind symbols."""
        length, size = self.score.shape
        states = len(self.final)
        if (length + 1) * states * size > MOST_ARCS:
            raise TooLargeError(
                f"{length:,} frames, {states:,} states of the grammar, {size:,} symbols: too many"
            )
        behind_blank = np.empty((length + 1, states))
        behind = np.empty((length + 1, states, size))
        behind_blank[-1], behind[-1] = self.final, self.final[:, None]
        columns = np.arange(size)
        for t in range(length - 1, -1, -1):
            row = self.score[t]
            new = row + self.gain + behind[t + 1, self.target, columns]
            skip = row[self.blank] + behind_blank[t + 1]
            behind_blank[t] = np.logaddexp(skip, np.logaddexp.reduce(new, axis=1))
            again = np.logaddexp(skip[:, None], row + behind[t + 1])
            behind[t] = np.logaddexp(again, _others(new))
        return behind_blank, behind

    def root(self) -> _Prefix:
        """Return the empty string."""
        length = len(self.score)
        blank = np.append(0.0, np.cumsum(self.score[:, self.blank]))
        return _Prefix((), 0, np.full(length + 1, -np.inf), blank)

    def begun(self, prefix: _Prefix) -> Floats:
        """Log of the sum of the paths on which another label has just begun, [T, V]."""
        mass = np.logaddexp(prefix.symbol, prefix.blank)[:-1, None]
        mass = np.repeat(mass, self.score.shape[1], axis=1)
        if prefix.labels:
            mass[:, prefix.labels[-1]] = prefix.blank[:-1]
        return np.asarray(mass + self.score + self.gain[prefix.state])

    def bounds(self, prefix: _Prefix, begun: Floats) -> Floats:
        """Log of the sum over all strings that begin with the prefix and a label, [V]."""
        behind = self.suffix[1][1:, self.target[prefix.state], np.arange(begun.shape[1])]
        return np.asarray(np.logaddexp.reduce(begun + behind, axis=0, initial=-np.inf))

    def grown(self, prefix: _Prefix, label: int, begun: Floats) -> _Prefix:
        """Return the prefix with another label, of which `begun` [T] has begun at each frame."""
        symbol, blank = [-math.inf], [-math.inf]
        again, empty = self.score[:, label].tolist(), self.score[:, self.blank].tolist()
        for t, new in enumerate(begun.tolist()):
            on, over = symbol[t] + again[t], np.logaddexp(symbol[t], blank[t]) + empty[t]
            symbol.append(float(np.logaddexp(new, on)))
            blank.append(float(over))
        state = int(self.target[prefix.state, label])
        return _Prefix((*prefix.labels, label), state, np.asarray(symbol), np.asarray(blank))

    def ended(self, prefix: _Prefix) -> float:
        """Log of the sum over the paths of exactly this string."""
        mass = np.logaddexp(prefix.symbol[-1], prefix.blank[-1])
        return float(mass + self.final[prefix.state])


def _string_sum(frames: Frames, labels: tuple[int, ...]) -> float:
    """Log of the sum over all paths of a string.

    By the recursion over its labels with a blank before, between and behind them: a place is
    reached from itself, from the one before it, and, at a label other than the last one, from the
    label before.
    """
    places = np.full(2 * len(labels) + 1, frames.blank)
    places[1::2] = labels
    skips = np.zeros(len(places), dtype=bool)
    skips[3::2] = places[3::2] != places[1:-2:2]
    mass = np.full(len(places), -np.inf)
    mass[0] = 0.0  # before the first frame, behind nothing
    for t, row in enumerate(frames.score[:, places]):
        before = mass.copy()
        before[1:] = np.logaddexp(mass[1:], mass[:-1])
        if t:
            skipped = np.where(skips[2:], mass[:-2], -np.inf)
            before[2:] = np.logaddexp(before[2:], skipped)
        mass = before + row
    total = float(np.logaddexp.reduce(mass[-2:]))
    if frames.acceptor is None:
        return total
    known = frames.acceptor.labels[0]
    return total + frames.acceptor.walk([known[k] for k in labels])


def _search(
    frames: Frames, budget: int, n: int, likely: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], float, float, bool]]:
    """Yield strings, best first: labels, score, bound, whether it is proven."""
    strings = _Strings(frames)
    # (−bound, labels, 0: it ends here or 1: it may go on, what it grows from)
    queue: list[tuple[float, tuple[int, ...], int, tuple[_Prefix, Floats] | None]] = []

    def look(prefix: _Prefix) -> None:
        end = strings.ended(prefix)
        if end > -np.inf:
            heapq.heappush(queue, (-end, prefix.labels, 0, None))
        if not len(frames.score):
            return
        begun = strings.begun(prefix)
        for label, bound in enumerate(strings.bounds(prefix, begun).tolist()):
            if bound > -np.inf:
                grown = prefix, begun[:, label]
                heapq.heappush(queue, (-bound, (*prefix.labels, label), 1, grown))

    look(strings.root())
    looked, told = 1, set[tuple[int, ...]]()
    while queue:
        cost, labels, _, source = heapq.heappop(queue)
        if source is None:
            told.add(labels)
            yield labels, -cost, -cost, True
        elif looked < budget:
            looked += 1
            look(strings.grown(source[0], labels[-1], source[1]))
        else:
            yield from _given_up(frames, queue, told, likely, n, -cost)
            return


def _given_up(
    frames: Frames,
    queue: Sequence[tuple[float, tuple[int, ...], int, object]],
    told: set[tuple[int, ...]],
    likely: tuple[int, ...],
    n: int,
    bound: float,
) -> Iterator[tuple[tuple[int, ...], float, float, bool]]:
    """Yield the best strings that are known: those that were met, and that of the best path."""
    known = {entry[1]: -entry[0] for entry in queue if entry[3] is None}
    if likely not in told:
        known[likely] = _string_sum(frames, likely)
    for labels, score in heapq.nlargest(n, known.items(), key=lambda item: (item[1], item[0])):
        yield labels, score, max(bound, score), False

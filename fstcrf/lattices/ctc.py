"""Frames that collapse to strings: connectionist temporal classification as a lattice.

States / Start / Final / Arcs
    A state is a node between frames. The class of an arc is its symbol; the blank is a symbol. A
    symbol after a different one begins a segment; the same symbol again continues it. This is a
    relation of neighbours, so T frames and V symbols need T (2 V − 1) arcs.

A path has a symbol for each frame. Its string is the path without repetitions and blanks. The best
path and the best string differ: a string has many paths, whose probabilities add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats
from fstcrf.errors import TooLargeError
from fstcrf.lattices.arcs import MOST_ARCS
from fstcrf.lattices.labellings import Entry, Labels, ScoredLabels, search
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor, intersect
from fstcrf.machines.plans import scaled


class Frames(NamedTuple):
    """Scores of frames, and the grammar of strings."""

    score: Floats  # [T, V]
    blank: int
    acceptor: Acceptor | None

    def under(self, acceptors: Sequence[Acceptor]) -> Frames:
        """Return the frames with other acceptors of strings."""
        named = [replace(acceptor, tapes=("",)) for acceptor in acceptors]
        return self._replace(acceptor=reduce(intersect, named) if named else None)

    def restrict(self, mask: Bools) -> Frames:
        """Return the frames with the symbols that a mask [T, V] allows."""
        return self._replace(score=np.where(mask, self.score, -np.inf))

    def scale(self, factor: float) -> Frames:
        """Return the frames with their scores multiplied by a factor."""
        return self._replace(score=scaled(self.score, factor))

    def log_sum(self, labels: Labels) -> float:
        """Return the log of the sum over all paths of a string.

        The recursion is over the labels with a blank before, between and after them. A place is
        reached from itself, from the place before it and, at a label that differs from the label
        before, from that label.
        """
        places = np.full(2 * len(labels) + 1, self.blank)
        places[1::2] = labels
        skips = np.zeros(len(places), dtype=bool)
        skips[3::2] = places[3::2] != places[1:-2:2]
        mass = np.full(len(places), -np.inf)
        mass[0] = 0.0  # before the first frame
        for t, row in enumerate(self.score[:, places]):
            before = mass.copy()
            before[1:] = np.logaddexp(mass[1:], mass[:-1])
            if t:
                skipped = np.where(skips[2:], mass[:-2], -np.inf)
                before[2:] = np.logaddexp(before[2:], skipped)
            mass = before + row
        total = float(np.logaddexp.reduce(mass[-2:]))
        if self.acceptor is None:
            return total
        names = self.acceptor.labels[0]
        return total + self.acceptor.walk([names[k] for k in labels])

    def search(self, budget: int, likely: Labels) -> Iterator[ScoredLabels]:
        """Yield strings, the most probable first.

        After `budget` prefixes, the strings reached so far and `likely` follow, with
        ``exact=False``.
        """
        strings = _Strings(self)
        entries = strings.entries(strings.root())
        return search(entries, strings.divided, budget - 1, lambda: (likely, self.log_sum(likely)))


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The beginning of a string, with the log of the sum of its paths up to each frame."""

    labels: Labels
    state: int  # of the acceptor
    symbol: Floats  # [T + 1] paths whose last frame has its last label
    blank: Floats  # [T + 1] paths whose last frame is blank


def _others(values: Floats) -> Floats:
    """Log of the sum over all other columns, [..., V], without a subtraction."""
    left, right = np.full_like(values, -np.inf), np.full_like(values, -np.inf)
    left[..., 1:] = np.logaddexp.accumulate(values, axis=-1)[..., :-1]
    right[..., :-1] = np.logaddexp.accumulate(values[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    return np.logaddexp(left, right)


def _carried(added: Floats, kept: Floats) -> Floats:
    """Return x of x[t + 1] = log(exp(added[t]) + exp(x[t] + kept[t])) and x[0] = -inf, [T + 1]."""
    total = np.cumsum(kept)
    if np.isfinite(kept).all():
        return np.append(-np.inf, np.logaddexp.accumulate(added - total) + total)
    values = [-math.inf]
    for new, stays in zip(added.tolist(), kept.tolist(), strict=True):
        values.append(float(np.logaddexp(new, values[-1] + stays)))
    return np.asarray(values)


_Part: TypeAlias = tuple[_Prefix, int, Floats]
"""A prefix, its next label, and the log of the paths on which the label begins at each frame."""


class _Strings:
    """The strings of frames under an acceptor, as the search divides them."""

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
        """Log sums of paths to the end: [T + 1, Q] after a blank, [T + 1, Q, V] after symbols."""
        length, size = self.score.shape
        states = len(self.final)
        if (length + 1) * states * size > MOST_ARCS:
            raise TooLargeError(
                f"{length:,} frames, {states:,} states of the grammar, {size:,} symbols: too many"
            )
        after_blank = np.empty((length + 1, states))
        after = np.empty((length + 1, states, size))
        after_blank[-1], after[-1] = self.final, self.final[:, None]
        columns = np.arange(size)
        for t in range(length - 1, -1, -1):
            row = self.score[t]
            new = row + self.gain + after[t + 1, self.target, columns]
            skip = row[self.blank] + after_blank[t + 1]
            after_blank[t] = np.logaddexp(skip, np.logaddexp.reduce(new, axis=1))
            again = np.logaddexp(skip[:, None], row + after[t + 1])
            after[t] = np.logaddexp(again, _others(new))
        return after_blank, after

    def root(self) -> _Prefix:
        """Return the empty string."""
        length = len(self.score)
        blank = np.append(0.0, np.cumsum(self.score[:, self.blank]))
        return _Prefix((), 0, np.full(length + 1, -np.inf), blank)

    def entries(self, prefix: _Prefix) -> Iterator[Entry[_Part]]:
        """Yield the string that ends with the prefix, and the parts of the longer strings."""
        yield self.ended(prefix), prefix.labels, None
        if not len(self.score):
            return
        begun = self.begun(prefix)
        for label, bound in enumerate(self.bounds(prefix, begun).tolist()):
            yield bound, (*prefix.labels, label), (prefix, label, begun[:, label])

    def divided(self, part: _Part) -> Iterator[Entry[_Part]]:
        """Return the string and the parts of a part."""
        return self.entries(self.extended(*part))

    def begun(self, prefix: _Prefix) -> Floats:
        """Return the log sum of the paths on which each next label begins at a frame, [T, V]."""
        mass = np.logaddexp(prefix.symbol, prefix.blank)[:-1, None]
        mass = np.repeat(mass, self.score.shape[1], axis=1)
        if prefix.labels:
            mass[:, prefix.labels[-1]] = prefix.blank[:-1]
        return np.asarray(mass + self.score + self.gain[prefix.state])

    def bounds(self, prefix: _Prefix, begun: Floats) -> Floats:
        """Return the log sum over all strings that begin with the prefix and a label, [V]."""
        after = self.suffix[1][1:, self.target[prefix.state], np.arange(begun.shape[1])]
        through = begun + after
        top = np.max(through, axis=0)
        with np.errstate(divide="ignore"):
            total = np.exp(through - np.where(top > -np.inf, top, 0.0)).sum(axis=0)
            return np.asarray(top + np.log(total))

    def extended(self, prefix: _Prefix, label: int, begun: Floats) -> _Prefix:
        """Return the prefix with one more label; `begun` [T]: log sum of beginning at a frame."""
        symbol = _carried(begun, self.score[:, label])
        blank = _carried(symbol[:-1] + self.score[:, self.blank], self.score[:, self.blank])
        state = int(self.target[prefix.state, label])
        return _Prefix((*prefix.labels, label), state, symbol, blank)

    def ended(self, prefix: _Prefix) -> float:
        """Return the log sum over the paths of the string that ends with the prefix."""
        mass = np.logaddexp(prefix.symbol[-1], prefix.blank[-1])
        return float(mass + self.final[prefix.state])

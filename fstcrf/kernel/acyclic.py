"""Acceptors as flat arrays: best paths, sums and samples of acyclic ones; state order of any.

A path is a sequence of arcs from its row's first state. Its score is the sum of the arcs' scores
and of the final score of its last state. Scores are natural logs; −inf forbids. Sums are taken in
the log domain. Every function is linear in the arcs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel.native import array_in, array_out, check, ffi, freeze, lib, patiently
from fstcrf.lazy import given_state, made_once

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData


_ROOM = 1024  # capacity of the first search for the n best
_MANY, _FASTER = 1024, 8
_BEST = (ffi.NULL,) * 3  # outputs that only sums have


def growing(n: int) -> Iterator[int]:
    """Yield numbers of paths to allocate: few at first, more while all places are filled.

    Examples
    --------
    >>> list(growing(3)), list(growing(10_000))
    ([3], [1024, 8192, 10000])
    """
    capacity = min(n, _MANY)
    while capacity < n:
        yield capacity
        capacity = min(n, _FASTER * capacity)
    yield capacity


def columns(n: int, most: int) -> int:
    """Return the number of columns for n paths of each sentence, which has at most `most`.

    Up to n = 1,024 this is n, even if no sentence has n paths.
    """
    return n if n <= _MANY else max(_MANY, most)


class ArcPaths(NamedTuple):
    """Some paths of each row, best first; the rows are concatenated.

    arcs : int32 [k, W]; arcs of each path, then −1; W: arcs of the longest path.
    score : float64 [k].
    n_paths : int64 [B]; number of paths of each row.
    """

    arcs: Ints
    score: Floats
    n_paths: Longs


_FIRST = np.zeros(1, dtype=np.int64)
_FIRST.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Acyclic:
    """An acyclic acceptor, or several in one; a path begins in state 0, or in its row's begin.

    Arcs ``row[s] : row[s + 1]`` leave state s; their order decides ties.
    """

    row: Longs  # [S + 1]
    target: Ints  # [A] higher than the source of the arc
    score: Floats  # [A] at most 1e300
    final: Floats  # [S] −inf: no path ends here
    begins: Longs = field(default_factory=lambda: _FIRST)  # [B] first state of each row

    def __post_init__(self) -> None:
        if not len(self.final):
            raise ShapeError("a machine needs a state: final is empty")
        freeze(self, "row", "target", "begins")
        where = ffi.new("int64_t *")
        status = lib.fc_check_acyclic(self.handle, where)
        if status == lib.FC_ENUMERIC:
            raise NumericError(f"NaN, +inf or beyond 1e300: score {where[0]} of an acyclic machine")
        if status != lib.FC_OK:
            raise ShapeError(
                f"states are not in topological order, or rows are not: entry {where[0]}"
            )

    __getstate__ = given_state

    @made_once
    def handle(self) -> CData:
        """The machine as a C structure, valid as long as this object lives."""
        states, arcs = len(self.final), len(self.target)
        fields = {
            "row": array_in(self.row, np.int64, (states + 1,), "row"),
            "target": array_in(self.target, np.int32, (arcs,), "target"),
            "score": array_in(self.score, np.float64, (arcs,), "score"),
            "final": array_in(self.final, np.float64, (states,), "final"),
            "begins": array_in(self.begins, np.int64, self.begins.shape, "begins"),
        }
        return ffi.new("fc_acyclic *", {"S": states, "A": arcs, "B": len(self.begins), **fields})

    @made_once
    def best_suffix(self) -> Floats:
        """Score of the best path from each state to an end, float64 [S]; −inf: no path."""
        suffix = np.empty(len(self.final))
        check(lib.fc_acyclic_suffix(self.handle, array_out(suffix), *_BEST), "suffix")
        return suffix

    @made_once
    def _sums(self) -> tuple[Floats, Floats, Floats]:
        """Logs of the sums over all paths from each state to an end, [S], and probabilities.

        These are the probability of ending in a state, [S], and of taking an arc, [A], given a path
        in the (source) state.
        """
        suffix, rounding_errors, stop = np.empty((3, len(self.final)))
        share = np.empty(len(self.target))
        out = map(array_out, (suffix, rounding_errors, stop, share))
        check(lib.fc_acyclic_suffix(self.handle, *out), "suffix")
        return suffix, stop, share

    def suffix_to(self, first: int, ends: Longs, final: Floats, *, summed: bool) -> Floats:
        """Return the total of the paths from the states between `first` and the last end to ends.

        Parameters
        ----------
        first : int
        ends : int64 [K]
            Different states.
        final : float64 [K]
            Their final scores, in place of those of the machine.
        summed : bool
            Whether a total is the log of a sum; otherwise it is the best score.

        Returns
        -------
        float64 [highest end + 1 - first]
        """
        n, states = int(ends.max()) + 1, len(self.final)
        arcs = slice(self.row[first], self.row[n])
        there, suffix = np.empty(states), np.empty(states)
        there[first:n] = suffix[first:n] = -np.inf
        suffix[self.target[arcs]] = -np.inf  # there is no end
        there[ends] = final
        view, out = ffi.new("fc_acyclic *", self.handle[0]), array_out(suffix)
        view.S, view.A, view.first = n, arcs.stop, first
        view.final = array_in(there, np.float64, (states,), "final")
        others = np.empty(states), np.empty(n), np.empty(arcs.stop)
        others[0][self.target[arcs]] = 0.0
        outputs = map(array_out, others) if summed else _BEST
        check(lib.fc_acyclic_suffix(view, out, *outputs), "suffix")
        return suffix[first:n]

    @property
    def sum_suffix(self) -> Floats:
        """Log of the sum over all paths from each state to an end, float64 [S]."""
        return self._sums[0]

    @made_once
    def longest(self) -> int:
        """Arcs of the longest path."""
        return int(self.lengths()[1].max(initial=0))

    def lengths(self, label: Ints | None = None) -> tuple[Ints, Ints]:
        """Return the labels on the shortest and the longest path to each state, int32 [S].

        −1: no path leads to the state. A negative label, of int32 [A], does not count; without
        labels, every arc counts.
        """
        states, arcs = len(self.final), len(self.target)
        shortest, longest = np.empty(states, dtype=np.int32), np.empty(states, dtype=np.int32)
        labels = ffi.NULL if label is None else array_in(label, np.int32, (arcs,), "label")
        both = array_out(shortest), array_out(longest)
        check(lib.fc_acyclic_lengths(self.handle, labels, *both), "lengths")
        return shortest, longest

    def best_scores(self) -> Floats:
        """Return the score of the best path of each row, [B]; −inf: no path."""
        return self.best_suffix[self.begins]

    def log_partitions(self) -> Floats:
        """Return log Z of each row, [B]; −inf if the row has no path."""
        return self.sum_suffix[self.begins]

    def best_paths(self) -> tuple[Ints, Longs]:
        """Return the arcs of the best paths, concatenated, and their offsets, [B + 1].

        Ties: ending precedes continuing, a smaller arc a larger one, at the earliest state where
        the candidates differ. A row without a path has no arcs.
        """
        suffix = self.best_suffix
        path = np.empty(len(suffix), dtype=np.int32)
        offset = np.empty(len(self.begins) + 1, dtype=np.int64)
        status = lib.fc_acyclic_best(
            self.handle,
            array_in(suffix, np.float64, suffix.shape, "suffix"),
            len(path),
            array_out(path),
            array_out(offset),
        )
        check(status, "best")
        return path[: offset[-1]], offset

    def nbest(self, n: int) -> ArcPaths:
        """Return the n best paths of each row, or all if it has fewer; ties as above.

        Raises
        ------
        OptionError
            n is negative.
        """
        if n < 0:
            raise OptionError(f"n is {n}, expected 0 or more")
        for capacity in growing(n):
            paths = self._nbest(capacity)
            if (paths.n_paths < capacity).all():  # there are no more
                break
        return paths

    def _nbest(self, n: int) -> ArcPaths:
        suffix, width, rows = self.best_suffix, self.longest, len(self.begins)
        path, score = np.empty((rows, n, width), dtype=np.int32), np.empty((rows, n))
        count, at, room = np.zeros(rows, dtype=np.int64), ffi.new("int64_t *"), _ROOM
        while True:
            steps = ffi.from_buffer("fc_step[]", bytearray(room * ffi.sizeof("fc_step")))
            heap = ffi.from_buffer("fc_deviation[]", bytearray(room * ffi.sizeof("fc_deviation")))
            status = patiently(
                100.0 * n * width,
                lib.fc_acyclic_nbest,
                self.handle,
                array_in(suffix, np.float64, suffix.shape, "suffix"),
                n,
                width,
                room,
                steps,
                room,
                heap,
                array_out(path),
                array_out(score),
                array_out(count),
                at,
            )
            if status != lib.FC_EFULL:
                break
            room *= 4
        check(status, "nbest")
        if rows == 1:
            return ArcPaths(path[0, : count[0]], score[0, : count[0]], count)
        there = np.arange(n) < count[:, None]
        return ArcPaths(path[there], score[there], count)

    def marginals(self) -> tuple[Floats, Floats]:
        """Return the probability of each state, [S], and arc, [A]; zeros in rows without a path."""
        node, arc, _ = self._posterior()
        return node, arc

    def _posterior(self) -> tuple[Floats, Floats, Floats]:
        """Return the same, and the probability of ending in each state, [S]."""
        node, arc, end = (np.empty(len(x)) for x in (self.final, self.target, self.final))
        out = map(array_out, (node, arc, end))
        check(lib.fc_acyclic_marginals(self.handle, *map(_read, self._sums), *out), "marginals")
        return node, arc, end

    def max_marginals(self) -> Floats:
        """Return the score of the best path through each arc, float64 [A]; −inf: no path."""
        suffix = self.best_suffix
        prefix, arc = np.empty(len(self.final)), np.empty(len(self.target))
        status = lib.fc_acyclic_max_marginals(
            self.handle,
            array_in(suffix, np.float64, suffix.shape, "suffix"),
            array_out(prefix),
            array_out(arc),
        )
        check(status, "max_marginals")
        return arc

    def entropies(self) -> Floats:
        """Return the entropy of each row's distribution over paths, in nats, [B].

        By the chain rule, over the choices at each state: no difference of large numbers is taken.
        """
        node, arc, end = self._posterior()
        used, ends, source = np.flatnonzero(arc), np.flatnonzero(end), Ragged(self.row).rows()
        state, share = np.concatenate([source[used], ends]), np.concatenate([arc[used], end[ends]])
        parts = share * np.log(share / node[state])
        if len(self.begins) == 1:
            return np.array([max(0.0, -float(parts.sum()))])
        row = np.searchsorted(self.begins, state, side="right") - 1
        total = np.bincount(row, weights=parts, minlength=len(self.begins))
        return np.maximum(0.0, -total.astype(np.float64))

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> Ints:
        """Return independent exact samples from the distributions over paths: arcs, int32 [B n, W].

        W is the number of arcs of the longest path; shorter rows end with −1. Each row draws one
        number for each arc of its own longest path.
        """
        if n < 0:
            raise OptionError(f"n is {n}, expected 0 or more")
        width, rows = self.longest, len(self.begins)
        if rows == 1:
            uniform = generators[0].random((n, width))
        else:
            uniform = np.zeros((rows, n, width))
            longest = np.maximum.reduceat(self.lengths()[1], self.begins)
            for row, generator, size in zip(uniform, generators, longest.tolist(), strict=True):
                row[:, :size] = generator.random((n, size))
        path = np.empty((rows * n, width), dtype=np.int32)
        _, stop, share = map(_read, self._sums)
        status = patiently(
            100.0 * n * width * rows,
            lib.fc_acyclic_sample,
            self.handle,
            stop,
            share,
            n,
            width,
            _read(uniform),
            array_out(path),
        )
        check(status, "sample")
        return path


def _read(array: Floats) -> CData:
    return array_in(array, np.float64, array.shape, "array")


# --- Machines that may have cycles: which states lie on a path, and in which order ---------------


def connected(row: Longs, target: Ints, start: int, ends: Bools) -> Bools:
    """Return which states are on a path from the start (−1: no start) to a final state, bool [S].

    Arcs ``row[s] : row[s + 1]`` leave state s.
    """
    states, arcs = len(ends), len(target)
    if not states:
        return np.zeros(0, dtype=bool)
    keep, turned = np.empty(states, dtype=np.uint8), np.empty(states + 1, dtype=np.int64)
    work, where = np.empty(states + arcs, dtype=np.int32), ffi.new("int64_t *")
    status = lib.fc_connected(
        *_arcs(row, target, states),
        start,
        array_in(ends.astype(np.uint8), np.uint8, (states,), "ends"),
        array_out(keep),
        array_out(turned),
        array_out(work),
        where,
    )
    _check(status, where[0])
    return keep.astype(bool)


def topological(row: Longs, target: Ints) -> tuple[Ints, int]:
    """Return topological numbers of the states, int32 [S]: every arc leads to a higher one; and −1.

    If there is a cycle, the second value is a state on it, and the numbers are meaningless.
    """
    states = len(row) - 1
    number = np.empty(states, dtype=np.int32)
    if not states:
        return number, -1
    work, cycle = np.empty(2 * states, dtype=np.int32), ffi.new("int64_t *")
    where = ffi.new("int64_t *")
    status = lib.fc_topological(
        *_arcs(row, target, states), array_out(number), cycle, array_out(work), where
    )
    _check(status, where[0])
    return number, int(cycle[0])


def _arcs(row: Longs, target: Ints, states: int) -> tuple[int, CData, CData]:
    if len(row) != states + 1 or row[-1] != len(target):
        raise ShapeError(f"row is {list(row.shape)}, expected [{states + 1}] up to {len(target)}")
    return (
        states,
        array_in(row, np.int64, row.shape, "row"),
        array_in(target, np.int32, target.shape, "target"),
    )


def _check(status: int, where: int) -> None:
    if status != lib.FC_OK:
        raise ShapeError(f"arcs are not sorted by source, or name no state: entry {where}")

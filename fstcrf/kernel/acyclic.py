"""Acceptors as flat arrays: best paths, sums and samples of acyclic ones; order and reach of any.

A path is a sequence of arcs from state 0; its score is the sum of their scores and of the final
score of the state where it ends. All of it is natural logs; −inf forbids. Sums are taken in the log
domain. Every function is linear in the arcs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.kernel.native import array_in, array_out, check, ffi, lib, settle
from fstcrf.lazy import given_state

_ROOM = 1024  # entries of the first search for the n best
_MANY, _FASTER = 1024, 8


def growing(n: int) -> Iterator[int]:
    """Yield how many of n paths to make room for: few, then more while all of that is filled.

    Examples
    --------
    >>> list(growing(3)), list(growing(10_000))
    ([3], [1024, 8192, 10000])
    """
    tried = min(n, _MANY)
    while tried < n:
        yield tried
        tried = min(n, _FASTER * tried)
    yield tried


def columns(n: int, most: int) -> int:
    """Return the columns of arrays of n paths of each sentence, of which none has more than `most`.

    Of up to 1,024 there is a column for each, also where no sentence has so many.
    """
    return n if n <= _MANY else max(_MANY, most)


class ArcPaths(NamedTuple):
    """Some paths, best first.

    arcs : int32 [k, W]; arcs of each path, −1 behind the last; W: arcs of the longest path.
    score : float64 [k].
    """

    arcs: Ints
    score: Floats


@dataclass(frozen=True, eq=False)
class Acyclic:
    """An acyclic acceptor; a path begins in state 0.

    Arcs ``row[s] : row[s + 1]`` leave state s; their order decides ties.
    """

    row: Longs  # [S + 1]
    target: Ints  # [A] above the state that the arc leaves
    score: Floats  # [A] at most 1e300
    final: Floats  # [S] −inf: no path ends here

    def __post_init__(self) -> None:
        if not len(self.final):
            raise ShapeError("a machine needs a state: final is empty")
        settle(self, "row", "target")
        where = ffi.new("int64_t *")
        status = lib.fc_check_acyclic(self.handle, where)
        if status == lib.FC_ENUMERIC:
            raise NumericError(f"NaN, +inf or beyond 1e300: score {where[0]} of an acyclic machine")
        if status != lib.FC_OK:
            raise ShapeError(
                f"states are not in topological order, or rows are not: entry {where[0]}"
            )

    __getstate__ = given_state

    @cached_property
    def handle(self) -> Any:
        """The machine as the kernel's structure, for as long as this object lives."""
        states, arcs = len(self.final), len(self.target)
        fields = {
            "row": array_in(self.row, np.int64, (states + 1,), "row"),
            "target": array_in(self.target, np.int32, (arcs,), "target"),
            "score": array_in(self.score, np.float64, (arcs,), "score"),
            "final": array_in(self.final, np.float64, (states,), "final"),
        }
        return ffi.new("fc_acyclic *", {"S": states, "A": arcs, **fields})

    @cached_property
    def best_suffix(self) -> Floats:
        """Score of the best way to end from each state, float64 [S]; −inf: there is none."""
        suffix = np.empty(len(self.final))
        check(lib.fc_acyclic_best_suffix(self.handle, array_out(suffix)), "suffix")
        return suffix

    @cached_property
    def sum_suffix(self) -> Floats:
        """Log of the sum over all ways to end from each state, float64 [S]."""
        suffix, lost = np.empty((2, len(self.final)))
        both = array_out(suffix), array_out(lost)
        check(lib.fc_acyclic_sum_suffix(self.handle, *both), "suffix")
        return suffix

    @cached_property
    def longest(self) -> int:
        """Arcs of the longest path."""
        return int(lengths(self)[1].max(initial=0))


def lengths(machine: Acyclic, label: Ints | None = None) -> tuple[Ints, Ints]:
    """Return the labels on the shortest and the longest way to each state, int32 [S]; −1: no way.

    A negative label, of int32 [A], does not count; every arc counts without labels.
    """
    states, arcs = len(machine.final), len(machine.target)
    shortest, longest = np.empty(states, dtype=np.int32), np.empty(states, dtype=np.int32)
    labels = ffi.NULL if label is None else array_in(label, np.int32, (arcs,), "label")
    status = lib.fc_acyclic_lengths(machine.handle, labels, array_out(shortest), array_out(longest))
    check(status, "lengths")
    return shortest, longest


def best(machine: Acyclic) -> tuple[Ints, float]:
    """Return the best path and its score.

    Ties: ending comes before going on, a smaller arc before a larger one, at the earliest state
    where the candidates differ.

    Returns
    -------
    arcs : int32 [k]
    score : float
        −inf where there is no path.
    """
    suffix = machine.best_suffix
    path, length = np.empty(len(suffix), dtype=np.int32), ffi.new("int64_t *")
    status = lib.fc_acyclic_best(
        machine.handle,
        array_in(suffix, np.float64, suffix.shape, "suffix"),
        array_out(path),
        length,
    )
    check(status, "best")
    return path[: length[0]].copy(), float(suffix[0])


def nbest(machine: Acyclic, n: int) -> ArcPaths:
    """Return the n best paths, or all where there are fewer; ties as for `best`.

    Raises
    ------
    OptionError
        n is negative.
    """
    if n < 0:
        raise OptionError(f"n is {n}, expected 0 or more")
    for tried in growing(n):
        paths = _ranked(machine, tried)
        if len(paths.score) < tried:  # there are no more
            break
    return paths


def _ranked(machine: Acyclic, n: int) -> ArcPaths:
    suffix, width = machine.best_suffix, machine.longest
    path, score = np.empty((n, width), dtype=np.int32), np.empty(n)
    count, room = ffi.new("int64_t *"), _ROOM
    while True:
        steps = ffi.from_buffer("fc_step[]", bytearray(room * ffi.sizeof("fc_step")))
        heap = ffi.from_buffer("fc_deviation[]", bytearray(room * ffi.sizeof("fc_deviation")))
        status = lib.fc_acyclic_nbest(
            machine.handle,
            array_in(suffix, np.float64, suffix.shape, "suffix"),
            n,
            width,
            room,
            steps,
            room,
            heap,
            array_out(path),
            array_out(score),
            count,
        )
        if status != lib.FC_EFULL:
            break
        room *= 4
    check(status, "nbest")
    return ArcPaths(path[: count[0]], score[: count[0]])


def log_partition(machine: Acyclic) -> float:
    """Return log Z, −inf where there is no path."""
    return float(machine.sum_suffix[0])


def marginals(machine: Acyclic) -> tuple[Floats, Floats]:
    """Return the probability of each state, [S], and arc, [A]; zeros where there is no path."""
    suffix = machine.sum_suffix
    node, arc = np.empty(len(machine.final)), np.empty(len(machine.target))
    status = lib.fc_acyclic_marginals(
        machine.handle,
        array_in(suffix, np.float64, suffix.shape, "suffix"),
        array_out(node),
        array_out(arc),
    )
    check(status, "marginals")
    return node, arc


def max_marginals(machine: Acyclic) -> Floats:
    """Return the score of the best path through each arc, float64 [A]; −inf: there is none."""
    suffix = machine.best_suffix
    prefix, arc = np.empty(len(machine.final)), np.empty(len(machine.target))
    status = lib.fc_acyclic_max_marginals(
        machine.handle,
        array_in(suffix, np.float64, suffix.shape, "suffix"),
        array_out(prefix),
        array_out(arc),
    )
    check(status, "max_marginals")
    return arc


def sample(machine: Acyclic, n: int, generator: np.random.Generator) -> Ints:
    """Return independent exact samples from the distribution over paths: arcs, int32 [n, W].

    W are the arcs of the longest path, −1 stands behind the last. One number is drawn for each of
    W.
    """
    if n < 0:
        raise OptionError(f"n is {n}, expected 0 or more")
    suffix, width = machine.sum_suffix, machine.longest
    uniform, path = generator.random((n, width)), np.empty((n, width), dtype=np.int32)
    work = np.empty(len(machine.final) + len(machine.target))
    status = lib.fc_acyclic_sample(
        machine.handle,
        array_in(suffix, np.float64, suffix.shape, "suffix"),
        n,
        width,
        array_in(uniform, np.float64, uniform.shape, "uniform"),
        array_out(path),
        array_out(work),
    )
    check(status, "sample")
    return path


# --- Machines that may have cycles: which states lie on a path, and in which order ---------------


def connected(row: Longs, target: Ints, start: int, ends: Bools) -> Bools:
    """Return which states lie on a path from the start (−1: none) to a state that ends, bool [S].

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
    """Return numbers of the states, int32 [S], such that every arc leads to a higher one, and −1.

    Instead of −1 a state on a cycle, where there is one; the numbers mean nothing then.
    """
    states = len(row) - 1
    number = np.empty(states, dtype=np.int32)
    if not states:
        return number, -1
    work, cycle = np.empty(2 * states, dtype=np.int32), ffi.new("int64_t *")
    where = ffi.new("int64_t *")
    status = lib.fc_topological(
        *_arcs(row, target, states),
        array_out(number),
        cycle,
        array_out(work),
        where,
    )
    _check(status, where[0])
    return number, int(cycle[0])


def _arcs(row: Longs, target: Ints, states: int) -> tuple[int, Any, Any]:
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

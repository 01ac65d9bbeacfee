"""The conditional log-likelihood with an L2 penalty: value and gradient.

    f(theta) = sum_b weight_b (log Z_b − log Z_b(allowed)) + l2 |theta|²

log Z(allowed) sums over the label sequences that the target allows; where all labels are known it is
the score of the gold path. The gradient is the difference of the expected feature counts, plus
2 l2 theta. Source: Lafferty, McCallum and Pereira (2001); for partial labels, Tsuboi et al. (2008).

The data is cut into a fixed number of shards; threads take shards, and sums are taken in the order
of the shards: the result has the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import DataError, NumericError
from fstcrf.train.problem import ParameterSpace, Problem, Tables

__all__ = ["Likelihood"]

Floats = NDArray[np.float64]
T = TypeVar("T")
R = TypeVar("R")

N_SHARDS = 16


@dataclass(frozen=True, slots=True)
class _Shard:
    """Sentences ``first : last`` and their tokens."""

    problem: Problem
    tokens: slice
    node: kernel.SparseRows
    arc: kernel.SparseRows | None
    arc_transposed: kernel.SparseRows | None


@dataclass(frozen=True, slots=True)
class _Expectation:
    """What one shard contributes."""

    loss: float
    transition: Floats
    arc: Floats | None
    initial: Floats
    final: Floats


class Likelihood:
    """Penalised negative log-likelihood, for batch optimisers.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|², CRFsuite's ``c2``; 1 / (2 sigma²).
    threads : int

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes of forward-backward over the data.
    """

    def __init__(
        self, problem: Problem, space: ParameterSpace, *, l2: float, threads: int = 1
    ) -> None:
        self.problem, self.space, self.l2, self.threads = problem, space, l2, threads
        self.size = space.size
        self.evaluations = 0
        self._shards = list(_shards(problem))
        self._transposed = list(_row_blocks(problem.node.transposed()))
        self._posterior = np.zeros((int(problem.offsets[-1]), space.width))
        self._gradient = np.zeros((space.n_node_rows, space.width))
        self._observed = self._observe()

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta (float64 [size]).

        Raises
        ------
        NumericError
            The value is not finite.
        DataError
            A sentence whose allowed labels have no path.
        """
        self.evaluations += 1
        tables = self.space.tables(theta)
        parts = self._map(lambda shard: self._expect(shard, tables), self._shards)
        self._map(self._gather, self._transposed)
        sums = Tables(
            self._gradient,
            _ordered_sum(p.transition for p in parts),
            None if tables.arc is None else _ordered_sum(p.arc for p in parts if p.arc is not None),
            _ordered_sum(p.initial for p in parts),
            _ordered_sum(p.final for p in parts),
        )
        gradient = self.space.collect(sums) - self._observed + 2.0 * self.l2 * theta
        value = (
            sum(p.loss for p in parts)
            - float(theta @ self._observed)
            + self.l2 * float(theta @ theta)
        )
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        return value, gradient

    def _map(self, function: Callable[[T], R], items: list[T]) -> list[R]:
        if self.threads == 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(function, items))

    def _expect(self, shard: _Shard, tables: Tables) -> _Expectation:
        problem, topology, space = shard.problem, self.space.topology, self.space
        node = topology.node_potentials(shard.node.times(tables.node))
        slots = tables.transition
        if shard.arc is not None and tables.arc is not None:
            slots = shard.arc.times(tables.arc)[:, : len(slots)] + slots
        graph = topology.graph(slots, tables.initial, tables.final)
        free = kernel.forward_backward(graph, problem.offsets, node, weight=problem.weight)
        loss = float(problem.weight @ free.log_z)
        states, arcs = free.node, topology.arc_slot_sums(free.arc)
        if problem.partial.any():
            target = _target(problem, graph, node)
            loss -= float((problem.weight * target.log_z)[problem.partial].sum())
            states, arcs = states - target.node, arcs - topology.arc_slot_sums(target.arc)
        self._posterior[shard.tokens] = topology.slot_sums(states, space.width)
        arc_sums = None
        if shard.arc_transposed is not None:
            inner = np.zeros((len(states), space.arc_width))
            inner[:, : arcs.shape[-1]] = arcs
            arc_sums = shard.arc_transposed.times(inner)
        first, last = problem.offsets[:-1], problem.offsets[1:] - 1
        return _Expectation(
            loss,
            arcs if arcs.ndim == 1 else arcs.sum(axis=0),
            arc_sums,
            states[first].sum(axis=0),
            states[last].sum(axis=0),
        )

    def _gather(self, block: tuple[slice, kernel.SparseRows]) -> None:
        rows, transposed = block
        transposed.times(self._posterior, out=self._gradient[rows])

    def _observe(self) -> Floats:
        """Feature counts of the sentences whose labels are all known, times their weight."""
        problem, topology, space = self.problem, self.space.topology, self.space
        n, states = int(problem.offsets[-1]), topology.n_states
        weight = np.where(problem.partial, 0.0, problem.weight)
        gold = np.where(problem.partial[problem.sentence_of], 0, problem.states)
        hot = np.zeros((n, states))
        hot[np.arange(n), gold] = weight[problem.sentence_of]
        self._posterior[:] = topology.slot_sums(hot, space.width)
        for block in self._transposed:
            self._gather(block)
        first, last = problem.offsets[:-1], problem.offsets[1:] - 1
        n_slots = topology.n_arc_slots
        transition = np.zeros(n_slots)
        inner = np.ones(n, dtype=bool)
        inner[first] = False
        into = np.flatnonzero(inner)
        slot_of = _arc_slot_table(topology.source, topology.target, topology.arc_slot, states)
        slots = slot_of[gold[into - 1], gold[into]]
        mass = weight[problem.sentence_of[into]]
        used = (slots >= 0) & (mass > 0)
        np.add.at(transition, slots[used], mass[used])
        arc = None
        if problem.arc is not None and space.n_arc_rows:
            one_hot = np.zeros((n, space.arc_width))
            one_hot[into[used], slots[used]] = mass[used]
            arc = problem.arc.transposed().times(one_hot)
        return space.collect(
            Tables(
                self._gradient, transition, arc, hot[first].sum(axis=0), hot[last].sum(axis=0)
            )
        )


def _target(problem: Problem, graph: kernel.Graph, node: Floats) -> kernel.Posterior:
    """Posterior given the allowed labels, zero for sentences whose labels are all known."""
    masked = np.where(problem.allowed[:, problem.topology.state_label], node, -np.inf)
    weight = np.where(problem.partial, problem.weight, 0.0)
    target = kernel.forward_backward(graph, problem.offsets, masked, weight=weight)
    dead = np.flatnonzero(problem.partial & np.isneginf(target.log_z))
    if len(dead):
        raise DataError("no path through its allowed labels", sentence=int(dead[0]))
    return target


def _arc_slot_table(
    source: NDArray[np.int32], target: NDArray[np.int32], slot: NDArray[np.int32], states: int
) -> NDArray[np.int32]:
    table = np.full((states, states), -1, dtype=np.int32)
    table[source, target] = slot
    return table


def _ordered_sum(parts: Iterable[Floats]) -> Floats:
    iterator: Iterator[Floats] = iter(parts)
    total = next(iterator).copy()
    for part in iterator:
        total += part
    return total


def _shards(problem: Problem) -> Iterator[_Shard]:
    """Cut the sentences into at most N_SHARDS runs of about equally many tokens."""
    n, offsets = int(problem.offsets[-1]), problem.offsets
    cuts = np.searchsorted(offsets, np.linspace(0, n, N_SHARDS + 1)[1:-1]).tolist()
    bounds = sorted({0, *cuts, len(offsets) - 1})
    for first, last in pairwise(bounds):
        a, b = int(offsets[first]), int(offsets[last])
        node = problem.node.slice(a, b)
        arc = None if problem.arc is None else problem.arc.slice(a, b)
        part = Problem(
            problem.topology,
            offsets[first : last + 1] - a,
            node,
            arc,
            problem.allowed[a:b],
            problem.weight[first:last],
        )
        yield _Shard(part, slice(a, b), node, arc, None if arc is None else arc.transposed())


def _row_blocks(rows: kernel.SparseRows) -> Iterator[tuple[slice, kernel.SparseRows]]:
    """Cut rows into N_SHARDS blocks of about equally many entries."""
    cuts = np.searchsorted(rows.indptr, np.linspace(0, len(rows.index), N_SHARDS + 1)[1:-1])
    bounds = sorted({0, *cuts.tolist(), len(rows)})
    for a, b in pairwise(bounds):
        yield slice(a, b), rows.slice(a, b)

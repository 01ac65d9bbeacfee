"""Expected feature counts and log Z: for any topology in float64, for dense ones at full speed.

================  ================================================================
Expectation       theta → sum of weight × log Z, and its gradient
General           float64, any topology, arc attributes, partial labels
Fused             float32 with float64 totals, one sweep a shard
================  ================================================================

Both cut the data into a fixed number of shards; threads take shards, and sums are taken in the
order of the shards: the result has the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from queue import SimpleQueue
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import DataError
from fstcrf.train.parallel import Workers
from fstcrf.train.problem import ParameterSpace, Problem, Tables
from fstcrf.train.shards import N_SHARDS, compiled_shards, shard_bounds

__all__ = ["Expectation", "Fused", "General"]

Floats = NDArray[np.float64]


class Expectation(Protocol):
    """Sum of weight × (log Z − log Z(allowed) of partial sentences), and its gradient."""

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient (float64 [size]) at theta."""


class Fused:
    """One sweep of the kernel a shard; see `fstcrf.train.shards.fits`."""

    def __init__(self, problem: Problem, space: ParameterSpace, *, workers: Workers) -> None:
        self._space, self._workers = space, workers
        graph = space.topology.graph(np.zeros(space.topology.n_arc_slots))
        self._shards = list(compiled_shards(problem, space, graph))
        self._n_blocks = self._shards[0].n_blocks if self._shards else 0
        self._workspaces: SimpleQueue[kernel.SweepWorkspace] = SimpleQueue()
        for _ in range(workers.threads):
            self._workspaces.put(kernel.SweepWorkspace())
        self.rescued = 0

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        space, topology = self._space, self._space.topology
        parts = space.parts(theta)
        slots = np.zeros(topology.n_arc_slots)
        slots[space.transitions] = parts[1]
        ends = np.zeros((2, topology.n_states))
        ends[0, space.initial], ends[1, space.final] = parts[3], parts[4]
        graph = topology.graph(slots, *ends)
        out = np.zeros(space.size)
        node, transition, _, initial, final = space.parts(out)
        weights = np.ascontiguousarray(parts[0])

        def sweep(shard: kernel.Shard) -> kernel.Sweep:
            workspace = self._workspaces.get()
            try:
                return shard.sweep(graph, weights, workspace)
            finally:
                self._workspaces.put(workspace)

        loss, self.rescued = 0.0, 0
        for found in self._workers.map(sweep, self._shards):
            loss += found.loss
            self.rescued += found.rescued
            transition += topology.arc_slot_sums(found.arc)[space.transitions]
            initial += found.begin[space.initial]
            final += found.end[space.final]
        self._workers.each(lambda block: self._collect(block, node), range(self._n_blocks))
        return loss, out

    def _collect(self, block: int, node: Floats) -> None:
        for shard in self._shards:
            shard.collect(block, node)


@dataclass(frozen=True, slots=True)
class _Shard:
    """Sentences of a shard; the number of the first; their tokens in the whole."""

    problem: Problem
    first: int
    tokens: slice
    arc_transposed: kernel.SparseRows | None


@dataclass(frozen=True, slots=True)
class _Sums:
    """What one shard contributes, but for its tokens' posteriors."""

    loss: float
    transition: Floats
    arc: Floats | None
    initial: Floats
    final: Floats


class General:
    """float64 throughout; the reference for `Fused`."""

    def __init__(self, problem: Problem, space: ParameterSpace, *, workers: Workers) -> None:
        self._space, self._workers = space, workers
        self._shards = list(_shards(problem))
        self._transposed = list(_row_blocks(problem.node.transposed()))
        self._posterior = np.zeros((int(problem.offsets[-1]), space.width))
        self._gradient = np.zeros((space.n_node_rows, space.width))

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        tables = self._space.tables(theta)
        parts = list(self._workers.map(lambda s: self._expect(s, tables), self._shards))
        self._workers.each(self._gather, self._transposed)
        arcs = [p.arc for p in parts if p.arc is not None]
        sums = Tables(
            self._gradient,
            _ordered_sum([p.transition for p in parts]),
            _ordered_sum(arcs) if arcs else None,
            _ordered_sum([p.initial for p in parts]),
            _ordered_sum([p.final for p in parts]),
        )
        return sum(p.loss for p in parts), self._space.collect(sums)

    def _expect(self, shard: _Shard, tables: Tables) -> _Sums:
        problem, topology, space = shard.problem, self._space.topology, self._space
        node = topology.node_potentials(problem.node.times(tables.node))
        slots = tables.transition
        if problem.arc is not None and tables.arc is not None:
            slots = problem.arc.times(tables.arc)[:, : len(slots)] + slots
        graph = topology.graph(slots, tables.initial, tables.final)
        free = kernel.forward_backward(graph, problem.offsets, node, weight=problem.weight)
        loss = kernel.dot(problem.weight, free.log_z)
        states, arcs = free.node, topology.arc_slot_sums(free.arc)
        if problem.partial.any():
            target = _target(shard, graph, node)
            loss -= float((problem.weight * target.log_z)[problem.partial].sum())
            states, arcs = states - target.node, arcs - topology.arc_slot_sums(target.arc)
        self._posterior[shard.tokens] = topology.slot_sums(states, space.width)
        arc_sums = None
        if shard.arc_transposed is not None and tables.arc is not None:
            inner = np.zeros((len(states), space.arc_width))
            inner[:, : arcs.shape[-1]] = arcs
            arc_sums = shard.arc_transposed.times(inner)
        first, last = problem.offsets[:-1], problem.offsets[1:] - 1
        return _Sums(
            loss,
            arcs if arcs.ndim == 1 else arcs.sum(axis=0),
            arc_sums,
            states[first].sum(axis=0),
            states[last].sum(axis=0),
        )

    def _gather(self, block: tuple[slice, kernel.SparseRows]) -> None:
        rows, transposed = block
        transposed.times(self._posterior, out=self._gradient[rows])


def _target(shard: _Shard, graph: kernel.Graph, node: Floats) -> kernel.Posterior:
    """Posterior given the allowed labels, zero for sentences whose labels are all known."""
    problem = shard.problem
    masked = np.where(problem.allowed[:, problem.topology.state_label], node, -np.inf)
    weight = np.where(problem.partial, problem.weight, 0.0)
    target = kernel.forward_backward(graph, problem.offsets, masked, weight=weight)
    dead = np.flatnonzero(problem.partial & np.isneginf(target.log_z))
    if len(dead):
        raise DataError("no path through its allowed labels", sentence=shard.first + int(dead[0]))
    return target


def _ordered_sum(parts: list[Floats]) -> Floats:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _shards(problem: Problem) -> Iterator[_Shard]:
    offsets = problem.offsets
    for first, last in pairwise(shard_bounds(offsets)):
        a, b = int(offsets[first]), int(offsets[last])
        arc = None if problem.arc is None else problem.arc.slice(a, b)
        part = Problem(
            problem.topology,
            offsets[first : last + 1] - a,
            problem.node.slice(a, b),
            arc,
            problem.allowed[a:b],
            problem.weight[first:last],
        )
        yield _Shard(part, first, slice(a, b), None if arc is None else arc.transposed())


def _row_blocks(rows: kernel.SparseRows) -> Iterator[tuple[slice, kernel.SparseRows]]:
    """Cut rows into N_SHARDS blocks of about equally many entries."""
    cuts = np.searchsorted(rows.indptr, np.linspace(0, len(rows.index), N_SHARDS + 1)[1:-1])
    bounds = sorted({0, *cuts.tolist(), len(rows)})
    for a, b in pairwise(bounds):
        yield slice(a, b), rows.slice(a, b)

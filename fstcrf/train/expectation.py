"""Expected feature counts and log Z, by shards of a problem that the fused kernel sweeps over.

A shard numbers its attributes for itself, by falling frequency: what is used most lies together.
Attributes with at most FEW weights become single entries, the others padded rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from queue import SimpleQueue
from typing import Protocol

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs, Singles
from fstcrf.errors import DataError
from fstcrf.kernel import Graph, Layout, Shard, ShardAttributes, padded
from fstcrf.train.parallel import Workers
from fstcrf.train.problem import ParameterSpace, Problem, Tables

__all__ = [
    "N_SHARDS",
    "Expectation",
    "Fused",
    "General",
    "compiled_shards",
    "fits",
    "shard_bounds",
]

N_SHARDS = 16
N_BLOCKS = 16
FEW = 2


def fits(problem: Problem, space: ParameterSpace) -> bool:
    """Can the fused kernel train this problem: a dense graph, the same at every token."""
    return (
        problem.topology.dense
        and not space.n_arc_rows
        and not problem.partial.any()
        and space.size < np.iinfo(np.int32).max
        and len(problem.topology.node_slot_names) <= np.iinfo(np.uint16).max
    )


def shard_bounds(offsets: Longs) -> list[int]:
    """Cut sentences into at most N_SHARDS runs of about equally many tokens."""
    cuts = np.searchsorted(offsets, np.linspace(0, int(offsets[-1]), N_SHARDS + 1)[1:-1])
    return sorted({0, *cuts.tolist(), len(offsets) - 1})


def compiled_shards(problem: Problem, space: ParameterSpace, graph: Graph) -> Iterator[Shard]:
    """Yield the shards of a problem.

    Parameters
    ----------
    problem, space
        Such that `fits`.
    graph : Graph
        The topology's graph with any potentials.
    """
    ptr = np.searchsorted(
        space.node_cells, np.arange(space.n_node_rows + 1, dtype=np.int64) * space.width
    )
    slot = (space.node_cells % space.width).astype(np.uint16)
    layout = Layout(ptr.astype(np.int64), slot, _blocks(ptr))
    direct = problem.topology.direct
    state_slots = None if direct else np.ascontiguousarray(problem.topology.node_slots)
    n_slots = len(problem.topology.node_slot_names)
    for first, last in pairwise(shard_bounds(problem.offsets)):
        a, b = int(problem.offsets[first]), int(problem.offsets[last])
        part = problem.node.slice(a, b)
        yield Shard(
            graph,
            layout,
            width=padded(n_slots),
            state_slots=state_slots,
            offsets=problem.offsets[first : last + 1] - a,
            weight=np.ascontiguousarray(problem.weight[first:last]),
            attributes=_attributes(part.indptr, part.index, part.value, layout),
        )


def _blocks(ptr: Longs) -> Longs:
    """Cut attributes into at most N_BLOCKS runs of about equally many parameters."""
    cuts = np.searchsorted(ptr, np.linspace(0, int(ptr[-1]), N_BLOCKS + 1)[1:-1])
    return np.unique(np.concatenate([[0], cuts, [len(ptr) - 1]])).astype(np.int64)


def _attributes(
    indptr: Longs,
    index: Ints,
    value: Singles | None,
    layout: Layout,
) -> ShardAttributes:
    """Split the attributes of a shard into rows and single entries."""
    weights = np.diff(layout.ptr)
    n = weights[index]
    token = np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
    as_row = n > FEW
    rows, row = _by_frequency(index[as_row])
    lone = (n > 0) & ~as_row
    attribute, times = index[lone], n[lone]
    start = np.repeat(layout.ptr[attribute] - (np.cumsum(times) - times), times)
    parameter = (start + np.arange(int(times.sum()))).astype(np.int32)
    owner = np.repeat(token[lone], times)
    order = np.lexsort((layout.slot[parameter], owner))  # the kernel sums runs of one slot
    parameter, owner = parameter[order], owner[order]
    singles, single = _by_frequency(parameter)
    return ShardAttributes(
        row_ptr=_pointers(token[as_row], len(indptr) - 1),
        row=row,
        row_value=None if value is None else value[as_row],
        single_ptr=_pointers(owner, len(indptr) - 1),
        single=single,
        single_slot=layout.slot[parameter],
        single_value=None if value is None else np.repeat(value[lone], times)[order],
        rows=rows,
        singles=singles,
    )


def _by_frequency(index: Ints) -> tuple[Ints, Ints]:
    """Return the distinct numbers, most frequent first, and the place of each among them.

    Frequencies count as equal within a factor of two: then the order of the numbers is kept, in
    which parameters are read and written.
    """
    if not len(index):
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    counts = np.bincount(index)
    used: Ints = np.flatnonzero(counts).astype(np.int32)
    octave = np.frexp(counts[used])[1]
    used = used[np.argsort(-octave, kind="stable")]
    place = np.empty(len(counts), dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return used, place[index]


def _pointers(token: Ints, n: int) -> Longs:
    out = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(token, minlength=n), out=out[1:])
    return out


# --- Expected feature counts and log Z ------------------------------------------------------------


class Expectation(Protocol):
    """Sum of weight × (log Z − log Z(allowed) of partial sentences), and its gradient."""

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient (float64 [size]) at theta."""


class Fused:
    """One sweep of the kernel a shard; see `fstcrf.train.expectation.fits`."""

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

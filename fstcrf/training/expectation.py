"""Expectations: log Z and expected feature counts of the data, without the gold paths' counts.

`Fused` runs the kernel's float32 sweep over sentences whose labels are all known. `General` is the
float64 reference, for any sentences. `Split` adds both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Protocol, Self, TypeAlias

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Longs, Ragged, Singles, distinct
from fstcrf.errors import DataError
from fstcrf.kernel.native import SERIAL, Workers
from fstcrf.kernel.rows import packed_cells
from fstcrf.machines.topology import DefaultArcs, Topology, sparse_pays
from fstcrf.training.problem import ParameterSpace, Problem, Tables
from fstcrf.training.shards import (
    attribute_layout,
    block_tokens,
    compiled_shards,
    shard_bounds,
    spans,
)
from fstcrf.training.support import cell_pointers, restricted


class Expectation(Protocol):
    """Sum of weight × log Z over the data, and expected feature counts."""

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""

    def curvature(self, theta: Singles | Floats) -> Floats | None:
        """Return the sums of variances, float64 [size]; `None` if they cannot be computed."""


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """The fused kernel's plan for a whole text, shared by all of its parts.

    Parameters
    ----------
    layout : Layout
    default_arcs : DefaultArcs, optional
        Default arcs, to which arcs with weights are exceptions.
    scored : bool
        Subtract the attributes' scores of gold paths from log Z during the sweep, with the same
        rounding: with large values both are large.
    """

    layout: kernel.Layout
    default_arcs: DefaultArcs | None = None
    scored: bool = False


_ShardSweep = Callable[[kernel.Shard, kernel.Graph, Singles, kernel.SweepWorkspace], kernel.Sweep]


Keep: TypeAlias = Callable[[Iterable[kernel.ShardAttributes]], Iterable[kernel.ShardAttributes]]
"""Moves the attributes of shards to another memory, and returns them from there."""


class Fused:
    """Sum of weight × log Z, minus scores of gold paths that the plan includes, and its gradient.

    It runs one sweep of the kernel per shard, over the sentences whose labels are all known, or
    over the sentences in `swept`, bool [B].
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        plan: SweepPlan,
        *,
        workers: Workers,
        keep: Keep = iter,
        swept: Bools | None = None,
    ) -> None:
        # Without the space's cells of attributes, because the shards have their layout.
        self._parts, self._workers = space.bounds, workers
        self._topology, self._weighted = space.topology, space.transitions
        self._initial, self._final = space.initial, space.final
        self._default_arcs = plan.default_arcs
        graph = self._graph(np.zeros(space.size, dtype=np.float32))
        gold = problem.states if plan.scored else None
        self._single_arcs = single_arcs(space.topology)
        self._shards = list(compiled_shards(problem, plan.layout, graph, keep, gold, swept))
        self._workspaces: SimpleQueue[kernel.SweepWorkspace] = SimpleQueue()  # free ones
        self.rescued = 0

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        loss, self.rescued, out = self._summed(theta, kernel.Shard.sweep)
        return loss, out

    def curvature(self, theta: Singles | Floats) -> Floats | None:
        """Return the sums of variances, in the definition of `DiagonalHessian`, float64 [size].

        `None` if the sweep cannot compute them.
        """
        return self._summed(theta, kernel.Shard.curvature)[2] if self._single_arcs else None

    def _summed(self, theta: Singles | Floats, sweep: _ShardSweep) -> tuple[float, int, Floats]:
        """Return loss, rescued sentences and sums over the shards."""
        out = np.zeros(self._parts[-1])
        if not self._shards:
            return 0.0, 0, out
        seen = theta.astype(np.float32, copy=False)
        weights, graph = seen[: self._parts[1]], self._graph(seen)
        node, transition, _, initial, final = (out[a:b] for a, b in pairwise(self._parts))

        def swept(shard: kernel.Shard) -> tuple[kernel.Shard, kernel.Sweep, kernel.SweepWorkspace]:
            try:
                workspace = self._workspaces.get_nowait()
            except Empty:
                workspace = kernel.SweepWorkspace()
            return shard, sweep(shard, graph, weights, workspace), workspace

        loss, rescued = 0.0, 0
        for shard, sums, workspace in self._workers.stream(swept, self._shards):
            shard.collect(workspace, node)
            self._workspaces.put(workspace)
            loss += sums.loss
            rescued += sums.rescued
            transition += self._transitions(sums.arc)
            initial += sums.begin[self._initial]
            final += sums.end[self._final]
        return loss, rescued, out

    def _graph(self, theta: Singles) -> kernel.Graph:
        """Return the graph with the weights that do not depend on attributes."""
        topology = self._topology
        _, transition, _, initial, final = (theta[a:b] for a, b in pairwise(self._parts))
        ends = np.zeros((2, topology.n_states))
        ends[0, self._initial], ends[1, self._final] = initial, final
        if self._default_arcs is not None:
            return self._default_arcs.graph(transition.astype(np.float64), *ends)
        slots = np.zeros(topology.n_arc_slots)
        slots[self._weighted] = transition
        return topology.graph(slots, *ends)

    def _transitions(self, arcs: Floats) -> Floats:
        """Add up the arcs of a sweep over the slots that have weights."""
        if self._default_arcs is not None:
            return self._default_arcs.slot_sums(arcs, len(self._weighted))
        return self._topology.arc_slot_sums(arcs)[self._weighted]


def single_arcs(topology: Topology) -> bool:
    """Return whether no two arcs share a weight; then a sweep can compute the curvature."""
    slots = topology.arc_slot
    return int(np.bincount(slots[slots >= 0]).max(initial=0)) <= 1


@dataclass(frozen=True, slots=True)
class _Block:
    """Some sentences: their numbers, their tokens in the whole text, their attributes."""

    problem: Problem
    numbers: Longs
    tokens: slice
    node: _Attributes
    arc: _Attributes | None


@dataclass(frozen=True, slots=True)
class _Attributes:
    """The attributes of a block: their numbers, and the tokens of each."""

    used: Longs
    tokens: kernel.SparseRows

    @classmethod
    def of(cls, rows: kernel.SparseRows) -> Self:
        used = distinct(rows.index)
        index = np.searchsorted(used, rows.index).astype(np.int32)
        renumbered = kernel.SparseRows(rows.indptr, index, rows.value, len(used))
        return cls(used.astype(np.int64), renumbered.transposed())


class _Weighted:
    """The weights of attributes: maps them to slot potentials, and slot masses to sums of weights.

    Rows of attributes and slots are mostly empty, and never stored as a table.
    """

    def __init__(self, cells: Longs, n_rows: int, width: int) -> None:
        self.width, self.table = width, packed_cells(n_rows, width, cells)
        self._first = cell_pointers(cells, n_rows, width)
        self._slot = np.empty(len(cells), dtype=np.int32)
        for part in spans(len(cells)):
            self._slot[part] = cells[part] % width

    def slot_masses(self, attributes: _Attributes, mass: Floats) -> tuple[Longs, Floats]:
        """Return the weights' indices, and the mass, float64 [n, width], of the slot of each."""
        weights = Ragged(self._first)
        place = weights.entries(attributes.used)
        bounds = weights.select(attributes.used).offsets
        masses = np.empty(len(place))
        attributes.tokens.cells(mass, bounds, self._slot[place], out=masses)
        return place, masses


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights of attributes, and weights that do not depend on attributes."""

    node: kernel.PackedTable
    arc: kernel.PackedTable | None
    plain: Tables
    graph: kernel.Graph  # without attributes of arcs


@dataclass(frozen=True, slots=True)
class _Sums:
    """The contribution of one block; sums of attributes are indices and values."""

    loss: float
    node: tuple[Longs, Floats]
    transition: Floats  # [space.transitions]
    arc: tuple[Longs, Floats] | None
    initial: Floats
    final: Floats


Posteriors: TypeAlias = Callable[[Problem, slice, kernel.Graph, Floats], kernel.Posterior]
"""(sentences of a shard, their tokens in the whole text, graph, node potentials) → expectations."""


def _of_chain(
    problem: Problem, tokens: slice, graph: kernel.Graph, node: Floats
) -> kernel.Posterior:
    del tokens
    return kernel.forward_backward(graph, problem.offsets, node, weight=problem.weight)


class General:
    """The reference for `Fused`: float64 throughout.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    workers : Workers
    numbers : int64 [B], optional
        Numbers of the sentences in the text, for messages.
    posteriors : callable
        Function for log Z and posteriors of a shard, for a model other than a plain chain; then all
        labels must be known.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        *,
        workers: Workers,
        numbers: Longs | None = None,
        posteriors: Posteriors = _of_chain,
    ) -> None:
        self._space, self._workers, self._posteriors = space, workers, posteriors
        self._default_arcs = _few_transitions(space) if posteriors is _of_chain else None
        self._node = _Weighted(space.node_cells, space.n_node_rows, space.width)
        self._arc = None
        if problem.arc is not None and space.n_arc_rows:
            self._arc = _Weighted(space.arc_cells, space.n_arc_rows, space.arc_width)
        none = space.node_cells[:0]
        self._plain = replace(space, n_node_rows=0, node_cells=none, n_arc_rows=0, arc_cells=none)
        sentences = problem.first + np.arange(len(problem.weight)) if numbers is None else numbers
        self._blocks = list(_blocks(problem, sentences, space, arcs=self._arc is not None))

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        weights = self._laid_out(theta.astype(np.float64, copy=False))
        loss, out = 0.0, np.zeros(self._space.size)
        node, transition, arc, initial, final = self._space.parts(out)
        for sums in self._workers.stream(lambda block: self._expect(block, weights), self._blocks):
            loss += sums.loss
            node[sums.node[0]] += sums.node[1]
            transition += sums.transition
            if sums.arc is not None:
                arc[sums.arc[0]] += sums.arc[1]
            initial += sums.initial
            final += sums.final
        return loss, out

    def curvature(self, theta: Singles | Floats) -> None:
        """Return `None`: the curvature is not available."""
        del theta

    def _laid_out(self, theta: Floats) -> _Weights:
        node, transition, arc, initial, final = self._space.parts(theta)
        plain = self._plain.tables(np.concatenate([transition, initial, final]))
        if self._default_arcs is None:
            topology = self._space.topology
            graph = topology.graph(plain.transition, plain.initial, plain.final)
        else:
            graph = self._default_arcs.graph(transition, plain.initial, plain.final)
        arcs = None if self._arc is None else self._arc.table(arc)
        return _Weights(self._node.table(node), arcs, plain, graph)

    def _expect(self, block: _Block, weights: _Weights) -> _Sums:
        problem, topology, space = block.problem, self._space.topology, self._space
        slots = weights.node.sum_rows(problem.node, len(topology.node_slot_names))
        node, graph = topology.node_potentials(slots), self._graph(problem, weights)
        all_paths = self._posteriors(problem, block.tokens, graph, node)
        loss = kernel.dot(problem.weight, all_paths.log_z)
        states, arcs = all_paths.node, all_paths.arc
        if problem.partial.any():
            target = _target(block, graph, node)
            partial = problem.partial
            loss -= kernel.dot(problem.weight[partial], target.log_z[partial])
            states, arcs = states - target.node, arcs - target.arc
        mass, arc_sums = topology.slot_sums(states, space.width), None
        if self._arc is not None and block.arc is not None:
            inner = np.zeros((len(states), space.arc_width))
            inner[:, : topology.n_arc_slots] = topology.arc_slot_sums(arcs)
            arc_sums, arcs = self._arc.slot_masses(block.arc, inner), arcs.sum(axis=0)
        first, last = problem.offsets[:-1], problem.offsets[1:] - 1
        return _Sums(
            loss,
            self._node.slot_masses(block.node, mass),
            self._transitions(arcs),
            arc_sums,
            states[first].sum(axis=0)[space.initial],
            states[last].sum(axis=0)[space.final],
        )

    def _graph(self, problem: Problem, weights: _Weights) -> kernel.Graph:
        if problem.arc is None or weights.arc is None:
            return weights.graph
        plain, topology = weights.plain, self._space.topology
        slots = weights.arc.sum_rows(problem.arc, topology.n_arc_slots)
        slots += plain.transition
        return topology.graph(slots, plain.initial, plain.final)

    def _transitions(self, arcs: Floats) -> Floats:
        """Add up the arcs of the graph over the slots that have weights."""
        weighted = self._space.transitions
        if self._default_arcs is not None:
            return self._default_arcs.slot_sums(arcs, len(weighted))
        return self._space.topology.arc_slot_sums(arcs)[weighted]


def _few_transitions(space: ParameterSpace) -> DefaultArcs | None:
    """Return the arcs with weights as exceptions, if visiting only these is cheaper."""
    topology = space.topology
    if space.n_arc_rows or not topology.dense:
        return None
    if not sparse_pays(topology.n_states, len(space.transitions)):
        return None
    default_arcs = topology.default_arcs(space.transitions)
    return None if default_arcs is None or default_arcs.arc_blocks is not None else default_arcs


def _target(block: _Block, graph: kernel.Graph, node: Floats) -> kernel.Posterior:
    """Posterior given the allowed labels, zero for sentences whose labels are all known."""
    problem = block.problem
    masked = np.where(problem.allowed[:, problem.topology.state_label], node, -np.inf)
    weight = np.where(problem.partial, problem.weight, 0.0)
    target = kernel.forward_backward(graph, problem.offsets, masked, weight=weight)
    dead = np.flatnonzero(problem.partial & np.isneginf(target.log_z))
    if len(dead):
        raise DataError("no path through its allowed labels", sentence=int(block.numbers[dead[0]]))
    return target


def _blocks(
    problem: Problem, numbers: Longs, space: ParameterSpace, *, arcs: bool
) -> Iterator[_Block]:
    """Split the shards of a problem into blocks, so that posteriors exist for few tokens at a time.

    With `arcs` attributes of arcs have weights.
    """
    tokens = block_tokens(space, arcs=arcs)
    for first, last in pairwise(shard_bounds(problem.offsets)):
        offsets = problem.offsets[first : last + 1]
        ends = np.arange(int(offsets[0]) + tokens, int(offsets[-1]), tokens)
        cuts = {first, last, *(first + np.searchsorted(offsets, ends)).tolist()}
        for a, b in pairwise(sorted(cuts)):
            run, part = problem.part(a, b)
            inner = _Attributes.of(part.arc) if arcs and part.arc is not None else None
            yield _Block(part, numbers[a:b], run, _Attributes.of(part.node), inner)


class Split:
    """The sum over sentences whose labels are all known, by `Fused`, and over others, by `General`.

    The curvature is the diagonal of the Hessian of log Z for all sentences. It is an upper bound of
    the objective's, because log Z(allowed), which is subtracted, is convex as well.

    Parameters
    ----------
    problem, space, plan, workers, keep
        As for `Fused`.
    stored : callable, optional
        Moves a problem to another memory, and returns it from there. The blocks of `General` are
        then made anew in each call.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        plan: SweepPlan,
        *,
        workers: Workers,
        keep: Keep = iter,
        stored: Callable[[Problem], Problem] | None = None,
    ) -> None:
        numbers = np.flatnonzero(problem.partial)
        others = problem.chosen(numbers)
        self._others = others if stored is None else stored(others)
        self._numbers = problem.first + numbers
        self._space, self._default_arcs, self._workers = space, plan.default_arcs, workers
        self._known = Fused(problem, space, plan, workers=workers, keep=keep)
        self._kept = self._general() if stored is None else None

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        loss, gradient = self._known(theta)
        general, place = self._kept or self._general()
        more, partial = general(theta[place])
        gradient[place] += partial
        return loss + more, gradient

    def curvature(self, theta: Singles | Floats) -> Floats | None:
        """Return the sums of variances, float64 [size]; `None` if sweeps cannot compute them."""
        total = self._known.curvature(theta)
        if total is None:
            return None
        problem, space, place = restricted(self._others, self._space)
        plan, swept = SweepPlan(attribute_layout(space), self._default_arcs), problem.weight >= 0
        fused = Fused(problem, space, plan, workers=self._workers, swept=swept)
        partial = fused.curvature(theta[place])
        if partial is None:
            return None
        total[place] += partial
        return total

    def _general(self) -> tuple[General, Longs]:
        """Return the sum over the other sentences, and the weights that it uses."""
        problem, space, place = restricted(self._others, self._space)
        return General(problem, space, workers=self._workers, numbers=self._numbers), place


def part_expectation(
    problem: Problem,
    space: ParameterSpace,
    plan: SweepPlan | None,
    *,
    workers: Workers = SERIAL,
    keep: Keep = iter,
    stored: Callable[[Problem], Problem] | None = None,
) -> Expectation:
    """Return the expectation of a part; arguments as for `Split`.

    Without a plan, `General` computes all of it.
    """
    if plan is None:
        return General(problem, space, workers=workers)
    if not problem.partial.any():
        return Fused(problem, space, plan, workers=workers, keep=keep)
    return Split(problem, space, plan, workers=workers, keep=keep, stored=stored)

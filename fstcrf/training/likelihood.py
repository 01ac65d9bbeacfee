"""The conditional log-likelihood with an L2 penalty: value and gradient.

    f(theta) = sum_b weight_b (log Z_b − log Z_b(allowed)) + l2 |theta|²

log Z(allowed) sums over the label sequences that the target allows; if all labels are known it is
the score of the gold path. The gradient is the difference of the expected feature counts, plus 2 l2
theta. Source: Lafferty, McCallum and Pereira (2001); for partial labels, Tsuboi et al. (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs, Singles, distinct
from fstcrf.errors import DataError, NumericError
from fstcrf.kernel import dot
from fstcrf.kernel.native import SERIAL, Workers
from fstcrf.lazy import made_once
from fstcrf.machines.topology import DefaultArcs, sparse_pays
from fstcrf.ragged import Ragged
from fstcrf.training.executors.executor import folded
from fstcrf.training.magnitudes import magnitudes, units, valued
from fstcrf.training.problem import ParameterSpace, Problem, Tables
from fstcrf.training.settings import ObjectiveSettings, TrainingRun
from fstcrf.training.shards import (
    added,
    attribute_layout,
    block_tokens,
    compiled_shards,
    fits,
    observed_sum,
    part_bounds,
    parts_of,
    shard_bounds,
    spans,
    sparse_default_arcs,
)
from fstcrf.training.support import cell_pointers


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


# --- Expected feature counts and log Z ------------------------------------------------------------
class Fused:
    """Sum of weight × log Z, minus scores of gold paths that the plan includes, and its gradient.

    It runs one sweep of the kernel per shard; see `fits`.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        plan: SweepPlan,
        *,
        workers: Workers,
        keep: Callable[[Iterable[kernel.ShardAttributes]], Iterable[kernel.ShardAttributes]] = iter,
    ) -> None:
        # Without the space's cells of attributes, because the shards have their layout.
        self._parts, self._workers = space.bounds, workers
        self._topology, self._weighted = space.topology, space.transitions
        self._initial, self._final = space.initial, space.final
        self._default_arcs = plan.default_arcs
        graph = self._graph(np.zeros(space.size, dtype=np.float32))
        gold = problem.states if plan.scored else None
        self._shards = list(compiled_shards(problem, plan.layout, graph, keep, gold))
        self._workspaces: SimpleQueue[kernel.SweepWorkspace] = SimpleQueue()  # free ones
        self.rescued = 0

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        loss, self.rescued, out = self._summed(theta, kernel.Shard.sweep)
        return loss, out

    @made_once
    def has_curvature(self) -> bool:
        """Whether the sweep can compute the curvature: no two arcs share a weight."""
        slots = self._topology.arc_slot
        return int(np.bincount(slots[slots >= 0]).max(initial=0)) <= 1

    def curvature(self, theta: Singles | Floats) -> Floats | None:
        """Return the sums of variances, in the definition of `DiagonalHessian`, float64 [size].

        `None` if the sweep cannot compute them.
        """
        return self._summed(theta, kernel.Shard.curvature)[2] if self.has_curvature else None

    def _summed(self, theta: Singles | Floats, sweep: _ShardSweep) -> tuple[float, int, Floats]:
        """Return loss, rescued sentences and sums over the shards."""
        seen = theta.astype(np.float32, copy=False)
        weights, graph = seen[: self._parts[1]], self._graph(seen)
        out = np.zeros(self._parts[-1])
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


@dataclass(frozen=True, slots=True)
class _Block:
    """Some sentences: the number of the first, their tokens in the whole text, their attributes."""

    problem: Problem
    first: int
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
        own = kernel.SparseRows(rows.indptr, index, rows.value, len(used))
        return cls(used.astype(np.int64), own.transposed())


class _Weighted:
    """The weights of attributes: maps them to slot potentials, and slot masses to sums of weights.

    Rows of attributes and slots are mostly empty, and never stored as a table.
    """

    def __init__(self, cells: Longs, n_rows: int, width: int) -> None:
        self._cells, self._rows, self.width = cells, n_rows, width
        self._first = cell_pointers(cells, n_rows, width)
        self._slot = np.empty(len(cells), dtype=np.int32)
        for part in spans(len(cells)):
            self._slot[part] = cells[part] % width

    def table(self, weights: Floats) -> kernel.PackedTable:
        return kernel.PackedTable.from_cells(self._rows, self.width, self._cells, weights)

    def gathered(self, attributes: _Attributes, mass: Floats) -> tuple[Longs, Floats]:
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
    first : int
        Number of the first sentence, for messages.
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
        first: int = 0,
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
        self._blocks = list(_blocks(problem, first, space, arcs=self._arc is not None))

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
        slots = weights.node.gathered(problem.node, len(topology.node_slot_names))
        node, graph = topology.node_potentials(slots), self._graph(problem, weights)
        free = self._posteriors(problem, block.tokens, graph, node)
        loss = kernel.dot(problem.weight, free.log_z)
        states, arcs = free.node, free.arc
        if problem.partial.any():
            target = _target(block, graph, node)
            partial = problem.partial
            loss -= kernel.dot(problem.weight[partial], target.log_z[partial])
            states, arcs = states - target.node, arcs - target.arc
        mass, arc_sums = topology.slot_sums(states, space.width), None
        if self._arc is not None and block.arc is not None:
            inner = np.zeros((len(states), space.arc_width))
            inner[:, : topology.n_arc_slots] = topology.arc_slot_sums(arcs)
            arc_sums, arcs = self._arc.gathered(block.arc, inner), arcs.sum(axis=0)
        first, last = problem.offsets[:-1], problem.offsets[1:] - 1
        return _Sums(
            loss,
            self._node.gathered(block.node, mass),
            self._transitions(arcs),
            arc_sums,
            states[first].sum(axis=0)[space.initial],
            states[last].sum(axis=0)[space.final],
        )

    def _graph(self, problem: Problem, weights: _Weights) -> kernel.Graph:
        if problem.arc is None or weights.arc is None:
            return weights.graph
        plain, topology = weights.plain, self._space.topology
        slots = weights.arc.gathered(problem.arc, topology.n_arc_slots)
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
        raise DataError("no path through its allowed labels", sentence=block.first + int(dead[0]))
    return target


def _blocks(
    problem: Problem, before: int, space: ParameterSpace, *, arcs: bool
) -> Iterator[_Block]:
    """Split the shards of a problem into blocks, so that posteriors exist for few tokens at a time.

    `before` is the number of its first sentence; with `arcs` attributes of arcs have weights.
    """
    tokens = block_tokens(space, arcs=arcs)
    for first, last in pairwise(shard_bounds(problem.offsets)):
        own = problem.offsets[first : last + 1]
        ends = np.arange(int(own[0]) + tokens, int(own[-1]), tokens)
        cuts = {first, last, *(first + np.searchsorted(own, ends)).tolist()}
        for a, b in pairwise(sorted(cuts)):
            run, part = problem.part(a, b)
            inner = _Attributes.of(part.arc) if arcs and part.arc is not None else None
            yield _Block(part, before + a, run, _Attributes.of(part.node), inner)


def part_expectation(
    problem: Problem,
    space: ParameterSpace,
    plan: SweepPlan | None,
    *,
    workers: Workers = SERIAL,
    first: int = 0,
) -> Expectation:
    """Return the expectation of a part, by the fused kernel if there is a plan for it.

    `first` is the number of the part's first sentence.
    """
    if plan is None:
        return General(problem, space, workers=workers, first=first)
    return Fused(problem, space, plan, workers=workers)


class Parted:
    """The sum of the parts' expectations, by the tree over their numbers."""

    def __init__(self, parts: Sequence[Expectation]) -> None:
        self._parts = parts

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        return folded(lambda k: self._parts[k](theta), both_added, 0, len(self._parts))

    def curvature(self, theta: Singles | Floats) -> Floats | None:
        """Return the sums of variances, float64 [size]; `None` if a part cannot compute them."""
        return folded(lambda k: self._parts[k].curvature(theta), added_known, 0, len(self._parts))


def both_added(one: tuple[float, Floats], other: tuple[float, Floats]) -> tuple[float, Floats]:
    """Add value and gradient of two parts; the first gradient is changed."""
    return one[0] + other[0], added(one[1], other[1])


def added_known(one: Floats | None, other: Floats | None) -> Floats | None:
    """Add arrays unless one is `None`; the first is changed."""
    return None if one is None or other is None else added(one, other)


def expectation(
    problem: Problem, space: ParameterSpace, *, workers: Workers, fused: bool
) -> Expectation:
    """Return the expectation of a problem in memory, part by part."""
    plan = None
    if fused:
        default_arcs = sparse_default_arcs(problem, space)
        plan = SweepPlan(attribute_layout(space), default_arcs, valued(problem))
    bounds = part_bounds(problem.offsets)
    engines = [
        part_expectation(part, space, plan, workers=workers, first=first)
        for part, first in zip(parts_of(problem), bounds, strict=False)
    ]
    return engines[0] if len(engines) == 1 else Parted(engines)


# --- The likelihood -------------------------------------------------------------------------------

Precision = Literal["float32", "float64"]
_ROUNDING = {True: 2.0**-26, False: 2.0**-50}  # of sums whose errors cancel: measured


class LikelihoodSettings(ObjectiveSettings):
    """The penalised likelihood."""

    name: ClassVar[str] = "likelihood"

    def function(self, run: TrainingRun, l2: float) -> Likelihood:
        """Return the objective of a run."""
        return Likelihood(run.problem, run.space, l2=l2, threads=run.threads)


class SummedLikelihood:
    """Penalised negative log-likelihood of data whose sums are computed elsewhere.

    Parameters
    ----------
    expectation : Expectation
    observed : float64 [size]
        Count of each feature on the gold paths of sentences whose labels are all known.
    l2 : float
        Coefficient of |theta|², CRFsuite's ``c2``; 1 / (2 sigma²).
    fused : bool
        The data uses weights rounded to float32.
    threads : int
        The result has the same bits for any number of threads.
    members : int32 [size], optional
        The data uses ``sqrt(members) * theta``, the penalty uses theta (see `Ties`).
    scored : int
        The expectation already includes the gold score of this number of first weights.
    fixed : float
        Part of the gold score that does not depend on the weights.
    value_sums : float64 [2, size], optional
        Magnitudes of feature values (see `magnitudes`); all are 1 if absent.

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes of forward-backward over the data.
    observed : float64 or float32 [size]
        Count of each feature on the gold paths of sentences whose labels are all known; float32 if
        it is exact.
    noise : float
        Approximate rounding error of the last value.
    """

    def __init__(
        self,
        expectation: Expectation,
        observed: Floats | Singles,
        *,
        l2: float,
        fused: bool,
        threads: int | Workers = 1,
        members: Ints | None = None,
        scored: int = 0,
        fixed: float = 0.0,
        value_sums: Floats | None = None,
    ) -> None:
        self.l2, self.size, self.evaluations, self.noise = l2, len(observed), 0, 0.0
        self._scored, self._fixed, self._value_sums = scored, fixed, value_sums
        self._members, self._fused = members, fused
        self.observed = _narrow(observed)
        self._workers = Workers(threads) if isinstance(threads, int) else threads
        self._spans = spans(self.size)
        self._expectation = expectation

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta (float64 [size]).

        Raises
        ------
        NumericError
            The value is not finite.
        DataError
            A sentence whose allowed labels have no path.
        """
        return self.in_units(theta, None)

    def in_units(self, u: Floats, unit: Floats | Singles | None) -> tuple[float, Floats]:
        """Return value and gradient with respect to u at ``theta = unit * u``, not stored.

        The result equals `fstcrf.training.preconditioning.Rescaled`, which works for any objective.

        Raises
        ------
        NumericError, DataError
            As above.
        """
        self.evaluations += 1
        seen, gold, square, scored = self._seen(u, unit)
        loss, gradient = self._expectation(seen)
        del seen
        self.noise = _ROUNDING[self._fused] * abs(loss + scored)
        # No path scores more than the sum of all paths: a value below zero is rounding error.
        value = max(loss - gold - self._fixed, 0.0) + self.l2 * square
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        self._finish(gradient, u, unit)
        return value, gradient

    def curvature(self, theta: Floats) -> Floats | None:
        """Return the approximate diagonal of the Hessian at theta, float64 [size].

        It is defined as in `DiagonalHessian`, and computed by one sweep of the fused kernel; `None`
        if that is not possible.
        """
        diagonal = self._expectation.curvature(self._seen(theta)[0])
        if diagonal is None:
            return None
        self.evaluations += 1
        if self._members is not None:
            diagonal *= self._members
        diagonal += 2.0 * self.l2
        return diagonal

    @property
    def value_units(self) -> Singles | None:
        """Units of weights, float32 [size], that compensate the values of features (`units`)."""
        if self._value_sums is None:
            return None
        sums = self._value_sums
        return units(sums if self._members is None else sums * self._members, self.l2)

    def _seen(
        self, u: Floats, unit: Floats | Singles | None = None
    ) -> tuple[Singles | Floats, float, float, float]:
        """Return the weights as used by the data, the score of the gold paths, and |theta|².

        The last value is the score that the expectation already includes.
        """
        # The fused kernel uses rounded weights, so the gold paths are scored with them as well.
        seen: NDArray[Any] = np.empty(len(u), np.float32 if self._fused else np.float64)

        def see(part: slice) -> Floats:
            own, rounded = u[part] if unit is None else u[part] * unit[part], seen[part]
            rounded[:] = own if self._members is None else own * np.sqrt(self._members[part])
            counts = self.observed[part]
            cut = min(max(0, self._scored - part.start), len(rounded))
            score = dot(_wide(rounded[cut:]), _wide(counts[cut:]))
            scored = dot(_wide(rounded[:cut]), _wide(counts[:cut])) if cut else 0.0
            return np.asarray([score, dot(own, own), scored])

        gold, square, scored = sum(self._workers.map(see, self._spans), np.zeros(3))
        return seen, float(gold), float(square), float(scored)

    def _finish(self, gradient: Floats, u: Floats, unit: Floats | Singles | None) -> None:
        """Turn expected counts into the gradient, in place."""

        def finish(part: slice) -> None:
            own = gradient[part]
            own -= self.observed[part]
            if self._members is not None:
                own *= np.sqrt(self._members[part])
            if unit is None:
                own += 2.0 * self.l2 * u[part]
            else:
                own += 2.0 * self.l2 * (u[part] * unit[part])
                own *= unit[part]

        self._workers.each(finish, self._spans)


class Likelihood(SummedLikelihood):
    """The penalised likelihood of a problem in memory.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    l2, threads, members
        As for `SummedLikelihood`.
    precision : {"float32", "float64"}
        "float32" uses the fused kernel if the problem allows it (dense topology, all labels known,
        no attributes of arcs); totals are float64 in any case.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        *,
        l2: float,
        threads: int = 1,
        members: Ints | None = None,
        precision: Precision = "float32",
    ) -> None:
        observed = _narrow(observed_sum(parts_of(problem), space))
        fused = precision == "float32" and fits(problem, space)
        workers = Workers(threads)
        super().__init__(
            expectation(problem, space, workers=workers, fused=fused),
            observed,
            l2=l2,
            fused=fused,
            threads=workers,
            members=members,
            scored=space.bounds[1] if fused and valued(problem) else 0,
            value_sums=magnitudes(problem, space),
        )


def _narrow(counts: Floats | Singles) -> Floats | Singles:
    """Return counts as float32 if this is exact: they are mostly integers."""
    if counts.dtype == np.float32:
        return counts
    singles = counts.astype(np.float32)
    same = all(np.array_equal(singles[part], counts[part]) for part in spans(len(counts)))
    return singles if same else counts


def _wide(array: Floats | Singles) -> Floats:
    return array.astype(np.float64, copy=False)

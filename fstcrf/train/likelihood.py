"""The conditional log-likelihood with an L2 penalty: value and gradient.

    f(theta) = sum_b weight_b (log Z_b − log Z_b(allowed)) + l2 |theta|²

log Z(allowed) sums over the label sequences that the target allows; where all labels are known it
is the score of the gold path. The gradient is the difference of the expected feature counts, plus
2 l2 theta. Source: Lafferty, McCallum and Pereira (2001); for partial labels, Tsuboi et al. (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from queue import SimpleQueue
from typing import ClassVar, Literal

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import DataError, NumericError
from fstcrf.kernel import dot
from fstcrf.train.problem import ParameterSpace, Problem, Tables, arc_slots, observed_counts
from fstcrf.train.settings import ObjectiveSettings, TrainingRun
from fstcrf.train.shards import N_SHARDS, Workers, compiled_shards, fits, shard_bounds, spans

_ShardSweep = Callable[[kernel.Shard, kernel.Graph, Floats, kernel.SweepWorkspace], kernel.Sweep]


# --- Expected feature counts and log Z ------------------------------------------------------------
class Fused:
    """Sum of weight × (log Z − log Z(allowed) of partial sentences), and its gradient.

    One sweep of the kernel a shard; see `fits`.
    """

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
        loss, self.rescued, out = self._summed(theta, kernel.Shard.sweep)
        return loss, out

    @property
    def has_curvature(self) -> bool:
        """Whether the sweep can tell the curvature: no two arcs share a weight."""
        slots = self._space.topology.arc_slot
        return len(np.unique(slots[slots >= 0])) == int((slots >= 0).sum())

    def curvature(self, theta: Floats) -> Floats:
        """Return the sums of variances, as `DiagonalHessian` has them, float64 [size]."""
        return self._summed(theta, kernel.Shard.curvature)[2]

    def _summed(self, theta: Floats, sweep: _ShardSweep) -> tuple[float, int, Floats]:
        """Return loss, rescued sentences and sums over the shards."""
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

        def swept(shard: kernel.Shard) -> kernel.Sweep:
            workspace = self._workspaces.get()
            try:
                return sweep(shard, graph, weights, workspace)
            finally:
                self._workspaces.put(workspace)

        loss, rescued = 0.0, 0
        for found in self._workers.map(swept, self._shards):
            loss += found.loss
            rescued += found.rescued
            transition += topology.arc_slot_sums(found.arc)[space.transitions]
            initial += found.begin[space.initial]
            final += found.end[space.final]
        self._workers.each(lambda block: self._collect(block, node), range(self._n_blocks))
        return loss, rescued, out

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
        graph = topology.graph(arc_slots(tables, problem.arc), tables.initial, tables.final)
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
    for first, last in pairwise(shard_bounds(problem.offsets)):
        tokens, part = problem.part(first, last)
        yield _Shard(part, first, tokens, None if part.arc is None else part.arc.transposed())


def _row_blocks(rows: kernel.SparseRows) -> Iterator[tuple[slice, kernel.SparseRows]]:
    """Cut rows into N_SHARDS blocks of about equally many entries."""
    cuts = np.searchsorted(rows.indptr, np.linspace(0, len(rows.index), N_SHARDS + 1)[1:-1])
    bounds = sorted({0, *cuts.tolist(), len(rows)})
    for a, b in pairwise(bounds):
        yield slice(a, b), rows.slice(a, b)


# --- The likelihood -------------------------------------------------------------------------------

Precision = Literal["float32", "float64"]
_ROUNDING = {True: 2.0**-26, False: 2.0**-50}  # of sums whose errors cancel: measured


class LikelihoodSettings(ObjectiveSettings):
    """The penalised likelihood."""

    name: ClassVar[str] = "likelihood"

    def function(self, run: TrainingRun, l2: float) -> Likelihood:
        """Return the objective of a run."""
        return Likelihood(run.problem, run.space, l2=l2, threads=run.threads)


class Likelihood:
    """Penalised negative log-likelihood, for batch optimisers.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|², CRFsuite's ``c2``; 1 / (2 sigma²).
    threads : int
        The result has the same bits for any number.
    scale : float64 [size], optional
        The data sees ``scale * theta``, the penalty theta (see `Ties`).
    precision : {"float32", "float64"}
        "float32" takes the fused kernel where the problem allows it (dense topology, all labels
        known, no attributes of arcs); totals are float64 in any case.

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes of forward-backward over the data.
    observed : float64 [size]
        How often each feature occurs on the gold paths of sentences whose labels are all known.
    noise : float
        Rounding error of the last value, about.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        *,
        l2: float,
        threads: int = 1,
        scale: Floats | None = None,
        precision: Precision = "float32",
    ) -> None:
        self.l2, self.size, self.evaluations, self.noise = l2, space.size, 0, 0.0
        self._scale = scale
        self.observed = observed_counts(problem, space)
        self._fused = precision == "float32" and fits(problem, space)
        engine = Fused if self._fused else General
        self._workers, self._spans = Workers(threads), spans(space.size)
        self._expectation = engine(problem, space, workers=self._workers)

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
        seen, gold, square = self._seen(theta)
        loss, gradient = self._expectation(seen)
        self.noise = _ROUNDING[self._fused] * abs(loss)
        value = loss - gold + self.l2 * square
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        self._finish(gradient, theta)
        return value, gradient

    def curvature(self, theta: Floats) -> Floats | None:
        """Return the approximate diagonal of the Hessian at theta, float64 [size].

        It is that of `DiagonalHessian`, by one sweep of the fused kernel; None where that cannot
        tell it.
        """
        if not isinstance(self._expectation, Fused) or not self._expectation.has_curvature:
            return None
        self.evaluations += 1
        diagonal = self._expectation.curvature(self._seen(theta)[0])
        if self._scale is not None:
            diagonal *= self._scale**2
        diagonal += 2.0 * self.l2
        return diagonal

    def _seen(self, theta: Floats) -> tuple[Floats, float, float]:
        """Return the weights as the data sees them, the score of the gold paths, and |theta|²."""
        seen = np.empty_like(theta)

        def see(part: slice) -> Floats:
            weights = theta[part] if self._scale is None else theta[part] * self._scale[part]
            # The fused kernel sees rounded weights; the gold paths are scored with the same.
            seen[part] = weights.astype(np.float32) if self._fused else weights
            own = theta[part]
            return np.asarray([dot(seen[part], self.observed[part]), dot(own, own)])

        gold, square = sum(self._workers.map(see, self._spans), np.zeros(2))
        return seen, float(gold), float(square)

    def _finish(self, gradient: Floats, theta: Floats) -> None:
        """Make of expected counts the gradient."""

        def finish(part: slice) -> None:
            own = gradient[part]
            own -= self.observed[part]
            if self._scale is not None:
                own *= self._scale[part]
            own += 2.0 * self.l2 * theta[part]

        self._workers.each(finish, self._spans)


# --- Locally normalised chains --------------------------------------------------------------------
class LocalLikelihood:
    """Penalised negative log-likelihood of a locally normalised model.

    Weights for ending count at the last token, beside the others.

    Parameters
    ----------
    problem : Problem
        All labels known: the state before is the gold one.
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|².

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes over the data.

    Raises
    ------
    OptionError
        Unknown labels.
    """

    def __init__(self, problem: Problem, space: ParameterSpace, *, l2: float) -> None:
        problem.require_known("a locally normalised model learns from complete ones")
        self.l2, self.size, self.evaluations = l2, space.size, 0
        self._problem, self._space = problem, space
        self._first, self._last = problem.offsets[:-1], problem.offsets[1:] - 1
        self._before = np.empty_like(problem.states)
        self._before[1:] = problem.states[:-1]
        self._before[self._first] = space.topology.n_states
        self._weight = problem.weight[problem.sentence_of]
        self.observed = observed_counts(problem, space)
        self._node = problem.node.transposed()
        self._arc = None if problem.arc is None else problem.arc.transposed()

    @cached_property
    def _slot(self) -> Longs:
        """Arc slot of each (state before, state), int64 [S + 1, S]; a slot behind the last: none.

        The last row is that of the start.
        """
        topology = self._space.topology
        table = np.full((topology.n_states + 1, topology.n_states), topology.n_arc_slots)
        slots = np.where(topology.arc_slot < 0, topology.n_arc_slots, topology.arc_slot)
        table[topology.source, topology.target] = slots
        return table

    @cached_property
    def _forbidden(self) -> Bools:
        """Pairs (state before, state) without an arc, bool [S + 1, S]."""
        topology = self._space.topology
        table = np.ones((topology.n_states + 1, topology.n_states), dtype=bool)
        table[topology.source, topology.target] = False
        table[-1] = ~topology.initial
        return table

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta (float64 [size]).

        Raises
        ------
        NumericError
            The value is not finite.
        """
        self.evaluations += 1
        tables = self._space.tables(theta)
        scores = self._scores(tables)
        top = scores.max(axis=1, keepdims=True)
        share = np.exp(scores - top)
        total = share.sum(axis=1, keepdims=True)
        log_z = float(self._weight @ (np.log(total) + top)[:, 0])
        value = log_z - kernel.dot(theta, self.observed) + self.l2 * kernel.dot(theta, theta)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        share *= self._weight[:, None] / total
        gradient = self._space.collect(self._sums(share))
        gradient -= self.observed
        gradient += 2.0 * self.l2 * theta
        return value, gradient

    def _scores(self, tables: Tables) -> Floats:
        """Return the scores of all states after the gold state before, float64 [N, S]."""
        topology, problem = self._space.topology, self._problem
        scores = topology.node_potentials(problem.node.times(tables.node)).copy()
        slots = self._slot[self._before]
        scores += np.append(tables.transition, 0.0)[slots]
        if problem.arc is not None and tables.arc is not None:
            into = np.zeros((len(scores), topology.n_arc_slots + 1))
            into[:, :-1] = problem.arc.times(tables.arc)[:, : topology.n_arc_slots]
            into[self._first] = 0.0
            scores += np.take_along_axis(into, slots, axis=1)
        scores[self._first] += tables.initial
        scores[self._last] += np.where(topology.final, tables.final, -np.inf)
        scores[self._forbidden[self._before]] = -np.inf
        return scores

    def _sums(self, share: Floats) -> Tables:
        """Return the expected counts of features."""
        topology, space = self._space.topology, self._space
        slots, n = self._slot[self._before], topology.n_arc_slots
        transition = np.bincount(slots.ravel(), share.ravel(), minlength=n + 1)[:n]
        arc = None
        if self._arc is not None and space.n_arc_rows:
            into = np.zeros((len(share), max(space.arc_width, n + 1)))
            for state in range(topology.n_states):  # one slot a token: nothing is lost
                into[np.arange(len(share)), slots[:, state]] += share[:, state]
            into[:, n:] = 0.0
            into[self._first] = 0.0
            arc = self._arc.times(np.ascontiguousarray(into[:, : space.arc_width]))
        return Tables(
            self._node.times(topology.slot_sums(share, space.width)),
            np.asarray(transition, dtype=np.float64),
            arc,
            share[self._first].sum(axis=0),
            share[self._last].sum(axis=0),
        )


def normalised(graph: kernel.Graph, offsets: Longs, node: Floats) -> tuple[kernel.Graph, Floats]:
    """Normalise the arcs that leave each state, token by token.

    Parameters
    ----------
    graph : Graph
        The potentials of a CRF.
    offsets : int64 [B + 1]
    node : float64 [N, S]

    Returns
    -------
    graph : Graph
        With arc potentials for each token: log p(state | state before, x), −inf behind a dead end.
    node : float64 [N, S]
        log p(first state | x), and 0 at all other tokens.
    """
    states, first, last = graph.n_states, offsets[:-1], offsets[1:] - 1
    if graph.source is None or graph.target is None:
        source, target = np.divmod(np.arange(states * states), states)
    else:
        source, target = graph.source, graph.target
    into = node.copy()
    into[last] += graph.final
    arcs = graph.score + into[:, target]
    rows, starts = np.unique(source, return_index=True)  # arcs are sorted by source
    total = np.full((len(node), states), -np.inf)
    total[:, rows] = np.logaddexp.reduceat(arcs, starts, axis=1)
    total[np.isneginf(total)] = 0.0
    arcs -= total[:, source]
    begin = into[first] + graph.initial
    begin -= np.logaddexp.reduce(begin, axis=1, keepdims=True)
    out = np.zeros_like(node)
    out[first] = begin
    free = np.zeros(states)
    arcs = np.ascontiguousarray(arcs)
    return kernel.Graph(free, free, arcs, graph.source, graph.target), out

"""Locally normalised chains over the structure of a CRF (MEMMs): their objective, their graphs.

    f(theta) = −sum_b weight_b sum_t log p(y_t | y_{t-1}, x) + l2 |theta|²

Source: McCallum, Freitag and Pereira (2000).
"""

from __future__ import annotations

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import NumericError
from fstcrf.lazy import made_once
from fstcrf.training.problem import ParameterSpace, Problem, Tables
from fstcrf.training.support import observed_counts


class LocalLikelihood:
    """Penalised negative log-likelihood of a locally normalised model.

    Additional weights for ending count at the last token.

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

    @made_once
    def _slot(self) -> Longs:
        """Arc slot of each (previous state, state), int64 [S + 1, S]; too large without an arc.

        The last row is for the start.
        """
        topology = self._space.topology
        table = np.full((topology.n_states + 1, topology.n_states), topology.n_arc_slots)
        slots = np.where(topology.arc_slot < 0, topology.n_arc_slots, topology.arc_slot)
        table[topology.source, topology.target] = slots
        return table

    @made_once
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
            for state in range(topology.n_states):  # one slot for each token: nothing is lost
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
        With arc potentials for each token: log p(state | previous state, x), −inf after a dead end.
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

"""The same objective in other parameters: tied columns, and units that suit the curvature.

Attributes that fire on exactly the same tokens have equal gradients for ever: if they start equal,
m of them move as one weight w. As a column of value √m its parameter is u = √m · w, and then the
penalty and all inner products are what they were: m · w² = u². Valid for optimisers that a rotation
of the parameters does not change (L-BFGS, conjugate gradients), from starts that are equal within
each group; not for coordinate-wise ones, nor for L1.

theta = unit · u is a preconditioner for any optimiser: with units that are the smaller, the more
curved the objective is along a weight, L-BFGS needs half as many passes over the data (``fstcrf
recipe shallow-parsing``). The curvature is that of Sha and Pereira (2003), the diagonal of the
Hessian with the tokens of a sentence taken as independent, which one forward-backward gives:

    H_f = sum over tokens of (E f² − (E f)²) + 2 l2

The true diagonal is the variance of a feature's count over a whole sentence. This one is never
negative; the penalty makes it positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import OptionError
from fstcrf.kernel import SparseRows, dot
from fstcrf.train.optimiser import Objective, Optimiser, State, Step, floats, snapshot
from fstcrf.train.problem import ParameterSpace, Problem, Tables, arc_slots
from fstcrf.train.shards import SERIAL, Workers, spans

# --- Attributes of the same tokens as one parameter -----------------------------------------------


@dataclass(frozen=True)
class Ties:
    """A problem whose tied attributes are one.

    Parameters
    ----------
    problem : Problem
        Each group of tied attributes is represented by its first.
    space : ParameterSpace
    place : int32 [original size]
        Parameter of `space` that each original parameter shares.
    scale : float64 [space.size]
        √m of each parameter.
    members : int32 [space.size]
        m of each parameter.
    """

    problem: Problem
    space: ParameterSpace
    place: Ints
    scale: Floats
    members: Ints

    def expand(self, u: Floats) -> Floats:
        """Return the original parameters: w = u / √m."""
        return np.asarray((u / self.scale)[self.place])

    def count(self, u: Floats) -> int:
        """Return how many of the original parameters are not zero."""
        return int(self.members[u != 0.0].sum())

    def reduce(self, theta: Floats) -> Floats:
        """Return u of parameters that are equal within each group."""
        u = np.empty(self.space.size)
        u[self.place] = theta
        return u * self.scale


class _Seen:
    """An optimiser of other parameters u, seen from theta."""

    def __init__(self, optimiser: Optimiser, theta_of: Callable[[Floats], Floats]) -> None:
        self._optimiser, self._theta_of = optimiser, theta_of

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._theta_of(self._optimiser.theta())

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that gives the parameters of now, later."""
        u, theta_of = snapshot(self._optimiser), self._theta_of
        return lambda: theta_of(u())

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        return self._optimiser.state()

    def restore(self, state: State) -> None:
        """Go back to a state."""
        self._optimiser.restore(state)


class Untied(_Seen):
    """An optimiser on the tied problem, seen from the original parameters.

    Parameters
    ----------
    optimiser : Optimiser
    ties : Ties
    """

    def __init__(self, optimiser: Optimiser, ties: Ties) -> None:
        super().__init__(optimiser, ties.expand)
        self._ties = ties

    def step(self) -> Step:
        """Make one step."""
        step = self._optimiser.step()
        active = float(self._ties.count(snapshot(self._optimiser)()))
        return replace(step, measures={**step.measures, "active": active})


def tied(problem: Problem, space: ParameterSpace) -> Ties:
    """Find the attributes that fire on the same tokens with the same values."""
    group, first, size = _groups(problem.node)
    keep = np.zeros(problem.node.n_columns, dtype=bool)
    keep[first] = True
    ptr = np.searchsorted(
        space.node_cells, np.arange(space.n_node_rows + 1, dtype=np.int64) * space.width
    )
    row, slot = np.divmod(space.node_cells, space.width)
    kept = keep[row]
    cells = group[row[kept]] * space.width + slot[kept]
    order = np.argsort(cells)
    small = replace(space, n_node_rows=len(first), node_cells=cells[order])
    # Tied attributes have the same slots, in the same order.
    start = np.concatenate([[0], np.cumsum(np.diff(ptr)[first])])
    node = start[group[row]] + np.arange(len(row)) - ptr[row]
    others = np.arange(space.size - len(row)) + len(cells)
    members = np.ones(small.size, dtype=np.int32)
    members[: len(cells)] = size[small.node_cells // space.width]
    return Ties(
        replace(problem, node=_merged(problem.node, keep, group)),
        small,
        np.concatenate([node, others]).astype(np.int32),
        np.sqrt(members),
        members,
    )


def _groups(design: SparseRows) -> tuple[Longs, Longs, Longs]:
    """Return the group of each attribute, and the first attribute and size of each group.

    Attributes are compared by a 128-bit sum of random words, one word for each (token, value).
    """
    token = np.repeat(np.arange(len(design), dtype=np.uint64), np.diff(design.indptr))
    if design.value is not None:
        token += design.value.view(np.uint32).astype(np.uint64) << np.uint64(32)
    prints = np.zeros((design.n_columns, 2), dtype=np.uint64)
    for half, seed in enumerate((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)):
        np.add.at(prints[:, half], design.index, _mixed(token, np.uint64(seed)))
    order = np.lexsort((np.arange(len(prints)), prints[:, 1], prints[:, 0]))
    ranked = prints[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    leader = order[new]  # the smallest attribute of each group
    group_of_rank = np.cumsum(new) - 1
    by_leader = np.argsort(leader)
    number = np.empty(len(leader), dtype=np.int64)
    number[by_leader] = np.arange(len(leader))
    group = np.empty(len(order), dtype=np.int64)
    group[order] = number[group_of_rank]
    return group, leader[by_leader], np.bincount(group)


def _mixed(words: NDArray[np.uint64], seed: np.uint64) -> NDArray[np.uint64]:
    """SplitMix64: every word becomes a random-looking one."""
    x = words + seed
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _merged(design: SparseRows, keep: Bools, group: Longs) -> SparseRows:
    """Keep the entries of the first attribute of each group, under the group's number."""
    kept = keep[design.index]
    counts = np.concatenate([[0], np.cumsum(kept)])
    value = None if design.value is None else design.value[kept]
    index = group[design.index[kept]].astype(np.int32)
    return SparseRows(counts[design.indptr], index, value, int(keep.sum()))


# --- The diagonal of the Hessian, approximately ---------------------------------------------------

_CELLS = 200_000  # posteriors of arcs that are held at once


class DiagonalHessian:
    """theta → the approximate diagonal of the Hessian of `Likelihood`, float64 [size].

    Parameters
    ----------
    problem : Problem
        All labels known. An attribute that a token has twice counts as two.
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|², above 0.
    scale : float64 [size], optional
        The data sees ``scale * theta``, the penalty theta (see `Ties`).

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes of forward-backward over the data.

    Raises
    ------
    OptionError
        Unknown labels, whose Hessian has no sign; or no penalty, without which an entry may be 0.
    """

    def __init__(
        self, problem: Problem, space: ParameterSpace, *, l2: float, scale: Floats | None = None
    ) -> None:
        problem.require_known("no preconditioner for those")
        if not l2 > 0.0:
            raise OptionError(f"l2 is {l2}, expected a number above 0: the preconditioner needs it")
        self.l2, self.evaluations = l2, 0
        self._space, self._scale = space, scale
        self._parts = [problem.part(*bounds) for bounds in pairwise(_bounds(problem))]
        self._node = _squared(problem.node)
        self._arc = None if problem.arc is None else _squared(problem.arc)

    def __call__(self, theta: Floats) -> Floats:
        """Return the diagonal at theta (float64 [size]); every entry is at least 2 l2."""
        self.evaluations += 1
        sums = self._variances(theta)
        arc = None
        if self._arc is not None and sums.arc is not None:
            arc = self._arc.transposed().times(sums.arc)
        node = self._node.transposed().times(sums.node)
        begin, end = sums.ends
        diagonal = self._space.collect(Tables(node, sums.transition, arc, begin, end))
        if self._scale is not None:
            diagonal *= self._scale**2
        diagonal += 2.0 * self.l2
        return diagonal

    def _variances(self, theta: Floats) -> _Sums:
        space, topology, tokens = self._space, self._space.topology, len(self._node)
        tables = space.tables(theta if self._scale is None else theta * self._scale)
        sums = _Sums(
            np.zeros((tokens, space.width)),
            np.zeros((tokens, space.arc_width)) if space.n_arc_rows else None,
            np.zeros(topology.n_arc_slots),
            np.zeros((2, topology.n_states)),
        )
        for chosen, part in self._parts:
            self._add(chosen, part, tables, sums)
        return sums

    def _add(self, chosen: slice, part: Problem, tables: Tables, sums: _Sums) -> None:
        """Add the variances of some sentences; those of attributes wait for the product."""
        topology, space = self._space.topology, self._space
        node = topology.node_potentials(part.node.times(tables.node))
        slots = np.broadcast_to(arc_slots(tables, part.arc), (len(node), topology.n_arc_slots))
        graph = topology.graph(slots, tables.initial, tables.final)
        found = kernel.forward_backward(graph, part.offsets, node)
        weight = part.weight[part.sentence_of, None]
        sums.node[chosen] = weight * _variance(topology.slot_sums(found.node, space.width))
        first, last = part.offsets[:-1], part.offsets[1:] - 1
        arcs = topology.arc_slot_sums(found.arc)
        arcs[first] = 0.0
        arcs = weight * _variance(arcs)
        sums.transition[:] += arcs.sum(axis=0)
        if sums.arc is not None:
            sums.arc[chosen, : topology.n_arc_slots] = arcs
        for k, tokens in enumerate((first, last)):
            sums.ends[k] += (weight[tokens] * _variance(found.node[tokens])).sum(axis=0)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Variances of slots at tokens, of arc slots at tokens and in all, of first and last states."""

    node: Floats
    arc: Floats | None
    transition: Floats
    ends: Floats


def _bounds(problem: Problem) -> list[int]:
    """Cut sentences into runs of about so many tokens that their arcs fit into _CELLS."""
    tokens, offsets = max(1, _CELLS // _arcs(problem)), problem.offsets
    cuts = np.searchsorted(offsets, np.arange(tokens, int(offsets[-1]), tokens))
    return sorted({0, *cuts.tolist(), len(offsets) - 1})


def _arcs(problem: Problem) -> int:
    topology = problem.topology
    return topology.n_states**2 if topology.dense else max(1, len(topology.source))


def arc_cells(problem: Problem) -> int:
    """Return the number of arcs at all tokens: what one diagonal costs."""
    return _arcs(problem) * int(problem.offsets[-1])


def _variance(probability: Floats) -> Floats:
    """Return p (1 − p), never negative for all that rounding does."""
    return np.maximum(probability * (1.0 - probability), 0.0)


def _squared(rows: kernel.SparseRows) -> kernel.SparseRows:
    if rows.value is None:
        return rows
    return kernel.SparseRows(rows.indptr, rows.index, rows.value**2, rows.n_columns)


# --- Other units ----------------------------------------------------------------------------------


class Rescaled:
    """An objective as a function of u = theta / unit.

    Parameters
    ----------
    objective : Objective
    unit : float64 [size]
        Above 0.
    workers : Workers
    """

    def __init__(self, objective: Objective, unit: Floats, workers: Workers = SERIAL) -> None:
        self.objective, self.unit, self.size = objective, unit, len(unit)
        self._workers, self._spans = workers, spans(len(unit))

    @property
    def evaluations(self) -> int:
        """Number of calls of the objective so far."""
        return self.objective.evaluations

    @evaluations.setter
    def evaluations(self, number: int) -> None:
        self.objective.evaluations = number

    @property
    def noise(self) -> float:
        """Rounding error of the last value, about."""
        return float(getattr(self.objective, "noise", 0.0))

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at u, here called theta (float64 [size])."""
        scaled = np.empty_like(theta)

        def scale(part: slice) -> None:
            np.multiply(theta[part], self.unit[part], out=scaled[part])

        self._workers.each(scale, self._spans)
        value, gradient = self.objective(scaled)

        def scale_back(part: slice) -> None:
            gradient[part] *= self.unit[part]

        self._workers.each(scale_back, self._spans)
        return value, gradient

    def norm(self, theta: Floats) -> float:
        """Return |unit · u|, of u here called theta."""
        squares = (dot(x, x) for p in self._spans for x in [theta[p] * self.unit[p]])
        return math.sqrt(sum(squares))


class InUnits(_Seen):
    """An optimiser over u = theta / unit, seen from theta.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Where to start.
    unit : float64 [size]
    optimiser : callable
        (objective of u, u) → the optimiser.
    workers : Workers
        For the work on vectors.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        unit: Floats,
        optimiser: Callable[[Objective, Floats], Optimiser],
        workers: Workers = SERIAL,
    ) -> None:
        self._objective = Rescaled(objective, unit, workers)
        made = optimiser(self._objective, theta / unit)
        super().__init__(made, _multiplied(unit))

    def step(self) -> Step:
        """Make one step; the norms of gradients are those for u."""
        step = self._optimiser.step()
        length = self._objective.norm(snapshot(self._optimiser)())
        return replace(step, measures={**step.measures, "norm": length})

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        return {"unit": self._objective.unit, **self._optimiser.state()}

    def restore(self, state: State) -> None:
        """Go back to a state."""
        unit = self._objective.unit = floats(state["unit"])
        self._theta_of = _multiplied(unit)
        self._optimiser.restore({name: a for name, a in state.items() if name != "unit"})


def _multiplied(unit: Floats) -> Callable[[Floats], Floats]:
    return lambda u: unit * u

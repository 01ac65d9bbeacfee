"""The same objective in other parameters: merged columns, and units that fit the curvature.

Attributes that fire on exactly the same tokens always have equal gradients: if they start equal, m
of them change like one weight w. As a column of value √m its parameter is u = √m · w, and the
penalty and all inner products are unchanged: m · w² = u². This is valid for optimisers that are
invariant under rotations of the parameters (L-BFGS, conjugate gradients), from starts that are
equal within each group; not for coordinate-wise ones, nor for L1.

theta = unit · u is a preconditioner for any optimiser: if units are smaller for weights with more
curvature, L-BFGS needs half as many passes over the data (``fstcrf recipe shallow-parsing``). The
curvature is defined by Sha and Pereira (2003): the diagonal of the Hessian with the tokens of a
sentence treated as independent, from one forward-backward:

    H_f = sum over tokens of (E f² − (E f)²) + 2 l2

The true diagonal is the variance of a feature's count over a whole sentence. This approximation is
never negative; the penalty makes it positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, Singles
from fstcrf.errors import OptionError
from fstcrf.kernel import SparseRows, dot
from fstcrf.kernel.native import SERIAL, Workers
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology
from fstcrf.training.optimiser import Objective, Optimiser, State, Step, snapshot
from fstcrf.training.problem import ParameterSpace, Problem, Tables, arc_slots
from fstcrf.training.shards import attribute_pointers, spans

# --- Attributes of the same tokens as one parameter -----------------------------------------------


@dataclass(frozen=True, eq=False)
class Sharing:
    """Maps original parameters to parameters of the merged problem.

    Parameters
    ----------
    whole : ParameterSpace
        The original parameters.
    group : int32 [whole.n_node_rows]
        Group of each attribute.
    start : int64 [groups + 1]
        First parameter of each group.
    members : int32 [size]
        Number of original parameters of each parameter, m.
    """

    whole: ParameterSpace
    group: Ints
    start: Longs
    members: Ints

    def expand(self, u: Floats) -> Floats:
        """Return the original parameters: w = u / √m."""
        theta = np.empty(self.whole.size)
        for part, place in self._places():
            theta[part] = u[place] / np.sqrt(self.members[place])
        return theta

    def count(self, u: Floats) -> int:
        """Return the number of original parameters that are not zero."""
        return sum(int(self.members[part][u[part] != 0.0].sum()) for part in spans(len(u)))

    def reduce(self, theta: Floats) -> Floats:
        """Return u for parameters that are equal within each group."""
        u = np.empty(len(self.members))
        for part, place in self._places():
            u[place] = theta[part] * np.sqrt(self.members[place])
        return u

    @property
    def place(self) -> Ints:
        """int32 [whole.size]: the merged parameter of each original one."""
        return np.concatenate([place for _, place in self._places()]).astype(np.int32)

    def _places(self) -> Iterator[tuple[slice, Longs]]:
        """Yield runs of the original parameters, and their merged parameters."""
        space, cells = self.whole, len(self.whole.node_cells)
        ptr = attribute_pointers(space)
        for part, row in _rows_of(space):
            yield part, self.start[self.group[row]] + np.arange(part.start, part.stop) - ptr[row]
        rest = np.arange(space.size - cells)
        yield slice(cells, space.size), rest + int(self.start[-1])


@dataclass(frozen=True, eq=False)
class Groups:
    """Attributes that fire on the same tokens.

    Parameters
    ----------
    group : int32 [R]
        Group of each attribute.
    first, size : int64 [groups]
        First attribute and number of attributes of each group.
    """

    group: Ints
    first: Longs
    size: Longs

    @classmethod
    def of(cls, prints: NDArray[np.uint64]) -> Groups:
        """Return the groups of equal prints."""
        return cls(*_groups(prints))

    @made_once
    def keep(self) -> Bools:
        """Whether each attribute is the first of its group, bool [R]."""
        keep = np.zeros(len(self.group), dtype=bool)
        keep[self.first] = True
        return keep


class _Seen:
    """Base of optimisers over other parameters u that present themselves as optimisers of theta."""

    def __init__(self, optimiser: Optimiser, theta_of: Callable[[Floats], Floats]) -> None:
        self._optimiser, self._theta_of = optimiser, theta_of

    def theta(self) -> Floats:
        """Return the current parameters."""
        return self._theta_of(self._optimiser.theta())

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that returns the current parameters later."""
        u, theta_of = snapshot(self._optimiser), self._theta_of
        return lambda: theta_of(u())

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""
        return self._optimiser.state()

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._optimiser.restore(state)


class Untied(_Seen):
    """An optimiser on the merged problem, presented as one of the original parameters.

    Parameters
    ----------
    optimiser : Optimiser
    sharing : Sharing
    """

    def __init__(self, optimiser: Optimiser, sharing: Sharing) -> None:
        super().__init__(optimiser, sharing.expand)
        self._sharing = sharing

    def step(self) -> Step:
        """Make one step."""
        step = self._optimiser.step()
        active = float(self._sharing.count(snapshot(self._optimiser)()))
        return replace(step, measures={**step.measures, "active": active})


def tied(problem: Problem, space: ParameterSpace) -> tuple[Problem, ParameterSpace, Sharing]:
    """Merge the attributes that fire on the same tokens with the same values."""
    groups = Groups.of(prints(problem.node))
    inner, sharing = tied_space(space, groups)
    node = merged_attributes(problem.node, groups.keep, groups.group)
    return replace(problem, node=node), inner, sharing


def tied_space(space: ParameterSpace, groups: Groups) -> tuple[ParameterSpace, Sharing]:
    """Return the parameter space of merged attributes, and its map to the original one."""
    group, first, size, keep = groups.group, groups.first, groups.size, groups.keep
    # Groups are in the order of their first attributes; tied attributes have the same slots.
    start = Ragged(attribute_pointers(space)).select(first).offsets
    others = space.size - len(space.node_cells)
    cells = np.empty(int(start[-1]), dtype=np.int64)
    members = np.ones(len(cells) + others, dtype=np.int32)
    done = 0
    for part, row in _rows_of(space):
        kept = keep[row]
        groups_kept, old = group[row[kept]], row[kept] * space.width
        end = done + len(groups_kept)
        cells[done:end] = space.node_cells[part][kept] - old + groups_kept * np.int64(space.width)
        members[done:end] = size[groups_kept]
        done = end
    inner = replace(space, n_node_rows=len(first), node_cells=cells)
    return inner, Sharing(space, group, start, members)


def tied_size(problem: Problem, space: ParameterSpace) -> int:
    """Return the number of parameters after attributes of equal tokens are merged."""
    first = Groups.of(prints(problem.node)).first
    others = space.size - len(space.node_cells)
    return Ragged(attribute_pointers(space)).select(first).total + others


def _rows_of(space: ParameterSpace) -> Iterator[tuple[slice, Longs]]:
    for part in spans(len(space.node_cells)):
        yield part, space.node_cells[part] // space.width


def prints(design: SparseRows, first_token: int = 0) -> NDArray[np.uint64]:
    """Return a fingerprint of the tokens of each attribute, uint64 [R, 2].

    It is a 128-bit sum of random words, one word for each (token, value). Tokens are numbered from
    `first_token` on, so that sums of parts of a text can be added.
    """
    prints = np.zeros((design.n_columns, 2), dtype=np.uint64)
    for tokens in spans(len(design)):
        bounds = design.indptr[tokens.start : tokens.stop + 1]
        entries = slice(int(bounds[0]), int(bounds[-1]))
        numbers = np.arange(tokens.start, tokens.stop, dtype=np.uint64) + np.uint64(first_token)
        token = Ragged(bounds).repeat(numbers)
        if design.value is not None:
            token += design.value[entries].view(np.uint32).astype(np.uint64) << np.uint64(32)
        for half, seed in enumerate((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)):
            np.add.at(prints[:, half], design.index[entries], _mixed(token, np.uint64(seed)))
    return prints


def _groups(prints: NDArray[np.uint64]) -> tuple[Ints, Longs, Longs]:
    """Return the group of each attribute, and the first attribute and size of each group."""
    order = np.lexsort((np.arange(len(prints)), prints[:, 1], prints[:, 0]))
    ordered = prints[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    leader = order[new]  # the smallest attribute of each group
    group_of_rank = np.cumsum(new) - 1
    by_leader = np.argsort(leader)
    number = np.empty(len(leader), dtype=np.int32)
    number[by_leader] = np.arange(len(leader), dtype=np.int32)
    group = np.empty(len(order), dtype=np.int32)
    group[order] = number[group_of_rank]
    return group, leader[by_leader], np.bincount(group)


def _mixed(words: NDArray[np.uint64], seed: np.uint64) -> NDArray[np.uint64]:
    """SplitMix64: maps every word to a pseudo-random one."""
    x = words + seed
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def merged_attributes(design: SparseRows, keep: Bools, group: Ints) -> SparseRows:
    """Keep the entries of the first attribute of each group, with the group's number."""
    parts = spans(len(design.index))
    total = sum(int(keep[design.index[part]].sum()) for part in parts)
    index = np.empty(total, dtype=np.int32)
    value = None if design.value is None else np.empty(total, dtype=np.float32)
    indptr, done = np.zeros(len(design) + 1, dtype=np.int64), 0
    for part in parts:
        kept = keep[design.index[part]]
        numbers = group[design.index[part][kept]]
        index[done : done + len(numbers)] = numbers
        if value is not None and design.value is not None:
            value[done : done + len(numbers)] = design.value[part][kept]
        first, last = np.searchsorted(design.indptr, (part.start, part.stop), side="right")
        counts = Ragged.from_lengths(kept).offsets
        indptr[first:last] = done + counts[design.indptr[first:last] - part.start]
        done += len(numbers)
    indptr[np.searchsorted(design.indptr, len(design.index)) :] = total
    return SparseRows(indptr, index, value, int(keep.sum()))


# --- The diagonal of the Hessian, approximately ---------------------------------------------------

_CELLS = 200_000  # posteriors of arcs in memory at a time


class DiagonalHessian:
    """theta → the approximate diagonal of the Hessian of `Likelihood`, float64 [size].

    Parameters
    ----------
    problem : Problem
        An attribute that a token has twice counts as two. Unknown labels change nothing: the
        diagonal is then an upper bound.
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|², above 0.
    scale : float64 [size], optional
        The data uses ``scale * theta``, the penalty uses theta (see `Sharing`).

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes of forward-backward over the data.

    Raises
    ------
    OptionError
        No penalty, without which an entry may be 0.
    """

    def __init__(
        self, problem: Problem, space: ParameterSpace, *, l2: float, scale: Floats | None = None
    ) -> None:
        if not l2 > 0.0:
            raise OptionError(f"l2 is {l2}, expected a number above 0: the preconditioner needs it")
        self.l2, self.evaluations = l2, 0
        self._space, self._scale = space, scale
        self._parts = [problem.part(*bounds) for bounds in pairwise(_bounds(problem))]
        self._node = _squared(problem.node)
        self._arc = None if problem.arc is None else _squared(problem.arc)

    def __call__(self, theta: Floats) -> Floats:
        """Return the diagonal at theta (float64 [size]); every entry is at least 2 l2."""
        return self.completed(self.variances(theta))

    def variances(self, theta: Floats) -> Floats:
        """Return the sums over tokens for the data's weights, float64 [size]."""
        self.evaluations += 1
        sums = self._variances(theta)
        arc = None
        if self._arc is not None and sums.arc is not None:
            arc = self._arc.transposed().times(sums.arc)
        node = self._node.transposed().times(sums.node)
        return self._space.collect(replace(sums, node=node, arc=arc))

    def completed(self, diagonal: Floats) -> Floats:
        """Complete these sums to the diagonal, in place."""
        if self._scale is not None:
            diagonal *= self._scale**2
        diagonal += 2.0 * self.l2
        return diagonal

    def _variances(self, theta: Floats) -> Tables:
        """Return the variances of slots, except that attributes have a row for each token."""
        space, topology, tokens = self._space, self._space.topology, len(self._node)
        tables = space.tables(theta if self._scale is None else theta * self._scale)
        sums = Tables(
            np.zeros((tokens, space.width)),
            np.zeros(topology.n_arc_slots),
            np.zeros((tokens, space.arc_width)) if space.n_arc_rows else None,
            *np.zeros((2, topology.n_states)),
        )
        for chosen, part in self._parts:
            self._add(chosen, part, tables, sums)
        return sums

    def _add(self, chosen: slice, part: Problem, tables: Tables, sums: Tables) -> None:
        """Add the variances of some sentences, except for attributes, which follow by a product."""
        topology, space = self._space.topology, self._space
        node = topology.node_potentials(part.node.times(tables.node))
        slots = np.broadcast_to(arc_slots(tables, part.arc), (len(node), topology.n_arc_slots))
        graph = topology.graph(slots, tables.initial, tables.final)
        posterior = kernel.forward_backward(graph, part.offsets, node)
        weight = part.weight[part.sentence_of, None]
        sums.node[chosen] = weight * _variance(topology.slot_sums(posterior.node, space.width))
        first, last = part.offsets[:-1], part.offsets[1:] - 1
        arcs = topology.arc_slot_sums(posterior.arc)
        arcs[first] = 0.0
        arcs = weight * _variance(arcs)
        sums.transition[:] += arcs.sum(axis=0)
        if sums.arc is not None:
            sums.arc[chosen, : topology.n_arc_slots] = arcs
        for ends, tokens in ((sums.initial, first), (sums.final, last)):
            ends[:] += (weight[tokens] * _variance(posterior.node[tokens])).sum(axis=0)


def _bounds(problem: Problem) -> list[int]:
    """Split sentences into runs whose arcs fit into _CELLS."""
    tokens, offsets = max(1, _CELLS // _arcs(problem.topology)), problem.offsets
    cuts = np.searchsorted(offsets, np.arange(tokens, int(offsets[-1]), tokens))
    return sorted({0, *cuts.tolist(), len(offsets) - 1})


def _arcs(topology: Topology) -> int:
    return topology.n_states**2 if topology.dense else max(1, len(topology.source))


def arc_cells(topology: Topology, tokens: int) -> int:
    """Return the number of arcs over all tokens, the cost of one diagonal."""
    return _arcs(topology) * tokens


def _variance(probability: Floats) -> Floats:
    """Return p (1 − p), and 0 instead of negative rounding errors."""
    return np.maximum(probability * (1.0 - probability), 0.0)


def _squared(rows: kernel.SparseRows) -> kernel.SparseRows:
    if rows.value is None:
        return rows
    return kernel.SparseRows(rows.indptr, rows.index, rows.value**2, rows.n_columns)


# --- Other units ----------------------------------------------------------------------------------

InUnitsOf = Callable[[Floats, Floats | Singles], tuple[float, Floats]]
"""u, unit → value and gradient with respect to u at theta = unit · u."""


class Rescaled:
    """An objective as a function of u = theta / unit.

    Parameters
    ----------
    objective : Objective
    unit : float64 or float32 [size]
        Above 0.
    workers : Workers
    """

    def __init__(
        self, objective: Objective, unit: Floats | Singles, workers: Workers = SERIAL
    ) -> None:
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
        """Approximate rounding error of the last value."""
        return float(getattr(self.objective, "noise", 0.0))

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at u, here called theta (float64 [size])."""
        in_units: InUnitsOf | None = getattr(self.objective, "in_units", None)
        if in_units is not None:
            return in_units(theta, self.unit)
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


def units_of(curvature: Floats, power: int) -> Floats:
    """Return curvature^(−power/64); the argument is overwritten.

    It uses square roots, which every version of NumPy rounds alike; powers differ in the last bits.
    """
    for part in spans(len(curvature)):
        root, product = curvature[part].copy(), np.ones(len(curvature[part]))
        for bit in (32, 16, 8, 4, 2, 1):
            np.sqrt(root, out=root)
            if power & bit:
                product *= root
        np.reciprocal(product, out=curvature[part])
    return curvature


def curvature_units(curvature: Floats, unit: Singles | None, power: int) -> Floats:
    """Return units for the values of features, times a power of the curvature in these units.

    The first argument is overwritten.
    """
    if unit is None:
        return units_of(curvature, power)
    values = unit.astype(np.float64)
    curvature *= values**2
    return np.asarray(values * units_of(curvature, power))


class Multiplied(_Seen):
    """An optimiser whose objective, and reported values, are multiplied by a factor.

    Parameters
    ----------
    optimiser : Optimiser
    factor : float
    """

    def __init__(self, optimiser: Optimiser, factor: float) -> None:
        super().__init__(optimiser, lambda theta: theta)
        self._factor = factor

    def step(self) -> Step:
        """Make one step."""
        step = self._optimiser.step()
        slope = None if step.gradient_norm is None else self._factor * step.gradient_norm
        return replace(step, value=self._factor * step.value, gradient_norm=slope)


class InUnits(_Seen):
    """An optimiser over u = theta / unit, presented as one of theta.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Initial parameters.
    unit : float64 or float32 [size]
    optimiser : callable
        (objective of u, u) → the optimiser.
    workers : Workers
        Threads for vector operations.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        unit: Floats | Singles,
        optimiser: Callable[[Objective, Floats], Optimiser],
        workers: Workers = SERIAL,
    ) -> None:
        self._objective = Rescaled(objective, unit, workers)
        made = optimiser(self._objective, theta / unit)
        super().__init__(made, _multiplied(unit))

    def step(self) -> Step:
        """Make one step; norms of gradients are with respect to u."""
        step = self._optimiser.step()
        length = self._objective.norm(snapshot(self._optimiser)())
        return replace(step, measures={**step.measures, "norm": length})

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""
        return {"unit": self._objective.unit, **self._optimiser.state()}

    def restore(self, state: State) -> None:
        """Restore a state."""
        unit = self._objective.unit = cast("Floats | Singles", state["unit"])
        self._theta_of = _multiplied(unit)
        self._optimiser.restore({name: a for name, a in state.items() if name != "unit"})


def scaled(
    objective: Objective,
    theta: Floats,
    optimiser: Callable[[Objective, Floats], Optimiser],
    workers: Workers = SERIAL,
) -> Optimiser:
    """Return an optimiser in units that fit the values of features; arguments as for `InUnits`.

    An objective has the units in `value_units`, `None` if all are 1.
    """
    unit = value_units(objective)
    if unit is None:
        return optimiser(objective, theta)
    return InUnits(objective, theta, unit, optimiser, workers)


def value_units(objective: Objective) -> Singles | None:
    """Return the units of an objective, if it has any."""
    units: Singles | None = getattr(objective, "value_units", None)
    return units


def _multiplied(unit: Floats | Singles) -> Callable[[Floats], Floats]:
    return lambda u: unit * u

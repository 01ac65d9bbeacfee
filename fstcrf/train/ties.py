"""Tied columns: attributes that fire on exactly the same tokens share one parameter.

Their gradients are equal for ever, so if they start equal, m of them move as one weight w. As a
column of value √m its parameter is u = √m · w, and then the penalty and all inner products are what
they were: m · w² = u². Valid for optimisers that a rotation of the parameters does not change
(L-BFGS, conjugate gradients), from starts that are equal within each group; not for coordinate-wise
ones, nor for L1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.kernel import SparseRows
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.protocols import Optimiser, Step, snapshot

__all__ = ["Ties", "Untied", "tied"]


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


class Untied:
    """An optimiser on the tied problem, seen from the original parameters.

    Parameters
    ----------
    optimiser : Optimiser
    ties : Ties
    """

    def __init__(self, optimiser: Optimiser, ties: Ties) -> None:
        self._optimiser, self._ties = optimiser, ties

    def theta(self) -> Floats:
        """Return the original parameters."""
        return self._ties.expand(self._optimiser.theta())

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that gives the original parameters of now, later."""
        u = snapshot(self._optimiser)
        return lambda: self._ties.expand(u())

    def step(self) -> Step:
        """Make one step."""
        step = self._optimiser.step()
        active = float(self._ties.count(snapshot(self._optimiser)()))
        return replace(step, measures={**step.measures, "active": active})

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return self._optimiser.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._optimiser.restore(state)


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


def _groups(
    design: SparseRows,
) -> tuple[Longs, Longs, Longs]:
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

"""The *rest*, a number that most pairs of states share, and when listing exceptions pays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs

_NARROW, _NARROW_STATE = "base", 24.0  # the variant of narrow registers; see `best_alone_pays`
_NEAR = 4_096  # scores of pairs that stay in the first-level cache


def rest_cost(states: int, arcs: int, rows: int = 1, *, turned: bool = False) -> float:
    """Return the cost of a step over some arcs and one number for the rest; see `all_pairs_cost`.

    Parameters
    ----------
    states, arcs : int
    rows : int
        Number of vectors of states; eight are processed together.
    turned : bool
        Whether each vector is contiguous, so that vectors must be transposed first.
    """
    return -(-rows // 8) * (0.8 * arcs + (10.0 if turned else 6.0) * states)


def all_pairs_cost(states: int, rows: int = 1) -> float:
    """Return the cost of a step over all pairs of states, in nanoseconds of the fitted machine."""
    if rows == 1:
        return 0.083 * states * states
    far = 0.03 * -(-rows // 4) if states * states > _NEAR else 0.0
    return (0.03 * rows + far) * states * states


def sparse_pays(states: int, arcs: int, rows: int = 1, *, turned: bool = False) -> bool:
    """Return whether steps over some arcs, and a number for the rest, are faster than over all.

    The costs are for one sentence, which takes as long as eight of a batch.
    """
    return rest_cost(states, arcs, rows, turned=turned) < 0.95 * all_pairs_cost(states, rows)


def best_alone_pays(states: int, arcs: int) -> bool:
    """Return whether the best path of one sentence is faster over some arcs than over all pairs.

    A single sentence takes all lanes. A processor without AVX processes them in four parts, but
    maxima over all pairs as fast as others. Both methods find the same path.
    """
    state_cost = _NARROW_STATE * states if kernel.variant() == _NARROW else 0.0
    return max(state_cost + 0.8 * arcs, rest_cost(states, arcs)) < 0.95 * all_pairs_cost(states)


class Rest(NamedTuple):
    """The score of most pairs of states, and the others.

    Parameters
    ----------
    score : float
    others : int64 [E]
        Numbers ``i * S + j`` of the pairs with another score, ascending.
    """

    score: float
    others: Longs


def rest_of(scores: Floats, states: int, rows: int = 1, *, turned: bool = False) -> Rest | None:
    """Return the score of most pairs of states, float64 [S * S], if visiting only the others pays.

    `None` if more pairs have other scores, or −inf, than `sparse_pays` allows.
    """
    if not sparse_pays(states, 0, rows, turned=turned):
        return None
    middle = len(scores) // 2  # a value of more than half of them is the median
    score = float(np.partition(scores, middle)[middle])
    if not np.isfinite(score):
        return None
    others = np.flatnonzero(scores != score)
    pays = sparse_pays(states, len(others), rows, turned=turned)
    return Rest(score, others) if pays else None

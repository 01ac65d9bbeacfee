"""The smallest deterministic acceptor with the same scores.

Two states are one when every continuation is accepted from both or from neither, with scores that
differ by one constant. That constant is known before the states are: it is the difference of the
scores of one and the same continuation, the first of the shortest accepted ones. Pushing these
scores towards the start makes equal states look equal. (Best scores would not do: where a loop is
rewarded there is no best one.) Then partitions are refined (`partition`).
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from fstcrf.grammar.acceptor import Acceptor, Floats, Ints
from fstcrf.grammar.partition import Predecessors, coarsest, numbered

__all__ = ["minimise", "pushed"]

_DIGITS = 10
"""Scores that agree in as many digits behind the point are taken as one: sums are rounded."""


_SMALL = 1000

_minimal: WeakSet[Acceptor] = WeakSet()
"""Large acceptors that are known to be the smallest."""


def minimise(acceptor: Acceptor) -> Acceptor:
    """Return the smallest acceptor with the same scores.

    Parameters
    ----------
    acceptor : Acceptor
        Trim, except for a start from which nothing is accepted.

    Returns
    -------
    Acceptor
        Its states are numbered in the order in which their first members were.
    """
    if acceptor in _minimal:
        return acceptor
    found = _minimised(acceptor)
    if found.n_states > _SMALL:
        _minimal.add(found)
    return found


def _minimised(acceptor: Acceptor) -> Acceptor:
    classes = _classes(acceptor)
    _, first, classes = np.unique(classes, return_index=True, return_inverse=True)
    if len(first) == acceptor.n_states:
        return acceptor
    order = np.argsort(first)
    number = np.argsort(order)[classes].astype(np.int32)
    kept = first[order]
    target = acceptor.target[kept]
    merged = np.where(target >= 0, number[target], -1).astype(np.int32)
    score = None
    if acceptor.weighted:
        offset = _continuations(acceptor)
        offset -= offset[kept][number]
        offset[np.abs(offset) < 10.0**-_DIGITS] = 0.0
        score = np.where(target >= 0, offset[target], 0.0)
        score += 0.0 if acceptor.score is None else acceptor.score[kept]
        score = score if score.any() else None
    return replace(acceptor, target=merged, score=score, final=acceptor.final[kept])


def pushed(acceptor: Acceptor) -> tuple[Floats, Floats]:
    """Return scores of steps and ends in the one form that equal acceptors share.

    Returns
    -------
    (float64 [Q, L1, ...], float64 [Q])
        The score of an accepted labelling is what it was; −inf where there is no step or end.
    """
    rest = _continuations(acceptor)
    rest -= rest[0]
    step = np.zeros(acceptor.target.shape) if acceptor.score is None else acceptor.score
    source = rest.reshape(-1, *[1] * (acceptor.target.ndim - 1))
    step = np.where(acceptor.target >= 0, step + rest[acceptor.target] - source, -np.inf)
    return step, acceptor.final - rest


def _classes(acceptor: Acceptor) -> NDArray[np.int64]:
    """Return the class of each state: int64 [Q]."""
    target = acceptor.target.reshape(acceptor.n_states, -1)
    if acceptor.weighted:
        step, final = (np.round(x, _DIGITS) + 0.0 for x in pushed(acceptor))  # no −0
        weights = np.column_stack([step.reshape(acceptor.n_states, -1), final])
        classes = numbered(weights)
    else:
        classes = numbered(np.column_stack([target >= 0, acceptor.final + 0.0]))
    if target.size > _SMALL:
        # Labels that lead to the same states everywhere need be looked at once.
        target = np.unique(target, axis=1)
    return coarsest(target, classes)


def _continuations(acceptor: Acceptor) -> Floats:
    """Return the score of the first of the shortest accepted continuations: float64 [Q].

    First by label, from where it begins; 0 for a state without any.
    """
    target: Ints = acceptor.target.reshape(acceptor.n_states, -1)
    score = None if acceptor.score is None else acceptor.score.reshape(target.shape)
    done = acceptor.final > -np.inf
    rest = np.where(done, acceptor.final, 0.0)
    before = Predecessors(target)
    reached = np.flatnonzero(done)
    while len(reached):
        reached = before.of(reached)
        reached = reached[~done[reached]]
        ahead = target[reached]
        label = ((ahead >= 0) & done[ahead]).argmax(axis=1)
        rest[reached] = rest[target[reached, label]]
        if score is not None:
            rest[reached] += score[reached, label]
        done[reached] = True
    return rest

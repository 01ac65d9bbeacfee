"""Acceptors that say no more than which label may follow which: they fold into transitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fstcrf.grammar.acceptor import Acceptor, Floats
from fstcrf.grammar.algebra import trim
from fstcrf.grammar.minimise import minimise

__all__ = ["TwoLocal", "two_local"]


@dataclass(frozen=True, eq=False)
class TwoLocal:
    """Scores of neighbours. All are natural logs; −inf forbids.

    Parameters
    ----------
    initial : float64 [L]
        Score of beginning with a label.
    transition : float64 [L, L]
        Score of a label (row) and the next (column).
    final : float64 [L]
        Score of ending with a label.
    """

    initial: Floats
    transition: Floats
    final: Floats


def two_local(acceptor: Acceptor) -> TwoLocal | None:
    """Return the scores of neighbours that say the same as an acceptor.

    That is so where each label leads to one state of the smallest acceptor, from wherever it is
    read. The empty sentence, which has no neighbours, is not looked at.

    Returns
    -------
    TwoLocal or None
        None when there are no such scores, and for acceptors of several tapes.
    """
    if len(acceptor.tapes) != 1:
        return None
    small = minimise(trim(acceptor))
    n_labels = small.target.shape[1]
    after = small.target.max(axis=0)
    if not ((small.target < 0) | (small.target == after)).all():
        return None
    step = np.zeros(small.target.shape) if small.score is None else small.score
    step = np.where(small.target >= 0, step, -np.inf)
    used = after >= 0
    transition = np.full((n_labels, n_labels), -np.inf)
    transition[used] = step[after[used]]
    final = np.full(n_labels, -np.inf)
    final[used] = small.final[after[used]]
    return TwoLocal(step[0].copy(), transition, final)

"""L-BFGS. Source: Nocedal and Wright (2006), algorithm 7.5."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.train.descent import Descent
from fstcrf.train.line_search import Found, LineSearch
from fstcrf.train.pairs import Pairs
from fstcrf.train.parallel import SERIAL, Workers
from fstcrf.train.protocols import Objective

__all__ = ["LBFGS"]

Floats = NDArray[np.float64]


class LBFGS(Descent):
    """Limited-memory BFGS.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Where to start.
    memory : int
        Pairs of (step, gradient change) that are kept.
    epsilon : float
        Stop when |gradient| < epsilon * max(1, |theta|).
    delta, period : float, int
        Stop when the last `period` iterations lowered the value by less than delta * value.
    line_search : {"wolfe", "backtracking", "strong-backtracking"}
    max_line_search : int
        Most evaluations of one line search.
    workers : Workers
        For the work on vectors.

    Raises
    ------
    OptionError
        A number outside what it may be, or an unknown line search.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        *,
        memory: int = 10,
        epsilon: float = 1e-5,
        delta: float = 1e-5,
        period: int = 10,
        line_search: LineSearch = "wolfe",
        max_line_search: int = 20,
        workers: Workers = SERIAL,
    ) -> None:
        if memory < 1:
            raise OptionError(f"memory is {memory}, expected at least 1")
        super().__init__(
            objective,
            theta,
            epsilon=epsilon,
            delta=delta,
            period=period,
            line_search=line_search,
            max_line_search=max_line_search,
        )
        self._pairs = Pairs(memory, len(theta), workers)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {**super().state(), **self._pairs.state()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        super().restore(state)
        self._pairs.restore(state)

    def _direction(self, slope: Floats) -> Floats:
        return self._pairs.direction(slope)

    def _learn(self, found: Found, theta: Floats, gradient: Floats) -> None:
        self._pairs.add(found.theta, theta, found.gradient, gradient)

    def _forget(self) -> bool:
        used = self._pairs.used > 0
        self._pairs.clear()
        return used

"""OWL-QN: L-BFGS for objectives with an L1 penalty.

    F(theta) = f(theta) + l1 * sum_i |theta_i|

A step stays within one orthant: the direction comes from the pseudo-gradient, and what crosses zero
is set to zero. Source: Andrew and Gao (2007).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError, OptionError
from fstcrf.kernel import dot
from fstcrf.train.lbfgs import LBFGS
from fstcrf.train.line_search import ARMIJO, Found
from fstcrf.train.protocols import Objective

__all__ = ["OWLQN"]

Floats = NDArray[np.float64]


class OWLQN(LBFGS):
    """Orthant-wise limited-memory quasi-Newton.

    Parameters
    ----------
    objective : Objective
        The smooth part, an L2 penalty included.
    theta : float64 [size]
        Where to start.
    l1 : float
        Coefficient of sum |theta_i|, CRFsuite's ``c1``.
    memory : int
        Pairs of (step, gradient change) that are kept.
    epsilon : float
        Stop when |pseudo-gradient| < epsilon * max(1, |theta|).
    delta, period : float, int
        Stop when the last `period` iterations lowered the value by less than delta * value.
    max_line_search : int
        Most evaluations of one line search, which halves the step.

    Raises
    ------
    OptionError
        A negative or infinite l1.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        *,
        l1: float,
        memory: int = 10,
        epsilon: float = 1e-5,
        delta: float = 1e-5,
        period: int = 10,
        max_line_search: int = 20,
    ) -> None:
        if not 0.0 <= l1 < np.inf:
            raise OptionError(f"l1 is {l1}, expected a finite number of at least 0")
        super().__init__(
            objective,
            theta,
            memory=memory,
            epsilon=epsilon,
            delta=delta,
            period=period,
            max_line_search=max_line_search,
        )
        self.l1 = l1

    def _evaluate(self, theta: Floats) -> tuple[float, Floats]:
        value, gradient = self.objective(theta)
        return value + self.l1 * float(np.abs(theta).sum()), gradient

    def _slope(self, gradient: Floats) -> Floats:
        """Return the subgradient of least norm: zero where |gradient| <= l1 at a zero weight."""
        inside = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(self._theta == 0.0, inside, gradient + self.l1 * np.sign(self._theta))

    def _direction(self, slope: Floats) -> Floats:
        """Return the quasi-Newton direction, without what does not descend by itself."""
        direction = self._pairs.direction(slope, newest=False)
        direction[direction * slope >= 0.0] = 0.0
        return direction

    def _search(self, slope: Floats, direction: Floats) -> Found | None:
        orthant = np.where(self._theta == 0.0, -np.sign(slope), np.sign(self._theta))
        start, length = self._values[-1], 1.0
        for _ in range(self.max_line_search):
            theta = self._theta + length * direction
            theta[theta * orthant <= 0.0] = 0.0
            promised = dot(slope, theta - self._theta)
            if not promised < 0.0:
                return None
            self._trials += 1
            try:
                value, gradient = self._evaluate(theta)
            except NumericError:
                value, gradient = np.inf, slope
            if value <= start + ARMIJO * promised:
                return Found(theta, value, gradient, length)
            length *= 0.5
        return None

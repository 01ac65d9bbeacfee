"""OWL-QN: L-BFGS for objectives with an L1 penalty.

    F(theta) = f(theta) + l1 * sum_i |theta_i|

A step stays within one orthant: the direction comes from the pseudo-gradient, and what crosses zero
is set to zero. Source: Andrew and Gao (2007).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError, OptionError
from fstcrf.kernel import dot, norm
from fstcrf.train.pairs import Pairs
from fstcrf.train.protocols import Objective, Step

__all__ = ["OWLQN"]

Floats = NDArray[np.float64]

_ARMIJO = 1e-4
_HALVINGS = 30


class OWLQN:
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
    ) -> None:
        if not 0.0 <= l1 < np.inf:
            raise OptionError(f"l1 is {l1}, expected a finite number of at least 0")
        self.objective, self.l1 = objective, l1
        self.epsilon, self.delta, self.period = epsilon, delta, period
        self._theta = np.array(theta, dtype=np.float64)
        self._gradient: Floats | None = None
        self._pairs = Pairs(memory, len(theta))
        self._values: list[float] = []

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._theta

    def step(self) -> Step:
        """Make one iteration: a direction within an orthant, a backtracking line search."""
        if self._gradient is None:
            value, self._gradient = self._evaluate(self._theta)
            self._values = [value]
        slope = self._pseudo_gradient(self._gradient)
        found = self._search(slope, self._direction(slope))
        if found is None and self._pairs.used:
            self._pairs.clear()
            found = self._search(slope, self._direction(slope))
        if found is None:
            return self._report("no descent: the line search found no lower value")
        theta, value, gradient = found
        self._pairs.add(theta, self._theta, gradient, self._gradient)
        self._theta, self._gradient = theta, gradient
        self._values = [*self._values[-self.period :], value]
        return self._report(self._converged())

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {
            "theta": self._theta,
            "gradient": np.empty(0) if self._gradient is None else self._gradient,
            "values": np.asarray(self._values),
            "evaluations": np.asarray([self.objective.evaluations]),
            **self._pairs.state(),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._theta = state["theta"]
        self._gradient = state["gradient"] if len(state["gradient"]) else None
        self._values = state["values"].tolist()
        self.objective.evaluations = int(state["evaluations"][0])
        self._pairs.restore(state)

    def _evaluate(self, theta: Floats) -> tuple[float, Floats]:
        value, gradient = self.objective(theta)
        return value + self.l1 * float(np.abs(theta).sum()), gradient

    def _pseudo_gradient(self, gradient: Floats) -> Floats:
        """Return the subgradient of least norm: zero where |gradient| <= l1 at a zero weight."""
        inside = np.sign(gradient) * np.maximum(np.abs(gradient) - self.l1, 0.0)
        return np.where(self._theta == 0.0, inside, gradient + self.l1 * np.sign(self._theta))

    def _direction(self, slope: Floats) -> Floats:
        """Return the quasi-Newton direction, without what does not descend by itself."""
        direction = self._pairs.direction(slope, newest=False)
        direction[direction * slope >= 0.0] = 0.0
        return direction

    def _search(self, slope: Floats, direction: Floats) -> tuple[Floats, float, Floats] | None:
        orthant = np.where(self._theta == 0.0, -np.sign(slope), np.sign(self._theta))
        start, length = self._values[-1], 1.0
        for _ in range(_HALVINGS):
            theta = self._theta + length * direction
            theta[theta * orthant <= 0.0] = 0.0
            promised = dot(slope, theta - self._theta)
            if not promised < 0.0:
                return None
            try:
                value, gradient = self._evaluate(theta)
            except NumericError:
                value, gradient = np.inf, slope
            if value <= start + _ARMIJO * promised:
                return theta, value, gradient
            length *= 0.5
        return None

    def _report(self, done: str | None) -> Step:
        slope = 0.0
        if self._gradient is not None:
            slope = norm(self._pseudo_gradient(self._gradient))
        return Step(self._values[-1], slope, self.objective.evaluations, done)

    def _converged(self) -> str | None:
        if self._gradient is None:
            return None
        slope = norm(self._pseudo_gradient(self._gradient))
        if slope < self.epsilon * max(1.0, norm(self._theta)):
            return f"gradient norm below {self.epsilon:g} of the weights' norm"
        if len(self._values) > self.period:
            old, new = self._values[-self.period - 1], self._values[-1]
            if old - new < self.delta * abs(new):
                return f"less than {self.delta:g} gained in {self.period} iterations"
        return None

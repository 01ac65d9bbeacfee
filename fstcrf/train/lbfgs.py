"""L-BFGS with a strong Wolfe line search.

Source: Nocedal and Wright (2006), algorithms 7.5, 3.5 and 3.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError
from fstcrf.kernel import dot, norm
from fstcrf.train.pairs import Pairs
from fstcrf.train.protocols import Objective, Step

__all__ = ["LBFGS"]

Floats = NDArray[np.float64]

_ARMIJO, _CURVATURE = 1e-4, 0.9


class LBFGS:
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
    ) -> None:
        self.objective = objective
        self.epsilon, self.delta, self.period = epsilon, delta, period
        self._theta = np.array(theta, dtype=np.float64)
        self._gradient: Floats | None = None
        self._pairs = Pairs(memory, len(theta))
        self._values: list[float] = []

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._theta

    def step(self) -> Step:
        """Make one iteration: a direction, a line search."""
        if self._gradient is None:
            value, self._gradient = self._evaluate(self._theta)
            self._values = [value]
            if done := self._converged():
                return self._report(done)
        slope = self._slope(self._gradient)
        found = self._search(slope, self._direction(slope))
        if found is None and self._pairs.used:
            self._pairs.clear()  # the curvature model misled: fall back to steepest descent
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

    # What an L1 penalty changes (owlqn.py): the value, the slope, the direction, the search.

    def _evaluate(self, theta: Floats) -> tuple[float, Floats]:
        return self.objective(theta)

    def _slope(self, gradient: Floats) -> Floats:
        """Return what must vanish at the minimum."""
        return gradient

    def _direction(self, slope: Floats) -> Floats:
        return self._pairs.direction(slope)

    def _report(self, done: str | None) -> Step:
        slope = 0.0 if self._gradient is None else norm(self._slope(self._gradient))
        return Step(self._values[-1], slope, self.objective.evaluations, done)

    def _converged(self) -> str | None:
        if self._gradient is None:
            return None
        scale = max(1.0, norm(self._theta))
        if norm(self._slope(self._gradient)) < self.epsilon * scale:
            return f"gradient norm below {self.epsilon:g} of the weights' norm"
        if len(self._values) > self.period:
            old, new = self._values[-self.period - 1], self._values[-1]
            if old - new < self.delta * abs(new):
                return f"less than {self.delta:g} gained in {self.period} iterations"
        return None

    def _search(self, slope: Floats, direction: Floats) -> tuple[Floats, float, Floats] | None:
        """Find a step that satisfies the strong Wolfe conditions, or the best that descends."""
        start, descent = self._values[-1], dot(slope, direction)
        if not descent < 0.0:
            return None
        low, low_value, low_slope = 0.0, start, descent
        high: float | None = None
        high_value, length = np.inf, 1.0
        best: tuple[Floats, float, Floats] | None = None
        for _ in range(20):
            theta = self._theta + length * direction
            try:
                value, gradient = self.objective(theta)
            except NumericError:
                value, gradient = np.inf, slope
            now = dot(gradient, direction)
            armijo = value <= start + _ARMIJO * length * descent
            if armijo and (best is None or value < best[1]):
                best = theta, value, gradient
            if not armijo or value >= low_value:
                high, high_value = length, value
            elif abs(now) <= -_CURVATURE * descent:
                return theta, value, gradient
            else:
                if now >= 0.0:
                    high, high_value = low, low_value
                low, low_value, low_slope = length, value, now
            length = _next_length(low, low_value, low_slope, high, high_value)
        return best


def _next_length(
    low: float, low_value: float, low_slope: float, high: float | None, high_value: float
) -> float:
    """Expand while no upper end is known, else the safeguarded minimum of a parabola."""
    if high is None:
        return 2.0 * low if low > 0.0 else 1.0
    width = high - low
    if np.isfinite(high_value):
        bend = high_value - low_value - low_slope * width
        if bend > 0.0:
            guess = -0.5 * low_slope * width * width / bend
            inside = np.sign(width) * min(max(abs(guess), 0.1 * abs(width)), 0.9 * abs(width))
            return low + float(inside)
    return low + 0.5 * width

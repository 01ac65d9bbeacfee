"""L-BFGS with a strong Wolfe line search.

The direction of the two-loop recursion is a combination of the stored pairs and the gradient, and
its coefficients follow from inner products alone: one pass over the pairs for those, one to form
the direction. Source: Nocedal and Wright (2006), algorithms 7.4, 7.5, 3.5 and 3.6; Chen, Wang and
Zhou (2014) for the inner products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError
from fstcrf.kernel import VectorStore
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
        self._pairs = _Pairs(memory, len(theta))
        self._values: list[float] = []

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._theta

    def step(self) -> Step:
        """Make one iteration: a direction, a line search."""
        if self._gradient is None:
            value, self._gradient = self.objective(self._theta)
            self._values = [value]
            if done := self._converged():
                return self._report(done)
        found = self._search(self._pairs.direction(self._gradient))
        if found is None and self._pairs.used:
            self._pairs.clear()  # the curvature model misled: fall back to steepest descent
            found = self._search(self._pairs.direction(self._gradient))
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

    def _report(self, done: str | None) -> Step:
        norm = 0.0 if self._gradient is None else float(np.linalg.norm(self._gradient))
        return Step(self._values[-1], norm, self.objective.evaluations, done)

    def _converged(self) -> str | None:
        if self._gradient is None:
            return None
        scale = max(1.0, float(np.linalg.norm(self._theta)))
        if float(np.linalg.norm(self._gradient)) < self.epsilon * scale:
            return f"gradient norm below {self.epsilon:g} of the weights' norm"
        if len(self._values) > self.period:
            old, new = self._values[-self.period - 1], self._values[-1]
            if old - new < self.delta * abs(new):
                return f"less than {self.delta:g} gained in {self.period} iterations"
        return None

    def _search(self, direction: Floats) -> tuple[Floats, float, Floats] | None:
        """Find a step that satisfies the strong Wolfe conditions, or the best that descends."""
        if self._gradient is None:
            return None
        start, slope = self._values[-1], float(self._gradient @ direction)
        if not slope < 0.0:
            return None
        low, low_value, low_slope = 0.0, start, slope
        high: float | None = None
        high_value, length = np.inf, 1.0
        best: tuple[Floats, float, Floats] | None = None
        for _ in range(20):
            theta = self._theta + length * direction
            try:
                value, gradient = self.objective(theta)
            except NumericError:
                value, gradient = np.inf, self._gradient
            now = float(gradient @ direction)
            armijo = value <= start + _ARMIJO * length * slope
            if armijo and (best is None or value < best[1]):
                best = theta, value, gradient
            if not armijo or value >= low_value:
                high, high_value = length, value
            elif abs(now) <= -_CURVATURE * slope:
                return theta, value, gradient
            else:
                if now >= 0.0:
                    high, high_value = low, low_value
                low, low_value, low_slope = length, value, now
            length = _next_length(low, low_value, low_slope, high, high_value)
        return best


class _Pairs:
    """The last m pairs (s, y) and their inner products.

    Rows 0 .. m - 1 of the store are steps s, the others changes y of the gradient; a new pair takes
    the place of the oldest.
    """

    def __init__(self, memory: int, size: int) -> None:
        self._m, self._store = memory, VectorStore(2 * memory, size)
        self._vectors = np.zeros((3, size))  # the newest gradient, s and y
        self._sy, self._yy = np.zeros((memory, memory)), np.zeros((memory, memory))
        self._dots = np.zeros(2 * memory)  # of the store with the gradient
        self._order: list[int] = []  # places, oldest first

    @property
    def used(self) -> int:
        return len(self._order)

    def clear(self) -> None:
        self._order = []

    def add(self, theta: Floats, old_theta: Floats, gradient: Floats, old_gradient: Floats) -> None:
        g, s, y = self._vectors
        g[:] = gradient
        np.subtract(theta, old_theta, out=s)
        np.subtract(gradient, old_gradient, out=y)
        keep = float(s @ y) > 1e-10 * float(y @ y)
        place = len(self._order) if len(self._order) < self._m else self._order[0]
        if keep:
            self._order = [*(p for p in self._order if p != place), place]
            self._store.rows[place] = s
            self._store.rows[self._m + place] = y
        dots = self._store.dots(self._vectors)
        self._dots = np.ascontiguousarray(dots[:, 0])
        if keep:
            m = self._m
            self._sy[place, :], self._sy[:, place] = dots[m:, 1], dots[:m, 2]
            self._yy[place, :] = self._yy[:, place] = dots[m:, 2]

    def direction(self, gradient: Floats) -> Floats:
        """Two-loop recursion in coordinates: −H · gradient = c₀ g + Σ a_i s_i + b_i y_i."""
        if not self._order:
            return -gradient / max(1.0, float(np.linalg.norm(gradient)))
        m, sy, yy = self._m, self._sy, self._yy
        on_s, on_y = np.zeros(m), np.zeros(m)
        for i in reversed(self._order):
            on_y[i] = (self._dots[i] - sy[i] @ on_y) / sy[i, i]
        newest = self._order[-1]
        scale = sy[newest, newest] / yy[newest, newest]
        on_y *= scale
        for i in self._order:
            along = -scale * self._dots[m + i] + yy[i] @ on_y + sy[:, i] @ on_s
            on_s[i] = -on_y[i] / scale - along / sy[i, i]
        out = -scale * gradient
        self._store.add_combination(np.concatenate([on_s, on_y]), out)
        return out

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "pairs": self._store.rows.copy(),
            "sy": self._sy,
            "yy": self._yy,
            "dots": self._dots,
            "order": np.asarray(self._order, dtype=np.int64),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self._store.rows[:] = state["pairs"]
        self._sy, self._yy, self._dots = state["sy"], state["yy"], state["dots"]
        self._order = state["order"].tolist()


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

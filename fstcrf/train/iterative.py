"""Batch optimisers: where they stand, how that is saved, and when they have converged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel import norm
from fstcrf.train.protocols import Objective, Step, check_stopping

__all__ = ["Iterative"]

Floats = NDArray[np.float64]


class Iterative(ABC):
    """What optimisers have in common that look at all of the data in each iteration.

    A method says how a step is made (`step`), which sets `_theta` to another array, and `_gradient`
    and `_values` by `_moved_to`.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Where to start.
    epsilon : float
        Stop when |gradient| < epsilon * max(1, |theta|).
    delta, period : float, int
        Stop when the last `period` iterations lowered the value by less than delta * value.

    Raises
    ------
    OptionError
        A number outside what it may be.
    """

    def __init__(
        self, objective: Objective, theta: Floats, *, epsilon: float, delta: float, period: int
    ) -> None:
        check_stopping(epsilon=epsilon, delta=delta, period=period)
        self.objective = objective
        self.epsilon, self.delta, self.period = epsilon, delta, period
        self._theta = np.array(theta, dtype=np.float64)
        self._gradient: Floats | None = None
        self._values: list[float] = []

    @abstractmethod
    def step(self) -> Step:
        """Make one iteration."""

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._theta

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that gives the parameters of now, later."""
        theta = self._theta  # a step makes another array
        return lambda: theta

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {
            "theta": self._theta,
            "gradient": np.empty(0) if self._gradient is None else self._gradient,
            "values": np.asarray(self._values),
            "evaluations": np.asarray([self.objective.evaluations]),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._theta = state["theta"]
        self._gradient = state["gradient"] if len(state["gradient"]) else None
        self._values = state["values"].tolist()
        self.objective.evaluations = int(state["evaluations"][0])

    def _moved_to(self, theta: Floats, value: float, gradient: Floats) -> None:
        """Take notice of a step."""
        self._theta, self._gradient = theta, gradient
        self._values = [*self._values[-self.period :], value]

    def _slope(self, gradient: Floats) -> Floats:
        """Return what must vanish at the minimum."""
        return gradient

    def _passes(self) -> int:
        """Return how often the data was gone through."""
        return self.objective.evaluations

    def _converged(self) -> str | None:
        """Return why no further step is worth while; None to go on."""
        if self._gradient is None:
            return None
        if norm(self._slope(self._gradient)) < self.epsilon * max(1.0, norm(self._theta)):
            return f"gradient norm below {self.epsilon:g} of the weights' norm"
        if len(self._values) > self.period:
            old, new = self._values[-self.period - 1], self._values[-1]
            if old - new < self.delta * abs(new):
                return f"less than {self.delta:g} gained in {self.period} iterations"
        return None

    def _report(self, done: str | None, **measures: float) -> Step:
        slope = 0.0 if self._gradient is None else norm(self._slope(self._gradient))
        measures = {"norm": norm(self._theta), **measures}
        return Step(self._values[-1], slope, self._passes(), done, measures)

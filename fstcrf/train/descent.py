"""Descent by line searches: what L-BFGS, OWL-QN and conjugate gradients have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import dot, norm
from fstcrf.train.line_search import CURVATURE, LINE_SEARCHES, Found, Line, LineSearch
from fstcrf.train.protocols import Objective, Step, check_stopping

__all__ = ["Descent"]

Floats = NDArray[np.float64]


class Descent:
    """A direction, a search along it, and again.

    A method says which direction (`_direction`), what it learns from a step (`_learn`) and how it
    forgets that (`_forget`).

    Parameters
    ----------
    objective : Objective
        Where it has a `noise`, values that differ by less count as equal.
    theta : float64 [size]
        Where to start.
    epsilon : float
        Stop when |gradient| < epsilon * max(1, |theta|).
    delta, period : float, int
        Stop when the last `period` iterations lowered the value by less than delta * value.
    line_search : {"wolfe", "backtracking", "strong-backtracking"}
    max_line_search : int
        Most evaluations of one line search.
    curvature : float
        The slope along the direction must shrink to so much of the first one.

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
        epsilon: float,
        delta: float,
        period: int,
        line_search: LineSearch = "wolfe",
        max_line_search: int = 20,
        curvature: float = CURVATURE,
    ) -> None:
        check_stopping(epsilon=epsilon, delta=delta, period=period)
        if line_search not in LINE_SEARCHES:
            known = ", ".join(map(repr, LINE_SEARCHES))
            raise OptionError(f"line search {line_search!r} is unknown; there are {known}")
        if max_line_search < 1:
            raise OptionError(f"max_line_search is {max_line_search}, expected at least 1")
        self.objective = objective
        self.line_search, self.max_line_search = line_search, max_line_search
        self.epsilon, self.delta, self.period, self.curvature = epsilon, delta, period, curvature
        self._theta = np.array(theta, dtype=np.float64)
        self._gradient: Floats | None = None
        self._values: list[float] = []
        self._trials = 0  # of the line search of this iteration

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
        slope, self._trials = self._slope(self._gradient), 0
        found = self._search(slope, self._direction(slope))
        if found is None and self._forget():
            # What was learnt misled: fall back to steepest descent.
            found = self._search(slope, self._direction(slope))
        if found is None:
            return self._report("no descent: the line search found no lower value")
        self._learn(found, self._theta, self._gradient)
        self._theta, self._gradient = found.theta, found.gradient
        self._values = [*self._values[-self.period :], found.value]
        return self._report(self._converged(), found.length)

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

    # What a method is.

    def _direction(self, slope: Floats) -> Floats:
        """Return where to search: 1 is the first length that is tried."""
        raise NotImplementedError

    def _learn(self, found: Found, theta: Floats, gradient: Floats) -> None:
        """Take notice of a step from theta, and the gradient there."""

    def _forget(self) -> bool:
        """Forget all that was learnt; return whether there was anything."""
        raise NotImplementedError

    # What an L1 penalty changes (owlqn.py): the value, the slope, the search.

    def _evaluate(self, theta: Floats) -> tuple[float, Floats]:
        return self.objective(theta)

    def _slope(self, gradient: Floats) -> Floats:
        """Return what must vanish at the minimum."""
        return gradient

    def _search(self, slope: Floats, direction: Floats) -> Found | None:
        """Look for a lower value along a direction."""
        descent = dot(slope, direction)
        if not descent < 0.0:
            return None
        line = Line(
            self.objective,
            self._theta,
            direction,
            self._values[-1],
            descent,
            curvature=self.curvature,
            noise=getattr(self.objective, "noise", 0.0),
        )
        found = LINE_SEARCHES[self.line_search](line, self.max_line_search)
        self._trials += line.trials
        return found

    def _passes(self) -> int:
        """Return how often the data was gone through."""
        return self.objective.evaluations

    def _report(self, done: str | None, length: float = 0.0) -> Step:
        slope = 0.0 if self._gradient is None else norm(self._slope(self._gradient))
        measures = {
            "norm": norm(self._theta),
            "active": float(np.count_nonzero(self._theta)),
            "trials": float(self._trials),
            "length": length,
        }
        return Step(self._values[-1], slope, self._passes(), done, measures)

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

"""Shared parts of batch optimisers: position, convergence, line searches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.kernel import dot, norm
from fstcrf.training.optimiser import Objective, State, Step, floats, vector
from fstcrf.training.settings import Converging, Needs, gained_little


class Iterative(ABC):
    """Base of optimisers that use all data in each iteration.

    A subclass defines `step`, which sets `_theta` to a new array, and `_gradient` and `_values` by
    `_moved_to`.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Initial parameters.
    settings : Converging
        Criteria for stopping.
    """

    def __init__(self, objective: Objective, theta: Floats, settings: Converging) -> None:
        self.objective = objective
        self._stop = settings
        # Unwritten pages of zeros take no memory.
        self._theta = np.array(theta, dtype=np.float64) if theta.any() else np.zeros(len(theta))
        self._gradient: Floats | None = None
        self._values: list[float] = []

    @abstractmethod
    def step(self) -> Step:
        """Make one iteration."""

    def theta(self) -> Floats:
        """Return the current parameters."""
        return self._theta

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that returns the current parameters later."""
        theta = self._theta  # safe: a step makes a new array
        return lambda: theta

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""
        return {
            "theta": self._theta,
            "gradient": np.empty(0) if self._gradient is None else self._gradient,
            "values": np.asarray(self._values),
            "evaluations": np.asarray([self.objective.evaluations]),
        }

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._theta = floats(state["theta"])
        self._gradient = vector(state, "gradient", len(self._theta))
        self._values = floats(state["values"]).tolist()
        self.objective.evaluations = int(state["evaluations"][0])

    def _moved_to(self, theta: Floats, value: float, gradient: Floats) -> None:
        self._theta, self._gradient = theta, gradient
        self._values = [*self._values[-self._stop.period :], value]

    def _slope(self, gradient: Floats) -> Floats:
        """Return the vector that vanishes at the minimum."""
        return gradient

    def _passes(self) -> int:
        """Return the number of passes over the data."""
        return self.objective.evaluations

    def _converged(self) -> str | None:
        """Return the reason to stop, or `None`."""
        if self._gradient is None:
            return None
        stop = self._stop
        if norm(self._slope(self._gradient)) < stop.epsilon * max(1.0, norm(self._theta)):
            return f"gradient norm below {stop.epsilon:g} of the weights' norm"
        if gained_little(self._values, stop) and self._knows_the_way():
            return f"less than {stop.delta:g} gained in {stop.period} iterations"
        return None

    def _knows_the_way(self) -> bool:
        """Return whether small gains imply a minimum, rather than a bad direction."""
        return True

    def _report(self, done: str | None, **measures: float) -> Step:
        slope = 0.0 if self._gradient is None else norm(self._slope(self._gradient))
        measures = {"norm": norm(self._theta), **measures}
        return Step(self._values[-1], slope, self._passes(), done, measures)


# --- How far to go along a direction of descent ---------------------------------------------------
LineSearch = Literal["wolfe", "backtracking", "strong-backtracking"]

ARMIJO, CURVATURE = 1e-4, 0.9
_SHRINK, _GROW = 0.5, 2.1


@dataclass(frozen=True, slots=True)
class Trial:
    """A point along a direction.

    Parameters
    ----------
    length : float
        Position, in units of the direction.
    value : float
    gradient : float64 [size]
    """

    length: float
    value: float
    gradient: Floats


@dataclass(frozen=True, slots=True)
class LinePoint:
    """The result of a line search.

    Parameters
    ----------
    theta : float64 [size]
    value : float
    gradient : float64 [size]
    length : float
        Position, in units of the direction.
    """

    theta: Floats
    value: float
    gradient: Floats
    length: float


class Line:
    """The objective along a direction.

    It keeps the gradients of the last and of the best point only, because vectors are long.

    Parameters
    ----------
    evaluate : callable
        theta → value and gradient.
    theta, direction : float64 [size]
    start, descent : float
        Value and slope at theta.
    curvature : float
        Required factor by which the slope shrinks.
    noise : float
        Values with smaller differences count as equal.
    """

    def __init__(
        self,
        evaluate: Callable[[Floats], tuple[float, Floats]],
        theta: Floats,
        direction: Floats,
        start: float,
        descent: float,
        *,
        curvature: float = CURVATURE,
        noise: float = 0.0,
    ) -> None:
        self._evaluate, self._theta, self._direction = evaluate, theta, direction
        self.start, self.descent, self.noise = start, descent, noise
        self.steepest = -curvature * descent  # required slope at the end
        self.trials = 0
        self.last: Trial | None = None
        self.best: Trial | None = None

    def theta(self, length: float) -> Floats:
        """Return a point of the line, float64 [size]."""
        theta = length * self._direction
        theta += self._theta
        return theta

    def at(self, length: float) -> tuple[float, float, bool]:
        """Evaluate a point: return its value, its slope, and whether it is low enough (Armijo)."""
        self.trials += 1
        self.last = None
        try:
            value, gradient = self._evaluate(self.theta(length))
        except NumericError:
            value, gradient = np.inf, self._direction
        self.last = Trial(length, value, gradient)
        slope = dot(gradient, self._direction)
        low = value <= self.start + ARMIJO * length * self.descent
        if not low and value <= self.start + self.noise:
            low = slope <= (2.0 * ARMIJO - 1.0) * self.descent
        if low and (self.best is None or value < self.best.value):
            self.best = self.last
        return value, slope, low


Search = Callable[[Line, int], Trial | None]
"""Line and maximum number of evaluations → a point with the conditions, or the best found."""


def wolfe(line: Line, limit: int) -> Trial | None:
    """Return a step that satisfies the strong Wolfe conditions, or the best that descends."""
    low, low_value, low_slope = 0.0, line.start, line.descent
    high: float | None = None
    high_value, length = np.inf, 1.0
    for _ in range(limit):
        value, now, armijo = line.at(length)
        if not armijo or value >= low_value + line.noise:
            high, high_value = length, value
        elif abs(now) <= line.steepest:
            return line.last
        else:
            # The minimum is between the new point and the old one, or the old end remains.
            if now >= 0.0 if high is None else now * (high - low) >= 0.0:
                high, high_value = low, low_value
            low, low_value, low_slope = length, value, now
        length = _next_length(low, low_value, low_slope, high, high_value)
    return line.best


def _next_length(
    low: float, low_value: float, low_slope: float, high: float | None, high_value: float
) -> float:
    """Expand while no upper end is known, otherwise take the safeguarded minimum of a parabola."""
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


def backtracking(line: Line, limit: int, *, strong: bool = False) -> Trial | None:
    """Shrink a step that is not low enough, and extend one that is still steep."""
    length = 1.0
    for _ in range(limit):
        _, now, armijo = line.at(length)
        if not armijo or (strong and now > line.steepest):
            length *= _SHRINK
        elif now < -line.steepest:
            length *= _GROW
        else:
            return line.last
    return line.best


LINE_SEARCHES: dict[LineSearch, Search] = {
    "wolfe": wolfe,
    "backtracking": backtracking,
    "strong-backtracking": partial(backtracking, strong=True),
}


# --- Descent by line searches ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LineSearching(Converging):
    """Settings of methods with a line search."""

    max_line_search: Annotated[
        int, Meta(ge=1, description="most evaluations of one line search")
    ] = 20


@dataclass(frozen=True, kw_only=True)
class QuasiNewton(LineSearching):
    """Settings of L-BFGS, for any objective."""

    memory: Annotated[int, Meta(ge=1, description="steps that are remembered")] = 10
    line_search: Annotated[
        LineSearch,
        Meta(description="how the length of a step is found"),
        Needs(
            lambda values: not values.get("l1"),
            "needs a run without l1: OWL-QN has a line search of its own",
        ),
    ] = "wolfe"


class LineDescent(Iterative):
    """Base of methods that alternate a direction and a line search.

    A subclass defines the direction (`_direction`), the update after a step (`_learn`) and the
    reset of its memory (`_forget`).

    Parameters
    ----------
    objective : Objective
        If it has a `noise`, values with smaller differences count as equal.
    theta : float64 [size]
        Initial parameters.
    settings : LineSearching
    search : callable
        Method for the length of a step.
    """

    curvature: ClassVar[float] = CURVATURE
    """Required factor by which the slope along the direction shrinks."""

    def __init__(
        self, objective: Objective, theta: Floats, settings: LineSearching, search: Search = wolfe
    ) -> None:
        super().__init__(objective, theta, settings)
        self._line_search, self._most_trials = search, settings.max_line_search
        self._trials = 0  # of the line search of this iteration

    def step(self) -> Step:
        """Make one iteration: a direction, a line search."""
        if self._gradient is None:
            value, self._gradient = self._evaluate(self._theta)
            self._values = [value]
            if done := self._converged():
                return self._step_report(done)
        slope, self._trials = self._slope(self._gradient), 0
        lower = self._search(slope, self._direction(slope))
        if lower is None and self._forget():
            # The memory was misleading: fall back to steepest descent.
            lower = self._search(slope, self._direction(slope))
        if lower is None:
            return self._step_report("no descent: the line search found no lower value")
        self._learn(lower, self._theta, self._gradient)
        self._moved_to(lower.theta, lower.value, lower.gradient)
        return self._step_report(self._converged(), lower.length)

    # Methods that subclasses define.

    @abstractmethod
    def _direction(self, slope: Floats) -> Floats:
        """Return the search direction: 1 is the first length of the line search."""

    @abstractmethod
    def _learn(self, found: LinePoint, theta: Floats, gradient: Floats) -> None:
        """Update the memory with a step from theta, and the gradient there."""

    @abstractmethod
    def _forget(self) -> bool:
        """Clear the memory; return whether it had any content."""

    # Methods that an L1 penalty changes: the value, the slope (`_slope`), the search.

    def _evaluate(self, theta: Floats) -> tuple[float, Floats]:
        return self.objective(theta)

    def _search(self, slope: Floats, direction: Floats) -> LinePoint | None:
        """Search a lower value along a direction."""
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
        trial = self._line_search(line, self._most_trials)
        self._trials += line.trials
        if trial is None:
            return None
        return LinePoint(line.theta(trial.length), trial.value, trial.gradient, trial.length)

    def _step_report(self, done: str | None, length: float = 0.0) -> Step:
        active, trials = float(np.count_nonzero(self._theta)), float(self._trials)
        return self._report(done, active=active, trials=trials, length=length)

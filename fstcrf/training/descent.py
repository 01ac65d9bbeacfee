"""What batch optimisers share: where they stand, when they have converged, line searches."""

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
    """What optimisers have in common that look at all of the data in each iteration.

    A method says how a step is made (`step`), which sets `_theta` to another array, and `_gradient`
    and `_values` by `_moved_to`.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Where to start.
    settings : Converging
        When to stop.
    """

    def __init__(self, objective: Objective, theta: Floats, settings: Converging) -> None:
        self.objective = objective
        self._stop = settings
        # Pages of zeros that nobody wrote to take no memory.
        self._theta = np.array(theta, dtype=np.float64) if theta.any() else np.zeros(len(theta))
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

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        return {
            "theta": self._theta,
            "gradient": np.empty(0) if self._gradient is None else self._gradient,
            "values": np.asarray(self._values),
            "evaluations": np.asarray([self.objective.evaluations]),
        }

    def restore(self, state: State) -> None:
        """Go back to a state."""
        self._theta = floats(state["theta"])
        self._gradient = vector(state, "gradient", len(self._theta))
        self._values = floats(state["values"]).tolist()
        self.objective.evaluations = int(state["evaluations"][0])

    def _moved_to(self, theta: Floats, value: float, gradient: Floats) -> None:
        """Take notice of a step."""
        self._theta, self._gradient = theta, gradient
        self._values = [*self._values[-self._stop.period :], value]

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
        stop = self._stop
        if norm(self._slope(self._gradient)) < stop.epsilon * max(1.0, norm(self._theta)):
            return f"gradient norm below {stop.epsilon:g} of the weights' norm"
        if gained_little(self._values, stop) and self._knows_the_way():
            return f"less than {stop.delta:g} gained in {stop.period} iterations"
        return None

    def _knows_the_way(self) -> bool:
        """Tell whether small gains mean a minimum, and no direction that leads nowhere."""
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
        Where it is, in units of the direction.
    value : float
    gradient : float64 [size]
    """

    length: float
    value: float
    gradient: Floats


@dataclass(frozen=True, slots=True)
class Found:
    """Where a search arrived.

    Parameters
    ----------
    theta : float64 [size]
    value : float
    gradient : float64 [size]
    length : float
        In units of the direction.
    """

    theta: Floats
    value: float
    gradient: Floats
    length: float


class Line:
    """The objective along a direction.

    Of the points that were tried, it holds on to the gradients of the last and of the best: vectors
    are long.

    Parameters
    ----------
    evaluate : callable
        theta → value and gradient.
    theta, direction : float64 [size]
    start, descent : float
        Value and slope at theta.
    curvature : float
        The slope must shrink to so much of the first one.
    noise : float
        Values that differ by less are equal.
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
        self.steepest = -curvature * descent  # of the slope at the end
        self.trials = 0
        self.last: Trial | None = None
        self.best: Trial | None = None

    def theta(self, length: float) -> Floats:
        """Return a point of the line, float64 [size]."""
        theta = length * self._direction
        theta += self._theta
        return theta

    def at(self, length: float) -> tuple[float, float, bool]:
        """Try a point: return its value, its slope, and whether it is low enough (Armijo)."""
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
"""Line and the most evaluations → a point that satisfies the conditions, or the best found."""


def wolfe(line: Line, limit: int) -> Trial | None:
    """Find a step that satisfies the strong Wolfe conditions, or the best that descends."""
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
            # The minimum lies between the new point and the old one, or the old end stays.
            if now >= 0.0 if high is None else now * (high - low) >= 0.0:
                high, high_value = low, low_value
            low, low_value, low_slope = length, value, now
        length = _next_length(low, low_value, low_slope, high, high_value)
    return line.best


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


def backtracking(line: Line, limit: int, *, strong: bool = False) -> Trial | None:
    """Shrink a step that is not low enough, let one grow that is still steep."""
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
    """Methods that search along a direction."""

    max_line_search: Annotated[
        int, Meta(ge=1, description="most evaluations of one line search")
    ] = 20


@dataclass(frozen=True, kw_only=True)
class QuasiNewton(LineSearching):
    """What L-BFGS is told, whatever it minimises."""

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
    """A direction, a search along it, and again.

    A method says which direction (`_direction`), what it learns from a step (`_learn`) and how it
    forgets that (`_forget`).

    Parameters
    ----------
    objective : Objective
        Where it has a `noise`, values that differ by less count as equal.
    theta : float64 [size]
        Where to start.
    settings : LineSearching
    search : callable
        How the length of a step is found.
    """

    curvature: ClassVar[float] = CURVATURE
    """The slope along the direction must shrink to so much of the first one."""

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
                return self._told(done)
        slope, self._trials = self._slope(self._gradient), 0
        lower = self._search(slope, self._direction(slope))
        if lower is None and self._forget():
            # What was learnt misled: fall back to steepest descent.
            lower = self._search(slope, self._direction(slope))
        if lower is None:
            return self._told("no descent: the line search found no lower value")
        self._learn(lower, self._theta, self._gradient)
        self._moved_to(lower.theta, lower.value, lower.gradient)
        return self._told(self._converged(), lower.length)

    # What a method is.

    @abstractmethod
    def _direction(self, slope: Floats) -> Floats:
        """Return where to search: 1 is the first length that is tried."""

    @abstractmethod
    def _learn(self, found: Found, theta: Floats, gradient: Floats) -> None:
        """Take notice of a step from theta, and the gradient there."""

    @abstractmethod
    def _forget(self) -> bool:
        """Forget all that was learnt; return whether there was anything."""

    # What an L1 penalty changes: the value, the slope (`_slope`), the search.

    def _evaluate(self, theta: Floats) -> tuple[float, Floats]:
        return self.objective(theta)

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
        trial = self._line_search(line, self._most_trials)
        self._trials += line.trials
        if trial is None:
            return None
        return Found(line.theta(trial.length), trial.value, trial.gradient, trial.length)

    def _told(self, done: str | None, length: float = 0.0) -> Step:
        active, trials = float(np.count_nonzero(self._theta)), float(self._trials)
        return self._report(done, active=active, trials=trials, length=length)

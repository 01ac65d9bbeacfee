"""QuickProp: a Newton step for each weight alone, its curvature from the last two gradients.

    step = −g · step' / (g − g')      (step', g': of the iteration before)

where that goes downhill; it may be `growth` times as long as the step before. Elsewhere that bound
is the step, and a weight that did not move goes along its gradient. Every weight so moves against
its gradient, which makes the whole a descent direction: a step that does not lower the value is
halved, which Fahlman's does not do, and which makes the method converge. Source: Fahlman (1988).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, OptionError
from fstcrf.kernel import dot, norm
from fstcrf.train.descent import Iterative
from fstcrf.train.parallel import spans
from fstcrf.train.protocols import Objective, Optimiser, Step
from fstcrf.train.settings import Converging, Run, check

__all__ = ["QuickProp", "QuickPropSettings"]


_SUFFICIENT = 1e-4  # of the decrease that the slope promises
_HALVINGS = 40


@dataclass(frozen=True, kw_only=True)
class QuickPropSettings(Converging):
    """Each weight by a parabola of its own."""

    name: ClassVar[str] = "quickprop"

    growth: Annotated[
        float,
        Meta(gt=1, description="how many times as long as the one before a step may be"),
    ] = 1.75

    def optimiser(self, run: Run) -> Optimiser:
        """Return the optimiser of a run."""
        return self.minimiser(run.objective.function(run, self.l2), run.theta)

    def minimiser(self, objective: Objective, theta: Floats) -> QuickProp:
        """Return what minimises an objective, each weight by itself: no ties."""
        return QuickProp(
            objective,
            theta,
            growth=self.growth,
            epsilon=self.epsilon,
            delta=self.delta,
            period=self.period,
        )


class QuickProp(Iterative):
    """One step an iteration.

    Parameters
    ----------
    objective : Objective
        A function of weights that mean something each by itself: no ties.
    theta : float64 [size]
        Where to start.
    growth : float
        A step is at most so many times as long as the one before, above 1.
    rate : float, optional
        Step size along the gradient for weights that have not moved yet; halved until the first
        step lowers the value. 1 / |gradient| when absent.
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
        self,
        objective: Objective,
        theta: Floats,
        *,
        growth: float = 1.75,
        rate: float | None = None,
        epsilon: float = 1e-5,
        delta: float = 1e-5,
        period: int = 10,
    ) -> None:
        super().__init__(objective, theta, epsilon=epsilon, delta=delta, period=period)
        check(QuickPropSettings, growth=growth)
        if rate is not None and not 0.0 < rate < np.inf:
            raise OptionError(f"the rate is {rate}, expected a number above 0")
        self.growth, self._rate = growth, 0.0 if rate is None else rate
        self._moved = np.zeros(len(self._theta))
        self._before = np.zeros(len(self._theta))

    def step(self) -> Step:
        """Make one iteration."""
        if self._gradient is None:
            value, self._gradient = self.objective(self._theta)
            self._values = [value]
            self._rate = self._rate or 1.0 / max(norm(self._gradient), 1e-300)
        if done := self._converged():
            return self._told(done)
        if not self._descend(self._gradient, self._direction(self._gradient)):
            # What was learnt misled: fall back to steepest descent.
            self._moved[:] = 0.0
            if not self._descend(self._gradient, -self._rate * self._gradient):
                return self._told("no descent: no step lowers the value")
        return self._told(self._converged())

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        own = {"moved": self._moved, "before": self._before, "rate": np.asarray([self._rate])}
        return {**super().state(), **own}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        super().restore(state)
        self._moved, self._before = state["moved"], state["before"]
        self._rate = float(state["rate"][0])

    def _direction(self, gradient: Floats) -> Floats:
        """Return the step that each weight would make for itself."""
        out = np.empty_like(gradient)
        for part in spans(len(out)):
            out[part] = self._steps(gradient[part], self._before[part], self._moved[part])
        return out

    def _steps(self, gradient: Floats, before: Floats, moved: Floats) -> Floats:
        change = gradient - before
        curved = change * moved > 0.0
        slope, moved = np.abs(gradient), np.abs(moved)
        length = self.growth * moved
        newton = np.divide(slope * moved, np.abs(change), out=length.copy(), where=curved)
        length = np.where(moved > 0.0, np.minimum(newton, length), self._rate * slope)
        return np.asarray(-np.sign(gradient) * length)

    def _descend(self, gradient: Floats, direction: Floats) -> bool:
        """Go along a direction, or half of it, or half of that; tell whether that helped."""
        slope, value = dot(gradient, direction), self._values[-1]
        noise = getattr(self.objective, "noise", 0.0)
        for halving in range(_HALVINGS):
            length = 0.5**halving
            theta = self._theta + length * direction
            try:
                found, after = self.objective(theta)
            except NumericError:
                continue
            if found <= value + _SUFFICIENT * length * slope + noise:
                self._before, self._moved = gradient, length * direction
                self._moved_to(theta, found, after)
                if len(self._values) == 2:
                    self._rate *= length
                return True
        return False

    def _told(self, done: str | None) -> Step:
        return self._report(done, length=norm(self._moved))

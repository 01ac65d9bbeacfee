"""How far to go along a direction of descent.

====================  =====================================================================
wolfe                 strong Wolfe conditions, by bracketing and parabolas
backtracking          Wolfe conditions, by halving and growing
strong_backtracking   strong Wolfe conditions, by halving and growing
====================  =====================================================================

Values that differ by no more than rounding say nothing; there the slope decides alone, by the
approximate Wolfe conditions. Sources: Nocedal and Wright (2006), sections 3.1 and 3.5; Hager and
Zhang (2005).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError
from fstcrf.kernel import dot

__all__ = ["ARMIJO", "LINE_SEARCHES", "Found", "Line", "LineSearch", "Search"]

Floats = NDArray[np.float64]
LineSearch = Literal["wolfe", "backtracking", "strong-backtracking"]

ARMIJO, CURVATURE = 1e-4, 0.9
_SHRINK, _GROW = 0.5, 2.1


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
        self.best: Found | None = None

    def at(self, length: float) -> tuple[Found, float, bool]:
        """Return the point, its slope, and whether it is low enough (Armijo)."""
        self.trials += 1
        theta = self._theta + length * self._direction
        try:
            value, gradient = self._evaluate(theta)
        except NumericError:
            value, gradient = np.inf, self._direction
        found = Found(theta, value, gradient, length)
        slope = dot(gradient, self._direction)
        low = value <= self.start + ARMIJO * length * self.descent
        if not low and value <= self.start + self.noise:
            low = slope <= (2.0 * ARMIJO - 1.0) * self.descent
        if low and (self.best is None or value < self.best.value):
            self.best = found
        return found, slope, low


Search = Callable[[Line, int], Found | None]
"""Line and the most evaluations → a point that satisfies the conditions, or the best found."""


def wolfe(line: Line, limit: int) -> Found | None:
    """Find a step that satisfies the strong Wolfe conditions, or the best that descends."""
    low, low_value, low_slope = 0.0, line.start, line.descent
    high: float | None = None
    high_value, length = np.inf, 1.0
    for _ in range(limit):
        found, now, armijo = line.at(length)
        if not armijo or found.value >= low_value + line.noise:
            high, high_value = length, found.value
        elif abs(now) <= line.steepest:
            return found
        else:
            # The minimum lies between the new point and the old one, or the old end stays.
            if now >= 0.0 if high is None else now * (high - low) >= 0.0:
                high, high_value = low, low_value
            low, low_value, low_slope = length, found.value, now
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


def backtracking(line: Line, limit: int, *, strong: bool = False) -> Found | None:
    """Shrink a step that is not low enough, let one grow that is still steep."""
    length = 1.0
    for _ in range(limit):
        found, now, armijo = line.at(length)
        if not armijo or (strong and now > line.steepest):
            length *= _SHRINK
        elif now < -line.steepest:
            length *= _GROW
        else:
            return found
    return line.best


LINE_SEARCHES: dict[LineSearch, Search] = {
    "wolfe": wolfe,
    "backtracking": backtracking,
    "strong-backtracking": partial(backtracking, strong=True),
}

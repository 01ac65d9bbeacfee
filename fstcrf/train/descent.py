"""Descent by line searches: what L-BFGS, OWL-QN and conjugate gradients have in common."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import dot
from fstcrf.train.iterative import Iterative
from fstcrf.train.line_search import CURVATURE, LINE_SEARCHES, Found, Line, LineSearch
from fstcrf.train.protocols import Objective, Step

__all__ = ["Descent"]

Floats = NDArray[np.float64]


class Descent(Iterative):
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
        if line_search not in LINE_SEARCHES:
            known = ", ".join(map(repr, LINE_SEARCHES))
            raise OptionError(f"line search {line_search!r} is unknown; there are {known}")
        if max_line_search < 1:
            raise OptionError(f"max_line_search is {max_line_search}, expected at least 1")
        super().__init__(objective, theta, epsilon=epsilon, delta=delta, period=period)
        self.line_search, self.max_line_search = line_search, max_line_search
        self.curvature = curvature
        self._trials = 0  # of the line search of this iteration

    def step(self) -> Step:
        """Make one iteration: a direction, a line search."""
        if self._gradient is None:
            value, self._gradient = self._evaluate(self._theta)
            self._values = [value]
            if done := self._converged():
                return self._told(done)
        slope, self._trials = self._slope(self._gradient), 0
        found = self._search(slope, self._direction(slope))
        if found is None and self._forget():
            # What was learnt misled: fall back to steepest descent.
            found = self._search(slope, self._direction(slope))
        if found is None:
            return self._told("no descent: the line search found no lower value")
        self._learn(found, self._theta, self._gradient)
        self._moved_to(found.theta, found.value, found.gradient)
        return self._told(self._converged(), found.length)

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

    # What an L1 penalty changes (owlqn.py): the value, the slope (`_slope`), the search.

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
        found = LINE_SEARCHES[self.line_search](line, self.max_line_search)
        self._trials += line.trials
        return found

    def _told(self, done: str | None, length: float = 0.0) -> Step:
        active, trials = float(np.count_nonzero(self._theta)), float(self._trials)
        return self._report(done, active=active, trials=trials, length=length)

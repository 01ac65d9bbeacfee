"""The first step size of stochastic gradient descent, chosen on a sample.

One pass over the sample with each of some candidates, from the same weights: larger and larger ones
as long as they help more, and where that did not get beyond the first one, smaller and smaller
ones. CRFsuite tries all of its candidates in both directions; where there is one best step size the
search ends at the same.

================  ==========================================
Calibration       what is tried
calibrated_rate   the best of it
================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fstcrf.errors import NumericError, OptionError

__all__ = ["Calibration", "calibrated_rate"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is tried.

    Parameters
    ----------
    rate : float
        The first candidate, above 0.
    factor : float
        From one candidate to the next, above 1.
    sentences : int
        Size of the sample.
    candidates : int
        Most candidates in each direction that lower the objective.
    trials : int
        Most candidates in all.

    Raises
    ------
    OptionError
        A number outside what it may be.
    """

    rate: float = 0.1
    factor: float = 2.0
    sentences: int = 1000
    candidates: int = 10
    trials: int = 20

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < np.inf:
            raise OptionError(f"the rate to begin with is {self.rate}, expected a number above 0")
        if not 1.0 < self.factor < np.inf:
            raise OptionError(f"the factor of rates is {self.factor}, expected a number above 1")
        for name in ("sentences", "candidates", "trials"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}, expected at least 1")


class _Search:
    """Candidates tried so far."""

    def __init__(self, trial: Callable[[float], float], before: float, trials: int) -> None:
        self._trial, self._before, self._left = trial, before, trials
        self.best, self.value, self.least = 0.0, np.inf, np.inf

    def walk(self, rate: float, factor: float, candidates: int, *, stubborn: bool) -> None:
        """Go on from `rate` while it helps; a stubborn walk goes on until something does."""
        good = 0
        while good < candidates and self._left:
            self._left -= 1
            value, self.least = self._trial(rate), min(self.least, rate)
            helps = value < self._before
            if np.isfinite(value) and value < self.value:
                self.best, self.value = rate, value
            elif not stubborn or self.value < self._before:
                return
            if not helps and not stubborn:
                return
            good += helps
            rate *= factor


def calibrated_rate(trial: Callable[[float], float], before: float, tried: Calibration) -> float:
    """Return the best step size of those tried.

    Parameters
    ----------
    trial : callable
        Step size → objective on the sample after one pass; infinite where it diverges.
    before : float
        Objective on the sample at the start.
    tried : Calibration

    Raises
    ------
    NumericError
        No candidate converges.
    """
    search = _Search(trial, before, tried.trials)
    search.walk(tried.rate, tried.factor, tried.candidates, stubborn=False)
    if search.best in (0.0, tried.rate):
        search.walk(tried.rate / tried.factor, 1.0 / tried.factor, tried.candidates, stubborn=True)
    if not np.isfinite(search.value):
        raise NumericError(
            f"no step size converges, of those tried from {tried.rate:g} down to "
            f"{search.least:.2g}: lower calibration_rate or l2, or scale the feature values"
        )
    return search.best

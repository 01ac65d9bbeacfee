"""Smooth stand-ins for the count of errors: functions of the misclassification measure d.

Where d < 0 the right answer wins, where d > 0 a wrong one does. The count of errors is the step
between; these are differentiable. Source: Suzuki, McDermott and Isozaki (2006), equation 8.

=========  ==================================================
Smoothing  d → loss and its derivative
Sigmoid    1 / (1 + exp(−αd − β)), in (0, 1): close to the step
Logistic   log(1 + exp(αd + β)) / α: convex, above the step
=========  ==================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError

__all__ = ["Logistic", "Sigmoid", "Smoothing"]

Floats = NDArray[np.float64]


class Smoothing(Protocol):
    """A smooth, rising function of the misclassification measure."""

    def __call__(self, measure: Floats) -> tuple[Floats, Floats]:
        """Return loss and derivative at each d (float64 [M]); d may be −inf, the loss is 0."""


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """1 / (1 + exp(−alpha d − beta)).

    Parameters
    ----------
    alpha : float
        How steep it is, above 0: the larger, the closer to the count of errors.
    beta : float
        Shifts it: a positive one asks for a margin.

    Raises
    ------
    OptionError
        alpha not above 0, or a number that is not finite.
    """

    alpha: float = 1.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        _check(self.alpha, self.beta)

    def __call__(self, measure: Floats) -> tuple[Floats, Floats]:
        """Return loss and derivative at each d."""
        loss = _sigmoid(self.alpha * measure + self.beta)
        return loss, self.alpha * loss * (1.0 - loss)


@dataclass(frozen=True, slots=True)
class Logistic:
    """log(1 + exp(alpha d + beta)) / alpha.

    Parameters
    ----------
    alpha, beta : float
        As of `Sigmoid`.

    Raises
    ------
    OptionError
        alpha not above 0, or a number that is not finite.
    """

    alpha: float = 1.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        _check(self.alpha, self.beta)

    def __call__(self, measure: Floats) -> tuple[Floats, Floats]:
        """Return loss and derivative at each d."""
        x = self.alpha * measure + self.beta
        return np.logaddexp(0.0, x) / self.alpha, _sigmoid(x)


def _check(alpha: float, beta: float) -> None:
    if not 0.0 < alpha < np.inf:
        raise OptionError(f"alpha is {alpha}, expected a finite number above 0")
    if not np.isfinite(beta):
        raise OptionError(f"beta is {beta}, expected a finite number")


def _sigmoid(x: Floats) -> Floats:
    # exp of −|x| cannot overflow.
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0.0, 1.0, small) / (1.0 + small))

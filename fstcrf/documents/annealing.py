"""Simulated annealing: at temperature c a label is drawn from its probability to the power 1 / c.

=========  ===========================
Annealing  temperatures of the sweeps
=========  ===========================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.documents.options import number, one_of, whole_number
from fstcrf.errors import OptionError

__all__ = ["Annealing", "Schedule"]

Schedule = Literal["linear", "exponential", "geometric", "constant"]


@dataclass(frozen=True, slots=True)
class Annealing:
    """Temperatures of the sweeps.

    Parameters
    ----------
    sweeps : int
        How many there are, n.
    schedule : {"linear", "exponential", "geometric", "constant"}
        linear: from `start` down to 0. exponential: start · exp(−rate · t). geometric: from `start`
        to `end` by the same factor each time; then a last sweep at 0. constant: `start` throughout,
        which is sampling and no search.
    start : float
        Temperature of the first sweep; 1 is the distribution itself.
    end : float
        Of the last sweep but one, geometric; at most `start`.
    rate : float
        Per sweep, exponential; below 5 / sweeps the last sweep but one is still warm.

    Raises
    ------
    OptionError
        A schedule that there is not; numbers out of range; a geometric one that heats up.
    """

    sweeps: int = 200
    schedule: Schedule = "linear"
    start: float = 1.0
    end: float = 0.01
    rate: float = 0.03

    def __post_init__(self) -> None:
        one_of("schedule", self.schedule, Schedule)
        whole_number("sweeps", self.sweeps, 1)
        for name in ("start", "end", "rate"):
            value = getattr(self, name)
            number(name, value)
            if not (np.isfinite(value) and value > 0):
                raise OptionError(f"{name} is {value}, expected a finite number above 0")
        if self.schedule == "geometric" and self.end > self.start:
            raise OptionError(
                f"end is {self.end}, expected at most start, {self.start}: a geometric schedule "
                "cools down"
            )

    def temperatures(self) -> NDArray[np.float64]:
        """Return the temperature of each sweep, float64 [sweeps].

        Examples
        --------
        >>> Annealing(5).temperatures().tolist()
        [1.0, 0.75, 0.5, 0.25, 0.0]
        """
        n, time = self.sweeps, np.arange(self.sweeps, dtype=np.float64)
        if self.schedule == "constant":
            return np.full(n, float(self.start))
        if n == 1:
            return np.zeros(1)
        if self.schedule == "linear":
            return self.start * (1.0 - time / (n - 1))
        if self.schedule == "exponential":
            found = self.start * np.exp(-self.rate * time)
        else:
            found = self.start * (self.end / self.start) ** (time / max(n - 2, 1))
        found[-1] = 0.0
        return found

"""Optimisers made of others: after stochastic epochs, or in other units of the parameters.

theta = unit · u is a preconditioner for any optimiser: with units that are the smaller, the more
curved the objective is along a weight, L-BFGS needs half as many passes over the data (``fstcrf
recipe shallow-parsing``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats
from fstcrf.kernel import dot
from fstcrf.train.parallel import SERIAL, Workers, spans
from fstcrf.train.protocols import Objective, Optimiser, Step, snapshot

__all__ = [
    "InUnits",
    "Rescaled",
    "Staged",
]


class Rescaled:
    """An objective as a function of u = theta / unit.

    Parameters
    ----------
    objective : Objective
    unit : float64 [size]
        Above 0.
    workers : Workers
    """

    def __init__(self, objective: Objective, unit: Floats, workers: Workers = SERIAL) -> None:
        self.objective, self.unit, self.size = objective, unit, len(unit)
        self._workers, self._spans = workers, spans(len(unit))

    @property
    def evaluations(self) -> int:
        """Number of calls of the objective so far."""
        return self.objective.evaluations

    @evaluations.setter
    def evaluations(self, number: int) -> None:
        self.objective.evaluations = number

    @property
    def noise(self) -> float:
        """Rounding error of the last value, about."""
        return float(getattr(self.objective, "noise", 0.0))

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at u, here called theta (float64 [size])."""
        scaled = np.empty_like(theta)

        def scale(part: slice) -> None:
            np.multiply(theta[part], self.unit[part], out=scaled[part])

        self._workers.each(scale, self._spans)
        value, gradient = self.objective(scaled)

        def scale_back(part: slice) -> None:
            gradient[part] *= self.unit[part]

        self._workers.each(scale_back, self._spans)
        return value, gradient

    def norm(self, theta: Floats) -> float:
        """Return |unit · u|, of u here called theta."""
        squares = (dot(x, x) for p in self._spans for x in [theta[p] * self.unit[p]])
        return math.sqrt(sum(squares))


class InUnits:
    """An optimiser over u = theta / unit, seen from theta.

    Parameters
    ----------
    objective : Objective
    theta : float64 [size]
        Where to start.
    unit : float64 [size]
    optimiser : callable
        (objective of u, u) → the optimiser.
    workers : Workers
        For the work on vectors.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        unit: Floats,
        optimiser: Callable[[Objective, Floats], Optimiser],
        workers: Workers = SERIAL,
    ) -> None:
        self._objective = Rescaled(objective, unit, workers)
        self._optimiser = optimiser(self._objective, theta / unit)

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._objective.unit * self._optimiser.theta()

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that gives the parameters of now, later."""
        u, unit = snapshot(self._optimiser), self._objective.unit
        return lambda: unit * u()

    def step(self) -> Step:
        """Make one step; the norms of gradients are those for u."""
        step = self._optimiser.step()
        length = self._objective.norm(snapshot(self._optimiser)())
        return replace(step, measures={**step.measures, "norm": length})

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {"unit": self._objective.unit, **self._optimiser.state()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._objective.unit = state["unit"]
        self._optimiser.restore({name: a for name, a in state.items() if name != "unit"})


# --- A few stochastic epochs first ----------------------------------------------------------------


class Staged:
    """Epochs of one optimiser, then another from where it stands.

    Parameters
    ----------
    first : Optimiser
        Its steps are epochs.
    epochs : int
        How many of them.
    then : callable
        theta → the optimiser that goes on.
    """

    def __init__(self, first: Optimiser, epochs: int, then: Callable[[Floats], Optimiser]) -> None:
        self._now, self._left, self._then = first, epochs, then
        self._passes = epochs

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._now.theta()

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that gives the parameters of now, later."""
        return snapshot(self._now)

    def step(self) -> Step:
        """Make one step of the optimiser whose turn it is."""
        if self._left == 0:
            self._go_on()
        step = self._now.step()
        if self._left > 0:
            self._left -= 1
            return replace(step, done=None)
        return replace(step, evaluations=step.evaluations + self._passes)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {"left": np.asarray([self._left]), **self._now.state()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        left = int(state["left"][0])
        if left < 0 <= self._left:
            self._go_on()
        self._left = left
        self._now.restore({name: array for name, array in state.items() if name != "left"})

    def _go_on(self) -> None:
        theta = self._now.theta()
        del self._now  # its tables would double the peak of memory
        self._now, self._left = self._then(theta), -1

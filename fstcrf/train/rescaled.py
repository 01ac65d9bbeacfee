"""Other units for the parameters: theta = unit · u, which is a preconditioner for any optimiser.

With units that are the smaller, the more curved the objective is along a weight, L-BFGS needs half
as many passes over the data (``fstcrf recipe shallow-parsing``).

===========  ====================================================
Rescaled     an objective as a function of u
InUnits      an optimiser over u, seen from theta
===========  ====================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel import norm
from fstcrf.train.protocols import Objective, Optimiser, Step

__all__ = ["InUnits", "Rescaled"]

Floats = NDArray[np.float64]


class Rescaled:
    """An objective as a function of u = theta / unit.

    Parameters
    ----------
    objective : Objective
    unit : float64 [size]
        Above 0.
    """

    def __init__(self, objective: Objective, unit: Floats) -> None:
        self.objective, self.unit, self.size = objective, unit, len(unit)

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
        value, gradient = self.objective(self.unit * theta)
        gradient *= self.unit
        return value, gradient


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
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        unit: Floats,
        optimiser: Callable[[Objective, Floats], Optimiser],
    ) -> None:
        self._objective = Rescaled(objective, unit)
        self._optimiser = optimiser(self._objective, theta / unit)

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._objective.unit * self._optimiser.theta()

    def step(self) -> Step:
        """Make one step; the norms of gradients are those for u."""
        step = self._optimiser.step()
        return replace(step, measures={**step.measures, "norm": norm(self.theta())})

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {"unit": self._objective.unit, **self._optimiser.state()}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._objective.unit = state["unit"]
        self._optimiser.restore({name: a for name, a in state.items() if name != "unit"})

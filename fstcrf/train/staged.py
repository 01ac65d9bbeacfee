"""A few stochastic epochs first, then a batch optimiser.

From zero, L-BFGS spends about half of its evaluations on what a few epochs of stochastic gradient
descent reach sooner: the rough size of the weights. On CoNLL-2000 six epochs save about 60 of 150
evaluations to the same objective (``tests/benchmarks``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.train.protocols import Optimiser, Step, snapshot

__all__ = ["Staged"]

Floats = NDArray[np.float64]


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

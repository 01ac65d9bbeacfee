"""Objective × optimiser: the two small protocols of training.

A new objective or a new optimiser is one file that satisfies one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

from fstcrf.arrays import Floats, Longs, Singles
from fstcrf.errors import ShapeError
from fstcrf.training.memory import release

State: TypeAlias = dict[str, Floats | Singles | Longs]
"""State with which an optimiser continues with the same bits: arrays and numbers by name."""


def floats(array: Floats | Singles | Longs) -> Floats:
    """Return an array of a state that has the type float64."""
    return np.asarray(array, dtype=np.float64)


def vector(state: State, name: str, size: int) -> Floats | None:
    """Return a vector of a state, `None` if it does not exist yet.

    Raises
    ------
    ShapeError
        It exists and has another length.
    """
    array = state[name]
    if array.shape not in ((0,), (size,)):
        raise ShapeError(f"{name} is {list(array.shape)}, expected [{size}]")
    return floats(array) if len(array) else None


class Objective(Protocol):
    """A differentiable function to minimise.

    It may have a `noise`, the rounding error of its last value: line searches then treat smaller
    differences as equal, and use slopes.
    """

    size: int
    evaluations: int

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta, float64 [size]."""


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one iteration or epoch.

    Parameters
    ----------
    value : float
        Objective after the step; for online learners, the sum of the losses of the sentences, each
        before its update.
    gradient_norm : float or None
        Euclidean norm of the gradient, if there is one.
    evaluations : int
        Passes over the data so far.
    done : str or None
        Reason to stop; `None` to continue.
    measures : mapping of str to float
        Further measures: ``norm`` of the weights; from L-BFGS the number of ``active`` weights (not
        zero), ``trials`` and ``length`` of the line search; from gradient descent the last
        ``rate``, ``updates`` so far, and the ``improvement`` on which stopping depends.
    """

    value: float
    gradient_norm: float | None
    evaluations: int
    done: str | None = None
    measures: Mapping[str, float] = field(default_factory=dict)


class Optimiser(Protocol):
    """A method of optimisation, one step at a time."""

    def step(self) -> Step:
        """Make one iteration or epoch."""

    def theta(self) -> Floats:
        """Return the current parameters (float64 [size]), ready for decoding."""

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""

    def restore(self, state: State) -> None:
        """Restore a state."""


def snapshot(optimiser: Optimiser) -> Callable[[], Floats]:
    """Return a function that returns the present parameters at any later time.

    An optimiser may define `snapshot`, if `theta` takes time or memory that is seldom needed.
    """
    method: Callable[[], Callable[[], Floats]] | None = getattr(optimiser, "snapshot", None)
    if method is not None:
        return method()
    theta = optimiser.theta().copy()
    return lambda: theta


# --- A few stochastic epochs first ----------------------------------------------------------------
class Staged:
    """Runs epochs of one optimiser, then another one from its result.

    Parameters
    ----------
    first : Optimiser
        Its steps are epochs.
    epochs : int
        Number of these epochs.
    then : callable
        theta → the second optimiser.
    """

    def __init__(self, first: Optimiser, epochs: int, then: Callable[[Floats], Optimiser]) -> None:
        self._now, self._left, self._then = first, epochs, then
        self._passes = epochs

    def theta(self) -> Floats:
        """Return the current parameters."""
        return self._now.theta()

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that returns the current parameters later."""
        return snapshot(self._now)

    def step(self) -> Step:
        """Make one step of the active optimiser."""
        if self._left == 0:
            self._go_on()
        step = self._now.step()
        if self._left > 0:
            self._left -= 1
            return replace(step, done=None)
        return replace(step, evaluations=step.evaluations + self._passes)

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""
        return {"left": np.asarray([self._left]), **self._now.state()}

    def restore(self, state: State) -> None:
        """Restore a state."""
        left = int(state["left"][0])
        if left < 0 <= self._left:
            self._go_on()
        self._left = left
        self._now.restore({name: array for name, array in state.items() if name != "left"})

    def _go_on(self) -> None:
        theta = self._now.theta()
        del self._now  # its tables would double the peak memory
        self._now, self._left = self._then(theta), -1
        release()

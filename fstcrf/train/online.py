"""What learners that go sentence by sentence have in common: their tables, their epochs.

==============  ==================================================
OnlineEpochs    one epoch a step, tables of weights
AveragedEpochs  ... whose weights are the average over all steps
==============  ==================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import Parameters
from fstcrf.train.learner import (
    Orders,
    collect_parameters,
    named_parameters,
    online_learner,
    online_parameters,
    restored_parameters,
    shuffled,
)
from fstcrf.train.problem import ParameterSpace, Problem

__all__ = ["AveragedEpochs", "OnlineEpochs"]

Floats = NDArray[np.float64]


class OnlineEpochs:
    """One epoch a step.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Where to start.
    epsilon : float
        The least mean loss of a sentence with which to go on.
    seed : int
        Of the order of sentences, drawn anew for each epoch.
    orders : Orders, optional
        The order of sentences in each epoch, instead of `seed`.

    Raises
    ------
    OptionError
        A negative epsilon, labels that are not known, or weights of arc attributes.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        *,
        epsilon: float | None,
        seed: int,
        orders: Orders | None,
    ) -> None:
        if epsilon is not None and not 0.0 <= epsilon < np.inf:
            raise OptionError(f"epsilon is {epsilon}, expected a finite number of at least 0")
        self.space = space
        self._learner = online_learner(problem, space)
        self._size = len(problem.weight)
        self._orders = shuffled(seed, self._size) if orders is None else orders
        start = online_parameters(space, theta)
        self._tables = {"theta": start, **self._beside(start)}
        self._step, self._epoch = 1, 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        out: dict[str, NDArray[Any]] = {"counters": np.asarray([self._step, self._epoch])}
        for name, table in self._tables.items():
            out |= named_parameters(name, table)
        return out

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._step, self._epoch = state["counters"].tolist()
        self._tables = {name: restored_parameters(name, state) for name in self._tables}

    def _beside(self, theta: Parameters) -> dict[str, Parameters]:  # noqa: ARG002 (for others)
        """Return what a learner keeps beside its weights."""
        return {}

    def _next_order(self) -> NDArray[np.int64]:
        """Return the sentences of the next epoch in the order of their turn."""
        self._epoch += 1
        return self._orders(self._epoch - 1)

    def _collected(self, name: str = "theta") -> Floats:
        return collect_parameters(self.space, self._tables[name])


class AveragedEpochs(OnlineEpochs):
    """Epochs whose weights are the average over all steps; parameters as above."""

    def _beside(self, theta: Parameters) -> dict[str, Parameters]:
        return {"sums": theta.zeros()}

    def _average(self) -> Floats:
        return self._collected() - self._collected("sums") / self._step

    def _both(self) -> tuple[Parameters, Parameters]:
        """Return the weights of now, and what the average needs."""
        return self._tables["theta"], self._tables["sums"]

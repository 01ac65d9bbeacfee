"""The averaged perceptron of Collins (2002), also as CRFsuite counts its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import norm
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
from fstcrf.train.protocols import Step

__all__ = ["AveragedPerceptron"]

Floats = NDArray[np.float64]


class AveragedPerceptron:
    """One epoch a step: theta += features(gold) − features(best path), averaged over all steps.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Where to start.
    seed : int
        Of the order of sentences, drawn anew for each epoch.
    epsilon : float, optional
        As in CRFsuite: the value of an epoch is the weighted sum over sentences of the share of
        their tokens that was wrong, and training stops when that is below epsilon times the number
        of sentences. When absent, the value is the number of wrong tokens, and training stops when
        there is none.
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
        seed: int = 0,
        epsilon: float | None = None,
        orders: Orders | None = None,
    ) -> None:
        if epsilon is not None and not 0.0 <= epsilon < np.inf:
            raise OptionError(f"epsilon is {epsilon}, expected a finite number of at least 0")
        self.space, self.epsilon = space, epsilon
        self._learner = online_learner(problem, space)
        self._size = len(problem.weight)
        self._orders = shuffled(seed, self._size) if orders is None else orders
        self._theta = online_parameters(space, theta)
        self._sums = self._theta.zeros()
        self._step, self._epoch = 1, 0

    def theta(self) -> Floats:
        """Return the average of the weights over all steps so far."""
        now = collect_parameters(self.space, self._theta)
        return now - collect_parameters(self.space, self._sums) / self._step

    def step(self) -> Step:
        """Run one epoch."""
        self._step, errors, loss = self._learner.perceptron_epoch(
            self._orders(self._epoch), self._theta, self._sums, self._step
        )
        self._epoch += 1
        value = float(errors) if self.epsilon is None else loss
        measures = {"norm": norm(self.theta())}
        return Step(value, None, self._epoch, self._done(errors, loss), measures)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {
            "counters": np.asarray([self._step, self._epoch]),
            **named_parameters("theta", self._theta),
            **named_parameters("sums", self._sums),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._step, self._epoch = state["counters"].tolist()
        self._theta = restored_parameters("theta", state)
        self._sums = restored_parameters("sums", state)

    def _done(self, errors: int, loss: float) -> str | None:
        if self.epsilon is None:
            return None if errors else "no error is left"
        if loss / self._size < self.epsilon:
            return f"fewer than {self.epsilon:g} of the labels are wrong"
        return None

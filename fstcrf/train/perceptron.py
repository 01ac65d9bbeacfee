"""The averaged perceptron of Collins (2002), also as CRFsuite counts its errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel import norm
from fstcrf.train.learner import Orders
from fstcrf.train.online import AveragedEpochs
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.protocols import Step

__all__ = ["AveragedPerceptron"]

Floats = NDArray[np.float64]


class AveragedPerceptron(AveragedEpochs):
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
        super().__init__(problem, space, theta, epsilon=epsilon, seed=seed, orders=orders)
        self.epsilon = epsilon

    def theta(self) -> Floats:
        """Return the average of the weights over all steps so far."""
        return self._average()

    def step(self) -> Step:
        """Run one epoch."""
        self._step, errors, loss = self._learner.perceptron_epoch(
            self._next_order(), *self._both(), self._step
        )
        value = float(errors) if self.epsilon is None else loss
        measures = {"norm": norm(self.theta())}
        return Step(value, None, self._epoch, self._done(errors, loss), measures)

    def _done(self, errors: int, loss: float) -> str | None:
        if self.epsilon is None:
            return None if errors else "no error is left"
        if loss / self._size < self.epsilon:
            return f"fewer than {self.epsilon:g} of the labels are wrong"
        return None

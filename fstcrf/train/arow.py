"""Adaptive regularisation of weights (AROW) for sequences.

Every weight has a mean and a variance, which falls with each update: weights updated often move
less. For a sentence whose best path is wrong, with d = features(gold) − features(best path):

    l = score(best) − score(gold) + wrong labels
    mean_i += l / (gamma + sum_j v_j d_j²) · v_i d_i,     then   1 / v_i += d_i² / gamma

Source: Crammer, Kulesza and Dredze (2009), with a diagonal covariance; the cost as in CRFsuite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Floats
from fstcrf.kernel import Parameters, norm
from fstcrf.train.online import MeanLoss, OnlineEpochs, Orders
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.protocols import Step
from fstcrf.train.settings import Run, check

__all__ = ["AROW", "AROWSettings"]


@dataclass(frozen=True, kw_only=True)
class AROWSettings(MeanLoss):
    """Adaptive regularisation of weights, as in CRFsuite."""

    name: ClassVar[str] = "arow"

    variance: Annotated[float, Meta(gt=0, description="of every weight at first")] = 1.0
    gamma: Annotated[float, Meta(gt=0, description="how slowly means and variances move")] = 1.0

    def optimiser(self, run: Run) -> AROW:
        """Return the learner of a run."""
        return AROW(
            run.problem,
            run.space,
            run.theta,
            variance=self.variance,
            gamma=self.gamma,
            epsilon=self.epsilon,
            seed=run.seed,
        )


class AROW(OnlineEpochs):
    """One epoch a step; its value is the weighted sum of the losses before each update.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Means to start from.
    variance : float
        Of every weight at first, above 0.
    gamma : float
        How slowly means and variances move, above 0 (r of the paper).
    epsilon : float
        Stop when the mean loss of a sentence is no greater.
    seed : int
        Of the order of sentences, drawn anew for each epoch.
    orders : Orders, optional
        The order of sentences in each epoch, instead of `seed`.

    Raises
    ------
    OptionError
        A number outside what it may be, labels that are not known, or weights of arc attributes.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        *,
        variance: float = 1.0,
        gamma: float = 1.0,
        epsilon: float = 0.0,
        seed: int = 0,
        orders: Orders | None = None,
    ) -> None:
        check(AROWSettings, variance=variance, gamma=gamma)
        super().__init__(problem, space, theta, epsilon=epsilon, seed=seed, orders=orders)
        self.gamma, self.epsilon = float(gamma), epsilon
        start = self._tables["theta"].arrays()
        self._tables["variance"] = Parameters(*(np.full_like(a, variance) for a in start))

    def theta(self) -> Floats:
        """Return the means reached."""
        return self._collected()

    def variance(self) -> Floats:
        """Return the variance of each weight, float64 [size]."""
        return self._collected("variance")

    def step(self) -> Step:
        """Run one epoch."""
        loss = self._learner.arow_epoch(
            self._next_order(),
            self._tables["theta"],
            self._tables["variance"],
            gamma=self.gamma,
        )
        return Step(loss, None, self._epoch, self._done(loss), {"norm": norm(self.theta())})

    def _done(self, loss: float) -> str | None:
        if loss / self._size <= self.epsilon:
            return f"the mean loss is no more than {self.epsilon:g}"
        return None

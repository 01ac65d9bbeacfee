"""The passive-aggressive algorithm for sequences.

A sentence whose best path is wrong moves the weights as little as is needed for its gold path to be
ahead of that path by a margin, which is the cost of the path:

    l = score(best) − score(gold) + cost,     d = features(gold) − features(best)
    theta += tau d,     tau = l / |d|²   or   min(C, l / |d|²)   or   l / (|d|² + 1 / (2 C))

for PA, PA-I and PA-II. The cost is the root of the number of wrong labels, or 1. Source: Crammer et
al. (2006), sections 3 and 9 (the prediction-based update); costs as in CRFsuite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import PassiveAggressive as Variant
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

__all__ = ["PassiveAggressive", "Variant"]

Floats = NDArray[np.float64]


class PassiveAggressive:
    """One epoch a step; its value is the weighted sum of the losses before each update.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Where to start.
    variant : {"PA", "PA-I", "PA-II"}
    aggressiveness : float
        C of PA-I and PA-II, above 0.
    error_sensitive : bool
        The cost is the root of the number of wrong labels, not 1.
    averaging : bool
        The weights are the average over all steps, as in the averaged perceptron.
    epsilon : float
        Stop when the mean loss of a sentence is below.
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
        variant: Variant = "PA-I",
        aggressiveness: float = 1.0,
        error_sensitive: bool = True,
        averaging: bool = True,
        epsilon: float = 0.0,
        seed: int = 0,
        orders: Orders | None = None,
    ) -> None:
        if variant not in ("PA", "PA-I", "PA-II"):
            raise OptionError(f"variant is {variant!r}, expected 'PA', 'PA-I' or 'PA-II'")
        if not 0.0 < aggressiveness < np.inf:
            raise OptionError(f"aggressiveness is {aggressiveness}, expected a number above 0")
        if not 0.0 <= epsilon < np.inf:
            raise OptionError(f"epsilon is {epsilon}, expected a finite number of at least 0")
        self.space, self.variant, self.aggressiveness = space, variant, float(aggressiveness)
        self.error_sensitive, self.averaging = error_sensitive, averaging
        self.epsilon = epsilon
        self._learner = online_learner(problem, space)
        self._size = len(problem.weight)
        self._orders = shuffled(seed, self._size) if orders is None else orders
        self._theta = online_parameters(space, theta)
        self._sums = self._theta.zeros()
        self._step, self._epoch = 1, 0

    def theta(self) -> Floats:
        """Return the weights reached, or their average over all steps so far."""
        now = collect_parameters(self.space, self._theta)
        if not self.averaging:
            return now
        return now - collect_parameters(self.space, self._sums) / self._step

    def step(self) -> Step:
        """Run one epoch."""
        self._step, loss = self._learner.passive_aggressive_epoch(
            self._orders(self._epoch),
            self._theta,
            self._sums,
            self._step,
            variant=self.variant,
            aggressiveness=self.aggressiveness,
            error_sensitive=self.error_sensitive,
        )
        self._epoch += 1
        measures = {"norm": norm(collect_parameters(self.space, self._theta))}
        return Step(loss, None, self._epoch, self._done(loss), measures)

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

    def _done(self, loss: float) -> str | None:
        if loss / self._size < self.epsilon:
            return f"the mean loss is below {self.epsilon:g}"
        return None

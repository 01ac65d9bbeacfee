"""The passive-aggressive algorithm for sequences.

A sentence whose best path is wrong moves the weights as little as is needed for its gold path to be
ahead of that path by a margin, which is the cost of the path:

    l = score(best) − score(gold) + cost,     d = features(gold) − features(best)
    theta += tau d,     tau = l / |d|²   or   min(C, l / |d|²)   or   l / (|d|² + 1 / (2 C))

for PA, PA-I and PA-II. The cost is the root of the number of wrong labels, or 1. Source: Crammer et
al. (2006), sections 3 and 9 (the prediction-based update); costs as in CRFsuite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import PassiveAggressive as Variant
from fstcrf.kernel import norm
from fstcrf.train.online import AveragedEpochs, Orders
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.protocols import Step

__all__ = ["PassiveAggressive", "Variant"]

Floats = NDArray[np.float64]


class PassiveAggressive(AveragedEpochs):
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
        super().__init__(problem, space, theta, epsilon=epsilon, seed=seed, orders=orders)
        self.epsilon, self.variant, self.aggressiveness = epsilon, variant, float(aggressiveness)
        self.error_sensitive, self.averaging = error_sensitive, averaging

    def theta(self) -> Floats:
        """Return the weights reached, or their average over all steps so far."""
        return self._average() if self.averaging else self._collected()

    def step(self) -> Step:
        """Run one epoch."""
        self._step, loss = self._learner.passive_aggressive_epoch(
            self._next_order(),
            *self._both(),
            self._step,
            variant=self.variant,
            aggressiveness=self.aggressiveness,
            error_sensitive=self.error_sensitive,
        )
        measures = {"norm": norm(self._collected())}
        return Step(loss, None, self._epoch, self._done(loss), measures)

    def _done(self, loss: float) -> str | None:
        if loss / self._size < self.epsilon:
            return f"the mean loss is below {self.epsilon:g}"
        return None

"""The passive-aggressive algorithm for sequences.

A sentence whose best path is wrong moves the weights as little as is needed for its gold path to be
ahead of that path by a margin, which is the cost of the path:

    l = score(best) − score(gold) + cost,     d = features(gold) − features(best)
    theta += tau d,     tau = l / |d|²   or   min(C, l / |d|²)   or   l / (|d|² + 1 / (2 C))

for PA, PA-I and PA-II. The cost is the root of the number of wrong labels, or 1. Source: Crammer et
al. (2006), sections 3 and 9 (the prediction-based update); costs as in CRFsuite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from fstcrf.arrays import Floats
from fstcrf.kernel import PassiveAggressive as Variant
from fstcrf.kernel import norm
from fstcrf.train.online import AveragedEpochs, MeanLoss, Orders
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.protocols import Step
from fstcrf.train.settings import Needs, Run, check

__all__ = ["PASettings", "PassiveAggressive", "Variant"]


@dataclass(frozen=True, kw_only=True)
class PASettings(MeanLoss):
    """Passive-aggressive updates, as in CRFsuite."""

    name: ClassVar[str] = "pa"

    pa_variant: Annotated[Variant, Meta(description="how far an update goes")] = "PA-I"
    aggressiveness: Annotated[
        float,
        Meta(gt=0, description="the C of PA-I and PA-II"),
        Needs(
            lambda values: values["pa_variant"] != "PA",
            "needs pa_variant 'PA-I' or 'PA-II', not 'PA'",
        ),
    ] = 1.0
    error_sensitive: Annotated[
        bool, Meta(description="the margin is the root of the number of wrong labels, not 1")
    ] = True
    averaging: Annotated[bool, Meta(description="average the weights over all updates")] = True

    def optimiser(self, run: Run) -> PassiveAggressive:
        """Return the learner of a run."""
        return PassiveAggressive(
            run.problem,
            run.space,
            run.theta,
            variant=self.pa_variant,
            aggressiveness=self.aggressiveness,
            error_sensitive=self.error_sensitive,
            averaging=self.averaging,
            epsilon=self.epsilon,
            seed=run.seed,
        )


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
        check(PASettings, pa_variant=variant, aggressiveness=aggressiveness)
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

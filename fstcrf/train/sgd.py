"""Stochastic gradient descent with L2, one sentence a step.

The step sizes are 1 / (lambda (t0 + t)) with lambda = 2 l2 / B, as in Pegasos; t0 follows from the
first step size, which is chosen on a sample. Source: Bottou (2010); Shalev-Shwartz et al. (2007).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NumericError
from fstcrf.kernel import dot, norm
from fstcrf.train.online import (
    Orders,
    collect_parameters,
    named_parameters,
    online_learner,
    online_parameters,
    restored_parameters,
    shuffled,
)
from fstcrf.train.optimiser import Step
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.settings import Delta, MethodSettings, Needs, Penalised, Run, check

# --- The first step size of stochastic gradient descent -------------------------------------------
STEPS = Needs(
    lambda values: values.get("stochastic_epochs") != 0,
    "needs stochastic_epochs above 0, or method 'gpd': it is about their steps",
)


FROM_ZERO = "is for the stochastic epochs of a run that starts from zero, not from warm_start"
BEGINNING = Needs(
    lambda values: (
        not values.get("warm_start")
        or values.get("stochastic_epochs") is not None  # asked for, they are made there, too
        or values["method"] in ("l2sgd", "gpd")
    ),
    FROM_ZERO,
)
"""Both are of settings of stochastic steps, which batch methods may do without."""


@dataclass(frozen=True, kw_only=True)
class Calibrated(MethodSettings):
    """Methods whose first step size is chosen on a sample."""

    calibration_rate: Annotated[
        float, Meta(gt=0, description="the first step size that is tried"), STEPS, BEGINNING
    ] = 0.1
    calibration_factor: Annotated[
        float, Meta(gt=1, description="from one step size tried to the next"), STEPS, BEGINNING
    ] = 2.0
    calibration_sentences: Annotated[
        int, Meta(ge=1, description="sentences to try step sizes on"), STEPS, BEGINNING
    ] = 1000
    calibration_candidates: Annotated[
        int, Meta(ge=1, description="step sizes in each direction"), STEPS, BEGINNING
    ] = 10
    calibration_trials: Annotated[
        int, Meta(ge=1, description="step sizes in all"), STEPS, BEGINNING
    ] = 20

    @property
    def calibration(self) -> Calibration:
        """What is tried."""
        return Calibration(
            rate=self.calibration_rate,
            factor=self.calibration_factor,
            sentences=self.calibration_sentences,
            candidates=self.calibration_candidates,
            trials=self.calibration_trials,
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is tried.

    Parameters
    ----------
    rate : float
        The first candidate, above 0.
    factor : float
        From one candidate to the next, above 1.
    sentences : int
        Size of the sample.
    candidates : int
        Most candidates in each direction that lower the objective.
    trials : int
        Most candidates in all.

    Raises
    ------
    OptionError
        A number outside what it may be.
    """

    rate: float = 0.1
    factor: float = 2.0
    sentences: int = 1000
    candidates: int = 10
    trials: int = 20

    def __post_init__(self) -> None:
        check(Calibrated, **{f"calibration_{name}": v for name, v in asdict(self).items()})


class _Search:
    """Candidates tried so far."""

    def __init__(self, trial: Callable[[float], float], before: float, trials: int) -> None:
        self._trial, self._before, self._left = trial, before, trials
        self.best, self.value, self.least = 0.0, np.inf, np.inf

    def walk(self, rate: float, factor: float, candidates: int, *, stubborn: bool) -> None:
        """Go on from `rate` while it helps; a stubborn walk goes on until something does."""
        good = 0
        while good < candidates and self._left:
            self._left -= 1
            value, self.least = self._trial(rate), min(self.least, rate)
            helps = value < self._before
            if np.isfinite(value) and value < self.value:
                self.best, self.value = rate, value
            elif not stubborn or self.value < self._before:
                return
            if not helps and not stubborn:
                return
            good += helps
            rate *= factor


def calibrated_rate(trial: Callable[[float], float], before: float, tried: Calibration) -> float:
    """Return the best step size of those tried.

    Parameters
    ----------
    trial : callable
        Step size → objective on the sample after one pass; infinite where it diverges.
    before : float
        Objective on the sample at the start.
    tried : Calibration

    Raises
    ------
    NumericError
        No candidate converges.
    """
    search = _Search(trial, before, tried.trials)
    search.walk(tried.rate, tried.factor, tried.candidates, stubborn=False)
    if search.best in (0.0, tried.rate):
        search.walk(tried.rate / tried.factor, 1.0 / tried.factor, tried.candidates, stubborn=True)
    if not np.isfinite(search.value):
        raise NumericError(
            f"no step size converges, of those tried from {tried.rate:g} down to "
            f"{search.least:.2g}: lower calibration_rate or l2, or scale the feature values"
        )
    return search.best


# --- Stochastic gradient descent ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class L2SGDSettings(Penalised, Calibrated):
    """The likelihood by stochastic gradients, one sentence a step."""

    name: ClassVar[str] = "l2sgd"

    delta: Delta = 1e-6

    def optimiser(self, run: Run) -> L2SGD:
        """Return the optimiser of a run."""
        return L2SGD(
            run.problem,
            run.space,
            run.theta,
            l2=self.l2,
            seed=run.seed,
            calibration=self.calibration,
            delta=self.delta,
            period=self.period,
        )


class L2SGD:
    """One epoch a step.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Where to start.
    l2 : float
        Coefficient of |theta|².
    seed : int
        Of the order of sentences, drawn anew for each epoch.
    first_rate : float, optional
        First step size; chosen on a sample when absent.
    calibration : Calibration
        How it is chosen.
    delta, period : float, int
        Stop when `period` epochs lowered the objective by less than delta times its value.
    orders : Orders, optional
        The order of sentences in each epoch, instead of `seed`. The sample is the beginning of the
        first epoch.

    Raises
    ------
    NumericError
        No candidate for the first step size converges.
    OptionError
        A number outside what it may be, labels that are not known, or weights of arc attributes.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        *,
        l2: float,
        seed: int = 0,
        first_rate: float | None = None,
        calibration: Calibration = Calibration(),
        delta: float = 1e-6,
        period: int = 10,
        orders: Orders | None = None,
    ) -> None:
        check(L2SGDSettings, delta=delta, period=period)
        self.space, self.l2 = space, l2
        self.delta, self.period = delta, period
        self._learner = online_learner(problem, space)
        self._size = len(problem.weight)
        self._start = theta
        self._theta, self._scale = online_parameters(space, theta), 1.0
        self._epoch = 0
        self._values: list[float] = []
        self._orders = shuffled(seed, self._size) if orders is None else orders
        self.first_rate = self._calibrate(calibration) if first_rate is None else first_rate

    def theta(self) -> Floats:
        """Return the weights reached."""
        return self._scale * collect_parameters(self.space, self._theta)

    def step(self) -> Step:
        """Run one epoch."""
        order = self._orders(self._epoch)
        rates = self._rates(self.first_rate, self._epoch * self._size, len(order))
        self._scale, loss = self._learner.sgd_epoch(
            order, rates, self._decay, self._theta, self._scale
        )
        self._epoch += 1
        theta = self.theta()
        value = loss + self.l2 * dot(theta, theta)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} after epoch {self._epoch}")
        self._values = [*self._values[-self.period :], value]
        measures = {
            "norm": norm(theta),
            "rate": float(rates[-1]),
            "updates": float(self._epoch * self._size),
        }
        if len(self._values) > self.period:
            measures["improvement"] = self._improvement()
        return Step(value, None, self._epoch, self._converged(), measures)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {
            "scalars": np.asarray([self._scale, self.first_rate]),
            "epoch": np.asarray([self._epoch]),
            "values": np.asarray(self._values),
            **named_parameters("theta", self._theta),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._scale, self.first_rate = state["scalars"].tolist()
        self._epoch = int(state["epoch"][0])
        self._values = state["values"].tolist()
        self._theta = restored_parameters("theta", state)

    @property
    def _decay(self) -> float:
        return 2.0 * self.l2 / self._size

    def _rates(self, first: float, done: int, n: int) -> Floats:
        decay = max(self._decay, 1e-12)
        return np.asarray(1.0 / (decay * (1.0 / (decay * first) + done + np.arange(n))))

    def _converged(self) -> str | None:
        if len(self._values) > self.period and self._improvement() < self.delta:
            return f"less than {self.delta:g} gained in {self.period} epochs"
        return None

    def _improvement(self) -> float:
        """Return what the last `period` epochs gained, of the value of the last."""
        old, new = self._values[-self.period - 1], self._values[-1]
        return (old - new) / abs(new) if new else 0.0

    def _calibrate(self, tried: Calibration) -> float:
        """Choose the first step size on a sample."""
        sample = self._orders(0)[: tried.sentences]

        def trial(rate: float) -> float:
            return self._trial(rate, sample)

        return calibrated_rate(trial, self._objective(sample, 1.0), tried)

    def _trial(self, rate: float, sample: Longs) -> float:
        """Objective on the sample after one pass over it; the weights are put back afterwards."""
        rates = self._rates(rate, 0, len(sample))
        try:
            scale, _ = self._learner.sgd_epoch(sample, rates, self._decay, self._theta, 1.0)
            return self._objective(sample, scale)
        except NumericError:
            return np.inf
        finally:
            del self._theta  # two tables at a time would be the peak of memory
            self._theta = online_parameters(self.space, self._start)

    def _objective(self, sample: Longs, scale: float) -> float:
        """Objective on the sample; infinite where it is not finite."""
        try:
            _, loss = self._learner.sgd_epoch(
                sample, np.zeros(len(sample)), 0.0, self._theta, scale
            )
        except NumericError:
            return np.inf
        weights = scale * collect_parameters(self.space, self._theta)
        return loss + self.l2 * len(sample) / self._size * dot(weights, weights)

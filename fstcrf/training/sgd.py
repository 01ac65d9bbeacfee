"""Stochastic gradient descent with L2, one sentence a step.

The step sizes are 1 / (lambda (t0 + t)) with lambda = 2 l2 / B, as in Pegasos; t0 follows from the
first step size, which is chosen on a sample. Source: Bottou (2010); Shalev-Shwartz et al. (2007).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NumericError
from fstcrf.kernel import dot, norm
from fstcrf.training.online import (
    OnlineEpochs,
    Orders,
    named_parameters,
    online_bytes,
    online_parameters,
    restored_parameters,
)
from fstcrf.training.optimiser import State, Step
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.settings import Delta, MethodSettings, Penalised, TrainingRun

# --- The first step size of stochastic gradient descent -------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Calibrated(MethodSettings):
    """Settings of methods whose first step size is chosen on a sample."""

    calibration_rate: Annotated[
        float, Meta(gt=0, description="the first step size that is tried")
    ] = 0.1
    calibration_factor: Annotated[
        float, Meta(gt=1, description="from one step size tried to the next")
    ] = 2.0
    calibration_sentences: Annotated[
        int, Meta(ge=1, description="sentences to try step sizes on")
    ] = 1000
    calibration_candidates: Annotated[
        int, Meta(ge=1, description="step sizes in each direction")
    ] = 10
    calibration_trials: Annotated[int, Meta(ge=1, description="step sizes in all")] = 20


class _Search:
    """The candidates tried so far."""

    def __init__(self, trial: Callable[[float], float], before: float, trials: int) -> None:
        self._trial, self._before, self._left = trial, before, trials
        self.best, self.value, self.least = 0.0, np.inf, np.inf

    def walk(self, rate: float, factor: float, candidates: int, *, stubborn: bool) -> None:
        """Try rates from `rate` on while they help; a stubborn walk continues until one does."""
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


REMEDY = "lower calibration_rate or l2, or scale the feature values"
"""Advice for too long steps, if the method has a setting for step sizes."""


def calibrated_rate(
    trial: Callable[[float], float], before: float, tried: Calibrated, remedy: str = REMEDY
) -> float:
    """Return the best of the tried step sizes.

    Parameters
    ----------
    trial : callable
        Step size → objective on the sample after one pass; infinite if it diverges.
    before : float
        Objective on the sample at the start.
    tried : Calibrated
    remedy : str
        Advice if no step size converges.

    Raises
    ------
    NumericError
        No candidate converges.
    """
    search = _Search(trial, before, tried.calibration_trials)
    rate, factor = tried.calibration_rate, tried.calibration_factor
    most = tried.calibration_candidates
    search.walk(rate, factor, most, stubborn=False)
    if search.best in (0.0, rate):
        search.walk(rate / factor, 1.0 / factor, most, stubborn=True)
    if not np.isfinite(search.value):
        raise NumericError(
            f"no step size from {tried.calibration_rate:.3g} down to {search.least:.3g} "
            f"converges: {remedy}"
        )
    return search.best


# --- Stochastic gradient descent ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class L2SGDSettings(Penalised, Calibrated):
    """The likelihood by stochastic gradients, one sentence a step."""

    name: ClassVar[str] = "l2sgd"

    delta: Delta = 1e-6

    def optimiser(self, run: TrainingRun) -> L2SGD:
        """Return the optimiser of a run."""
        return L2SGD(run.problem, run.space, run.theta, self, seed=run.seed)

    def memory_of(self, run: TrainingRun) -> int:
        """Return the bytes that a run takes at its peak."""
        return online_bytes(run, 1)


class L2SGD(OnlineEpochs[L2SGDSettings]):
    """Stochastic gradient descent with L2; a step is an epoch.

    The sample for the choice of the first step size is the beginning of the first epoch.

    Parameters
    ----------
    problem, space, theta, settings, seed, orders
        As for `OnlineEpochs`.
    first_rate : float, optional
        First step size; chosen on a sample if absent.

    Raises
    ------
    NumericError
        No candidate for the first step size converges.
    OptionError
        Labels that are not known, or weights of arc attributes.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        settings: L2SGDSettings = L2SGDSettings(),
        *,
        seed: int = 0,
        first_rate: float | None = None,
        orders: Orders | None = None,
    ) -> None:
        super().__init__(problem, space, theta, settings, seed=seed, orders=orders)
        self.l2, self._period = settings.l2, settings.period
        self._start, self._scale = theta, 1.0
        self._values: list[float] = []
        self.first_rate = self._calibrate() if first_rate is None else first_rate

    def theta(self) -> Floats:
        """Return the current weights."""
        return self._scale * self._collected()

    def step(self) -> Step:
        """Run one epoch."""
        order = self._next_order()
        rates = self._rates(self.first_rate, (self._epoch - 1) * self._size, len(order))
        self._scale, loss = self._learner.sgd_epoch(
            order, rates, self._decay, self._tables["theta"], self._scale
        )
        theta = self.theta()
        value = loss + self.l2 * dot(theta, theta)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} after epoch {self._epoch}")
        self._values = [*self._values[-self._period :], value]
        measures = {
            "norm": norm(theta),
            "rate": float(rates[-1]),
            "updates": float(self._epoch * self._size),
        }
        if len(self._values) > self._period:
            measures["improvement"] = self._improvement()
        return Step(value, None, self._epoch, self._converged(), measures)

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""
        return {
            "scalars": np.asarray([self._scale, self.first_rate]),
            "epoch": np.asarray([self._epoch]),
            "values": np.asarray(self._values),
            **named_parameters("theta", self._tables["theta"]),
        }

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._scale, self.first_rate = state["scalars"].tolist()
        self._epoch = int(state["epoch"][0])
        self._values = state["values"].tolist()
        self._tables["theta"] = restored_parameters("theta", state)

    @property
    def _decay(self) -> float:
        return 2.0 * self.l2 / self._size

    def _rates(self, first: float, done: int, n: int) -> Floats:
        decay = max(self._decay, 1e-12)
        return np.asarray(1.0 / (decay * (1.0 / (decay * first) + done + np.arange(n))))

    def _converged(self) -> str | None:
        if len(self._values) > self._period and self._improvement() < self.settings.delta:
            return f"less than {self.settings.delta:g} gained in {self._period} epochs"
        return None

    def _improvement(self) -> float:
        """Return the gain of the last `period` epochs, relative to the last value."""
        old, new = self._values[-self._period - 1], self._values[-1]
        return (old - new) / abs(new) if new else 0.0

    def _calibrate(self) -> float:
        sample = self._orders(0)[: self.settings.calibration_sentences]

        def trial(rate: float) -> float:
            return self._trial(rate, sample)

        return calibrated_rate(trial, self._objective(sample, 1.0), self.settings)

    def _trial(self, rate: float, sample: Longs) -> float:
        """Return the objective on the sample after one pass; afterwards weights are restored."""
        rates = self._rates(rate, 0, len(sample))
        try:
            scale, _ = self._learner.sgd_epoch(
                sample, rates, self._decay, self._tables["theta"], 1.0
            )
            return self._objective(sample, scale)
        except NumericError:
            return np.inf
        finally:
            del self._tables["theta"]  # two tables at a time would be the peak of memory
            self._tables["theta"] = online_parameters(self.space, self._start)

    def _objective(self, sample: Longs, scale: float) -> float:
        """Return the objective on the sample, or infinity if it is not finite."""
        try:
            _, loss = self._learner.sgd_epoch(
                sample, np.zeros(len(sample)), 0.0, self._tables["theta"], scale
            )
        except NumericError:
            return np.inf
        weights = scale * self._collected()
        return loss + self.l2 * len(sample) / self._size * dot(weights, weights)

"""Stochastic gradient descent with L2, one sentence a step.

The step sizes are 1 / (lambda (t0 + t)) with lambda = 2 l2 / B, as in Pegasos; t0 follows from the
first step size, which is chosen on a sample: it is doubled or halved as long as that lowers the
objective after one pass over the sample. Source: Bottou (2010); Shalev-Shwartz et al. (2007).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError
from fstcrf.kernel import Parameters, dot
from fstcrf.train.learner import collect_parameters, online_learner, online_parameters
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.protocols import Step

__all__ = ["L2SGD"]

Floats = NDArray[np.float64]

_SAMPLE = 400
_FIRST_GUESS = 0.1
_TRIALS = 12


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
    delta, period : float, int
        Stop when `period` epochs lowered the objective by less than delta times its value.

    Raises
    ------
    NumericError
        No candidate for the first step size converges.
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
        delta: float = 1e-6,
        period: int = 10,
    ) -> None:
        self.space, self.l2, self.seed = space, l2, seed
        self.delta, self.period = delta, period
        self._learner = online_learner(problem, space)
        self._size = len(problem.weight)
        self._start = theta
        self._theta, self._scale = online_parameters(space, theta), 1.0
        self._epoch = 0
        self._values: list[float] = []
        self._rate = self._calibrate() if first_rate is None else first_rate

    def theta(self) -> Floats:
        """Return the weights reached."""
        return self._scale * collect_parameters(self.space, self._theta)

    def step(self) -> Step:
        """Run one epoch."""
        order = self._order(self._epoch)
        rates = self._rates(self._rate, self._epoch * self._size, len(order))
        self._scale, loss = self._learner.sgd_epoch(
            order, rates, self._decay, self._theta, self._scale
        )
        self._epoch += 1
        theta = self.theta()
        value = loss + self.l2 * dot(theta, theta)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} after epoch {self._epoch}")
        self._values = [*self._values[-self.period :], value]
        return Step(value, None, self._epoch, self._converged())

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {
            "scalars": np.asarray([self._scale, self._rate]),
            "epoch": np.asarray([self._epoch]),
            "values": np.asarray(self._values),
            **{f"theta.{i}": array for i, array in enumerate(self._theta.arrays())},
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._scale, self._rate = state["scalars"].tolist()
        self._epoch = int(state["epoch"][0])
        self._values = state["values"].tolist()
        self._theta = Parameters(*(state[f"theta.{i}"] for i in range(4)))

    @property
    def _decay(self) -> float:
        return 2.0 * self.l2 / self._size

    def _rates(self, first: float, done: int, n: int) -> Floats:
        decay = max(self._decay, 1e-12)
        return np.asarray(1.0 / (decay * (1.0 / (decay * first) + done + np.arange(n))))

    def _order(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng((self.seed, epoch)).permutation(self._size)

    def _converged(self) -> str | None:
        if len(self._values) <= self.period:
            return None
        old, new = self._values[-self.period - 1], self._values[-1]
        if old - new < self.delta * abs(new):
            return f"less than {self.delta:g} gained in {self.period} epochs"
        return None

    def _calibrate(self) -> float:
        """Choose the first step size on a sample."""
        sample = self._order(0)[:_SAMPLE]
        best, value = _FIRST_GUESS, self._trial(_FIRST_GUESS, sample)
        # A first guess that diverges is too large: no use to double it.
        for factor in (2.0, 0.5) if np.isfinite(value) else (0.5,):
            for _ in range(_TRIALS):
                other = self._trial(best * factor, sample)
                if not other < value and np.isfinite(value):
                    break
                best, value = best * factor, other
        if not np.isfinite(value):
            raise NumericError("no step size converges: check the feature values and l2")
        return best

    def _trial(self, rate: float, sample: NDArray[np.int64]) -> float:
        """Objective on the sample after one pass over it; the weights are put back afterwards."""
        rates, none = self._rates(rate, 0, len(sample)), np.zeros(len(sample))
        try:
            scale, _ = self._learner.sgd_epoch(sample, rates, self._decay, self._theta, 1.0)
            _, after = self._learner.sgd_epoch(sample, none, 0.0, self._theta, scale)
            weights = scale * collect_parameters(self.space, self._theta)
            return after + self.l2 * len(sample) / self._size * dot(weights, weights)
        except NumericError:
            return np.inf
        finally:
            del self._theta  # two tables at a time would be the peak of memory
            self._theta = online_parameters(self.space, self._start)

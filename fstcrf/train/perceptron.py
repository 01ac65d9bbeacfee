"""The averaged perceptron of Collins (2002)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel import Parameters
from fstcrf.train.learner import collect_parameters, online_learner, online_parameters
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
    """

    def __init__(
        self, problem: Problem, space: ParameterSpace, theta: Floats, *, seed: int = 0
    ) -> None:
        self.space, self.seed = space, seed
        self._learner = online_learner(problem, space)
        self._theta = online_parameters(space, theta)
        self._sums = self._theta.zeros()
        self._step, self._epoch = 1, 0

    def theta(self) -> Floats:
        """Return the average of the weights over all steps so far."""
        now = collect_parameters(self.space, self._theta)
        return now - collect_parameters(self.space, self._sums) / self._step

    def step(self) -> Step:
        """Run one epoch; its value is the number of wrong tokens."""
        order = np.random.default_rng((self.seed, self._epoch)).permutation(
            len(self._learner.weight)
        )
        self._step, errors = self._learner.perceptron_epoch(
            order, self._theta, self._sums, self._step
        )
        self._epoch += 1
        return Step(float(errors), None, self._epoch, None if errors else "no error is left")

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        return {
            "counters": np.asarray([self._step, self._epoch]),
            **_named("theta", self._theta),
            **_named("sums", self._sums),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._step, self._epoch = state["counters"].tolist()
        self._theta = Parameters(*(state[f"theta.{i}"] for i in range(4)))
        self._sums = Parameters(*(state[f"sums.{i}"] for i in range(4)))


def _named(name: str, parameters: Parameters) -> dict[str, Floats]:
    return {f"{name}.{i}": array for i, array in enumerate(parameters.arrays())}

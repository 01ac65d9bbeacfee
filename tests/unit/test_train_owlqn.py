"""OWL-QN: L1 problems whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from fstcrf.arrays import Floats
from fstcrf.training import Likelihood, OWLQNOptimiser, fit
from fstcrf.training.lbfgs import LBFGS
from tests.support.problems import random_case


class Squares:
    """0.5 * sum of d_i (theta_i - b_i)²: with L1, each coordinate is soft thresholding."""

    def __init__(self, scale: Floats, goal: Floats) -> None:
        self.scale, self.goal, self.size, self.evaluations = scale, goal, len(goal), 0

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        self.evaluations += 1
        slope = self.scale * (theta - self.goal)
        return 0.5 * float(slope @ (theta - self.goal)), slope


@pytest.mark.parametrize("l1", [0.0, 0.3, 2.0, 100.0])
def test_soft_thresholding(l1: float) -> None:
    rng = np.random.default_rng(5)
    scale, goal = rng.uniform(0.5, 20.0, size=40), rng.normal(size=40)
    optimiser = OWLQNOptimiser(
        Squares(scale, goal), np.zeros(40), LBFGS(l1=l1, epsilon=1e-10, delta=0.0)
    )
    outcome = fit(optimiser, max_iterations=500)
    wanted = np.sign(goal) * np.maximum(np.abs(goal) - l1 / scale, 0.0)
    assert outcome.theta == pytest.approx(wanted, abs=1e-7)
    assert np.array_equal(outcome.theta == 0.0, wanted == 0.0)


@pytest.mark.thorough
@pytest.mark.parametrize("l1", [0.05, 0.5])
def test_the_minimum_that_scipy_finds(l1: float) -> None:
    """Of theta = p - n with p, n >= 0, where the penalty is a slope."""
    case, l2 = random_case(3), 0.05
    likelihood = Likelihood(case.problem, case.space, l2=l2, precision="float64")
    outcome = fit(
        OWLQNOptimiser(
            likelihood, np.zeros(case.space.size), LBFGS(l1=l1, epsilon=1e-9, delta=0.0)
        ),
        max_iterations=3000,
    )

    def split(both: Floats) -> tuple[float, Floats]:
        p, n = np.split(both, 2)
        value, gradient = likelihood(p - n)
        return value + l1 * float(both.sum()), np.concatenate([gradient + l1, l1 - gradient])

    found = minimize(
        split,
        np.zeros(2 * case.space.size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (2 * case.space.size),
        options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 20_000, "maxfun": 40_000},
    )
    p, n = np.split(found.x, 2)
    assert outcome.value == pytest.approx(found.fun, rel=1e-9)
    assert outcome.theta == pytest.approx(p - n, abs=1e-6)

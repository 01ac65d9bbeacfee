"""Stochastic epochs first, then L-BFGS."""

from __future__ import annotations

import numpy as np

from fstcrf.train import L2SGD, LBFGS, Likelihood, Optimiser, Staged, fit
from fstcrf.train.descent import QuasiNewton
from fstcrf.train.sgd import L2SGDSettings
from tests.support.problems import random_case


def staged(epochs: int = 3) -> Staged:
    case = random_case(3)
    zero = np.zeros(case.space.size)

    def then(theta: object) -> Optimiser:
        likelihood = Likelihood(case.problem, case.space, l2=0.2, precision="float64")
        return LBFGS(likelihood, np.asarray(theta), QuasiNewton(epsilon=1e-6, delta=0.0))

    return Staged(L2SGD(case.problem, case.space, zero, L2SGDSettings(l2=0.2)), epochs, then)


def test_it_ends_where_lbfgs_ends() -> None:
    case = random_case(3)
    likelihood = Likelihood(case.problem, case.space, l2=0.2, precision="float64")
    plain = fit(
        LBFGS(likelihood, np.zeros(case.space.size), QuasiNewton(delta=0.0)), max_iterations=200
    )
    outcome = fit(staged(), max_iterations=200)
    np.testing.assert_allclose(outcome.theta, plain.theta, atol=2e-3)


def test_passes_are_counted_over_both_stages() -> None:
    optimiser = staged(2)
    assert [optimiser.step().evaluations for _ in range(2)] == [1, 2]
    assert optimiser.step().evaluations > 3


def test_a_restored_state_goes_on_with_the_same_bits() -> None:
    for after in (1, 3, 5):
        whole, half, again = staged(), staged(), staged()
        for _ in range(8):
            whole.step()
        for _ in range(after):
            half.step()
        again.restore({name: array.copy() for name, array in half.state().items()})
        for _ in range(8 - after):
            again.step()
        assert np.array_equal(again.theta(), whole.theta())

"""Stochastic epochs first, then L-BFGS."""

from __future__ import annotations

from typing import Any

import numpy as np

from fstcrf.training import LBFGSOptimiser, Likelihood, Optimiser, SGDOptimiser, Staged, fit
from fstcrf.training.descent import QuasiNewton
from fstcrf.training.evidence import Evidence
from fstcrf.training.lbfgs import LBFGS, start_pays
from fstcrf.training.sgd import L2SGD
from tests.support.problems import random_case

CASE = random_case(3)
ZERO = np.zeros(CASE.space.size)


def lbfgs(theta: object) -> Optimiser:
    likelihood = Likelihood(CASE.problem, CASE.space, l2=0.2, precision="float64")
    return LBFGSOptimiser(likelihood, np.asarray(theta), QuasiNewton(epsilon=1e-6, delta=0.0))


def staged(epochs: int = 3) -> Staged:
    first = SGDOptimiser(CASE.problem, CASE.space, ZERO, L2SGD(l2=0.2))
    return Staged(first, epochs, lbfgs)


def test_it_ends_where_lbfgs_ends() -> None:
    plain = fit(lbfgs(ZERO), max_iterations=200)
    outcome = fit(staged(), max_iterations=200)
    np.testing.assert_allclose(outcome.theta, plain.theta, atol=2e-3)


def test_passes_are_counted_over_both_stages() -> None:
    optimiser = staged(2)
    assert [optimiser.step().evaluations for _ in range(2)] == [1, 2]
    assert optimiser.step().evaluations > 3


def epochs(**options: Any) -> int:
    case = random_case(3, **options)
    return LBFGS().epochs(Evidence.of(case.problem, case.space))


def test_the_start_is_made_where_it_pays() -> None:
    """Sentences of one token have no arcs in an evaluation; an epoch has them at every step."""
    many = [f"L{i}" for i in range(12)]
    assert epochs(lengths=(2, 3) * 500) > 0
    assert epochs(lengths=(2, 3) * 499) == 0
    assert epochs(lengths=(3,) * 1000, labels=many, transitions="all", attributes=3) > 0
    assert epochs(lengths=(1,) * 1000, labels=many, transitions="all", attributes=3) == 0
    assert epochs(lengths=(2, 3) * 500, partial=True) == 0
    assert epochs(lengths=(2, 3) * 500, arcs=True) == 0


def test_what_is_saved_does_not_fall_with_the_sentences() -> None:
    pays = []
    for n in (1, 30, 100, 1000):
        case = random_case(3, lengths=(2, 3) * n)
        pays.append(start_pays(Evidence.of(case.problem, case.space), 12))
    assert pays == sorted(pays)
    assert pays[0] < pays[-1]

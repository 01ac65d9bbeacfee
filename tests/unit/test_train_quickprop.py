"""QuickProp and GPD: convex problems, counts of errors, steps that are too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from fstcrf.arrays import Floats
from fstcrf.errors import DataError, NumericError, OptionError
from fstcrf.ext.papers import (
    ClassificationError,
    GPDOptimiser,
    Logistic,
    QuickPropOptimiser,
    SegmentF,
)
from fstcrf.ext.papers.competitors import Gradient
from fstcrf.ext.papers.errors import SmoothCounts
from fstcrf.ext.papers.gpd import GPD
from fstcrf.training import fit
from tests.support.problems import BIO_CASES, Case, random_case, separable_case


def likelihood_of_errors(case: Case, l2: float) -> ClassificationError:
    """The likelihood, as a count of errors."""
    return ClassificationError(
        case.problem, case.space, l2=l2, psi=1.0, averaged=False, loss=Logistic()
    )


def lowest(case: Case, l2: float) -> Floats:
    start = np.zeros(case.space.size)
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000}
    found = minimize(
        lambda theta: case.objective(theta, l2=l2),
        start,
        jac=True,
        method="L-BFGS-B",
        options=options,
    )
    return np.asarray(found.x)


def errors(case: Case, l2: float) -> ClassificationError:
    return ClassificationError(case.problem, case.space, l2=l2)


def descent(
    objective: ClassificationError, case: Case, start: float = 0.0, **options: Any
) -> GPDOptimiser:
    """From weights that are all the same."""
    return GPDOptimiser(objective, case.space, np.full(case.space.size, start), GPD(**options))


@pytest.mark.parametrize("kind", ["order 0", "complete"])
def test_all_sentences_in_one_step_of_gpd(kind: str) -> None:
    case = random_case(3, lengths=(1, 3, 4, 2, 1, 4), **BIO_CASES[kind])
    options: dict[str, Any] = {"batch": 6, "halving": 1e6, "delta": 0.0, "first_rate": 0.1}
    optimiser = descent(likelihood_of_errors(case, 0.5), case, **options)
    outcome = fit(optimiser, max_iterations=400)
    assert outcome.theta == pytest.approx(lowest(case, 0.5), abs=1e-6)


@pytest.mark.thorough
def test_a_task_that_can_be_learnt() -> None:
    case = separable_case()
    start = np.zeros(case.space.size)
    objective = ClassificationError(case.problem, case.space, l2=0.001)
    gpd = GPDOptimiser(objective, case.space, start, GPD(batch=1), seed=3)
    learnt = fit(gpd, max_iterations=10).theta
    objective(learnt)
    assert objective.errors == 0
    outcome = fit(QuickPropOptimiser(objective, learnt), max_iterations=50)
    assert objective(outcome.theta)[0] < objective(learnt)[0]


def test_the_scale_is_multiplied_in_before_it_vanishes() -> None:
    case = separable_case(sentences=10)
    optimiser = descent(errors(case, 4.9), case, 1.0, batch=1, halving=1e9, first_rate=1.0)
    for _ in range(3):  # every step leaves 2 % of the weights
        optimiser.step()
    theta = optimiser.theta()
    assert np.isfinite(theta).all()
    assert np.linalg.norm(theta) < 10.0


def test_a_value_that_is_not_finite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    case = separable_case()
    objective = errors(case, 0.0)
    gradient = Gradient(np.asarray([0]), np.asarray([1.0]))
    monkeypatch.setattr(objective, "stochastic", lambda *_: (np.inf, gradient))
    with pytest.raises(NumericError, match=r"inf after epoch 1: lower first_rate"):
        fit(descent(objective, case), max_iterations=3)


def test_a_large_penalty_leaves_small_weights() -> None:
    case = separable_case()
    outcome = fit(descent(errors(case, 1e6), case, 1.0), max_iterations=30)
    assert 0.0 <= np.linalg.norm(outcome.theta) < 1e-3


@pytest.mark.parametrize(("first_rate", "rate"), [(0.01, 0.01), (1.0, 0.5 / 20.0), (1e6, 0.025)])
def test_no_step_goes_further_than_the_gradient_reaches(
    first_rate: float, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = random_case(3)
    objective = errors(case, 0.0)
    gradient = Gradient(np.asarray([0, 2, 0]), np.asarray([1.0, -4.0, 1.0]))  # |gradient|² = 20
    monkeypatch.setattr(objective, "stochastic", lambda *_: (0.5, gradient))
    optimiser = descent(objective, case, batch=1000, first_rate=first_rate)
    optimiser.step()
    assert optimiser.theta()[:3] == pytest.approx([-2.0 * rate, 0.0, 4.0 * rate])


def test_counts_of_errors_do_not_freeze_from_zero() -> None:
    """With steps of any length the first sentences pushed all others behind the sigmoid's slope."""
    case = separable_case(sentences=60)
    objective = errors(case, 0.0)
    objective(fit(descent(objective, case, first_rate=1e3), max_iterations=30).theta)
    assert objective.errors == 0


def test_labels_that_are_no_spans_or_not_known() -> None:
    case = random_case(1)
    with pytest.raises(OptionError, match="no label is part of one"):
        SegmentF(case.problem, case.space, l2=0.1)
    unknown = random_case(1, partial=True)
    with pytest.raises(OptionError, match="not known"):
        ClassificationError(unknown.problem, unknown.space, l2=0.1)


def test_data_without_a_gold_segment() -> None:
    case = random_case(2, labels=("B-X", "O"), lengths=(1, 1))
    problem = replace(case.problem, allowed=np.tile([False, True], (2, 1)))
    with pytest.raises(DataError, match="no gold segment"):
        SegmentF(problem, case.space, l2=0.1)


def test_sentences_without_spans_count_for_nothing() -> None:
    """Gold and competitor of one token, O against Z: neither has a span."""
    case = random_case(5, labels=("B-X", "O", "Z"), lengths=(2, 1), features="complete", ends=True)
    allowed = np.zeros((3, 3), dtype=bool)
    allowed[[0, 1, 2], [0, 1, 1]] = True
    theta = np.random.default_rng(0).normal(size=case.space.size)
    theta[-3:] = [-9.0, 0.0, 0.5]  # what it ends in: never B-X
    both, first = (
        SegmentF(replace(case.problem, allowed=allowed, weight=weight), case.space, l2=0.0)
        for weight in (np.ones(2), np.asarray([1.0, 0.0]))
    )
    both(theta)
    first(theta)
    assert both.counts == first.counts
    assert both.counts.fp + both.counts.fn > 0.0
    assert SmoothCounts(0.0, 0.0, 0.0).f() == 1.0

"""Smooth counts of errors against enumeration and central differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.ext.papers import ClassificationError, Logistic, SegmentF, Sigmoid
from fstcrf.ext.papers.errors import Smoothing
from fstcrf.training import Likelihood
from tests.support.error_cases import KINDS, LABELS, Enumerated, slopes, span_case, spans_of
from tests.support.problems import Case

SMOOTHINGS: tuple[Smoothing, ...] = (Sigmoid(0.7, 0.3), Logistic(1.3, -0.2))


def at(case: Case, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=case.space.size)


def some_directions(case: Case, seed: int) -> Floats:
    """A few single weights, and random directions."""
    rng = np.random.default_rng(seed)
    one = np.eye(case.space.size)[rng.permutation(case.space.size)[:6]]
    return np.concatenate([one, rng.normal(size=(6, case.space.size))])


@pytest.mark.thorough
@pytest.mark.parametrize("psi", [np.inf, 0.7, 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_sentences(kind: str, psi: float) -> None:
    seed = 1
    case = span_case(seed, kind)
    theta = at(case, seed)
    everything, directions = Enumerated(case, theta), some_directions(case, seed)
    for loss in SMOOTHINGS:
        objective = ClassificationError(case.problem, case.space, l2=0.01, psi=psi, loss=loss)
        value, gradient = objective(theta)
        d = [
            everything.measure(b) if np.isinf(psi) else everything.soft_measure(b, psi, mean=True)
            for b in range(case.n_sentences)
        ]
        expected = case.problem.weight @ loss(np.asarray(d))[0] + 0.01 * theta @ theta
        assert value == pytest.approx(expected, rel=1e-10)
        found = slopes(objective, theta, directions)
        assert directions @ gradient == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_is_a_special_case(kind: str) -> None:
    case = span_case(5, kind)
    theta = at(case, 5)
    reference = Likelihood(case.problem, case.space, l2=0.1, precision="float64")(theta)
    found = ClassificationError(
        case.problem, case.space, l2=0.1, psi=1.0, averaged=False, loss=Logistic()
    )(theta)
    assert found[0] == pytest.approx(reference[0], rel=1e-12)
    assert found[1] == pytest.approx(reference[1], abs=1e-10)


def test_wrong_paths_that_weigh_nothing_are_not_lost_in_rounding() -> None:
    """At log-odds beyond 37 the gold path has all of Z in float64."""
    case = span_case(3, "order 1")
    theta = at(case, 3)
    direction = sum(case.features(b, case.gold(b)) for b in range(case.n_sentences))
    strong = theta + 60.0 * direction
    loss = Logistic()
    found = ClassificationError(
        case.problem, case.space, l2=0.0, psi=1.0, averaged=False, loss=loss
    )(strong)[0]
    everything = Enumerated(case, strong)
    d = [everything.soft_measure(b, 1.0, mean=False) for b in range(case.n_sentences)]
    assert min(d) < -40.0
    assert found == pytest.approx(float(loss(np.asarray(d))[0].sum()), rel=1e-9)


def expected_counts(
    case: Case, theta: Floats, loss: Sigmoid, behind: int = 0
) -> tuple[float, float, float]:
    """TP, FN and FP by enumeration; spans are measured with so many tokens behind them."""
    tp = fn = fp = 0.0
    everything = Enumerated(case, theta)
    for b, weight in enumerate(case.problem.weight.tolist()):
        gold = spans_of(case.gold(b))
        rival = spans_of(everything.rival(b))
        for first, end, _ in gold:
            lost = loss(np.asarray([everything.measure(b, first, end + behind)]))[0][0]
            tp, fn = tp + weight * (1.0 - lost), fn + weight * lost
        for first, end, _ in (span for span in rival if span not in gold):
            fp += weight * loss(np.asarray([everything.measure(b, first, end + behind)]))[0][0]
    return tp, fn, fp


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("gamma", "span_end"),
    [
        (1.0, "inside"),
        (0.5, "next"),
        *(
            pytest.param(gamma, span_end, marks=pytest.mark.slow)
            for gamma, span_end in [(1.0, "next"), (0.5, "inside"), (2.0, "inside"), (2.0, "next")]
        ),
    ],
)
def test_f_of_segments(kind: str, gamma: float, span_end: Literal["inside", "next"]) -> None:
    seed = int(2 * gamma)
    case = span_case(seed, kind)
    theta, loss = at(case, seed), Sigmoid(1.2, 0.1)
    objective = SegmentF(
        case.problem, case.space, l2=0.01, gamma=gamma, loss=loss, span_end=span_end
    )
    value, gradient = objective(theta)
    tp, fn, fp = expected_counts(case, theta, loss, behind=int(span_end == "next"))
    found = objective.counts
    assert (found.tp, found.fn, found.fp) == pytest.approx((tp, fn, fp), rel=1e-10)
    ratio = (gamma**2 * fn + fp) / ((gamma**2 + 1.0) * tp)
    assert found.f(gamma) == pytest.approx(1.0 / (1.0 + ratio))
    expected = (gamma**2 + 1.0) * (tp + fn) * ratio + 0.01 * theta @ theta
    assert value == pytest.approx(expected, rel=1e-10)
    directions = some_directions(case, seed)
    found_slopes = slopes(objective, theta, directions)
    assert directions @ gradient == pytest.approx(found_slopes, abs=1e-5)


@pytest.mark.parametrize(("span_end", "missed"), [("inside", 0.0), ("next", 1.0)])
def test_a_span_that_goes_on_too_far(span_end: Literal["inside", "next"], missed: float) -> None:
    """Gold ``B I O`` found as ``B I I``: the labels of the gold span are all right."""
    case = span_case(2, "order 1", lengths=(3,))
    gold = tuple(LABELS.index(label) for label in ("B-X", "I-X", "O"))
    found = (*gold[:2], gold[1])
    problem = replace(case.problem, allowed=np.eye(len(LABELS), dtype=bool)[list(gold)])
    theta = 3.0 * case.features(0, found)
    objective = SegmentF(problem, case.space, l2=0.0, span_end=span_end)
    objective(theta)
    assert objective.counts.fn == pytest.approx(missed, abs=0.01)
    assert objective.counts.fp == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("psi", [np.inf, 2.0])
def test_stochastic_gradients_add_up(psi: float) -> None:
    case = span_case(4, "weights, values")
    theta = at(case, 4)
    doubled, everything = case.space.tables(2.0 * theta), np.arange(case.n_sentences)
    for objective in (
        ClassificationError(case.problem, case.space, l2=0.1, psi=psi),
        SegmentF(case.problem, case.space, l2=0.1),
    ):
        _, whole = objective(theta)
        parts = []
        for part in np.array_split(everything[::-1], 3):
            objective.begin(doubled, 0.5)  # the sums over all data follow what was seen
            parts.append(objective.stochastic(part, doubled, 0.5)[1].dense(objective.size))
        assert sum(parts) + 0.2 * theta == pytest.approx(whole, abs=1e-10)


@pytest.mark.parametrize("psi", [np.inf, 2.0])
def test_threads_do_not_change_a_bit(psi: float) -> None:
    case = span_case(6, "order 1", lengths=(3, 4, 2, 4) * 20)
    theta = at(case, 6)

    def both(threads: int) -> list[tuple[float, Floats]]:
        one = ClassificationError(case.problem, case.space, l2=0.1, psi=psi, threads=threads)
        return [one(theta), SegmentF(case.problem, case.space, l2=0.1, threads=threads)(theta)]

    for (value, gradient), (again, slope) in zip(both(1), both(2), strict=True):
        assert value == again
        assert np.array_equal(gradient, slope)

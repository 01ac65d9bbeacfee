"""Averaged perceptron and L2-SGD beside plain versions of themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fstcrf.errors import NumericError, OptionError
from fstcrf.train import L2SGD, LBFGS, AveragedPerceptron, Likelihood, Optimiser, fit
from tests.problems import Case, iob2, random_case, separable_case

Floats = NDArray[np.float64]

BIO = ("B-X", "I-X", "O")
KINDS: dict[str, dict[str, Any]] = {
    "order 0": {"order": 0},
    "order 1": {"transitions": "all"},
    "ends and weights": {"ends": True, "weights": True},
    "values": {"values": True},
    "scheme": {"labels": BIO, "legal": iob2, "ends": True},
    "order 2": {"order": 2, "labels": BIO, "start": "O", "legal": iob2},
}


def orders(case: Case, seed: int, epochs: int) -> list[list[int]]:
    """Sentences are drawn anew for each epoch."""
    n = case.n_sentences
    return [np.random.default_rng((seed, e)).permutation(n).tolist() for e in range(epochs)]


def plain_perceptron(case: Case, epochs: int, *, seed: int) -> Floats:
    theta = np.zeros(case.space.size)
    history = [theta.copy()]
    for order in orders(case, seed, epochs):
        for b in order:
            right, best = case.gold(b), case.best(b, theta)
            change = case.features(b, right) - case.features(b, best)
            theta = theta + case.problem.weight[b] * change
            history.append(theta)
    return np.asarray(np.mean(history, axis=0))


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_perceptron(options: dict[str, Any]) -> None:
    case = random_case(2, **options)
    optimiser = AveragedPerceptron(case.problem, case.space, np.zeros(case.space.size), seed=5)
    for _ in range(3):
        optimiser.step()
    assert optimiser.theta() == pytest.approx(plain_perceptron(case, 3, seed=5), abs=1e-9)


def plain_sgd(case: Case, epochs: int, *, seed: int, l2: float, first: float) -> Floats:
    theta = np.zeros(case.space.size)
    decay = 2 * l2 / case.n_sentences
    step = 0
    for order in orders(case, seed, epochs):
        for b in order:
            rate = 1 / (decay * (1 / (decay * first) + step))
            counts = np.stack([case.features(b, path) for path in case.paths(b)])
            share = np.exp(counts @ theta - np.max(counts @ theta))
            slope = share @ counts / share.sum() - case.features(b, case.gold(b))
            theta = (1 - rate * decay) * theta - rate * case.problem.weight[b] * slope
            step += 1
    return theta


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_sgd(options: dict[str, Any]) -> None:
    case = random_case(2, **options)
    optimiser = L2SGD(
        case.problem, case.space, np.zeros(case.space.size), l2=0.3, seed=5, first_rate=0.2
    )
    for _ in range(3):
        optimiser.step()
    expected = plain_sgd(case, 3, seed=5, l2=0.3, first=0.2)
    assert optimiser.theta() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_sgd_comes_close_to_the_optimum(options: dict[str, Any]) -> None:
    case = random_case(9, lengths=(1, 2, 3, 4) * 8, **options)
    likelihood = Likelihood(case.problem, case.space, l2=0.5)
    start = np.zeros(case.space.size)
    best = fit(LBFGS(likelihood, start), max_iterations=200).value
    found = fit(L2SGD(case.problem, case.space, start, l2=0.5), max_iterations=200)
    assert best <= likelihood(found.theta)[0] * (1 + 1e-5) <= 1.005 * best


def test_separable_data_is_learnt() -> None:
    case = separable_case()
    start = np.zeros(case.space.size)
    perceptron = fit(AveragedPerceptron(case.problem, case.space, start), max_iterations=50)
    assert perceptron.reason == "no error is left"
    assert perceptron.value == 0.0
    sgd = fit(L2SGD(case.problem, case.space, start, l2=0.01), max_iterations=30)
    batch = fit(LBFGS(Likelihood(case.problem, case.space, l2=0.01), start), max_iterations=50)
    for outcome in (perceptron, sgd, batch):
        for b in range(case.n_sentences):
            if np.diff(case.problem.offsets)[b] < 5:
                assert case.best(b, outcome.theta) == case.gold(b)


def learners() -> dict[str, Callable[[Case, int], Optimiser]]:
    return {
        "perceptron": lambda case, seed: AveragedPerceptron(
            case.problem, case.space, np.zeros(case.space.size), seed=seed
        ),
        "sgd": lambda case, seed: L2SGD(
            case.problem, case.space, np.zeros(case.space.size), l2=0.5, seed=seed
        ),
    }


@pytest.mark.parametrize("make", learners().values(), ids=learners())
def test_the_seed_decides_and_nothing_else(
    make: Callable[[Case, int], Optimiser], variant: str
) -> None:
    case = random_case(1, lengths=(3, 2, 4) * 5)
    runs = []
    for seed in (1, 1, 2):
        optimiser = make(case, seed)
        runs.append([(optimiser.step(), optimiser.theta().tolist()) for _ in range(3)])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize("after", [0, 1, 4])
@pytest.mark.parametrize("make", learners().values(), ids=learners())
def test_a_restored_state_goes_on_with_the_same_bits(
    make: Callable[[Case, int], Optimiser], after: int
) -> None:
    case = random_case(1, lengths=(3, 2, 4) * 5)
    one, other = make(case, 3), make(case, 3)
    for _ in range(after):
        one.step()
    other.restore({name: array.copy() for name, array in one.state().items()})
    for _ in range(3):
        assert np.array_equal(one.theta(), other.theta())
        assert one.step() == other.step()


@pytest.mark.parametrize("make", learners().values(), ids=learners())
def test_what_needs_a_batch_objective(make: Callable[[Case, int], Optimiser]) -> None:
    with pytest.raises(OptionError, match="labels that are not known: train with method 'lbfgs'"):
        make(random_case(0, partial=True), 0)
    with pytest.raises(OptionError, match="B features of the input: train with method 'lbfgs'"):
        make(random_case(0, arcs=True), 0)


def test_no_step_size_converges() -> None:
    case = random_case(0, values=True)
    start = np.full(case.space.size, 1e290)
    with np.errstate(all="ignore"), pytest.raises(NumericError, match="no step size converges"):
        L2SGD(case.problem, case.space, start, l2=0.5)


def test_sgd_that_diverges_says_so() -> None:
    case = random_case(0, values=True)
    optimiser = L2SGD(case.problem, case.space, np.zeros(case.space.size), l2=0.5, first_rate=1e308)
    with np.errstate(all="ignore"), pytest.raises(NumericError):
        fit(optimiser, max_iterations=5)


def test_the_start_counts_and_is_copied() -> None:
    case = random_case(2, transitions="all")
    start = np.random.default_rng(0).normal(size=case.space.size)
    kept = start.copy()
    perceptron = AveragedPerceptron(case.problem, case.space, start)
    sgd = L2SGD(case.problem, case.space, start, l2=0.5)
    assert np.array_equal(perceptron.theta(), start)
    assert np.array_equal(sgd.theta(), start)
    perceptron.step()
    sgd.step()
    assert np.array_equal(start, kept)


@pytest.mark.parametrize("l2", [0.0, 1e-9, 50.0])
def test_weak_and_strong_penalties(l2: float) -> None:
    case = separable_case(sentences=8)
    optimiser = L2SGD(case.problem, case.space, np.zeros(case.space.size), l2=l2)
    values = [optimiser.step().value for _ in range(20)]
    assert np.isfinite(values).all()
    likelihood = Likelihood(case.problem, case.space, l2=l2)
    at_zero = likelihood(np.zeros(case.space.size))[0]
    assert likelihood(optimiser.theta())[0] < at_zero

"""Online learners beside plain versions of themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, OptionError
from fstcrf.training import (
    AROWOptimiser,
    AveragedPerceptron,
    LBFGSOptimiser,
    Likelihood,
    Optimiser,
    PassiveAggressive,
    fit,
)
from fstcrf.training.online import AP, AROW, PA, Perceptron
from fstcrf.training.sgd import (
    ASGD,
    L2SGD,
    SGDOptimiser,
    calibrated_rate,
)
from tests.support.problems import Case, iob2, random_case, separable_case

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


def mistake(case: Case, b: int, theta: Floats) -> tuple[int, Floats]:
    """Wrong labels of the best path of a sentence, and the features that it lacks."""
    right, best = case.gold(b), case.best(b, theta)
    wrong = sum(i != j for i, j in zip(right, best, strict=True))
    return wrong, case.features(b, right) - case.features(b, best)


def plain_perceptron(case: Case, epochs: int) -> tuple[Floats, None]:
    theta = np.zeros(case.space.size)
    history = [theta.copy()]
    for order in orders(case, 5, epochs):
        for b in order:
            theta = theta + case.problem.weight[b] * mistake(case, b, theta)[1]
            history.append(theta)
    return np.asarray(np.mean(history, axis=0)), None


STEPS: dict[str, Callable[[float, float], float]] = {
    "PA": lambda loss, norm2: loss / norm2,
    "PA-I": lambda loss, norm2: min(0.3, loss / norm2),
    "PA-II": lambda loss, norm2: loss / (norm2 + 1 / 0.6),
}


def plain_passive_aggressive(
    case: Case, epochs: int, variant: str, *, sensitive: bool, averaging: bool
) -> tuple[Floats, list[float]]:
    theta = np.zeros(case.space.size)
    history, losses = [theta.copy()], []
    for order in orders(case, 5, epochs):
        losses.append(0.0)
        for b in order:
            wrong, change = mistake(case, b, theta)
            if wrong:
                cost = np.sqrt(wrong) if sensitive else 1.0
                loss, norm2 = cost - float(change @ theta), float(change @ change)
                tau = STEPS[variant](loss, norm2) if norm2 else 0.0
                theta = theta + case.problem.weight[b] * tau * change
                losses[-1] += case.problem.weight[b] * loss
            history.append(theta)
    return (np.asarray(np.mean(history, axis=0)) if averaging else theta), losses


def plain_arow(
    case: Case, epochs: int, *, variance: float, gamma: float
) -> tuple[Floats, list[float]]:
    theta, spread = np.zeros(case.space.size), np.full(case.space.size, variance)
    losses = []
    for order in orders(case, 5, epochs):
        losses.append(0.0)
        for b in order:
            wrong, change = mistake(case, b, theta)
            if wrong:
                loss, weight = wrong - change @ theta, case.problem.weight[b]
                change = weight * change
                theta = theta + loss / (gamma + spread @ change**2) * spread * change
                spread = 1 / (1 / spread + change**2 / gamma)
                losses[-1] += weight * loss
    return theta, losses


def plain_steps(
    case: Case, epochs: int, rate: Callable[[int], float], decay: float, theta: Floats, seed: int
) -> tuple[list[list[Floats]], list[float]]:
    """The weights after every step of each epoch in float64, and the losses of the epochs."""
    history: list[list[Floats]] = []
    losses: list[float] = []
    for order in orders(case, seed, epochs):
        history.append([])
        losses.append(0.0)
        for b in order:
            r, weight = rate(sum(map(len, history))), case.problem.weight[b]
            counts = np.stack([case.features(b, path) for path in case.paths(b)])
            gold, scores = case.features(b, case.gold(b)), counts @ theta
            share = np.exp(scores - scores.max())
            losses[-1] += weight * (scores.max() + np.log(share.sum()) - gold @ theta)
            slope = share @ counts / share.sum() - gold
            theta = (1 - r * decay) * theta - r * weight * slope
            history[-1].append(theta)
    return history, losses


Start = tuple[Any, Any, Floats]


def passive_aggressive(way: Any, both: bool, start: Start) -> Optimiser:
    """Of a cost by errors and averaged, or neither."""
    settings = PA(pa_variant=way, aggressiveness=0.3, error_sensitive=both, averaging=both)
    return PassiveAggressive(*start, settings, seed=5)


def arow(variance: float, gamma: float, start: Start) -> Optimiser:
    return AROWOptimiser(*start, AROW(variance=variance, gamma=gamma), seed=5)


Plain = Callable[[Case, int], tuple[Floats, list[float] | None]]
METHODS: dict[str, tuple[Callable[[Start], Optimiser], Plain]] = {
    "perceptron": (
        lambda start: AveragedPerceptron(*start, Perceptron(), seed=5),
        plain_perceptron,
    ),
    **{
        f"{way}, {both}": (
            partial(passive_aggressive, way, both),
            partial(plain_passive_aggressive, variant=way, sensitive=both, averaging=both),
        )
        for way, both in product(STEPS, (True, False))
    },
    **{
        f"arow, {gamma}": (
            partial(arow, variance, gamma),
            partial(plain_arow, variance=variance, gamma=gamma),
        )
        for variance, gamma in ((1.0, 1.0), (0.25, 3.0))
    },
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_epochs_are_those_of_the_plain_version(
    method: str, options: dict[str, Any], variant: str
) -> None:
    case, (make, plain) = random_case(2, **options), METHODS[method]
    optimiser = make((case.problem, case.space, np.zeros(case.space.size)))
    values = [optimiser.step().value for _ in range(3)]
    wanted, losses = plain(case, 3)
    assert losses is None or values == pytest.approx(losses, abs=1e-9)
    assert optimiser.theta() == pytest.approx(wanted, abs=1e-9)


def stochastic(settings: type[L2SGD], case: Case, start: Floats) -> SGDOptimiser:
    return SGDOptimiser(case.problem, case.space, start, settings(l2=0.5, delta=0.0))


STOCHASTIC: dict[str, tuple[Callable[[Case, Floats], Optimiser], float]] = {
    "sgd": (partial(stochastic, L2SGD), 0.005),
    "asgd": (partial(stochastic, ASGD), 0.03),
}


@pytest.mark.thorough
@pytest.mark.parametrize("method", STOCHASTIC)
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_more_epochs_come_closer_to_the_optimum(method: str, options: dict[str, Any]) -> None:
    """Of scipy; the mean of the weights, or the last ones."""
    case = random_case(9, lengths=(1, 2, 3, 4) * 8, **options)
    start, (make, close) = np.zeros(case.space.size), STOCHASTIC[method]
    best = minimize(
        lambda theta: case.objective(theta, l2=0.5), start, jac=True, method="L-BFGS-B"
    ).fun
    left = []
    for epochs in (10, 100):
        found = fit(make(case, start), max_iterations=epochs)
        left.append(case.objective(found.theta, l2=0.5)[0] / best - 1.0)
    assert -1e-6 <= left[1] < max(left[0], 1e-4)
    assert left[1] < close


@pytest.mark.parametrize(("method", "far"), [("sgd", 1e39), ("asgd", 1e39)])
def test_no_step_size_converges(method: str, far: float) -> None:
    case = random_case(0, values=True)
    wanted = "no step size from .* converges: lower calibration_rate or l2"
    with np.errstate(all="ignore"), pytest.raises(NumericError, match=wanted):
        STOCHASTIC[method][0](case, np.full(case.space.size, far))


def test_separable_data_is_learnt() -> None:
    case = separable_case()
    start = np.zeros(case.space.size)
    perceptron = fit(
        AveragedPerceptron(case.problem, case.space, start, Perceptron()), max_iterations=50
    )
    assert perceptron.reason == "no error is left"
    assert perceptron.value == 0.0
    rated = AveragedPerceptron(case.problem, case.space, start, AP(epsilon=1e-6))
    passive = PassiveAggressive(case.problem, case.space, start, PA(epsilon=1e-6))
    rates, margins = (fit(learner, max_iterations=50) for learner in (rated, passive))
    arow = fit(AROWOptimiser(case.problem, case.space, start, AROW()), max_iterations=50)
    assert rates.reason == "fewer than 1e-06 of the labels are wrong"
    assert margins.reason == "the mean loss is below 1e-06"
    assert arow.reason == "the mean loss is no more than 0"
    sgd, mean = (
        fit(SGDOptimiser(case.problem, case.space, start, settings), max_iterations=30)
        for settings in (L2SGD(l2=0.01), ASGD(l2=0.01))
    )
    batch = fit(
        LBFGSOptimiser(Likelihood(case.problem, case.space, l2=0.01), start), max_iterations=50
    )
    for outcome in (perceptron, rates, margins, arow, sgd, mean, batch):
        for b in range(case.n_sentences):
            if np.diff(case.problem.offsets)[b] < 5:
                assert case.best(b, outcome.theta) == case.gold(b)


LEARNERS: dict[str, tuple[Any, Any]] = {
    "perceptron": (AveragedPerceptron, Perceptron()),
    "passive-aggressive": (PassiveAggressive, PA()),
    "arow": (AROWOptimiser, AROW()),
    "sgd": (SGDOptimiser, L2SGD(l2=0.5)),
    "asgd": (SGDOptimiser, ASGD()),
}


def made(name: str, case: Case, seed: int) -> Optimiser:
    learner, settings = LEARNERS[name]
    found: Optimiser = learner(
        case.problem, case.space, np.zeros(case.space.size), settings, seed=seed
    )
    return found


@pytest.mark.parametrize("name", LEARNERS)
def test_the_seed_decides_and_nothing_else(name: str, variant: str) -> None:
    case = random_case(1, lengths=(3, 2, 4) * 5)
    runs = []
    for seed in (1, 1, 2):
        optimiser = made(name, case, seed)
        runs.append([(optimiser.step(), optimiser.theta().tolist()) for _ in range(3)])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize("name", LEARNERS)
def test_what_needs_a_batch_objective(name: str) -> None:
    with pytest.raises(OptionError, match=r"labels that are not known: train with .*'lbfgs'"):
        made(name, random_case(0, partial=True), 0)
    with pytest.raises(OptionError, match=r"B features of the input: train with .*'lbfgs'"):
        made(name, random_case(0, arcs=True), 0)


def test_the_start_counts_and_is_copied() -> None:
    case = random_case(2, transitions="all")
    start = np.random.default_rng(0).normal(size=case.space.size)
    kept = start.copy()
    perceptron = AveragedPerceptron(case.problem, case.space, start, Perceptron())
    sgd = SGDOptimiser(case.problem, case.space, start, L2SGD(l2=0.5))
    assert np.array_equal(perceptron.theta(), start)
    assert np.array_equal(sgd.theta(), start)
    perceptron.step()
    sgd.step()
    assert np.array_equal(start, kept)


@pytest.mark.parametrize("best", [0.0003, 0.05, 0.1, 0.7, 30.0])
def test_calibration_finds_the_best_rate(best: float) -> None:
    def trial(rate: float) -> float:
        return abs(np.log(rate / best)) if rate < 1000 * best else np.inf

    found = calibrated_rate(trial, 6.5, L2SGD())
    assert best / np.sqrt(2) <= found <= best * np.sqrt(2)


def test_calibration_stays_within_its_limits() -> None:
    tried: list[float] = []

    def trial(rate: float) -> float:
        tried.append(rate)
        return -rate

    assert calibrated_rate(
        trial, 0.0, L2SGD(calibration_candidates=3, calibration_factor=3.0)
    ) == pytest.approx(0.9)
    assert tried == pytest.approx([0.1, 0.3, 0.9])
    tried.clear()
    assert calibrated_rate(trial, 0.0, L2SGD(calibration_trials=2)) == pytest.approx(0.2)
    with pytest.raises(NumericError, match=r"from 0\.1 down to 1\.91e-07 converges: lower"):
        calibrated_rate(lambda _: np.inf, 0.0, L2SGD())
    wrong: list[dict[str, Any]] = [{"rate": 0.0}, {"factor": 1.0}, {"sentences": 0}, {"trials": 0}]
    for options in wrong:
        with pytest.raises(OptionError, match=r"expected (a finite number above|at least)"):
            L2SGD(**{f"calibration_{name}": value for name, value in options.items()})


@pytest.mark.parametrize("l2", [0.0, 1e-9, 50.0])
def test_weak_and_strong_penalties(l2: float) -> None:
    case = separable_case(sentences=8)
    start, settings = np.zeros(case.space.size), L2SGD(l2=l2)
    optimiser = SGDOptimiser(case.problem, case.space, start, settings)
    values = [optimiser.step().value for _ in range(20)]
    assert np.isfinite(values).all()
    likelihood = Likelihood(case.problem, case.space, l2=l2)
    at_zero = likelihood(np.zeros(case.space.size))[0]
    assert likelihood(optimiser.theta())[0] < at_zero

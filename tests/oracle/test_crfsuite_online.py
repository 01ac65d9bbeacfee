"""Online learning beside CRFsuite, sentence after sentence in the order that CRFsuite draws.

CRFsuite shuffles with the C library's ``rand``: with the same seed the order is known.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.arrays import Floats, Longs
from fstcrf.machines.topology import chain_topology
from fstcrf.text.features import LiteralIndex
from fstcrf.training import (
    AROWOptimiser,
    AveragedPerceptron,
    Optimiser,
    ParameterSpace,
    PassiveAggressive,
    Problem,
    frequent,
    parameter_space,
)
from fstcrf.training.online import AP, AROW, PA
from fstcrf.training.sgd import L2SGD, SGDOptimiser, calibrated_rate
from tests.support.crfsuite_models import random_sentences

pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")

Orders = Callable[[int], Longs]
Make = Callable[[Problem, ParameterSpace, Floats, Orders], Optimiser]
Tokens = list[Any]

SEED = 7
LABELS = "ABCDE"


class TheirOrders:
    """Swaps of a permutation that goes on from shuffle to shuffle."""

    def __init__(self, sentences: int) -> None:
        self._library = ctypes.CDLL(None)
        self._library.srand(SEED)
        self._now = np.arange(sentences)

    def shuffle(self) -> Longs:
        n = len(self._now)
        for i in range(n):
            j = self._library.rand() % n
            self._now[[i, j]] = self._now[[j, i]]
        return self._now.copy()


def data(seed: int, n: int = 60) -> tuple[list[Tokens], list[list[str]]]:
    """Words that tell labels in part, and labels that follow each other in part."""

    def token(rng: np.random.Generator, label: int) -> tuple[Any, str]:
        word = int(label * 3 + rng.integers(6))
        # Positive: CRFsuite drops features whose values sum to less than 0.
        names = dict.fromkeys((f"w={word}", f"s={word % 4}", "bias"), 1.0)
        return {**names, "n": float(rng.exponential())}, LABELS[label]

    return random_sentences(seed, n, token)


def corpus() -> tuple[list[Tokens], list[list[str]]]:
    """Labels appear in alphabetical order first: CRFsuite numbers them so, and breaks ties so."""
    sentences, target = data(3)
    first = [{f"w={label}": 1.0, "n": 0.3} for label in LABELS]
    return [first, *sentences], [list(LABELS), *target]


def problem() -> tuple[LiteralIndex, Problem]:
    sentences, target = corpus()
    index, design = LiteralIndex.build(sentences)
    labels = [LABELS.index(label) for labels in target for label in labels]
    made = Problem(
        chain_topology(LABELS, 1),
        np.cumsum([0, *map(len, sentences)]),
        design.node,
        None,
        np.eye(len(LABELS), dtype=bool)[labels],
        np.ones(len(sentences)),
    )
    return index, made


class Theirs:
    """A model that CRFsuite trains, with what it says on the way."""

    def __init__(self, path: Path, algorithm: str, **params: Any) -> None:
        trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False, params=params)
        for tokens, labels in zip(*corpus(), strict=True):
            trainer.append(tokens, labels)
        ctypes.CDLL(None).srand(SEED)
        trainer.train(str(path))
        self.log = "".join(trainer.logparser.log)
        losses = re.findall(r"^Loss: (\S+)", self.log, re.MULTILINE)
        self.losses = [float(x) for x in losses[: params["max_iterations"]]]
        self.norms = [
            float(x) for x in re.findall(r"^Feature.*norm: (\S+)", self.log, re.MULTILINE)
        ]
        tagger = pycrfsuite.Tagger()
        tagger.open(str(path))
        self.info = tagger.info()


def check(
    theirs: Theirs, optimiser: Optimiser, index: LiteralIndex, made: Problem, epochs: int
) -> None:
    steps = [optimiser.step() for _ in range(epochs)]
    assert len(theirs.losses) == epochs
    assert [step.value for step in steps] == pytest.approx(theirs.losses, abs=2e-6, rel=1e-6)
    norms = [step.measures["norm"] for step in steps]
    assert norms == pytest.approx(theirs.norms, abs=2e-6)
    space, theta = parameter_space(made), optimiser.theta()
    found = {}
    for k, cell in enumerate(space.node_cells.tolist()):
        row, slot = divmod(cell, space.width)
        found[index.attribute(row), LABELS[slot]] = theta[k]
    for k, slot in enumerate(space.transitions.tolist(), space.bounds[1]):
        before, after = made.topology.arc_slot_names[slot].split(" → ")
        found["→", before + after] = theta[k]
    known = {**theirs.info.state_features}
    known |= {("→", a + b): weight for (a, b), weight in theirs.info.transitions.items()}
    assert set(known) <= set(found)
    for name, weight in found.items():
        assert weight == pytest.approx(known.get(name, 0.0), abs=2e-6)


EPOCHS = 6


def orders(made: Problem) -> Orders:
    theirs = TheirOrders(len(made.weight))
    drawn = [theirs.shuffle() for _ in range(EPOCHS)]
    return lambda epoch: drawn[epoch]


def passive_aggressive(**options: Any) -> Make:
    return lambda made, space, start, drawn: PassiveAggressive(
        made, space, start, PA(**options), orders=drawn
    )


def arow(variance: float, gamma: float) -> Make:
    settings = AROW(variance=variance, gamma=gamma)
    return lambda made, space, start, drawn: AROWOptimiser(
        made, space, start, settings, orders=drawn
    )


def averaged(made: Problem, space: ParameterSpace, start: Floats, drawn: Orders) -> Optimiser:
    return AveragedPerceptron(made, space, start, AP(epsilon=0.0), orders=drawn)


METHODS: dict[str, tuple[str, dict[str, Any], Make]] = {
    "pa": ("pa", {}, passive_aggressive()),
    "PA": ("pa", {"type": 0}, passive_aggressive(pa_variant="PA")),
    "PA-I, small C": (
        "pa",
        {"type": 1, "c": 0.03},
        passive_aggressive(pa_variant="PA-I", aggressiveness=0.03),
    ),
    "PA-II": (
        "pa",
        {"type": 2, "c": 0.1},
        passive_aggressive(pa_variant="PA-II", aggressiveness=0.1),
    ),
    "constant cost": ("pa", {"error_sensitive": 0}, passive_aggressive(error_sensitive=False)),
    "not averaged": ("pa", {"averaging": 0}, passive_aggressive(averaging=False)),
    **{
        f"arow {both}": ("arow", both, arow(**both))
        for both in (
            {"variance": 1.0, "gamma": 1.0},
            {"variance": 0.2, "gamma": 3.0},
            {"variance": 10.0, "gamma": 0.5},
        )
    },
    "ap": ("ap", {}, averaged),
}


@pytest.mark.parametrize(("algorithm", "params", "make"), METHODS.values(), ids=METHODS)
def test_online_methods(algorithm: str, params: dict[str, Any], make: Make, tmp_path: Path) -> None:
    index, made = problem()
    space = parameter_space(made)
    theirs = Theirs(tmp_path / "model", algorithm, max_iterations=EPOCHS, **params)
    ours = make(made, space, np.zeros(space.size), orders(made))
    check(theirs, ours, index, made, EPOCHS)


# CRFsuite shrinks the weights before it looks at a sentence, we after: weak penalties hide that.
SGD = {"c2": 0.002, "max_iterations": EPOCHS}


@pytest.mark.parametrize(
    "params",
    [{}, {"calibration.eta": 0.001}, {"calibration.eta": 3.0}, {"calibration.candidates": 2}],
)
def test_the_search_for_a_step_size(params: dict[str, Any], tmp_path: Path) -> None:
    """Of the step sizes that CRFsuite tried, ours takes the same one."""
    log = Theirs(tmp_path / "model", "l2sgd", **SGD, **params).log
    (before,) = re.findall(r"Initial loss: (\S+)", log)
    tried = re.findall(r"Trial #\d+ \(eta = (\S+)\): (\S+)", log)
    (chosen,) = re.findall(r"Best learning rate \(eta\): (\S+)", log)
    values = {float(rate): float(value) for rate, value in tried}

    def trial(rate: float) -> float:
        return values[min(values, key=lambda other: abs(np.log(other / rate)))]

    settings = L2SGD(
        calibration_rate=params.get("calibration.eta", 0.1),
        calibration_candidates=params.get("calibration.candidates", 10),
    )
    found = calibrated_rate(trial, float(before), settings)
    assert found == pytest.approx(float(chosen), rel=1e-2)  # the log has six digits


def test_gradient_descent(tmp_path: Path) -> None:
    _, made = problem()
    space = parameter_space(made)
    theirs = Theirs(tmp_path / "model", "l2sgd", **SGD)
    (first,) = re.findall(r"Best learning rate \(eta\): (\S+)", theirs.log)
    shuffles = TheirOrders(len(made.weight))
    drawn = [shuffles.shuffle() for _ in range(EPOCHS + 1)]  # the first one is for calibration
    ours = SGDOptimiser(
        made,
        space,
        np.zeros(space.size),
        L2SGD(l2=SGD["c2"]),
        first_rate=float(first),
        orders=lambda epoch: drawn[epoch + 1],
    )
    steps = [ours.step() for _ in range(EPOCHS)]
    assert [step.value for step in steps] == pytest.approx(theirs.losses, rel=2e-3)
    norms = [step.measures["norm"] for step in steps]
    assert norms == pytest.approx(theirs.norms, rel=2e-3)
    rates = [float(x) for x in re.findall(r"Learning rate \(eta\): (\S+)", theirs.log)]
    assert [step.measures["rate"] for step in steps] == pytest.approx(rates, abs=2e-6)
    updates = [float(x) for x in re.findall(r"number of feature updates: (\S+)", theirs.log)]
    assert [step.measures["updates"] for step in steps] == updates


@pytest.mark.parametrize("least", [0.0, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("complete", [False, True])
def test_frequencies_of_features(least: float, complete: bool, tmp_path: Path) -> None:
    _, made = problem()
    params = {
        "feature.minfreq": least,
        "feature.possible_states": complete,
        "feature.possible_transitions": complete,
    }
    theirs = Theirs(tmp_path / "model", "ap", max_iterations=1, **params)
    (n_features,) = re.findall(r"Number of features: (\d+)", theirs.log)
    whole = parameter_space(
        made,
        features="complete" if complete else "supported",
        transitions="all" if complete else "observed",
    )
    assert frequent(made, whole, least).size == int(n_features)

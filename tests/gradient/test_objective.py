"""What training says of itself: objectives are never negative, averaged steps lose nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF
from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.training import Chain
from fstcrf.training.online import shuffled
from fstcrf.training.sgd import ASGD
from tests.support.training import flat_train

VALUES = (1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e14)


def told_apart(value: float) -> tuple[list[list[dict[str, float]]], list[list[str]]]:
    """Sentences whose features tell their labels."""
    one = [{"f": value}, {"g": value}, {"f": value}]
    other = [{"g": value}, {"f": value}, {"f": value}]
    return [one, other] * 5, [list("XYX"), list("YXX")] * 5


@pytest.mark.filterwarnings("ignore::fstcrf.errors.LearningWarning")
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"l2": 0.0},
        {"l2": 1e-9},
        {"l1": 1e-3, "l2": 0.0},
        {"order": 2},
        {"stochastic_epochs": 2},
        {"method": "cg"},
        {"method": "asgd"},
    ],
    ids=str,
)
def test_objectives_are_never_negative(options: dict[str, Any], value: float) -> None:
    values: list[float] = []
    data, target = told_apart(value)
    with suppress(NumericError):  # stochastic epochs may find no step size
        flat_train(
            data,
            target,
            max_iterations=60,
            report=lambda progress: values.append(progress.value),
            **options,
        )
    assert values or "stochastic_epochs" in options or options.get("method") == "asgd"
    assert all(one >= 0.0 for one in values)


def test_the_objective_of_large_values_is_that_of_small_ones() -> None:
    """With a penalty in the same units; it is far below the rounding of log Z."""
    found = []
    for value in (1.0, 1e3, 1e6, 1e9):
        data, target = told_apart(value)
        crf = CRF.train(data, target, l2=1e-3 * value**2, order=0, max_iterations=200)
        assert crf.record is not None
        found.append(crf.record.objective)
    np.testing.assert_allclose(np.asarray(found, float), found[0], rtol=1e-4)


# --- Averaged steps -------------------------------------------------------------------------------


def stepped(counts: Floats, rate: float, l2: float, epochs: int) -> Floats:
    """Probabilities of labels by the mean of float64 weights, after averaged gradient descent.

    Of sentences, float64 [B, labels], whose tokens all have one attribute, without transitions.
    """
    n, size = counts.shape
    u, v, mass, steps, scale, done = np.zeros(size), np.zeros(size), 0.0, 0, 1.0, 0
    decay, orders = 2.0 * l2 / n, shuffled(0, n)
    for epoch in range(epochs):
        for own in counts[orders(epoch)]:
            p = np.exp(scale * (u - u.max()))
            eta = rate / (1.0 + decay * rate * done) ** 0.75
            done += 1
            scale *= 1.0 - eta * decay
            change = eta / scale * (own.sum() * p / p.sum() - own)
            u -= change
            v += mass * change
            if epoch:
                mass += scale
                steps += 1
    p = np.exp((mass * u + v) / steps)
    return np.asarray(p / p.sum())


@pytest.mark.thorough
@pytest.mark.parametrize("sentences", [20, 200, 2000, 20000])
@pytest.mark.parametrize("share", [5e-5, 5e-3, 0.2])
@pytest.mark.parametrize("size", [2, 3, 20])
def test_averaged_steps_lose_nothing(size: int, share: float, sentences: int) -> None:
    """However often an attribute occurs, and however small its posteriors are.

    Attributes with two weights are single entries, those with more have rows.
    """
    rng, names = np.random.default_rng(0), [f"l{k:02}" for k in range(size)]
    tokens = np.where(rng.random((sentences, 20)) < share, rng.integers(1, size, (1, 20)), 0)
    tokens[0, :size] = np.arange(size)
    data = fstcrf.Corpus.from_sentences(
        [{"w": ["a"] * 20, "y": [names[k] for k in own]} for own in tokens.tolist()]
    )
    crf = CRF.train(
        data,
        "y",
        "U:%x[0,w]",
        order=0,
        method=ASGD(l2=1e-6, max_iterations=4, calibration_rate=0.01, calibration_trials=1),
        structure=Chain(pairs="complete"),
    )
    counts = np.stack([np.bincount(own, minlength=size) for own in tokens]).astype(np.float64)
    expected = stepped(counts, 0.01, 1e-6, 4)
    found = crf.lattice({"w": ["a"]}).marginals()[0]
    np.testing.assert_allclose(found, expected, rtol=2e-3)

"""Stochastic gradient descent, averaged or not, beside a plain version by enumeration."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.kernel import StochasticLearner
from fstcrf.taggers import CRF
from fstcrf.training import SGDOptimiser, fit
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.sgd import ASGD, L2SGD
from tests.support.problems import Case, random_case
from tests.support.training import flat_train
from tests.unit import test_train_online
from tests.unit.test_train_online import plain_steps

KINDS: dict[str, dict[str, Any]] = {
    **test_train_online.KINDS,
    "observed": {},
    "complete": {"features": "complete", "transitions": "all"},
    "rows": {"attributes": 2, "values": True, "lengths": (4, 4, 4, 3)},
}
TOLERANCE = 2e-5  # float32


def zeros(case: Case) -> Floats:
    return np.zeros(case.space.size)


def plain(
    case: Case,
    epochs: int,
    *,
    seed: int,
    l2: float,
    first: float,
    start: Floats | None = None,
    power: float = 0.75,
) -> tuple[Floats, list[float]]:
    """Every step on all weights, in float64; the mean of those after each, by its definition.

    With the power 1, of l2sgd, there is no mean.
    """
    decay, theta = 2 * l2 / case.n_sentences, zeros(case) if start is None else start
    history, losses = plain_steps(
        case, epochs, lambda k: first / (1 + decay * first * k) ** power, decay, theta, seed
    )
    if power == 1.0:
        return history[-1][-1], losses
    averaged = [one for epoch in history[1:] for one in epoch]
    return (np.mean(averaged, axis=0) if averaged else history[-1][-1]), losses


def check(
    case: Case,
    *,
    seed: int = 5,
    l2: float = 0.3,
    first: float = 0.2,
    settings: type[L2SGD] = ASGD,
) -> None:
    power = 0.75 if settings is ASGD else 1.0
    made = SGDOptimiser(
        case.problem, case.space, zeros(case), settings(l2=l2), seed=seed, first_rate=first
    )
    for epochs in (1, 2, 3):
        step = made.step()
        wanted, losses = plain(case, epochs, seed=seed, l2=l2, first=first, power=power)
        assert made.theta() == pytest.approx(wanted, abs=TOLERANCE, rel=TOLERANCE)
        value = losses[-1] + l2 * float(wanted @ wanted)
        assert step.value == pytest.approx(value, abs=1e-4, rel=TOLERANCE)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_like_the_plain_version(options: dict[str, Any], variant: str) -> None:
    check(random_case(2, **options))
    check(random_case(2, **options), settings=L2SGD)


@settings(max_examples=25)
@example(seed=492, kind="ends and weights", l2=0.0, first=0.3)  # costs far more than it began with
@given(
    seed=st.integers(0, 1000),
    kind=st.sampled_from(sorted(KINDS)),
    l2=st.sampled_from([0.0, 0.1, 1.0]),
    first=st.sampled_from([0.01, 0.3]),
)
def test_random_problems(seed: int, kind: str, l2: float, first: float) -> None:
    check(random_case(seed, **KINDS[kind]), seed=seed, l2=l2, first=first)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_strong_decay(options: dict[str, Any]) -> None:
    """Weights that shrink by half at a step: the scale is put into them every few."""
    case = random_case(3, **(options | {"lengths": (2, 3) * 6}))
    check(case, l2=9.0, first=0.35)


@pytest.mark.parametrize("part", ["table", "dense"])
def test_the_plain_version_notices(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight that is off by a thousandth after an epoch."""
    right = StochasticLearner.epoch

    def off(learner: StochasticLearner, *arguments: Any, **more: Any) -> Any:
        found = right(learner, *arguments, **more)
        state = learner.state()
        array = state[part]
        array[np.abs(array).argmax()] *= 1.001
        learner.restore(**state)  # type: ignore[arg-type]
        return found

    case = random_case(2, ends=True, transitions="all")
    check(case)
    monkeypatch.setattr(StochasticLearner, "epoch", off)
    with pytest.raises(AssertionError):
        check(case)


def test_what_float32_cannot_hold_is_done_in_float64() -> None:
    case = random_case(2, transitions="all", ends=True)
    start = 60.0 * np.random.default_rng(1).normal(size=case.space.size)
    made = SGDOptimiser(case.problem, case.space, start, ASGD(l2=0.3), seed=5, first_rate=0.2)
    made.step()
    assert made.rescued > 0
    wanted, _ = plain(case, 1, seed=5, l2=0.3, first=0.2, start=start)
    assert made.theta() == pytest.approx(wanted, abs=2e-3, rel=1e-4)


@pytest.mark.parametrize("shift", [-45.0, 30.0])
def test_large_weights_of_all_arcs_cancel(shift: float) -> None:
    """Arcs are shifted in common; so are their potentials."""
    case = random_case(2, transitions="all", features="complete")
    start = zeros(case)
    case.space.parts(start)[1][:] = shift
    made = SGDOptimiser(case.problem, case.space, start, ASGD(l2=0.0), seed=5, first_rate=0.2)
    made.step()
    assert made.rescued == 0
    moved = made.theta() - start
    wanted, _ = plain(case, 1, seed=5, l2=0.0, first=0.2, start=start)
    assert moved == pytest.approx(wanted - start, abs=2e-5)


def test_many_labels_of_which_few_follow_each_other() -> None:
    """Of arcs, only the trained ones are summed."""
    labels = [f"L{i}" for i in range(60)]
    case = random_case(1, labels=labels, lengths=(2,) * 6, attributes=20)
    assert len(case.space.transitions) < 60
    check(case, settings=L2SGD)


# --- Runs -----------------------------------------------------------------------------------------


def made(case: Case, seed: int) -> SGDOptimiser:
    return SGDOptimiser(case.problem, case.space, zeros(case), ASGD(), seed=seed)


def test_steps_that_diverge_say_where() -> None:
    case = random_case(0, values=True)
    far = SGDOptimiser(case.problem, case.space, zeros(case), ASGD(), first_rate=1e30)
    with pytest.raises(NumericError, match=r"epoch 1: the weights grow .* at sentence [0-9]+"):
        fit(far, max_iterations=5)
    wild = SGDOptimiser(case.problem, case.space, zeros(case), ASGD(l2=0.0), first_rate=1e4)
    start, found = wild.theta(), fit(wild, max_iterations=5)
    assert re.match(
        r"diverged after iteration 1: epoch 2 with steps from .* ended far", found.reason
    )
    assert found.reason.endswith("; the weights kept are those at the start")
    assert np.array_equal(found.theta, start)


def test_the_best_weights_are_kept_where_later_steps_diverge() -> None:
    case = random_case(0, values=True)
    optimiser = made(case, 0)
    steps, kept = iter(range(10)), []

    def grow() -> Any:
        kept.append(optimiser.theta())
        if next(steps) == 3:
            optimiser.first_rate = 1e35
        return SGDOptimiser.step(optimiser)

    optimiser.step = grow  # type: ignore[method-assign]
    found = fit(optimiser, max_iterations=10)
    assert found.reason.startswith("diverged after iteration 3: epoch 4: ")
    assert "; lower calibration_rate or l2" in found.reason
    assert any(np.array_equal(found.theta, one) for one in kept[1:])


def test_lbfgs_names_what_can_be_done_about_its_epochs() -> None:
    """It has no option for their step sizes."""
    wanted = r"no step size from .* converges: lower l2, or .*: stochastic_epochs=0$"
    with pytest.raises(NumericError, match=wanted) as raised:
        CRF.train(SENTENCES, "y", TEMPLATE, method=LBFGS(l2=1e200, stochastic_epochs=2))
    assert "calibration" not in str(raised.value)
    CRF.train(
        SENTENCES,
        "y",
        TEMPLATE,
        method=LBFGS(l2=1e9, stochastic_epochs=0, max_iterations=2),
    )


SENTENCES = [
    {"word": ["the", "big", "dog", "ran"], "y": ["B-X", "I-X", "I-X", "O"]},
    {"word": ["a", "dog", "ran", "home"], "y": ["B-X", "I-X", "O", "B-Y"]},
    {"word": ["ran"], "y": ["O"]},
]
TEMPLATE = "U1:%x[0,word]\nU2:%x[0,suffix(word,1)]\nB\n"


def train(data: Any = SENTENCES, **more: Any) -> CRF:
    return flat_train(data, "y", TEMPLATE, method="asgd", **more)


@pytest.mark.parametrize("l2", [0.0, 0.5, 50.0])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_small_corpora(n: int, l2: float) -> None:
    """Of one sentence, too; labels that occur once; no penalty."""
    tagger = train(SENTENCES[:n], l2=l2)
    assert np.isfinite(tagger.theta).all()
    if not l2:
        assert tagger.tag_all(SENTENCES[:n]) == [one["y"] for one in SENTENCES[:n]]


def test_a_warm_start_keeps_what_does_not_occur() -> None:
    first = train(l2=0.0)
    again = train(SENTENCES[2:], l2=0.0, start=first)
    assert again.theta.any()
    assert again.tag_all(SENTENCES) == first.tag_all(SENTENCES)

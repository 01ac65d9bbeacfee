"""Learning from rewards as an optimiser: steps, schedules, resuming, what is refused."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.demo import COLUMNS, corpus_path, template_path
from fstcrf.errors import (
    DataError,
    LabelError,
    LearningWarning,
    NumericError,
    OptionError,
    ShapeError,
)
from fstcrf.ext.feedback import (
    Aim,
    Rater,
    Rule,
    Schedule,
    collect_log,
    learn_from_log,
    simulate,
    untrained,
)
from fstcrf.ext.feedback.bandit import Bandit
from fstcrf.ext.feedback.descent import Controls, Judge
from fstcrf.ext.feedback.kernel import Proposals
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus, read_columns
from fstcrf.training import Checkpoint, Progress, fit
from tests.support.feedback_cases import STILL, bandits
from tests.support.problems import Case, random_case, separable_case

RULES = [
    Rule(rate=0.2),
    Rule("momentum", rate=0.05, decay=0.01),
    Rule("adadelta", rate=0.5),
]
FAST = Rule(rate=0.5)


def bandit(case: Case, **options: Any) -> Bandit:
    fields: dict[str, Any] = {"aim": Aim(), "rule": FAST, **options}
    return Bandit(case.problem, case.space, np.zeros(case.space.size), **fields)


ERRING = Rater(deviation=0.2, steps=4, slips=0.1, people=3, bias=0.1)
SLOW, FASTER = Rule(rate=0.05), Rule(rate=0.3)
MEAN, PAIRS = Aim(control="mean"), Aim("logistic")
LEARNERS: dict[str, tuple[dict[str, Any], int, float]] = {
    **{rule.name: ({"aim": MEAN, "rule": rule}, 150, 0.7) for rule in RULES},
    "without a control": ({"aim": Aim(), "rule": RULES[0]}, 150, 0.7),
    "control of a sentence": ({"aim": Aim(control="sentence"), "rule": RULES[0]}, 150, 0.7),
    **{
        name: ({"aim": Aim(name, control="mean", clip=0.1), "rule": SLOW, "graded": True}, 300, 0.7)
        for name in ("preference", "cross-entropy")
    },
    "binary preferences of one distribution": (
        {"aim": Aim("preference", control="mean", opponent="same"), "rule": FASTER},
        300,
        0.9,
    ),
    "leaving one out": (
        {"aim": Aim(control="leave-one-out", draws=4), "rule": FASTER, "samples": 60},
        100,
        0.8,
    ),
    "pairs": ({"aim": PAIRS, "rule": FASTER}, 300, 0.9),
    "people who err": ({"aim": MEAN, "rule": Rule(rate=0.1), "rater": ERRING}, 300, 0.65),
    "pairs of people who err": ({"aim": PAIRS, "rule": Rule(rate=0.1), "rater": ERRING}, 300, 0.65),
}
"""Options, steps, and the least reward that is reached."""


@pytest.mark.parametrize("name", LEARNERS)
def test_it_learns(name: str) -> None:
    options, steps, least = LEARNERS[name]
    case = separable_case()
    judge = bandit(case, rule=Rule(rate=1e-9))
    assert judge.step().measures["reward"] < 0.5
    one = bandit(case, **options)
    for _ in range(steps):
        step = one.step()
    assert step.measures["updates"] == steps * options.get("samples", 30)
    assert ("clipped" in step.measures) == (name == "cross-entropy")
    judge._descent.theta = one._descent.theta
    assert judge.step().measures["reward"] > least


def test_a_control_lowers_the_variance() -> None:
    case, variance = random_case(3, lengths=(1, 9, 2, 5) * 5), {}
    theta = 3.0 * np.random.default_rng(0).normal(size=case.space.size)
    for control in ("none", "mean", "sentence"):
        aim = Aim(control=control, own_rate=0.05)
        rule = Rule(rate=1e-9)  # the same samples for all
        one = Bandit(case.problem, case.space, theta, aim=aim, rule=rule)
        steps = [one.step().measures["coefficient variance"] for _ in range(200)]
        variance[control] = np.mean(steps[100:])
    assert variance["sentence"] < 0.8 * variance["none"]
    assert variance["mean"] == pytest.approx(variance["none"], rel=0.05)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_going_on_has_the_same_bits(rule: Rule, tmp_path: Path) -> None:
    def fresh() -> Bandit:
        aim = Aim(control="sentence", temperature=2.0)
        schedule = Schedule(annealing=True, momentum=True)
        return bandit(separable_case(), aim=aim, rule=rule, schedule=schedule, samples=45, seed=4)

    straight = fit(fresh(), max_iterations=9)
    for limit in (3, 6, 9):
        kept = Checkpoint(tmp_path / "state", fingerprint="one", every=3, resume=True)
        resumed = fit(fresh(), max_iterations=limit, checkpoint=kept)
    np.testing.assert_array_equal(resumed.theta, straight.theta)


def test_rewards_in_batches() -> None:
    """Rewards of one's own; those of the judge give the same."""
    case = separable_case()
    gold = case.problem.states

    def rewards(made: Proposals) -> Floats:
        found = []
        at = 0
        for b in made.order.tolist():
            first, last = case.problem.offsets[b : b + 2].tolist()
            path = made.path[at : at + last - first]
            found.append(float((path == gold[first:last]).mean()))
            at += last - first
        return np.asarray(found)

    judged, told = bandit(case, batch=7), bandit(case, batch=7, rewards=rewards)
    for _ in range(5):
        a, b = judged.step(), told.step()
        assert a.value == pytest.approx(b.value, abs=1e-12)
    np.testing.assert_allclose(judged.theta(), told.theta(), atol=1e-12)


def test_schedules() -> None:
    both = Schedule(annealing=True, momentum=True)
    aim, rule = Aim(temperature=3.0), Rule("momentum", rate=0.01, momentum=0.9)
    assert both.aim(aim, 0).temperature == 3.0
    assert both.aim(aim, 7).temperature == pytest.approx(1.5)
    assert both.rule(rule, 0).momentum == 0.5
    assert both.rule(rule, 4).momentum == 0.75
    assert both.rule(rule, 1000).momentum == 0.9
    assert Schedule().aim(aim, 7) == aim
    assert Schedule().rule(rule, 7) == rule


def test_simulated_from_a_corpus() -> None:
    """Nothing but rewards; the best epoch on held-out data is kept."""
    train = read_columns(corpus_path("train"), COLUMNS)[:400]
    dev = read_columns(corpus_path("dev"), COLUMNS)[:100]
    labels = sorted({label for s in train.column_lists("field") for label in s})
    start = untrained(train, labels, template_path("field"), scheme="iob2", tape="field")
    aim, rule = Aim(control="mean"), Rule(rate=0.5)
    seen: list[Progress] = []
    model, outcome = simulate(
        start, train, "field", aim=aim, rule=rule, epochs=25, dev=dev, report=seen.append
    )
    assert len(seen) == 25
    assert outcome.dev == max(p.dev for p in seen if p.dev is not None)
    assert outcome.dev is not None
    assert outcome.dev > 0.3
    assert model.tape == "field"
    assert seen[-1].measures["reward"] > seen[0].measures["reward"] + 0.1


# --- Leaving one out, raters, logs, and learning that stands still --------------------------------


def test_raters_that_do_not_err_change_nothing() -> None:
    ones = [bandit(separable_case(), rater=rater, seed=3) for rater in (None, Rater())]
    for _ in range(3):
        assert ones[0].step() == ones[1].step()
    np.testing.assert_array_equal(ones[0].theta(), ones[1].theta())


def test_what_raters_say() -> None:
    """Biases are those of people, slips as many as asked for, and on the scale."""
    rater = Rater(deviation=0.3, steps=4, slips=0.25, people=2, bias=0.5)
    generator = np.random.default_rng(0)
    biases = rater.biases(generator)
    noise = rater.noise(20_000, Aim(), biases, generator)
    assert (noise.slip >= 0).mean() == pytest.approx(0.25, abs=0.01)
    assert set(noise.slip[noise.slip >= 0]) == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert noise.error.mean() == pytest.approx(biases.mean(), abs=0.02)
    own = (noise.error[:, 0] - noise.error[:, 1]).std()  # of both of a pair, one person's
    assert own == pytest.approx(0.3 * np.sqrt(2), rel=0.03)
    pairs = rater.noise(1000, Aim("logistic"), biases, generator)
    assert set(pairs.slip) == {-1.0, 0.0, 1.0}


def logged_problem() -> tuple[CRF, Corpus]:
    rng = np.random.default_rng(0)
    words = [[f"w{i}" for i in rng.integers(4, size=5)] for _ in range(120)]
    tags = [["N" if word in {"w0", "w1"} else "V" for word in sentence] for sentence in words]
    data = Corpus.from_sentences([{"word": w, "np": t} for w, t in zip(words, tags, strict=True)])
    return untrained(data, ("N", "V"), "U:%x[0,word]", tape="np"), data


@pytest.mark.parametrize("objective", ["expected-loss", "cross-entropy"])
def test_learning_from_a_log(objective: Any) -> None:
    """A tagger that guesses has labelled; its rewards alone say what is right."""
    start, data = logged_problem()
    log = collect_log(start, data, "np", seed=1)
    np.testing.assert_allclose(log.log_p, -5 * np.log(2), atol=1e-9)
    gold = data.column_lists("np")
    for shown, right, reward in zip(log.data.column_lists("np"), gold, log.reward, strict=True):
        assert reward == pytest.approx(sum(map(str.__eq__, shown, right)) / 5)
    seen: list[Progress] = []
    aim = Aim(objective, control="mean", cap=5.0, clip=1e-3)
    rule = Rule(rate=0.05 if objective == "expected-loss" else 0.002)
    model, _ = learn_from_log(start, log, aim=aim, rule=rule, epochs=30, report=seen.append)
    found = [tag for tags in model.tag_all(data) for tag in tags]
    share = np.mean([a == b for a, b in zip(found, itertools.chain(*gold), strict=True)])
    assert share > (0.95 if objective == "expected-loss" else 0.8)
    assert seen[0].measures["effective share"] > seen[-1].measures["effective share"]
    assert 0 <= seen[-1].measures["capped"] < 1
    assert seen[-1].measures["estimated reward"] > log.reward.mean()


def test_logs_are_checked() -> None:
    start, data = logged_problem()
    log = collect_log(start, data[:3], "np")
    for fields, words in (
        ({"reward": log.reward[:2]}, "expected one of each"),
        ({"reward": log.reward + 2}, "outside"),
        ({"log_p": -log.log_p}, "at most 0"),
        ({"data": data[:2]}, "3 rewards for 2 sentences"),
    ):
        with pytest.raises((OptionError, ShapeError), match=words):
            replace(log, **fields)
    with pytest.raises(OptionError, match="a log has single samples"):
        learn_from_log(start, log, aim=Aim("logistic"), rule=Rule())


def test_learning_that_stands_still_is_told() -> None:
    """A tagger that is sure of what is wrong never draws anything else."""
    start, data = logged_problem()
    wrong = data.with_column("np", [["V"] * 5 for _ in range(len(data))])
    sure = CRF.train(wrong, "np", "U:%x[0,word]", start=start, l2=1e-6)
    gold = data.with_column("np", [["N"] * 5 for _ in range(len(data))])
    with pytest.warns(LearningWarning, match="stands still: samples have a mean probability of"):
        _, outcome = simulate(sure, gold, "np", aim=Aim(), rule=Rule(rate=1e-3), epochs=2)
    assert "take a control, a lower rate or another seed" in outcome.reason
    with warnings.catch_warnings():
        warnings.simplefilter("error", LearningWarning)
        simulate(sure, wrong, "np", aim=Aim(), rule=Rule(rate=1e-3), epochs=2)
        simulate(start, gold, "np", aim=Aim(), rule=Rule(rate=1e-3), epochs=2)


def test_only_weights_that_are_there() -> None:
    _, data = logged_problem()
    small = CRF.train(data, "np", "U:%x[0,word]", l2=1.0, max_iterations=1)
    rule = Rule(rate=0.1)
    model, _ = simulate(small, data, "np", aim=Aim(), rule=rule, epochs=3, complete=False)
    assert model.space is small.space
    whole, _ = simulate(small, data, "np", aim=Aim(), rule=rule, epochs=3)
    assert whole.space.size > small.space.size


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (Aim, {"objective": "hinge"}, "objective is 'hinge', expected one of expected-loss"),
        (Aim, {"control": "all"}, "control is 'all'"),
        (Aim, {"clip": 1.5}, r"clip is 1.5, expected a number in \[0, 1\]"),
        (Aim, {"temperature": 0.0}, "temperature is 0.0"),
        (Aim, {"own_rate": 0.0}, "own_rate"),
        (Aim, {"beta": 0.0}, "beta is 0.0"),
        (Aim, {"cap": -1.0}, "cap is -1.0"),
        (Aim, {"draws": 2}, "draws is 2 with control 'none'"),
        (Aim, {"control": "leave-one-out"}, "draws is 1 with control 'leave-one-out'"),
        (Rater, {"deviation": -1.0}, "deviation is -1.0"),
        (Rater, {"bias": float("inf")}, "bias is inf"),
        (Rater, {"slips": 2.0}, "slips is 2.0"),
        (Rater, {"people": 0}, "0 people"),
        (Aim, {"common_rate": float("nan")}, "common_rate"),
        (Rule, {"name": "adam"}, "rule is 'adam'"),
        (Rule, {"rate": 0.0}, "rate is 0.0"),
        (Rule, {"rate": float("inf")}, "rate is inf"),
        (Rule, {"decay": -1.0}, "decay"),
        (Rule, {"rate": 0.5, "decay": 2.0}, "rate · decay is 1.0"),
        (Rule, {"name": "momentum", "momentum": 1.0}, "momentum is 1.0"),
        (Rule, {"name": "momentum", "rate": 0.1, "decay": 0.5, "momentum": 0.9}, "momentum is"),
        (Rule, {"rho": 1.0}, "rho"),
        (Rule, {"epsilon": 0.0}, "epsilon"),
    ],
)
def test_settings(kind: Any, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        kind(**fields)


def test_problems_without_gold_labels() -> None:
    with pytest.raises(OptionError, match="labels that are not known: nothing to judge by"):
        bandit(random_case(0, partial=True, lengths=(1, 4, 4, 4)))
    with pytest.raises(OptionError, match="B features of the input"):
        bandit(random_case(0, arcs=True))


THREE = Aim(control="leave-one-out", draws=3)


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 0},
        {"samples": 0},
        {"rewards": lambda made: made.log_p},
        {"aim": THREE, "samples": 31},
        {"aim": THREE, "batch": 4, "samples": 30},
    ],
)
def test_batches(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        bandit(separable_case(), **options)


@pytest.mark.parametrize("reward", [-0.5, 1.5, float("nan")])
def test_rewards_outside(reward: float) -> None:
    one = bandit(separable_case(), batch=4, rewards=lambda made: np.full(len(made.order), reward))
    before = one.theta()
    with pytest.raises(OptionError, match=r"reward of proposal 0 is .*, expected one in \[0, 1\]"):
        one.step()
    np.testing.assert_array_equal(one.theta(), before)


@pytest.mark.parametrize("rewards", [["a"] * 4, None, [None] * 4, [0.5] * 3, 0.5])
def test_rewards_that_are_no_numbers(rewards: Any) -> None:
    one = bandit(separable_case(), batch=4, samples=4, rewards=lambda _: rewards)
    with pytest.raises((OptionError, ShapeError), match=r"rewards? .* expected") as caught:
        one.step()
    assert "\n" not in str(caught.value)


def test_rewards_in_a_list() -> None:
    one = bandit(separable_case(), batch=4, samples=4, rewards=lambda _: [0, 1, 0.5, 0.25])
    assert one.step().measures["reward"] == pytest.approx(0.4375)


@pytest.mark.parametrize("rule", ["constant", "momentum", "adadelta"])
@pytest.mark.parametrize("labels", [("O", "B-X", "I-X"), ("N", "V")])
def test_divergence_at_once(labels: tuple[str, ...], rule: Any) -> None:
    """Weights of 1e307 are numbers, but nothing adds up any more."""
    data = Corpus.from_sentences([{"word": ["a", "b"], "np": list(labels[:2])}] * 20)
    start = untrained(data, labels, "U:%x[0,word]\nB", tape="np")
    with pytest.raises(NumericError, match=r"are no longer finite at sentence .*: lower the rate"):
        simulate(start, data, "np", aim=Aim(), rule=Rule(rule, rate=1e308), epochs=5)


def test_divergence_later_keeps_the_start_where_nothing_is_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = Corpus.from_sentences([{"word": ["a", "b"], "np": ["N", "V"]}] * 20)
    start = untrained(data, ("N", "V"), "U:%x[0,word]\nB", tape="np")
    step = Bandit.step

    def diverging(one: Bandit) -> Any:
        if one._epoch:
            one.rule = Rule(rate=1e308)
        return step(one)

    monkeypatch.setattr(Bandit, "step", diverging)
    with pytest.warns(LearningWarning, match="diverged after iteration 1") as told:
        model, outcome = simulate(start, data, "np", aim=Aim(), rule=Rule(rate=0.1), epochs=5)
    assert told[0].filename == __file__
    assert outcome.reason.startswith("diverged after iteration 1: ")
    assert outcome.best_iteration == 0
    np.testing.assert_array_equal(model.theta, start.theta)


def test_held_out_data_without_spans() -> None:
    """Silently counting right tokens would choose another epoch than F; labels of tokens may."""
    words = [["a", "b"], ["b"]]
    data = Corpus.from_sentences([{"word": w, "np": ["B-X", "I-X"][: len(w)]} for w in words])
    outside = Corpus.from_sentences([{"word": w, "np": ["O"] * len(w)} for w in words])
    start = untrained(data, ("O", "B-X", "I-X"), "U:%x[0,word]", tape="np")
    with pytest.raises(DataError, match="the held-out data has no gold segment"):
        simulate(start, data, "np", aim=Aim(), rule=Rule(), dev=outside)
    tags = untrained(data, ("O", "N"), "U:%x[0,word]", tape="np")
    _, outcome = simulate(tags, outside, "np", aim=Aim(), rule=Rule(), epochs=1, dev=outside)
    assert outcome.dev is not None


def test_simulation_refuses() -> None:
    data = Corpus.from_sentences([{"word": ["a"], "np": ["B-X"]}])
    start = untrained(data, ("O", "B-X"), "U:%x[0,word]", tape="np")
    aim, rule = Aim(), Rule()
    empty = Corpus.from_sentences([{"word": [], "np": []}])
    with pytest.raises(DataError, match="no sentence to learn from"):
        simulate(start, empty, "np", aim=aim, rule=rule)
    other = Corpus.from_sentences([{"word": ["a"], "np": ["B-Y"]}])
    with pytest.raises(LabelError, match="B-Y"):
        simulate(start, other, "np", aim=aim, rule=rule)
    nothing = Corpus.from_sentences([{"word": ["a"], "np": ["O"]}])
    with pytest.raises(DataError, match="no gold segment"):
        simulate(start, data, "np", aim=aim, rule=rule, dev=nothing)
    model, outcome = simulate(start, data, "np", aim=aim, rule=rule, epochs=2)
    assert outcome.dev is None
    assert model.space.size == start.space.size


def test_kernel_refuses() -> None:
    one = bandits(0)
    with pytest.raises(OptionError, match="order names an unknown sentence, expected 0 to 2"):
        one.propose(np.asarray([3]), Aim(), seed=0)
    made = one.propose(np.asarray([0]), Aim(), seed=0)
    with pytest.raises(ShapeError, match="uniform"):
        one.feedback.propose(one.batch, made.order, Aim(), STILL, np.zeros(99))
    with pytest.raises(ShapeError, match="mean"):
        one.feedback.reinforce(one.batch, made, Aim(), STILL, Controls.of(9), np.asarray([0.5]))
    wrong = replace(made, node=made.node[:, :1])
    with pytest.raises(ShapeError, match="node"):
        one.feedback.reinforce(one.batch, wrong, Aim(), STILL, Controls.of(3), np.asarray([0.5]))
    problem = one.case.problem
    with pytest.raises(ShapeError, match="sentences are not empty"):
        one.feedback.batch(np.asarray([0, 0, 6]), problem.node)
    with pytest.raises(ShapeError, match="design is"):
        one.feedback.batch(np.asarray([0, 3]), problem.node)
    with pytest.raises(ShapeError, match="gold holds numbers outside"):
        Judge(np.asarray([7], dtype=np.int32), 3)
    with pytest.raises(ShapeError, match="other sizes"):
        Judge(np.asarray([1], dtype=np.int32), 3, np.zeros((2, 2), dtype=np.uint8))

"""Learning from rewards against enumeration: samples, directions, gradients, rewards, rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, OptionError
from fstcrf.ext.feedback.bandit import gold_judge
from fstcrf.ext.feedback.descent import Aim, Controls, Noise, Rule
from tests.support.document_cases import p_value
from tests.support.feedback_cases import STILL, Bandits, bandits, shares, span_f
from tests.support.problems import iob2

BIO = ("B-X", "I-X", "O")
CASES: dict[str, dict[str, Any]] = {
    "order 0": {"order": 0},
    "order 1": {"features": "complete", "transitions": "all"},
    "supported, ends": {"ends": True},
    "values": {"values": True, "features": "complete", "ends": True},
    "bio": {"labels": BIO, "legal": iob2, "features": "complete", "transitions": "all"},
    "order 2": {"order": 2, "labels": BIO, "legal": iob2, "start": "O", "features": "complete"},
    "many arcs missing": {
        "labels": tuple("ABCDEFGHIJ"),
        "legal": lambda a, b: None in {a, b} or abs(ord(a) - ord(b)) <= 1,
        "ends": True,
    },
}
each_case = pytest.mark.parametrize("options", CASES.values(), ids=CASES)
SAMPLES = 4000


def frequencies_agree(seen: Counter[Any], paths: list[Any], share: Floats) -> bool:
    return p_value(seen, dict(zip(paths, share.tolist(), strict=True))) > 1e-5


@pytest.mark.thorough
@each_case
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_samples_of_both_signs(variant: str, options: dict[str, Any], temperature: float) -> None:
    one = bandits(3, **options)
    aim = Aim("preference", temperature=temperature)
    for sentence in range(one.case.n_sentences):
        order = np.full(SAMPLES, sentence, dtype=np.int64)
        made = one.propose(order, aim, seed=sentence)
        paths, features = one.paths(sentence)
        for sign, states in ((1.0, made.path), (-1.0, made.other)):
            seen = Counter(one.labels(path) for path in np.split(states, SAMPLES))
            share = shares(features, sign * one.theta / temperature)
            assert frequencies_agree(seen, paths, share)


def test_pairs_of_one_distribution(variant: str) -> None:
    """Both of a pair are samples of p, independent of each other; a step leads from z to y."""
    one = bandits(3, **CASES["bio"])
    aim = Aim("preference", opponent="same")
    for sentence in range(one.case.n_sentences):
        made = one.propose(np.full(SAMPLES, sentence, dtype=np.int64), aim, seed=sentence)
        paths, features = one.paths(sentence)
        share = shares(features, one.theta)
        drawn = [
            [one.labels(path) for path in np.split(states, SAMPLES)]
            for states in (made.path, made.other)
        ]
        for labels in drawn:
            assert frequencies_agree(Counter(labels), paths, share)
        both = [(a, b) for a in paths for b in paths]
        seen = Counter(zip(*drawn, strict=True))
        assert frequencies_agree(seen, both, np.outer(share, share).ravel())
    start = one.theta_now()
    made = one.propose(np.asarray([1]), aim, seed=7)
    paths, features = one.paths(1)
    first, second = (paths.index(one.labels(path)) for path in (made.path, made.other))
    heard = one.feedback.reinforce(one.batch, made, aim, STILL, Controls.of(3), np.zeros(1))
    assert heard.coefficient[0] == 1.0
    wanted = features[second] - features[first]
    np.testing.assert_allclose(one.theta_now() - start, wanted, atol=1e-9)


def test_samples_where_numbers_underflow(variant: str) -> None:
    """Potentials of thousands: the kernel goes to the log domain by itself."""
    one = bandits(1, scale=800.0, order=2, labels=BIO, legal=iob2, start="O", features="complete")
    order = np.full(50, 1, dtype=np.int64)
    made = one.propose(order, Aim("preference"), seed=0)
    paths, features = one.paths(1)
    for sign, states in ((1.0, made.path), (-1.0, made.other)):
        share = shares(features, sign * one.theta)
        likely = {path for path, p in zip(paths, share, strict=True) if p > 1e-12}
        assert {one.labels(path) for path in np.split(states, 50)} <= likely


@each_case
@pytest.mark.parametrize("pairs", [False, True])
def test_directions_and_probabilities(variant: str, options: dict[str, Any], pairs: bool) -> None:
    """A step of rate 1 with coefficient −1 adds exactly the direction that enumeration gives."""
    aim = Aim("preference") if pairs else Aim("cross-entropy", clip=1.0)
    for sentence in range(3):
        one = bandits(5, **options)
        made = one.propose(np.asarray([sentence]), aim, seed=sentence)
        paths, features = one.paths(sentence)
        share = shares(features, one.theta)
        mine = paths.index(one.labels(made.path))
        assert made.log_p[0] == pytest.approx(np.log(share[mine]), abs=1e-9)
        wanted = features[mine] - share @ features
        if pairs:
            other = shares(features, -one.theta)
            wanted -= features[paths.index(one.labels(made.other))] - other @ features
        # Signals: 1 − 0 for pairs, −1 / max(p, 1) for the cross-entropy.
        reward, sign = (np.zeros(1), -1.0) if pairs else (np.ones(1), 1.0)
        heard = one.feedback.reinforce(one.batch, made, aim, Rule(rate=1.0), Controls.of(3), reward)
        assert heard.coefficient[0] == -sign
        np.testing.assert_allclose(one.theta_now() - one.theta, sign * wanted, atol=1e-9)


@pytest.mark.parametrize("control", ["none", "mean", "sentence"])
@pytest.mark.parametrize("objective", ["expected-loss", "preference", "cross-entropy"])
def test_coefficients(objective: Any, control: Any) -> None:
    """Signals and running means, one after the other."""
    one = bandits(4, labels=BIO, legal=iob2)
    aim = Aim(objective, control=control, clip=0.2, common_rate=0.25, own_rate=0.5)
    order = np.asarray([0, 1, 0, 2, 1, 0, 0])
    made = one.propose(order, aim, seed=0)
    reward = np.asarray([0.1, 0.9, 0.4, 1.0, 0.0, 0.3, 0.6])
    heard = one.feedback.reinforce(one.batch, made, aim, Rule(), Controls.of(3), reward)
    common, own, wanted = None, dict[int, float](), []
    for k, (b, g) in enumerate(zip(order.tolist(), reward.tolist(), strict=True)):
        signal = 1.0 - g
        if objective == "cross-entropy":
            signal = -g / max(np.exp(made.log_p[k]), 0.2)
        before = signal if common is None else common
        if control == "sentence":
            before = own.get(b, before)
            own[b] = before + 0.5 * (signal - before)
        wanted.append(signal - (before if control != "none" else 0.0))
        start = signal if common is None else common
        common = start + max(0.25, 1.0 / (k + 1)) * (signal - start)
    np.testing.assert_allclose(heard.coefficient, wanted, rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("graded", [False, True])
def test_rewards(variant: str, graded: bool) -> None:
    one = bandits(6, labels=("B-X", "I-X", "B-Y", "I-Y", "O"), legal=iob2, lengths=(1, 4, 6))
    judge = gold_judge(one.case.problem, graded=graded)
    order = np.repeat(np.arange(3), 200)
    seen = set()
    for aim in (Aim(), Aim("preference"), Aim("logistic")):
        made = one.propose(order, aim, seed=1)
        found = one.feedback.judge(one.batch, made, aim, judge)
        cuts = np.cumsum(one.batch.lengths[order])[:-1]
        names = one.case.labels
        others = np.split(made.other, cuts) if aim.pairs else [None] * len(order)
        for k, (path, other) in enumerate(zip(np.split(made.path, cuts), others, strict=True)):
            gold = tuple(names[i] for i in one.case.gold(int(order[k])))
            wanted = span_f(tuple(names[i] for i in one.labels(path)), gold)
            if other is not None:
                ahead = wanted - span_f(tuple(names[i] for i in one.labels(other)), gold)
                wanted = max(ahead, 0.0) if graded else float(ahead > 0)
                if aim.objective == "logistic":  # a tie is worth one half
                    wanted = (1.0 + (ahead if graded else np.sign(ahead))) / 2.0
            assert found[k] == pytest.approx(wanted, abs=1e-12)
            seen.add(round(wanted, 3))
    assert {0.0, 0.5, 1.0} <= seen
    assert len(seen) > 4


def test_nothing_where_there_is_nothing_is_right() -> None:
    one = bandits(0, labels=BIO, legal=iob2, lengths=(3,))
    allowed = np.zeros((3, 3), dtype=bool)
    allowed[:, 2] = True
    judge = gold_judge(replace(one.case.problem, allowed=allowed))
    made = one.propose(np.zeros(1, dtype=np.int64), Aim(), seed=0)
    empty = replace(made, path=np.full(3, 2, dtype=np.int32))
    assert one.feedback.judge(one.batch, empty, Aim(), judge)[0] == 1.0
    assert one.feedback.judge(one.batch, replace(made, path=made.path * 0), Aim(), judge)[0] == 0.0


def test_labels_that_are_no_spans() -> None:
    one = bandits(0, lengths=(4,))
    judge = gold_judge(one.case.problem)
    made = one.propose(np.zeros(1, dtype=np.int64), Aim(), seed=0)
    gold = one.case.gold(0)
    right = sum(a == b for a, b in zip(one.labels(made.path), gold, strict=True))
    assert one.feedback.judge(one.batch, made, Aim(), judge)[0] == right / 4


# --- Rules ----------------------------------------------------------------------------------------

RULES = [
    Rule(rate=0.05),
    Rule(rate=0.05, decay=0.3),
    Rule("momentum", rate=0.05, momentum=0.8),
    Rule("momentum", rate=0.05, momentum=0.5, decay=0.3),
    Rule("adadelta", rate=0.7, rho=0.9, epsilon=1e-3),
    Rule("adadelta", rate=0.7, rho=0.6, epsilon=1e-3, decay=0.1),
]


def dense_steps(one: Bandits, rule: Rule, gradients: list[Floats]) -> Floats:
    """What each rule does when it goes over all parameters at every step."""
    w = one.theta.copy()
    v, squares, changes = (np.zeros_like(w) for _ in range(3))
    share = 1.0 - rule.momentum if rule.name == "momentum" else 1.0
    for g in gradients:
        w *= 1.0 - rule.rate * rule.decay / share
        if rule.name == "constant":
            w -= rule.rate * g
        elif rule.name == "momentum":
            v = rule.momentum * v - rule.rate * g
            w += v
        else:
            squares = rule.rho * squares + (1 - rule.rho) * g * g
            change = np.sqrt((changes + rule.epsilon) / (squares + rule.epsilon)) * g
            changes = rule.rho * changes + (1 - rule.rho) * change * change
            w -= rule.rate * change
    return w


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "labels", "features"),
    [
        *((rule, 3, features) for rule in RULES for features in ("complete", "supported")),
        # Rows of half a register, one, one and a half, two and more.
        *(
            (rule, labels, "complete")
            for rule in (RULES[3], RULES[5])
            for labels in (7, 10, 14, 20)
        ),
    ],
    ids=str,
)
def test_sparse_steps_are_dense_steps(variant: str, rule: Rule, labels: int, features: str) -> None:
    """Rows that wait for many steps, and tokens of a sentence that share rows, change nothing."""
    lengths, steps = ((1, 3, 2, 1, 2), 60) if labels == 3 else ((1, 2, 1), 20)
    one = bandits(
        7,
        labels=tuple("ABCDEFGHIJKLMNOPQRST"[:labels]),
        lengths=lengths,
        attributes=12,
        features=features,
        transitions="all",
        ends=True,
    )
    order = np.random.default_rng(0).integers(len(lengths), size=steps)
    aim, controls = Aim(), Controls.of(len(lengths))
    reward, gradients = np.random.default_rng(1).random(steps), []
    for k in range(0, steps, 4):  # four proposals at a time, from the same weights
        some = order[k : k + 4]
        made = one.propose(some, aim, seed=k, rule=rule)
        now = settled(one, rule)
        cuts = np.cumsum(one.batch.lengths[some])[:-1]
        for b, path, g in zip(some, np.split(made.path, cuts), reward[k : k + 4], strict=True):
            paths, counts = one.paths(int(b))
            share = shares(counts, now)
            gradients.append((1 - g) * (counts[paths.index(one.labels(path))] - share @ counts))
        one.feedback.reinforce(one.batch, made, aim, rule, controls, reward[k : k + 4])
        wanted = dense_steps(one, rule, gradients)
        np.testing.assert_allclose(settled(one, rule), wanted, atol=1e-9)


def settled(one: Bandits, rule: Rule) -> Floats:
    """The true parameters of now, of a copy that is brought up to date."""
    copied = copy_of(one)
    copied.feedback.descent.settle(rule)
    return copied.theta_now()


def copy_of(one: Bandits) -> Bandits:
    copied = Bandits(one.case, one.theta)
    mine, theirs = copied.feedback.descent, one.feedback.descent
    for name in ("theta", "first", "second"):
        part = getattr(theirs, name)
        if part is not None:
            setattr(mine, name, type(part)(*(a.copy() for a in part.arrays())))
    mine.touched = None if theirs.touched is None else theirs.touched.copy()
    mine.scale, mine.step = theirs.scale, theirs.step
    return copied


def test_an_epoch_is_one_after_the_other(variant: str) -> None:
    """The fused loop has the same bits as proposing, judging and learning sentence by sentence."""
    options: dict[str, Any] = {"labels": BIO, "legal": iob2, "lengths": (2, 3, 1, 4)}
    for aim in (
        Aim(control="sentence"),
        Aim("preference", control="mean"),
        Aim("cross-entropy", clip=0.1, temperature=1.5),
    ):
        for rule in (Rule(rate=0.1, decay=0.01), *RULES[2:5]):
            fused, single = bandits(8, **options), bandits(8, **options)
            judge, order = gold_judge(fused.case.problem), np.asarray([3, 0, 1, 2, 3, 3, 1])
            draws = (1 + aim.pairs) * fused.batch.lengths[order]
            uniform = np.random.default_rng(0).random(int(draws.sum()))
            controls = Controls.of(4), Controls.of(4)
            heard = fused.feedback.epoch(fused.batch, order, aim, rule, controls[0], judge, uniform)
            for k, some in enumerate(np.split(uniform, np.cumsum(draws)[:-1])):
                made = single.feedback.propose(single.batch, order[k : k + 1], aim, rule, some)
                reward = single.feedback.judge(single.batch, made, aim, judge)
                step = single.feedback.reinforce(single.batch, made, aim, rule, controls[1], reward)
                assert step.reward[0] == heard.reward[k]
                assert step.log_p[0] == heard.log_p[k]
                assert step.coefficient[0] == heard.coefficient[k]
            for a, b in zip(parameters_of(fused), parameters_of(single), strict=True):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(controls[0].mean, controls[1].mean)


def parameters_of(one: Bandits) -> tuple[Floats, ...]:
    return one.feedback.descent.theta.arrays()


# --- Leaving one out, pairs by the logistic loss, logs, raters ------------------------------------


def rewards_of(one: Bandits, sentence: int) -> tuple[list[tuple[int, ...]], Floats, Floats]:
    """All paths of a sentence, their features and rewards."""
    paths, features = one.paths(sentence)
    names = one.case.labels
    gold = tuple(names[i] for i in one.case.gold(sentence))
    reward = [span_f(tuple(names[i] for i in path), gold) for path in paths]
    return paths, features, np.asarray(reward)


def small(seed: int = 2) -> Bandits:
    return bandits(seed, labels=BIO, legal=iob2, features="complete", transitions="all", ends=True)


@pytest.mark.parametrize("objective", ["expected-loss", "cross-entropy"])
@pytest.mark.parametrize("draws", [2, 3])
def test_leaving_one_out(variant: str, objective: Any, draws: int) -> None:
    """Signals less the mean of the others; over all groups, by enumeration, the mean step of those.

    It is `draws` times that of a step without a control.
    """
    one = small()
    aim = Aim(objective, control="leave-one-out", clip=0.2, draws=draws)
    order = np.repeat([1, 0, 2], draws)
    made = one.propose(order, aim, seed=0)
    reward = np.random.default_rng(0).random(len(order))
    heard = one.feedback.reinforce(one.batch, made, aim, Rule(), Controls.of(3), reward)
    signal = 1.0 - reward
    if objective == "cross-entropy":
        signal = -reward / np.maximum(np.exp(made.log_p), 0.2)
    groups = signal.reshape(-1, draws)
    others = (groups.sum(axis=1, keepdims=True) - groups) / (draws - 1)
    np.testing.assert_allclose(heard.coefficient, (groups - others).ravel(), rtol=1e-12)
    assert abs(heard.coefficient.reshape(-1, draws).sum(axis=1)).max() < 1e-12

    _, features, worth = rewards_of(one, 1)
    keep = np.argsort(-shares(features, one.theta))[:9]  # of a smaller set, all groups
    share = shares(features[keep], one.theta)
    centred = features[keep] - share @ features[keep]
    plain = (1.0 - worth)[keep]
    mean = np.zeros(features.shape[1])
    for group in np.ndindex(*(len(keep),) * draws):
        chosen = plain[list(group)]
        rest = (chosen.sum() - chosen) / (draws - 1)
        mean += share[list(group)].prod() * ((chosen - rest) @ centred[list(group)])
    np.testing.assert_allclose(mean, draws * (share * plain) @ centred, atol=1e-12)


def test_leaving_one_out_is_a_step_along_the_samples(variant: str) -> None:
    """Expectations of a group cancel: what is left is Σ coefficient · f(sample)."""
    one, aim = small(4), Aim(control="leave-one-out", draws=3)
    before = one.theta_now()
    made = one.propose(np.asarray([1, 1, 1]), aim, seed=5)
    reward = np.asarray([0.2, 0.9, 0.4])
    heard = one.feedback.reinforce(one.batch, made, aim, STILL, Controls.of(3), reward)
    paths, features = one.paths(1)
    drawn = [paths.index(one.labels(path)) for path in np.split(made.path, 3)]
    wanted = -heard.coefficient @ features[drawn]
    np.testing.assert_allclose(one.theta_now() - before, wanted, atol=1e-9)


def test_groups_that_are_none() -> None:
    one, aim = small(), Aim(control="leave-one-out", draws=2)
    for order in ([0, 1], [0, 0, 1], [0, 1, 1, 0]):
        made = one.propose(np.asarray(order), Aim(), seed=0)
        with pytest.raises(OptionError, match="no groups of 2, each of one sentence"):
            one.feedback.reinforce(
                one.batch, made, aim, STILL, Controls.of(3), np.zeros(len(order))
            )
    with pytest.raises(OptionError, match="needs groups of samples"):
        one.feedback.epoch(
            one.batch, np.asarray([0, 0]), aim, STILL, Controls.of(3),
            gold_judge(one.case.problem), np.zeros(one.batch.tokens(np.asarray([0, 0]))),
        )  # fmt: skip


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_logistic_steps_are_gradients(variant: str, beta: float) -> None:
    """Each step against differences of the logistic loss of the margin of its pair."""
    aim = Aim("logistic", beta=beta)
    for sentence, reward in ((1, 1.0), (1, 0.0), (2, 0.5), (0, 0.8)):
        one = small(6)
        made = one.propose(np.asarray([sentence]), aim, seed=3 + sentence)
        paths, features = one.paths(sentence)
        first, second = (paths.index(one.labels(path)) for path in (made.path, made.other))

        def loss(theta: Floats) -> float:
            log_p = np.log(shares(features, theta))  # noqa: B023
            margin = beta * (log_p[first] - log_p[second])  # noqa: B023
            return float(
                reward * np.logaddexp(0.0, -margin)  # noqa: B023
                + (1.0 - reward) * np.logaddexp(0.0, margin)  # noqa: B023
            )

        start = one.theta_now()
        log_p = np.log(shares(features, start))
        assert made.log_p[0] == pytest.approx(log_p[first] - log_p[second], abs=1e-9)
        given = np.asarray([reward])
        one.feedback.reinforce(one.batch, made, aim, STILL, Controls.of(3), given)
        wanted = optimize.approx_fprime(start, loss, 1e-6)
        np.testing.assert_allclose(start - one.theta_now(), wanted, atol=1e-6)


def paths_of(one: Bandits, picked: list[tuple[int, ...]]) -> Any:
    """The states of labels of all sentences."""
    labels = np.concatenate([np.asarray(path, dtype=np.int32) for path in picked])
    return one.space.topology.paths(labels, one.case.problem.offsets)


@pytest.mark.parametrize("cap", [0.0, 1.2])
@pytest.mark.parametrize("objective", ["expected-loss", "cross-entropy"])
def test_steps_from_a_log(variant: str, objective: Any, cap: float) -> None:
    """Weights and steps against enumeration; a log of the tagger's own samples weighs 1."""
    aim = Aim(objective, clip=0.05, cap=cap)
    rng = np.random.default_rng(0)
    for sentence in range(3):
        one = small(8)
        picked = [one.paths(b)[0][int(rng.integers(len(one.paths(b)[0])))] for b in range(3)]
        drawn, reward = np.log(np.asarray([0.03, 0.4, 0.2])), rng.random(3)
        start = one.theta_now()
        heard = one.feedback.replay(
            one.batch, np.asarray([sentence]), aim, STILL, Controls.of(3),
            paths_of(one, picked), reward, drawn,
        )  # fmt: skip
        paths, features = one.paths(sentence)
        share, mine = shares(features, start), paths.index(picked[sentence])
        assert heard.log_p[0] == pytest.approx(np.log(share[mine]), abs=1e-9)
        ratio = share[mine] / np.exp(drawn[sentence])
        signal = (1.0 - reward[sentence]) * (min(ratio, cap) if cap else ratio)
        if objective == "cross-entropy":
            signal = -reward[sentence] / max(np.exp(drawn[sentence]), 0.05)
        assert heard.coefficient[0] == pytest.approx(signal, rel=1e-9)
        wanted = -signal * (features[mine] - share @ features)
        np.testing.assert_allclose(one.theta_now() - start, wanted, atol=1e-9)


def test_logs_that_are_refused() -> None:
    one = small()
    path, numbers = paths_of(one, [one.paths(b)[0][0] for b in range(3)]), np.full(3, 0.5)
    for aim in (Aim("preference"), Aim("logistic"), Aim(control="leave-one-out", draws=2)):
        with pytest.raises(OptionError, match="a log has single samples"):
            one.feedback.replay(
                one.batch, np.arange(3), aim, STILL, Controls.of(3), path, numbers, -numbers
            )
    start = one.theta_now()
    for wrong in (-1, 99):
        broken = path.copy()
        broken[1] = wrong
        with pytest.raises(OptionError, match="labels of sample 1 are not legal"):
            one.feedback.replay(
                one.batch, np.asarray([1]), Aim(), STILL, Controls.of(3), broken, numbers, -numbers
            )
    np.testing.assert_array_equal(one.theta_now(), start)


def test_illegal_steps_of_a_log() -> None:
    """A pair of states without an arc has the probability 0, which no step can be made of."""
    one = bandits(0, **CASES["many arcs missing"])
    path = np.zeros(6, dtype=np.int32)
    path[1:4] = 0, 9, 0
    with pytest.raises((OptionError, NumericError), match=r"sample 1|sentence 1"):
        one.feedback.replay(
            one.batch, np.asarray([1]), Aim(), STILL, Controls.of(3), path,
            np.zeros(3), np.zeros(3),
        )  # fmt: skip


def test_raters(variant: str) -> None:
    """Errors, scales and slips of single samples and of pairs, one by one."""
    one = small()
    judge = gold_judge(one.case.problem)
    order = np.repeat(np.arange(3), 40)
    rng = np.random.default_rng(0)
    error, slip = rng.normal(scale=0.4, size=(120, 2)), np.where(rng.random(120) < 0.2, 0.25, -1.0)
    for aim in (Aim(), Aim("preference", opponent="same"), Aim("logistic")):
        made = one.propose(order, aim, seed=1)
        single = replace(made, other=made.other[:0])
        first = one.feedback.judge(one.batch, single, Aim(), judge)
        second = first
        if aim.pairs:
            second = one.feedback.judge(one.batch, replace(single, path=made.other), Aim(), judge)
        ahead = first + error[:, 0] - second - error[:, 1]
        wanted = {
            "expected-loss": np.floor(np.clip(first + error[:, 0], 0, 1) * 4 + 0.5) / 4,
            "preference": (ahead > 0).astype(float),
            "logistic": (ahead > 0).astype(float),
        }[aim.objective]
        found = one.feedback.judge(one.batch, made, aim, judge, Noise(error, slip, 4))
        np.testing.assert_allclose(found, np.where(slip >= 0, slip, wanted), atol=1e-12)
        if aim.pairs:
            silent = Noise(np.zeros((120, 2)), np.full(120, -1.0))
            plain = one.feedback.judge(one.batch, made, aim, judge)
            np.testing.assert_array_equal(
                one.feedback.judge(one.batch, made, aim, judge, silent), plain
            )

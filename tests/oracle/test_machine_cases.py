"""Compositions whose answers are known by hand, and cases that random numbers miss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.kernel import Domain, decoding
from fstcrf.kernel.machines import Axis, Factor, JointChain, Residual
from tests.support.machine_checks import check_best, check_sums
from tests.support.machines import Case, answers, assert_near, enumerate_paths

DOMAINS: tuple[Domain, ...] = ("auto", "log")


def plain(states: int, node: Floats, arcs: Floats, **fields: Any) -> Case:
    """One axis, one sentence."""
    machine = JointChain(
        axes=(Axis(states, None, None, arcs.reshape(1, -1), None),),
        factors=(Factor(1, states, None, None),),
        residual=None,
        initial=np.zeros((1, states)),
        final=np.zeros((1, states)),
    )
    return Case(replace(machine, **fields), np.asarray([0, len(node)]), (node[:, None, :].copy(),))


def test_no_path_means_the_same_everywhere(variant: str) -> None:
    """One sentence of three has no path: at its second token nothing is left."""
    case = plain(2, np.zeros((6, 2)), np.zeros((2, 2)))
    case.per_token[0][3] = -np.inf
    case = case._replace(offsets=np.asarray([0, 2, 5, 6]))
    path, score = decoding.best_paths(case.bound)
    assert path.tolist() == [0, 0, -1, -1, -1, 0]
    assert score.tolist() == [0.0, -np.inf, 0.0]
    counts, scores, paths = decoding.nbest_paths(case.bound, 3)
    assert counts.tolist() == [3, 0, 2]
    assert scores.tolist() == [[0.0] * 3, [-np.inf] * 3, [0.0, 0.0, -np.inf]]
    assert (paths[:, 2:5] == -1).all()
    assert paths[:, 5].tolist() == [0, 1, -1]
    for domain in ("auto", "linear", "log"):
        log_z, (marginals,), *_ = decoding.axis_posterior(case.bound, domain=domain)
        assert_near(log_z, [np.log(4.0), -np.inf, np.log(2.0)])
        assert decoding.log_partitions(case.bound, domain=domain)[1] == -np.inf
        assert not marginals[2:5].any()
        assert_near(marginals[[0, 1, 5]], np.full((3, 2), 0.5))
    (top,) = decoding.axis_max_marginals(case.bound)
    assert np.isneginf(top[2:5]).all()
    assert not top[[0, 1, 5]].any()
    drawn = decoding.sample_paths(case.bound, np.full((4, 6), 0.7))
    assert (drawn[:, 2:5] == -1).all()
    assert (drawn[:, [0, 1, 5]] == 1).all()


def counting(limit: int, tokens: int, reward: float) -> Case:
    """At most `limit` tokens in state 1, which is worth `reward`."""
    states = np.arange(limit + 1)
    stay, go = (np.asarray([[v]]) for v in ([0.0, -np.inf], [-np.inf, 0.0]))
    source = np.repeat(states, 2)[:-1].astype(np.int32)
    target = np.asarray([s + k for s in states for k in (0, 1) if s + k <= limit], dtype=np.int32)
    value = np.stack([stay if s == t else go for s, t in zip(source, target, strict=True)])
    start = np.where(states == 0, 0.0, -np.inf)
    residual = Residual(
        limit + 1, source, target, 1, 2, value.reshape(-1, 1, 2), start, np.zeros(limit + 1)
    )
    node = np.tile([0.0, reward], (tokens, 1))
    return plain(2, node, np.zeros((2, 2)), residual=residual)


@pytest.mark.parametrize("reward", [0.0, 5.0, 60.0])
def test_long_sentences_that_count(variant: str, reward: float) -> None:
    """Binomial sums: the residual's states spread by e^reward a token, as far as they go."""
    limit, tokens = 3, 60
    case = counting(limit, tokens, reward)
    ways = [1, 60, 1770, 34_220]
    terms = np.asarray([np.log(w) + k * reward for k, w in enumerate(ways)])
    log_z = float(np.logaddexp.reduce(terms))
    share = float((np.exp(terms - log_z) * np.arange(4)).sum() / tokens)
    for domain in DOMAINS:
        found, (marginals,), *_ = decoding.axis_posterior(case.bound, domain=domain)
        assert_near(found, [log_z])
        assert_near(marginals[:, 1], np.full(tokens, share))
    path, score = decoding.best_paths(case.bound)
    assert score[0] == limit * reward
    assert path.sum() == (limit if reward else 0)
    assert path.tolist() == sorted(path.tolist())  # of equals, the one that is 0 for longest
    counts, scores, _ = decoding.nbest_paths(case.bound, 1000)
    assert counts[0] == 1000
    assert (scores == limit * reward).all()


@pytest.mark.parametrize("depth", [600.0, 720.0, 760.0, 5000.0])
def test_the_only_way_out_is_far_below(variant: str, depth: float) -> None:
    """What leads by far cannot end; what remains lies where exp() is 0."""
    node = np.zeros((3, 2))
    node[1, 1] = -depth
    arcs = np.asarray([[0.0, 0.0], [-np.inf, 0.0]])
    shut = np.asarray([[-np.inf, 0.0]])
    case = plain(2, node, arcs, final=shut)
    case.per_token[0][2, 0, 1] = -depth
    known = answers(case)
    for domain in DOMAINS:
        check_sums(case, known, domain)
    check_best(case, known)


def test_a_sentence_behind_one_that_was_lost(variant: str) -> None:
    """What the linear domain loses of one sentence is none of the next one's business."""
    lost = np.zeros((80, 3))
    lost[:40, 0] = lost[40:, 1] = 25.0
    rng = np.random.default_rng(8)
    for _ in range(20):
        node = np.vstack([lost, rng.normal(size=(9, 3))])
        arcs = np.where(np.eye(3) > 0, rng.normal(size=(3, 3)), -np.inf)
        case = plain(3, node, arcs)._replace(offsets=np.asarray([0, 80, 89]))
        alone = decoding.axis_posterior(case.sentence(80, 89).bound, domain="linear")
        found = decoding.axis_posterior(case.bound)
        assert found.log_z[1] == alone.log_z[0]
        assert found.node[0][80:].tobytes() == alone.node[0].tobytes()
        assert decoding.log_partitions(case.bound)[1] == alone.log_z[0]


@pytest.mark.parametrize("tokens", [10, 28, 29, 30, 40, 80])
def test_a_leader_that_cannot_end(variant: str, tokens: int) -> None:
    """Forward, it pushes the others below what exp() reaches; backward, it is not there at all."""
    node = np.zeros((tokens, 3))
    node[:, 0], node[0, 2] = 25.0, -np.log(3.0)
    arcs = np.where(np.eye(3) > 0, 0.0, -np.inf)
    case = plain(3, node, arcs, final=np.asarray([[-np.inf, 0.0, 0.0]]))
    for domain in DOMAINS:
        found = decoding.axis_posterior(case.bound, arcs=(0,), entropy=True, domain=domain)
        assert_near(found.log_z, [np.log(4.0 / 3.0)])
        assert_near(found.node[0], np.tile([0.0, 0.75, 0.25], (tokens, 1)))
        assert found.arc[0] is not None
        assert_near(found.arc[0][1:, [4, 8]], np.tile([0.75, 0.25], (tokens - 1, 1)))
        assert_near(found.entropy, [np.log(4.0) - 0.75 * np.log(3.0)])
    drawn = decoding.sample_paths(case.bound, np.full((2, tokens), 0.74))
    assert (drawn == 1).all()
    path, score = decoding.best_paths(case.bound)
    assert (path == 1).all()
    assert score.tolist() == [0.0]


def test_numbers_on_the_border_belong_to_the_larger_state(variant: str) -> None:
    """A state stands for an interval that includes its lower end."""
    case = plain(4, np.zeros((2, 4)), np.zeros((4, 4)))
    uniform = np.asarray([[0.0, 0.25], [0.5, 0.75]])
    assert decoding.sample_paths(case.bound, uniform).tolist() == [[0, 1], [2, 3]]


def test_reference_of_a_machine_by_hand() -> None:
    """Two axes of two states, one token each way: written out."""
    machine = JointChain(
        axes=(
            Axis(2, None, None, np.asarray([[1.0, 2.0, 3.0, 4.0]]), None),
            Axis(
                2,
                np.asarray([0, 1], dtype=np.int32),
                np.asarray([1, 0], dtype=np.int32),
                np.asarray([[10.0, 20.0], [30.0, 40.0]]),
                np.asarray([1, 0], dtype=np.int32),
                2,
            ),
        ),
        factors=(Factor(2, 1, np.asarray([0, 1], dtype=np.int32), np.asarray([[0.0], [0.5]])),),
        residual=None,
        initial=np.asarray([[100.0, -np.inf], [-np.inf, -np.inf]]),
        final=np.asarray([[0.0, 1000.0], [0.0, 2000.0]]),
    )
    paths, scores = enumerate_paths(Case(machine, np.asarray([0, 2]), ()))
    left = {tuple(p): s for p, s in zip(paths.tolist(), scores.tolist(), strict=True) if s > -1e9}
    # (0, 0) -> (0, 1): 1 + arc 0->1 under context place[0] = 1; the other way with place[1] = 0
    assert left == {(0, 1): 100.0 + 1 + 30 + 1000, (0, 3): 100.0 + 2 + 10 + 0.5 + 2000}

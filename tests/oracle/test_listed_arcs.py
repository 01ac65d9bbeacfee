"""Axes whose arcs are listed, in batches and alone, and posteriors of the arcs of joint axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.kernel import decoding
from fstcrf.kernel.machines import Axis, Factor, JointChain
from tests.support.machine_checks import check_best, check_max_marginals, check_nbest, check_sums
from tests.support.machines import Case, answers, assert_near

Scores = Callable[..., Floats]

LENGTHS = [5, 0, 30, 12, 3, 3, 9, 1, 2, 17, 4, 8, 0, 6, 6, 6, 21, 5, 2]


def scores_of(kind: str, seed: int) -> Scores:
    """Return a source of random scores of any shape."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Floats:
        x = rng.normal(size=shape)
        if kind == "ties":
            return np.round(2 * x)
        if kind == "large":
            return 300 * x
        return np.where(rng.random(shape) < 0.2, -np.inf, x) if kind == "forbidden" else x

    return draw


def listed(seed: int, states: int, share: float, draw: Scores, **fields: Any) -> Axis:
    """Return an axis with a random share of all arcs, at least one."""
    own = np.random.default_rng(seed).random((states, states)) < share
    own[0, 0] = True
    source, target = np.nonzero(own)
    score = draw(1, len(source))
    return Axis(states, source.astype(np.int32), target.astype(np.int32), score, **fields)


def chain(axis: Axis, lengths: list[int], draw: Scores) -> Case:
    size = axis.n_states
    machine = JointChain((axis,), (Factor(1, size),), None, draw(1, size), draw(1, size))
    return Case(machine, np.cumsum([0, *lengths]), (draw(sum(lengths), 1, size),))


def square_of(axis: Axis) -> tuple[tuple[Any, Any], Floats]:
    """Return sources and targets of an axis' arcs, and the scores of all pairs."""
    at = axis.source, axis.target
    if axis.source is None:
        at = np.divmod(np.arange(axis.n_states**2), axis.n_states)
    square = np.full((axis.n_states, axis.n_states), -np.inf)
    assert axis.score is not None
    square[at] = axis.score[0]
    return at, square


def two_axes(first: Axis, second: Axis, tokens: int, draw: Scores) -> Case:
    """Return one sentence; potentials depend on one axis each."""
    a, b = first.n_states, second.n_states
    factors = Factor(a, 1, np.arange(a, dtype=np.int32)), Factor(1, b)
    machine = JointChain((first, second), factors, None, draw(a, b), draw(a, b))
    return Case(machine, np.asarray([0, tokens]), (draw(tokens, a, 1), draw(tokens, 1, b)))


def everything(case: Case) -> list[Floats]:
    """All answers about a batch; a row for each token or sentence."""
    path, score = decoding.best_paths(case.bound)
    ranked = decoding.nbest_paths(case.bound, 3)
    plain = decoding.axis_posterior(case.bound)
    full = decoding.axis_posterior(case.bound, arcs=(0,), entropy=True)
    assert full.entropy is not None
    assert full.arc[0] is not None
    log_z = decoding.log_partitions(case.bound)
    tops = decoding.axis_max_marginals(case.bound)
    uniform = np.linspace(0.01, 0.99, case.tokens)[None]
    samples = [] if case.tokens != sum(LENGTHS) else [decoding.sample_paths(case.bound, uniform).T]
    of_sentences = [score, log_z, plain.log_z, full.log_z, full.entropy, ranked.score]
    of_tokens = [path, ranked.path.T, plain.node[0], full.node[0], full.arc[0], tops[0], *samples]
    return [np.asarray(x, dtype=np.float64) for x in [*of_sentences, *of_tokens]]


@pytest.mark.parametrize("kind", ["normal", "ties", "large", "forbidden"])
@pytest.mark.parametrize(("states", "share"), [(1, 1.0), (7, 0.4), (19, 0.15), (40, 0.9)])
def test_a_sentence_has_the_same_bits_alone_and_in_a_batch(
    variant: str, states: int, share: float, kind: str
) -> None:
    draw = scores_of(kind, states)
    case = chain(listed(states, states, share, draw), LENGTHS, draw)
    alone = zip(*(everything(one) for one in case.each()), strict=True)
    for part, batch in zip(alone, everything(case), strict=False):  # samples: of the batch alone
        assert np.array_equal(np.concatenate(part), batch, equal_nan=True)


@pytest.mark.parametrize("sentences", [1, 2, 3, 8, 11])
def test_batches_against_enumeration(variant: str, sentences: int) -> None:
    draw = scores_of("ties", sentences)
    case = chain(listed(sentences, 4, 0.6, draw), [1 + k % 5 for k in range(sentences)], draw)
    known = answers(case)
    check_best(case, known)
    check_max_marginals(case, known)
    check_sums(case, known, "auto")
    check_sums(case, known, "log")
    check_nbest(case, 5)


@pytest.mark.parametrize("share", [None, 0.05, 0.9])
@pytest.mark.parametrize(("a", "b"), [(3, 2), (13, 9), (9, 17)])
def test_arcs_of_two_axes_are_the_arcs_of_their_product(
    variant: str, a: int, b: int, share: float | None
) -> None:
    draw = scores_of("normal", a + b)
    axes = [
        Axis(size, score=draw(1, size**2)) if share is None else listed(size, size, share, draw)
        for size in (a, b)
    ]
    case = two_axes(axes[0], axes[1], 5, draw)
    (one, first), (two, second) = map(square_of, axes)
    joint = (first[:, None, :, None] + second[None, :, None, :]).reshape(1, -1)
    machine, ab = case.machine, a * b
    ends = machine.initial.reshape(1, ab), machine.final.reshape(1, ab)
    node = (case.per_token[0] + case.per_token[1]).reshape(-1, 1, ab)
    product = JointChain((Axis(ab, score=joint),), (Factor(1, ab),), None, *ends)
    expected = decoding.axis_posterior(Case(product, case.offsets, (node,)).bound, arcs=(0,)).arc[0]
    assert expected is not None
    each = expected.reshape(-1, a, b, a, b)
    for domain in ("auto", "log"):
        found = decoding.axis_posterior(case.bound, arcs=(0, 1), domain=domain).arc
        assert_near(found[0], each.sum((2, 4))[:, *one])
        assert_near(found[1], each.sum((1, 3))[:, *two])


def test_arcs_of_unlikely_pairs_do_not_need_the_log_domain(variant: str) -> None:
    """Their products underflow, and the posteriors are zero."""
    axes = [Axis(size, score=np.zeros((1, size * size))) for size in (3, 4)]
    case = two_axes(axes[0], axes[1], 4, lambda *shape: np.zeros(shape))
    case.per_token[0][:, 1:] = -500.0
    arcs = decoding.axis_posterior(case.bound, arcs=(0, 1), domain="linear").arc
    assert arcs[0] is not None
    assert_near(arcs[0][1:, 0], np.ones(3))
    assert_near(arcs[0][1:, 1:], np.zeros((3, 8)))

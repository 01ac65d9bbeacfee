"""Rows of transitions that are one number but for exceptions, against all pairs in float64."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel import Graph
from tests.support.excepted_graphs import Case, case, check, of, swept


@pytest.mark.parametrize("rest", [0.0, -3.0, 5.0])
@pytest.mark.parametrize("states", [1, 2, 3, 7, 8, 17, 33, 70])
def test_sweep(variant: str, states: int, rest: float) -> None:
    lengths = [5, 1, 12, 3, 3, 9]
    for arcs in (0.0, 0.1, 0.5, 1.0):
        check(case(states, states, lengths, arcs=arcs, rest=rest))


@pytest.mark.parametrize("sentences", [1, 15, 16, 17, 40])
def test_groups_of_sentences(variant: str, sentences: int) -> None:
    rng = np.random.default_rng(sentences)
    check(case(sentences, 21, rng.integers(1, 30, sentences).tolist()))


def test_forbidden_pairs_among_the_exceptions(variant: str) -> None:
    for seed in range(4):
        check(case(seed, 12, [4, 7, 2], never=0.5), rescued=None)


def test_sentences_that_float32_cannot_hold(variant: str) -> None:
    check(case(5, 9, [8, 8, 3], spread=60.0), rescued=True, tolerance=2e-5)


def concentrated(weight: float, *, heavy: int = 1, states: int = 40) -> Case:
    """Nearly all mass lies before arcs of one weight, into every state but the last."""
    score = np.zeros((states, states))
    listed = np.zeros((states, states), dtype=bool)
    listed[:heavy, :-1] = True
    score[listed] = weight
    node = np.zeros((3, states))
    node[0, :heavy] = 45.0
    flat = np.zeros(states)
    rng = np.random.default_rng(0)
    node[1] = rng.normal(size=states)
    return of(flat, flat, score, listed, 0.0, [3], node, np.ones(1))


@pytest.mark.parametrize("heavy", [1, 2, 7])
@pytest.mark.parametrize("weight", [-5.0, -12.0, -18.0, -30.0])
def test_sums_that_cancel(variant: str, weight: float, heavy: int) -> None:
    """The sums of a row are small beside those of all states: a subtraction would lose them."""
    one = concentrated(weight, heavy=heavy)
    wanted = kernel.forward_backward(one.dense, one.offsets, one.node, domain="log")
    found, node = swept(one, one.sparse)
    assert found.rescued == 0
    np.testing.assert_allclose(found.loss, wanted.log_z[0], rtol=1e-6)
    np.testing.assert_allclose(node[1], wanted.node[1], rtol=3e-6)
    np.testing.assert_allclose(found.arc, wanted.arc[one.listed], rtol=3e-6)


@pytest.mark.parametrize("rest", [0.0, -2.0])
def test_curvature(variant: str, rest: float) -> None:
    for spread in (1.0, 60.0):
        one = case(3, 19, [5, 1, 12, 3, 3, 9] * 4, rest=rest, spread=spread)
        found, node = swept(one, one.sparse, curvature=True)
        wanted, dense = swept(one, one.dense, curvature=True)
        np.testing.assert_allclose(node, dense, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(found.begin, wanted.begin, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(found.end, wanted.end, rtol=2e-4, atol=2e-5)
        if spread == 1.0:  # else what each rescues, and so bounds, may differ
            np.testing.assert_allclose(found.arc, wanted.arc[one.listed], rtol=2e-4, atol=2e-5)


@pytest.mark.thorough
def test_sentences_too_long_to_go_side_by_side(variant: str) -> None:
    check(case(1, 500, [2200, 3, 2]), rescued=True, domain="auto")


def test_sweeps_repeat_bit_for_bit(variant: str) -> None:
    one = case(2, 30, [5, 8, 2, 9])
    first, second = swept(one, one.sparse), swept(one, one.sparse)
    assert first.sweep.loss == second.sweep.loss
    assert first.node.tobytes() == second.node.tobytes()
    assert first.sweep.arc.tobytes() == second.sweep.arc.tobytes()


# --- The engine in float64 ------------------------------------------------------------------------
def enumerated(one: Case) -> tuple[float, float, Floats]:
    """Return log Z, the best score and the posteriors of the only sentence, by all its paths."""
    tokens, states = one.node.shape
    score = one.dense.score.reshape(states, states)
    paths = list(product(range(states), repeat=tokens))
    scores = np.array(
        [
            one.dense.initial[p[0]]
            + one.dense.final[p[-1]]
            + sum(one.node[t, s] for t, s in enumerate(p))
            + sum(score[a, b] for a, b in pairwise(p))
            for p in paths
        ]
    )
    log_z = float(np.logaddexp.reduce(scores))
    chances = np.exp(scores - log_z)
    node = np.zeros_like(one.node)
    for path, chance in zip(paths, chances, strict=True):
        node[np.arange(tokens), path] += chance
    return log_z, float(scores.max()), node


@pytest.mark.parametrize("rest", [0.0, -1.5, 2.0])
@pytest.mark.parametrize("states", [1, 2, 3, 5])
def test_every_path(variant: str, states: int, rest: float) -> None:
    for seed in range(3):
        one = case(seed, states, [4], rest=rest, never=0.3 * (seed == 2))
        log_z, best, node = enumerated(one)
        for domain in ("auto", "log"):
            found = kernel.forward_backward(one.sparse, one.offsets, one.node, domain=domain)
            np.testing.assert_allclose(found.log_z[0], log_z, rtol=1e-12)
            np.testing.assert_allclose(found.node, node, rtol=1e-9, atol=1e-12)
        path, score = kernel.viterbi(one.sparse, one.offsets, one.node)
        np.testing.assert_allclose(score[0], best, rtol=1e-12)
        del path


@pytest.mark.parametrize("rest", [0.0, -2.0, 3.0])
def test_best_paths_are_those_of_all_pairs(variant: str, rest: float) -> None:
    rng = np.random.default_rng(1)
    for states in (1, 2, 9, 40, 130):
        one = case(states, states, rng.integers(1, 25, 30).tolist(), rest=rest, spread=3.0)
        # Multiples of 1/4: ties are exact, and there are many.
        graph = one.dense
        rounded = of(
            np.round(4 * graph.initial) / 4,
            np.round(4 * graph.final) / 4,
            np.round(4 * graph.score) / 4,
            one.listed,
            rest,
            np.diff(one.offsets).tolist(),
            np.round(one.node) / 4,
            one.weight,
        )
        for each in (one, rounded):
            found = kernel.viterbi(each.sparse, each.offsets, each.node)
            wanted = kernel.viterbi(each.dense, each.offsets, each.node)
            np.testing.assert_array_equal(found[0], wanted[0])
            np.testing.assert_array_equal(found[1], wanted[1])
            np.testing.assert_array_equal(
                kernel.max_marginals(each.sparse, each.offsets, each.node),
                kernel.max_marginals(each.dense, each.offsets, each.node),
            )


@pytest.mark.parametrize("weight", [-5.0, -18.0, -30.0, -200.0])
def test_sums_that_cancel_in_float64(variant: str, weight: float) -> None:
    one = concentrated(weight)
    wanted = kernel.forward_backward(one.dense, one.offsets, one.node, domain="log")
    found = kernel.forward_backward(one.sparse, one.offsets, one.node, domain="linear")
    np.testing.assert_allclose(found.log_z, wanted.log_z, rtol=1e-13)
    np.testing.assert_allclose(found.node, wanted.node, rtol=1e-11)
    np.testing.assert_allclose(found.arc, wanted.arc[one.listed], rtol=1e-11)


def test_what_cannot_be(variant: str) -> None:
    ends, flat = np.zeros(1, dtype=np.int32), np.zeros(3)
    for wrong in (np.inf, -np.inf, np.nan):
        with pytest.raises(NumericError):
            Graph(flat, flat, np.zeros(1), ends, ends, rest=wrong)
    with pytest.raises(ShapeError):
        Graph(flat, flat, np.zeros(9), rest=0.0)
    with pytest.raises(ShapeError):
        Graph(flat, flat, np.zeros((4, 1)), ends, ends, rest=0.0)

"""Axes most of whose arcs have one score: the answers of the same axes as full matrices.

What else is asked of them stands in `test_machines`, where they are a kind of machine.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel import Axis, Bound, Factor, JointChain, decoding
from tests.oracle.test_machines import SMALL, named
from tests.support.machine_strategies import WIDE, Bounds, random_case
from tests.support.machines import Case


def whole(case: Case) -> Case:
    """The same with full matrices."""
    axes = tuple(replace(axis, rest=None, others=None) for axis in case.machine.axes)
    return case._replace(machine=replace(case.machine, axes=axes))


def near(found: Floats, wanted: Floats) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bounds", [SMALL, WIDE])
def test_what_else_is_asked(variant: str, bounds: Bounds) -> None:
    """Arcs, entropies, samples, dead tokens: those of full matrices."""
    for seed in range(40):
        case = random_case(seed, replace(bounds, rest=True))
        if all(axis.rest is None for axis in case.machine.axes):
            continue
        with named(seed, bounds):
            mine, its = case.bound, whole(case).bound
            arcs = tuple(range(len(case.sizes)))
            found, wanted = (
                decoding.axis_posterior(b, arcs=arcs, entropy=True) for b in (mine, its)
            )
            near(found.log_z, wanted.log_z)
            assert found.entropy is not None
            assert wanted.entropy is not None
            near(found.entropy, wanted.entropy)
            for one, other in zip(found.arc, wanted.arc, strict=True):
                assert one is not None
                assert other is not None
                near(one, other)
            assert decoding.dead_tokens(mine).tolist() == decoding.dead_tokens(its).tolist()
            uniform = np.random.default_rng(0).random((3, case.tokens))
            np.testing.assert_array_equal(
                decoding.sample_paths(mine, uniform), decoding.sample_paths(its, uniform)
            )


# --- Many labels ----------------------------------------------------------------------------------


def chain(
    states: int, weight: float, listed: float, lengths: list[int], spread: float, seed: int = 0
) -> tuple[Bound, Bound]:
    """Sentences over one axis, with a rest and as a full matrix."""
    rng = np.random.default_rng(seed)
    drawn = weight + rng.normal(size=(1, states * states))
    score = np.where(rng.random(drawn.shape) < listed, drawn, -0.5)
    ends = np.zeros((1, states))
    node = spread * rng.normal(size=(sum(lengths), 1, states))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    axis = Axis(states, score=score, rest=-0.5, others=np.flatnonzero(score[0] != -0.5))
    factors = (Factor(1, states),)
    with_rest = JointChain((axis,), factors, None, ends, ends)
    without = JointChain((replace(axis, rest=None, others=None),), factors, None, ends, ends)
    return Bound(with_rest, offsets, (node,)), Bound(without, offsets, (node,))


@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
@pytest.mark.parametrize("weight", [0.5, -3.0, -9.0, -30.0])
def test_weights_that_cancel(variant: str, weight: float, spread: float) -> None:
    for states, listed in ((70, 0.05), (70, 0.4), (131, 0.2)):
        one, other = chain(states, weight, listed, [9, 1, 4, 9, 9, 2, 7, 7, 7, 3, 1], spread)
        near(decoding.log_partitions(one), decoding.log_partitions(other))
        near(decoding.axis_posterior(one).node[0], decoding.axis_posterior(other).node[0])
        near(
            decoding.log_partitions(one, domain="log"), decoding.log_partitions(other, domain="log")
        )
        path, score = decoding.best_paths(one)
        wanted, total = decoding.best_paths(other)
        assert path.tolist() == wanted.tolist()
        assert score.tolist() == total.tolist()


def test_a_sentence_is_answered_as_it_is_alone(variant: str) -> None:
    """To the last bit, whatever goes beside it; also what the linear domain cannot hold."""
    lengths = [5, 1, 9, 9, 3, 2, 8, 8, 8, 4, 1]
    for spread in (1.0, 400.0):
        batch, _ = chain(40, 0.0, 0.1, lengths, spread, seed=3)
        log_z = decoding.log_partitions(batch)
        found = decoding.axis_posterior(batch)
        assert found.log_z.tolist() == log_z.tolist()
        for b in range(len(lengths)):
            alone = batch.select([b])
            assert decoding.log_partitions(alone)[0] == log_z[b]
            rows = found.node[0][batch.bounds[b] : batch.bounds[b + 1]]
            np.testing.assert_array_equal(decoding.axis_posterior(alone).node[0], rows)


def test_a_rest_that_cannot_be() -> None:
    score = np.zeros((1, 9))
    ends = np.zeros((1, 3))

    def made(**fields: object) -> JointChain:
        axis = replace(Axis(3, score=score), **fields)  # type: ignore[arg-type]
        return JointChain((axis,), (), None, ends, ends)

    one = np.ones(1, dtype=np.int64)
    for wrong in (np.inf, -np.inf, np.nan):
        with pytest.raises(NumericError):
            made(rest=wrong, others=one)
    for fields in (
        {"rest": 0.0},
        {"others": one},
        {"rest": 0.0, "others": 9 * one},
        {"rest": 0.0, "others": -one},
        {"rest": 0.0, "others": np.array([2, 1])},
        {"rest": 0.0, "others": one, "score": None},
        {"rest": 0.0, "others": one, "score": np.zeros((2, 9)), "contexts": 2},
    ):
        with pytest.raises(ShapeError):
            made(**fields)

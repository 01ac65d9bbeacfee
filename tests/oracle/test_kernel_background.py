"""Rows of transitions that are one number but for exceptions, against all pairs in float64.

The number is that of all pairs, or of those whose states are of one class.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Ints
from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel import Classes, Graph, Shard, SweepWorkspace
from fstcrf.machines.topology import chain_topology
from tests.support.excepted_graphs import Case, case, check, of, swept

LENGTHS = [5, 1, 12, 3, 3, 9]
KINDS: dict[str, dict[str, Any]] = {"all pairs": {}, "classes": {"classes": 3, "arcs": 0.1}}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.mark.thorough
@pytest.mark.parametrize("rest", [0.0, -3.0, 5.0])
@pytest.mark.parametrize("states", [1, 2, 3, 7, 8, 9, 16, 17, 33, 70])
def test_sweep(variant: str, states: int, rest: float) -> None:
    for classes, arcs in product((None, 1, 2, 6), (0.0, 0.1, 0.6, 1.0)):
        # Where the rest of classes is large, all but nothing may lie on paths that can end.
        rescued = None if classes and rest > 0.0 else False
        one = case(states, states, LENGTHS, classes=classes, arcs=arcs, rest=rest)
        check(one, rescued=rescued)


@pytest.mark.parametrize("sentences", [1, 15, 16, 17, 40])
def test_groups_of_sentences(variant: str, sentences: int) -> None:
    rng = np.random.default_rng(sentences)
    check(case(sentences, 21, rng.integers(1, 30, sentences).tolist()))


@every_kind
def test_forbidden_pairs_among_the_exceptions(variant: str, kind: dict[str, Any]) -> None:
    for seed in range(6):
        more = kind | ({"arcs": 0.5} if kind else {})
        check(case(seed, 12, [4, 7, 2], never=0.5, **more), rescued=None)


@every_kind
def test_sentences_that_float32_cannot_hold(variant: str, kind: dict[str, Any]) -> None:
    for seed in (5, 6, 7):
        one = case(seed, 9, [8, 8, 3], spread=60.0, **kind)
        check(one, rescued=True, tolerance=2e-5)


def order_2(seed: int, labels: int, lengths: list[int]) -> Case:
    """Pairs of labels, of which some are forbidden; some arcs have scores."""
    rng = np.random.default_rng(seed)
    names = [f"L{k}" for k in range(labels)]
    legal = rng.random((labels, labels)) < 0.7
    legal[0] = legal[:, 0] = True
    number = {name: k for k, name in enumerate(names)}
    topology = chain_topology(
        names,
        2,
        allowed=lambda a, b: a is None or b is None or bool(legal[number[a], number[b]]),
    )
    slots = np.flatnonzero(rng.random(topology.n_arc_slots) < 0.05).astype(np.int32)
    default_arcs = topology.default_arcs(slots)
    assert default_arcs is not None
    assert default_arcs.arc_blocks is not None
    assert default_arcs.arc_blocks.n_blocks == labels
    ends = rng.normal(size=(2, topology.n_states))
    own = rng.normal(size=len(slots))
    full = np.zeros(topology.n_arc_slots)
    full[slots] = own
    score = np.full((topology.n_states, topology.n_states), -np.inf)
    score[topology.source, topology.target] = full[topology.arc_slot]
    sparse = default_arcs.graph(own, *ends)
    listed = np.zeros(score.shape, dtype=bool)
    listed[default_arcs.source, default_arcs.target] = True
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    node = rng.normal(size=(sum(lengths), topology.n_states))
    dense = Graph(sparse.initial, sparse.final, score.ravel())
    return Case(sparse, dense, listed.ravel(), offsets, node, np.ones(len(lengths)))


def test_pairs_of_labels(variant: str) -> None:
    check(order_2(0, 7, LENGTHS))


def concentrated(weight: float, *, heavy: int = 1, states: int = 40, halves: bool = False) -> Case:
    """Nearly all mass lies before arcs of one weight, into every state but the last.

    In halves: the mass of one class, before arcs into all states but the last of another.
    """
    score, both, into = np.zeros((states, states)), None, states
    if halves:
        into = states // 2
        side = np.repeat(np.asarray([0, 1], dtype=np.int32), into)
        score = np.where(side[:, None] == side, 0.0, -np.inf)
        both = Classes.made(side, 2), Classes.made(side, 2)
    listed = np.zeros((states, states), dtype=bool)
    listed[:heavy, : into - 1] = True
    score[listed] = weight
    node = np.zeros((3, states))
    node[0, :heavy] = 45.0
    node[1] = np.random.default_rng(0).normal(size=states)
    flat = np.zeros(states)
    return of(flat, flat, score, listed, 0.0, [3], node, np.ones(1), both)


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("heavy", [1, 2, 7])
@pytest.mark.parametrize("weight", [-5.0, -12.0, -18.0, -30.0])
def test_sums_that_cancel(variant: str, weight: float, heavy: int, *, halves: bool) -> None:
    """The sums of a row are small beside those of all states: a subtraction would lose them."""
    one = concentrated(weight, heavy=heavy, halves=halves)
    wanted = kernel.forward_backward(one.dense, one.offsets, one.node, domain="log")
    found, node = swept(one, one.sparse)
    assert found.rescued == 0
    np.testing.assert_allclose(found.loss, wanted.log_z[0], rtol=1e-6)
    np.testing.assert_allclose(node[1], wanted.node[1], rtol=3e-6, atol=1e-30)
    np.testing.assert_allclose(found.arc, wanted.arc[one.listed], rtol=3e-6, atol=1e-30)


@every_kind
@pytest.mark.parametrize("rest", [0.0, -2.0])
@pytest.mark.parametrize("spread", [1.0, 60.0])
def test_curvature(variant: str, spread: float, rest: float, kind: dict[str, Any]) -> None:
    one = case(3, 19, LENGTHS * 4, rest=rest, spread=spread, **kind)
    found, node = swept(one, one.sparse, curvature=True)
    wanted, dense = swept(one, one.dense, curvature=True)
    pairs = [(node, dense), (found.begin, wanted.begin), (found.end, wanted.end)]
    if spread == 1.0:  # else what each rescues, and so bounds, may differ
        pairs.append((found.arc, wanted.arc[one.listed]))
    for mine, its in pairs:
        np.testing.assert_allclose(mine, its, rtol=2e-4, atol=2e-5)


@pytest.mark.thorough
def test_sentences_too_long_to_go_side_by_side(variant: str) -> None:
    check(case(1, 500, [2200, 3, 2]), rescued=True, domain="auto")


@every_kind
def test_sweeps_repeat_bit_for_bit(variant: str, kind: dict[str, Any]) -> None:
    one = case(2, 30, [5, 8, 2, 9], **kind)
    first, second = swept(one, one.sparse), swept(one, one.sparse)
    assert first.sweep.loss == second.sweep.loss
    assert first.node.tobytes() == second.node.tobytes()
    assert first.sweep.arc.tobytes() == second.sweep.arc.tobytes()


# --- The comparison notices -----------------------------------------------------------------------
@pytest.mark.parametrize("part", ["loss", "arc", "begin", "end", "node"])
def test_wrong_sums(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """One part in a thousand of one number."""
    sweep, collect = Shard.sweep, Shard.collect

    def wrong(self: Shard, *given: Any) -> kernel.Sweep:
        found = sweep(self, *given)
        if part == "loss":
            return found._replace(loss=found.loss * (1 + 1e-5))
        if part != "node":
            values = getattr(found, part)
            values[values.argmax()] *= 1.001
        return found

    def shifted(self: Shard, space: SweepWorkspace, out: Any) -> None:
        collect(self, space, out)
        if part == "node":
            out[out.argmax()] *= 1.001

    one = case(1, 17, LENGTHS, **KINDS["classes"])
    check(one)
    monkeypatch.setattr(Shard, "sweep", wrong)
    monkeypatch.setattr(Shard, "collect", shifted)
    with pytest.raises(AssertionError):
        check(one)


@pytest.mark.parametrize("side", [0, 1])
def test_a_state_of_another_class(side: int) -> None:
    one = case(1, 17, LENGTHS, **KINDS["classes"])
    assert one.sparse.classes is not None
    leave, enter = one.sparse.classes
    of = (leave, enter)[side].of.copy()
    of[np.flatnonzero(of >= 0)[-1]] = -1
    other = Classes.made(of, 3)
    both = (other, enter) if side == 0 else (leave, other)
    with pytest.raises(AssertionError):
        check(one._replace(sparse=replace(one.sparse, classes=both)))


# --- What cannot be -------------------------------------------------------------------------------
def test_what_cannot_be(variant: str) -> None:
    ends, flat = np.zeros(1, dtype=np.int32), np.zeros(3)
    for wrong in (np.inf, -np.inf, np.nan):
        with pytest.raises(NumericError):
            Graph(flat, flat, np.zeros(1), ends, ends, rest=wrong)
    with pytest.raises(ShapeError):
        Graph(flat, flat, np.zeros(9), rest=0.0)
    with pytest.raises(ShapeError):
        Graph(flat, flat, np.zeros((4, 1)), ends, ends, rest=0.0)


def made(of: Ints, rest: float | None = 0.0) -> Graph:
    ends, flat = np.zeros(1, dtype=np.int32), np.zeros(3)
    whole = Classes.made(np.zeros(3, dtype=np.int32), 1)
    return Graph(
        flat, flat, np.zeros(1), ends, ends, rest=rest, classes=(whole, Classes.made(of, 1))
    )


def test_classes_that_cannot_be(variant: str) -> None:
    one = np.zeros(3, dtype=np.int32)
    made(one)
    with pytest.raises(ShapeError):
        made(one, rest=None)
    with pytest.raises(ShapeError):
        made(np.zeros(4, dtype=np.int32))
    both = made(one).classes
    assert both is not None
    for wrong in (
        replace(both[0], of=one + 1),
        replace(both[0], row=np.array([0, 2], dtype=np.int64)),
        replace(both[0], state=np.array([0, 2, 1], dtype=np.int32)),
    ):
        with pytest.raises(ShapeError):
            replace(made(one), classes=(both[0], wrong))


def test_other_functions_refuse_it(variant: str) -> None:
    graph = case(1, 5, [2], **KINDS["classes"]).sparse
    with pytest.raises(ShapeError, match="supports only sweeps and steps"):
        kernel.viterbi(graph, np.array([0, 2], dtype=np.int64), np.zeros((2, 5)))

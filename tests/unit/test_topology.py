"""Topologies: structure of orders 0, 1 and 2, labels to states and back, sums over slots."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from fstcrf.arrays import Floats
from fstcrf.errors import LabelError, OptionError, ShapeError
from fstcrf.machines.topology import START, Topology, chain_topology, machines
from tests.support.strategies import topologies

LABELS = ("O", "B", "I")


def no_inside_after_outside(a: str | None, b: str | None) -> bool:
    return not (b == "I" and a in {None, "O"})


def walk(topology: Topology, labels: tuple[int, ...]) -> list[int] | None:
    """States of a label sequence by search among all state sequences; None where there is none."""
    choices = [np.flatnonzero(topology.state_label == label).tolist() for label in labels]
    arcs = set(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    found = [
        list(states)
        for states in itertools.product(*choices)
        if topology.initial[states[0]]
        and topology.final[states[-1]]
        and all(pair in arcs for pair in itertools.pairwise(states))
    ]
    assert len(found) <= 1  # deterministic
    return found[0] if found else None


# --- Structure ---------------------------------------------------------------------------------


def test_order_1() -> None:
    topology = chain_topology(LABELS, allowed=no_inside_after_outside)
    assert topology.state_names == topology.node_slot_names == LABELS
    assert topology.n_states == topology.n_labels == 3
    assert topology.n_arc_slots == len(topology.source) == 8
    assert (0, 2) not in zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    assert topology.initial.tolist() == [True, True, False]
    assert topology.final.all()
    assert topology.direct
    assert topology.dense
    assert topology.arc_slot_names[:2] == ("O → O", "O → B")


def test_order_0_has_arcs_without_slots() -> None:
    topology = chain_topology(LABELS, 0, allowed=no_inside_after_outside)
    assert topology.n_arc_slots == 0
    assert topology.arc_slot.tolist() == [-1] * 8
    assert topology.arc_slot_names == ()
    score = topology.graph(np.zeros(0)).score.reshape(3, 3)
    assert np.isneginf(score[0, 2])
    assert np.count_nonzero(score) == 1
    assert topology.arc_slot_sums(np.ones(9)).shape == (0,)


def test_order_2_is_pairs_of_labels() -> None:
    topology = chain_topology(("a", "b"), 2)
    assert topology.state_names == ("a a", "b a", f"{START} a", "a b", "b b", f"{START} b")
    assert topology.node_slot_names == ("a", "b", *topology.state_names)
    assert topology.node_slots.tolist() == [[0, 2], [0, 3], [0, 4], [1, 5], [1, 6], [1, 7]]
    assert topology.state_label.tolist() == [0, 0, 0, 1, 1, 1]
    assert topology.initial.tolist() == [False, False, True, False, False, True]
    assert len(topology.source) == topology.n_arc_slots == 12
    assert not topology.direct
    assert topology.arc_slot_names[0] == "a a → a a"


def test_order_2_with_a_start_label() -> None:
    topology = chain_topology(("O", "X"), 2, start_label="O")
    assert topology.state_names == ("O O", "X O", "O X", "X X")
    assert topology.initial.tolist() == [True, False, True, False]


def test_forbidden_pairs_are_no_states() -> None:
    topology = chain_topology(LABELS, 2, allowed=no_inside_after_outside)
    assert "O I" not in topology.state_names
    assert f"{START} I" not in topology.state_names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"labels": ()}, "at least one"),
        ({"labels": ("a", "a")}, "occurs twice"),
        ({"order": 3}, "order is 3, expected 0, 1 or 2"),
        ({"order": -1}, "order is -1"),
        ({"order": 2, "start_label": "z"}, "start label 'z' is not a label"),
        ({"order": 2, "labels": ("a", START)}, "order 2 reserves the label '<s>'"),
        ({"order": 2, "allowed": lambda _a, _b: False}, "every label is forbidden"),
        ({"order": 2, "labels": tuple(map(str, range(200)))}, "8040000 arcs, more than 4000000"),
    ],
)
def test_options(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        chain_topology(**{"labels": LABELS, **arguments})


def test_too_many_arcs_are_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "MAX_ARCS", 11)
    with pytest.raises(OptionError, match="12 arcs, more than 11"):
        chain_topology(("a", "b"), 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": np.zeros(3, dtype=np.int32)}, "target is \\[3\\], expected \\[4\\]"),
        ({"arc_slot": np.zeros(5, dtype=np.int32)}, "arc_slot is"),
        ({"initial": np.ones(3, dtype=bool)}, "initial is"),
        ({"final": np.ones(1, dtype=bool)}, "final is"),
        ({"state_names": ("a",)}, "state_names is \\[1\\], expected \\[2\\]"),
        ({"node_slots": np.zeros((3, 1), dtype=np.int32)}, "node_slots is"),
        ({"node_slots": np.zeros(2, dtype=np.int32)}, "node_slots is"),
        ({"state_label": np.zeros((2, 1), dtype=np.int32)}, "state_label is"),
        ({"state_label": np.asarray([0, 2], dtype=np.int32)}, "state_label holds numbers outside"),
        ({"node_slots": np.asarray([[0], [2]], dtype=np.int32)}, "node_slots holds"),
        ({"source": np.asarray([0, 0, 1, 2], dtype=np.int32)}, "source holds"),
        ({"target": np.asarray([0, 1, 0, -1], dtype=np.int32)}, "target holds"),
        ({"arc_slot": np.asarray([0, 1, 2, 4], dtype=np.int32)}, "outside \\[-1, 4\\)"),
        ({"arc_slot": np.asarray([0, 1, 2, -2], dtype=np.int32)}, "arc_slot holds"),
        ({"target": np.asarray([0, 0, 0, 1], dtype=np.int32)}, "two arcs leave one state"),
        (
            {
                "state_label": np.zeros(2, dtype=np.int32),
                "target": np.asarray([0, 1], dtype=np.int32),
                "source": np.asarray([0, 1], dtype=np.int32),
                "arc_slot": np.zeros(2, dtype=np.int32),
            },
            "two states begin",
        ),
    ],
)
def test_arrays_are_checked(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        replace(chain_topology(("a", "b")), **changes)


# --- Labels and states -------------------------------------------------------------------------


def test_label_ids() -> None:
    topology = chain_topology(LABELS)
    assert topology.label_ids(["I", "O", "I"]).tolist() == [2, 0, 2]
    assert topology.label_ids([]).dtype == np.int32
    with pytest.raises(LabelError, match=r"unknown label 'X'; the labels are O, B, I$"):
        topology.label_ids(["O", "X"])
    many = chain_topology([str(i) for i in range(20)])
    with pytest.raises(LabelError, match=r"10, 11, …$"):
        many.label_ids(["x"])


@given(topology=topologies(), data=st.data())
def test_paths(topology: Topology, data: st.DataObject) -> None:
    label = st.integers(0, topology.n_labels - 1)
    sentences = data.draw(st.lists(st.lists(label, min_size=1, max_size=4), max_size=4))
    offsets = np.cumsum([0, *map(len, sentences)])
    ids = np.asarray([i for s in sentences for i in s], dtype=np.int32)
    found = topology.paths(ids, offsets)
    assert found.dtype == np.int32
    for sentence, a, b in zip(sentences, offsets[:-1], offsets[1:], strict=True):
        expected = walk(topology, tuple(sentence))
        if expected is None:
            assert found[b - 1] == -1
            assert (topology.state_label[found[a:b]] == sentence)[found[a:b] >= 0].all()
        else:
            assert found[a:b].tolist() == expected


@given(topology=topologies())
def test_successors(topology: Topology) -> None:
    table = topology.successor
    assert table.shape == (topology.n_states + 1, topology.n_labels)
    for state, label in np.ndindex(table.shape):
        target = table[state, label]
        if target >= 0:
            assert topology.state_label[target] == label
    assert np.count_nonzero(table[:-1] >= 0) == len(topology.source)
    assert np.count_nonzero(table[-1] >= 0) == topology.initial.sum()


# --- Sums over slots ---------------------------------------------------------------------------


def incidence(rows: NDArray[np.integer], n: int) -> Floats:
    """[items, K] slots → [items, n] how often each item sums each slot."""
    out = np.zeros((len(rows), n))
    for item, slots in enumerate(rows):
        for slot in slots[slots >= 0]:
            out[item, slot] += 1.0
    return out


@given(topology=topologies(), tokens=st.integers(1, 3))
def test_slots_of_states(topology: Topology, tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    width = len(topology.node_slot_names) + 3  # padding is ignored
    slots = rng.integers(-9, 9, (tokens, width)).astype(np.float64)
    matrix = incidence(topology.node_slots, width)
    found = topology.node_potentials(slots)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, slots @ matrix.T)
    states = rng.integers(-9, 9, (tokens, topology.n_states)).astype(np.float64)
    np.testing.assert_array_equal(topology.slot_sums(states, width), states @ matrix)


@given(topology=topologies(), per_token=st.booleans())
def test_slots_of_arcs(topology: Topology, *, per_token: bool) -> None:
    rng = np.random.default_rng(1)
    lead = (2,) if per_token else ()
    slots = rng.integers(-9, 9, (*lead, topology.n_arc_slots)).astype(np.float64)
    graph = topology.graph(slots)
    matrix = incidence(topology.arc_slot[:, None], topology.n_arc_slots)
    np.testing.assert_array_equal(graph.score[..., topology.kernel_arcs()], slots @ matrix.T)
    assert graph.per_token == per_token
    absent = np.setdiff1d(np.arange(graph.n_arcs), topology.kernel_arcs())
    assert np.isneginf(graph.score[..., absent]).all()
    arcs = rng.integers(-9, 9, (*lead, graph.n_arcs)).astype(np.float64)
    expected = arcs[..., topology.kernel_arcs()] @ matrix
    np.testing.assert_array_equal(topology.arc_slot_sums(arcs), expected)


def test_shared_slots_of_arcs() -> None:
    topology = replace(
        chain_topology(("a", "b")),
        arc_slot=np.asarray([1, -1, 1, 0], dtype=np.int32),
        n_arc_slots=2,
    )
    arcs = np.asarray([1.0, 2.0, 4.0, 8.0])
    assert topology.arc_slot_sums(arcs).tolist() == [8.0, 5.0]
    assert topology.arc_slot_sums(np.stack([arcs, 2 * arcs])).tolist() == [[8, 5], [16, 10]]
    assert topology.graph(np.asarray([10.0, 1.0])).score.tolist() == [1.0, 0.0, 1.0, 10.0]
    assert topology.arc_slot_names == ("b → b", "a → a")


@given(topology=topologies(), tokens=st.integers(0, 3))
def test_labels_of_states(topology: Topology, tokens: int) -> None:
    states = np.random.default_rng(tokens).integers(-9, 9, (tokens, topology.n_states)) / 1.0
    sums, best = topology.label_sums(states), topology.label_max(states)
    assert sums.shape == best.shape == (tokens, topology.n_labels)
    for label in range(topology.n_labels):
        mine = states[:, topology.state_label == label]
        np.testing.assert_array_equal(sums[:, label], mine.sum(axis=1))
        np.testing.assert_array_equal(best[:, label], mine.max(axis=1, initial=-np.inf))


def test_ends() -> None:
    topology = chain_topology(LABELS, allowed=no_inside_after_outside)
    graph = topology.graph(np.zeros(8), np.full(3, 2.0), np.full(3, 3.0))
    assert graph.initial.tolist() == [2.0, 2.0, -np.inf]
    assert graph.final.tolist() == [3.0, 3.0, 3.0]


def test_sparse_where_that_is_less() -> None:
    ring = [(str(i), str((i + 1) % 20)) for i in range(20)]
    topology = chain_topology(
        [str(i) for i in range(20)], allowed=lambda a, b: None in {a, b} or (a, b) in ring
    )
    assert not topology.dense
    graph = topology.graph(np.arange(20.0))
    assert graph.source is not None
    assert graph.n_arcs == 20
    assert topology.kernel_arcs().tolist() == list(range(20))


def test_arrays_make_the_same_topology() -> None:
    topology = chain_topology(LABELS, 2, allowed=no_inside_after_outside)
    arrays: dict[str, Any] = topology.arrays()
    for name in ("initial", "final"):
        assert arrays[name].dtype == np.uint8
        arrays[name] = arrays[name].astype(bool)
    again = replace(topology, **arrays)
    assert again.successor.tolist() == topology.successor.tolist()

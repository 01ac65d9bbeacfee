"""Topologies as transducers: names, weights, and emissions ∘ topology = lattice."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf import Lattice, kernel
from fstcrf.errors import LabelError, NumericError, ShapeError
from fstcrf.machines import openfst
from fstcrf.machines.machine import Machine
from fstcrf.machines.topology import Topology, arc_classes, chain_topology, topology_machine
from tests.support.fsts import pynini_or_skip
from tests.support.strategies import potentials, topologies

BIO = ("O", "B", "I")


def bio(order: int) -> Topology:
    return chain_topology(BIO, order, allowed=lambda a, b: not (b == "I" and a in {None, "O"}))


def test_first_order() -> None:
    topology = bio(1)
    scores = np.arange(topology.n_arc_slots) / 4
    machine = topology_machine(
        topology, scores, initial=np.asarray([1.0, 2.0, 3.0]), final=np.asarray([0.5, 0.25, 0.0])
    )
    assert openfst.att_text(machine).splitlines() == [
        "0\t1\tO\tO\t-1.0",
        "0\t2\tB\tB\t-2.0",
        "1\t1\tO,O→O\tO\t0.0",
        "1\t2\tB,O→B\tB\t-0.25",
        "1\t-0.5",
        "2\t1\tO,B→O\tO\t-0.5",
        "2\t2\tB,B→B\tB\t-0.75",
        "2\t3\tI,B→I\tI\t-1.0",
        "2\t-0.25",
        "3\t1\tO,I→O\tO\t-1.25",
        "3\t2\tB,I→B\tB\t-1.5",
        "3\t3\tI,I→I\tI\t-1.75",
        "3\t0.0",
    ]


def test_order_zero_has_a_class_for_each_label() -> None:
    machine = topology_machine(chain_topology(BIO, 0))
    assert machine.input_symbols == machine.output_symbols == BIO
    assert machine.is_acceptor
    node, arc = arc_classes(chain_topology(BIO, 0))
    assert (node.tolist(), arc.tolist()) == ([[0], [1], [2]], [-1, -1, -1])


def test_second_order_names_both_node_slots() -> None:
    machine = topology_machine(bio(2))
    assert machine.input_symbols[:2] == ("O,<s>_O", "B,<s>_B")
    assert "I,B_I,O_B→B_I" in machine.input_symbols
    assert openfst.att_text(machine)


def test_shared_slots_are_one_class() -> None:
    """Two states with the same slots and arcs without any: one class for both."""
    one = np.zeros(2, dtype=np.int32)
    topology = Topology(
        labels=("a", "b"),
        state_names=("a", "b"),
        state_label=np.asarray([0, 1], dtype=np.int32),
        node_slots=one[:, None],
        node_slot_names=("any",),
        source=np.asarray([0, 0, 1], dtype=np.int32),
        target=np.asarray([0, 1, 0], dtype=np.int32),
        arc_slot=np.asarray([0, -1, 0], dtype=np.int32),
        n_arc_slots=1,
        initial=np.asarray([True, False]),
        final=np.asarray([True, True]),
    )
    machine = topology_machine(topology, np.asarray([2.0]))
    assert machine.input_symbols == ("any", "any,a→a")
    assert machine.input.tolist() == [0, 1, 0, 1]
    assert machine.score.tolist() == [0.0, 2.0, 0.0, 2.0]
    assert arc_classes(topology)[1].tolist() == [-1, 0]


def test_names_stay_apart() -> None:
    """White space becomes an underscore, which may make two names one."""
    machine = topology_machine(chain_topology(("a b", "a_b", "a_b#2"), 0))
    assert machine.input_symbols == ("a_b", "a_b#2", "a_b#2#2")
    assert machine.output_symbols == ("a b", "a_b", "a_b#2")


def test_what_ends_nowhere_is_left_out() -> None:
    stuck = chain_topology(("O", "B"), 1, allowed=lambda a, _b: a != "B")
    assert len(topology_machine(stuck).final) == 2
    never = np.asarray([0.0, -np.inf, -np.inf])
    assert len(topology_machine(bio(0), initial=never, final=never).final) == 4


def test_errors() -> None:
    with pytest.raises(ShapeError, match=r"arc_slots is \[3\], expected \[8\]"):
        topology_machine(bio(1), np.zeros(3))
    with pytest.raises(ShapeError, match=r"final is \[2\], expected \[3\]"):
        topology_machine(bio(1), final=np.zeros(2))
    with pytest.raises(NumericError, match="score has NaN"):
        topology_machine(bio(1), initial=np.full(3, np.nan))
    with pytest.raises(LabelError, match="holds '<eps>' at 1"):
        topology_machine(chain_topology(("O", "<eps>"), 1))


def emissions(topology: Topology, slots: np.ndarray[Any, np.dtype[np.float64]]) -> Machine:
    """At every token one arc for each class, with the sum of what its node slots have there."""
    node, _ = arc_classes(topology)
    tokens, classes = len(slots), len(node)
    into = np.repeat(np.arange(tokens, dtype=np.int32), classes)
    read = np.tile(np.arange(classes, dtype=np.int32), tokens)
    names = topology_machine(topology).input_symbols
    final = np.full(tokens + 1, -np.inf)
    final[-1] = 0.0
    score = slots[:, node].sum(axis=2).reshape(-1)
    return Machine(into, read, read, into + np.int32(1), score, final, names, names, tape=None)


@given(data=st.data())
def test_emissions_composed_with_the_topology(data: st.DataObject) -> None:
    pynini = pynini_or_skip()
    topology, tokens = data.draw(topologies()), data.draw(st.integers(1, 4))
    slots = data.draw(potentials((tokens, len(topology.node_slot_names)), unit=0.125))
    arcs = data.draw(potentials((topology.n_arc_slots,), unit=0.125))
    first, last = data.draw(potentials((2, topology.n_states), unit=0.125))
    graph = topology.graph(arcs, first, last)
    node, offsets = topology.node_potentials(slots), np.asarray([0, tokens])
    log_z = kernel.log_partition(graph, offsets, node)[0]
    states, score = kernel.viterbi(graph, offsets, node)

    machine = topology_machine(topology, arcs, first, last)
    composed = pynini.compose(
        openfst.to_fst(emissions(topology, slots)), openfst.to_fst(machine)
    ).project("output")
    found = Lattice.from_fst(composed, topology.labels)
    assert found.log_partition() == pytest.approx(log_z, rel=1e-12, abs=1e-12)
    if log_z > -np.inf:
        best = tuple(topology.labels[k] for k in topology.state_label[states])
        assert found.best().score == score[0]
        assert found.score(best) == score[0]

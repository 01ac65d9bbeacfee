"""Plans: what a composition compiles to, and whether the numbers add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf.constraints import at_most, before, bio, neighbours, pairs
from fstcrf.errors import LabelError, OptionError
from fstcrf.lattices import Lattice, product
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import Program, TapeChain, plan_of
from fstcrf.machines.topology import chain_topology

BIO = ("O", "B-X", "I-X")
TAGS = ("n", "v", "p", "d")


def lattice(labels: tuple[str, ...], tape: str, tokens: int = 3) -> Lattice:
    rng = np.random.default_rng(len(labels))
    size = len(labels)
    return Lattice.from_arrays(
        labels, rng.normal(size=(tokens, size)), rng.normal(size=(size, size)), tape=tape
    )


def chain(name: str, labels: tuple[str, ...] = BIO, **more: Any) -> TapeChain:
    topology = chain_topology(labels)
    size = len(labels)
    arguments = {
        "initial": np.zeros(size),
        "final": np.zeros(size),
        "arc": np.zeros(size * size),
        **more,
    }
    return TapeChain(name=name, topology=topology, **arguments)


# --- The numbers -------------------------------------------------------------------------------


def test_one_tape() -> None:
    plan = lattice(BIO, "chunk").plan()
    (axis,) = plan.axes
    assert (axis.tape, axis.n_labels, axis.n_states, axis.n_arcs) == ("chunk", 3, 3, 9)
    assert (axis.kind, axis.tables, axis.reads, axis.operations) == ("dense", 1, (), 9)
    assert (plan.n_residual, plan.n_edges, plan.cells, plan.grammar) == (1, 0, 3, ())
    assert plan.operations == 9 + 3  # the arcs, and node potentials of each state
    assert plan.dense_operations == 9


def test_products_cost_a_sum_of_axes() -> None:
    plan = product(
        [lattice(TAGS, "tag"), lattice(BIO, "chunk")], coupling={(0, 1): np.zeros((4, 3))}
    ).plan()
    assert [a.tape for a in plan.axes] == ["tag", "chunk"]
    assert [a.operations for a in plan.axes] == [12 * 4, 12 * 3]
    assert plan.cells == 12
    assert plan.operations == 12 * (4 + 3) + 3 * 12  # two tapes' potentials and a coupling
    assert plan.dense_operations == 16 * 9


def test_residuals_multiply() -> None:
    free = lattice(BIO, "chunk").plan()
    one = lattice(BIO, "chunk").constrained(at_most(2, "X"), search="expanded")
    plan = one.plan()
    assert plan.n_residual == one.dense.program.n_residual > 1
    assert plan.cells == 3 * plan.n_residual
    assert plan.axes[0].operations == free.axes[0].operations * plan.n_residual
    assert plan.dense_operations == free.dense_operations * plan.n_residual
    residual = one.dense.program.machine.residual
    assert residual is not None
    assert plan.n_edges == len(residual.source)


def test_sparse_axes() -> None:
    labels = tuple(f"x{i}" for i in range(12))
    ring = neighbours([(labels[i], labels[(i + 1) % 12]) for i in range(12)])
    plan = (lattice(labels, "ring") & ring).plan()
    assert (plan.axes[0].kind, plan.axes[0].n_arcs, plan.n_residual) == ("sparse", 12, 1)
    assert plan.axes[0].operations == 12
    assert lattice(labels, "ring").plan().axes[0].kind == "dense"


def test_tapes_that_are_read() -> None:
    later = chain("chunk", arc=np.zeros((4, 9)), arc_context=("tag",), node_contexts=((), ("tag",)))
    plan = plan_of(Program([later, chain("tag", TAGS)]))
    assert [a.tape for a in plan.axes] == ["tag", "chunk"]
    assert (plan.axes[1].tables, plan.axes[1].reads) == (4, ("tag",))
    assert "reads tag" in str(plan)


# --- The text ----------------------------------------------------------------------------------


def test_where_each_conjunct_went() -> None:
    two = lattice(TAGS, "tag") @ lattice(BIO, "chunk")
    grammar = (
        bio(tape="chunk")
        & at_most(1, "X", tape="chunk")
        & pairs({"v": ["O"]}, ("tag", "chunk"))
        & before("n", "v", tape="tag")
    )
    plan = two.constrained(grammar, search="expanded").plan()
    where = [place for _, place in plan.grammar]
    assert [name for name, _ in plan.grammar] == [
        acceptor.name for acceptor in grammar.bind(dict(zip(two.tapes, two.labels, strict=True)))
    ]
    assert where[0] == "folded into the arcs of chunk"
    assert where[1].startswith("kept as an automaton of ")
    assert where[2] == "added to the potentials of tokens"
    assert where[3] == "kept as an automaton of 2 states"
    text = str(plan)
    for name, place in plan.grammar:
        assert f"grammar: {name}: {place}" in text
    assert f"residual automaton: {plan.n_residual} states, {plan.n_edges} edges" in text
    assert f"multiplies the cost by {plan.n_residual}" in text
    assert f"joint states a token: {plan.cells}" in text
    assert f"operations a token: {plan.operations}" in text
    assert all(tape in text for tape in two.tapes)


def test_a_plan_without_a_grammar_names_none() -> None:
    text = str(lattice(BIO, "chunk").plan())
    assert "grammar" not in text
    assert "residual" not in text
    assert text.splitlines()[0].split() == [
        "tape",
        "labels",
        "states",
        "arcs",
        "step",
        "operations",
    ]


def test_large_numbers_are_readable() -> None:
    labels = tuple(f"x{i}" for i in range(45))
    text = str((lattice(labels, "a") @ lattice(labels, "b")).plan())
    assert "joint states a token: 2,025" in text


def test_folding_is_free() -> None:
    free, under = lattice(BIO, "chunk"), lattice(BIO, "chunk") & bio()
    assert under.plan().n_residual == 1
    assert under.plan().cells == free.plan().cells
    assert under.plan().operations <= free.plan().operations


# --- What is refused ---------------------------------------------------------------------------


def test_programs_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="tapes need distinct names, got a, a"):
        Program([chain("a"), chain("a")])
    with pytest.raises(OptionError, match="the tape 'a' reads 'b', which is not part"):
        Program([chain("a", node_contexts=((), ("b",)))])
    circle = [chain("a", node_contexts=((), ("b",))), chain("b", node_contexts=((), ("a",)))]
    with pytest.raises(OptionError, match="the tapes a, b read each other in a cycle"):
        Program(circle)


def _anything(tape: str, labels: tuple[str, ...]) -> Acceptor:
    target = np.zeros((1, len(labels)), dtype=np.int32)
    return Acceptor((tape,), (labels,), target, None, np.zeros(1), "anything")


def test_grammars_over_other_tapes_or_labels() -> None:
    with pytest.raises(LabelError, match="anything reads the tape 'b'; the tapes are 'a'"):
        Program([chain("a")], (), [_anything("b", BIO)]).folding  # noqa: B018
    other = Program([chain("a")], (), [_anything("a", ("O", "B-Y", "I-X"))])
    with pytest.raises(LabelError, match="bound to other labels than the tape 'a' has: B-X, B-Y"):
        other.machine  # noqa: B018
    turned = Program([chain("a")], (), [_anything("a", BIO[::-1])])
    with pytest.raises(LabelError, match="in another order"):
        turned.machine  # noqa: B018


def test_programs_are_shared() -> None:
    """Equal transitions, couplings and grammars are compiled once."""
    grammar = bio()
    rng = np.random.default_rng(0)
    arcs, coupling = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))

    def made() -> tuple[Lattice, ...]:
        one = Lattice.from_arrays(BIO, rng.normal(size=(4, 3)), arcs)
        two = product([one, one], coupling={(0, 1): coupling})
        return one, one & grammar, two, one.scale(2.0), product([one, one], weights=[1.0, 0.5])

    for first, second in zip(made(), made(), strict=True):
        assert first.dense.program is second.dense.program

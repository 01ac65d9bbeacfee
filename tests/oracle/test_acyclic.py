"""Acyclic lattices against all of their paths written down, against chain lattices, and pynini."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.arrays import Floats
from fstcrf.lattices import Lattice
from fstcrf.lattices.machines import sausage_machine
from fstcrf.machines import openfst
from fstcrf.machines.machine import Machine
from tests.support.fsts import Found, all_paths, machines, pynini_or_skip
from tests.support.oracles import assert_close, largest, log_sum
from tests.support.strategies import potentials

LABELS = ("1", "2", "3")  # those of `machines`
ACCEPTORS = machines(acyclic=True, acceptor=True, max_states=6, max_arcs=12)


def read(machine: Machine) -> tuple[Lattice, list[Found]]:
    """Make a lattice, and list the paths of what it has become: their arcs decide ties."""
    lattice = Lattice.from_machine(machine, LABELS)
    found, before = all_paths(lattice.machine), all_paths(machine)
    assert sorted(p[::2] for p in found) == sorted(p[::2] for p in before)
    return lattice, found


def named(labels: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(LABELS[k] for k in labels)


class Chain(NamedTuple):
    """Potentials of a chain lattice; those of arcs shared or per-token."""

    node: Floats
    arcs: Floats
    first: Floats
    last: Floats

    def lattice(self) -> Lattice:
        size = self.node.shape[1]
        per_token = self.arcs[1:].reshape(-1, size, size) if self.arcs.ndim == 2 else None
        arcs = self.arcs.reshape(size, size) if per_token is None else per_token
        return Lattice.from_arrays(LABELS[:size], self.node, arcs, self.first, self.last)

    def turned(self) -> Lattice:
        """Make a machine of it, and a lattice of that."""
        return Lattice.from_machine(sausage_machine(*self, LABELS[: self.node.shape[1]]))


def whole_chain(rng: np.random.Generator, tokens: int, *, digits: int = 9) -> Chain:
    shapes = (tokens, 3), (9,), (3,), (3,)
    return Chain(*((rng.normal(size=shape) * 3).round(digits) for shape in shapes))


@st.composite
def chains(draw: st.DrawFn, *, unit: float | None = None) -> Chain:
    tokens, size = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    shape = draw(st.sampled_from([(size * size,), (tokens, size * size)]))
    shapes = (tokens, size), shape, (size,), (size,)
    return Chain(*(draw(potentials(s, unit=unit)) for s in shapes))


# --- Enumeration -------------------------------------------------------------------------------


def totals(paths: list[Found]) -> dict[tuple[int, ...], float]:
    """Log of the sum over the paths of each label sequence."""
    alike: dict[tuple[int, ...], list[float]] = {}
    for path in paths:
        alike.setdefault(path.labels, []).append(path.score)
    return {labels: log_sum(np.asarray(scores)) for labels, scores in alike.items()}


@given(machine=ACCEPTORS, budget=st.integers(1, 4), n=st.integers(1, 5))
def test_label_sequences_within_a_budget(machine: Machine, budget: int, n: int) -> None:
    """What is not proven says so: its bound is kept, and the best path's labels are among it."""
    lattice, paths = read(machine)
    summed = {named(labels): total for labels, total in totals(paths).items()}
    found = lattice.strings(n=n, budget=budget)
    assert bool(found) == bool(paths)
    assert len({p.labels for p in found}) == len(found) <= n
    left = summed.keys() - {p.labels for p in found}
    for path in found:
        assert_close(path.score, summed[path.labels])
        if not path.exact:
            assert all(summed[labels] <= path.bound + 1e-9 for labels in left)


# --- Chains ------------------------------------------------------------------------------------


@given(chain=chains())
def test_chains(chain: Chain) -> None:
    lattice, other = chain.lattice(), chain.turned()
    scale = largest(*chain)
    assert_close(other.log_partition(), lattice.log_partition(), scale=scale)
    if lattice.log_partition() == -np.inf:
        assert len(other.machine.source) == 0
        return
    one, two = lattice.best(), other.best()
    assert (one.labels, one.score) == (two.labels, two.score)
    assert_close(other.marginals(), lattice.marginals(), scale=scale)
    assert_close(other.max_marginals(), lattice.max_marginals(), scale=scale)
    assert_close(other.entropy(), lattice.entropy(), scale=scale)
    for path in other.nbest(5):
        assert path.score == lattice.score(path.labels)
        assert_close(other.probability(path.labels), path.probability, scale=scale)


def test_many_best_paths() -> None:
    """More than the search makes room for at first; all of them, in order."""
    rng = np.random.default_rng(1)
    node = rng.integers(0, 3, size=(7, 3)).astype(np.float64)
    chain = Chain(node, np.zeros(9), np.zeros(3), np.zeros(3))
    lattice, other = chain.lattice(), chain.turned()
    found = other.nbest(5000)
    assert len(found) == 3**7
    sequences = itertools.product(LABELS, repeat=7)
    wanted = sorted((-lattice.score(s), s) for s in sequences)
    assert [(-path.score, path.labels) for path in found] == wanted
    assert other.nbest(700) == found[:700]


def test_large_scores_and_long_chains() -> None:
    """Sums are taken in the log domain: nothing underflows."""
    rng = np.random.default_rng(2)
    chain = whole_chain(rng, 300)
    chain = chain._replace(node=chain.node * 1e3)
    lattice, other = chain.lattice(), chain.turned()
    assert other.log_partition() == pytest.approx(lattice.log_partition(), rel=1e-12)
    np.testing.assert_allclose(other.marginals(), lattice.marginals(), atol=1e-9)
    assert other.best().labels == lattice.best().labels


# --- pynini ------------------------------------------------------------------------------------


@given(machine=ACCEPTORS)
def test_best_paths_by_pynini(machine: Machine) -> None:
    pynini = pynini_or_skip()
    lattice, paths = read(machine)
    fst = lattice.to_fst("standard")
    found = openfst.from_fst(pynini.shortestpath(fst, nshortest=4))
    wanted = [path.score for path in lattice.nbest(4)]
    assert [path.score for path in all_paths(found)] == wanted
    assert len(wanted) == min(4, len(paths))


@given(machine=ACCEPTORS)
def test_sums_by_pynini(machine: Machine) -> None:
    pynini = pynini_or_skip()
    lattice, paths = read(machine)
    fst = lattice.to_fst("log64")
    # delta = 0, or the sum stops early; weights pass through text of nine digits.
    distance = pynini.shortestdistance(fst, delta=0.0, reverse=True)
    assert bool(distance) == bool(paths)
    if paths:
        log_z = -float(str(distance[fst.start()]))
        assert lattice.log_partition() == pytest.approx(log_z, rel=1e-7, abs=1e-7)


def test_a_composition_comes_back() -> None:
    """Chain ∘ grammar: the same best path and sum as the mask that says the same."""
    pynini = pynini_or_skip()
    rng = np.random.default_rng(5)
    chain = whole_chain(rng, 5)
    for arc_type in ("standard", "log64"):
        naming = openfst.Naming((LABELS, LABELS), tape=None)
        machine = openfst.from_att("0 0 1\n0 0 2\n0\n", naming, numeric=True)
        never_z = openfst.to_fst(machine, arc_type)
        composed = pynini.compose(chain.turned().to_fst(arc_type), never_z)
        found = Lattice.from_fst(composed, LABELS)
        wanted = chain.lattice().restrict(np.asarray([[True, True, False]] * 5))
        rel = 1e-6 if arc_type == "standard" else 1e-12
        assert found.best().labels == wanted.best().labels
        assert found.log_partition() == pytest.approx(wanted.log_partition(), rel=rel)


@pytest.mark.parametrize("seed", range(10))
def test_any_numbering_of_the_states(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = whole_chain(rng, 4, digits=0)
    machine = chain.turned().machine
    number = np.append(0, 1 + rng.permutation(len(machine.final) - 1)).astype(np.int32)
    order = rng.permutation(len(machine.source))
    final = np.empty_like(machine.final)
    final[number] = machine.final
    mixed = replace(
        machine,
        source=number[machine.source[order]],
        target=number[machine.target[order]],
        input=machine.input[order],
        output=machine.output[order],
        score=machine.score[order],
        final=final,
    )
    found = Lattice.from_machine(mixed, LABELS)
    assert found.nbest(20) == chain.turned().nbest(20)
    assert_close(found.marginals(), chain.lattice().marginals())

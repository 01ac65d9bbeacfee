"""Acyclic lattices against all of their paths written down, against chain lattices, and pynini."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from fstcrf.arrays import Floats
from fstcrf.errors import NoPathError, ShapeError
from fstcrf.kernel import acyclic
from fstcrf.lattices import ArcLattice, Lattice
from fstcrf.machines import openfst
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.openfst import Machine
from tests.support.fsts import ARC_TYPES, Found, all_paths, machines, pynini_or_skip
from tests.support.oracles import assert_close, largest, log_sum
from tests.support.strategies import potentials

LABELS = ("x", "y", "z")
ACCEPTORS = machines(acyclic=True, acceptor=True, max_states=6, max_arcs=12)


def read(machine: Machine) -> tuple[ArcLattice, list[Found]]:
    """Make a lattice, and list the paths of what it has become: their arcs decide ties."""
    lattice = Lattice.from_machine(machine, LABELS)
    found, before = all_paths(lattice.machine), all_paths(machine)
    assert sorted(p[::2] for p in found) == sorted(p[::2] for p in before)
    return lattice, found


def named(labels: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(LABELS[k] for k in labels)


def values(paths: list[Found]) -> Floats:
    return np.asarray([path.score for path in paths], dtype=np.float64)


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

    def turned(self) -> ArcLattice:
        """Make a machine of it, and a lattice of that."""
        table = openfst.symbols(LABELS[: self.node.shape[1]])
        machine = openfst.sausage_machine(*self, symbols=table)
        return Lattice.from_machine(machine)


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


@given(machine=ACCEPTORS)
def test_best_paths(machine: Machine) -> None:
    lattice, paths = read(machine)
    if not paths:
        with pytest.raises(NoPathError):
            lattice.best()
        assert lattice.nbest(3) == []
        return
    best = lattice.best()
    assert (best.labels, best.score) == (named(paths[0].labels), paths[0].score)
    assert_close(best.probability, math.exp(best.score - log_sum(values(paths))))
    everything = lattice.nbest(len(paths) + 2)
    assert [(p.labels, p.score) for p in everything] == [(named(p.labels), p.score) for p in paths]
    assert math.fsum(p.probability for p in everything) == pytest.approx(1.0, rel=1e-12)
    for n in range(len(paths)):
        assert lattice.nbest(n) == everything[:n]


def totals(paths: list[Found]) -> dict[tuple[int, ...], float]:
    """Log of the sum over the paths of each label sequence."""
    alike: dict[tuple[int, ...], list[float]] = {}
    for path in paths:
        alike.setdefault(path.labels, []).append(path.score)
    return {labels: log_sum(np.asarray(scores)) for labels, scores in alike.items()}


@given(machine=ACCEPTORS)
def test_best_label_sequences(machine: Machine) -> None:
    """Each by its best path; its probability is that of all of its paths."""
    lattice, paths = read(machine)
    top: dict[tuple[int, ...], float] = {}
    for path in paths:
        top.setdefault(path.labels, path.score)
    wanted = sorted(top.items(), key=lambda item: (-item[1], item[0]))
    found = lattice.nbest(len(paths) + 1, tapes=["label"])
    assert [(p.labels, p.score) for p in found] == [(named(k), score) for k, score in wanted]
    assert lattice.nbest(2, tapes=["label"]) == found[:2]
    log_z, summed = log_sum(values(paths)), totals(paths)
    chances = [math.exp(summed[labels] - log_z) for labels, _ in wanted]
    assert_close(np.asarray([p.probability for p in found]), np.asarray(chances))
    assert [p.probability for p in found] == [lattice.probability(p.labels) for p in found]


@given(machine=ACCEPTORS)
def test_most_probable_label_sequences(machine: Machine) -> None:
    lattice, paths = read(machine)
    log_z, summed = log_sum(values(paths)), totals(paths)
    found = lattice.strings(len(paths) + 1)
    assert sorted(p.labels for p in found) == sorted(named(labels) for labels in summed)
    assert all(p.exact and p.bound == p.score for p in found)
    for path in found:
        labels = tuple(LABELS.index(label) for label in path.labels)
        assert_close(path.score, summed[labels])
        assert_close(path.probability, math.exp(summed[labels] - log_z))
    scores = [p.score for p in found]
    assert_close(np.asarray(scores), np.asarray(sorted(summed.values(), reverse=True)))
    for n in range(1, len(found)):
        assert lattice.strings(n) == found[:n]


@given(machine=ACCEPTORS, budget=st.integers(1, 4), n=st.integers(1, 5))
def test_label_sequences_within_a_budget(machine: Machine, budget: int, n: int) -> None:
    """What is not proven says so: its bound is kept, and the best path's labels are among it."""
    lattice, paths = read(machine)
    summed = {named(labels): total for labels, total in totals(paths).items()}
    found = lattice.strings(n, budget=budget)
    assert bool(found) == bool(paths)
    assert len({p.labels for p in found}) == len(found) <= n
    left = summed.keys() - {p.labels for p in found}
    for path in found:
        assert_close(path.score, summed[path.labels])
        if not path.exact:
            assert all(summed[labels] <= path.bound + 1e-9 for labels in left)


@given(machine=ACCEPTORS)
def test_sums(machine: Machine) -> None:
    lattice, paths = read(machine)
    scores = values(paths)
    log_z = log_sum(scores)
    assert_close(lattice.log_partition(), log_z)
    if not paths:
        with pytest.raises(NoPathError):
            lattice.entropy()
        return
    share = np.exp(scores - log_z)
    assert_close(lattice.entropy(), -(share * np.log(share)).sum(), scale=10.0)
    flat = acyclic.Acyclic(
        *(getattr(lattice.machine, n) for n in ("row", "target", "score", "final"))
    )
    arc, most = np.zeros(lattice.machine.n_arcs), np.full(lattice.machine.n_arcs, -np.inf)
    for path, probability in zip(paths, share, strict=True):
        for a in path.arcs:
            arc[a] += probability
            most[a] = max(most[a], path.score)
    assert_close(flat.marginals()[1], arc)
    assert flat.max_marginals().tolist() == most.tolist()


@given(machine=ACCEPTORS)
def test_marginals_of_any_length(machine: Machine) -> None:
    lattice, paths = read(machine)
    lengths = {len(path.labels) for path in paths} or {0}
    assert lattice.lengths == (min(lengths), max(lengths))
    if len(lengths) > 1:
        with pytest.raises(ShapeError, match=f"{min(lengths)} to {max(lengths)} labels"):
            len(lattice)
    else:
        assert len(lattice) == min(lengths)
    if paths:
        compare_marginals(lattice, paths)


def compare_marginals(lattice: ArcLattice, paths: list[Found]) -> None:
    share = np.exp(values(paths) - log_sum(values(paths)))
    wanted = np.zeros((lattice.lengths[1], len(LABELS)))
    most = np.full_like(wanted, -np.inf)
    for path, probability in zip(paths, share, strict=True):
        for t, k in enumerate(path.labels):
            wanted[t, k] += probability
            most[t, k] = max(most[t, k], path.score)
    assert_close(lattice.marginals(), wanted)
    assert lattice.max_marginals().tolist() == most.tolist()


@given(machine=ACCEPTORS, data=st.data())
def test_one_label_sequence(machine: Machine, data: st.DataObject) -> None:
    lattice, paths = read(machine)
    there = st.sampled_from([path.labels for path in paths]) if paths else st.nothing()
    anything = st.lists(st.integers(0, 2), max_size=4).map(tuple)
    labels = data.draw(there | anything)
    mine = [path.score for path in paths if path.labels == labels]
    assert lattice.score(named(labels)) == max(mine, default=-np.inf)
    log_z = log_sum(values(paths))
    wanted = math.exp(log_sum(np.asarray(mine)) - log_z) if mine else 0.0
    assert_close(lattice.probability(named(labels)), wanted)


@given(machine=ACCEPTORS, c=st.sampled_from([-1.0, 0.0, 0.5, 3.0]))
def test_scale(machine: Machine, c: float) -> None:
    lattice, paths = read(machine)
    scaled = lattice.scale(c)
    assert_close(scaled.log_partition(), log_sum(c * values(paths)))
    assert len(scaled.nbest(len(paths) + 1)) == len(paths)


@given(chain=chains(unit=0.125), data=st.data())
def test_restrict(chain: Chain, data: st.DataObject) -> None:
    mask = data.draw(hnp.arrays(np.bool_, chain.node.shape))
    lattice, other = chain.lattice(), chain.turned()
    if other.log_partition() == -np.inf:
        return
    wanted, found = lattice.restrict(mask), other.restrict(mask)
    assert_close(found.log_partition(), wanted.log_partition())
    if wanted.log_partition() == -np.inf:
        with pytest.raises(NoPathError) as caught:
            found.best()
        assert caught.value.position is not None
        return
    assert_close(found.marginals(), wanted.marginals())
    again = found.restrict(mask)
    assert again.log_partition() == found.log_partition()


# --- Chains ------------------------------------------------------------------------------------


@given(chain=chains())
def test_chains(chain: Chain) -> None:
    lattice, other = chain.lattice(), chain.turned()
    scale = largest(*chain)
    assert_close(other.log_partition(), lattice.log_partition(), scale=scale)
    if lattice.log_partition() == -np.inf:
        assert other.machine.n_arcs == 0
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


def test_samples_are_drawn_by_probability() -> None:
    machine = openfst.from_att(
        "0 1 1 1 0.5\n0 2 2 2 1.0\n0 2 0 0 0.2\n1 2 1 1 0.1\n1 3 0 0\n2 3 3 3 0.3\n2 0.7\n3\n"
    )
    lattice, paths = read(machine)
    share = np.exp(values(paths) - log_sum(values(paths)))
    wanted: Counter[tuple[str, ...]] = Counter()
    for path, probability in zip(paths, share.tolist(), strict=True):
        wanted[named(path.labels)] += probability
    n = 20_000
    found = Counter(lattice.sample(n, seed=3))
    assert set(found) == set(wanted)
    chi = sum((found[k] - n * p) ** 2 / (n * p) for k, p in wanted.items())
    assert chi < 3 * len(wanted)
    assert lattice.sample(5, seed=3) == lattice.sample(5, seed=3)


@given(machine=ACCEPTORS)
def test_samples_are_paths(machine: Machine) -> None:
    lattice, paths = read(machine)
    if not paths:
        with pytest.raises(NoPathError):
            lattice.sample(1, seed=0)
        return
    assert set(lattice.sample(20, seed=0)) <= {named(path.labels) for path in paths}


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


@pytest.mark.thorough
@pytest.mark.parametrize("arc_type", ARC_TYPES)
@given(machine=ACCEPTORS)
def test_there_and_back(arc_type: Any, machine: Machine) -> None:
    pynini_or_skip()
    lattice, _ = read(machine)
    again = Lattice.from_fst(lattice.to_fst(arc_type))
    assert again.labels == lattice.labels
    assert again.nbest(5) == lattice.nbest(5)
    assert again.log_partition() == lattice.log_partition()


def test_a_composition_comes_back() -> None:
    """Chain ∘ grammar: the same best path and sum as the mask that says the same."""
    pynini = pynini_or_skip()
    rng = np.random.default_rng(5)
    chain = whole_chain(rng, 5)
    for arc_type in ("standard", "log64"):
        never_z = openfst.to_fst(openfst.from_att("0 0 1 1\n0 0 2 2\n0\n"), arc_type)
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
    number = rng.permutation(machine.n_states).astype(np.int32)
    source = number[machine.source]
    order = np.lexsort((rng.random(machine.n_arcs), source))
    final = np.empty_like(machine.final)
    final[number] = machine.final
    mixed = Machine(
        start=int(number[machine.start]),
        source=source[order],
        target=number[machine.target][order],
        ilabel=machine.ilabel[order],
        olabel=machine.olabel[order],
        score=machine.score[order],
        final=final,
    )
    found = Lattice.from_machine(mixed, LABELS)
    assert found.nbest(20) == chain.turned().nbest(20)
    assert_close(found.marginals(), chain.lattice().marginals())


# --- Under a grammar -----------------------------------------------------------------------------

SOFT = Grammar.from_arrays(
    LABELS, [[1, 0, -1], [0, 1, 1]], score=[[0.5, -1.0, 0.0], [0.25, 0, 2.0]], final=[0, -0.5]
)


@given(ACCEPTORS)
def test_a_grammar_keeps_the_paths_that_it_accepts(machine: Machine) -> None:
    lattice, paths = read(machine)
    bound, under = SOFT.bound(LABELS), lattice & SOFT
    kept = [(p.labels, p.score + bound.score(named(p.labels))) for p in paths]
    scores = sorted((s for _, s in kept if s > -np.inf), reverse=True)
    assert_close(under.log_partition(), log_sum(np.asarray(scores)) if scores else -np.inf)
    if not scores:
        with pytest.raises(NoPathError):
            under.best()
        return
    assert_close(np.asarray([p.score for p in under.nbest(20)]), np.asarray(scores[:20]))

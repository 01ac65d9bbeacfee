"""Product lattices against pynini's compose, shortestdistance and shortestpath.

Every tape, coupling and grammar becomes an acceptor over tuples of labels, and pynini intersects
them; for two tapes, also lattice ∘ coupling ∘ lattice as transducers.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import GrammarError
from fstcrf.machines.grammar import Acceptor
from tests.support.compositions import Tape, World, random_world
from tests.support.fsts import log_sum

pynini: Any = pytest.importorskip("pynini", reason="pynini is not installed")


Symbols = dict[tuple[int, ...], int]


class Builder:
    """A pynini machine over numbered symbols; −inf is an arc that is not there."""

    def __init__(self, arc_type: str) -> None:
        self.fst = pynini.Fst(arc_type=arc_type)
        self._semiring = "tropical" if arc_type == "standard" else arc_type

    def states(self, n: int) -> None:
        for _ in range(n):
            self.fst.add_state()
        self.fst.set_start(0)

    def arc(self, source: int, symbol: int, score: float, target: int, out: int = -1) -> None:
        if score > -np.inf:
            weight = pynini.Weight(self._semiring, -score)
            both = symbol, symbol if out < 0 else out
            self.fst.add_arc(source, pynini.Arc(*both, weight, target))

    def final(self, state: int, score: float) -> None:
        if score > -np.inf:
            self.fst.set_final(state, pynini.Weight(self._semiring, -score))

    def sorted(self) -> Any:
        return self.fst.arcsort("ilabel")


def symbols_of(world: World) -> Symbols:
    sizes = [range(len(t.labels)) for t in world.tapes]
    return {labels: k + 1 for k, labels in enumerate(itertools.product(*sizes))}


def lattice_machine(tape: Tape, k: int, symbols: Symbols, weight: float, arc_type: str) -> Any:
    """States: the start, then a copy of the topology's states for each token."""
    made, size, topology = Builder(arc_type), tape.topology.n_states, tape.topology
    made.states(1 + tape.tokens * size)

    def add(source: int, target: int, label: int, score: float) -> None:
        if score > -np.inf:
            for labels, symbol in symbols.items():
                if labels[k] == label:
                    made.arc(source, symbol, weight * score, target)

    arcs = np.broadcast_to(tape.arc, (tape.tokens, tape.arc.shape[-1]))
    label = topology.state_label.tolist()
    for j in np.flatnonzero(topology.initial).tolist():
        add(0, 1 + j, label[j], tape.initial[j] + tape.node[0, j])
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for t, (number, (i, j)) in itertools.product(range(1, tape.tokens), enumerate(ends)):
        first = 1 + t * size
        arc = i * size + j if topology.dense else number
        add(first - size + i, first + j, label[j], arcs[t, arc] + tape.node[t, j])
    for j in np.flatnonzero(topology.final).tolist():
        if tape.final[j] > -np.inf:
            made.final(1 + (tape.tokens - 1) * size + j, weight * tape.final[j])
    return made.sorted()


def coupling_machine(world: World, key: tuple[int, int], symbols: Symbols, arc_type: str) -> Any:
    table = world.couplings[key]
    made = Builder(arc_type)
    whole = np.broadcast_to(table, (world.tokens, *table.shape[-2:]))
    made.states(world.tokens + 1)
    for t, (labels, symbol) in itertools.product(range(world.tokens), symbols.items()):
        made.arc(t, symbol, whole[t][labels[key[0]], labels[key[1]]], t + 1)
    made.final(world.tokens, 0.0)
    return made.sorted()


def grammar_machine(world: World, acceptor: Acceptor, symbols: Symbols, arc_type: str) -> Any:
    made, names = Builder(arc_type), [t.name for t in world.tapes]
    made.states(acceptor.n_states)
    places = [names.index(t) for t in acceptor.tapes]
    for q, (labels, symbol) in itertools.product(range(acceptor.n_states), symbols.items()):
        step = (q, *(labels[k] for k in places))
        if acceptor.target[step] >= 0:
            score = 0.0 if acceptor.score is None else acceptor.score[step]
            made.arc(q, symbol, score, int(acceptor.target[step]))
    for q, score in enumerate(acceptor.final.tolist()):
        made.final(q, score)
    return made.sorted()


def composed(world: World, arc_type: str) -> Any:
    symbols = symbols_of(world)
    weights = world.weights or (1.0,) * len(world.tapes)
    pairs = enumerate(zip(world.tapes, weights, strict=True))
    whole, *others = [lattice_machine(t, k, symbols, w, arc_type) for k, (t, w) in pairs]
    others += [coupling_machine(world, key, symbols, arc_type) for key in world.couplings]
    others += [grammar_machine(world, a, symbols, arc_type) for a in world.conjuncts]
    for other in others:
        whole = pynini.compose(whole, other).arcsort("olabel")
    return whole


SEEDS = range(45)


def small(seed: int) -> World:
    return random_world(60_000 + seed, tokens=1 + seed % 5, limit=3000)


@pytest.mark.parametrize("seed", SEEDS)
def test_sums(seed: int) -> None:
    world = small(seed)
    wanted = log_sum(composed(world, "log64"))
    try:
        found = world.lattice().log_partition()
    except GrammarError:
        found = -np.inf
    assert found == wanted or found == pytest.approx(wanted, rel=1e-7, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_ranked_paths(seed: int) -> None:
    """The ten shortest paths, whose arcs have float32 weights there."""
    world = small(seed)
    if world.log_z == -np.inf:
        return
    shortest = pynini.shortestpath(composed(world, "standard"), nshortest=10)
    names = {symbol: labels for labels, symbol in symbols_of(world).items()}
    lattice = world.lattice()
    theirs = []
    paths = shortest.paths()
    while not paths.done():
        tuples = [names[i] for i in paths.ilabels() if i > 0]
        labels = [
            tuple(tape.labels[step[k]] for step in tuples) for k, tape in enumerate(world.tapes)
        ]
        theirs.append(lattice.score(labels[0] if len(labels) == 1 else labels))
        paths.next()
    ours = [path.score for path in lattice.nbest(10)]
    np.testing.assert_allclose(sorted(theirs, reverse=True), ours, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_lattice_coupling_lattice(seed: int) -> None:
    """Two tapes as transducers: the first reads its labels, the second writes its own."""
    found = random_world(70_000 + seed, tapes=2, tokens=1 + seed % 5, conjuncts=0, limit=3000)
    rng = np.random.default_rng(seed)
    sizes = [len(t.labels) for t in found.tapes]
    table = rng.normal(size=(*((found.tokens,) if seed % 2 else ()), *sizes))
    world = World(found.tapes, {(0, 1): table})
    one, other = [
        lattice_machine(t, 0, {(i,): i + 1 for i in range(len(t.labels))}, 1.0, "log64")
        for t in world.tapes
    ]
    made = Builder("log64")
    steps = world.tokens if seed % 2 else 1
    made.states(steps + 1 if seed % 2 else 1)
    for t, i, j in itertools.product(range(steps), *map(range, sizes)):
        score = table[t, i, j] if seed % 2 else table[i, j]
        made.arc(t, i + 1, score, t + 1 if seed % 2 else 0, j + 1)
    made.final(steps if seed % 2 else 0, 0.0)
    whole = pynini.compose(pynini.compose(one, made.sorted()).arcsort("olabel"), other)
    wanted = log_sum(whole)
    result = world.lattice().log_partition()
    assert result == wanted or result == pytest.approx(wanted, rel=1e-7, abs=1e-6)


def test_a_case_is_not_trivial() -> None:
    """The random cases hold what they are meant to."""
    worlds = [small(seed) for seed in SEEDS]
    assert sum(world.log_z > -np.inf for world in worlds) > len(worlds) // 2
    assert {len(world.tapes) for world in worlds} == {1, 2, 3}
    assert any(not t.topology.dense for w in worlds for t in w.tapes)
    assert any(w.couplings and w.conjuncts for w in worlds)

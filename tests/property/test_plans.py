"""Programs with potentials that depend on other tapes' labels, against every joint labelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.arrays import Floats
from fstcrf.errors import GrammarError, NoPathError
from fstcrf.lattices import ChainRow, Lattice
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import Coupling, Program, TapeChain, arc_ends
from fstcrf.machines.topology import chain_topology
from tests.support.compositions import Tape, World, numbers, random_acceptor, random_topology

Context = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Case:
    """A program, what a sentence brings, and the score of every joint labelling."""

    program: Program
    values: tuple[Floats, ...]
    world: World


def random_case(seed: int) -> Case:
    """Chains that read each other, in any order of tapes; static and per-token potentials."""
    rng = np.random.default_rng(seed)
    while True:
        n, tokens = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        sizes = rng.integers(1, 4, n).tolist()
        if float(np.prod(sizes)) ** tokens <= 1500:
            break
    names = [f"t{k}" for k in range(n)]
    labels = {t: tuple(f"{t}{i}" for i in range(s)) for t, s in zip(names, sizes, strict=True)}
    rank = rng.permutation(n).tolist()  # who may read whom
    chains: list[TapeChain] = []
    for k, name in enumerate(names):
        earlier = [other for j, other in enumerate(names) if rank[j] < rank[k]]
        chains.append(_random_chain(rng, name, labels, earlier))
    couplings = []
    for _ in range(int(rng.integers(0, 3)) if n > 1 else 0):
        tapes = tuple(rng.permutation(names)[: int(rng.integers(2, n + 1))].tolist())
        value = numbers(rng, tuple(len(labels[t]) for t in tapes), 0.05)
        couplings.append(Coupling(tapes, value if rng.random() < 0.6 else None))
    conjuncts: list[Acceptor] = []
    for _ in range(int(rng.integers(0, 3))):
        read = rng.permutation(names)[: int(rng.integers(1, n + 1))].tolist()
        conjuncts.append(random_acceptor(rng, [(t, labels[t]) for t in read]))
    program = Program(chains, couplings, conjuncts)
    values = tuple(_brought(rng, program, what, tokens) for what in program.inputs)
    return Case(program, values, _world(program, values, tokens))


def _random_chain(
    rng: np.random.Generator, name: str, labels: dict[str, tuple[str, ...]], earlier: list[str]
) -> TapeChain:
    topology = random_topology(rng, labels[name])

    def context() -> Context:
        return tuple(rng.permutation(earlier)[: int(rng.integers(0, len(earlier) + 1))].tolist())

    def lead(tapes: Context) -> tuple[int, ...]:
        return tuple(len(labels[t]) for t in tapes)

    contexts = ((), *(c for c in {context() for _ in range(2)} if c))
    arcs, arc_context = len(arc_ends(topology)[0]), context()
    tables = tuple(
        (c, numbers(rng, (*lead(c), topology.n_states), 0.05))
        for c in [context() for _ in range(int(rng.integers(0, 2)))]
    )
    still = rng.random() < 0.5
    arc = _structured(topology, numbers(rng, (*lead(arc_context), arcs), 0.05)) if still else None
    return TapeChain(
        name,
        topology,
        np.where(topology.initial, numbers(rng, (topology.n_states,), 0.05), -np.inf),
        np.where(topology.final, numbers(rng, (topology.n_states,), 0.05), -np.inf),
        arc,
        arc_context,
        contexts,
        tables,
    )


def _structured(topology: Any, arcs: Floats) -> Floats:
    """Forbid the arcs that the topology does not have."""
    if topology.dense:
        missing = np.ones(arcs.shape[-1], dtype=bool)
        missing[topology.kernel_arcs()] = False
        arcs[..., missing] = -np.inf
    return arcs


def _brought(rng: np.random.Generator, program: Program, what: Any, tokens: int) -> Floats:
    lead = [len(program.labels(t)) for t in what.context]
    topology = program.chain[what.tape].topology
    if what.kind == "coupling":
        return numbers(rng, (tokens, len(program.labels(what.tape)), *lead), 0.05)
    if what.kind == "node":
        return numbers(rng, (tokens, *lead, topology.n_states), 0.05)
    arcs = len(arc_ends(topology)[0])
    return _structured(topology, numbers(rng, (tokens, *lead, arcs), 0.05))


class ConditionedWorld(World):
    """A world whose scores come from a program's potentials, read by their documented shapes."""

    extra: Floats

    @property
    def scores(self) -> Floats:
        return self.extra


def _world(program: Program, values: tuple[Floats, ...], tokens: int) -> World:
    zero = [
        Tape(
            c.name,
            c.topology,
            np.zeros((tokens, c.topology.n_states)),
            np.zeros(len(arc_ends(c.topology)[0])),
            np.zeros(c.topology.n_states),
            np.zeros(c.topology.n_states),
        )
        for c in program.chains
    ]
    grammar = World(tuple(zero), {}, program.conjuncts).scores
    world = ConditionedWorld(tuple(zero), {})
    total = grammar.copy()
    brought = list(zip(program.inputs, values, strict=True))
    for place in np.argwhere(grammar > -np.inf):
        rows = {t.name: t.sequences[i].tolist() for t, i in zip(zero, place, strict=True)}
        total[tuple(place)] += _score(program, brought, zero, rows)
    object.__setattr__(world, "extra", total)
    return world


def _score(
    program: Program, brought: list[Any], tapes: list[Tape], rows: dict[str, list[int]]
) -> float:
    walked = {tape.name: _walked(tape, rows[tape.name]) for tape in tapes}
    if any(walk is None for walk in walked.values()):
        return -np.inf
    states = {name: walk[0] for name, walk in walked.items() if walk}
    arcs = {name: walk[1] for name, walk in walked.items() if walk}
    tokens, total = tapes[0].tokens, 0.0

    def labels(tapes: Context, t: int) -> tuple[int, ...]:
        return tuple(rows[tape][t] for tape in tapes)

    for chain in program.chains:
        path, used = states[chain.name], arcs[chain.name]
        total += chain.initial[path[0]] + chain.final[path[-1]]
        for context, table in chain.tables:
            total += sum(table[(*labels(context, t), path[t])] for t in range(tokens))
        if chain.arc is not None:
            context = chain.arc_context
            total += sum(chain.arc[(*labels(context, t), used[t])] for t in range(1, tokens))
    still = [(c.tapes, c.value) for c in program.couplings if c.value is not None]
    total += sum(value[labels(coupled, t)] for coupled, value in still for t in range(tokens))
    ends = {"node": states, "arc": arcs, "coupling": rows}
    for what, value in brought:
        own, context = ends[what.kind][what.tape], what.context
        for t in range(1 if what.kind == "arc" else 0, tokens):
            place = (*labels(context, t), own[t])
            if what.kind == "coupling":  # the tape itself comes first
                place = (own[t], *labels(context, t))
            total += value[(t, *place)]
    return float(total)


def _walked(tape: Tape, labels: list[int]) -> tuple[list[int], list[int]] | None:
    """States and arcs of a label sequence."""
    states, arcs, state = [], [], None
    for label in labels:
        if (state, label) not in tape.steps:
            return None
        state, arc = tape.steps[state, label]
        states.append(state)
        arcs.append(arc)
    return states, arcs


def close(found: object, expected: object) -> None:
    np.testing.assert_allclose(
        np.asarray(found, dtype=float), np.asarray(expected, dtype=float), rtol=1e-9, atol=1e-9
    )


@given(seed=st.integers(0, 10**6))
def test_conditioned_programs(seed: int) -> None:
    case = random_case(seed)
    lattice, world = Lattice(ChainRow(case.program, case.values)), case.world
    try:
        case.program.machine  # noqa: B018
    except GrammarError:
        assert world.log_z == -np.inf
        return
    close(lattice.log_partition(), world.log_z)
    if world.log_z == -np.inf:
        with pytest.raises(NoPathError):
            lattice.best()
        return
    close([p.score for p in lattice.nbest(6)], [s for s, _ in world.ranking[:6]])
    close(lattice.score(lattice.best().labels), world.ranking[0][0])
    answers = lattice.marginals(), lattice.arc_marginals(), lattice.max_marginals()
    one = len(world.tapes) == 1
    for k in range(len(world.tapes)):
        node, arc, most = (answer if one else answer[k] for answer in answers)
        close(node, world.marginals(k))
        close(arc, world.arc_marginals(k))
        close(most, world.max_marginals(k))
    close(lattice.entropy(), world.entropy())


def test_spans_beside_two_couplings_of_the_same_tapes() -> None:
    rng = np.random.default_rng(0)
    chains = [
        TapeChain(name, chain_topology(labels), np.zeros(2), np.zeros(2), rng.normal(size=4))
        for name, labels in (("x", ("O", "B-X")), ("y", ("a", "b")))
    ]
    program = Program(chains, [Coupling(("x", "y"), None), Coupling(("x", "y"), None)])
    shapes = [(3, 2), (3, 2), (3, 2, 2), (3, 2, 2)]
    lattice = Lattice(ChainRow(program, tuple(rng.normal(size=shape) for shape in shapes)))
    mass = sum(p.probability for p in lattice.nbest(64) if p.labels[0][1] == "B-X")
    assert lattice.span_probability(1, 2, "X", tape="x") == pytest.approx(mass, rel=1e-9)

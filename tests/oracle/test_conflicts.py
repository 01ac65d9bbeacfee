"""Constraints that contradict each other, against every joint labelling."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fstcrf.errors import ContradictionError
from fstcrf.machines.grammar import Acceptor, contradictory, shortest
from fstcrf.machines.plans import Program
from fstcrf.machines.plans.conflict import check_consistent, conflict, no_path_error
from tests.support.compositions import World, random_acceptor, random_world


def possible(world: World, conjuncts: Sequence[Acceptor]) -> bool:
    """Whether a labelling is left, by writing all of them down."""
    return replace(world, conjuncts=tuple(conjuncts)).log_z > -np.inf


def crowded(seed: int, tapes: int) -> World:
    """A composition under several constraints that leave little."""
    rng = np.random.default_rng(seed)
    world = random_world(seed, tapes=tapes, conjuncts=0, limit=6_000)
    conjuncts = []
    for k in range(int(rng.integers(2, 6))):
        read = rng.permutation(tapes)[: int(rng.integers(1, tapes + 1))].tolist()
        of = [(world.tapes[i].name, world.tapes[i].labels) for i in read]
        conjuncts.append(replace(random_acceptor(rng, of), name=f"c{k}"))
    return replace(world, conjuncts=tuple(conjuncts))


def free(world: World) -> tuple[Program, tuple[np.ndarray, ...]]:
    lattice = replace(world, conjuncts=()).lattice()
    return lattice.dense.program, lattice.dense.values


@pytest.mark.thorough
@pytest.mark.parametrize("tapes", [1, 2, 3])
def test_irreducible_sets_of_sentences(tapes: int) -> None:
    sizes = []
    for seed in range(50):
        world = crowded(seed, tapes)
        program, values = free(world)
        found = conflict(program.constrained(world.conjuncts), values)
        if possible(world, world.conjuncts):
            assert found is None, seed
            continue
        assert found is not None, seed
        named = [a for a in world.conjuncts if a.name in found]
        assert [a.name for a in named] == list(found), seed
        assert not possible(world, named), seed
        for fewer in itertools.combinations(named, max(len(named) - 1, 0)):
            assert not named or possible(world, fewer), seed
        error = no_path_error(program.constrained(world.conjuncts), values, position=2)
        assert (error.constraints, error.position) == (found, 2)
        assert all(name in str(error) for name in found)
        sizes.append(len(found))
    assert {0, 1, 2} <= set(sizes)


@pytest.mark.thorough
@pytest.mark.parametrize("tapes", [1, 2])
def test_contradictions_of_any_length(tapes: int) -> None:
    raised = 0
    for seed in range(80):
        world = crowded(seed, tapes)
        program = free(world)[0].constrained(world.conjuncts)
        try:
            check_consistent(program)
        except ContradictionError as error:
            names = error.constraints
        else:
            continue
        raised += 1
        assert not possible(world, world.conjuncts), seed
        named = [a for a in world.conjuncts if a.name in names]
        assert [a.name for a in named] == list(names), seed
        for one in named:
            # Whatever is left out, something becomes possible: this raises where it does not.
            check_consistent(program_of(program, [a for a in named if a is not one]))
    assert raised > 8


def program_of(program: Program, conjuncts: Sequence[Acceptor]) -> Program:
    return Program(program.chains, program.couplings, conjuncts)


@pytest.mark.parametrize("seed", range(60))
def test_acceptors_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [("t", ("a", "b")), ("u", ("x", "y"))]
    acceptors = [
        replace(random_acceptor(rng, sets[: 1 + int(rng.integers(0, 2))]), name=f"c{k}")
        for k in range(4)
    ]
    found = contradictory(acceptors)
    if found is None:
        assert common(acceptors)
        return
    assert found
    assert not common(found)
    for one in found:
        assert contradictory([a for a in found if a is not one]) is None


def common(acceptors: Sequence[Acceptor], length: int = 5) -> bool:
    """Whether a pair of sequences of up to so many labels is accepted by all."""
    for n in range(1, length + 1):
        for first in itertools.product("ab", repeat=n):
            for second in itertools.product("xy", repeat=n):
                word = {"t": first, "u": second}
                if all(a.walk(*(word[t] for t in a.tapes)) > -np.inf for a in acceptors):
                    return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_shortest_labellings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    acceptor = random_acceptor(rng, [("t", ("a", "b", "c"))])
    every = (s for n in range(1, 6) for s in itertools.product("abc", repeat=n))
    first = next(s for s in every if acceptor.walk(s) > -np.inf)
    assert shortest(acceptor) == {"t": list(first)}

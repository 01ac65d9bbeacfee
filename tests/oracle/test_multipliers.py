"""Searches with multipliers: the paths of the search without them, from fewer states."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.kernel import (
    Axis,
    Bound,
    Budget,
    Conjunction,
    Factor,
    JointChain,
    LazyAcceptor,
)
from fstcrf.machines.plans import multipliers as module
from fstcrf.machines.plans.multipliers import Multipliers

SIZE, LENGTHS = 9, (6, 0, 1, 9, 14)


def at_most(most: int, label: int, cost: float = 0.0) -> LazyAcceptor:
    """Accept at most so many of a label; each costs something."""
    target = np.repeat(np.arange(most + 1, dtype=np.int32)[:, None], SIZE, axis=1)
    target[:, label] = [*range(1, most + 1), -1]
    score = np.zeros(target.shape)
    score[:, label] = -cost
    return LazyAcceptor(np.arange(SIZE, dtype=np.int32), target, score, np.zeros(most + 1))


def machine(rng: np.random.Generator) -> JointChain:
    ends = np.zeros((1, SIZE))
    arcs = Axis(SIZE, score=rng.normal(size=(1, SIZE * SIZE)) / 3)
    return JointChain((arcs,), (Factor(rows=1, width=SIZE),), None, ends, ends)


def batch(chain: JointChain, node: Floats) -> Bound:
    return Bound(chain, np.concatenate([[0], np.cumsum(LENGTHS)]), (node[:, None, :],))


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("seed", range(6))
def test_paths_are_those_without_multipliers(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    chain = machine(rng)
    readers = [at_most(1 + k % 2, k, k / 10) for k in range(SIZE - 1)]
    grammar = Conjunction(chain, readers)
    node = rng.normal(size=(sum(LENGTHS), SIZE)) * 3
    node[3, ::2] = -np.inf
    text = batch(chain, node)
    wanted = kernel.lazy_paths(text, grammar, n)
    multipliers = Multipliers.of(grammar)
    assert multipliers is not None
    every = multipliers.paths(text, n, Budget())
    expanded = 0
    for b, (found, certain) in enumerate(every):
        assert certain
        tokens = slice(*text.bounds[b : b + 2])
        assert found.n_paths[0] == found.proven[0] == wanted.n_paths[b]
        assert np.array_equal(found.path, wanted.path[:, tokens])
        assert found.score[0] == pytest.approx(wanted.score[b], abs=1e-9)
        expanded += int(found.states_expanded[0])
        alone, _ = multipliers.paths(text.part(b, b + 1), n, Budget())[0]
        assert np.array_equal(alone.score, found.score)
    assert n > 1 or 2 * expanded < wanted.states_expanded.sum()


def test_ties_are_left_to_the_search_without_multipliers() -> None:
    rng = np.random.default_rng(0)
    chain = machine(rng)
    readers = [at_most(1, k) for k in range(SIZE - 1)]
    node = np.zeros((sum(LENGTHS), SIZE))
    node[:, 1:] = node[:, :-1]  # the last label is legal everywhere
    flat = JointChain(
        (Axis(SIZE, score=np.zeros((1, SIZE * SIZE))),),
        chain.factors,
        None,
        *np.zeros((2, 1, SIZE)),
    )
    multipliers = Multipliers(Conjunction(flat, readers))
    decided = multipliers.paths(batch(flat, node), 1, Budget())
    assert [not certain for _, certain in decided] == [length > 0 for length in LENGTHS]


@pytest.mark.parametrize("n", [1, 3])
def test_acceptors_in_the_machine_change_no_path(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    chain = machine(rng)
    readers = [at_most(1 + k % 2, k, k / 10) for k in range(SIZE - 1)]
    multipliers = Multipliers(Conjunction(chain, readers))
    text = batch(chain, rng.normal(size=(sum(LENGTHS), SIZE)) * 3)
    wanted = kernel.lazy_paths(text, multipliers.grammar, n)
    monkeypatch.setattr(module, "_STAGES", ((0, 0, 1e-6), (3, 4, 1e-6), (5, 4, 1e-6), (7, 4, 0)))
    for b, (found, certain) in enumerate(multipliers.paths(text, n, Budget())):
        tokens = slice(*text.bounds[b : b + 2])
        assert certain
        assert np.array_equal(found.path, wanted.path[:, tokens])
        assert found.score[0] == pytest.approx(wanted.score[b], abs=1e-9)


def test_a_search_that_ends_early_bounds_the_best_score() -> None:
    rng = np.random.default_rng(1)
    chain = machine(rng)
    multipliers = Multipliers(Conjunction(chain, [at_most(1, k) for k in range(SIZE - 1)]))
    text = batch(chain, rng.normal(size=(sum(LENGTHS), SIZE)) * 3).part(4, 5)
    best = kernel.lazy_paths(text, multipliers.grammar).score[0, 0]
    ((found, certain),) = multipliers.paths(text, 1, Budget(states=3))
    assert not certain
    assert found.unproven(1)[0]
    assert -np.inf < found.score[0, 0] <= best <= found.bound[0]


def test_few_states_or_unlimited_labels_need_no_multipliers() -> None:
    chain = machine(np.random.default_rng(0))
    twice = LazyAcceptor(  # an even number of label 0 is any number of it
        np.arange(SIZE, dtype=np.int32),
        np.asarray([[1, *[0] * (SIZE - 1)], [0, *[1] * (SIZE - 1)]], dtype=np.int32),
        None,
        np.asarray([0.0, -np.inf]),
    )
    assert Multipliers.of(Conjunction(chain, [twice] * 10)) is None
    assert Multipliers.of(Conjunction(chain, [at_most(1, 0), at_most(3, 1)])) is None
    assert Multipliers.of(Conjunction(chain, [at_most(30, 0), at_most(30, 1)])) is not None

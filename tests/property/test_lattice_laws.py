"""Laws of lattices: scaling, restriction, grammars, products and weights."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

from fstcrf.errors import GrammarError
from fstcrf.lattices import Lattice, product
from fstcrf.machines.grammar import Grammar
from tests.support.compositions import World, random_acceptor, random_world
from tests.support.strategies import lattices

factors = st.sampled_from([-2.0, -1.0, -0.25, 0.5, 1.0, 3.0])


@st.composite
def worlds(draw: st.DrawFn, /, **options: Any) -> World:
    """Random compositions that have a path."""
    world = random_world(draw(st.integers(0, 10**6)), **{"limit": 400, **options})
    assume(world.log_z > -np.inf)
    return world


def close(found: object, expected: object, scale: float = 1.0) -> None:
    np.testing.assert_allclose(
        np.asarray(found, dtype=float),
        np.asarray(expected, dtype=float),
        rtol=1e-9,
        atol=1e-9 * scale,
    )


def tape_arrays(lattice: Lattice, answer: Any) -> tuple[Any, ...]:
    return (answer,) if len(lattice.tapes) == 1 else answer


# --- Scale -------------------------------------------------------------------------------------


@given(world=worlds(), factor=factors)
def test_scaled_scores(world: World, factor: float) -> None:
    """Every score is multiplied, soft grammars and couplings included; the paths stay."""
    legal = world.scores > -np.inf
    scores = np.where(legal, factor * np.where(legal, world.scores, 0.0), -np.inf).reshape(-1)
    found, scale = world.lattice().scale(factor), 400.0
    close(found.log_partition(), np.logaddexp.reduce(scores), scale)
    close(found.best().score, scores.max(), scale)
    assert len(found.nbest(500)) == legal.sum()


@given(lattice=lattices(unit=0.125), first=factors, second=factors)
def test_scales_compose(lattice: Lattice, first: float, second: float) -> None:
    twice, once = lattice.scale(first).scale(second), lattice.scale(first * second)
    close(twice.log_partition(), once.log_partition())
    assert lattice.scale(1.0).log_partition() == lattice.log_partition()
    assert lattice.scale(1.0).nbest(3) == lattice.nbest(3)
    back = lattice.scale(-1.0).scale(-1.0)
    assert back.log_partition() == lattice.log_partition()


@given(world=worlds())
def test_scale_by_nothing_counts(world: World) -> None:
    flat = world.lattice().scale(0.0)
    n = len(world.ranking)
    close(flat.log_partition(), np.log(n))
    close(flat.entropy(), np.log(n))
    assert flat.best().score == 0.0


@given(world=worlds())
def test_the_worst_path_is_the_best_of_minus_one(world: World) -> None:
    close(world.lattice().scale(-1.0).best().score, -world.ranking[-1][0], 400.0)


@given(world=worlds())
def test_entropy(world: World) -> None:
    """H = log Z − E[score]; at most the log of the number of paths."""
    lattice = world.lattice()
    found = lattice.entropy()
    mean = sum(np.exp(s - world.log_z) * s for s, _ in world.ranking)
    close(found, world.log_z - mean, 400.0)
    assert -1e-9 <= found <= np.log(len(world.ranking)) + 1e-9


# --- Grammars and masks ------------------------------------------------------------------------


def one_rule(world: World, seed: int, *, hard: bool) -> Grammar:
    rng = np.random.default_rng(seed)
    tapes = [(t.name, t.labels) for t in world.tapes]
    chosen = rng.permutation(len(tapes))[: int(rng.integers(1, len(tapes) + 1))]
    return Grammar.from_acceptor(random_acceptor(rng, [tapes[k] for k in chosen], hard=hard))


@given(world=worlds(conjuncts=0), seed=st.integers(0, 10**6))
def test_hard_grammars_take_paths_away(world: World, seed: int) -> None:
    lattice, grammar = world.lattice(), one_rule(world, seed, hard=True)
    under = lattice & grammar
    assert under.log_partition() <= lattice.log_partition() + 1e-9 * max(1, abs(world.log_z))
    twice = under & grammar
    close(twice.log_partition(), under.log_partition())
    kept = {p.labels for p in under.nbest(500)}
    assert kept <= {p.labels for p in lattice.nbest(500)}
    bound = grammar.bound({t.name: t.labels for t in world.tapes})
    for path in lattice.nbest(40):
        parts = tape_arrays(lattice, path.labels)
        accepted = bound.accepts(dict(zip(lattice.tapes, parts, strict=True)))
        assert (path.labels in kept) == accepted


@given(world=worlds(conjuncts=0), seeds=st.tuples(*[st.integers(0, 10**6)] * 2))
def test_grammars_commute(world: World, seeds: tuple[int, int]) -> None:
    g, h = (one_rule(world, seed, hard=False) for seed in seeds)
    lattice = world.lattice()
    ways = ((g, h), (h, g), (g & h,))

    def under(grammars: tuple[Grammar, ...]) -> float:
        return reduce(and_, grammars, lattice).log_partition()

    try:
        found = [under(way) for way in ways]
    except GrammarError:
        for way in ways:
            with pytest.raises(GrammarError, match="together they accept nothing"):
                under(way)
        return
    close(found[1:], found[:1] * 2, 400.0)


@given(world=worlds(), data=st.data())
def test_masks_and_grammars_commute(world: World, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    masks = tuple(rng.random((world.tokens, len(t.labels))) < 0.6 for t in world.tapes)
    mask = masks if len(masks) > 1 else masks[0]
    grammar = one_rule(world, int(rng.integers(10**6)), hard=False)
    lattice = world.lattice()
    try:
        one = (lattice & grammar).restrict(mask).log_partition()
    except GrammarError:
        return
    close((lattice.restrict(mask) & grammar).log_partition(), one, 400.0)
    again = (lattice & grammar).restrict(mask).restrict(mask)
    assert again.log_partition() == one


@given(world=worlds(), data=st.data())
def test_conditioning(world: World, data: st.DataObject) -> None:
    """Forcing one label leaves the mass that its marginal says."""
    lattice = world.lattice()
    k = data.draw(st.integers(0, len(world.tapes) - 1))
    t = data.draw(st.integers(0, world.tokens - 1))
    label = data.draw(st.integers(0, len(world.tapes[k].labels) - 1))
    masks = [np.ones((world.tokens, len(tape.labels)), dtype=bool) for tape in world.tapes]
    masks[k][t] = False
    masks[k][t, label] = True
    forced = lattice.restrict(tuple(masks) if len(masks) > 1 else masks[0]).log_partition()
    share = tape_arrays(lattice, lattice.marginals())[k][t, label]
    close(np.exp(forced - lattice.log_partition()), share)


# --- Products ----------------------------------------------------------------------------------


@given(first=lattices(unit=0.125, length=3), second=lattices(unit=0.125, length=3))
def test_without_couplings_tapes_are_independent(first: Lattice, second: Lattice) -> None:
    both = first @ second
    close(both.log_partition(), first.log_partition() + second.log_partition())
    assume(both.log_partition() > -np.inf)
    assert both.best().labels == (first.best().labels, second.best().labels)
    for found, alone in zip(both.marginals(), (first, second), strict=True):
        close(found, alone.marginals())
    close(both.entropy(), first.entropy() + second.entropy())


@given(world=worlds(tapes=3, conjuncts=1), order=st.permutations(range(3)))
def test_the_order_of_lattices_does_not_matter(world: World, order: list[int]) -> None:
    place = {old: new for new, old in enumerate(order)}
    turned = World(
        tuple(world.tapes[k] for k in order),
        {(place[a], place[b]): table for (a, b), table in world.couplings.items()},
        world.conjuncts,
        None if world.weights is None else tuple(world.weights[k] for k in order),
    )
    one, other = world.lattice(), turned.lattice()
    close(other.log_partition(), one.log_partition(), 400.0)
    close([p.score for p in other.nbest(5)], [p.score for p in one.nbest(5)], 400.0)
    ours, theirs = one.marginals(), other.marginals()
    for new, old in enumerate(order):
        close(theirs[new], ours[old])


@given(world=worlds(tapes=2, conjuncts=0))
def test_a_weight_of_nothing_leaves_the_support(world: World) -> None:
    """Under weight 0 a tape only says what is legal."""
    first, second = (t.lattice() for t in world.tapes)
    found = product([first, second], weights=[1.0, 0.0])
    close(found.log_partition(), first.log_partition() + second.scale(0.0).log_partition(), 400.0)
    close(found.marginals()[0], first.marginals())


@given(world=worlds(tapes=2))
def test_best_is_the_first_of_all(world: World) -> None:
    lattice = world.lattice()
    best, (first, *_) = lattice.best(), lattice.nbest(2)
    close(best.score, first.score, 400.0)
    most = [m.max(axis=1) for m in tape_arrays(lattice, lattice.max_marginals())]
    for rows in most:
        close(rows, np.full(world.tokens, best.score), 400.0)
    close(lattice.score(best.labels), best.score, 400.0)


# --- Large constants ---------------------------------------------------------------------------


@pytest.mark.parametrize("large", [1e13, 1e16, 1e18])
@pytest.mark.parametrize("kind", ["shared", "per token", "some", "two tapes"])
@pytest.mark.parametrize("faint", [0.0, -2000.0])
def test_a_constant_on_all_arcs_changes_no_probability(
    variant: str, large: float, kind: str, faint: float
) -> None:
    """Sums in either domain keep the digits that potentials have: `faint` is left to logs."""
    rng = np.random.default_rng(3)
    tokens, names = 12, ["a", "b", "c", "d"]
    shape = (tokens - 1, 4, 4) if kind == "per token" else (4, 4)
    arcs = rng.integers(-2, 3, shape) * max(0.5, float(np.spacing(large)))
    if kind == "some":
        arcs[rng.random(shape) < 0.3] = -np.inf
    node = rng.normal(size=(tokens, 4))
    node[:, 0] += faint
    other = Lattice.from_arrays(["x", "y"], rng.normal(size=(tokens, 2)), tape="other")

    def lattice(constant: float) -> Lattice[Any]:
        own = Lattice.from_arrays(names, node, arcs + constant)
        return product([own, other]) if kind == "two tapes" else own

    near, far = lattice(0.0), lattice(large)
    assert far.entropy() == pytest.approx(near.entropy(), rel=1e-12)
    assert far.sample(30, seed=1) == near.sample(30, seed=1)
    for found, expected in zip(
        tape_arrays(far, far.marginals()), tape_arrays(near, near.marginals()), strict=True
    ):
        close(found, expected)

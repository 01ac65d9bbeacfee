"""Product lattices under couplings, weights and grammars against every joint labelling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf.errors import GrammarError, NoPathError
from fstcrf.lattices import Lattice
from fstcrf.machines.grammar import Grammar
from tests.support.compositions import Tape, World, first_dead_token, random_acceptor, random_world
from tests.support.oracles import largest

TOLERANCE = 1e-9


def close(found: object, expected: object, scale: float = 1.0) -> None:
    one, other = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    np.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * scale)


def scale_of(world: World) -> float:
    return largest(*(t.node for t in world.tapes), *world.couplings.values()) * world.tokens


def parts(lattice: Lattice, answer: Any) -> tuple[Any, ...]:
    """An answer of each tape."""
    return (answer,) if len(lattice.tapes) == 1 else answer


def joined(world: World, labels: tuple[tuple[str, ...], ...]) -> Any:
    return labels[0] if len(world.tapes) == 1 else labels


def made(world: World) -> Lattice | None:
    """The lattice; None where the constraints contradict each other, which is an error."""
    try:
        return world.lattice()
    except GrammarError:
        assert world.log_z == -np.inf
        return None


def check_without_paths(world: World, lattice: Lattice) -> None:
    assert lattice.log_partition() == -np.inf
    assert lattice.nbest(3) == []
    for found in parts(lattice, lattice.max_marginals()):
        assert np.isneginf(found).all()
    for ask in (
        lattice.best,
        lattice.marginals,
        lattice.arc_marginals,
        lattice.entropy,
        lattice.minimum_risk,
        lambda: lattice.sample(1),
    ):
        with pytest.raises(NoPathError) as caught:
            ask()
        assert caught.value.position is not None
        assert 0 <= caught.value.position < world.tokens


def check_ranking(world: World, lattice: Lattice, n: int) -> None:
    scale = scale_of(world)
    known = {labels: score for score, labels in world.ranking}
    found = lattice.nbest(n)
    assert len(found) == min(n, len(known))
    close([p.score for p in found], [score for score, _ in world.ranking[:n]], scale)
    labels = [parts(lattice, p.labels) for p in found]
    assert len(set(labels)) == len(labels), "a labelling twice"
    close([p.score for p in found], [known[one] for one in labels], scale)
    shares = [np.exp(p.score - world.log_z) for p in found]
    np.testing.assert_allclose(
        [p.probability for p in found], shares, rtol=1e-9 * scale, atol=1e-12
    )
    assert all(p.exact and p.bound == p.score for p in found)
    best = lattice.best()
    close(best.score, world.ranking[0][0], scale)
    if len(known) == 1 or world.ranking[0][0] - world.ranking[1][0] > 1e-9 * scale:
        assert parts(lattice, best.labels) == world.ranking[0][1]


def check_marginals(world: World, lattice: Lattice) -> None:
    scale = scale_of(world)
    answers = lattice.marginals(), lattice.arc_marginals(), lattice.max_marginals()
    for k, (node, arc, most) in enumerate(zip(*(parts(lattice, a) for a in answers), strict=True)):
        close(node, world.marginals(k), scale)
        close(arc, world.arc_marginals(k), scale)
        close(most, world.max_marginals(k), scale)
        assert node.sum(axis=1) == pytest.approx(np.ones(world.tokens), abs=1e-9)
    close(lattice.entropy(), world.entropy(), scale)


def check_scores(world: World, lattice: Lattice, rng: np.random.Generator) -> None:
    for number in rng.integers(world.scores.size, size=3).tolist():
        labels, score = world.labelling(number), world.scores.reshape(-1)[number]
        close(lattice.score(joined(world, labels)), score, scale_of(world))
        share = float(np.exp(score - world.log_z))
        assert lattice.probability(joined(world, labels)) == pytest.approx(
            share, rel=1e-8, abs=1e-12
        )


def check_restricted(world: World, lattice: Lattice, rng: np.random.Generator) -> None:
    masks = [rng.random((world.tokens, len(t.labels))) < 0.7 for t in world.tapes]
    kept = np.zeros(world.scores.shape, dtype=bool)
    legal = [
        mask[np.arange(world.tokens), tape.sequences].all(axis=1)
        for mask, tape in zip(masks, world.tapes, strict=True)
    ]
    kept[np.ix_(*legal)] = True
    scores = np.where(kept, world.scores, -np.inf)
    some = lattice.restrict(masks[0] if len(masks) == 1 else tuple(masks))
    close(some.log_partition(), np.logaddexp.reduce(scores.reshape(-1)), scale_of(world))


def check_scaled(world: World, lattice: Lattice, rng: np.random.Generator) -> None:
    """Every score is multiplied, those of soft grammars and couplings too; the paths stay."""
    factor, legal = float(rng.choice([-2.0, -1.0, 0.0, 0.5])), world.scores > -np.inf
    scores = factor * world.scores[legal]
    found = lattice.scale(factor)
    close(found.log_partition(), np.logaddexp.reduce(scores), scale_of(world))
    close(found.best().score, scores.max(), scale_of(world))
    assert len(found.nbest(30)) == min(30, legal.sum())


def check_samples(world: World, lattice: Lattice) -> None:
    legal = {labels for _, labels in world.ranking}
    drawn = lattice.sample(8, seed=3)
    assert {parts(lattice, labels) for labels in drawn} <= legal
    assert drawn == lattice.sample(8, seed=3)


def check(seed: int, **options: Any) -> None:
    """Ask one random composition everything."""
    world = random_world(seed, **options)
    lattice = made(world)
    if lattice is None:
        return
    if world.log_z == -np.inf:
        check_without_paths(world, lattice)
        return
    rng = np.random.default_rng(seed)
    close(lattice.log_partition(), world.log_z, scale_of(world))
    check_ranking(world, lattice, int(rng.choice([1, 4, 12])))
    check_marginals(world, lattice)
    check_scores(world, lattice, rng)
    check_restricted(world, lattice, rng)
    check_scaled(world, lattice, rng)
    check_samples(world, lattice)


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(5))
def test_random_compositions(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        check(seed, limit=4000)


@pytest.mark.thorough
def test_the_first_dead_token() -> None:
    """Potentials, couplings and a grammar that leave nothing: where the last beginning dies."""
    seen = set()
    for seed in range(80_000, 80_200):
        world = random_world(seed, conjuncts=seed % 2, limit=600)
        if world.log_z > -np.inf:
            continue
        with pytest.raises(NoPathError) as caught:
            world.lattice().best()
        assert caught.value.position == first_dead_token(world)
        seen.add((world.tokens, caught.value.position, len(world.tapes)))
    assert len(seen) > 10


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(2))
@pytest.mark.parametrize("tapes", [1, 2, 3])
def test_random_grammars(tapes: int, block: int) -> None:
    for seed in range(10_000 + block * 10, 10_010 + block * 10):
        check(seed, tapes=tapes, conjuncts=1 + seed % 3, limit=1500)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_compositions(block: int) -> None:
    for seed in range(100_000 + block * 100, 100_100 + block * 100):
        check(seed, limit=70_000)


# --- The order of operations -------------------------------------------------------------------


def conjunct(rng: np.random.Generator, *tapes: Tape) -> Grammar:
    return Grammar.from_acceptor(random_acceptor(rng, [(t.name, t.labels) for t in tapes]))


@pytest.mark.parametrize("seed", range(10))
def test_couplings_by_any_key(seed: int) -> None:
    """(0, 1) and (1, 0) are the same coupling, transposed; static and per-token may be mixed."""
    world = random_world(seed, tapes=3, conjuncts=0, limit=1000)
    turned = {(b, a): np.swapaxes(table, -1, -2) for (a, b), table in world.couplings.items()}
    moved = {
        key: np.broadcast_to(table, (world.tokens, *table.shape[-2:]))
        for key, table in world.couplings.items()
    }
    for couplings in (turned, moved, dict(reversed(list(world.couplings.items())))):
        again = World(world.tapes, couplings, (), world.weights)
        close(again.lattice().log_partition(), world.log_z, scale_of(world))

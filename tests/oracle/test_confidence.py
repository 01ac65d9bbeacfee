"""Confidence under a grammar against sums over every labelling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.constraints import at_least, at_most, contiguous, never
from fstcrf.errors import GrammarError, NoPathError, OptionError, TooLargeError
from fstcrf.lattices import Lattice
from fstcrf.lattices.results import Confidence, Interval
from tests.support.compositions import World, random_world

pytestmark = pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")

SLACK = 1e-9


def truth(world: World) -> tuple[float, float]:
    """Probability of the best legal labelling among legal ones, and the mass of the legal ones."""
    free = World(world.tapes, world.couplings, (), world.weights)
    legal = world.scores > -np.inf
    return math.exp(world.ranking[0][0] - world.log_z), float(free.share[legal].sum())


def holds(found: Confidence, known: tuple[float, float]) -> bool:
    pairs = zip((found.probability, found.legal), known, strict=True)
    return all(one.low - SLACK <= value <= one.high + SLACK for one, value in pairs)


def worlds(first: int, count: int) -> list[tuple[World, Lattice]]:
    found = []
    for seed in range(first, first + count):
        world = random_world(seed, conjuncts=1 + seed % 2, limit=500)
        if world.log_z > -np.inf:
            found.append((world, world.lattice()))
    assert len(found) > count // 4
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 3, 20])
def test_bounds_from_the_n_best_always_hold(n: int) -> None:
    for world, lattice in worlds(100, 25):
        found = lattice.confidence(method="n-best", n=n)
        assert (found.method, found.level) == ("n-best", 1.0)
        assert holds(found, truth(world))


def test_bounds_from_samples_hold_as_often_as_they_say() -> None:
    missed = 0
    cases = worlds(300, 30)
    for world, lattice in cases:
        found = lattice.confidence(method="sampling", samples=300, level=0.99, seed=5)
        assert (found.method, found.level) == ("sampling", 0.99)
        missed += not holds(found, truth(world))
    assert missed <= 2


def test_the_same_seed_gives_the_same_bounds() -> None:
    ((_, lattice), *_) = worlds(400, 10)
    ask = {"method": "sampling", "samples": 50}
    assert lattice.confidence(**ask, seed=1) == lattice.confidence(**ask, seed=1)  # type: ignore[arg-type]


# --- Too large to sum -----------------------------------------------------------------------------

LABELS = [f"x{i}" for i in range(20)]


def wide(strength: float) -> Lattice:
    scores = np.random.default_rng(3).normal(size=(6, 20))
    scores[[0, 1, 2, 3, 4, 5], [4, 4, 7, 7, 1, 0]] += strength
    return Lattice.from_arrays(LABELS, scores)


def test_a_grammar_too_large_to_sum() -> None:
    sure = wide(12.0) & contiguous(LABELS)
    found = sure.confidence()
    assert found.method == "n-best"
    assert found.probability.low > 0.97
    assert found.legal.width <= 0.02
    with pytest.raises(TooLargeError, match="confidence"):
        sure.confidence(method="exact")


def test_auto_draws_samples_where_paths_leave_much_open() -> None:
    free = wide(0.0)
    lattice = free & contiguous(LABELS)
    found = lattice.confidence(seed=1)
    assert (found.method, found.level) == ("sampling", 0.95)
    assert found.legal.width < 0.08
    drawn = free.sample(20_000, seed=9)
    legal = np.mean([lattice.score(labels) > -np.inf for labels in drawn[:2_000]])
    assert found.legal.low - 0.03 < legal < found.legal.high + 0.03


def test_soft_grammars() -> None:
    """A reward for what the model does not like: the sum over legal paths can exceed its own."""
    free = wide(1.0)
    lattice = free & at_least(3, "x9", weight=-2.0) & at_most(1, "x4", weight=-1.0)
    known = lattice.confidence(method="exact")
    assert known.legal == Interval(1.0, 1.0)
    for method in ("n-best", "sampling"):
        found = lattice.confidence(method=method, level=0.999)
        assert found.probability.low <= known.probability.low <= found.probability.high
        assert found.legal.high == 1.0


def test_an_unproven_path_has_a_probability_too() -> None:
    scores = np.zeros((60, 20))
    scores[::2, 0] += 5
    scores[1::2, 1] += 5
    lattice = Lattice.from_arrays(LABELS, scores) & contiguous(LABELS)
    found = lattice.confidence(method="n-best", n=3, budget=kernel.Budget(states=200))
    assert not found.path.exact
    assert 0.0 < found.probability.low <= found.probability.high <= 1.0
    assert found.legal.low == pytest.approx(0.0, abs=1e-6)


# --- Ends -----------------------------------------------------------------------------------------


def test_no_path() -> None:
    lattice = Lattice.from_arrays(["a", "b"], np.zeros((3, 2))) & at_least(4, "a")
    for method in ("exact", "n-best", "sampling"):
        with pytest.raises(NoPathError):
            lattice.confidence(method=method)
    with pytest.raises(GrammarError):
        (Lattice.from_arrays(["a"], np.zeros((3, 1))) & never("a")).confidence()


@pytest.mark.parametrize(
    "wrong", [{"method": "guess"}, {"n": 0}, {"samples": 0}, {"level": 0.0}, {"level": 1.0}]
)
def test_bad_options(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="expected"):
        wide(1.0).confidence(**wrong)  # type: ignore[arg-type]


def test_intervals_are_readable() -> None:
    assert str(Interval(0.25, 0.25)) == "0.2500"
    assert str(Interval(0.2, 0.4)) == "0.3000 ± 0.1000"
    assert Interval(0.2, 0.4).within(Interval(0.3, 0.9)) == Interval(0.3, 0.4)

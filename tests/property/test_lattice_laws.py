"""Laws of lattices: the order of what is done to them, and large constants."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

from fstcrf.errors import GrammarError
from fstcrf.lattices import Lattice, product
from fstcrf.machines.grammar import Grammar
from tests.support.compositions import World, random_acceptor, random_world


def close(found: object, expected: object, scale: float = 1.0) -> None:
    np.testing.assert_allclose(
        np.asarray(found, dtype=float),
        np.asarray(expected, dtype=float),
        rtol=1e-9,
        atol=1e-9 * scale,
    )


def tape_arrays(lattice: Lattice, answer: Any) -> tuple[Any, ...]:
    return (answer,) if len(lattice.tapes) == 1 else answer


def one_rule(world: World, rng: np.random.Generator) -> Grammar:
    tapes = [(t.name, t.labels) for t in world.tapes]
    chosen = rng.permutation(len(tapes))[: int(rng.integers(1, len(tapes) + 1))]
    return Grammar.from_acceptor(random_acceptor(rng, [tapes[k] for k in chosen], hard=False))


@given(seed=st.integers(0, 10**6))
def test_masks_and_grammars_commute(seed: int) -> None:
    world, rng = random_world(seed, limit=400), np.random.default_rng(seed)
    assume(world.log_z > -np.inf)
    masks = tuple(rng.random((world.tokens, len(t.labels))) < 0.6 for t in world.tapes)
    mask = masks if len(masks) > 1 else masks[0]
    grammar = one_rule(world, rng)
    lattice = world.lattice()
    try:
        one = (lattice & grammar).restrict(mask).log_partition()
    except GrammarError:
        return
    close((lattice.restrict(mask) & grammar).log_partition(), one, 400.0)
    again = (lattice & grammar).restrict(mask).restrict(mask)
    assert again.log_partition() == one


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

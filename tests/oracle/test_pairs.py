"""A chain and an automaton folded into one chain of pairs, against the product that is expanded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fstcrf
from fstcrf.errors import NoPathError
from fstcrf.lattices import Lattice
from fstcrf.lattices.lattice import TapeLattice
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import folds

LABELS = ("a", "b", "c")


def labelled(rng: np.random.Generator, length: int) -> TapeLattice:
    """Return a chain, some of whose scores forbid."""
    arrays = [rng.normal(size=s) for s in ((length, 3), (3, 3), (3,), (3,))]
    for array in arrays:
        array[rng.random(array.shape) < 0.1] = -np.inf
    return Lattice.from_arrays(LABELS, *arrays)


def counting(rng: np.random.Generator) -> Grammar:
    """Return an automaton that looks at more than neighbours."""
    states = int(rng.integers(3, 9))
    target = rng.integers(-1, states, size=(states, 3))
    final = np.where(rng.random(states) < 0.6, rng.normal(size=states), -np.inf)
    target[0, 0], final[0] = 0, 0.5  # it accepts something
    return Grammar.from_arrays(LABELS, target, score=rng.normal(size=target.shape), final=final)


def both(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, length: int
) -> tuple[TapeLattice, TapeLattice]:
    """Return a lattice that is folded at any price, and one whose product is expanded."""
    monkeypatch.setattr(folds, "_ADVANTAGE", 1e-6)
    free, grammar = labelled(rng, length), counting(rng)
    folded = free.constrained(grammar)
    return folded, free.constrained(grammar, search="expanded")


QUESTIONS: dict[str, Callable[[TapeLattice], Any]] = {
    "log Z": lambda x: x.log_partition(),
    "best": lambda x: x.best().score,
    "paths": lambda x: {path.labels: round(path.score, 8) for path in x.nbest(100)},
    "probability": lambda x: [path.probability for path in x.nbest(3)],
    "marginals": lambda x: x.marginals(),
    "largest": lambda x: x.max_marginals(),
    "successions": lambda x: x.arc_marginals(),
    "entropy": lambda x: x.entropy(),
    "risk": lambda x: x.minimum_risk("token").labels,
    "batch": lambda x: fstcrf.log_partition([x, x]),
    "free": lambda x: x.without_grammar().log_partition(),
    "cooler": lambda x: x.scale(2.0).log_partition(),
}


@given(seed=st.integers(0, 2**32), length=st.integers(0, 5))
def test_pairs_answer_what_the_product_answers(seed: int, length: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        folded, expanded = both(np.random.default_rng(seed), monkeypatch, length)
        alive = expanded.log_partition() > -np.inf
        for name, ask in QUESTIONS.items():
            if not alive and name not in {"log Z", "batch", "free", "cooler"}:
                continue
            found, wanted = ask(folded), ask(expanded)
            if isinstance(wanted, dict | tuple):
                assert found == wanted, name
            else:
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9, err_msg=name)
        if not alive:
            with pytest.raises(NoPathError):
                folded.best()


def test_language_models_of_labels_are_folded_and_small_automata_are_not() -> None:
    labels, states = tuple("abcdefghi"), np.arange(91)
    behind = np.where(states == 0, 1, 10 + 9 * ((states - 1) % 9))[:, None] + np.arange(9)
    rng = np.random.default_rng(0)
    model = Grammar.from_arrays(labels, behind, score=rng.normal(size=behind.shape))
    free = Lattice.from_arrays(labels, rng.normal(size=(6, 9)))
    found = free & model
    assert found.plan().axes[0].n_states == 90
    assert "folded into pairs" in repr(found.plan())
    wanted = free.constrained(model, search="expanded").log_partition()
    np.testing.assert_allclose(found.log_partition(), wanted)
    even = Grammar.from_arrays(labels, np.tile([[1], [0]], 9), final=[0.0, -np.inf])
    assert (free & even).plan().axes[0].n_states == 9

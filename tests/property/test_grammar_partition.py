"""Partitions of states against refinement of all states in every round."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.arrays import Ints, Longs
from fstcrf.machines.grammar.acceptor import coarsest, numbered, predecessors


def refined(target: Ints, classes: Longs) -> Longs:
    """Look at all states until nothing changes."""
    while True:
        ahead = np.where(target >= 0, classes[target], -1)
        rows = np.column_stack([classes, ahead])
        finer = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        if finer.max() == classes.max():
            return finer
        classes = finer


def same(one: Longs, other: Longs) -> bool:
    """Whether two partitions have the same classes, whatever their numbers."""
    pairs = len(np.unique(np.column_stack([one, other]), axis=0))
    return bool(pairs == one.max() + 1 == other.max() + 1)


@pytest.mark.parametrize("most", [6, 150])
@given(data=st.data())
def test_coarsest(most: int, data: st.DataObject) -> None:
    n_states, n_symbols = data.draw(st.integers(1, most)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    target = rng.integers(0, n_states, (n_states, n_symbols)).astype(np.int32)
    if rng.random() < 0.5:  # mostly one after the other, so that it takes many rounds
        target[:, 0] = np.minimum(np.arange(n_states) + 1, n_states - 1)
        target[:, 1:] = np.where(rng.random((n_states, n_symbols - 1)) < 0.9, 0, target[:, 1:])
    target[rng.random(target.shape) < rng.choice([0.0, 0.3, 0.8])] = -1
    classes = np.unique(rng.integers(0, rng.integers(1, 4), n_states), return_inverse=True)[1]
    before = classes.copy()
    assert same(coarsest(target, classes), refined(target, classes))
    assert np.array_equal(classes, before)


@given(st.integers(1, 8), st.integers(0, 2**32))
def test_predecessors(n_states: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = rng.integers(-1, n_states, (n_states, 3)).astype(np.int32)
    asked = np.flatnonzero(rng.random(n_states) < 0.5)
    expected = [q for q in range(n_states) if set(target[q].tolist()) & set(asked.tolist())]
    assert predecessors(target)(asked).tolist() == expected


@given(st.integers(1, 200), st.integers(0, 2**32))
def test_numbers_of_rows(n_rows: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 2, (n_rows, 4))
    found = numbered(rows)
    assert same(found, np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1))

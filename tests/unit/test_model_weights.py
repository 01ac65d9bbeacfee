"""The weights of a few attributes, looked up one by one, and of all, laid out."""

from __future__ import annotations

import numpy as np

from fstcrf import CRF
from fstcrf.kernel import SparseRows
from fstcrf.taggers.weights import Weights


def trained() -> CRF:
    rng = np.random.default_rng(0)
    words = [[f"w{k}" for k in rng.integers(0, 400, 20)] for _ in range(60)]
    gold = [[f"L{int(word[1:]) % 9 % int(rng.integers(3, 9))}" for word in s] for s in words]
    data = [{"word": sentence} for sentence in words]
    return CRF.train(data, gold, "U0:%x[0,word]\nU1:%x[-1,word]/%x[0,word]\nB", max_iterations=5)


def test_few_attributes_have_the_same_potentials() -> None:
    tagger = trained()
    many = tagger.space.n_node_rows
    rng = np.random.default_rng(1)
    whole = Weights(tagger.topology, tagger.space, tagger.theta)
    table = whole._packed
    for values in (None, rng.normal(size=12).astype(np.float32)):
        index = rng.integers(0, many, 12).astype(np.int32)
        index[3:6] = index[0]
        rows = SparseRows(np.asarray([0, 5, 5, 12]), index, values, many)
        fresh = Weights(tagger.topology, tagger.space, tagger.theta)
        found = fresh.node(rows)
        assert "_packed" not in fresh.__dict__
        assert np.array_equal(found, whole.node(rows))
        slots = table.sum_rows(rows, len(tagger.topology.node_slot_names))
        assert np.array_equal(found, tagger.topology.node_potentials(slots))


def test_many_lookups_lay_all_out() -> None:
    tagger = trained()
    fresh = Weights(tagger.topology, tagger.space, tagger.theta)
    rows = SparseRows(
        np.asarray([0, 3]), np.arange(3, dtype=np.int32), None, tagger.space.n_node_rows
    )
    first = fresh.node(rows)
    for _ in range(1000):
        again = fresh.node(rows)
    assert "_packed" in fresh.__dict__
    assert np.array_equal(first, again)


def test_no_attributes_at_all() -> None:
    tagger = trained()
    none = SparseRows(np.asarray([0, 0]), np.empty(0, np.int32), None, tagger.space.n_node_rows)
    fresh = Weights(tagger.topology, tagger.space, tagger.theta)
    assert not fresh.node(none).any()

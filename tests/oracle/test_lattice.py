"""Lattices against enumeration of every label sequence."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.errors import NoPathError
from fstcrf.lattices import Lattice
from tests.support.oracles import assert_close, chain_of, enumerate_paths, largest, log_sum, truth
from tests.support.strategies import lattices


def scale_of(lattice: Lattice) -> float:
    graph, node = chain_of(lattice)
    return largest(node, graph.score, graph.initial, graph.final)


@given(lattice=lattices())
def test_all_answers(lattice: Lattice) -> None:
    known, scale = truth(*chain_of(lattice)), scale_of(lattice)
    assert_close(lattice.log_partition(), known.log_z, scale=scale)
    assert lattice.max_marginals().tolist() == known.max_marginals.tolist()
    if known.log_z == -np.inf:
        with pytest.raises(NoPathError):
            lattice.best()
        return
    best = lattice.best()
    assert best.labels == tuple(lattice.labels[s] for s in known.path)
    assert best.score == best.bound == known.score
    assert best.exact
    assert_close(best.probability, np.exp(known.score - known.log_z), scale=scale)
    assert_close(lattice.marginals(), known.node, scale=scale)


@given(lattice=lattices(), data=st.data())
def test_scores(lattice: Lattice, data: st.DataObject) -> None:
    paths, scores = enumerate_paths(*chain_of(lattice))
    number = data.draw(st.integers(0, len(paths) - 1))
    labels = [lattice.labels[s] for s in paths[number]]
    assert lattice.score(labels) == scores[number]
    log_z = log_sum(scores)
    probability = np.exp(scores[number] - log_z) if log_z > -np.inf else 0.0
    assert_close(lattice.probability(labels), probability, scale=scale_of(lattice))


@given(lattice=lattices(unit=0.125), data=st.data())
def test_restrict(lattice: Lattice, data: st.DataObject) -> None:
    shape = (len(lattice), len(lattice.labels))
    bits = data.draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=64))
    mask = np.asarray(bits[: shape[0] * shape[1]]).reshape(shape)
    paths, scores = enumerate_paths(*chain_of(lattice))
    kept = mask[np.arange(shape[0]), paths].all(axis=1)
    restricted = lattice.restrict(mask)
    assert_close(restricted.log_partition(), log_sum(scores[kept]))
    assert restricted.log_partition() <= lattice.log_partition() + 1e-12
    again = restricted.restrict(mask)
    assert again.log_partition() == restricted.log_partition()

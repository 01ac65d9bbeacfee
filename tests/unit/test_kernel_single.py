"""One sentence at a time: the answers of the calls for batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel.single import SentenceGraph


def parts(seed: int, states: int) -> tuple[kernel.PackedTable, kernel.Graph, np.random.Generator]:
    rng = np.random.default_rng(seed)
    width, attributes = kernel.padded(states), 50
    cells = np.sort(rng.choice(attributes, 30, replace=False)) * width + rng.integers(
        states, size=30
    )
    table = kernel.PackedTable.from_cells(attributes + 1, width, cells, rng.normal(size=30))
    zeros = np.zeros(states)
    return table, kernel.Graph(zeros, zeros, rng.normal(size=states**2)), rng


@pytest.mark.parametrize("states", [1, 3, 8, 29])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_as_in_batches(variant: str, states: int, length: int) -> None:
    table, graph, rng = parts(length, states)
    single = SentenceGraph(table, graph)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, size=length))])
    index = rng.integers(51, size=indptr[-1]).astype(np.int32)
    offsets = np.array([0, length])
    for value in (None, rng.normal(size=indptr[-1]).astype(np.float32)):
        rows = kernel.SparseRows(indptr, index, value, 51)
        node = single.potentials(indptr, index, value)
        assert np.array_equal(node, table.sum_rows(rows, states))
        assert np.array_equal(single.viterbi(node), kernel.viterbi(graph, offsets, node)[0])
        log_z, posterior = single.forward_backward(node)
        expected = kernel.forward_backward(graph, offsets, node)
        assert log_z == expected.log_z[0]
        assert np.array_equal(posterior, expected.node)


def test_an_attribute_without_weights_counts_for_nothing() -> None:
    table, graph, _ = parts(0, 3)
    node = SentenceGraph(table, graph).potentials(
        np.array([0, 2]), np.array([50, 50], dtype=np.int32), None
    )
    assert not node.any()


def test_a_sentence_without_tokens() -> None:
    table, graph, _ = parts(0, 3)
    single = SentenceGraph(table, replace(graph, empty=-2.0))
    node = single.potentials(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), None)
    assert node.shape == (0, 3)
    assert not len(single.viterbi(node))
    assert single.forward_backward(node)[0] == -2.0


def test_bad_input() -> None:
    table, graph, _ = parts(0, 3)
    single = SentenceGraph(table, graph)
    with pytest.raises(ShapeError, match="51 attributes"):
        single.potentials(np.array([0, 1]), np.array([51], dtype=np.int32), None)
    with pytest.raises(ShapeError, match="index"):
        single.potentials(np.array([0, 1]), np.array([1]), None)
    with pytest.raises(ShapeError, match="node"):
        single.viterbi(np.zeros((2, 4)))
    with pytest.raises(NumericError):
        single.forward_backward(np.full((2, 3), np.nan))
    ends = np.zeros(9)
    with pytest.raises(ShapeError, match="at most 8"):
        SentenceGraph(table, kernel.Graph(ends, ends, np.zeros(81)))
    with pytest.raises(ShapeError, match="shared arcs"):
        SentenceGraph(table, kernel.Graph(np.zeros(3), np.zeros(3), np.zeros((2, 9))))

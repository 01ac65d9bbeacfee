"""One sentence at a time: the answers of the calls for batches."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_best_path_of_rows_is_that_of_their_potentials(variant: str, *, mirrored: bool) -> None:
    table, graph, rng = parts(5, 3)
    single = SentenceGraph(table, graph, mirrored=mirrored)
    for length in (3, 0, 1, 40, 2):  # one memory serves them all
        indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, size=length))])
        index = rng.integers(51, size=indptr[-1]).astype(np.int32)
        for value in (None, rng.normal(size=indptr[-1]).astype(np.float32)):
            node = single.potentials(indptr, index, value)
            found = single.best_of(indptr.tolist(), index.tolist(), value)
            if mirrored:
                found, node = found[::-1], np.ascontiguousarray(node[::-1])
            assert found == single.viterbi(node).tolist()


def test_ties_of_a_mirrored_graph_are_decided_from_the_last_token() -> None:
    table = kernel.PackedTable.from_cells(1, 8, np.zeros(0, dtype=np.int64), np.zeros(0))
    ends, score = np.zeros(2), np.array([0.0, 1.0, 1.0, 0.0])  # a label follows the other one
    graph = kernel.Graph(ends, ends, score)
    assert SentenceGraph(table, graph).best_of([0, 0, 0], [], None) == [0, 1]
    assert SentenceGraph(table, graph, mirrored=True).best_of([0, 0, 0], [], None) == [1, 0]


def test_bad_rows() -> None:
    table, graph, _ = parts(0, 3)
    single = SentenceGraph(table, graph)
    for bounds, rows in (
        ([0, 1], [51]),
        ([0, 1], [-1]),
        ([0, 2], [1]),
        ([1, 1], [1]),
        ([0, 0], [1]),
    ):
        with pytest.raises(ShapeError, match="51 attributes: entry"):
            single.best_of(bounds, rows, None)
    with pytest.raises(ShapeError, match="value"):
        single.best_of([0, 1], [1], np.ones(2, dtype=np.float32))
    with pytest.raises(NumericError):
        single.best_of([0, 60], [*range(50)] + [0] * 10, np.full(60, np.inf, dtype=np.float32))
    assert single.best_of([0, 1], [50], None) == single.viterbi(np.zeros((1, 3))).tolist()


def test_threads_that_ask_at_once_have_a_memory_each() -> None:
    table, graph, rng = parts(1, 3)
    single = SentenceGraph(table, graph)
    texts = [rng.integers(51, size=size).tolist() for size in rng.integers(1, 60, size=200)]
    wanted = [single.best_of([*range(len(text) + 1)], text, None) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda text: single.best_of([*range(len(text) + 1)], text, None), texts)
        assert [*found] == wanted

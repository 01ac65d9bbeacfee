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
        rows = indptr, index, value
        node = np.array(single.potentials(rows))
        assert np.array_equal(node, table.sum_rows(kernel.SparseRows(*rows, 51), states))
        (path, score), log_z = kernel.viterbi(graph, offsets, node), single.best(rows)[2]
        assert single.best(rows) == (path.tolist(), score[0], log_z)
        assert single.labels((indptr.tolist(), index.tobytes(), value)) == path.tolist()
        expected = kernel.forward_backward(graph, offsets, node)
        assert single.posterior(rows) == (expected.log_z[0], expected.node.tolist())
        assert log_z == expected.log_z[0] == kernel.log_partition(graph, offsets, node)[0]
        scores, paths, again = single.nbest(rows, 3, np.inf)
        assert (scores[0], paths[0].tolist(), again) == (score[0], path.tolist(), log_z)


def test_an_attribute_without_weights_counts_for_nothing() -> None:
    table, graph, _ = parts(0, 3)
    rows = [0, 2], np.array([50, 50], dtype=np.int32), None
    assert SentenceGraph(table, graph).potentials(rows) == [[0.0] * 3]


def test_a_sentence_without_tokens() -> None:
    table, graph, _ = parts(0, 3)
    single = SentenceGraph(table, replace(graph, empty=-2.0))
    rows = [0], b"", None
    assert single.potentials(rows) == []
    assert single.labels(rows) == []
    assert single.posterior(rows) == (-2.0, [])
    assert single.best(rows) == ([], -2.0, -2.0)


def test_bad_input() -> None:
    table, graph, _ = parts(0, 3)
    single = SentenceGraph(table, graph)
    for index in (np.array([51], dtype=np.int32), np.array([1])):
        with pytest.raises(ShapeError, match="51 attributes"):
            single.potentials((np.array([0, 1]), index, None))
    with pytest.raises(ShapeError, match="indptr"):
        single.potentials((np.array([0, 1], dtype=np.int32), b"", None))
    ends = np.zeros(9)
    with pytest.raises(ShapeError, match="at most 8"):
        SentenceGraph(table, kernel.Graph(ends, ends, np.zeros(81)))
    with pytest.raises(ShapeError, match="shared arcs"):
        SentenceGraph(table, kernel.Graph(np.zeros(3), np.zeros(3), np.zeros((2, 9))))


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_best_path_of_rows_is_that_of_their_potentials(variant: str, *, mirrored: bool) -> None:
    table, graph, rng = parts(5, 3)
    single, plain = SentenceGraph(table, graph, mirrored=mirrored), SentenceGraph(table, graph)
    for length in (3, 0, 1, 40, 2):  # one memory serves them all
        indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, size=length))])
        index = rng.integers(51, size=indptr[-1]).astype(np.int32)
        for value in (None, rng.normal(size=indptr[-1]).astype(np.float32)):
            rows = indptr.tolist(), index.tobytes(), value
            node, found = np.reshape(plain.potentials(rows), (length, 3)), single.labels(rows)
            if mirrored:
                found, node = found[::-1], np.ascontiguousarray(node[::-1])
            assert single.potentials(rows) == node.tolist()
            assert found == kernel.viterbi(graph, np.array([0, length]), node)[0].tolist()


def test_ties_of_a_mirrored_graph_are_decided_from_the_last_token() -> None:
    table = kernel.PackedTable.from_cells(1, 8, np.zeros(0, dtype=np.int64), np.zeros(0))
    ends, score = np.zeros(2), np.array([0.0, 1.0, 1.0, 0.0])  # a label follows the other one
    graph = kernel.Graph(ends, ends, score)
    for mirrored, path in ((False, [0, 1]), (True, [1, 0])):
        graphs = SentenceGraph(table, graph, mirrored=mirrored)
        assert graphs.labels(([0, 0, 0], b"", None)) == path


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
            single.labels((bounds, as_bytes(rows), None))
    with pytest.raises(ShapeError, match="value"):
        single.labels(([0, 1], as_bytes([1]), np.ones(2, dtype=np.float32)))
    many, value = as_bytes([*range(50)] + [0] * 10), np.full(60, np.inf, dtype=np.float32)
    with pytest.raises(NumericError):
        single.labels(([0, 60], many, value))
    assert single.labels(([0, 1], as_bytes([50]), None)) == single.labels(([0, 0], b"", None))


def as_bytes(rows: list[int]) -> bytes:
    return np.array(rows, dtype=np.int32).tobytes()


def test_threads_that_ask_at_once_have_a_memory_each() -> None:
    table, graph, rng = parts(1, 3)
    single = SentenceGraph(table, graph)
    texts = [rng.integers(51, size=size).tolist() for size in rng.integers(1, 60, size=200)]
    rows = [([*range(len(text) + 1)], as_bytes(text), None) for text in texts]
    wanted = [*map(single.labels, rows)]
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(single.labels, rows)] == wanted

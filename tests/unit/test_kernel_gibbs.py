"""Gibbs sampling in the kernel: what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import FstcrfError, NumericError, ShapeError
from fstcrf.ext.documents.kernel import (
    Agreement,
    Gibbs,
    Labelling,
    MarkovChain,
    SequenceTables,
    ValueTables,
    WordTables,
)
from fstcrf.kernel import Graph

TOKENS, LABELS = 3, 2


def refused(error: type[FstcrfError], **parts: Any) -> None:
    """Check that a sweep with these penalties, of one type, is an error."""
    still = np.zeros(LABELS)
    graph = Graph(still, still, np.zeros(LABELS * LABELS))
    following = np.tile(np.arange(LABELS, dtype=np.int32), (LABELS + 1, 1))
    labelling = Labelling(np.arange(LABELS, dtype=np.int32), following)
    starts = np.zeros((LABELS + 1, LABELS), dtype=np.uint8)
    starts[:, 1] = 1
    agreement = Agreement(starts, 0 * starts, np.asarray([-1, 0], dtype=np.int32), 1, **parts)
    node = np.zeros((TOKENS, LABELS))
    with pytest.raises(error):
        _sweep(graph, node, labelling, agreement)


def _sweep(graph: Graph, node: Floats, labelling: Labelling, agreement: Agreement) -> None:
    gibbs = Gibbs(graph, np.asarray([0, TOKENS]), node, labelling, agreement)
    path = np.zeros(TOKENS, dtype=np.int32)
    draws = np.zeros((1, gibbs.n_draws))
    gibbs.sweep(MarkovChain(path, path.copy()), np.ones(1), np.zeros(1, bool), draws)


def values(
    table: int = 0, value: int = 0, differ: float = -1.0, tokens: int = TOKENS
) -> ValueTables:
    return ValueTables(
        np.asarray([table], dtype=np.int32),
        np.full((1, tokens, 2), value, dtype=np.int32),
        np.asarray([differ]),
        np.zeros(1, np.uint8),
    )


def words(word: int = 0, every: float = -1.0, tokens: int = TOKENS) -> WordTables:
    return WordTables(np.full(tokens, word, dtype=np.int32), np.asarray([every]))


@pytest.mark.parametrize("wrong", [values(table=1), values(table=-2), values(value=-2)])
def test_numbers_of_values_out_of_range(wrong: ValueTables) -> None:
    refused(FstcrfError, values=wrong)


def test_numbers_of_words_out_of_range() -> None:
    refused(FstcrfError, words=WordTables(np.asarray([0, 0, -3], np.int32), np.asarray([-1.0])))


@pytest.mark.parametrize("penalty", [np.nan, -np.inf, np.inf])
def test_penalties_that_are_no_numbers(penalty: float) -> None:
    refused(NumericError, values=values(differ=penalty))
    refused(NumericError, words=words(every=penalty))
    table = np.full((1, 1), penalty)
    none = np.zeros(TOKENS + 1, np.int64), np.zeros(0, np.int32)
    zero = np.zeros((1, 1))
    refused(NumericError, sequences=SequenceTables(*none, table, zero, zero))
    refused(NumericError, sequences=SequenceTables(*none, zero, zero, table))


def test_tables_of_another_document() -> None:
    refused(ShapeError, values=values(tokens=TOKENS + 1))
    refused(ShapeError, words=words(tokens=TOKENS + 1))


@pytest.mark.parametrize("whole", [False, True])
def test_labels_that_no_state_follows_from_are_not_drawn(*, whole: bool) -> None:
    """States are numbered as labels are, and have arcs, but no state follows from label 1."""
    still = np.zeros(LABELS)
    graph = Graph(still, still, np.zeros(LABELS * LABELS))
    following = np.tile(np.asarray([0, -1], dtype=np.int32), (LABELS + 1, 1))
    labelling = Labelling(np.arange(LABELS, dtype=np.int32), following)
    gibbs = Gibbs(graph, np.asarray([0, TOKENS]), np.zeros((TOKENS, LABELS)), labelling)
    path = np.zeros(TOKENS, dtype=np.int32)
    draws = np.full((3, gibbs.n_draws), 0.99)
    gibbs.sweep(MarkovChain(path, path.copy()), np.ones(3), np.full(3, whole), draws)
    assert set(path) <= ({0, 1} if whole else {0})

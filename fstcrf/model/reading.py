"""What users hand over as sentences, made ready for an index of attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus, Sentence
from fstcrf.errors import DataError
from fstcrf.features import Design, FeatureIndex, LiteralIndex, is_literal
from fstcrf.features.template import tape_column

__all__ = ["Data", "Prepared", "Run", "SentenceLike", "read_one", "read_sentences", "with_tapes"]

SentenceLike: TypeAlias = Sentence | Mapping[str, Sequence[str]] | Sequence[Any]
"""A `Sentence`, a mapping column → list, a list of row tuples, or (for models over literal
attributes) a list of attribute lists or feature dicts."""

Data: TypeAlias = Corpus | Sequence[SentenceLike]


class Run(NamedTuple):
    """Successive sentences.

    Parameters
    ----------
    first, end : int
        Their places among the sentences that are not empty.
    numbers : int64 [B]
        Their places among all sentences.
    offsets : int64 [B + 1]
    """

    first: int
    end: int
    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Sentences and how to get the design matrix of a run of them.

    Parameters
    ----------
    lengths : list of int
        Tokens of each sentence; empty sentences included.
    design : callable
        (first, end) → design of those of the sentences that are not empty.
    """

    lengths: list[int]
    design: Callable[[int, int], Design]

    def runs(self, tokens: int) -> Iterator[Run]:
        """Yield runs of sentences of about so many tokens."""
        lengths = np.asarray(self.lengths, dtype=np.int64)
        numbers = np.flatnonzero(lengths)
        bounds = np.zeros(len(numbers) + 1, dtype=np.int64)
        np.cumsum(lengths[numbers], out=bounds[1:])
        first = 0
        while first < len(numbers):
            end = int(np.searchsorted(bounds, bounds[first] + tokens))
            end = min(end, len(numbers))
            yield Run(first, end, numbers[first:end], bounds[first : end + 1] - bounds[first])
            first = end


def read_sentences(
    index: FeatureIndex | LiteralIndex, sentences: Data, columns: Sequence[str]
) -> Prepared:
    """Prepare sentences for an index.

    Raises
    ------
    DataError
        Sentences of the wrong kind, or without a column that the model reads.
    """
    if isinstance(index, LiteralIndex):
        if isinstance(sentences, Corpus):
            raise DataError("the model reads attribute lists or feature dicts, not columns")
        full = [sentence for sentence in sentences if len(sentence)]
        literal = [sentence for sentence in full if is_literal(sentence)]
        if len(literal) < len(full):
            raise DataError("the model reads attribute lists or feature dicts for each token")
        return Prepared([len(s) for s in sentences], lambda a, b: index.design(literal[a:b]))
    if isinstance(sentences, Corpus):
        lengths = np.diff(sentences.offsets)
        corpus = sentences if lengths.all() else sentences.select(np.flatnonzero(lengths))
        return Prepared(lengths.tolist(), index.runs(with_tapes(index, corpus)))
    parsed = [_as_sentence(s, columns) for s in sentences]
    names = _needed(index, parsed)
    corpus = Corpus.from_sentences([s for s in parsed if len(s)], names)
    return Prepared([len(s) for s in parsed], index.runs(with_tapes(index, corpus)))


def read_one(
    index: FeatureIndex | LiteralIndex, sentence: SentenceLike, columns: Sequence[str]
) -> Prepared:
    """Prepare one sentence."""
    return read_sentences(index, [sentence], columns)


def with_tapes(index: FeatureIndex, corpus: Corpus) -> Corpus:
    """Give the labels of earlier tapes, which come as columns of those names, to the index.

    Raises
    ------
    DataError
        A tape that is read has no column.
    """
    for tape in index.templates.tapes:
        if tape_column(tape) in corpus.columns:
            continue
        if tape not in corpus.columns:
            raise DataError(
                f"the model reads the labels of tape {tape!r}: give them as a column of that name",
                path=corpus.source,
            )
        corpus = corpus.with_interned(tape_column(tape), corpus.columns[tape])
    return corpus


def _as_sentence(sentence: SentenceLike, columns: Sequence[str]) -> Sentence:
    """Rows may leave out the last columns: a sentence to tag has no labels yet."""
    if isinstance(sentence, Sentence):
        return sentence
    if isinstance(sentence, Mapping):
        return Sentence(sentence)
    if not sentence:
        return Sentence({})
    for position, row in enumerate(sentence):
        if isinstance(row, str | Mapping) or not isinstance(row, Sequence):
            wanted = f"expected rows of strings for the columns {tuple(columns)}"
            raise DataError(f"{wanted}, got {row!r}", token=position)
    width = len(sentence[0])
    names = list(columns)[:width]
    if len(names) < width:
        raise DataError(f"rows of {width} strings, the columns are {tuple(columns)}")
    table: dict[str, list[str]] = {name: [] for name in names}
    for position, cells in enumerate(sentence):
        if len(cells) != len(names):
            raise DataError(f"{len(cells)} columns, expected {len(names)}", token=position)
        for name, cell in zip(names, cells, strict=True):
            table[name].append(cell)
    return Sentence(table)


def _needed(index: FeatureIndex, sentences: Sequence[Sentence]) -> list[str]:
    """Columns that all sentences have; the index itself says which one is missing."""
    full = [s for s in sentences if len(s)]
    if not full:
        return list(index.columns)
    return [name for name in full[0].columns if all(name in s for s in full)]

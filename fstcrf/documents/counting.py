"""How often one token sequence has two types within a document: tables 3 and 4 of Finkel et al.

===========  =====================================
PairCounts   the two tables
count_pairs  count them in a corpus with gold labels
===========  =====================================
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus, Scheme, span_arrays
from fstcrf.documents.document import documents
from fstcrf.documents.sequences import RepeatedSequences, repeated_sequences
from fstcrf.errors import DataError

__all__ = ["PairCounts", "count_pairs"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class PairCounts:
    """Pairs of spans of one document, by their types.

    Parameters
    ----------
    types : tuple of Y str
    same : int64 [Y, Y]
        Pairs of spans with the same tokens; symmetric.
    within : int64 [Y, Y]
        Places of a span (row) whose tokens are those of another, shorter one (column).
    """

    types: tuple[str, ...]
    same: Counts
    within: Counts


def count_pairs(
    corpus: Corpus, target: str, *, column: str = "word", scheme: str | Scheme = "iob2"
) -> PairCounts:
    """Count pairs of spans with the same tokens, and of spans within others.

    Parameters
    ----------
    corpus : Corpus
        With its documents.
    target : str
        The column of gold labels.
    column : str
        The column whose strings are compared.
    scheme : str or Scheme
        Of the labels.

    Raises
    ------
    DataError
        No such column, or no spans.
    """
    types = _types(corpus, target, scheme)
    number = {name: k for k, name in enumerate(types)}
    same = np.zeros((len(types), len(types)), dtype=np.int64)
    within = np.zeros_like(same)
    for document in documents(corpus):
        part = document.corpus
        tokens = part.column(column).ids.astype(np.int64)
        repeated = repeated_sequences(tokens, document.offsets)
        found = span_arrays(part.column(target), part.offsets, scheme)
        kinds = [number[found.types[kind]] for kind in found.type.tolist()]
        spans = list(zip(found.start.tolist(), found.end.tolist(), kinds, strict=True))
        whole: dict[int, Counter[int]] = defaultdict(Counter)
        for start, end, kind in spans:
            whole[repeated.of(start, end)][kind] += 1
        whole.pop(-1, None)  # what occurs once
        _add_same(whole, same)
        _add_within(spans, repeated, whole, within)
    return PairCounts(types, same, within)


def _add_same(whole: dict[int, Counter[int]], same: Counts) -> None:
    for counts in whole.values():
        for a, n in counts.items():
            for b, m in counts.items():
                same[a, b] += n * (n - 1) // 2 if a == b else n * m


def _add_within(
    spans: list[tuple[int, int, int]],
    repeated: RepeatedSequences,
    whole: dict[int, Counter[int]],
    within: Counts,
) -> None:
    for start, end, kind in spans:
        for sequence, _ in repeated.inside(start, end):
            for inner, n in whole.get(sequence, Counter()).items():
                within[kind, inner] += n


def _types(corpus: Corpus, target: str, scheme: str | Scheme) -> tuple[str, ...]:
    found = span_arrays(corpus.column(target), corpus.offsets, scheme)
    used = sorted({found.types[k] for k in np.unique(found.type).tolist()})
    if not used:
        raise DataError(f"column {target!r} holds no spans", path=corpus.source)
    return tuple(used)

"""Terms of a tagger's potentials that depend on open tapes, bound to weights and labels.

=======  ================================================================
Outline  what a term will look like, known before any sentence
Bound    such a term: gives its values for runs of sentences
bound    the terms of one side of an index
=======  ================================================================

The keys of an index say which pairs of a predicate and labels have weights (see
`fstcrf.features.tables`). A predicate is a row of a sparse table whose columns are all pairs
of labels and state, so one lookup and one sum of rows give a token's potentials for all labels at
once. A hashed index has no keys: there every label is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Column
from fstcrf.features.hashed import Hashed
from fstcrf.features.reader import Reader
from fstcrf.features.tables import Predicates, Tables, is_constant
from fstcrf.features.template import tape_column
from fstcrf.kernel import SparseRows
from fstcrf.model.weights import Cells, Spread

__all__ = ["Bound", "Outline", "bound"]

Floats = NDArray[np.float64]
Labels = Mapping[str, Sequence[str]]
Runs = Callable[[int, int], Floats]
Chosen = Callable[[NDArray[np.int64]], Floats]


@dataclass(frozen=True, slots=True)
class Outline:
    """What a term will look like.

    Parameters
    ----------
    context : tuple of str
        The tapes that it depends on.
    shape : tuple of int
        Labels of each tape, then states or arcs.
    moving : bool
        Whether tokens differ: the first axis of the values is N, else 1.
    """

    context: tuple[str, ...]
    shape: tuple[int, ...]
    moving: bool


class Bound(Protocol):
    """A term bound to weights and labels."""

    @property
    def outline(self) -> Outline:
        """What its values look like."""

    def runs(self, reader: Reader) -> Runs:
        """Return the function from a run of sentences, (first, end), to float64 [N or 1, ...]."""

    def tokens(self, reader: Reader) -> Chosen:
        """Return the function from tokens, int64 [M], to their values, float64 [M or 1, ...]."""


def bound(
    sides: Mapping[tuple[str, ...], Tables | Hashed], labels: Labels, cells: Cells, n_rows: int
) -> tuple[Bound, ...]:
    """Return the terms of one side of an index; contexts without weights have none.

    Parameters
    ----------
    sides : mapping
        Families by context, as `divided` gives them, without those of the empty context.
    labels : mapping of str to sequence of str
        Labels of each open tape.
    cells : Cells
        Weights of the attributes, by state or by arc.
    n_rows : int
        Number of attributes.
    """
    found: list[Bound] = []
    for context, side in sides.items():
        sizes = tuple(len(labels[tape]) for tape in context)
        shape = (*sizes, cells.width)
        if isinstance(side, Hashed):
            outline = Outline(context, shape, moving=True)
            table = Spread.of(
                cells.row, cells.column, cells.weight, n_rows=n_rows, width=cells.width
            )
            found.append(_Tried(outline, side, {t: labels[t] for t in context}, table))
            continue
        term = _by_predicate(side, context, shape, labels, cells, n_rows)
        if term is not None:
            found.append(term)
    return tuple(found)


def _by_predicate(
    side: Tables,
    context: tuple[str, ...],
    shape: tuple[int, ...],
    labels: Labels,
    cells: Cells,
    n_rows: int,
) -> Bound | None:
    split = Predicates.of(side, context, labels)
    pair = np.full(n_rows, -1, dtype=np.int64)
    pair[split.row] = np.arange(len(split.row))
    place = pair[cells.row]
    used = np.flatnonzero(place >= 0)
    if not len(used):
        return None
    place = place[used]
    n_predicates = split.tables.n_rows
    table = Spread.of(
        split.predicate[place].astype(np.int64),
        split.label[place] * cells.width + cells.column[used],
        cells.weight[used],
        n_rows=n_predicates,
        width=int(np.prod(shape)),
    )
    if not is_constant(side, context):
        return _Looked(Outline(context, shape, moving=True), split.tables, table)
    numbers = np.arange(n_predicates, dtype=np.int32)
    all_of_them = SparseRows(np.array([0, n_predicates]), numbers, None, n_predicates)
    outline = Outline(context, shape, moving=False)
    return _Constant(outline, table.times(all_of_them).reshape(1, *shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Constant:
    """The same at every token."""

    outline: Outline
    values: Floats

    def runs(self, reader: Reader) -> Runs:
        del reader
        return lambda first, end: self.values  # noqa: ARG005 (any run has these)

    def tokens(self, reader: Reader) -> Chosen:
        del reader
        return lambda tokens: self.values  # noqa: ARG005 (any token has these)


@dataclass(frozen=True, slots=True, eq=False)
class _Looked:
    """Predicates are looked up; each has weights for the labels that were seen with it."""

    outline: Outline
    predicates: Tables
    table: Spread

    def runs(self, reader: Reader) -> Runs:
        rows, shape = self.predicates.runs(reader), self.outline.shape
        return lambda first, end: self.table.times(rows(first, end)).reshape(-1, *shape)

    def tokens(self, reader: Reader) -> Chosen:
        rows, shape = self.predicates.runs(reader)(0, len(reader.corpus)), self.outline.shape
        return lambda tokens: self.table.times(rows.taken(tokens)).reshape(-1, *shape)


@dataclass(frozen=True, slots=True, eq=False)
class _Tried:
    """Every tuple of labels is tried on all tokens."""

    outline: Outline
    side: Hashed
    labels: Labels
    table: Spread

    def runs(self, reader: Reader) -> Runs:
        parts = self._tried(reader)

        def values(first: int, end: int) -> Floats:
            each = [self.table.times(rows(first, end)) for rows in parts]
            return np.stack(each, axis=1).reshape(-1, *self.outline.shape)

        return values

    def tokens(self, reader: Reader) -> Chosen:
        parts = [rows(0, len(reader.corpus)) for rows in self._tried(reader)]

        def values(tokens: NDArray[np.int64]) -> Floats:
            each = [self.table.times(rows.taken(tokens)) for rows in parts]
            return np.stack(each, axis=1).reshape(-1, *self.outline.shape)

        return values

    def _tried(self, reader: Reader) -> list[Callable[[int, int], SparseRows]]:
        parts = []
        for choice in product(*self.labels.values()):
            corpus = reader.corpus
            for tape, label in zip(self.labels, choice, strict=True):
                everywhere = Column(np.zeros(corpus.n_tokens, dtype=np.int32), (label,))
                corpus = corpus.with_interned(tape_column(tape), everywhere)
            parts.append(self.side.runs(Reader(corpus, reach=reader.reach)))
        return parts

"""The labels that the elements of an engine put on the tokens of a tape.

An engine sums and maximises over sets of *elements*: arcs, or states of tokens. Callers ask about
tapes, tokens and labels. A `Reading` maps between the two: it spreads values of elements over
tokens (marginals), sums values of tokens for each element (risks, biases), and finds the elements
that a mask of labels allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Array, Bools, Floats, Ints, Longs, Ragged
from fstcrf.lazy import made_once

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fstcrf.lattices.arcs import ArcEngine

_DENSE = 8
"""Cells of full matrices that cost less than an entry of sparse ones."""
_FEW, _CELLS = 32, 1_000_000
"""Labels of matrices that are multiplied for many tokens at once, and cells of these products."""

Elements: TypeAlias = Longs | slice
"""Numbers of elements; a slice if every element has a label."""


@dataclass(frozen=True, eq=False)
class Reading:
    """The labels of F elements on one tape: each labels the tokens ``start : end``.

    Parameters
    ----------
    element : int64 [F] or slice
        Number of each element, at most once.
    start, end : int64 [F]
        Tokens, numbered across all rows of the batch.
    label : int [F]
        Index into the labels of the tape.
    units : bool
        Whether every element labels exactly one token.
    """

    element: Elements
    start: Longs
    end: Longs
    label: NDArray[np.integer]
    units: bool = False

    @made_once
    def _tokens(self) -> tuple[Longs, Longs]:
        """Every labelled token, and the index of its label in `label`."""
        if self.units:
            return self.start, np.arange(len(self.start))
        size = Ragged.from_lengths(self.end - self.start)
        return size.ranges(self.start), size.rows()

    def sum_by_token(self, value: Floats, rows: Ragged, labels: int) -> Floats:
        """Return for each token and label the sum of the values of elements, [tokens, labels].

        Rows are summed separately, so that rounding in one does not change another.
        """
        share, boundaries = value[self.element], rows.total + len(rows)
        size = boundaries * labels
        if self.units:
            table = self._counted(self.start, share, labels, size)
            return table.reshape(boundaries, labels)[: rows.total]
        row = 0 if len(rows) == 1 else np.searchsorted(rows.offsets, self.start, side="right") - 1
        change: Floats = self._counted(self.start + row, share, labels, size)
        change -= self._counted(self.end + row, share, labels, size)
        change = change.reshape(boundaries, labels)
        if len(rows) == 1:
            return np.cumsum(change, axis=0)[:-1]
        table = np.empty((rows.total, labels))
        for k, tokens in enumerate(rows.slices()):
            np.cumsum(change[tokens.start + k : tokens.stop + k], axis=0, out=table[tokens])
        return table

    def _counted(self, token: Longs, value: Floats, labels: int, size: int) -> Floats:
        cell = token * labels
        cell += self.label
        return np.bincount(cell, weights=value, minlength=size).astype(np.float64, copy=False)

    def highest(self, value: Floats, tokens: int, labels: int) -> Floats:
        """Return for each token and label the largest value of an element; −inf if it has none."""
        table = np.full(tokens * labels, -np.inf)
        token, index = self._tokens
        np.maximum.at(table, token * labels + self.label[index], value[self.element][index])
        return table.reshape(tokens, labels)

    def sum_over_tokens(self, table: Floats, elements: int) -> Floats:
        """Return the sum of a table [tokens, labels] over the tokens and label of each element."""
        sums = np.zeros(elements)
        if self.units:
            sums[self.element] = table[self.start, self.label]
            return sums
        total = np.zeros((len(table) + 1, table.shape[1]))
        np.cumsum(table, axis=0, out=total[1:])
        sums[self.element] = total[self.end, self.label] - total[self.start, self.label]
        return sums

    def allowed(self, mask: Bools, elements: int) -> Bools:
        """Return whether each element puts only labels on tokens that a mask allows."""
        return np.asarray(
            self.sum_over_tokens((~mask).astype(np.float64), elements) == 0.0, dtype=bool
        )


def pairs_of_tokens(arcs: ArcEngine, tape: int, *, each: bool = False) -> Floats:
    """Return the expected pairs of labels at neighbouring tokens, [1, L + 1, L]; see `label_pairs`.

    `each`: separately for each second token, [T, L + 1, L].
    """
    size, tokens = arcs.sizes[tape], arcs.tokens
    label = np.where(tokens > 0, arcs.under[:, tape], np.int32(-1))
    pairs = label_pairs(arcs, label, size, each=each)
    inner = Ragged.from_lengths(np.where(label >= 0, np.maximum(tokens - 1, 0), 0))
    arc = inner.rows()
    cells = inner.ranges(arcs.place[arcs.source] + 1) * each * size + label[arc]
    same = np.bincount(cells, arcs.posterior[arc], len(pairs) * size)
    pairs[:, range(size), range(size)] += same.reshape(-1, size)  # within an arc
    return pairs


def label_pairs(arcs: ArcEngine, label: Ints, size: int, *, each: bool = False) -> Floats:
    """Return the expected number of each pair of labels that follow each other on a path.

    Given the state between them, the last label before it and the first label after it are
    independent. So no successions are written out: a state costs its labels before times after.

    Parameters
    ----------
    arcs : ArcEngine
    label : int32 [A]
        Label that each arc reads, below `size`; −1: no label.
    size : int
        Number of labels, L.
    each : bool
        Return the pairs around the states before each token separately.

    Returns
    -------
    float64 [1 or T, L + 1, L]
        The last row counts the first labels of paths.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415 (slow to import)

    arcs.check_sum()
    machine, which = arcs.explicit
    if which is not None:
        label = np.append(label, np.int32(-1))[which]
    node, arc = machine.marginals()
    states, source, begins = len(node), Ragged(machine.row).rows(), machine.begins
    out = np.zeros(len(arc))  # probability of each arc, in its source
    np.divide(arc, node[source], out=out, where=node[source] > 0.0)
    reads, rest = np.flatnonzero(label >= 0), np.flatnonzero(label < 0)

    def matrix(value: Floats, rows: Array, columns: Array, width: int) -> csr_array:
        return csr_array((value, (rows, columns)), (states, width))

    silent = matrix(out[rest], machine.target[rest], source[rest], states)
    last = matrix(
        np.append(arc[reads], node[begins]),
        np.append(machine.target[reads], begins),
        np.append(label[reads], np.full(len(begins), size)),
        size + 1,
    )  # probability of each state with each last label
    longer = silent @ last
    while longer.nnz:
        last = last + longer
        longer = silent @ longer
    after = matrix(out[reads], source[reads], label[reads], size)
    kept = np.flatnonzero(np.diff(after.indptr))  # states before labels
    token = arcs.place[arcs.explicit_nodes[kept]] * each
    order = np.argsort(token, kind="stable")
    last, after = last[kept[order]], after[kept[order]]
    counts = np.zeros((arcs.rows.total if each else 1, size + 1, size))
    rows = Ragged.from_rows(token[order], len(counts))
    if each and size <= _FEW:
        one, two = last.toarray(), after.toarray()
        for first, end in rows.runs(max(1, _CELLS // size**2)):
            part = slice(rows.offsets[first], rows.offsets[end])
            there = first + np.flatnonzero(rows.lengths[first:end])
            products = one[part, :, None] * two[part, None]
            if len(there):
                counts[there] = np.add.reduceat(products, rows.offsets[there] - rows.offsets[first])
        return counts
    for k, here in enumerate(rows.slices()):
        one, two = (_rows(part, here) for part in (last, after))
        if one.shape[0] * size <= _DENSE * (one.nnz + two.nnz):
            np.matmul(one.toarray().T, two.toarray(), out=counts[k])
        elif one.nnz:
            counts[k] = (one.T @ two).toarray()
    return counts


def _rows(matrix: csr_array, rows: slice) -> csr_array:
    """Return some rows of a sparse matrix; scipy checks much more."""
    first, end = matrix.indptr[rows.start], matrix.indptr[rows.stop]
    part = type(matrix)((rows.stop - rows.start, matrix.shape[1]))
    part.data, part.indices = matrix.data[first:end], matrix.indices[first:end]
    part.indptr = matrix.indptr[rows.start : rows.stop + 1] - first
    return part

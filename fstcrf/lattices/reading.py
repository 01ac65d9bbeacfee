"""The labels that the elements of an engine put on the tokens of a tape.

An engine sums and maximises over sets of *elements*: arcs, or states of tokens. Callers ask about
tapes, tokens and labels. A `Reading` maps between the two: it spreads values of elements over
tokens (marginals), sums values of tokens for each element (risks, biases), and finds the elements
that a mask of labels allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.lazy import made_once
from fstcrf.ragged import Ragged

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

    def spread(self, value: Floats, rows: Ragged, labels: int) -> Floats:
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


def successions(
    code: Longs,
    token: Longs,
    tokens: Longs,
    under: NDArray[np.integer],
    share: Floats,
    shape: tuple[int, int],
) -> Floats:
    """Return the expected number of label pairs at neighbouring tokens, [T, L, L].

    Parameters
    ----------
    code : int64 [A]
        (previous label + 1) · labels + label of each element with a label.
    token, tokens : int64 [A]
        First token of each element, and its number of tokens.
    under : int [A]
        Label of these tokens.
    share : float64 [A]
        Probability of each element.
    shape : (int, int)
        Number of tokens and of labels.
    """
    length, size = shape
    follows = np.flatnonzero(code >= size)
    within = Ragged.from_lengths(np.maximum(tokens - 1, 0))
    arc = within.rows()
    same = within.ranges(token + 1) * size**2 + under[arc].astype(np.int64) * (size + 1)
    cells = np.concatenate([token[follows] * size**2 + code[follows] - size, same])
    weights = np.concatenate([share[follows], share[arc]])
    total = np.bincount(cells, weights=weights, minlength=length * size**2)
    return total.astype(np.float64).reshape(-1, size, size)

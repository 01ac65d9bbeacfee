"""Which facts the elements of an engine state: what lies where on a tape.

An engine sums and maximises over sets of *elements*: arcs, or states of tokens. Questions are asked
of tapes, tokens and labels. A reading is the map between the two, and its three operations are all
that questions need: elements spread over tokens (marginals), tokens gathered to elements by sum
(risks, biases), and by all (masks).
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
"""Numbers of elements; a slice where all of them state a fact."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Facts on one tape, F of them, at most one of each element.

    Parameters
    ----------
    element : int64 [F] or slice
        Which element states each.
    start, end : int64 [F]
        Tokens, counted through all rows of the batch.
    label : int [F]
        Index into the labels of the tape.
    units : bool
        Every fact is of one token: nothing is to be summed up over tokens.
    """

    element: Elements
    start: Longs
    end: Longs
    label: NDArray[np.integer]
    units: bool = False

    @made_once
    def _tokens(self) -> tuple[Longs, Longs]:
        """Every token of every fact, and the fact."""
        if self.units:
            return self.start, np.arange(len(self.start))
        size = Ragged.from_lengths(self.end - self.start)
        return size.ranges(self.start), size.rows()

    def spread(self, value: Floats, rows: Ragged, labels: int) -> Floats:
        """Return the sum of what elements have over the tokens of their facts, [tokens, labels].

        Each row is summed by itself: none has what was rounded off in another.
        """
        mine, boundaries = value[self.element], rows.total + len(rows)
        if self.units:
            found = self._counted(self.start, mine, labels, boundaries * labels)
            return found.reshape(boundaries, labels)[: rows.total]
        row = 0 if len(rows) == 1 else np.searchsorted(rows.offsets, self.start, side="right") - 1
        change: Floats = self._counted(self.start + row, mine, labels, boundaries * labels)
        change -= self._counted(self.end + row, mine, labels, boundaries * labels)  # what has ended
        change = change.reshape(boundaries, labels)
        if len(rows) == 1:
            return np.cumsum(change, axis=0)[:-1]
        table = np.empty((rows.total, labels))
        for k, own in enumerate(rows.slices()):
            np.cumsum(change[own.start + k : own.stop + k], axis=0, out=table[own])
        return table

    def _counted(self, token: Longs, value: Floats, labels: int, size: int) -> Floats:
        cell = token * labels
        cell += self.label
        return np.bincount(cell, weights=value, minlength=size).astype(np.float64, copy=False)

    def highest(self, value: Floats, tokens: int, labels: int) -> Floats:
        """Return the largest of what elements have at the tokens of their facts; −inf: nothing."""
        found = np.full(tokens * labels, -np.inf)
        token, fact = self._tokens
        np.maximum.at(found, token * labels + self.label[fact], value[self.element][fact])
        return found.reshape(tokens, labels)

    def sum_over_tokens(self, table: Floats, elements: int) -> Floats:
        """Return the sum of a table [tokens, labels] over the tokens of each element's fact."""
        found = np.zeros(elements)
        if self.units:
            found[self.element] = table[self.start, self.label]
            return found
        total = np.zeros((len(table) + 1, table.shape[1]))
        np.cumsum(table, axis=0, out=total[1:])
        found[self.element] = total[self.end, self.label] - total[self.start, self.label]
        return found

    def allowed(self, mask: Bools, elements: int) -> Bools:
        """Return which elements state nothing that a mask [tokens, labels] forbids."""
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
    """Return how often labels are expected to follow each other at tokens, [T, L, L].

    Parameters
    ----------
    code : int64 [A]
        (label before + 1) · labels + label, of elements that put a label on tokens.
    token, tokens : int64 [A]
        The first token under each element, and how many are.
    under : int [A]
        Their label.
    share : float64 [A]
    shape : (int, int)
        Tokens and labels.
    """
    length, size = shape
    behind = np.flatnonzero(code >= size)
    within = Ragged.from_lengths(np.maximum(tokens - 1, 0))
    arc = within.rows()
    same = within.ranges(token + 1) * size**2 + under[arc].astype(np.int64) * (size + 1)
    cells = np.concatenate([token[behind] * size**2 + code[behind] - size, same])
    weights = np.concatenate([share[behind], share[arc]])
    total = np.bincount(cells, weights=weights, minlength=length * size**2)
    return total.astype(np.float64).reshape(-1, size, size)

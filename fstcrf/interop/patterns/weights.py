"""Numbered weights of which most may be zero.

==============  ==============================================================
SparseWeights   numbers and values; blocks of them as cells of a table
==============  ==============================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SparseWeights"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SparseWeights:
    """The weights that are not zero.

    Parameters
    ----------
    numbers : int64 [n]
        Rising.
    values : float64 [n]
        Natural-log scores.
    """

    numbers: NDArray[np.int64]
    values: Floats

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, weights: Floats) -> SparseWeights:
        """Return those of a dense vector."""
        numbers = np.flatnonzero(weights)
        return cls(numbers, weights[numbers])

    def counts(self, first: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Return how many there are among the `size` weights from each number on, int64 [R]."""
        begin, end = self._bounds(first, size)
        return end - begin

    def cells(
        self, first: NDArray[np.int64], size: int, stride: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """Lay blocks of weights out as rows of a table.

        Parameters
        ----------
        first : int64 [R]
            Number of each row's first weight.
        size : int
            Weights of a row.
        stride : int
            Columns of the table.

        Returns
        -------
        cells : int64 [m]
            ``row * stride + column``, rising.
        values : float64 [m]
        """
        begin, end = self._bounds(first, size)
        counts = end - begin
        rows = np.repeat(np.arange(len(first)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = begin[rows] + within
        return rows * stride + self.numbers[places] - first[rows], self.values[places]

    def _bounds(
        self, first: NDArray[np.int64], size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        begin = np.searchsorted(self.numbers, first)
        return begin, np.searchsorted(self.numbers, first + size)

"""Rows of different lengths in one array: the sentences of a batch, and other lists.

An array of all entries and the offsets of the rows represent them. Kernel wrappers take the plain
array `Ragged.offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Longs

_T = TypeVar("_T", bound=np.generic)

RUN_TOKENS = 20_000
"""Default number of entries, such as tokens, of one step: intermediate results fit into the cache,
and runs do not depend on the number of threads."""


class Ragged:
    """The bounds of B rows with N entries in all; a row may be empty.

    Parameters
    ----------
    offsets : int64 [B + 1]
        Row b holds the entries ``offsets[b] : offsets[b + 1]``. Offsets of a part of a longer array
        begin at another number than 0.
    """

    __slots__ = ("offsets",)

    def __init__(self, offsets: Longs) -> None:
        self.offsets = offsets

    @classmethod
    def from_lengths(cls, lengths: Iterable[int] | NDArray[np.integer | np.bool_]) -> Ragged:
        """Return rows of these lengths, [B]."""
        sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, np.int64)
        offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, dtype=np.int64, out=offsets[1:])
        return cls(offsets)

    @classmethod
    def from_rows(cls, rows: NDArray[np.integer], n: int) -> Ragged:
        """Return n rows, given the row of each entry, [N], in any order."""
        return cls.from_lengths(np.bincount(rows, minlength=n))

    def __len__(self) -> int:
        """Return the number of rows, B."""
        return len(self.offsets) - 1

    @property
    def total(self) -> int:
        """Number of entries, N."""
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def lengths(self) -> Longs:
        """Number of entries of each row, int64 [B]."""
        # np.diff takes three times as long for few rows
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def longest(self) -> int:
        """Number of entries of the longest row; 0 without rows."""
        return int(self.lengths.max(initial=0))

    # --- One number for each entry ----------------------------------------------------------------

    def repeat(self, values: NDArray[_T]) -> NDArray[_T]:
        """Return for each entry the value of its row: [B, ...] becomes [N, ...]."""
        return np.repeat(values, self.lengths, axis=0)

    def rows(self) -> Longs:
        """Return the row of each entry, int64 [N]."""
        return self.repeat(np.arange(len(self)))

    def ranges(self, starts: NDArray[np.integer] | int = 0) -> Longs:
        """Return consecutive numbers for each row, which begin at its start, int64 [N].

        Parameters
        ----------
        starts : int [B] or int
            With 0, the numbers are the positions of the entries within their rows.
        """
        return self.repeat(starts - (self.offsets[:-1] - self.offsets[0])) + np.arange(self.total)

    # --- Some of the rows or entries --------------------------------------------------------------

    def select(self, rows: NDArray[np.integer | np.bool_]) -> Ragged:
        """Return some rows, in the given order; a row may occur repeatedly."""
        numbers = _numbers(rows)
        return Ragged.from_lengths(self.offsets[numbers + 1] - self.offsets[numbers])

    def entries(self, rows: NDArray[np.integer | np.bool_]) -> Longs:
        """Return the numbers of the entries that `select` takes, int64."""
        return self.select(rows).ranges(self.offsets[_numbers(rows)])

    def part(self, first: int, end: int) -> Ragged:
        """Return consecutive rows, with offsets from 0."""
        return Ragged(self.offsets[first : end + 1] - self.offsets[first])

    def filtered(self, kept: Bools) -> Ragged:
        """Return the rows restricted to kept entries, bool [N]."""
        return Ragged(Ragged.from_lengths(kept).offsets[self.offsets])

    # --- Arrays of entries, row by row ------------------------------------------------------------

    def slices(self) -> Iterator[slice]:
        """Yield the entries of each row."""
        return (slice(first, end) for first, end in pairwise(self.offsets.tolist()))

    def split(self, array: NDArray[_T]) -> list[NDArray[_T]]:
        """Return a view of each row of an array of all entries, [N, ...]."""
        lengths, end = self.lengths, self.offsets[-1]
        alike = len(lengths) > 1 and lengths[0] * len(lengths) == end == len(array)
        if alike and array.flags.c_contiguous and (lengths == lengths[0]).all():  # in half the time
            return list(array.reshape(len(lengths), int(lengths[0]), *array.shape[1:]))
        return [array[first:end] for first, end in pairwise(self.offsets.tolist())]

    # --- Runs of rows -----------------------------------------------------------------------------

    def runs(self, entries: int) -> Iterator[tuple[int, int]]:
        """Yield runs (first, end) of consecutive rows, of at most `entries` entries or one row."""
        first, last = 0, len(self)
        while first < last:
            limit = self.offsets[first] + entries
            end = max(first + 1, int(np.searchsorted(self.offsets, limit, side="right")) - 1)
            yield first, end
            first = end

    def cut(self, runs: int) -> list[int]:
        """Return the bounds of at most `runs` runs of about equally many entries."""
        cuts = np.linspace(self.offsets[0], self.offsets[-1], runs + 1)[1:-1]
        return sorted({0, *np.searchsorted(self.offsets, cuts).tolist(), len(self)})


def _numbers(rows: NDArray[np.integer | np.bool_]) -> Longs:
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)

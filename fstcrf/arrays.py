"""Array types for signatures, and rows of different lengths in one array.

Docstrings give the shapes. `Ragged` represents the sentences of a batch, and other lists, by an
array of all entries and the offsets of the rows. Kernel wrappers take the plain array
`Ragged.offsets`. `distinct` replaces ``np.unique`` and ``np.union1d`` of plain integers: since
NumPy 2.3 these use hashing, which takes 10 to 100 times as long as sorting millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

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
        sizes.cumsum(dtype=np.int64, out=offsets[1:])
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
        return values.repeat(self.lengths, axis=0)

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


Array: TypeAlias = NDArray[Any]
"""An array of any type, such as a file's contents before checks."""

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]


def distinct(*several: NDArray[_T]) -> NDArray[_T]:
    """Return the distinct values of arrays of one dtype, ascending, shape ``(n,)``.

    Sorted values, or a few sorted pieces, take linear time.
    """
    flat = [values.ravel() for values in several]
    ordered = np.concatenate(flat) if len(flat) > 1 else flat[0].copy()
    ordered.sort(kind="stable")
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def distinct_rows(table: NDArray[_T]) -> tuple[NDArray[_T], Longs]:
    """Return the distinct rows of a matrix, ascending, and the index of each row, int64 [n].

    Like `numpy.unique` along axis 0, but it sorts only the few distinct rows.
    """
    number: dict[bytes, int] = {}
    numbers = [number.setdefault(row.tobytes(), k) for k, row in enumerate(table)]
    first, place = np.unique(np.asarray(numbers, dtype=np.int64), return_inverse=True)
    rows = table[first]  # `numpy.unique` along an axis takes long for wide rows
    as_bytes = rows.dtype == np.uint8  # they sort as their numbers do
    keys = [row.tobytes() for row in rows] if as_bytes else rows.tolist()
    order = sorted(range(len(rows)), key=keys.__getitem__)
    return rows[order], np.argsort(order)[place]

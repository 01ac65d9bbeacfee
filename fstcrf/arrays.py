"""Names of the array types: what a signature says of numbers; docstrings say the shapes.

And `distinct`, in place of ``np.unique`` and ``np.union1d`` of plain integers: since NumPy 2.3
these hash them, which takes 10 to 100 times as long as to sort millions.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""Of any type: what a file holds before it is checked."""

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]

_T = TypeVar("_T", bound=np.generic)


def distinct(*several: NDArray[_T]) -> NDArray[_T]:
    """Return the distinct values of arrays of one dtype, ascending, shape ``(n,)``.

    Values that stand in order, or in a few pieces that do, take linear time.
    """
    flat = [values.ravel() for values in several]
    ordered = np.concatenate(flat) if len(flat) > 1 else flat[0].copy()
    ordered.sort(kind="stable")
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def distinct_rows(table: NDArray[_T]) -> tuple[NDArray[_T], Longs]:
    """Return the distinct rows of a matrix, ascending, and which of them each row is, int64 [n].

    As `numpy.unique` along axis 0, but only the few distinct ones are sorted.
    """
    number: dict[bytes, int] = {}
    found = [number.setdefault(row.tobytes(), k) for k, row in enumerate(table)]
    first, place = np.unique(np.asarray(found, dtype=np.int64), return_inverse=True)
    rows, order = np.unique(table[first], axis=0, return_inverse=True)
    return rows, order.reshape(-1)[place.reshape(-1)]

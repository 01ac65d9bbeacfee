"""Names of array types for signatures; docstrings give the shapes.

Also `distinct`, in place of ``np.unique`` and ``np.union1d`` of plain integers: since NumPy 2.3
these use hashing, which takes 10 to 100 times as long as sorting millions.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""An array of any type, such as a file's contents before checks."""

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]

_T = TypeVar("_T", bound=np.generic)


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
    order = sorted(range(len(rows)), key=rows.tolist().__getitem__)
    return rows[order], np.argsort(order)[place]

"""Sparse rows and stored vectors: shapes, edges, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np

from fstcrf.kernel import SparseRows
from fstcrf.kernel.native import lib

INDPTR = np.asarray([0, 2, 2, 3])
INDEX = np.asarray([0, 3, 1], dtype=np.int32)
VALUE = np.asarray([1.0, -2.0, 0.5], dtype=np.float32)


def rows(**changes: Any) -> SparseRows:
    fields: dict[str, Any] = {"indptr": INDPTR, "index": INDEX, "value": VALUE, "n_columns": 4}
    return SparseRows(**{**fields, **changes})


def test_nothing_at_all(variant: str) -> None:
    none = SparseRows(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), None, 0)
    assert none.times(np.zeros((0, 8))).shape == (0, 8)
    assert len(none.transposed()) == 0
    empty = SparseRows(np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int32), None, 0)
    assert not empty.times(np.zeros((0, 16))).any()


def test_c_checks_sizes() -> None:
    for n, r, w in ((-1, 1, 8), (1, -1, 8), (1, 1, 0), (1, 1, 12), (1, 1, -8)):
        assert lib.fc_gather(n, r, w, *[lib_null()] * 5) == lib.FC_EINVAL
    null = lib_null()
    for m, n, stride, x_stride in ((-1, 1, 1, 1), (1, 2, 1, 2), (1, 2, 2, 1)):
        assert lib.fc_dots(m, 1, n, stride, 0, null, x_stride, null, null) == lib.FC_EINVAL
    assert lib.fc_combine(1, -1, 1, 0, *[lib_null()] * 3) == lib.FC_EINVAL


def lib_null() -> Any:
    from fstcrf.kernel.native import ffi

    return ffi.NULL

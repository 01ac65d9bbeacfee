"""Sparse rows and stored vectors: shapes, edges, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf.kernel import SparseRows, padded
from fstcrf.kernel.native import lib

INDPTR = np.asarray([0, 2, 2, 3])
INDEX = np.asarray([0, 3, 1], dtype=np.int32)
VALUE = np.asarray([1.0, -2.0, 0.5], dtype=np.float32)


def rows(**changes: Any) -> SparseRows:
    fields: dict[str, Any] = {"indptr": INDPTR, "index": INDEX, "value": VALUE, "n_columns": 4}
    return SparseRows(**{**fields, **changes})


@pytest.mark.parametrize(("width", "expected"), [(0, 8), (1, 8), (8, 8), (9, 16), (64, 64)])
def test_padded(width: int, expected: int) -> None:
    assert padded(width) == expected


def test_product_and_views(variant: str) -> None:
    table = np.arange(32.0).reshape(4, 8)
    product = rows().times(table)
    assert product.tolist() == [
        (table[0] - 2.0 * table[3]).tolist(),
        [0.0] * 8,
        (0.5 * table[1]).tolist(),
    ]
    assert rows(value=None).times(table)[0].tolist() == (table[0] + table[3]).tolist()
    out = np.full((3, 8), np.nan)
    assert rows().times(table, out=out) is out
    assert out.tolist() == product.tolist()
    assert len(rows()) == 3
    assert rows().slice(1, 3).times(table).tolist() == product[1:].tolist()
    assert len(rows().slice(2, 2)) == 0


def test_transpose() -> None:
    turned = rows().transposed()
    assert turned.indptr.tolist() == [0, 1, 2, 2, 3]
    assert turned.index.tolist() == [0, 2, 0]
    assert turned.value is not None
    assert turned.value.tolist() == [1.0, 0.5, -2.0]
    assert turned.n_columns == 3
    again = turned.transposed()
    assert again.indptr.tolist() == INDPTR.tolist()
    assert again.index.tolist() == INDEX.tolist()


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
        assert lib.fc_dots(m, 1, n, stride, null, x_stride, null, null) == lib.FC_EINVAL
    assert lib.fc_combine(1, -1, 1, *[lib_null()] * 3) == lib.FC_EINVAL


def lib_null() -> Any:
    from fstcrf.kernel.native import ffi

    return ffi.NULL

"""Rows times a table without its zeros, against the full table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.errors import ShapeError
from fstcrf.kernel import PackedTable, SparseRows
from fstcrf.kernel.rows import packed_cells


@pytest.mark.usefixtures("variant")
@given(st.integers(0, 2**32), st.sampled_from([8, 16, 24, 32, 56, 344]), st.booleans())
def test_the_same_sums_as_the_full_table(seed: int, width: int, valued: bool) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n = int(rng.integers(1, 200)), int(rng.integers(0, 12))
    density = rng.choice([0.0, 0.01, 0.2, 0.9], size=(n_rows, 1))
    table = np.where(rng.random((n_rows, width)) < density, rng.normal(size=(n_rows, width)), 0)
    cells = np.flatnonzero(table)
    packed = PackedTable.from_cells(n_rows, width, cells, table.ravel()[cells])
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 150, size=n))]).astype(np.int64)
    index = rng.integers(0, n_rows, size=indptr[-1]).astype(np.int32)
    value = rng.normal(size=len(index)).astype(np.float32) if valued else None
    rows = SparseRows(indptr, index, value, n_rows)
    for kept in (width, 1, width - 3):
        np.testing.assert_allclose(
            packed.sum_rows(rows, kept), rows.times(table)[:, :kept], rtol=1e-12, atol=1e-12
        )


@given(st.integers(0, 2**32), st.sampled_from([8, 24, 56]))
def test_other_weights_in_the_same_cells(seed: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(1, 60))
    density = rng.choice([0.0, 0.05, 0.9], size=(n_rows, 1))
    cells = np.flatnonzero(rng.random((n_rows, width)) < density)
    first, second = rng.normal(size=(2, len(cells)))
    table = packed_cells(n_rows, width, cells)
    _, again = (table(weights) for weights in (first, second))
    fresh = PackedTable.from_cells(n_rows, width, cells, second)
    np.testing.assert_array_equal(again.place, fresh.place)
    np.testing.assert_array_equal(again.table, fresh.table)
    np.testing.assert_array_equal(again.entries["slot"], fresh.entries["slot"])
    np.testing.assert_array_equal(again.entries["weight"][1:], fresh.entries["weight"][1:])
    with pytest.raises(ShapeError, match="weights for"):
        table(np.ones(len(cells) + 1))


@pytest.mark.parametrize("cells", [[3, 3], [5, 4], [-1], [16]])
def test_cells_that_are_none(cells: list[int]) -> None:
    with pytest.raises(ShapeError, match="cells of a table of 2 x 8"):
        PackedTable.from_cells(2, 8, np.array(cells, dtype=np.int64), np.ones(len(cells)))


def test_sizes_must_agree() -> None:
    packed = PackedTable.from_cells(2, 8, np.array([1]), np.ones(1))
    rows = SparseRows(np.array([0, 1]), np.zeros(1, dtype=np.int32), None, 3)
    with pytest.raises(ShapeError, match="rows over 3 columns"):
        packed.sum_rows(rows, 8)

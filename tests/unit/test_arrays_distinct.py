"""`distinct` is ``np.unique`` of plain values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fstcrf.arrays import distinct

DTYPES = st.sampled_from([np.int64, np.int32, np.uint64, np.uint8])


@given(DTYPES.flatmap(lambda dtype: st.lists(arrays.arrays(dtype, st.integers(0, 20)), min_size=1)))
def test_values_in_order_each_once(several: list[np.ndarray]) -> None:
    before = [values.copy() for values in several]
    found = distinct(*several)
    assert found.dtype == several[0].dtype
    np.testing.assert_array_equal(found, np.unique(np.concatenate(several)))
    for values, kept in zip(several, before, strict=True):
        np.testing.assert_array_equal(values, kept)


@pytest.mark.parametrize("shape", [(0,), (2, 3)])
def test_any_shape_is_flat(shape: tuple[int, ...]) -> None:
    values = np.zeros(shape, dtype=np.int64)
    assert distinct(values).tolist() == ([0] if values.size else [])

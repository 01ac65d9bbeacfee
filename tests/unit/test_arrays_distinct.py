"""`distinct`, `distinct_rows` and places of states, compared with ``np.unique``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fstcrf.arrays import distinct, distinct_rows
from fstcrf.machines.grammar.acceptor import _first_places

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


@given(
    DTYPES.flatmap(
        lambda dtype: arrays.arrays(
            dtype, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=st.integers(0, 200)
        )
    )
)
def test_distinct_rows(table: np.ndarray) -> None:
    rows, place = distinct_rows(table)
    np.testing.assert_array_equal(rows, np.unique(table, axis=0))
    np.testing.assert_array_equal(rows[place], table)


@given(st.lists(st.integers(-1, 5), max_size=20), st.sampled_from([6, 30]))
def test_places_of_states(states: list[int], count: int) -> None:
    given_states = np.array(states, dtype=np.int32)
    reached, first = _first_places(given_states, count)
    numbers, places = np.unique(given_states, return_index=True)
    found = dict(zip(reached.tolist(), first.tolist(), strict=True))
    wanted = dict(zip(numbers.tolist(), places.tolist(), strict=True))
    for kept in (found, wanted):
        kept.pop(-1, None)  # it may be absent
    assert found == wanted

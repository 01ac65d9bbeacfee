"""Sparse rows times tables against scipy.sparse; stored vectors against NumPy."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from scipy import sparse

from fstcrf import kernel
from fstcrf.errors import ShapeError
from fstcrf.ext.papers.kernel import scatter
from fstcrf.kernel import SparseRows
from fstcrf.kernel.sweep import VectorStore
from tests.support.strategies import each_variant


@st.composite
def matrices(draw: st.DrawFn) -> SparseRows:
    n, columns = draw(st.integers(0, 6)), draw(st.integers(1, 6))
    counts = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 12)))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    index = draw(hnp.arrays(np.int32, int(indptr[-1]), elements=st.integers(0, columns - 1)))
    steps = draw(hnp.arrays(np.int8, len(index), elements=st.integers(-9, 9)))
    value = (steps / 8).astype(np.float32) if draw(st.booleans()) else None
    return SparseRows(indptr, index, value, columns)


def as_scipy(rows: SparseRows) -> sparse.csr_array:
    value = np.ones(len(rows.index)) if rows.value is None else rows.value.astype(np.float64)
    return sparse.csr_array((value, rows.index, rows.indptr), shape=(len(rows), rows.n_columns))


@each_variant
@given(rows=matrices(), width=st.sampled_from([8, 16, 24, 32, 40, 64, 104]), seed=st.integers(0))
def test_gather(variant: str, rows: SparseRows, width: int, seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=(rows.n_columns, width))
    np.testing.assert_allclose(rows.times(table), as_scipy(rows) @ table, rtol=1e-12, atol=1e-12)


@each_variant
@given(rows=matrices(), seed=st.integers(0))
def test_transposed_gather(variant: str, rows: SparseRows, seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=(len(rows), 16))
    found = rows.transposed().times(table)
    np.testing.assert_allclose(found, as_scipy(rows).T @ table, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
@each_variant
@given(rows=matrices().filter(len), width=st.integers(1, 9), seed=st.integers(0))
def test_scatter(variant: str, rows: SparseRows, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rows.n_columns * width
    place = rng.permutation(cells).reshape(rows.n_columns, width).astype(np.int32) - cells // 3
    token, slot = rng.integers(0, len(rows), 7), rng.integers(0, width, 7)
    mass = rng.normal(size=7)
    found = np.ones(cells)
    scatter(rows, token, slot, mass, place, found)
    expected = np.ones(cells)
    for n, s, m in zip(token, slot, mass, strict=True):
        counts = as_scipy(rows).toarray()[n]
        kept = place[:, s] >= 0
        expected[place[kept, s]] += m * counts[kept]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("token", "slot"), [(1, 0), (-1, 0), (0, 2), (0, -1)])
def test_scatter_refuses_what_is_not_there(token: int, slot: int) -> None:
    one = np.asarray([1], dtype=np.int64)
    rows = SparseRows(np.asarray([0, 1]), np.asarray([0], dtype=np.int32), None, 1)
    place, out = np.zeros((1, 2), dtype=np.int32), np.zeros(1)
    with pytest.raises(ShapeError, match="entry 0"):
        scatter(rows, token * one, slot * one, np.ones(1), place, out)


@pytest.mark.parametrize("wrong", [2, 1000, 2**31 - 1])
def test_scatter_refuses_places_beyond_the_parameters(variant: str, wrong: int) -> None:
    rows = SparseRows(np.asarray([0, 1, 3]), np.asarray([0, 0, 1], dtype=np.int32), None, 2)
    place, out = np.asarray([[1, -1], [wrong, 0]], dtype=np.int32), np.zeros(2)
    token, slot = np.asarray([0, 1]), np.zeros(2, dtype=np.int64)
    with pytest.raises(ShapeError, match="entry 1"):
        scatter(rows, token, slot, np.ones(2), place, out)


@each_variant
@given(rows=matrices(), data=st.data())
def test_any_split_gives_the_same_bits(variant: str, rows: SparseRows, data: st.DataObject) -> None:
    table = np.random.default_rng(len(rows)).normal(size=(rows.n_columns, 24))
    cut = data.draw(st.integers(0, len(rows)))
    parts = [rows.slice(0, cut).times(table), rows.slice(cut, len(rows)).times(table)]
    assert np.vstack(parts).tobytes() == rows.times(table).tobytes()


@each_variant
@given(rows=matrices())
def test_transposing_twice(variant: str, rows: SparseRows) -> None:
    twice, dense = rows.transposed().transposed(), as_scipy(rows).toarray()
    np.testing.assert_array_equal(as_scipy(twice).toarray(), dense)


def test_variants_agree() -> None:
    rng = np.random.default_rng(1)
    index = rng.integers(0, 500, 20_000).astype(np.int32)
    rows = SparseRows(np.arange(0, 20_001, 20), index, None, 500)
    table, before = rng.normal(size=(500, 56)), kernel.variant()
    found = []
    for name in kernel.variants():
        kernel.use(name)
        found.append(rows.times(table))
    kernel.use(before)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize(("count", "others"), [(1, 1), (7, 3)])
@pytest.mark.parametrize("half", [False, True])
def test_stored_vectors(variant: str, size: int, count: int, others: int, *, half: bool) -> None:
    rng = np.random.default_rng(size)
    store = VectorStore(count, size, half=half)
    given = rng.normal(size=(count, size)).astype(np.float32).astype(np.float64)
    given *= 4.0 ** (10 * np.arange(count) - 30)[:, None]
    rows, vectors = given.copy(), rng.normal(size=(others, size))
    for k, row in enumerate(rows):
        largest = np.abs(row).max()
        for part in (slice(0, size // 3), slice(size // 3, size)):
            store.put(k, row[part], largest, part)
    if half:
        near = np.abs(rows - given) <= 2.0**-11 * np.abs(given)
        assert (near | (np.abs(given) < 2.0**-28 * np.abs(given).max(axis=1)[:, None])).all()
    else:
        assert (rows == given).all()
    rows *= 2.0 ** -(20.0 * np.arange(count) - 60)[:, None]  # of one size, for the tolerances
    units = 4.0 ** (10 * np.arange(count) - 30)
    dots = store.dots(vectors) / units[:, None]
    np.testing.assert_allclose(dots, rows @ vectors.T, rtol=1e-12, atol=1e-11)
    out, coefficients = vectors[0].copy(), rng.normal(size=count)
    store.add_combination(coefficients / units, out)
    np.testing.assert_allclose(out, vectors[0] + coefficients @ rows, rtol=1e-12, atol=1e-12)

"""Keys of attributes, made and looked up by the kernel, against plain Python."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.arrays import Ints, Longs
from fstcrf.errors import KernelError, ShapeError
from fstcrf.kernel.lookup import Firing, KeyFamily, KeyTerm, RowFinder, compacted
from fstcrf.kernel.native import SLOT

FIRINGS: tuple[Firing, ...] = ("every", "first", "last", "inner")


@dataclass(frozen=True)
class Case:
    """Families, codes and sentences drawn at random."""

    lengths: list[int]
    codes: Ints
    reach: int
    terms: list[list[KeyTerm]]
    firings: list[Firing]
    known: list[dict[int, int]]
    skipped: int

    @property
    def offsets(self) -> Longs:
        return self.skipped + np.cumsum([0, *self.lengths], dtype=np.int64)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    lengths = [int(n) for n in rng.integers(1, 8, size=draw(st.integers(0, 5)))]
    reach, skipped = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    width = draw(st.sampled_from([3, 20]))
    codes = rng.integers(-1, 1 << width, size=(2, skipped + sum(lengths) + 1), dtype=np.int32)
    codes[codes == 0] = rng.integers(0, 5)  # keys that repeat
    terms: list[list[KeyTerm]] = []
    firings: list[Firing] = []
    known: list[dict[int, int]] = []
    for _ in range(draw(st.sampled_from([1, 3, 20]))):
        offsets = rng.integers(-3, 4, size=rng.integers(0, 4))
        family = [
            KeyTerm(int(rng.integers(2)), int(o), bool(abs(o) <= reach and rng.integers(2)), width)
            for o in offsets
        ]
        terms.append(family)
        firings.append(draw(st.sampled_from(FIRINGS)))
        known.append({})
    case = Case(lengths, codes, reach, terms, firings, known, skipped)
    for f, family in enumerate(terms):
        for n, (first, end) in enumerate(zip(case.offsets, case.offsets[1:], strict=False)):
            for t in range(int(first), int(end)):
                key = key_at(case, family, n, t)
                if key is not None and rng.integers(2):
                    known[f].setdefault(key, len(known[f]))
    return case


def key_at(case: Case, family: list[KeyTerm], sentence: int, token: int) -> int | None:
    first, end = int(case.offsets[sentence]), int(case.offsets[sentence + 1])
    key = 0
    for term in family:
        place = token + term.offset
        if first <= place < end:
            code = int(case.codes[term.column, place])
        elif term.pads:
            code = first - place - 1 if place < first else case.reach + place - end
        else:
            code = -1
        if code < 0:
            return None
        key = key << term.width | code
    return key


def row_at(case: Case, f: int, sentence: int, token: int) -> int:
    first, end = int(case.offsets[sentence]), int(case.offsets[sentence + 1])
    fires = {
        "every": True,
        "first": token == first,
        "last": token == end - 1,
        "inner": token > first,
    }
    key = key_at(case, case.terms[f], sentence, token)
    return case.known[f].get(key, -1) if fires[case.firings[f]] and key is not None else -1


def finder(case: Case) -> RowFinder:
    families = [
        KeyFamily.of(
            terms,
            np.array(list(known), dtype=np.uint64),
            np.array(list(known.values()), dtype=np.int32),
            firing=firing,
        )
        for terms, known, firing in zip(case.terms, case.known, case.firings, strict=True)
    ]
    return RowFinder(families, reach=case.reach)


@pytest.mark.thorough
@pytest.mark.usefixtures("variant")
@given(cases())
def test_rows_as_plain_python_finds_them(case: Case) -> None:
    expected = [
        [row_at(case, f, n, t) for f in range(len(case.terms))]
        for n in range(len(case.lengths))
        for t in range(int(case.offsets[n]), int(case.offsets[n + 1]))
    ]
    found = finder(case).rows(case.codes, case.offsets)
    assert found.tolist() == expected
    indptr, index = compacted(found)
    assert index.tolist() == [row for rows in expected for row in rows if row >= 0]
    assert np.diff(indptr).tolist() == [sum(row >= 0 for row in rows) for rows in expected]


def test_runs_join_without_a_seam(variant: str) -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 16, size=(1, 1000), dtype=np.int32)
    terms = [KeyTerm(0, offset, pads=True, width=4) for offset in (-2, 0, 3)]
    keys = np.arange(1 << 12, dtype=np.uint64)
    family = KeyFamily.of(terms, keys, keys.astype(np.int32))
    found = RowFinder([family], reach=3).rows(codes, np.array([0, 600, 1000]))[:, 0]
    for first, end in ((0, 600), (600, 1000)):
        padded = np.concatenate([[1, 0], codes[0, first:end], [3, 4, 5]])
        n = end - first
        expected = (padded[:n] << 8) + (padded[2 : n + 2] << 4) + padded[5 : n + 5]
        assert found[first:end].tolist() == expected.tolist()


def test_many_keys() -> None:
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, 1 << 30, size=50_000, dtype=np.int64))
    rows = rng.permutation(len(keys)).astype(np.int32)
    family = KeyFamily.of([KeyTerm(0, 0, False, 31)], keys.astype(np.uint64), rows)
    assert family.slots is not None
    codes = np.concatenate([keys, keys + 1]).astype(np.int32)[None]
    found = RowFinder([family], reach=0).rows(codes, np.array([0, codes.shape[1]]))
    assert (found[: len(keys), 0] == rows).all()
    expected = {int(k): int(r) for k, r in zip(keys, rows, strict=True)}
    assert found[len(keys) :, 0].tolist() == [expected.get(int(k) + 1, -1) for k in keys]


def test_families_that_are_none() -> None:
    codes, offsets = np.zeros((1, 3), dtype=np.int32), np.array([0, 3])
    keys, rows = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.int32)

    def looked_up(term: KeyTerm, bounds: list[int] | None = None, *, reach: int = 1) -> None:
        family = KeyFamily.of([term], keys, rows)
        RowFinder([family], reach=reach).rows(
            codes, offsets if bounds is None else np.array(bounds)
        )

    good = KeyTerm(0, 1, pads=True, width=4)
    looked_up(good)
    for bad in (good._replace(column=1), good._replace(column=-1), good._replace(offset=2)):
        with pytest.raises(KernelError, match="looking attributes up"):
            looked_up(bad)
    for bounds in ([0, 4], [2, 1], [-1, 2]):
        with pytest.raises((KernelError, ValueError)):
            looked_up(good, bounds)
    with pytest.raises(ShapeError, match="array or a hash table"):
        RowFinder([KeyFamily("every", (good,), None, None)], reach=1)
    odd = RowFinder([KeyFamily("every", (good,), None, np.empty(3, dtype=SLOT))], reach=1)
    with pytest.raises(KernelError, match="looking attributes up"):
        odd.rows(codes, offsets)

"""Keys of attributes, made and looked up by the kernel, against plain Python."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.arrays import Ints, Longs
from fstcrf.errors import KernelError, ShapeError
from fstcrf.ext.segments.kernel import PhraseFinder, PhraseTrie
from fstcrf.kernel.native import SLOT
from fstcrf.kernel.rows import (
    Firing,
    KeyFamily,
    KeyTerm,
    RowFinder,
    TokenPlaces,
    check_keys,
    is_permutation,
)

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


def finder(case: Case, *, laid_out: bool = False) -> RowFinder:
    families = [
        KeyFamily.of(
            terms,
            np.array(sorted(known), dtype=np.uint64),
            np.array([known[key] for key in sorted(known)], dtype=np.int32),
            firing=firing,
        )
        for terms, known, firing in zip(case.terms, case.known, case.firings, strict=True)
    ]
    if laid_out:
        families = [family.laid_out() for family in families]
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
    assert finder(case, laid_out=True).rows(case.codes, case.offsets).tolist() == expected
    indptr, index = finder(case).entries(case.codes, case.offsets)
    assert index.tolist() == [row for rows in expected for row in rows if row >= 0]
    assert np.diff(indptr).tolist() == [sum(row >= 0 for row in rows) for rows in expected]


@pytest.mark.thorough
@pytest.mark.usefixtures("variant")
@given(case=cases(), seed=st.integers(0, 1000))
def test_rows_of_listed_tokens(case: Case, seed: int) -> None:
    """Those of the same tokens once their own codes, and no others, are changed."""
    rng = np.random.default_rng(seed)
    sentence = np.repeat(np.arange(len(case.lengths)), case.lengths)
    if not len(sentence):
        return
    listed = rng.integers(len(sentence), size=int(rng.choice([1, 5, 300])))
    own = rng.integers(-1, 8, size=(2, len(listed)), dtype=np.int32)
    token = case.skipped + listed
    before = token - case.offsets[sentence[listed]]
    after = case.offsets[sentence[listed] + 1] - 1 - token
    places = TokenPlaces(token, before.astype(np.int32), after.astype(np.int32))
    found = finder(case).rows_at(case.codes, places, own)
    for row, t, mine in zip(found, token.tolist(), own.T, strict=True):
        codes = case.codes.copy()
        codes[:, t] = mine
        assert row.tolist() == finder(case).rows(codes, case.offsets)[t - case.skipped].tolist()


def test_listed_tokens_that_are_none() -> None:
    term = KeyTerm(0, 1, pads=True, width=4)
    family = KeyFamily.of([term], np.zeros(1, np.uint64), np.zeros(1, np.int32))
    ready = RowFinder([family], reach=1)
    codes, own = np.zeros((1, 3), dtype=np.int32), np.zeros((1, 1), dtype=np.int32)

    def places(*numbers: int) -> TokenPlaces:
        token, before, after = ([n] for n in numbers)
        return TokenPlaces(np.array(token), np.array(before, np.int32), np.array(after, np.int32))

    assert ready.rows_at(codes, places(1, 1, 1), own).shape == (1, 1)
    for bad in ((3, 0, 0), (-1, 0, 0), (1, 2, 1), (1, -1, 1), (1, 1, 2), (1, 1, -1)):
        with pytest.raises(KernelError, match="looking attributes up"):
            ready.rows_at(codes, places(*bad), own)
    with pytest.raises(ShapeError, match="own"):
        ready.rows_at(codes, places(1, 1, 1), own[:, :0])


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
    assert family.laid_out().slots is not None
    codes = np.concatenate([keys, keys + 1]).astype(np.int32)[None]
    ready = RowFinder([family], reach=0)
    few = ready.rows(codes, np.array([0, 1000]))
    found = ready.rows(codes, np.array([0, codes.shape[1]]))  # now keys are laid out
    assert (few == found[:1000]).all()
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
    with pytest.raises(ShapeError, match="rows"):
        RowFinder([KeyFamily("every", (good,), keys, rows[:0])], reach=1)
    slots = np.empty(3, dtype=SLOT)
    odd = RowFinder([KeyFamily("every", (good,), keys, rows, slots=slots)], reach=1)
    with pytest.raises(KernelError, match="looking attributes up"):
        odd.rows(codes, offsets)


@given(st.lists(st.integers(0, 2**12 - 1), max_size=6), st.lists(st.integers(0, 5), max_size=6))
def test_keys_and_rows_of_a_file_are_checked(keys: list[int], rows: list[int]) -> None:
    """Keys of three numbers below 16, 1 and 7, of 4, 0 and 8 bits."""
    given_keys = np.array(keys, dtype=np.uint64)
    rising = bool(np.all(given_keys[1:] > given_keys[:-1]))
    fits = rising and all(key & 255 < 7 for key in keys)
    with contextlib.nullcontext() if rising else pytest.raises(KernelError, match="keys"):
        check_keys(given_keys)
    with contextlib.nullcontext() if fits else pytest.raises(KernelError, match="keys"):
        check_keys(given_keys, (4, 0, 8), (16, 1, 7))
    assert is_permutation(np.array(rows, dtype=np.int32)) == (
        sorted(rows) == list(range(len(rows)))
    )


def test_numbers_of_keys_outside_what_they_may_be() -> None:
    key = np.array([2**12], dtype=np.uint64)  # a bit more than its numbers have
    check_keys(key, (4, 9), (16, 1))
    for widths, limits in (((4, 8), (16, 7)), ((4, 0), (16, 0)), ((4, 64), (16, 1)), ((-1,), (1,))):
        with pytest.raises(KernelError, match="keys"):
            check_keys(key, widths, limits)
    assert not is_permutation(np.array([0, -1], dtype=np.int32))
    assert not is_permutation(np.array([0, 2], dtype=np.int32))


def test_a_phrase_of_a_label_that_is_none_is_refused() -> None:
    one, root = np.ones(1, dtype=np.int32), np.zeros(1, dtype=np.int64)

    def finder(label: int) -> PhraseFinder:
        row, given = np.array([0, 0, 1]), np.full(1, label, dtype=np.int32)
        return PhraseFinder([PhraseTrie(one, root, root, row, given, one)], depth=1, width=8)

    sentence, token = np.array([0, 1]), np.zeros((1, 1), dtype=np.int32)
    assert finder(7).extras(sentence, token).cell.tolist() == [7]
    for wrong in (-1, 8, 2**31 - 1):
        with pytest.raises(KernelError, match="weights of phrases"):
            finder(wrong).extras(sentence, token)

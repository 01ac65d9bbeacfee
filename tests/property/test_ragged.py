"""Ragged batches against lists of lists."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.ragged import Ragged

LISTS = st.lists(st.lists(st.integers(0, 99), max_size=6), max_size=12)


def flat(lists: list[list[int]]) -> np.ndarray:
    return np.asarray([x for one in lists for x in one], dtype=np.int64)


def lists_of(ragged: Ragged, entries: np.ndarray) -> list[list[int]]:
    return [row.tolist() for row in ragged.split(entries)]


@given(LISTS)
def test_one_number_for_each_entry(lists: list[list[int]]) -> None:
    ragged = Ragged.from_lengths(map(len, lists))
    assert ragged.offsets.dtype == np.int64
    assert (len(ragged), ragged.total) == (len(lists), sum(map(len, lists)))
    assert ragged.lengths.tolist() == [len(one) for one in lists]
    assert lists_of(ragged, flat(lists)) == lists
    assert ragged.rows().tolist() == [b for b, one in enumerate(lists) for _ in one]
    assert ragged.ranges().tolist() == [k for one in lists for k in range(len(one))]
    starts = 7 * np.arange(len(lists))
    expected = [7 * b + k for b, one in enumerate(lists) for k in range(len(one))]
    assert ragged.ranges(starts).tolist() == expected
    table = np.stack([starts, -starts], axis=1)
    assert ragged.repeat(table).tolist() == [[7 * b, -7 * b] for b in ragged.rows().tolist()]
    shuffled = np.random.default_rng(0).permutation(ragged.rows())
    assert Ragged.from_rows(shuffled, len(lists)).offsets.tolist() == ragged.offsets.tolist()


@given(LISTS, st.data())
def test_some_rows_and_some_entries(lists: list[list[int]], data: st.DataObject) -> None:
    ragged, entries = Ragged.from_lengths(np.asarray([*map(len, lists)], int)), flat(lists)
    if lists:
        numbers = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=9))
        rows = np.asarray(numbers, dtype=np.int64)
        chosen = lists_of(ragged.select(rows), entries[ragged.entries(rows)])
        assert chosen == [lists[b] for b in numbers]
    full = ragged.lengths > 0
    chosen = lists_of(ragged.select(full), entries[ragged.entries(full)])
    assert chosen == [one for one in lists if one]
    kept = entries % 2 == 1
    assert lists_of(ragged.filtered(kept), entries[kept]) == [
        [x for x in one if x % 2] for one in lists
    ]
    first, end = sorted(data.draw(st.tuples(*[st.integers(0, len(lists))] * 2)))
    part, behind = ragged.part(first, end), entries[ragged.offsets[first] :]
    assert part.offsets[0] == 0
    assert lists_of(part, behind) == lists[first:end]
    # Offsets that begin elsewhere say the same of their rows.
    later = Ragged(ragged.offsets[first : end + 1])
    assert (later.total, later.lengths.tolist()) == (part.total, part.lengths.tolist())
    assert later.ranges().tolist() == part.ranges().tolist()


@given(LISTS, st.integers(0, 9))
def test_runs_of_rows(lists: list[list[int]], most: int) -> None:
    ragged = Ragged.from_lengths(map(len, lists))
    runs = list(ragged.runs(most))
    assert [b for first, end in runs for b in range(first, end)] == list(range(len(lists)))
    for first, end in runs:
        size = sum(map(len, lists[first:end]))
        assert size <= most or end == first + 1
        assert end == len(lists) or size + len(lists[end]) > most
    bounds = ragged.cut(most + 1)
    assert (bounds[0], bounds[-1]) == (0, len(lists))
    assert all(a < b for a, b in itertools.pairwise(bounds))
    assert len(bounds) <= most + 2
    longest = max(map(len, lists), default=0)
    share = ragged.total / (most + 1)
    for first, end in itertools.pairwise(bounds):
        assert ragged.offsets[end] - ragged.offsets[first] <= share + longest + 1

"""Ragged batches against lists of lists."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.arrays import Ragged

LISTS = st.lists(st.lists(st.integers(0, 99), max_size=6), max_size=12)


def rows_of(ragged: Ragged, entries: np.ndarray) -> list[list[int]]:
    return [row.tolist() for row in ragged.split(entries)]


@given(LISTS, st.data())
def test_lists_of_lists(lists: list[list[int]], data: st.DataObject) -> None:
    ragged, entries = (
        Ragged.from_lengths(map(len, lists)),
        np.asarray([x for one in lists for x in one], np.int64),
    )
    assert (len(ragged), ragged.total) == (len(lists), len(entries))
    assert ragged.offsets.dtype == np.int64
    assert ragged.lengths.tolist() == [len(one) for one in lists]
    assert rows_of(ragged, entries) == lists
    assert ragged.rows().tolist() == [b for b, one in enumerate(lists) for _ in one]
    assert ragged.ranges().tolist() == [k for one in lists for k in range(len(one))]
    starts = 7 * np.arange(len(lists))
    assert ragged.ranges(starts).tolist() == [
        7 * b + k for b, r in enumerate(lists) for k in range(len(r))
    ]
    table = np.stack([starts, -starts], axis=1)
    assert ragged.repeat(table).tolist() == [[7 * b, -7 * b] for b in ragged.rows().tolist()]
    shuffled = np.random.default_rng(0).permutation(ragged.rows())
    assert Ragged.from_rows(shuffled, len(lists)).offsets.tolist() == ragged.offsets.tolist()
    numbers = data.draw(st.lists(st.sampled_from(range(len(lists))))) if lists else []
    for rows in (np.asarray(numbers, np.int64), ragged.lengths > 0):
        expected = [lists[b] for b in np.arange(len(lists))[rows]]
        assert rows_of(ragged.select(rows), entries[ragged.entries(rows)]) == expected
    odd = entries % 2 == 1
    assert rows_of(ragged.filtered(odd), entries[odd]) == [[x for x in r if x % 2] for r in lists]
    first, end = sorted(data.draw(st.tuples(*[st.integers(0, len(lists))] * 2)))
    part, later = ragged.part(first, end), Ragged(ragged.offsets[first : end + 1])
    assert rows_of(part, entries[ragged.offsets[first] :]) == lists[first:end]
    assert (later.total, later.ranges().tolist()) == (part.total, part.ranges().tolist())


@given(LISTS, st.integers(0, 9))
def test_runs_of_rows(lists: list[list[int]], most: int) -> None:
    ragged = Ragged.from_lengths(np.asarray([*map(len, lists)], np.int64))
    runs = list(ragged.runs(most))
    assert [b for first, end in runs for b in range(first, end)] == list(range(len(lists)))
    for first, end in runs:
        size = sum(map(len, lists[first:end]))
        assert size <= most or end == first + 1
        assert end == len(lists) or size + len(lists[end]) > most
    bounds = ragged.cut(most + 1)
    assert (bounds[0], bounds[-1], len(bounds) <= most + 2) == (0, len(lists), True)
    largest = ragged.total / (most + 1) + max(map(len, lists), default=0) + 1
    assert all(a < b and ragged.part(a, b).total <= largest for a, b in pairwise(bounds))

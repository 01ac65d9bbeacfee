"""Machines of word lattices: arcs of words between arcs of neighbours.

Words end in states (place, right context), words begin in states (place, left context): an arc from
one to the other is a pair of neighbours, one back is a word. The score of a pair is computed once
for all words of a context, instead of once for each two words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Array, Bools, Ints, Longs, Ragged, distinct
from fstcrf.kernel import acyclic


@dataclass(frozen=True, eq=False)
class Shape:
    """A machine without scores: every path ends in its last state.

    row : int64 [S + 1]
    target : int32 [A]
    word : int32 [A]
        Of an arc that is a word, which; −1: no word.
    pair : int64 [A]
        Of an arc between neighbours: right context · 2³² + left context; otherwise −1.
    """

    row: Longs
    target: Ints
    word: Ints
    pair: Longs

    @property
    def states(self) -> int:
        """States."""
        return len(self.row) - 1

    def source(self) -> Longs:
        """Return the state that each arc leaves."""
        return Ragged(self.row).rows()

    def kept(self, arcs: Bools) -> Shape | None:
        """Return the machine of some arcs on complete paths; `None` if there is no path."""
        source = self.source()[arcs]
        target, states = self.target[arcs], self.states
        ends = np.zeros(states, dtype=bool)
        ends[-1] = True
        on_path = acyclic.connected(Ragged.from_rows(source, states).offsets, target, 0, ends)
        if not on_path[0]:
            return None
        number = (np.cumsum(on_path) - 1).astype(np.int32)
        there = on_path[source] & on_path[target]
        rows = Ragged.from_rows(number[source[there]].astype(np.int64), int(on_path.sum())).offsets
        word, pair = self.word[arcs][there], self.pair[arcs][there]
        return Shape(rows, number[target[there]], word, pair)


def word_shape(
    first: Array, end: Array, left: Array, right: Array, last: int, ends: tuple[int, int]
) -> Shape:
    """Return the machine of words; arcs that are on no path may be among its arcs.

    Parameters
    ----------
    first, end : int [n]
        Where the word before ends, and where each itself does.
    left, right : int [n]
        Contexts, below 2³².
    last : int
        Where the text's last word ends; −1: there is no way.
    ends : (int, int)
        Left and right context of both ends of the text.
    """
    closing = [] if last < 0 else [last << 33 | 1 << 32 | ends[0]]  # no word: the text ends
    entering = first.astype(np.int64) << 33 | 1 << 32 | left.astype(np.int64)
    entering = np.append(entering, np.asarray(closing, dtype=np.int64))
    leaving = np.append(end.astype(np.int64) << 33 | right.astype(np.int64), ends[1])
    begins, stops = distinct(entering), distinct(leaving)
    # the end of a word precedes the beginning of a word
    codes = np.sort(np.concatenate([begins, stops]))
    final = len(codes)
    # arcs between neighbours: at each place from every right context to every left one
    place = stops >> 33
    low = np.searchsorted(begins, place << 33)
    count = np.searchsorted(begins, (place + 1) << 33) - low
    beside = Ragged.from_lengths(count)
    before, behind = beside.rows(), beside.ranges(low)
    context = (1 << 32) - 1
    pair = (stops[before] & context) << 32 | (begins[behind] & context)
    words = len(first)
    source = np.concatenate(
        [np.searchsorted(codes, entering), np.searchsorted(codes, stops[before])]
    )
    target = np.concatenate(
        [
            np.searchsorted(codes, leaving[:words]),
            np.full(len(closing), final),
            np.searchsorted(codes, begins[behind]),
        ]
    )
    word = np.full(len(source), -1, dtype=np.int32)
    word[:words] = np.arange(words)
    pairs = np.concatenate([np.full(words + len(closing), -1, dtype=np.int64), pair])
    order = np.argsort(source, kind="stable")
    return Shape(
        Ragged.from_rows(source[order], final + 1).offsets,
        target[order].astype(np.int32),
        word[order],
        pairs[order],
    )


def chained(shapes: Sequence[Shape]) -> Shape:
    """Return one machine that runs through several machines in sequence.

    The last state of each is the first of the next. Its log Z is the sum of their values, and
    expectations do not change.
    """
    states = Ragged.from_lengths(one.states - 1 for one in shapes).offsets
    sizes = Ragged.from_lengths(len(one.target) for one in shapes).offsets
    rows = [one.row[:-2] + first for one, first in zip(shapes, sizes, strict=False)]
    return Shape(
        np.concatenate([*rows, sizes[[-1, -1]]]),
        np.concatenate([one.target + s for one, s in zip(shapes, states, strict=False)]).astype(
            np.int32
        ),
        np.concatenate([one.word for one in shapes]),
        np.concatenate([one.pair for one in shapes]),
    )

"""A chain and a transducer as one chain, compiled once: the fold of their composition.

States / Start / Final / Arcs
    A state of the chain and the state of the transducer behind its label; begins and ends where
    both do; an arc of the chain and all that the transducer may do along with it: any number of
    moves without input, then one that reads the label.

Several runs of the transducer between the same two states are one arc. For best paths it has the
score of the best of them, and is told by it; for sums, the log of their sum. So a sentence is one
recursion of the kernel over as many tokens, and nothing is composed for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, distinct
from fstcrf.kernel.acyclic import connected
from fstcrf.kernel.transduced import Moves
from fstcrf.lazy import made_once
from fstcrf.machines.moves import Compiled
from fstcrf.machines.plans import Chain
from fstcrf.machines.topology import rest_of
from fstcrf.ragged import Ragged

LEAST_ARCS, MOST_ARCS = 20_000, 1_000_000
"""Arcs at a token that a fold may have where arcs are few, and where they are many."""

_LOOKED = 20  # pairs that are looked at for an arc there may be
_WORTH = 8  # an arc of a fold is so much faster than one that is written out
_MOST_CELLS = 10_000_000
_DENSE_ADVANTAGE = 5  # a dense step handles so many arcs in the time of a sparse one


class _Runs(NamedTuple):
    """Runs of moves without input, those of one length behind shorter ones.

    What leads between two states in so many moves is one entry: the best run, and the sum of all.
    """

    root: Longs  # [R] state where it begins
    at: Longs  # [R] state where it ends
    best: Floats  # [R]
    total: Floats  # [R]
    before: Longs  # [R] the entry without the last move of the best one; −1: there is no move
    move: Longs  # [R] the last move of the best one


class _Ways(NamedTuple):
    """What the transducer may do from a state up to the next label, or up to the end, by keys."""

    key: Longs  # [W] rising
    best: Floats  # [W]
    total: Floats  # [W]
    run: Longs  # [W] the moves without input of the best one
    move: Longs  # [W] the last move of it


def _grouped(key: Longs, best: Floats, total: Floats) -> tuple[Longs, Longs, Floats, Floats]:
    """Return distinct keys, the first of the best of each, its score, and the log of the sum."""
    order = np.lexsort((-best, key))
    sorted_ = key[order]
    starts = np.flatnonzero(np.append(True, sorted_[1:] != sorted_[:-1])[: len(key)])
    first = order[starts]
    most = total[first]
    if len(starts) < len(key):
        most = np.logaddexp.reduceat(total[order], starts)
    return sorted_[starts], first, best[first], most


class _Reader:
    """A transducer as it reads labels: its runs and ways; None of them where they are too many."""

    def __init__(self, moves: Moves, most: int) -> None:
        self.moves, self._most = moves, most
        labels, states = self.moves.labels, self.moves.states
        bounds = self.moves.index.astype(np.int64)[: states * (labels + 1)].reshape(states, -1)
        ends = np.append(bounds[1:, 0], len(self.moves.target))
        self._alone = bounds[:, 0], (bounds[:, 1] if labels else ends) - bounds[:, 0]
        self._read = bounds[:, 0] + self._alone[1], ends - bounds[:, 0] - self._alone[1]

    def runs(self) -> _Runs | None:
        """Return the runs of moves without input from all states where labels lead."""
        moves, states = self.moves, self.moves.states
        entered = moves.target[moves.reads >= 0].astype(np.int64)
        root = distinct(np.append(entered, moves.start))
        none = np.full(len(root), -1)
        level = _Runs(root, root, np.zeros(len(root)), np.zeros(len(root)), none, none)
        found, count = [level], len(root)
        while True:
            first, size = (part[level.at] for part in self._alone)
            ways = Ragged.from_lengths(size)
            if not ways.total:
                return _Runs(*map(np.concatenate, zip(*found, strict=True)))
            if count + ways.total > self._most:
                return None
            move, own = ways.ranges(first), ways.rows()
            gain = moves.gain[move]
            key, one, best, total = _grouped(
                level.root[own] * states + moves.target[move],
                level.best[own] + gain,
                level.total[own] + gain,
            )
            before = own[one] + count - len(level.root)
            root, at = np.divmod(key, states)
            level = _Runs(root, at, best, total, before, move[one])
            found.append(level)
            count += len(key)

    def reading(self, runs: _Runs) -> _Ways | None:
        """Return the ways to read a label; the key is (state, label, next state)."""
        moves = self.moves
        ways = Ragged.from_lengths(self._read[1][runs.at])
        if ways.total > self._most:
            return None
        move, own = ways.ranges(self._read[0][runs.at]), ways.rows()
        place = runs.root[own] * moves.labels + moves.reads[move]
        return _ways(runs, own, place * moves.states + moves.target[move], move, moves.gain[move])

    def ending(self, runs: _Runs) -> _Ways:
        """Return the ways to end; the key is the state."""
        own = np.flatnonzero(self.moves.ends[runs.at])
        move = len(self.moves.target) + runs.at[own]
        return _ways(runs, own, runs.root[own], move, self.moves.gain[move])


def _ways(runs: _Runs, own: Longs, key: Longs, move: Longs, gain: Floats) -> _Ways:
    key, one, best, total = _grouped(key, runs.best[own] + gain, runs.total[own] + gain)
    return _Ways(key, best, total, own[one], move[one])


class _Pairs(NamedTuple):
    """Pairs of a state of the chain and one of the transducer, and what leads to them."""

    code: Longs  # [P] state of the chain · states of the transducer + its state; rising
    source: Longs  # [E] codes
    target: Longs  # [E]
    arc: Longs  # [E] of the chain, as the kernel numbers them
    way: Longs  # [E]
    begins: Longs  # [B] codes
    begun: Longs  # [B] the way of each beginning


def _pairs(shape: Shape, moves: Moves, ways: _Ways, most: int) -> _Pairs | None:
    """Return the pairs that are met; None: too many."""
    labels, states = shape.n_labels, moves.states
    place, after = np.divmod(ways.key, states)
    by_place = Ragged.from_rows(place, states * labels)
    arcs = Ragged.from_rows(shape.source, len(shape.label))

    def read(at: Longs, state: Longs) -> tuple[Longs, Longs]:
        """Return the ways from states of the transducer into states of the chain, and of which."""
        cell = at * labels + shape.label[state]
        there = by_place.select(cell)
        return there.ranges(by_place.offsets[cell]), there.rows()

    first = np.flatnonzero(shape.initial)
    begun, own = read(np.full(len(first), moves.start), first)
    begins = first[own] * states + after[begun]
    codes = new = distinct(begins)
    parts: list[tuple[Longs, ...]] = [(np.zeros(0, dtype=np.int64),) * 4]
    looked = count = 0
    while len(new):
        state, at = np.divmod(new, states)
        leaving = arcs.select(state)
        looked += leaving.total
        if looked > _LOOKED * most:
            return None
        arc, before = leaving.ranges(arcs.offsets[state]), leaving.rows()
        way, own = read(at[before], shape.target[arc])
        count += len(way)
        if count > most:
            return None
        arc = arc[own]
        goes = shape.target[arc] * states + after[way]
        parts.append((new[before[own]], goes, shape.number[arc], way))
        reached = distinct(goes)
        new = np.setdiff1d(reached, codes, assume_unique=True)
        codes = distinct(codes, new)
    source, target, arc, way = map(np.concatenate, zip(*parts, strict=True))
    return _Pairs(codes, source, target, arc, way, begins, begun)


@dataclass(frozen=True, eq=False)
class Shape:
    """What of a chain decides which paths there are.

    Parameters
    ----------
    label : int64 [S]
        Of each state.
    n_labels : int
    source, target, number : int64 [A]
        Ends of the arcs that are not forbidden, sorted by source, and their numbers in the kernel.
    initial, final : bool [S]
    """

    label: Longs
    n_labels: int
    source: Longs
    target: Longs
    number: Longs
    initial: Bools
    final: Bools


@dataclass(frozen=True, eq=False)
class Fold:
    """The chain of pairs, without the scores of the chain.

    Its *elements* are what a path is made of: an arc for each two tokens, but one of those that
    begin it for the first token, and one that ends it behind the last: E arcs, then B beginnings,
    P ends, and the end of what has no tokens.

    Parameters
    ----------
    state : int64 [P]
        The state of the chain in each pair.
    source, target, arc : int64 [E]
        Ends of the arcs, sorted by source, then target, and the chain's arc that each holds.
    begins : int64 [B]
        Pairs.
    begin_of : int64 [P]
        The beginning of each pair; −1: none.
    best, total : float64 [E + B + P + 1]
        What the transducer adds to each element: the best run, and the sum of runs.
    writes : Ragged
        What each element writes, by the best run.
    written : int32 [writes.total]
    late : bool [writes.total]
        It is written behind the label that the element reads, not before it.
    """

    state: Longs
    source: Longs
    target: Longs
    arc: Longs
    begins: Longs
    begin_of: Longs
    best: Floats
    total: Floats
    writes: Ragged
    written: Ints
    late: Bools

    @made_once
    def sizes(self) -> Longs:
        """How many labels each element writes."""
        return self.writes.lengths

    @made_once
    def code(self) -> Longs:
        """Source · pairs + target of each arc, rising."""
        return self.source * len(self.state) + self.target

    @made_once
    def keys(self) -> Longs:
        """Of each element: code of an arc, −1 − pair of a beginning, P² + pair of an end."""
        pairs = len(self.state)
        return np.concatenate([self.code, ~self.begins, pairs**2 + np.arange(pairs + 1)])

    def elements(self, path: NDArray[np.integer]) -> Ints:
        """Return the elements of a path of pairs, int32 [T + 1]."""
        pairs, arcs = len(self.state), len(self.source)
        found = np.empty(len(path) + 1, dtype=np.int32)
        if not len(path):
            found[0] = len(self.best) - 1
            return found
        found[0] = arcs + self.begin_of[path[0]]
        found[1:-1] = self.code.searchsorted(path[:-1].astype(np.int64) * pairs + path[1:])
        found[-1] = arcs + len(self.begins) + path[-1]
        return found

    def machine(self, chain: Chain, arc: Floats, gain: Floats, empty: float) -> kernel.JointChain:
        """Return it for the kernel, with the scores of a chain and those of elements."""
        pairs, arcs, begins = len(self.state), len(self.source), len(self.begins)
        first, last = np.full(pairs, -np.inf), chain.final[self.state]
        first[self.begins] = chain.initial[self.state[self.begins]] + gain[arcs : arcs + begins]
        last = last + gain[arcs + begins : -1]
        score, source, target = arc[self.arc] + gain[:arcs], None, None
        rest = None
        if arcs and pairs**2 > _DENSE_ADVANTAGE * arcs:
            source, target = self.source.astype(np.int32), self.target.astype(np.int32)
        else:
            full = np.full(pairs**2, -np.inf)
            full[self.code] = score
            score = full
            rest = rest_of(score, pairs)
        axis = kernel.Axis(
            pairs,
            source,
            target,
            score[None],
            rest=None if rest is None else rest.score,
            others=None if rest is None else rest.others,
        )
        factor = kernel.Factor(1, pairs)
        ends = first[None], last[None]
        return kernel.JointChain((axis,), (factor,), None, *ends, empty=empty + gain[-1])


def folded(shape: Shape, made: Compiled) -> Fold | None:
    """Return the fold of a chain and a transducer; None: too large, or there is no path."""
    moves = made.moves
    if moves.states * moves.labels > _MOST_CELLS:
        return None
    written = len(shape.source) * moves.states + len(moves.target)  # at a token, at most
    most = min(MOST_ARCS, max(LEAST_ARCS, _WORTH * written))
    reader = _Reader(moves, most)
    runs = reader.runs()
    ways = None if runs is None else reader.reading(runs)
    found = None if ways is None else _pairs(shape, moves, ways, most)
    if runs is None or ways is None or found is None:
        return None
    ends = reader.ending(runs)
    end = np.full(moves.states, -1)
    end[ends.key] = np.arange(len(ends.key))
    state, at = np.divmod(found.code, moves.states)
    kept = _useful(found, shape.final[state] & (end[at] >= 0))
    if not kept.any():
        return None
    return _fold_of(found, kept, runs, ways, ends, end, made)


def _useful(found: _Pairs, ends: Bools) -> Bools:
    """Return which pairs lie on a path; behind them stands one from which all begin."""
    pairs = len(found.code)
    source, target = (found.code.searchsorted(x) for x in (found.source, found.target))
    begins = found.code.searchsorted(found.begins)
    source = np.append(source, np.full(len(begins), pairs))
    order = np.argsort(source, kind="stable")
    row = Ragged.from_rows(source[order], pairs + 1).offsets
    goes = np.append(target, begins)[order].astype(np.int32)
    return connected(row, goes, pairs, np.append(ends, False))[:-1]


def _fold_of(
    found: _Pairs, kept: Bools, runs: _Runs, ways: _Ways, ends: _Ways, end: Longs, made: Compiled
) -> Fold:
    moves, code = made.moves, found.code[kept]
    state, at = np.divmod(code, moves.states)
    number = np.cumsum(kept) - 1
    source, target = (found.code.searchsorted(x) for x in (found.source, found.target))
    begins = found.code.searchsorted(found.begins)
    arcs = np.flatnonzero(kept[source] & kept[target])
    arcs = arcs[np.lexsort((target[arcs], source[arcs]))]
    begun = np.flatnonzero(kept[begins])
    begins = number[begins[begun]]
    begin_of = np.full(len(code), -1)
    begin_of[begins] = np.arange(len(begins))
    reading = np.append(found.way[arcs], found.begun[begun])
    ending = np.append(end[at], end[moves.start])  # −1: there is none

    def scores(name: str) -> Floats:
        last = np.append(getattr(ends, name), -np.inf)[ending]
        return np.append(getattr(ways, name)[reading], last)

    run = np.append(ways.run[reading], np.append(ends.run, -1)[ending])
    none = len(made.output)  # a move that is none
    last = np.append(ways.move[reading], np.full(len(ending), none))
    writes, written, late = _written(runs, run, last, np.append(made.output, np.int32(-1)))
    return Fold(
        state=state,
        source=number[source[arcs]],
        target=number[target[arcs]],
        arc=found.arc[arcs],
        begins=begins,
        begin_of=begin_of,
        best=scores("best"),
        total=scores("total"),
        writes=writes,
        written=written,
        late=late,
    )


def _written(runs: _Runs, run: Longs, last: Longs, output: Ints) -> tuple[Ragged, Ints, Bools]:
    """Return what elements write: each by a run of moves without input, and by its last move."""
    element, what, when, order = [], [], [], 0
    at = np.arange(len(run))
    late = np.flatnonzero(output[last] >= 0)
    element.append(late)
    what.append(output[last[late]])
    when.append(np.full(len(late), 1))
    while len(at):
        at, run = at[run >= 0], run[run >= 0]
        move, run = runs.move[run], runs.before[run]
        says = np.flatnonzero((move >= 0) & (output[move] >= 0))
        element.append(at[says])
        what.append(output[move[says]])
        when.append(np.full(len(says), order))
        order -= 1
    rows, said, time = (np.concatenate(part) for part in (element, what, when))
    place = np.lexsort((time, rows))
    return Ragged.from_rows(rows, len(last)), said[place], time[place] > 0

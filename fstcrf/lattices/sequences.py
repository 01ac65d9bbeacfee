"""The n best label sequences of an acyclic machine in which a sequence may have several paths.

Best-first search over prefixes of labels. A prefix stands for the states that its paths end in,
each with its best score or with the log of their sum: the deterministic machine of the same label
sequences, of which only those states are made that the search looks at.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.ragged import Ragged

_Subset = dict[int, float]
_Total = Callable[[Iterable[float]], float]


class Found(NamedTuple):
    """A label sequence, and the total of its paths.

    `exact`: no sequence that comes later has more than `bound`, its own score.
    """

    labels: tuple[int, ...]
    score: float
    bound: float
    exact: bool


class _Lists(NamedTuple):
    """A machine as Python's lists: the search looks at few of its arcs."""

    row: list[int]
    target: list[int]
    label: list[int]
    score: list[float]
    final: list[float]
    suffix: list[float]


def best_sequences(machine: Acyclic, label: Ints) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield label sequences, best first, each once, with the score of its best path.

    `label`, int32 [A], is that of each arc; −1: none. Ties: a sequence that begins another comes
    first, then the smaller label, at the earliest place where they differ.
    """
    lists = _lists(machine, label, machine.best_suffix)
    return ((found.labels, found.score) for found in _sequences(lists, max))


def probable_sequences(
    machine: Acyclic, label: Ints, budget: int, likely: Found
) -> Iterator[Found]:
    """Yield label sequences, each once, the most probable first: scores are logs of sums of paths.

    When `budget` prefixes have been looked at, what was met so far follows, unproven, and `likely`.
    """
    return _sequences(_lists(machine, label, machine.sum_suffix), _log_sum, budget, likely)


def _lists(machine: Acyclic, label: Ints, suffix: Floats) -> _Lists:
    return _Lists(
        row=machine.row.tolist(),
        target=machine.target.tolist(),
        label=label.tolist(),
        score=machine.score.tolist(),
        final=machine.final.tolist(),
        suffix=suffix.tolist(),
    )


def _log_sum(scores: Iterable[float]) -> float:
    values = list(scores)
    top = max(values)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def _sequences(
    lists: _Lists,
    total: _Total,
    budget: float = math.inf,
    likely: Found | None = None,
    begin: int = 0,
) -> Iterator[Found]:
    """Yield label sequences by the total of their paths: a maximum, or the log of a sum."""
    # (−total of the ways on, labels, 0: it ends here or 1: it may go on, states)
    queue: list[tuple[float, tuple[int, ...], int, _Subset]] = []
    _queue(queue, lists, total, (), _closed(lists, total, {begin: 0.0}))
    looked, told = 0, set[tuple[int, ...]]()
    while queue:
        cost, labels, goes_on, subset = heapq.heappop(queue)
        if not goes_on:
            told.add(labels)
            yield Found(labels, 0.0 - cost, 0.0 - cost, exact=True)
        elif looked < budget:
            looked += 1
            for number, states in _successors(lists, total, subset).items():
                _queue(queue, lists, total, (*labels, number), _closed(lists, total, states))
        else:
            known = {entry[1]: 0.0 - entry[0] for entry in queue if not entry[2]}
            if likely is not None and likely.labels not in told:
                known[likely.labels] = likely.score
            for rest, score in sorted(known.items(), key=lambda item: (-item[1], item[0])):
                yield Found(rest, score, max(score, 0.0 - cost), exact=False)
            return


def _queue(
    queue: list[tuple[float, tuple[int, ...], int, _Subset]],
    lists: _Lists,
    total: _Total,
    labels: tuple[int, ...],
    subset: _Subset,
) -> None:
    ends = total([score + lists.final[s] for s, score in subset.items()])
    if ends > -np.inf:
        heapq.heappush(queue, (-ends, labels, 0, {}))
    further = _total_on(lists, total, subset)
    if further > -np.inf:
        heapq.heappush(queue, (-further, labels, 1, subset))


def _total_on(lists: _Lists, total: _Total, subset: _Subset) -> float:
    """Total of the paths that read another label."""
    further = [
        score + lists.score[a] + lists.suffix[lists.target[a]]
        for s, score in subset.items()
        for a in range(lists.row[s], lists.row[s + 1])
        if lists.label[a] >= 0
    ]
    return total(further) if further else -np.inf


def _closed(lists: _Lists, total: _Total, subset: _Subset) -> _Subset:
    """Add what can be reached without a label; every arc leads upwards."""
    line = list(subset)
    heapq.heapify(line)
    while line:
        s = heapq.heappop(line)
        for a in range(lists.row[s], lists.row[s + 1]):
            if lists.label[a] >= 0:
                continue
            t, score = lists.target[a], subset[s] + lists.score[a]
            if t not in subset:
                heapq.heappush(line, t)
            subset[t] = total([subset.get(t, -np.inf), score])
    return subset


def _successors(lists: _Lists, total: _Total, subset: _Subset) -> dict[int, _Subset]:
    """States behind the next label, for every label there is."""
    found: dict[int, _Subset] = {}
    for s, score in subset.items():
        for a in range(lists.row[s], lists.row[s + 1]):
            if lists.label[a] < 0:
                continue
            states, t = found.setdefault(lists.label[a], {}), lists.target[a]
            states[t] = total([states.get(t, -np.inf), score + lists.score[a]])
    return found


# --- Paths that say the same ----------------------------------------------------------------------


_PREFIXES, _EACH = 10_000, 1_000
"""Prefixes that are looked at for paths that differ: so many, and more for each path."""


def best_distinct(machine: Acyclic, said: Ints, n: int) -> tuple[Ints, Floats, Longs] | None:
    """Return the n best paths of each row that say something else, of those that say the same one.

    They say the same where each column has the same facts one after the other, on whatever arcs.
    None: there are too many that say the same.

    Parameters
    ----------
    machine : Acyclic
    said : int32 [A, K]
        What each arc says in each column; −1: nothing. Columns have no number in common.
    n : int

    Returns
    -------
    int32 [P, longest], float64 [P], int64 [B]; or None
        The arcs of the paths of all rows, best first, −1 behind them; scores; how many of each row.
    """
    apart, label, arcs = _taken_apart(machine, said)
    lists, of_piece = _lists(apart, label, apart.best_suffix), arcs.tolist()
    column = np.zeros(said.max(initial=-1) + 1, dtype=np.int64)
    for k, own in enumerate(said.T):
        column[own[own >= 0]] = k
    rows = []
    for begin in apart.begins.tolist():
        best = _differing(_sequences(lists, max, _PREFIXES + _EACH * n, begin=begin), column, n)
        if best is None:
            return None
        paths = [(one.score, _run(lists, one.labels, begin)) for one in best]
        rows.append([(score, [a for k in way if (a := of_piece[k]) >= 0]) for score, way in paths])
    paths = [path for own in rows for path in own]
    ways = Ragged.from_lengths(len(way) for _, way in paths)
    chosen = np.fromiter((arc for _, way in paths for arc in way), np.int64, ways.total)
    padded = np.full((len(paths), int(ways.lengths.max(initial=0))), -1, dtype=np.int32)
    padded[ways.rows(), ways.ranges()] = chosen
    counts = np.asarray([len(own) for own in rows], dtype=np.int64)
    return padded, np.asarray([score for score, _ in paths]), counts


def _differing(sequences: Iterator[Found], column: Longs, n: int) -> list[Found] | None:
    """Return the n best sequences that differ in a column; None: they are not all known."""
    met, found = set[tuple[tuple[int, ...], ...]](), list[Found]()
    for one in sequences:
        if not one.exact:
            return None
        labels = np.asarray(one.labels, dtype=np.int64)
        own = column[labels]
        said = tuple([tuple(labels[own == k].tolist()) for k in range(column.max(initial=-1) + 1)])
        if said not in met:
            met.add(said)
            found.append(one)
        if len(found) >= n:
            break
    return found


def coded(facts: Sequence[NDArray[np.integer]], which: Ints | None) -> Ints:
    """Return what arcs say as numbers, int32 [A, K]; −1: nothing.

    Parameters
    ----------
    facts : sequence of K int [A', F]
        Facts of each arc, of which the first two, or the only one, are −1 where there is nothing.
    which : int32 [A], optional
        Which of the A' each of the arcs is, −1: none; None: they are these.
    """
    said, size = np.full((len(facts[0]) + 1, len(facts)), -1, dtype=np.int32), 0
    for k, rows in enumerate(facts):
        values, code = np.unique(rows, axis=0, return_inverse=True)
        loud = (values[:, :2] >= 0).any(axis=1)
        said[:-1, k] = np.where(loud, np.arange(len(values)) + size, -1)[code.reshape(-1)]
        size += len(values)
    return said[:-1] if which is None else said[which]


def _taken_apart(machine: Acyclic, said: Ints) -> tuple[Acyclic, Ints, Longs]:
    """Return a machine whose arcs say one thing at most, what, and of which arc each is the first.

    States between stand behind the one that their arc leaves. −1: it is a later part of an arc.
    """
    there = said >= 0
    count = there.sum(axis=1)
    source = Ragged(machine.row).rows()
    more = np.maximum(count - 1, 0)
    before = np.cumsum(more) - more  # states between, of the arcs before each
    number = np.arange(len(machine.final)) + np.append(0, np.cumsum(more))[machine.row[:-1]]
    pieces = Ragged.from_lengths(np.maximum(count, 1))
    arc, place = pieces.rows(), pieces.ranges()
    between = source[arc] + before[arc] + place
    last = place == np.maximum(count, 1)[arc] - 1
    label = np.full(len(arc), -1, dtype=np.int32)
    label[count[arc] > 0] = said[there]
    final = np.full(len(number) + int(more.sum()), -np.inf)
    final[number] = machine.final
    begins = np.where(place == 0, number[source[arc]], between)
    order = np.argsort(begins, kind="stable")
    apart = Acyclic(
        Ragged.from_rows(begins[order], len(final)).offsets,
        np.where(last, number[machine.target[arc]], between + 1)[order].astype(np.int32),
        np.where(place == 0, machine.score[arc], 0.0)[order],
        final,
        number[machine.begins],
    )
    return apart, label[order], np.where(place == 0, arc, -1)[order]


_Link: TypeAlias = "tuple[int, _Link] | None"  # an arc, and the way before it


def _run(lists: _Lists, labels: Sequence[int], begin: int) -> list[int]:
    """Return the arcs of the best path with these labels."""
    reached: dict[int, tuple[float, _Link]] = {begin: (0.0, None)}
    for label in (*labels, None):
        line, loud = list(reached), dict[int, tuple[float, _Link]]()
        heapq.heapify(line)
        while line:
            s = heapq.heappop(line)
            for a in range(lists.row[s], lists.row[s + 1]):
                quiet = lists.label[a] < 0
                if not quiet and lists.label[a] != label:
                    continue
                states, t = reached if quiet else loud, lists.target[a]
                score = reached[s][0] + lists.score[a]
                if t not in states and quiet:
                    heapq.heappush(line, t)
                if t not in states or score > states[t][0]:
                    states[t] = score, (a, reached[s][1])
        if label is not None:
            reached = loud
    _, way = max(reached.items(), key=lambda item: item[1][0] + lists.final[item[0]])[1]
    arcs: list[int] = []
    while way is not None:
        arcs.append(way[0])
        way = way[1]
    return arcs[::-1]

"""The n best label sequences of an acyclic machine in which a sequence may have several paths.

Best-first search over prefixes of labels. A prefix stands for the states that its paths end in,
each with its best score or with the log of their sum: the deterministic machine of the same label
sequences, of which only those states are made that the search looks at.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints
from fstcrf.kernel.acyclic import Acyclic

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
    lists: _Lists, total: _Total, budget: float = math.inf, likely: Found | None = None
) -> Iterator[Found]:
    """Yield label sequences by the total of their paths: a maximum, or the log of a sum."""
    # (−total of the ways on, labels, 0: it ends here or 1: it may go on, states)
    queue: list[tuple[float, tuple[int, ...], int, _Subset]] = []
    _queue(queue, lists, total, (), _closed(lists, total, {0: 0.0}))
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

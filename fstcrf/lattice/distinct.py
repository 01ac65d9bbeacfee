"""The n best label sequences of an acyclic machine in which a sequence may have several paths.

Best-first search over prefixes of labels. A prefix stands for the states that its paths end in,
each with its best score: the deterministic machine of the same label sequences, of which only those
states are made that the search looks at.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel.acyclic import Acyclic

__all__ = ["best_sequences"]

_Subset = dict[int, float]


class _Lists(NamedTuple):
    """A machine as Python's lists: the search looks at few of its arcs."""

    row: list[int]
    target: list[int]
    label: list[int]
    score: list[float]
    final: list[float]
    suffix: list[float]


def best_sequences(
    machine: Acyclic, label: NDArray[np.int32]
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield label sequences, best first, each once, with the score of its best path.

    Ties: a sequence that begins another comes first, then the smaller label, at the earliest place
    where they differ.

    Parameters
    ----------
    machine : Acyclic
    label : int32 [A]
        Label of each arc; −1: none.
    """
    lists = _Lists(
        row=machine.row.tolist(),
        target=machine.target.tolist(),
        label=label.tolist(),
        score=machine.score.tolist(),
        final=machine.final.tolist(),
        suffix=machine.best_suffix.tolist(),
    )
    # (−score of the best way on, labels, 0: it ends here or 1: it may go on, states)
    queue: list[tuple[float, tuple[int, ...], int, _Subset]] = []
    _queue(queue, lists, (), _closed(lists, {0: 0.0}))
    while queue:
        cost, labels, goes_on, subset = heapq.heappop(queue)
        if not goes_on:
            yield labels, 0.0 - cost
            continue
        for number, states in _successors(lists, subset).items():
            _queue(queue, lists, (*labels, number), _closed(lists, states))


def _queue(
    queue: list[tuple[float, tuple[int, ...], int, _Subset]],
    lists: _Lists,
    labels: tuple[int, ...],
    subset: _Subset,
) -> None:
    ends = max(score + lists.final[s] for s, score in subset.items())
    if ends > -np.inf:
        heapq.heappush(queue, (-ends, labels, 0, {}))
    further = _best_on(lists, subset)
    if further > -np.inf:
        heapq.heappush(queue, (-further, labels, 1, subset))


def _best_on(lists: _Lists, subset: _Subset) -> float:
    """Score of the best path that reads another label."""
    return max(
        (
            score + lists.score[a] + lists.suffix[lists.target[a]]
            for s, score in subset.items()
            for a in range(lists.row[s], lists.row[s + 1])
            if lists.label[a] >= 0
        ),
        default=-np.inf,
    )


def _closed(lists: _Lists, subset: _Subset) -> _Subset:
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
            if score > subset.get(t, -np.inf):
                subset[t] = score
    return subset


def _successors(lists: _Lists, subset: _Subset) -> dict[int, _Subset]:
    """States behind the next label, for every label there is."""
    found: dict[int, _Subset] = {}
    for s, score in subset.items():
        for a in range(lists.row[s], lists.row[s + 1]):
            if lists.label[a] < 0:
                continue
            states, t = found.setdefault(lists.label[a], {}), lists.target[a]
            states[t] = max(states.get(t, -np.inf), score + lists.score[a])
    return found

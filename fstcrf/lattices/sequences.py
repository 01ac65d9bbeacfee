"""The best-first search for label sequences, and the label sequences of an acyclic machine.

Each kind of sequence is searched in one queue of parts. A *part* is a set of sequences with a
common prefix, and its bound: no sequence of the part scores more. The part with the highest bound
is divided first. The labels of an acyclic machine (below), the strings of CTC
(`fstcrf.lattices.ctc`), and the labels of some tapes (`fstcrf.lattices.labellings`) differ only in
how they divide a part.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

from fstcrf.arrays import Floats, Ints
from fstcrf.kernel.acyclic import Acyclic

Labels: TypeAlias = tuple[int, ...]
PartT = TypeVar("PartT")
Entry: TypeAlias = tuple[float, Labels, PartT | None]
"""The score and the labels of a sequence, and None; or bound, prefix and contents of a part."""

_Total: TypeAlias = Callable[[Iterable[float]], float]


class ScoredLabels(NamedTuple):
    """A label sequence and its score.

    `bound`: no sequence that follows in the search scores more. `exact`: the score is no less.
    """

    labels: Labels
    score: float
    bound: float
    exact: bool


def search(
    entries: Iterable[Entry[PartT]],
    divide: Callable[[PartT], Iterable[Entry[PartT]]],
    budget: float = math.inf,
    likely: Callable[[], tuple[Labels, float]] | None = None,
) -> Iterator[ScoredLabels]:
    """Yield label sequences, best first, each once.

    Sequences of equal score come in lexicographic order.

    Parameters
    ----------
    entries : iterable of Entry
        Sequences and parts that together hold all sequences.
    divide : function
        Returns the sequences and the parts that a part consists of.
    budget : float
        Largest number of parts to divide. After that, the sequences reached so far follow, with
        ``exact=False``.
    likely : function, optional
        Returns a sequence and its score, to add to them.
    """
    queue: list[tuple[float, Labels, bool, PartT | None]] = []
    divided, proven = 0, set[Labels]()
    while True:
        for score, labels, part in entries:
            if score > -math.inf:
                heapq.heappush(queue, (0.0 - score, labels, part is not None, part))
        while queue and queue[0][3] is None:
            cost, labels, _, _ = heapq.heappop(queue)
            proven.add(labels)
            yield ScoredLabels(labels, 0.0 - cost, 0.0 - cost, exact=True)
        if not queue:
            return
        cost, _, _, part = heapq.heappop(queue)
        if part is None or divided >= budget:
            break
        divided += 1
        entries = divide(part)
    scores = {labels: 0.0 - other for other, labels, is_part, _ in queue if not is_part}
    if likely is not None:
        labels, score = likely()
        if labels not in proven:
            scores[labels] = score
    for labels, score in sorted(scores.items(), key=lambda item: (-item[1], item[0])):
        yield ScoredLabels(labels, score, max(score, 0.0 - cost), exact=False)


# --- Label sequences of an acyclic machine --------------------------------------------------------

_Subset: TypeAlias = dict[int, float]
_Prefix: TypeAlias = tuple[Labels, _Subset]
"""Labels, and the states that their paths end in, each with the total of these paths."""


class LabelledMachine:
    """An acyclic machine that is determinised lazily, as far as a search needs it.

    Parameters
    ----------
    machine : Acyclic
    label : int32 [A]
        Label of each arc, −1 if it has no label.
    suffix : float64 [S]
        Total of the paths from each state to an end.
    total : function
        Score of several paths with the same labels: their maximum, or the log of their sum.
    """

    def __init__(self, machine: Acyclic, label: Ints, suffix: Floats, total: _Total) -> None:
        # lists, because the search reads few of the arcs, one at a time
        self.row: list[int] = machine.row.tolist()
        self.target: list[int] = machine.target.tolist()
        self.label: list[int] = label.tolist()
        self.score: list[float] = machine.score.tolist()
        self.final: list[float] = machine.final.tolist()
        self.suffix: list[float] = suffix.tolist()
        self.total = total

    def search(
        self,
        begin: int = 0,
        budget: float = math.inf,
        likely: Callable[[], tuple[Labels, float]] | None = None,
    ) -> Iterator[ScoredLabels]:
        """Yield the label sequences of paths from a state, best first; see `search`."""
        return search(self._entries((), {begin: 0.0}), self._divided, budget, likely)

    def _divided(self, prefix: _Prefix) -> Iterator[Entry[_Prefix]]:
        labels, subset = prefix
        for label, states in self._successors(subset).items():
            yield from self._entries((*labels, label), states)

    def _entries(self, labels: Labels, subset: _Subset) -> Iterator[Entry[_Prefix]]:
        self._close(subset)
        yield self.total([score + self.final[s] for s, score in subset.items()]), labels, None
        further = [
            score + self.score[a] + self.suffix[self.target[a]]
            for s, score in subset.items()
            for a in range(self.row[s], self.row[s + 1])
            if self.label[a] >= 0
        ]
        if further:
            yield self.total(further), labels, (labels, subset)

    def _close(self, subset: _Subset) -> None:
        """Add the states that arcs without labels lead to; every arc leads to a higher state."""
        line = list(subset)
        heapq.heapify(line)
        while line:
            s = heapq.heappop(line)
            for a in range(self.row[s], self.row[s + 1]):
                if self.label[a] >= 0:
                    continue
                t, score = self.target[a], subset[s] + self.score[a]
                if t not in subset:
                    heapq.heappush(line, t)
                subset[t] = self.total([subset.get(t, -math.inf), score])

    def _successors(self, subset: _Subset) -> dict[int, _Subset]:
        """Return the states after each label."""
        after: dict[int, _Subset] = {}
        for s, score in subset.items():
            for a in range(self.row[s], self.row[s + 1]):
                if self.label[a] < 0:
                    continue
                states, t = after.setdefault(self.label[a], {}), self.target[a]
                states[t] = self.total([states.get(t, -math.inf), score + self.score[a]])
        return after


def best_sequences(machine: Acyclic, label: Ints) -> LabelledMachine:
    """Return a machine to search for label sequences by the score of their best path.

    `label`, int32 [A], is the label of each arc, −1 if it has no label.
    """
    return LabelledMachine(machine, label, machine.best_suffix, max)


def probable_sequences(machine: Acyclic, label: Ints) -> LabelledMachine:
    """Return a machine to search for label sequences by the log of the sum over their paths."""
    return LabelledMachine(machine, label, machine.sum_suffix, _log_sum)


def _log_sum(scores: Iterable[float]) -> float:
    values = list(scores)
    top = max(values)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(value - top) for value in values))

"""Random small training problems, and what enumeration of all label sequences says about them.

Nothing here asks the kernel or the layout of tables: features are found by the names of slots.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.kernel import SparseRows
from fstcrf.lazy import made_once
from fstcrf.machines.topology import chain_topology
from fstcrf.training import ParameterSpace, Problem, parameter_space

Legal = Callable[[str | None, str | None], bool]


def anything(before: str | None, after: str | None) -> bool:
    return True


def iob2(before: str | None, after: str | None) -> bool:
    if after is None or not after.startswith("I-"):
        return True
    return before is not None and before[2:] == after[2:]


@dataclass(frozen=True)
class Case:
    """A problem with its weights, and the rules that enumeration needs."""

    problem: Problem
    space: ParameterSpace
    labels: tuple[str, ...]
    order: int
    legal: Legal
    start: str | None

    @property
    def n_sentences(self) -> int:
        return len(self.problem.offsets) - 1

    def paths(self, sentence: int, *, allowed: bool = False) -> list[tuple[int, ...]]:
        """All legal label sequences of a sentence, or those that the target allows."""
        first, last = self.problem.offsets[sentence : sentence + 2].tolist()
        mask = self.problem.allowed[first:last] if allowed else np.ones((last - first, 1), bool)
        width = len(self.labels)
        choices = [np.flatnonzero(np.broadcast_to(row, width)).tolist() for row in mask]
        return [path for path in itertools.product(*choices) if self._is_legal(path)]

    def _is_legal(self, path: Sequence[int]) -> bool:
        names = [self.labels[i] for i in path]
        steps = [(None, names[0]), *itertools.pairwise(names), (names[-1], None)]
        if self.order == 2 and self.start is not None:
            steps.append((self.start, names[0]))
        return all(self.legal(a, b) for a, b in steps)

    def features(self, sentence: int, path: Sequence[int]) -> Floats:
        """The feature counts of a label sequence: its score is their product with theta."""
        topology, space, problem = self.space.topology, self.space, self.problem
        node_slots, arc_slots = topology.node_slot_names, topology.arc_slot_names
        counts = np.zeros(space.size)
        b = space.bounds
        where = {
            "node": _places(space.node_cells, space.width, node_slots, b[0]),
            "arc": _places(space.arc_cells, space.arc_width, arc_slots, b[2]),
        }
        transition = {arc_slots[s]: b[1] + k for k, s in enumerate(space.transitions.tolist())}
        states = self._states(path)
        first = int(problem.offsets[sentence])
        for t, state in enumerate(states):
            slots = [self.labels[path[t]]] + ([state] if self.order == 2 else [])
            _count(counts, where["node"], problem.node, first + t, slots)
            if t and self.order:
                arc = f"{states[t - 1]} → {state}"
                if arc in transition:
                    counts[transition[arc]] += 1
                if problem.arc is not None:
                    _count(counts, where["arc"], problem.arc, first + t, [arc])
        for k, part, state in ((3, space.initial, states[0]), (4, space.final, states[-1])):
            for i, s in enumerate(part.tolist()):
                counts[b[k] + i] += topology.state_names[s] == state
        return counts

    def _states(self, path: Sequence[int]) -> list[str]:
        names = [self.labels[i] for i in path]
        if self.order < 2:
            return names
        return [f"{a} {b}" for a, b in itertools.pairwise([self.start or "<s>", *names])]

    def objective(self, theta: Floats, *, l2: float) -> tuple[float, Floats]:
        """Value and gradient of the penalised likelihood, by enumeration."""
        value, gradient = l2 * float(theta @ theta), 2.0 * l2 * theta
        for weight, pair in zip(self.problem.weight.tolist(), self._counts, strict=True):
            for sign, counts in zip((1.0, -1.0), pair, strict=True):
                scores = counts @ theta
                top = scores.max()
                share = np.exp(scores - top)
                value += sign * weight * (top + np.log(share.sum()))
                gradient = gradient + sign * weight * (share @ counts) / share.sum()
        return value, gradient

    @made_once
    def _counts(self) -> list[tuple[Floats, Floats]]:
        """Feature counts of all paths of each sentence, and of those that are allowed."""

        def stacked(sentence: int, *, allowed: bool) -> Floats:
            paths = self.paths(sentence, allowed=allowed)
            return np.stack([self.features(sentence, path) for path in paths])

        return [
            (stacked(b, allowed=False), stacked(b, allowed=True)) for b in range(self.n_sentences)
        ]

    def best(self, sentence: int, theta: Floats) -> tuple[int, ...]:
        """The best label sequence; among equals the first."""
        return max(self.paths(sentence), key=lambda p: float(self.features(sentence, p) @ theta))

    def gold(self, sentence: int) -> tuple[int, ...]:
        (path,) = self.paths(sentence, allowed=True)
        return path


def _places(
    cells: Longs, width: int, names: Sequence[str], begin: int
) -> dict[tuple[int, str], int]:
    pairs = (divmod(cell, width) for cell in cells.tolist())
    return {(row, names[slot]): begin + k for k, (row, slot) in enumerate(pairs)}


def _count(
    counts: Floats,
    places: dict[tuple[int, str], int],
    rows: SparseRows,
    token: int,
    slots: Sequence[str],
) -> None:
    for e in range(int(rows.indptr[token]), int(rows.indptr[token + 1])):
        value = 1.0 if rows.value is None else float(rows.value[e])
        for slot in slots:
            if (place := places.get((int(rows.index[e]), slot))) is not None:
                counts[place] += value


def random_rows(
    rng: np.random.Generator, n: int, columns: int, *, values: bool, mean: float = 2.0
) -> SparseRows:
    """Sparse rows, some empty, some with the same column twice."""
    counts = rng.poisson(mean, n)
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    index = rng.integers(columns, size=int(indptr[-1])).astype(np.int32)
    value = rng.normal(size=len(index)).astype(np.float32) if values else None
    return SparseRows(indptr, index, value, columns)


def random_case(
    seed: int,
    *,
    order: int = 1,
    labels: Sequence[str] = ("A", "B", "C"),
    lengths: Sequence[int] = (1, 3, 4, 2, 1),
    legal: Legal = anything,
    start: str | None = None,
    arcs: bool = False,
    values: bool = False,
    partial: bool = False,
    weights: bool = False,
    attributes: int = 6,
    **space: Any,
) -> Case:
    """A random problem; `space` are arguments of `parameter_space`."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n, width = int(offsets[-1]), len(labels)
    topology = chain_topology(labels, order, allowed=legal, start_label=start)
    draft = Case(None, None, tuple(labels), order, legal, start)  # type: ignore[arg-type]
    allowed = np.zeros((n, width), dtype=bool)
    for first, length in zip(offsets.tolist(), lengths, strict=False):
        paths = [p for p in itertools.product(range(width), repeat=length) if draft._is_legal(p)]
        path = paths[int(rng.integers(len(paths)))]
        allowed[np.arange(first, first + length), path] = True
    if partial:
        # Some unknown, some one of several; the first sentence stays known.
        tokens = np.arange(n) >= lengths[0]
        allowed[tokens & (rng.random(n) < 0.3)] = True
        allowed |= tokens[:, None] & (rng.random((n, width)) < 0.15)
    problem = Problem(
        topology,
        offsets,
        random_rows(rng, n, attributes, values=values),
        random_rows(rng, n, 4, values=values, mean=1.0) if arcs else None,
        allowed,
        rng.choice([0.0, 0.5, 1.0, 3.0], len(lengths)) if weights else np.ones(len(lengths)),
    )
    return Case(problem, parameter_space(problem, **space), tuple(labels), order, legal, start)


def separable_case(seed: int = 0, *, sentences: int = 30) -> Case:
    """Each label has attributes of its own."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, sentences)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    gold = rng.integers(3, size=n)
    allowed = np.zeros((n, 3), dtype=bool)
    allowed[np.arange(n), gold] = True
    index = (gold * 4 + rng.integers(4, size=n)).astype(np.int32)
    node = SparseRows(np.arange(n + 1, dtype=np.int64), index, None, 12)
    topology = chain_topology("ABC", 1)
    problem = Problem(topology, offsets, node, None, allowed, np.ones(sentences))
    space = parameter_space(problem)
    return Case(problem, space, ("A", "B", "C"), 1, anything, None)


BIO_CASES: dict[str, dict[str, Any]] = {
    "order 0": {"order": 0},
    "order 1": {"labels": ("B-X", "I-X", "O"), "legal": iob2, "ends": True},
    "order 2": {"order": 2, "labels": ("B-X", "I-X", "O"), "start": "O", "weights": True},
    "complete": {"features": "complete", "transitions": "all", "values": True},
    "arcs": {"arcs": True},
}
"""Convex problems of every kind."""

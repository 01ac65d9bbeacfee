"""Lattices of segments by enumeration: all tilings of a text, and their scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.lattices import ArcLattice, Lattice

LABELS = ("A", "B", "C")


@dataclass
class Case:
    """Arrays of a lattice."""

    length: int
    start: Longs
    end: Longs
    label: Longs
    score: Floats
    transitions: Floats
    initial: Floats
    final: Floats

    def lattice(self) -> ArcLattice:
        """Return the lattice."""
        return Lattice.from_segments(
            self.length,
            self.start,
            self.end,
            self.label,
            self.score,
            LABELS,
            self.transitions,
            self.initial,
            self.final,
        )

    def tilings(self, position: int = 0) -> Iterator[tuple[int, ...]]:
        """Yield the arcs of every path."""
        if position == self.length:
            yield ()
            return
        for arc in np.flatnonzero(self.start == position).tolist():
            for rest in self.tilings(int(self.end[arc])):
                yield (arc, *rest)

    def total(self, path: tuple[int, ...]) -> float:
        """Return the score of a path."""
        if not path:
            return 0.0
        names = [int(self.label[arc]) for arc in path]
        links = sum(self.transitions[a, b] for a, b in pairwise(names))
        arcs = sum(float(self.score[arc]) for arc in path)
        return float(links + arcs + self.initial[names[0]] + self.final[names[-1]])

    def paths(self) -> dict[tuple[int, ...], float]:
        """Return all paths that are not forbidden, and their scores."""
        found = {path: self.total(path) for path in self.tilings()}
        return {path: score for path, score in found.items() if score > -np.inf}

    def spans(self, path: tuple[int, ...]) -> tuple[tuple[int, int, str], ...]:
        """Return a path's segments."""
        return tuple(
            (int(self.start[a]), int(self.end[a]), LABELS[int(self.label[a])]) for a in path
        )


def random_case(seed: int, *, length: int | None = None, wide: float = 1.0) -> Case:
    """Return a lattice with some forbidden arcs and pairs; it need not have a path."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(0, 6)) if length is None else length
    every = [(s, e, k) for s in range(size) for e in range(s + 1, size + 1) for k in range(3)]
    kept = [arc for arc in every if rng.random() < (0.9 if arc[1] - arc[0] < 3 else 0.3)]
    kept += [arc for arc in kept if rng.random() < 0.1]  # the same segment twice
    rng.shuffle(kept)
    columns = np.asarray(kept, dtype=np.int64).reshape(-1, 3).T
    score = rng.normal(size=len(kept)) * wide
    score[rng.random(len(kept)) < 0.05] = -np.inf
    transitions = rng.normal(size=(3, 3)) * wide
    transitions[rng.random((3, 3)) < 0.1] = -np.inf
    ends = rng.normal(size=(2, 3)) * wide
    return Case(size, columns[0], columns[1], columns[2], score, transitions, ends[0], ends[1])


def log_sum(values: list[float]) -> float:
    """Return the log of the sum of exponentials."""
    return float(np.logaddexp.reduce(values)) if values else -np.inf


def collapsed(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """Return the string of a path of frames."""
    kept = [s for k, s in enumerate(path) if k == 0 or path[k - 1] != s]
    return tuple(s for s in kept if s != blank)


def frame_strings(scores: Floats, blank: int) -> dict[tuple[int, ...], list[float]]:
    """Return the scores of the paths of every string."""
    found: dict[tuple[int, ...], list[float]] = {}
    for path in product(range(scores.shape[1]), repeat=len(scores)):
        total = float(sum(scores[t, s] for t, s in enumerate(path)))
        if total > -np.inf:
            found.setdefault(collapsed(path, blank), []).append(total)
    return found

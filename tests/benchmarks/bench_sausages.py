"""Sausages given as lattices of segments, in times of what they cost as lattices.

=========  =====================================================================
sausages   2 to 300 labels, 5 to 1000 tokens: best, n best, log Z, probabilities
=========  =====================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from fstcrf.lattices import ArcLattice, Lattice
from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench

__all__ = ["sausages"]

LABELS, LENGTHS = (2, 10, 45, 300), (5, 40, 1000)
QUESTIONS: dict[str, Callable[[Any], object]] = {
    "best": lambda lattice: lattice.best(),
    "10 best": lambda lattice: lattice.nbest(10),
    "log Z": lambda lattice: lattice.log_partition(),
    "probabilities": lambda lattice: lattice.marginals(),
    "10 samples": lambda lattice: lattice.sample(10),
}


def sausages(bench: Bench) -> list[Line]:
    """The worst ratio of each question, made and asked; processor time, one thread."""
    rounds = 3 if bench.quick else 2 * bench.rounds
    found: dict[str, dict[str, float]] = {question: {} for question in QUESTIONS}
    for labels in LABELS:
        for tokens in LENGTHS if labels < 300 or not bench.quick else LENGTHS[:2]:
            bench.say(f"sausages of {labels} labels, {tokens} tokens")
            case = _Case(labels, tokens)
            for question, ask in QUESTIONS.items():
                found[question][f"{labels} labels, {tokens} tokens"] = case.ratio(ask, rounds)
    return [
        Line(
            f"sausages-{question.replace(' ', '-')}",
            f"{question} of a sausage as a lattice of segments, in times of it as a lattice; "
            f"worst: {max(ratios, key=ratios.__getitem__)}",
            max(ratios.values()),
            unit="×",
            samples=dict(ratios),
        )
        for question, ratios in found.items()
    ]


class _Case:
    """A sausage both ways."""

    def __init__(self, labels: int, tokens: int) -> None:
        rng = np.random.default_rng(labels * 10_000 + tokens)
        self.names = [f"l{k}" for k in range(labels)]
        self.scores = rng.normal(size=(tokens, labels))
        self.pairs = rng.normal(size=(labels, labels))
        start = np.repeat(np.arange(tokens), labels)
        self.arcs = start, start + 1, np.tile(np.arange(labels), tokens), self.scores.reshape(-1)

    def dense(self) -> Lattice:
        return Lattice.from_arrays(self.names, self.scores, self.pairs)

    def segments(self) -> ArcLattice:
        return Lattice.from_segments(len(self.scores), *self.arcs, self.names, self.pairs)

    def ratio(self, ask: Callable[[Any], object], rounds: int) -> float:
        """The median of ratios of turns that follow each other."""
        ways = self.segments, self.dense
        times = min(1000, max(1, int(0.02 / max(_seconds(ask, w, 1) for w in ways))))
        pairs = [[_seconds(ask, way, times) for way in ways] for _ in range(rounds)]
        return median(ours / theirs for ours, theirs in pairs)


def _seconds(ask: Callable[[Any], object], make: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        ask(make())
    return max(time.process_time() - began, 1e-7)

"""Misclassification measures by enumeration of all label sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fstcrf.arrays import Floats
from tests.support.problems import Case, iob2, random_case

LABELS = ("B-X", "I-X", "O", "B-Y")
KINDS: dict[str, dict[str, Any]] = {
    "order 1": {},
    "order 2": {"order": 2, "start": "O"},
    "weights, values": {"weights": True, "values": True},
    "arcs": {"arcs": True},
    "supported": {"features": "supported"},
}
"""With weights of ends and of all transitions: no two label sequences have the same score."""


def span_case(seed: int, kind: str, lengths: Sequence[int] = (1, 3, 2, 4)) -> Case:
    """A random problem whose labels are spans."""
    given = {"features": "complete", "transitions": "all", "ends": True, **KINDS[kind]}
    return random_case(seed, labels=LABELS, lengths=lengths, legal=iob2, **given)


class Enumerated:
    """All label sequences of a problem with their scores."""

    def __init__(self, case: Case, theta: Floats) -> None:
        self.case = case
        self.paths = [
            [(float(case.features(b, p) @ theta), p) for p in case.paths(b)]
            for b in range(case.n_sentences)
        ]

    def measure(self, sentence: int, first: int = 0, end: int | None = None) -> float:
        """Best wrong score minus best right score; right is: gold labels on ``first:end``."""
        part = slice(first, end)
        gold, paths = self.case.gold(sentence)[part], self.paths[sentence]
        wrong = max((v for v, p in paths if p[part] != gold), default=-np.inf)
        return wrong - max(v for v, p in paths if p[part] == gold)

    def soft_measure(self, sentence: int, psi: float, *, mean: bool) -> float:
        """The measure of a sentence at a finite psi."""
        gold, paths = self.case.gold(sentence), self.paths[sentence]
        wrong = np.asarray([v for v, p in paths if p != gold])
        if not len(wrong):
            return -np.inf
        total = np.exp(psi * (wrong - next(v for v, p in paths if p == gold)))
        return float(np.log(total.mean() if mean else total.sum()) / psi)

    def rival(self, sentence: int) -> tuple[int, ...]:
        """The best wrong label sequence; the gold one where there is no other."""
        gold = self.case.gold(sentence)
        return max((x for x in self.paths[sentence] if x[1] != gold), default=(0.0, gold))[1]


def spans_of(labels: Sequence[int]) -> list[tuple[int, int, str]]:
    """Spans of one sentence under IOB2 rules: written here again, as an oracle."""
    names = [LABELS[i] for i in labels]
    found = []
    for k, name in enumerate(names):
        if not name.startswith("B-"):
            # An I- without its B- begins a span as well, as conlleval reads it.
            before = names[k - 1] if k else "O"
            if not name.startswith("I-") or before[2:] == name[2:]:
                continue
        end = k + 1
        while end < len(names) and names[end] == "I-" + name[2:]:
            end += 1
        found.append((k, end, name[2:]))
    return found


def slopes(function: Any, theta: Floats, directions: Floats) -> Floats:
    """Central differences along some directions."""
    step = 1e-6
    ends = [[function(theta + s * step * d)[0] for s in (1, -1)] for d in directions]
    return np.asarray([(up - down) / (2 * step) for up, down in ends])

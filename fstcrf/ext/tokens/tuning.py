"""Goals of tuning on held-out data, and its steps: thresholds by type, biases in sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import OptionError
from fstcrf.evaluate import SpanScore
from fstcrf.ext.calibration.events import Events
from fstcrf.ext.tokens.biases import TransitionBiases

Metric: TypeAlias = Literal["f", "precision", "recall"]

_RATES = np.linspace(0.0, 1.0, 401)
"""Prices of a span found, in right ones, that are tried."""
_STEPS = (2.0, 1.0, 0.5, 0.25)
_GAIN = 1e-4
"""The minimum gain of a change of a bias."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of tuning.

    Parameters
    ----------
    metric : {"f", "precision", "recall"}
        "precision" is wanted at a recall of at least `least`, "recall" at a precision.
    least : float
        0 to 1.
    beta : float
        Weight of recall in F.
    """

    metric: Metric
    least: float = 0.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        if self.metric not in get_args(Metric):
            raise OptionError(f"goal is {self.metric!r}, expected 'f', 'precision' or 'recall'")
        if not 0.0 <= self.least <= 1.0 or not 0.0 < self.beta < np.inf:
            raise OptionError(
                f"least={self.least}, beta={self.beta}: expected 0 to 1, and a number above 0"
            )
        if (self.metric == "f") != (self.least == 0.0):
            other = "recall" if self.metric == "precision" else "precision"
            what = "F has no least value" if self.metric == "f" else f"say the least {other}"
            raise OptionError(f"goal {self.metric!r}, least={self.least}: {what}")

    def value(self, score: SpanScore) -> float:
        """Return the value of a result; below 0 if `least` is not reached."""
        if self.metric == "f":
            return replace(score, beta=self.beta).f
        wanted, other = score.precision, score.recall
        if self.metric == "recall":
            wanted, other = other, wanted
        return wanted if other >= self.least else other - self.least


def best_thresholds(
    events: Events, goal: Goal, *, least: int = 20, floor: float = 0.01
) -> tuple[dict[str, float], SpanScore]:
    """Return the best thresholds for a goal, and their results.

    With a price λ for every found span, each type separately has the threshold that maximises right
    − λ · found; some λ achieves the optimum for every goal here (for F, it is F / 2 at the
    optimum).

    Parameters
    ----------
    events : Events
        Of held-out documents.
    goal : Goal
    least : int
        Minimum number of events for a threshold of a type; other types share the threshold of all
        events.
    floor : float
        The least threshold.
    """
    parts = [events.of_type(name) for name in events.types]
    own = [len(part) >= least for part in parts]
    tables = [_Cuts.of(part) for part in parts]
    shared = _Cuts.of(events)
    gold = int(events.correct.sum() + events.missed.sum())
    best: tuple[float, dict[str, float], SpanScore] | None = None
    for rate in _RATES.tolist():
        common = shared.threshold(shared.best(rate), floor)
        found, right, chosen = 0, 0, {}
        for name, table, alone in zip(events.types, tables, own, strict=True):
            cut = table.best(rate) if alone else table.reach(common)
            chosen[name] = table.threshold(cut, floor) if alone else common
            found, right = found + int(table.found[cut]), right + int(table.right[cut])
        score = SpanScore(right, found, gold)
        value = goal.value(score)
        if best is None or value > best[0] + 1e-12:
            best = value, chosen, score
    assert best is not None  # noqa: S101 (there are rates)
    return best[1], best[2]


@dataclass(frozen=True, eq=False, slots=True)
class _Cuts:
    """Events of a type by descending probability, with the number of found spans at each."""

    probability: Floats
    found: Longs
    right: Longs

    @classmethod
    def of(cls, events: Events) -> _Cuts:
        order = np.argsort(-events.probability, kind="stable")
        p, right = events.probability[order], np.cumsum(events.correct[order], dtype=np.int64)
        last = np.flatnonzero(np.append(p[1:] < p[:-1], len(p) > 0))  # of equals
        zero = np.zeros(1, dtype=np.int64)
        return cls(p[last], np.concatenate([zero, last + 1]), np.concatenate([zero, right[last]]))

    def best(self, rate: float) -> int:
        """Return the number of different probabilities above the best threshold at a price."""
        return int(np.argmax(self.right - rate * self.found))

    def reach(self, threshold: float) -> int:
        """Return the number of different probabilities at or above a threshold."""
        return int((self.probability >= threshold).sum())

    def threshold(self, cut: int, floor: float) -> float:
        """Return a threshold between the last that is taken and the next one."""
        above = float(self.probability[cut - 1]) if cut else 1.0
        below = float(self.probability[cut]) if cut < len(self.probability) else floor
        return min(1.0, max(floor, (above + below) / 2))


def searched_biases(
    start: TransitionBiases, value: Callable[[TransitionBiases], float], names: tuple[str, ...]
) -> TransitionBiases:
    """Return biases of a large value: one at a time is changed, by 2, 1, 0.5, 0.25.

    Parameters
    ----------
    start : TransitionBiases
    value : callable
    names : tuple of str
        The biases that are changed.
    """
    best, reached = start, value(start)
    for step in _STEPS:
        moved = True
        while moved:
            moved = False
            for name in names:
                for sign in (1.0, -1.0):
                    trial = replace(best, **{name: getattr(best, name) + sign * step})
                    got = value(trial)
                    if got > reached + _GAIN:
                        best, reached, moved = trial, got, True
                        break
    return best

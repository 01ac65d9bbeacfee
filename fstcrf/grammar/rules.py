"""The rules of the constraints: how often which events, and in which order."""

from __future__ import annotations

import numpy as np

from fstcrf.grammar.monitor import Counts, Rule

__all__ = [
    "at_least",
    "at_most",
    "before",
    "end_with",
    "exactly",
    "never",
    "requires",
    "start_with",
]


def never() -> Rule:
    """Return the rule that an event is not seen, at the end neither."""
    return Rule(_counts([[0, 0]]), _counts([[0, 1]]), _counts([[0, 1]]))


def at_most(k: int) -> Rule:
    """Return the rule that an event is seen k times or less; each further time breaks it."""
    broken = np.zeros((k + 1, 2), dtype=np.int64)
    broken[k, 1] = 1
    return Rule(_counter(k), broken, np.zeros(k + 1, dtype=np.int64))


def at_least(k: int) -> Rule:
    """Return the rule that an event is seen k times or more; each missing time breaks it."""
    return Rule(_counter(k), np.zeros((k + 1, 2), dtype=np.int64), k - np.arange(k + 1))


def exactly(k: int) -> Rule:
    """Return the rule that an event is seen k times; each further or missing time breaks it."""
    return Rule(_counter(k), at_most(k).broken, at_least(k).broken_at_end)


def before() -> Rule:
    """Return the rule that the first event is not seen once the second was."""
    return Rule(_counts([[0, 0, 1, 1], [1, 1, 1, 1]]), _counts([[0] * 4, [0, 1, 0, 1]]), _zeros(2))


def requires() -> Rule:
    """Return the rule that the second event is seen, before or after, where the first is."""
    target = _counts([[0, 1, 2, 2], [1, 1, 2, 2], [2, 2, 2, 2]])
    return Rule(target, np.zeros_like(target), _counts([0, 1, 0]))


def start_with() -> Rule:
    """Return the rule that the event is seen at the first token."""
    return Rule(_counts([[1, 1], [1, 1]]), _counts([[1, 0], [0, 0]]), _counts([1, 0]))


def end_with() -> Rule:
    """Return the rule that the event is seen at the last token."""
    return Rule(_counts([[0, 1], [0, 1]]), _counts([[0, 0], [0, 0]]), _counts([1, 0]))


def _counter(k: int) -> Counts:
    now = np.arange(k + 1)
    return np.column_stack([now, np.minimum(now + 1, k)])


def _counts(values: list[list[int]] | list[int]) -> Counts:
    return np.asarray(values, dtype=np.int64)


def _zeros(n: int) -> Counts:
    return np.zeros(n, dtype=np.int64)

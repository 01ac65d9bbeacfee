"""The choice of spans: probable enough for their type, without overlaps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np

from fstcrf.arguments import real_number
from fstcrf.errors import OptionError
from fstcrf.text.corpus import Span

Thresholds: TypeAlias = float | Mapping[str, float | None]
"""One for all types, or one for each type; `None` for never."""

FLOOR = 0.01
"""Spans of a lower probability are never found."""
LIKELY = 0.5
"""Threshold of a type without a given one."""
_ROUNDING = 1e-12


def checked_thresholds(
    thresholds: Thresholds | None, types: tuple[str, ...]
) -> dict[str, float | None] | None:
    """Return thresholds by type; OptionError for a type or a number that cannot be."""
    if thresholds is None:
        return None
    if not isinstance(thresholds, Mapping):
        thresholds = dict.fromkeys(types, thresholds)
    found: dict[str, float | None] = {}
    known = frozenset(types)
    for kind, value in thresholds.items():
        if kind not in known:
            raise OptionError(f"thresholds: no type {kind!r}; the types are {', '.join(types)}")
        number = None if value is None else real_number(value, f"the threshold of {kind}")
        if number is not None and not FLOOR <= number <= 1.0:
            raise OptionError(f"the threshold of {kind} is {value}, expected {FLOOR} to 1, or None")
        found[kind] = number
    return found


def least_threshold(thresholds: Iterable[float | None]) -> float:
    """Return the probability above which a span may reach one of the thresholds."""
    least = min([t for t in thresholds if t is not None], default=1.0)
    return float(np.nextafter(max(FLOOR, least * (1.0 - _ROUNDING)), 0.0))


def chosen(
    found: Iterable[tuple[Span, float]], threshold: Callable[[str], float | None]
) -> list[tuple[Span, float]]:
    """Return spans at or above the thresholds of their types, in order.

    Among overlapping spans, the spans with the largest sum of probability − threshold are chosen,
    by weighted interval scheduling.
    """
    kept = []
    for span, p in found:
        least = threshold(span.type)
        if least is not None and p >= least * (1.0 - _ROUNDING):
            kept.append((span, p, max(p - least, 0.0) + _ROUNDING))
    kept.sort(key=lambda one: (one[0].end, one[0].start, one[0].type))
    ends = [span.end for span, _, _ in kept]
    before = [bisect_right(ends, span.start) for span, _, _ in kept]
    total = [0.0]
    for earlier, (_, _, gain) in zip(before, kept, strict=True):
        total.append(max(total[-1], total[earlier] + gain))
    taken, i = [], len(kept)
    while i:
        if total[i] > total[i - 1]:
            taken.append(kept[i - 1][:2])
            i = before[i - 1]
        else:
            i -= 1
    return taken[::-1]

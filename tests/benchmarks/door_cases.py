"""Inputs of doors, and how they are measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fstcrf import Transducer
from tests.benchmarks.door_table import case
from tests.benchmarks.running import least_seconds
from tests.benchmarks.work import seconds_of

CALLS = 1_000
_SHORT = 4e-4  # seconds of an answer whose percentiles are measured
POOL = 12
_LEAST, _MOST = 3, 200  # rounds

Ask = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """An input of a door.

    Parameters
    ----------
    door, text : str
    asks : tuple of callable
        The question and, if there is one, the other question.
    near : bool
        A neighbour, which no limit judges.
    before : float, optional
        What the ratio was before; it becomes 1.
    calls : bool
        May be asked a thousand times; if not, at most `POOL` + 5 times.
    """

    door: str
    text: str
    asks: tuple[Ask, ...]
    near: bool = False
    before: float = 1.0
    calls: bool = True


def measured(rows: Iterable[Row], seconds: float) -> list[dict[str, Any]]:
    """Return the cases of some rows, each measured when it is made for so many seconds."""
    return [_measured(row, seconds) for row in rows]


def _measured(row: Row, seconds: float) -> dict[str, Any]:
    first, *_ = [seconds_of(ask) for ask in row.asks]
    second = sum(seconds_of(ask) for ask in row.asks)
    rounds = min(_MOST if row.calls else POOL, max(_LEAST, int(seconds / second)))
    own, *other = least_seconds(rounds if seconds else 1, *row.asks)
    several = percentiles([row.asks[0]] * CALLS) if row.calls and seconds and own < _SHORT else {}
    found = case(row.door, row.text, first, own, *other, near=row.near, before=row.before)
    return found | several


def percentiles(asks: Sequence[Ask]) -> dict[str, float]:
    """Return the median and the 99th percentile of the seconds of some calls."""
    p50, p99 = np.percentile([seconds_of(ask) for ask in asks], [50, 99]).tolist()
    return {"p50_s": p50, "p99_s": p99}


def calls_of(ask: Callable[[Any], object], text: Sequence[Any]) -> list[Ask]:
    """Return `CALLS` calls, one for each sentence in turn."""
    return [partial(ask, one) for one in itertools.islice(itertools.cycle(text), CALLS)]


def names(n: int) -> list[str]:
    """Return labels."""
    return [f"l{k}" for k in range(n)]


def scores(*shape: int, spread: float = 1.0) -> Any:
    """Return normal scores; flat ones have a spread of 0, confident ones one of 8."""
    return spread * np.random.default_rng(0).normal(size=shape)


def drawn(labels: list[str], states: int) -> Transducer:
    """Return a transducer with two arcs a state and label; half of them write nothing."""
    rng = np.random.default_rng(0)
    arcs = [
        f"{q} {to} {label} {written} {rng.random():.3f}"
        for q in range(states)
        for label in labels
        for to, written in zip(
            rng.choice(states, 2, replace=False),
            rng.choice(["<eps>", "x0", "x1", "x2"], 2, p=[0.5, *[1 / 6] * 3]),
            strict=True,
        )
    ]
    return Transducer.from_text("\n".join([*arcs, *map(str, range(states))]), tape="out")

"""The quality of a model's probabilities for its users: tables of recipes.

Spans with probabilities are compared with gold spans: the distance of probabilities from
frequencies, before and after scores are divided by one temperature; precision and recall of spans
above a threshold; and the F of the best of n labellings.

The calibration error of all spans above a small probability is smaller if many of them are
improbable, and so rarely wrong. Tables therefore also have the error of spans above a half, and the
Brier score of a gold span, which do not have this property.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from fstcrf.evaluate import best_of, span_counts
from fstcrf.ext.calibration import Events, fit_temperature, reliability, span_events
from fstcrf.lattices import Lattice, nbest
from fstcrf.recipes.report import number, prose, spread, table

BEST = (1, 5, 20)  # numbers of labellings that an oracle chooses from
THRESHOLDS = (0.5, 0.9, 0.99)  # least probabilities of spans that are kept
BINS = 15
_ABOVE = 0.01


class ConfidentSpans(msgspec.Struct, frozen=True):
    precision: float | None  # share of right spans, percent; `None` without spans
    recall: float  # share of the gold spans that is among them, percent


class Worth(msgspec.Struct, frozen=True):
    """The quality of one model's probabilities on one text."""

    error: float  # expected calibration error of spans above 0.01, in 15 bins
    likely: float  # the same for spans with a probability of at least 0.5
    brier: float  # (probability − right)², and 1 for each gold span below 0.01, per gold span
    spans: float  # above 0.01, per gold span
    temperature: float | None  # divisor of scores, fitted on other text
    tempered: float | None  # expected calibration error after that
    kept: list[ConfidentSpans]  # for each of the `THRESHOLDS`, before any temperature
    oracle: list[float]  # F, percent, of the best of n labellings, for each n of `BEST`


Labels = Sequence[Sequence[str]]


def worth(
    lattices: Sequence[Lattice],
    gold: Labels,
    other: tuple[Sequence[Lattice], Labels] | None = None,
    *,
    threads: int = 1,
) -> Worth:
    """Measure probabilities; `other` is text that training did not see, for the temperature."""
    events = span_events(lattices, gold, above=_ABOVE, threads=threads)
    temperature = tempered = None
    if other is not None:
        temperature = fit_temperature(*other, threads=threads)
        cooler = [lattice.weighted(1.0 / temperature) for lattice in lattices]
        tempered = _error(span_events(cooler, gold, above=_ABOVE, threads=threads))
    wanted = max(int(events.correct.sum() + events.missed.sum()), 1)
    wrong = np.square(events.probability - events.correct).sum() + events.missed.sum()
    return Worth(
        error=_error(events),
        likely=_error(events.taken(np.flatnonzero(events.probability >= 0.5))),
        brier=float(wrong) / wanted,
        spans=len(events) / wanted,
        temperature=temperature,
        tempered=tempered,
        kept=[_kept(events, threshold) for threshold in THRESHOLDS],
        oracle=oracle_f(lattices, gold, threads=threads),
    )


def calibration_error(lattices: Sequence[Lattice], gold: Labels, *, threads: int = 1) -> float:
    """Return only the expected calibration error of spans above 0.01, in 15 bins."""
    return _error(span_events(lattices, gold, above=_ABOVE, threads=threads))


def _error(events: Events) -> float:
    return reliability(events, bins=BINS).error if len(events) else 0.0


def _kept(events: Events, threshold: float) -> ConfidentSpans:
    among = events.probability >= threshold
    right = int(events.correct[among].sum())
    wanted = int(events.correct.sum() + events.missed.sum())
    precision = 100.0 * right / int(among.sum()) if among.any() else None
    return ConfidentSpans(precision, 100.0 * right / max(wanted, 1))


def oracle_f(lattices: Sequence[Lattice], gold: Labels, *, threads: int = 1) -> list[float]:
    """Return F, percent, of the best of the n best labellings, for each n of `BEST`."""
    ranked = [
        [path.labels for path in paths] for paths in nbest(lattices, max(BEST), threads=threads)
    ]
    chosen = (best_of(gold, [several[:n] for several in ranked]) for n in BEST)
    return [100.0 * span_counts(gold, labels).f for labels in chosen]


def worth_table(
    found: Mapping[str, Worth], errors: Mapping[str, Sequence[float]] | None = None
) -> str:
    """Write the quality of several models' probabilities; `errors` has values of several runs."""
    runs = {} if errors is None else errors
    head = ["", "calibration error", "spans", "of p ≥ 0.5", "Brier"]
    head += ["temperature", "error after it"]
    head += [f"p ≥ {threshold:g}: precision (recall), %" for threshold in THRESHOLDS]
    head += [f"F of the best of {n}, %" for n in BEST[1:]]
    rows = [[name, *_cells(one, runs.get(name, ()))] for name, one in found.items()]
    return f"{prose('probabilities/reading', above=_ABOVE)}\n\n{table(head, rows)}"


def _cells(one: Worth, errors: Sequence[float]) -> list[str]:
    kept = [f"{number(k.precision)} ({number(k.recall)})" for k in one.kept]
    error = spread(errors if len(errors) > 1 else [one.error], number)
    numbers = map(number, (one.spans, one.likely, one.brier, one.temperature, one.tempered))
    return [error, *numbers, *kept, *map(number, one.oracle[1:])]

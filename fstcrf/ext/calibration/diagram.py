"""The distance of probabilities from frequencies, and thresholds for a given precision."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from fstcrf.arrays import Floats, Longs, distinct
from fstcrf.errors import OptionError
from fstcrf.ext.calibration.events import Events
from fstcrf.files import atomic_write
from fstcrf.lazy import optional

_NEEDED = "reliability diagrams need matplotlib: pip install fstcrf[recipes]"
_LEAST = 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class Reliability:
    """A reliability diagram in numbers: mean probability against frequency, bin by bin.

    Parameters
    ----------
    edges : float64 [K + 1]
        Bounds of the bins; bin k contains edges[k] < p ≤ edges[k + 1], and the first one also
        contains 0.
    count : int64 [K]
        Events.
    claimed, true : float64 [K]
        Mean probability, and the share that is correct; NaN of an empty bin.
    brier : float
        Mean square of probability − outcome.
    log_loss : float
        Mean −log probability of the outcome, in nats.
    """

    edges: Floats
    count: Longs
    claimed: Floats
    true: Floats
    brier: float
    log_loss: float

    @property
    def error(self) -> float:
        """Expected calibration error: |claimed − true|, averaged over events."""
        return float(self._gaps() @ self.count) / max(1, int(self.count.sum()))

    @property
    def largest(self) -> float:
        """The largest |claimed − true| of a bin."""
        return float(self._gaps().max(initial=0.0))

    def _gaps(self) -> Floats:
        return np.where(self.count > 0, np.abs(self.claimed - self.true), 0.0)

    def __str__(self) -> str:
        """Return a line for each bin that is not empty, then the errors."""
        lines = [f"{'probability':>13} {'events':>8} {'claimed':>8} {'true':>8}"]
        for k in np.flatnonzero(self.count).tolist():
            low, high = self.edges[k], self.edges[k + 1]
            lines.append(
                f"{low:6.3f}-{high:.3f} {self.count[k]:>9} {self.claimed[k]:>8.3f} "
                f"{self.true[k]:>8.3f}"
            )
        lines.append(
            f"expected calibration error {self.error:.4f}, largest {self.largest:.4f}, "
            f"Brier {self.brier:.4f}, log loss {self.log_loss:.4f}"
        )
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str], *, title: str = "") -> None:
        """Write the diagram as a picture in PNG, SVG or PDF, by the ending of the file name.

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        """
        figures = optional("matplotlib.figure", _NEEDED)
        figure = figures.Figure(figsize=(4.5, 4.5), layout="constrained")
        axes = figure.add_subplot(xlabel="claimed probability", ylabel="share correct", title=title)
        there = self.count > 0
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        axes.plot(self.claimed[there], self.true[there], marker="o")
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        kind = Path(path).suffix[1:] or "png"
        known = {"Date": None} if kind == "svg" else None  # equal diagrams are equal bytes
        salted = optional("matplotlib", _NEEDED).rc_context({"svg.hashsalt": "fstcrf"})
        with atomic_write(path) as file, salted:
            figure.savefig(file, format=kind, metadata=known)


def reliability(
    events: Events, *, bins: int = 10, by: Literal["width", "count"] = "width"
) -> Reliability:
    """Return the reliability diagram of probabilities.

    Parameters
    ----------
    events : Events
        Held-out events, not the ones that a calibration was fitted to.
    bins : int
    by : {"width", "count"}
        Bins of equal width, or with about the same number of events.

    Raises
    ------
    OptionError
        No bins, or another choice; no events.

    Examples
    --------
    >>> events = Events.of([0.2, 0.2, 0.9, 0.9], [False, False, True, False])
    >>> print(reliability(events, bins=2))
      probability   events  claimed     true
     0.000-0.500         2    0.200    0.000
     0.500-1.000         2    0.900    0.500
    expected calibration error 0.3000, largest 0.4000, Brier 0.2250, log loss 0.7136
    """
    if bins < 1 or by not in ("width", "count"):
        raise OptionError(f"bins={bins}, by={by!r}: expected bins from 1, by 'width' or 'count'")
    if not len(events):
        raise OptionError("no events to compare probabilities with: give at least one event")
    p, right = events.probability, events.correct.astype(np.float64)
    edges = np.linspace(0.0, 1.0, bins + 1)
    if by == "count":
        edges = distinct(np.quantile(p, edges[1:-1], method="lower"))
        edges = distinct(np.concatenate([[0.0], edges, [1.0]]))
    number = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, len(edges) - 2)
    count = np.bincount(number, minlength=len(edges) - 1)
    with np.errstate(invalid="ignore"):
        claimed = np.bincount(number, p, len(count)) / count
        true = np.bincount(number, right, len(count)) / count
    outcome = np.clip(np.where(events.correct, p, 1.0 - p), _LEAST, 1.0)
    return Reliability(
        edges,
        count.astype(np.int64),
        claimed,
        true,
        float(((p - right) ** 2).mean()),
        float(-np.log(outcome).mean()),
    )


def precision_thresholds(
    events: Events, precision: float, *, level: float | None = None, least: int = 1
) -> dict[str, float | None]:
    """Return for each type the least probability from which events are precise enough.

    Parameters
    ----------
    events : Events
        Held-out ones.
    precision : float
        Share of correct ones among those at or above the threshold, 0 to 1.
    level : float, optional
        0.95: not the share itself, but its lower bound that holds 19 times of 20 (Clopper and
        Pearson 1934) is large enough. The thresholds are the safer the less data there is.
    least : int
        Events at or above a threshold.

    Returns
    -------
    dict of str to float or None
        `None` if no threshold suffices.

    Raises
    ------
    OptionError
        Numbers outside their range.
    """
    if not (0.0 < precision <= 1.0 and (level is None or 0.5 < level < 1.0) and least >= 1):
        raise OptionError(
            f"precision={precision}, level={level}, least={least}: expected a precision above 0 "
            "up to 1, a level between 0.5 and 1, and a count from 1"
        )
    return {
        name: _threshold(events.of_type(name), precision, level, least) for name in events.types
    }


def _threshold(events: Events, precision: float, level: float | None, least: int) -> float | None:
    order = np.argsort(-events.probability, kind="stable")
    p, right = events.probability[order], np.cumsum(events.correct[order], dtype=np.int64)
    kept = np.arange(1, len(p) + 1)
    share = right / kept if level is None else _lower_bounds(right, kept, level)
    last = np.append(p[1:] < p[:-1], True) if len(p) else np.empty(0, dtype=bool)  # of equals
    good = np.flatnonzero(last & (share >= precision - 1e-12) & (kept >= least))
    return float(p[good[-1]]) if len(good) else None


def _lower_bounds(right: Longs, kept: Longs, level: float) -> Floats:
    from scipy.stats import beta  # noqa: PLC0415 (slow to import)

    wrong = kept - right
    found = beta.ppf(1.0 - level, right, wrong + 1.0)
    return np.where(right > 0, found, 0.0)

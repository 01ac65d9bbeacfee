"""Confidence that one can use: calibration, reliability, thresholds, and what to label next."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.calibration.curves import Calibration, Isotonic, LogOdds, fit_temperature
    from fstcrf.ext.calibration.diagram import Reliability, precision_thresholds, reliability
    from fstcrf.ext.calibration.events import Events, label_events, lattices_of, span_events
    from fstcrf.ext.calibration.queries import select_batch, uncertainty

__all__ = [
    "Calibration",
    "Events",
    "Isotonic",
    "LogOdds",
    "Reliability",
    "fit_temperature",
    "label_events",
    "lattices_of",
    "precision_thresholds",
    "reliability",
    "select_batch",
    "span_events",
    "uncertainty",
]

__getattr__ = importer(
    __name__,
    {
        "Calibration": "curves",
        "Isotonic": "curves",
        "Events": "events",
        "LogOdds": "curves",
        "Reliability": "diagram",
        "fit_temperature": "curves",
        "label_events": "events",
        "lattices_of": "events",
        "precision_thresholds": "diagram",
        "reliability": "diagram",
        "select_batch": "queries",
        "span_events": "events",
        "uncertainty": "queries",
    },
)

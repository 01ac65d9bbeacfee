"""Usable confidence: calibration, reliability, thresholds, and the choice of sentences to label."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.calibration.curves import Calibration as Calibration
    from fstcrf.ext.calibration.curves import Isotonic as Isotonic
    from fstcrf.ext.calibration.curves import LogOdds as LogOdds
    from fstcrf.ext.calibration.curves import fit_temperature as fit_temperature
    from fstcrf.ext.calibration.diagram import Reliability as Reliability
    from fstcrf.ext.calibration.diagram import precision_thresholds as precision_thresholds
    from fstcrf.ext.calibration.diagram import reliability as reliability
    from fstcrf.ext.calibration.events import Events as Events
    from fstcrf.ext.calibration.events import label_events as label_events
    from fstcrf.ext.calibration.events import lattices_of as lattices_of
    from fstcrf.ext.calibration.events import span_events as span_events
    from fstcrf.ext.calibration.queries import select_batch as select_batch
    from fstcrf.ext.calibration.queries import uncertainty as uncertainty

__all__, __getattr__ = importer(
    __name__,
    {
        "curves": "Calibration Isotonic LogOdds fit_temperature",
        "diagram": "Reliability precision_thresholds reliability",
        "events": "Events label_events lattices_of span_events",
        "queries": "select_batch uncertainty",
    },
)

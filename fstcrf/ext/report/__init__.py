"""What a tagger gets wrong on text with gold labels, and how sure it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.report.findings import Analysis, ErrorFound, Repair, TypeScore, analyse
    from fstcrf.ext.report.history import History
    from fstcrf.ext.report.page import report_page, write_figures

__all__ = [
    "Analysis",
    "ErrorFound",
    "History",
    "Repair",
    "TypeScore",
    "analyse",
    "report_page",
    "write_figures",
]

__getattr__ = importer(
    __name__,
    {
        "Analysis": "findings",
        "ErrorFound": "findings",
        "History": "history",
        "Repair": "findings",
        "TypeScore": "findings",
        "analyse": "findings",
        "report_page": "page",
        "write_figures": "page",
    },
)

"""The errors of a tagger on text with gold labels, and its confidence."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.report.findings import Analysis as Analysis
    from fstcrf.ext.report.findings import ErrorFound as ErrorFound
    from fstcrf.ext.report.findings import Repair as Repair
    from fstcrf.ext.report.findings import TypeScore as TypeScore
    from fstcrf.ext.report.findings import analyse as analyse
    from fstcrf.ext.report.history import History as History
    from fstcrf.ext.report.page import report_page as report_page
    from fstcrf.ext.report.page import write_figures as write_figures

__all__, __getattr__ = importer(
    __name__,
    {
        "findings": "Analysis ErrorFound Repair TypeScore analyse",
        "history": "History",
        "page": "report_page write_figures",
    },
)

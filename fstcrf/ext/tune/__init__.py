"""Options of training, chosen on held-out data: the search is optuna's (extra ``tune``)."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.tune.search import Tuning, tune
    from fstcrf.ext.tune.study import Range, Trial

__all__ = ["Range", "Trial", "Tuning", "tune"]

__getattr__ = importer(
    __name__, {"Range": "study", "Trial": "study", "Tuning": "search", "tune": "search"}
)

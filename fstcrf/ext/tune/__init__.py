"""Options of training, chosen on held-out data: the search is optuna's (extra ``tune``)."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.hyperparameters.search import Tuning, tune
    from fstcrf.hyperparameters.study import Range, Trial

__all__ = ["Range", "Trial", "Tuning", "tune"]

__getattr__ = importer(
    __name__, {"Range": "study", "Trial": "study", "Tuning": "search", "tune": "search"}
)

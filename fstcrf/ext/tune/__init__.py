"""Options of training, chosen on held-out data: the search is optuna's (extra ``tune``)."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.tune.search import Tuning as Tuning
    from fstcrf.ext.tune.search import tune as tune
    from fstcrf.ext.tune.study import Range as Range
    from fstcrf.ext.tune.study import Trial as Trial

__all__, __getattr__ = importer(
    __name__,
    {
        "search": "Tuning tune",
        "study": "Range Trial",
    },
)

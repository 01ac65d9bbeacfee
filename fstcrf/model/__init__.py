"""topology + weights + index of attributes = CRF, a tagger.

==============  ==========================================================
CRF             tags, explains itself, trains, saves
load            a saved model
train_crf       what `CRF.train` is; its options
==============  ==========================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.model.crf import CRF
    from fstcrf.model.explain import Explanation, Push, Weight
    from fstcrf.model.file import load
    from fstcrf.model.options import Options
    from fstcrf.model.reading import Tape
    from fstcrf.model.record import TrainingRecord
    from fstcrf.model.training import train_crf

__all__ = [
    "CRF",
    "Explanation",
    "Options",
    "Push",
    "Tape",
    "TrainingRecord",
    "Weight",
    "load",
    "train_crf",
]

__getattr__ = importer(
    __name__,
    {
        "CRF": "crf",
        "Explanation": "explain",
        "Options": "options",
        "Push": "explain",
        "Tape": "reading",
        "TrainingRecord": "record",
        "Weight": "explain",
        "load": "file",
        "train_crf": "training",
    },
)

"""topology + weights + index of attributes = CRF, a tagger.

==============  ==========================================================
CRF             tags, explains itself, trains, saves
load            a saved model
train           what `CRF.train` calls; its options
==============  ==========================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.model.crf import CRF
    from fstcrf.model.explain import Explanation, Push, Weight
    from fstcrf.model.file import load
    from fstcrf.model.options import Options, TrainingRecord
    from fstcrf.model.reading import Tape
    from fstcrf.model.training import train

__all__ = [
    "CRF",
    "Explanation",
    "Options",
    "Push",
    "Tape",
    "TrainingRecord",
    "Weight",
    "load",
    "train",
]

__getattr__ = importer(
    __name__,
    {
        "CRF": "crf",
        "Explanation": "explain",
        "Options": "options",
        "Push": "explain",
        "Tape": "reading",
        "TrainingRecord": "options",
        "Weight": "explain",
        "load": "file",
        "train": "training",
    },
)

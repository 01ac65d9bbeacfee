"""topology + weights + index of attributes = a model, as data; `fstcrf.CRF` is one that tags.

==============  ==========================================================
Model           what a tagger is made of
train           what `CRF.train` calls; its options
==============  ==========================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.model.explain import Explanation, Push, Weight
    from fstcrf.model.model import Model
    from fstcrf.model.options import Options, TrainingRecord
    from fstcrf.model.reading import Tape
    from fstcrf.model.training import train

__all__ = [
    "Explanation",
    "Model",
    "Options",
    "Push",
    "Tape",
    "TrainingRecord",
    "Weight",
    "train",
]

__getattr__ = importer(
    __name__,
    {
        "Explanation": "explain",
        "Model": "model",
        "Options": "options",
        "Push": "explain",
        "Tape": "reading",
        "TrainingRecord": "options",
        "Weight": "explain",
        "train": "training",
    },
)

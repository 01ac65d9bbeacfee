"""topology + weights + index of attributes = a model, as data; `fstcrf.CRF` is one that tags."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.taggers.model.explain import Explanation, Push, Weight
    from fstcrf.taggers.model.model import Model, TrainingRecord
    from fstcrf.taggers.model.options import Options
    from fstcrf.taggers.model.reading import Tape
    from fstcrf.taggers.model.training import train_crf

__all__ = [
    "Explanation",
    "Model",
    "Options",
    "Push",
    "Tape",
    "TrainingRecord",
    "Weight",
    "train_crf",
]

__getattr__ = importer(
    __name__,
    {
        "Explanation": "explain",
        "Model": "model",
        "Options": "options",
        "Push": "explain",
        "Tape": "reading",
        "TrainingRecord": "model",
        "Weight": "explain",
        "train_crf": "training",
    },
)

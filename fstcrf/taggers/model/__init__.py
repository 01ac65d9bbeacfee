"""topology + weights + index of attributes = a model, as data; `fstcrf.CRF` is one that tags."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.explain.pushes import Explanation as Explanation
    from fstcrf.ext.explain.pushes import Push as Push
    from fstcrf.ext.explain.pushes import Weight as Weight
    from fstcrf.taggers.model.model import Model as Model
    from fstcrf.taggers.model.model import TrainingRecord as TrainingRecord
    from fstcrf.taggers.model.options import Options as Options
    from fstcrf.taggers.model.reading import Tape as Tape
    from fstcrf.taggers.model.training import train_crf as train_crf

__all__, __getattr__ = importer(
    __name__,
    {
        "fstcrf.ext.explain.pushes": "Explanation Push Weight",
        "model": "Model TrainingRecord",
        "options": "Options",
        "reading": "Tape",
        "training": "train_crf",
    },
)

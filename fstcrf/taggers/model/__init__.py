"""A conditional random field: topology, weights, index of attributes, and its training."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.explain.pushes import Explanation as Explanation
    from fstcrf.ext.explain.pushes import Push as Push
    from fstcrf.ext.explain.pushes import Weight as Weight
    from fstcrf.taggers.model.crf import TrainingRecord as TrainingRecord
    from fstcrf.taggers.model.options import Options as Options
    from fstcrf.taggers.model.training import train_crf as train_crf
    from fstcrf.taggers.reading import Tape as Tape

__all__, __getattr__ = importer(
    __name__,
    {
        "fstcrf.ext.explain.pushes": "Explanation Push Weight",
        "crf": "TrainingRecord",
        "options": "Options",
        "fstcrf.taggers.reading": "Tape",
        "training": "train_crf",
    },
)

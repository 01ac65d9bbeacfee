"""topology + weights + index of attributes = CRF, a tagger.

==============  ==========================================================
CRF             tags, explains itself, trains, saves
load            a saved model
train           what `CRF.train` calls; its options
==============  ==========================================================
"""

from fstcrf.model.crf import CRF, Tape
from fstcrf.model.explain import Explanation, Push, Weight
from fstcrf.model.file import load
from fstcrf.model.options import Options, TrainingRecord
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

"""Taggers: a conditional random field, and several of them composed, decoded together exactly."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.taggers.composition import compose as compose
    from fstcrf.taggers.explain import JointExplanation as JointExplanation
    from fstcrf.taggers.tagger import Composition as Composition
    from fstcrf.taggers.tagger import Tagger as Tagger
    from fstcrf.taggers.taggers import CRF as CRF
    from fstcrf.taggers.taggers import JointCRF as JointCRF
    from fstcrf.taggers.taggers import load as load
    from fstcrf.taggers.tuning import WEIGHT_GRID as WEIGHT_GRID
    from fstcrf.taggers.tuning import WeightTrial as WeightTrial
    from fstcrf.taggers.tuning import tune_weights as tune_weights

__all__, __getattr__ = importer(
    __name__,
    {
        "composition": "compose",
        "explain": "JointExplanation",
        "tagger": "Composition Tagger",
        "taggers": "CRF JointCRF load",
        "tuning": "WEIGHT_GRID WeightTrial tune_weights",
    },
)

"""Taggers: a conditional random field, and several of them composed, decoded together exactly."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.explain.joint import JointExplanation as JointExplanation
    from fstcrf.ext.explain.pushes import Explanation as Explanation
    from fstcrf.ext.explain.pushes import Push as Push
    from fstcrf.ext.explain.pushes import Weight as Weight
    from fstcrf.ext.tune.weights import WEIGHT_GRID as WEIGHT_GRID
    from fstcrf.ext.tune.weights import WeightTrial as WeightTrial
    from fstcrf.ext.tune.weights import tune_weights as tune_weights
    from fstcrf.taggers.composition import compose as compose
    from fstcrf.taggers.crf import CRF as CRF
    from fstcrf.taggers.joint import JointCRF as JointCRF
    from fstcrf.taggers.joint import load as load
    from fstcrf.taggers.tagger import Composition as Composition
    from fstcrf.taggers.tagger import Tagger as Tagger
    from fstcrf.text.sentences import Tape as Tape

__all__, __getattr__ = importer(
    __name__,
    {
        "composition": "compose",
        "fstcrf.ext.explain.joint": "JointExplanation",
        "fstcrf.ext.explain.pushes": "Explanation Push Weight",
        "tagger": "Composition Tagger",
        "joint": "JointCRF load",
        "crf": "CRF",
        "fstcrf.text.sentences": "Tape",
        "fstcrf.ext.tune.weights": "WEIGHT_GRID WeightTrial tune_weights",
    },
)

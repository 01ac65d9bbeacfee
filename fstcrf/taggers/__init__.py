"""Taggers: a conditional random field, and several of them composed, decoded together exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.taggers.composition import compose
    from fstcrf.taggers.explain import JointExplanation
    from fstcrf.taggers.tagger import Composition, Tagger
    from fstcrf.taggers.taggers import CRF, JointCRF, load
    from fstcrf.taggers.tuning import WEIGHT_GRID, WeightTrial, tune_weights

__all__ = [
    "CRF",
    "WEIGHT_GRID",
    "Composition",
    "JointCRF",
    "JointExplanation",
    "Tagger",
    "WeightTrial",
    "compose",
    "load",
    "tune_weights",
]

__getattr__ = importer(
    __name__,
    {
        "CRF": "taggers",
        "Composition": "tagger",
        "JointCRF": "taggers",
        "JointExplanation": "explain",
        "Tagger": "tagger",
        "WEIGHT_GRID": "tuning",
        "WeightTrial": "tuning",
        "compose": "composition",
        "load": "taggers",
        "tune_weights": "tuning",
    },
)

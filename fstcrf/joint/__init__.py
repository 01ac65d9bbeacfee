"""Taggers: a conditional random field, and several of them composed, decoded together exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.joint.chainlattice import ChainLattice
    from fstcrf.joint.explain import JointExplanation
    from fstcrf.joint.tagger import Tagger
    from fstcrf.joint.taggers import CRF, Composition, compose, load
    from fstcrf.joint.tuning import WeightTrial, tune_weights

__all__ = [
    "CRF",
    "ChainLattice",
    "Composition",
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
        "ChainLattice": "chainlattice",
        "Composition": "taggers",
        "JointExplanation": "explain",
        "Tagger": "tagger",
        "WeightTrial": "tuning",
        "compose": "taggers",
        "load": "taggers",
        "tune_weights": "tuning",
    },
)

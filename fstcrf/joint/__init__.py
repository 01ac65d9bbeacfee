"""Taggers: a conditional random field, and several of them composed, decoded together exactly.

================  ==================================================================
CRF               a tagger of one tape
Composition       a tagger that decides several tapes
Tagger            what both are
compose           taggers, or lattices, as one
ChainLattice      one sentence under ``normalize="chain"``
JointExplanation  what pushed which label at a token, tape by tape
tune_weights      weights of taggers, chosen on held-out data; WeightTrial: what it reports
load              a tagger or a composition from its file
================  ==================================================================
"""

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

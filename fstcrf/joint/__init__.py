"""Taggers composed, decoded together exactly.

================  ==================================================================
compose           taggers, or lattices, as one
Composition       a tagger that decides several tapes
ChainLattice      one sentence under ``normalize="chain"``
JointExplanation  what pushed which label at a token, tape by tape
tune_weights      weights of taggers, chosen on held-out data; Trial: what it reports
load              a tagger or a composition from its file
================  ==================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.joint.chainlattice import ChainLattice
    from fstcrf.joint.composing import compose
    from fstcrf.joint.composition import Composition
    from fstcrf.joint.explain import JointExplanation
    from fstcrf.joint.file import load
    from fstcrf.joint.tuning import Trial, tune_weights

__all__ = [
    "ChainLattice",
    "Composition",
    "JointExplanation",
    "Trial",
    "compose",
    "load",
    "tune_weights",
]

__getattr__ = importer(
    __name__,
    {
        "ChainLattice": "chainlattice",
        "Composition": "composition",
        "JointExplanation": "explain",
        "Trial": "tuning",
        "compose": "composing",
        "load": "file",
        "tune_weights": "tuning",
    },
)

"""Objectives and optimisers of single papers: counts of errors, conjugate gradients, and more.

`objective` and `method` of a training name them; `fstcrf.training.methods` is the table of all.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.papers.conjugate_gradient import ConjugateGradient
    from fstcrf.ext.papers.errors import ClassificationError, Logistic, SegmentF, Sigmoid
    from fstcrf.ext.papers.gpd import GPD
    from fstcrf.ext.papers.weightwise import GIS, QuickProp

__all__ = [
    "GIS",
    "GPD",
    "ClassificationError",
    "ConjugateGradient",
    "Logistic",
    "QuickProp",
    "SegmentF",
    "Sigmoid",
]

_HOMES = {
    "conjugate_gradient": ("ConjugateGradient",),
    "errors": ("ClassificationError", "Logistic", "SegmentF", "Sigmoid"),
    "gpd": ("GPD",),
    "weightwise": ("GIS", "QuickProp"),
}

__getattr__ = importer(__name__, {name: home for home, names in _HOMES.items() for name in names})

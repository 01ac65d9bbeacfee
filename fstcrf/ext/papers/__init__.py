"""Objectives and optimisers of single papers: counts of errors, conjugate gradients, and more.

`objective` and `method` of a training name them; `fstcrf.training.methods` is the table of all.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.papers.conjugate_gradient import ConjugateGradient as ConjugateGradient
    from fstcrf.ext.papers.errors import ClassificationError as ClassificationError
    from fstcrf.ext.papers.errors import Logistic as Logistic
    from fstcrf.ext.papers.errors import SegmentF as SegmentF
    from fstcrf.ext.papers.errors import Sigmoid as Sigmoid
    from fstcrf.ext.papers.gpd import GPD as GPD
    from fstcrf.ext.papers.gpd import GPDOptimiser as GPDOptimiser
    from fstcrf.ext.papers.weightwise import GIS as GIS
    from fstcrf.ext.papers.weightwise import GISOptimiser as GISOptimiser
    from fstcrf.ext.papers.weightwise import QuickProp as QuickProp
    from fstcrf.ext.papers.weightwise import QuickPropOptimiser as QuickPropOptimiser

__all__, __getattr__ = importer(
    __name__,
    {
        "conjugate_gradient": "ConjugateGradient",
        "errors": "ClassificationError Logistic SegmentF Sigmoid",
        "gpd": "GPD GPDOptimiser",
        "weightwise": "GIS GISOptimiser QuickProp QuickPropOptimiser",
    },
)

"""Drop-in interfaces: what users of other packages import, on top of fstcrf.

=================  ==================================================================
pycrfsuite         python-crfsuite: ``Trainer``, ``Tagger``, ``ItemSequence``
sklearn_crfsuite   sklearn-crfsuite: ``CRF``, ``metrics``, ``scorers``
install            both take the place of the packages, for all later imports
=================  ==================================================================

::

    import sys, fstcrf.compat.pycrfsuite
    sys.modules["pycrfsuite"] = fstcrf.compat.pycrfsuite
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.compat import pycrfsuite, sklearn_crfsuite
    from fstcrf.compat.installing import install

__all__ = ["install", "pycrfsuite", "sklearn_crfsuite"]

__getattr__ = importer(
    __name__,
    {
        "install": "installing",
        "pycrfsuite": "pycrfsuite",
        "sklearn_crfsuite": "sklearn_crfsuite",
    },
)

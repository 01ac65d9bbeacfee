"""A drop-in for python-crfsuite: the same classes, methods and parameters, the same model files.

``sys.modules["pycrfsuite"] = fstcrf.ext.compat.pycrfsuite`` is all it takes to use it in a
program that imports pycrfsuite.
"""

from fstcrf.ext.compat.pycrfsuite import _dumpparser, _logparser, _pycrfsuite
from fstcrf.ext.compat.pycrfsuite.items import ItemSequence
from fstcrf.ext.compat.pycrfsuite.tagger import Tagger
from fstcrf.ext.compat.pycrfsuite.trainer import (
    CRFSUITE_VERSION,
    BaseTrainer,
    CRFSuiteError,
    Trainer,
)

__all__ = [
    "CRFSUITE_VERSION",
    "BaseTrainer",
    "CRFSuiteError",
    "ItemSequence",
    "Tagger",
    "Trainer",
    "_dumpparser",
    "_logparser",
    "_pycrfsuite",
]

"""A drop-in for python-crfsuite: the same classes, methods and parameters, the same model files.

==============  ==============================================================
Trainer         data in, model file out; tells ``on_*`` methods how it goes
BaseTrainer     the same without ``on_*``
Tagger          model file in; labels, probabilities, dumps
ItemSequence    the attributes of a sequence, read once
CRFSuiteError   training failed
==============  ==============================================================

``sys.modules["pycrfsuite"] = fstcrf.compat.pycrfsuite`` is all it takes to use it in a program that
imports pycrfsuite.
"""

from fstcrf.compat.pycrfsuite import _dumpparser, _logparser, _pycrfsuite
from fstcrf.compat.pycrfsuite.errors import CRFSuiteError
from fstcrf.compat.pycrfsuite.items import ItemSequence
from fstcrf.compat.pycrfsuite.tagger import Tagger
from fstcrf.compat.pycrfsuite.trainer import BaseTrainer, Trainer
from fstcrf.compat.pycrfsuite.version import CRFSUITE_VERSION

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

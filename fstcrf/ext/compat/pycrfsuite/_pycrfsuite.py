"""The compiled part of python-crfsuite, for programs that import from it."""

from fstcrf.ext.compat.pycrfsuite.items import ItemSequence
from fstcrf.ext.compat.pycrfsuite.tagger import Tagger
from fstcrf.ext.compat.pycrfsuite.trainer import (
    CRFSUITE_VERSION,
    BaseTrainer,
    CRFSuiteError,
    Trainer,
)

__all__ = ["CRFSUITE_VERSION", "BaseTrainer", "CRFSuiteError", "ItemSequence", "Tagger", "Trainer"]

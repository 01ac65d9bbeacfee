"""The compiled part of python-crfsuite, for those who import from it."""

from fstcrf.compat.pycrfsuite.items import ItemSequence
from fstcrf.compat.pycrfsuite.tagger import Tagger
from fstcrf.compat.pycrfsuite.trainer import CRFSUITE_VERSION, BaseTrainer, CRFSuiteError, Trainer

__all__ = ["CRFSUITE_VERSION", "BaseTrainer", "CRFSuiteError", "ItemSequence", "Tagger", "Trainer"]

"""The reader of training logs.

``pycrfsuite._logparser`` imports this file a second time under that name, so this file defines
nothing.
"""

from fstcrf.ext.compat.pycrfsuite.log import LabelScore, TrainLogParser

__all__ = ["LabelScore", "TrainLogParser"]

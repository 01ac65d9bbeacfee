"""The reader of training logs.

``pycrfsuite._logparser`` imports this file once more, under that name: so nothing is defined here.
"""

from fstcrf.ext.compat.pycrfsuite.log import LabelScore, TrainLogParser

__all__ = ["LabelScore", "TrainLogParser"]

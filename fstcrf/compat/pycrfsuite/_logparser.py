"""The reader of training logs.

As ``pycrfsuite._logparser`` this file is imported once more, under that name: so nothing is defined here.
"""

from fstcrf.compat.logtext import LabelScore, TrainLogParser

__all__ = ["LabelScore", "TrainLogParser"]

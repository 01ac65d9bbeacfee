"""The reader of training logs.

==============  ===========================================
TrainLogParser  a log, message by message → events, numbers
LabelScore      what a log says of one label
==============  ===========================================
"""

from fstcrf.compat.logtext import LabelScore, TrainLogParser

__all__ = ["LabelScore", "TrainLogParser"]

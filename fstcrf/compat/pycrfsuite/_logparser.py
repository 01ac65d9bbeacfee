"""The reader of training logs."""

from fstcrf.compat.logtext import LabelScore, TrainLogParser

__all__ = ["LabelScore", "TrainLogParser"]

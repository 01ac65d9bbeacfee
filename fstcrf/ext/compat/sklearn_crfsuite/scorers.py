"""Scorers for ``cross_val_score``, ``GridSearchCV`` and their like."""

from __future__ import annotations

from fstcrf.ext.compat.sklearn_crfsuite import metrics
from fstcrf.ext.compat.sklearn_crfsuite.utils import sklearn

__all__ = ["flat_accuracy", "sequence_accuracy"]

_make_scorer = sklearn("metrics").make_scorer

flat_accuracy = _make_scorer(metrics.flat_accuracy_score)
sequence_accuracy = _make_scorer(metrics.sequence_accuracy_score)

"""Scores of label sequences: scikit-learn's scores over all tokens, and accuracy of sequences.

Labels are scored token by token, ``O`` included; `fstcrf.evaluate_spans` scores spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from fstcrf.arrays import Floats
from fstcrf.errors import DataError
from fstcrf.ext.compat.sklearn_crfsuite.utils import flatten, sklearn

__all__ = [
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]

_metrics = sklearn("metrics")

Sequences: TypeAlias = Sequence[Sequence[Any]]
Scores: TypeAlias = float | Floats  # an array with one score for each label with average=None


def _flat(y_true: Sequences, y_pred: Sequences) -> tuple[list[Any], list[Any]]:
    _check_number(y_true, y_pred)
    for i, (gold, predicted) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(gold) != len(predicted):
            raise DataError(f"{len(predicted)} predicted labels for {len(gold)}", sentence=i)
    return flatten(y_true), flatten(y_pred)


def _check_number(y_true: Sequences, y_pred: Sequences) -> None:
    if len(y_true) != len(y_pred):
        raise DataError(f"{len(y_pred)} predicted sequences for {len(y_true)}")


def flat_accuracy_score(y_true: Sequences, y_pred: Sequences) -> float:
    """Return the share of tokens that are right, 0 to 1.

    Parameters
    ----------
    y_true, y_pred : sequence of sequences of labels
    """
    return float(_metrics.accuracy_score(*_flat(y_true, y_pred)))


def flat_precision_score(y_true: Sequences, y_pred: Sequences, **kwargs: object) -> Scores:
    """Return the precision of labels; arguments as for `sklearn.metrics.precision_score`."""
    found: Scores = _metrics.precision_score(*_flat(y_true, y_pred), **kwargs)
    return found


def flat_recall_score(y_true: Sequences, y_pred: Sequences, **kwargs: object) -> Scores:
    """Return the recall of labels; arguments as for `sklearn.metrics.recall_score`."""
    found: Scores = _metrics.recall_score(*_flat(y_true, y_pred), **kwargs)
    return found


def flat_f1_score(y_true: Sequences, y_pred: Sequences, **kwargs: object) -> Scores:
    """Return F1 of labels; arguments as for `sklearn.metrics.f1_score`."""
    found: Scores = _metrics.f1_score(*_flat(y_true, y_pred), **kwargs)
    return found


def flat_fbeta_score(y_true: Sequences, y_pred: Sequences, beta: float, **kwargs: object) -> Scores:
    """Return F of labels; arguments as for `sklearn.metrics.fbeta_score`."""
    found: Scores = _metrics.fbeta_score(*_flat(y_true, y_pred), beta=beta, **kwargs)
    return found


def flat_classification_report(
    y_true: Sequences, y_pred: Sequences, labels: Sequence[str] | None = None, **kwargs: object
) -> Any:
    """Return all scores; arguments as for `sklearn.metrics.classification_report`."""
    return _metrics.classification_report(*_flat(y_true, y_pred), labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Sequences, y_pred: Sequences) -> float:
    """Return the share of sequences that are right in all tokens, 0 to 1; 0 without sequences."""
    _check_number(y_true, y_pred)
    if not len(y_true):
        return 0.0
    same = [list(a) == list(b) for a, b in zip(y_true, y_pred, strict=True)]
    return sum(same) / len(same)

"""How a model does on held-out sequences, as CRFsuite counts it.

==========  ===========================================
Evaluation  tokens and sequences that are right, by label
==========  ===========================================

Averages are over all labels of the model; a label that the held-out data does not have counts as
zero in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Evaluation"]

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """How a model does.

    Parameters
    ----------
    match, model, ref : int64 [L]
        Tokens of each label: right, predicted, in the data.
    sequences, right : int
        Sequences, and how many of them are right in all tokens.
    """

    match: Counts
    model: Counts
    ref: Counts
    sequences: int
    right: int

    @classmethod
    def of(
        cls,
        gold: NDArray[np.int32],
        predicted: NDArray[np.int32],
        offsets: NDArray[np.int64],
        n_labels: int,
    ) -> Self:
        """Compare labels.

        Parameters
        ----------
        gold, predicted : int32 [N]
        offsets : int64 [B + 1]
            Of sequences that are not empty.
        n_labels : int
        """
        correct = gold == predicted

        def count(labels: NDArray[np.int32]) -> Counts:
            return np.bincount(labels, minlength=n_labels)

        whole = np.logical_and.reduceat(correct, offsets[:-1])
        return cls(
            count(gold[correct]), count(predicted), count(gold), len(whole), int(whole.sum())
        )

    @property
    def rates(self) -> Floats:
        """Precision, recall and F of each label, 0 to 1, float64 [L, 3]."""
        seen = self.ref > 0
        precision = np.where(seen, self.match / np.maximum(self.model, 1), 0.0)
        recall = self.match / np.maximum(self.ref, 1)
        total = precision + recall
        f = 2 * precision * recall / np.where(total > 0, total, 1.0)
        return np.stack([precision, recall, f], axis=1)

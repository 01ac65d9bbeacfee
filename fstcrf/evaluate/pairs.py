"""Two labellings of the same sentences, interned together.

========== ===================================================================
LabelPairs gold and predicted labels over one set of values
paired     check and intern two labellings
ratio      a quotient that is 0 where nothing was counted
f_score    the weighted harmonic mean of precision and recall
========== ===================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.corpus import Column
from fstcrf.errors import ShapeError

__all__ = ["LabelPairs", "f_score", "paired", "ratio"]


@dataclass(frozen=True, slots=True)
class LabelPairs:
    """Gold and predicted labels of the same N tokens; both columns share their values.

    Parameters
    ----------
    gold, predicted : Column
        The labels.
    offsets : int64 [S + 1]
        Sentence ``s`` owns the tokens ``offsets[s] : offsets[s + 1]``.
    """

    gold: Column
    predicted: Column
    offsets: NDArray[np.int64]

    @property
    def n_tokens(self) -> int:
        """Number of tokens, N."""
        return int(self.offsets[-1])

    @property
    def n_sentences(self) -> int:
        """Number of sentences, S."""
        return len(self.offsets) - 1

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether each token has the right label, bool [N]."""
        return np.equal(self.gold.ids, self.predicted.ids)

    @property
    def correct_tokens(self) -> int:
        """Number of tokens with the right label."""
        return int(np.count_nonzero(self.right))

    @property
    def correct_sentences(self) -> int:
        """Number of sentences with all labels right; an empty one is right."""
        wrong = np.concatenate([[0], np.cumsum(~self.right)])[self.offsets]
        return int(np.count_nonzero(np.diff(wrong) == 0))


def paired(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> LabelPairs:
    """Intern two labellings, given as one list of labels per sentence.

    Raises
    ------
    ShapeError
        Another number of sentences, or of labels in a sentence; names the sentence.
    """
    if len(gold) != len(predicted):
        raise ShapeError(f"{len(gold)} gold sentences, {len(predicted)} predicted")
    lengths = [len(sentence) for sentence in gold]
    for number, (length, sentence) in enumerate(zip(lengths, predicted, strict=True)):
        if length != len(sentence):
            raise ShapeError(f"sentence {number}: {length} gold labels, {len(sentence)} predicted")
    labels = Column.from_strings(chain.from_iterable((*gold, *predicted)))
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    n_tokens = int(offsets[-1])
    return LabelPairs(
        Column(labels.ids[:n_tokens], labels.values),
        Column(labels.ids[n_tokens:], labels.values),
        offsets,
    )


def ratio(part: float, whole: float) -> float:
    """Return the quotient, 0 where `whole` is 0."""
    return part / whole if whole else 0.0


def f_score(precision: float, recall: float, beta: float = 1.0) -> float:
    """Return (1 + beta²) · precision · recall / (beta² · precision + recall), 0 where both are."""
    square = beta * beta
    return ratio((1 + square) * precision * recall, square * precision + recall)

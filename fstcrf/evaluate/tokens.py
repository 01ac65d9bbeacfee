"""Labels found against labels wanted, token by token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Bools
from fstcrf.corpus import named_scheme
from fstcrf.corpus.schemes import OUTSIDE, split_label
from fstcrf.errors import OptionError, ShapeError
from fstcrf.evaluate.spans import LabelPairs, SpanScore, paired, ratio

__all__ = [
    "LEAST",
    "LabelScore",
    "TokenReport",
    "evaluate_tokens",
    "label_share",
]

# A label is counted like a span of one token.
LabelScore = SpanScore


@dataclass(frozen=True, slots=True)
class TokenReport:
    """What `evaluate_tokens` found.

    Parameters
    ----------
    tokens, correct : int
        Number of tokens, and of those with the right label.
    sentences, correct_sentences : int
        Number of sentences, and of those with all labels right.
    labels : mapping of str to LabelScore
        One score per label that occurs on either side, sorted.
    confusions : mapping of (str, str) to int
        Tokens with this gold and this predicted label, where both differ; most frequent first.
    unknown, correct_unknown : int, optional
        Tokens whose word is not in the vocabulary, and those of them with the right label; None
        when no vocabulary was given.
    """

    tokens: int
    correct: int
    sentences: int
    correct_sentences: int
    labels: Mapping[str, LabelScore]
    confusions: Mapping[tuple[str, str], int]
    unknown: int | None = None
    correct_unknown: int | None = None

    @property
    def accuracy(self) -> float:
        """Share of the tokens with the right label, in [0, 1]."""
        return ratio(self.correct, self.tokens)

    @property
    def sentence_accuracy(self) -> float:
        """Share of the sentences with all labels right, in [0, 1]."""
        return ratio(self.correct_sentences, self.sentences)

    @property
    def micro_f(self) -> float:
        """F over all labels; equal to the accuracy, as each token has one label on each side."""
        return self.accuracy

    @property
    def macro_f(self) -> float:
        """Mean of F over the labels that occur on either side, in [0, 1]."""
        return ratio(sum(score.f for score in self.labels.values()), len(self.labels))

    @property
    def unknown_accuracy(self) -> float | None:
        """Accuracy on words that are not in the vocabulary; None when none was given."""
        if self.unknown is None or self.correct_unknown is None:
            return None
        return ratio(self.correct_unknown, self.unknown)

    def to_dict(self) -> dict[str, object]:
        """Return counts and scores by name, as JSON can hold them."""
        return {
            "tokens": self.tokens,
            "correct": self.correct,
            "accuracy": self.accuracy,
            "sentences": self.sentences,
            "correct_sentences": self.correct_sentences,
            "sentence_accuracy": self.sentence_accuracy,
            "macro_f": self.macro_f,
            "micro_f": self.micro_f,
            "unknown": self.unknown,
            "correct_unknown": self.correct_unknown,
            "unknown_accuracy": self.unknown_accuracy,
            "labels": {label: score.to_dict() for label, score in self.labels.items()},
            "confusions": [[*pair, count] for pair, count in self.confusions.items()],
        }

    def __str__(self) -> str:
        shares = {
            "accuracy": self.accuracy,
            "sentences": self.sentence_accuracy,
            "macro F": self.macro_f,
        }
        lines = [
            f"processed {self.tokens} tokens in {self.sentences} sentences",
            "; ".join([f"{name}: {100 * share:6.2f}%" for name, share in shares.items()]),
        ]
        if self.unknown is not None:
            share = 100 * (self.unknown_accuracy or 0.0)
            lines.append(f"unknown words: {self.unknown}; accuracy: {share:6.2f}%")
        lines += [
            f"{label:>17}: precision: {100 * score.precision:6.2f}%; "
            f"recall: {100 * score.recall:6.2f}%; F: {100 * score.f:6.2f}  {score.guessed}"
            for label, score in self.labels.items()
        ]
        return "\n".join(lines)


def evaluate_tokens(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    words: Sequence[Sequence[str]] | None = None,
    vocabulary: Collection[str] | None = None,
) -> TokenReport:
    """Compare two labellings of the same sentences, token by token.

    Parameters
    ----------
    gold, predicted : sequence of sequences of str
        One list of labels per sentence.
    words : sequence of sequences of str, optional
        The words of the same sentences; needed with `vocabulary`.
    vocabulary : collection of str, optional
        The words of the training text; all others are unknown.

    Raises
    ------
    ShapeError
        Another number of sentences, or of strings in a sentence; names the sentence.
    OptionError
        One of `words` and `vocabulary` without the other.
    """
    pairs = paired(gold, predicted)
    if (words is None) != (vocabulary is None):
        raise OptionError("words and vocabulary are needed together, or neither")
    unknown = correct_unknown = None
    if words is not None and vocabulary is not None:
        new = _unknown(words, frozenset(vocabulary), pairs)
        unknown = int(np.count_nonzero(new))
        correct_unknown = int(np.count_nonzero(new & pairs.right))
    return TokenReport(
        tokens=pairs.n_tokens,
        correct=pairs.correct_tokens,
        sentences=pairs.n_sentences,
        correct_sentences=pairs.correct_sentences,
        labels=_label_scores(pairs),
        confusions=_confusions(pairs),
        unknown=unknown,
        correct_unknown=correct_unknown,
    )


def _unknown(
    words: Sequence[Sequence[str]], vocabulary: frozenset[str], pairs: LabelPairs
) -> Bools:
    lengths = [len(sentence) for sentence in words]
    if len(lengths) != pairs.n_sentences:
        raise ShapeError(f"{pairs.n_sentences} sentences of labels, {len(lengths)} of words")
    wrong = np.flatnonzero(np.asarray(lengths, dtype=np.int64) != np.diff(pairs.offsets))
    if len(wrong):
        number = int(wrong[0])
        labels = int(pairs.offsets[number + 1] - pairs.offsets[number])
        raise ShapeError(f"sentence {number}: {labels} labels, {lengths[number]} words")
    return np.fromiter(
        (word not in vocabulary for sentence in words for word in sentence),
        dtype=np.bool_,
        count=pairs.n_tokens,
    )


def _label_scores(pairs: LabelPairs) -> dict[str, LabelScore]:
    size = len(pairs.gold.values)
    correct, guessed, gold = (
        np.bincount(ids, minlength=size).tolist()
        for ids in (pairs.gold.ids[pairs.right], pairs.predicted.ids, pairs.gold.ids)
    )
    scores = zip(pairs.gold.values, map(LabelScore, correct, guessed, gold), strict=True)
    return dict(sorted(scores, key=lambda item: item[0]))


def _confusions(pairs: LabelPairs) -> dict[tuple[str, str], int]:
    values = pairs.gold.values
    wrong = ~pairs.right
    keys = pairs.gold.ids[wrong].astype(np.int64) * len(values) + pairs.predicted.ids[wrong]
    distinct, counts = np.unique(keys, return_counts=True)
    found = {
        (values[key // len(values)], values[key % len(values)]): count
        for key, count in zip(distinct.tolist(), counts.tolist(), strict=True)
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


# --- Whether two columns can be labels of one task at all -----------------------------------------

LEAST = 0.1
"""Below this share of tokens, two columns hardly have a label in common."""


def label_share(gold: Mapping[str, int], predicted: Mapping[str, int]) -> float:
    """Return the share of tokens whose label occurs in the other column, too.

    Of a label of spans its type counts, so that columns in two schemes are of one task; ``O``,
    which most tasks have, does not count. The larger one of the two columns' shares decides: a
    tagger that says one label everywhere has that in common with the labels wanted, however few
    they are there.

    Parameters
    ----------
    gold, predicted : mapping of str to int
        How many tokens have each label.

    Returns
    -------
    float
        In [0, 1]; 1 where a column has no label but ``O``, of which nothing can be said.
    """
    columns = _said(gold), _said(predicted)
    if not all(columns):
        return 1.0
    both = columns[0].keys() & columns[1].keys()
    return max(sum(c[label] for label in both) / c.total() for c in columns)


def _said(labels: Mapping[str, int]) -> Counter[tuple[bool, str]]:
    """Count types of spans, and other labels."""
    found: Counter[tuple[bool, str]] = Counter()
    for label, tokens in labels.items():
        letter, kind = split_label(label, named_scheme("conlleval"))
        if label != OUTSIDE and tokens:
            span = bool(kind) and letter != "?"
            found[span, kind if span else label] += tokens
    return found

"""Compares predicted labels and spans with gold ones, with the counts of conlleval.

A span is correct if its start, its end and its type are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fstcrf import display
from fstcrf.arguments import string_lists
from fstcrf.arrays import Bools, Longs, Ragged
from fstcrf.errors import DataError, LabelWarning, OptionError, ShapeError, warn
from fstcrf.evaluate.labellings import LabelPairs, counted, paired
from fstcrf.text.corpus.schemes import Scheme, SpanArrays, named_scheme, span_arrays


def ratio(part: float, total: float) -> float:
    """Return the quotient, 0 if `total` is 0."""
    return part / total if total else 0.0


def _f_score(precision: float, recall: float, beta: float = 1.0) -> float:
    """Return (1 + beta²) · precision · recall / (beta² · precision + recall), 0 if both are 0."""
    square = beta * beta
    return ratio((1 + square) * precision * recall, square * precision + recall)


# --- Spans ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpanScore:
    """Counts of one type of span, or of all types.

    Parameters
    ----------
    correct, guessed, gold : int
        Number of correct, predicted, and gold spans.
    beta : float
        Weight of recall in F.
    """

    correct: int
    guessed: int
    gold: int
    beta: float = 1.0

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are correct, in [0, 1]; 0 without predicted spans."""
        return ratio(self.correct, self.guessed)

    @property
    def recall(self) -> float:
        """Share of the gold spans that were found, in [0, 1]; 0 without gold spans."""
        return ratio(self.correct, self.gold)

    @property
    def f(self) -> float:
        """F-score, in [0, 1]; 0 if no span is correct."""
        return _f_score(self.precision, self.recall, self.beta)

    def __repr__(self) -> str:
        return f"<SpanScore: {self._scores()}, {self.correct:,} of {self.gold:,} found>"

    def _scores(self) -> str:
        name = "F" if self.beta == 1.0 else f"F{self.beta:g}"
        return f"{name} {self.f:.4f}, precision {self.precision:.4f}, recall {self.recall:.4f}"

    def to_dict(self) -> dict[str, float]:
        """Return counts and scores by name."""
        return {
            "correct": self.correct,
            "guessed": self.guessed,
            "gold": self.gold,
            "precision": self.precision,
            "recall": self.recall,
            "f": self.f,
        }


@dataclass(frozen=True, slots=True)
class SpanReport:
    """The result of `evaluate_spans`; printed in the format of conlleval.

    Parameters
    ----------
    overall : SpanScore
        Score over all types.
    types : mapping of str to SpanScore
        One score per type that occurs, sorted by type.
    tokens, correct_tokens : int
        Number of tokens, and number of tokens with the correct label.
    sentences, correct_sentences : int
        Number of sentences, and number of sentences with only correct labels.
    """

    overall: SpanScore
    types: Mapping[str, SpanScore]
    tokens: int
    correct_tokens: int
    sentences: int
    correct_sentences: int

    @property
    def phrases(self) -> int:
        """Number of gold spans."""
        return self.overall.gold

    @property
    def accuracy(self) -> float:
        """Share of the tokens with the correct label, in [0, 1]."""
        return ratio(self.correct_tokens, self.tokens)

    @property
    def sentence_accuracy(self) -> float:
        """Share of the sentences with only correct labels, in [0, 1]."""
        return ratio(self.correct_sentences, self.sentences)

    @property
    def precision(self) -> float:
        """Precision over all types, in [0, 1]."""
        return self.overall.precision

    @property
    def recall(self) -> float:
        """Recall over all types, in [0, 1]."""
        return self.overall.recall

    @property
    def f(self) -> float:
        """F-score over all types, in [0, 1]."""
        return self.overall.f

    def to_dict(self) -> dict[str, object]:
        """Return counts and scores by name, as JSON values."""
        return {
            "tokens": self.tokens,
            "correct_tokens": self.correct_tokens,
            "accuracy": self.accuracy,
            "sentences": self.sentences,
            "correct_sentences": self.correct_sentences,
            "sentence_accuracy": self.sentence_accuracy,
            "beta": self.overall.beta,
            "overall": self.overall.to_dict(),
            "types": {name: score.to_dict() for name, score in self.types.items()},
        }

    def conlleval(self) -> str:
        """Return the output of conlleval, equal in every digit, without the last line end."""
        overall = self.overall
        head = f"processed {self.tokens} tokens with {overall.gold} phrases"
        lines = [f"{head}; found: {overall.guessed} phrases; correct: {overall.correct}."]
        if self.tokens:
            accuracy = 100 * self.correct_tokens / self.tokens
            lines.append(f"accuracy: {accuracy:6.2f}%; {_percentages(overall)}")
        lines += [
            f"{name:>17}: {_percentages(score)}  {score.guessed}"
            for name, score in self.types.items()
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.conlleval()

    def __repr__(self) -> str:
        spans = f"{self.phrases:,} span{'s' * (self.phrases != 1)}"
        return f"<SpanReport: {self.overall._scores()}, {spans} of {len(self.types)} types>"  # noqa: SLF001

    def _repr_html_(self) -> str:
        """Return the scores as a table for notebooks."""
        scores = {"all": self.overall, **self.types}
        facts = {"accuracy": self.accuracy, "sentences right": self.sentence_accuracy}
        return display.picture(
            display.heading(repr(self)), display.facts(facts), _score_table("type", scores)
        )


def _score_table(name: str, scores: Mapping[str, SpanScore]) -> str:
    head = [name, "precision", "recall", "F", "correct", "found", "wanted"]
    rows: list[list[display.Cell]] = [
        [kind, s.precision, s.recall, s.f, s.correct, s.guessed, s.gold]
        for kind, s in scores.items()
    ]
    return display.table(head, rows, what=f"{name}s")


def _percentages(score: SpanScore) -> str:
    # Percentages are rounded like conlleval's, which matters for ties in the last digit.
    precision = 100 * score.correct / score.guessed if score.guessed else 0.0
    recall = 100 * score.correct / score.gold if score.gold else 0.0
    f = _f_score(precision, recall, score.beta)
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB{score.beta:g}: {f:6.2f}"


def evaluate_spans(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    scheme: str | Scheme = "conlleval",
    strict: bool = False,
    beta: float = 1.0,
) -> SpanReport:
    """Compare the spans of two labellings of the same sentences.

    Parameters
    ----------
    gold, predicted : sequence of sequences of str
        One list of labels per sentence.
    scheme : str or Scheme
        Scheme of the labels, for `strict`. conlleval's rules read IOB1, IOB2 and BIOES alike.
    strict : bool
        Count only spans that are well formed in `scheme`; malformed spans are ignored. Otherwise
        conlleval's rules are used, which find spans in every label sequence.
    beta : float
        Weight of recall in F; 1 weighs precision and recall alike.

    Returns
    -------
    SpanReport
        Counts and scores.

    Raises
    ------
    ShapeError
        Another number of sentences, or of labels in a sentence; names the sentence.
    LabelError
        A sentence that is not a list of labels, such as a string; a label that is not a string.
    OptionError
        No such scheme; `strict` without one, or one without `strict`; `beta` that is not positive.

    Warns
    -----
    LabelWarning
        Gold spans, by conlleval's rules, that are malformed in the scheme.
    """
    if not 0 < beta < float("inf"):
        raise OptionError(f"beta={beta}, expected a positive number")
    if strict and scheme == "conlleval":
        raise OptionError("strict=True needs the scheme of the labels: scheme='iob2'")
    table = named_scheme(scheme)
    if table.strict and not strict:
        raise OptionError(
            f"scheme={table.name!r} needs strict=True: without strict, spans follow the "
            "rules of conlleval"
        )
    pairs = paired(gold, predicted)
    illegal: Literal["drop", "repair"] = "drop" if strict else "repair"
    wanted, tagged = (
        span_arrays(column, pairs.offsets, table, illegal=illegal)
        for column in (pairs.gold, pairs.predicted)
    )
    if strict:
        _tell_of_dropped(pairs, wanted, table.name)
    return _report(pairs, wanted, tagged, beta)


def _tell_of_dropped(pairs: LabelPairs, wanted: SpanArrays, scheme: str) -> None:
    """Warn once about the gold spans that are malformed in the scheme, with their number."""
    read, accepted = (
        [
            (start, end, arrays.types[kind])
            for start, end, kind in zip(
                arrays.start.tolist(), arrays.end.tolist(), arrays.type.tolist(), strict=True
            )
        ]
        for arrays in (span_arrays(pairs.gold, pairs.offsets), wanted)
    )
    kept = set(accepted)
    dropped = Counter(span[2] for span in read if span not in kept)
    if dropped:
        warn(
            (f"gold spans that are not well formed in {scheme} are ignored: {counted(dropped)}"),
            LabelWarning,
        )


def _report(pairs: LabelPairs, wanted: SpanArrays, tagged: SpanArrays, beta: float) -> SpanReport:
    counts = _counts(wanted, tagged, pairs.n_tokens)
    correct, guessed, gold = counts.sum(axis=1).tolist()
    scores = {
        kind: SpanScore(hits, predicted, annotated, beta)
        for kind, (hits, predicted, annotated) in zip(wanted.types, counts.T.tolist(), strict=True)
        if predicted or annotated
    }
    return SpanReport(
        overall=SpanScore(correct, guessed, gold, beta),
        types=dict(sorted(scores.items())),
        tokens=pairs.n_tokens,
        correct_tokens=pairs.correct_tokens,
        sentences=pairs.n_sentences,
        correct_sentences=pairs.correct_sentences,
    )


def _counts(wanted: SpanArrays, tagged: SpanArrays, n_tokens: int) -> Longs:
    # int64 [3, types]: correct, guessed, gold. At most one span starts at a token.
    end = np.full(n_tokens, -1, dtype=np.int64)
    kind = np.full(n_tokens, -1, dtype=np.int64)
    end[wanted.start], kind[wanted.start] = wanted.end, wanted.type
    correct = (end[tagged.start] == tagged.end) & (kind[tagged.start] == tagged.type)
    size = len(wanted.types)
    return np.stack(
        [
            np.bincount(types, minlength=size)
            for types in (tagged.type[correct], tagged.type, wanted.type)
        ]
    )


# --- Tokens ---------------------------------------------------------------------------------------

# A label is counted like a span of one token.
LabelScore = SpanScore

_WRONG = ("wanted", "found", "tokens")


@dataclass(frozen=True, slots=True)
class TokenReport:
    """The result of `evaluate_tokens`.

    Parameters
    ----------
    tokens, correct : int
        Number of tokens, and number of tokens with the correct label.
    sentences, correct_sentences : int
        Number of sentences, and number of sentences with only correct labels.
    labels : mapping of str to LabelScore
        One score per label that occurs on either side, sorted.
    confusions : mapping of (str, str) to int
        Number of tokens with this gold and this predicted label, for unequal labels; most frequent
        first.
    unknown, correct_unknown : int, optional
        Number of tokens whose word is not in the vocabulary, and number of these with the correct
        label; `None` without a vocabulary.
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
        """Share of the tokens with the correct label, in [0, 1]."""
        return ratio(self.correct, self.tokens)

    @property
    def sentence_accuracy(self) -> float:
        """Share of the sentences with only correct labels, in [0, 1]."""
        return ratio(self.correct_sentences, self.sentences)

    @property
    def micro_f(self) -> float:
        """F over all labels; equal to the accuracy, as each token has one label per side."""
        return self.accuracy

    @property
    def macro_f(self) -> float:
        """Mean of F over the labels that occur on either side, in [0, 1]."""
        return ratio(sum(score.f for score in self.labels.values()), len(self.labels))

    @property
    def unknown_accuracy(self) -> float | None:
        """Accuracy on words that are not in the vocabulary; `None` without a vocabulary."""
        if self.unknown is None or self.correct_unknown is None:
            return None
        return ratio(self.correct_unknown, self.unknown)

    def to_dict(self) -> dict[str, object]:
        """Return counts and scores by name, as JSON values."""
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

    def __repr__(self) -> str:
        size = f"{self.tokens:,} tokens, {len(self.labels)} labels"
        scores = f"accuracy {self.accuracy:.4f}, macro F {self.macro_f:.4f}"
        return f"<TokenReport: {scores}, {size}>"

    def _repr_html_(self) -> str:
        """Return the scores, and the most frequent confusions, as tables for notebooks."""
        facts: dict[str, display.Cell] = {
            "sentences right": self.sentence_accuracy,
            "macro F": self.macro_f,
            "unknown words": self.unknown_accuracy,
        }
        wrong: list[list[display.Cell]] = [[a, b, n] for (a, b), n in self.confusions.items()]
        return display.picture(
            display.heading(repr(self)),
            display.facts(facts),
            _score_table("label", self.labels),
            display.table(_WRONG, wrong, what="confusions", most=10) if wrong else "",
        )

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
        The words of the training text; all other words are unknown.

    Raises
    ------
    ShapeError
        Another number of sentences, or of strings in a sentence; names the sentence.
    LabelError, DataError
        A sentence that is not a list of labels, or of words; an item that is not a string.
    OptionError
        `words` is given without `vocabulary`, or the reverse.
    """
    pairs = paired(gold, predicted)
    if isinstance(vocabulary, str):
        raise OptionError(f"vocabulary is the string {vocabulary!r}, expected a set of words")
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
    words = string_lists(words, "word", error=DataError)
    lengths = [len(sentence) for sentence in words]
    if len(lengths) != pairs.n_sentences:
        raise ShapeError(f"{pairs.n_sentences} sentences of labels, {len(lengths)} of words")
    wrong = np.flatnonzero(np.asarray(lengths, dtype=np.int64) != Ragged(pairs.offsets).lengths)
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
    confusions = {
        (values[key // len(values)], values[key % len(values)]): count
        for key, count in zip(distinct.tolist(), counts.tolist(), strict=True)
    }
    return dict(sorted(confusions.items(), key=lambda item: (-item[1], item[0])))

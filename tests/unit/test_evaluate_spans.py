"""Spans found against spans wanted."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import LabelError, LabelWarning, OptionError, ShapeError
from fstcrf.evaluate import (
    best_of,
    compare,
    evaluate_spans,
    evaluate_tokens,
    written_alike,
)
from fstcrf.text.corpus import convert, labels_from_spans

GOLD = [["B-NP", "I-NP", "B-VP", "O"], ["B-NP", "B-NP", "I-NP"], ["O"], []]
PREDICTED = [["B-NP", "I-NP", "B-PP", "O"], ["B-NP", "I-NP", "I-NP"], ["O"], []]


def test_the_text_of_conlleval() -> None:
    assert str(evaluate_spans(GOLD, PREDICTED)) == (
        "processed 8 tokens with 4 phrases; found: 3 phrases; correct: 1.\n"
        "accuracy:  75.00%; precision:  33.33%; recall:  25.00%; FB1:  28.57\n"
        "               NP: precision:  50.00%; recall:  33.33%; FB1:  40.00  2\n"
        "               PP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1\n"
        "               VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0"
    )
    right = str(evaluate_spans(GOLD, GOLD))
    assert "accuracy: 100.00%; precision: 100.00%; recall: 100.00%; FB1: 100.00\n" in right


def test_nothing_to_score() -> None:
    report = evaluate_spans([["O", "O"]], [["O", "O"]])
    assert (report.precision, report.recall, report.f) == (0.0, 0.0, 0.0)
    assert str(report) == (
        "processed 2 tokens with 0 phrases; found: 0 phrases; correct: 0.\n"
        "accuracy: 100.00%; precision:   0.00%; recall:   0.00%; FB1:   0.00"
    )
    empty = evaluate_spans([], [])
    assert str(empty) == "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0."
    assert (empty.accuracy, empty.sentence_accuracy) == (0.0, 0.0)


def test_gold_spans_that_strict_rules_drop_are_counted() -> None:
    gold = [["I-A", "O", "B-A"], ["B-A", "E-A", "I-B"]]
    with pytest.warns(LabelWarning, match=r"formed in iob2 are ignored: A \(2\), B \(1\)$"):
        report = evaluate_spans(gold, gold, scheme="iob2", strict=True)
    assert report.overall.gold == 2  # the first B-A of the second sentence is one by itself


def test_beta_weighs_recall() -> None:
    report = evaluate_spans(GOLD, PREDICTED, beta=2)
    p, r = 1 / 3, 1 / 4
    assert report.f == pytest.approx(5 * p * r / (4 * p + r), rel=1e-15)
    assert "FB2:  26.32" in str(report)


def test_dictionary_is_json() -> None:
    report = evaluate_spans(GOLD, PREDICTED)
    again = json.loads(json.dumps(report.to_dict()))
    assert again["overall"]["f"] == report.f
    assert again["types"]["NP"]["guessed"] == 2
    assert again["sentence_accuracy"] == 0.5


def test_lengths_that_disagree() -> None:
    with pytest.raises(ShapeError, match="2 gold sentences, 1 predicted"):
        evaluate_spans([["O"], ["O"]], [["O"]])
    with pytest.raises(ShapeError, match="sentence 1: 1 gold labels, 2 predicted"):
        evaluate_spans([["O"], ["O"]], [["O"], ["O", "O"]])


@pytest.mark.parametrize("evaluate", [evaluate_spans, evaluate_tokens])
@pytest.mark.parametrize("odd", [None, 3])
def test_labels_that_are_no_strings(evaluate: Any, odd: Any) -> None:
    fine, wrong = [["O", "O"]], [["O", odd]]
    for gold, predicted, what in ((wrong, fine, "gold"), (fine, wrong, "predicted")):
        with pytest.raises(LabelError, match=f"sentence 0, token 1: the {what} label is {odd!r}"):
            evaluate(gold, predicted)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_beta(beta: float) -> None:
    with pytest.raises(OptionError, match="beta="):
        evaluate_spans([], [], beta=beta)


def test_options() -> None:
    with pytest.raises(OptionError, match="strict=True needs the scheme"):
        evaluate_spans([], [], strict=True)
    with pytest.raises(OptionError, match="scheme 'xyz'"):
        evaluate_spans([], [], scheme="xyz", strict=True)
    with pytest.raises(OptionError, match="scheme 'xyz'"):
        evaluate_spans([], [], scheme="xyz")
    assert evaluate_spans([], [], scheme="conlleval").f == 0.0
    for scheme, name in (("bio", "iob2"), ("bioes", "bioes")):
        with pytest.raises(OptionError, match=f"scheme='{name}' needs strict=True"):
            evaluate_spans([["O"]], [["O"]], scheme=scheme)


SCHEMES = ("iob1", "iob2", "bioes", "bilou")


# Most spans of bioes, bmes and bmewo look the same, so they are not written anew for each other.
@pytest.mark.parametrize(
    ("mine", "other"),
    [*itertools.product(SCHEMES, SCHEMES)]
    + [(a, b) for b in ("bmes", "bmewo") for a in ("iob1", "iob2", "bilou", b)]
    + [(a, b) for a in ("bmes", "bmewo") for b in ("iob1", "iob2", "bilou")],
)
def test_labels_are_compared_in_the_scheme_of_the_gold_ones(mine: str, other: str) -> None:
    rng = np.random.default_rng(1)
    gold, found = [], []
    for _ in range(40):
        places = np.sort(rng.choice(9, 4, replace=False)).tolist()
        spans = [(places[0], places[1], "X"), (places[2], places[3], str(rng.choice(["X", "Y"])))]
        gold.append(labels_from_spans(spans, 9, mine))
        found.append(labels_from_spans(spans[: rng.integers(1, 3)], 9, mine))
    foreign = [convert(labels, mine, other) for labels in found]
    written, schemes = written_alike(gold, foreign)
    assert written == found
    assert schemes == (None if mine == other else (other, mine))
    first, second = (
        compare(gold, foreign, gold, resamples=9),
        compare(gold, found, gold, resamples=9),
    )
    assert first.tokens == second.tokens


def test_labels_that_stay_as_they_are() -> None:
    for gold, found in (
        ([["DT", "NN"]], [["NN", "VB"]]),
        ([["O", "O"]], [["B-X", "O"]]),
        ([["B-X", "I-X"]], [["O", "O"]]),
        ([["B-X", "I-X"]], [["B-X", "O"]]),
        ([["B-X", "I-X", "B-Y"]], [["B-X", "O", "I-Y"]]),  # a tagger that breaks IOB2, at times
    ):
        assert written_alike(gold, found) == (found, None)


def test_the_best_of_several_labellings() -> None:
    gold = [["B-X", "I-X"], ["O"], ["B-X", "B-Y"]]
    ranked = [
        [["O", "O"], ["B-X", "O"], ["B-X", "I-X"]],
        [["B-X"], ["O"]],
        [["B-X", "O"], ["O", "B-Y"]],
    ]
    assert best_of(gold, ranked) == [["B-X", "I-X"], ["O"], ["B-X", "O"]]
    assert best_of(gold, [several[:2] for several in ranked])[0] == ["O", "O"]  # B-X is wrong, too
    with pytest.raises(ShapeError, match="sentence 1: expected at least one labelling"):
        best_of(gold, [ranked[0], [], ranked[2]])
    with pytest.raises(ShapeError, match="3 gold sentences, 1 with labellings"):
        best_of(gold, ranked[:1])

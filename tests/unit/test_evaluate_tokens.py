"""Labels found against labels wanted."""

from __future__ import annotations

import json

import pytest

from fstcrf.errors import OptionError, ShapeError
from fstcrf.evaluate import LabelScore, evaluate_tokens

WORDS = [["a", "b", "c"], ["a", "d"]]
GOLD = [["X", "Y", "Y"], ["X", "Z"]]
PREDICTED = [["X", "X", "Y"], ["X", "W"]]


def test_counts_by_hand() -> None:
    report = evaluate_tokens(GOLD, PREDICTED)
    assert report.labels == {
        "W": LabelScore(0, 1, 0),
        "X": LabelScore(2, 3, 2),
        "Y": LabelScore(1, 1, 2),
        "Z": LabelScore(0, 0, 1),
    }
    assert list(report.labels) == ["W", "X", "Y", "Z"]
    assert report.accuracy == report.micro_f == 0.6
    assert report.sentence_accuracy == 0.0
    assert report.macro_f == pytest.approx((0.8 + 2 / 3) / 4, rel=1e-15)
    assert report.confusions == {("Y", "X"): 1, ("Z", "W"): 1}
    assert report.unknown_accuracy is None


def test_unknown_words() -> None:
    report = evaluate_tokens(GOLD, PREDICTED, words=WORDS, vocabulary=["a", "b"])
    assert (report.unknown, report.correct_unknown) == (2, 1)
    assert report.unknown_accuracy == 0.5
    known = evaluate_tokens(GOLD, PREDICTED, words=WORDS, vocabulary=["a", "b", "c", "d"])
    assert known.unknown_accuracy == 0.0


def test_confusions_come_most_frequent_first() -> None:
    report = evaluate_tokens([["A", "B", "B"]], [["B", "A", "A"]])
    assert list(report.confusions.items()) == [(("B", "A"), 2), (("A", "B"), 1)]


def test_text() -> None:
    report = evaluate_tokens(GOLD, GOLD, words=WORDS, vocabulary=["a"])
    assert str(report).splitlines() == [
        "processed 5 tokens in 2 sentences",
        "accuracy: 100.00%; sentences: 100.00%; macro F: 100.00%",
        "unknown words: 3; accuracy: 100.00%",
        "                X: precision: 100.00%; recall: 100.00%; F: 100.00  2",
        "                Y: precision: 100.00%; recall: 100.00%; F: 100.00  2",
        "                Z: precision: 100.00%; recall: 100.00%; F: 100.00  1",
    ]
    assert "unknown" not in str(evaluate_tokens(GOLD, GOLD))


def test_dictionary_is_json() -> None:
    again = json.loads(json.dumps(evaluate_tokens(GOLD, PREDICTED).to_dict()))
    assert again["accuracy"] == 0.6
    assert again["confusions"] == [["Y", "X", 1], ["Z", "W", 1]]
    assert again["labels"]["X"]["gold"] == 2


def test_no_tokens() -> None:
    report = evaluate_tokens([], [])
    assert (report.accuracy, report.macro_f, report.confusions) == (0.0, 0.0, {})


def test_errors() -> None:
    with pytest.raises(ShapeError, match="sentence 0: 1 gold labels, 2 predicted"):
        evaluate_tokens([["X"]], [["X", "Y"]])
    with pytest.raises(OptionError, match="words and vocabulary"):
        evaluate_tokens(GOLD, PREDICTED, words=WORDS)
    with pytest.raises(ShapeError, match="2 sentences of labels, 1 of words"):
        evaluate_tokens(GOLD, PREDICTED, words=WORDS[:1], vocabulary=[])
    with pytest.raises(ShapeError, match="sentence 1: 2 labels, 1 words"):
        evaluate_tokens(GOLD, PREDICTED, words=[WORDS[0], ["a"]], vocabulary=[])

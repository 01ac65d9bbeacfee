"""Spans and scores against seqeval, and against conlleval's loop written out.

seqeval's default mode applies conlleval's rules with S added: equal to ours on every sequence of
B, I, E, S and O with types. Its strict mode drops what breaks the scheme: equal to ours in IOB2 and
IOBES. Its IOB1 table is not compared: there an I behind any B starts a span, so that after ``O``
the illegal ``B-A I-A`` gives the span of the I alone, where ours gives none.

The original scorer knows no S, and an E followed by a B of the same type ends nothing, so it is
compared on labels without these.
"""

from __future__ import annotations

import itertools
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fstcrf.evaluate import evaluate_spans
from fstcrf.text.corpus import spans

sequence_labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")
seqeval_scheme = pytest.importorskip("seqeval.scheme")

TYPES = ["A", "B", "A-B"]


def labels(letters: str) -> st.SearchStrategy[str]:
    typed = [f"{letter}-{kind}" for letter in letters for kind in TYPES]
    return st.sampled_from(["O", *typed])


@st.composite
def labellings(draw: st.DrawFn, letters: str) -> tuple[list[list[str]], list[list[str]]]:
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    one, other = (
        [draw(st.lists(labels(letters), min_size=n, max_size=n)) for n in lengths] for _ in range(2)
    )
    return one, other


def check_report(
    gold: list[list[str]],
    predicted: list[list[str]],
    expected: dict[str, dict[str, float]],
    scheme: str,
    *,
    strict: bool,
) -> None:
    how = scheme if strict else "conlleval"
    report = evaluate_spans(gold, predicted, scheme=how, strict=strict)
    for kind, score in report.types.items():
        assert score.precision == pytest.approx(expected[kind]["precision"], rel=1e-12)
        assert score.recall == pytest.approx(expected[kind]["recall"], rel=1e-12)
        assert score.f == pytest.approx(expected[kind]["f1-score"], rel=1e-12)
        assert score.gold == expected[kind]["support"]
    assert set(report.types) == set(expected) - {"micro avg", "macro avg", "weighted avg"}
    if report.types:
        assert report.f == pytest.approx(expected["micro avg"]["f1-score"], rel=1e-12)


@given(st.lists(labels("BIES"), max_size=12))
def test_lenient_spans(sentence: list[str]) -> None:
    # seqeval counts the last token in.
    expected = [
        (start, end + 1, kind) for kind, start, end in sequence_labeling.get_entities(sentence)
    ]
    assert spans(sentence) == expected


@pytest.mark.parametrize(
    ("scheme", "letters", "name"), [("iob2", "BI", "IOB2"), ("bioes", "BIES", "IOBES")]
)
@given(data=st.data())
def test_strict_spans(scheme: str, letters: str, name: str, data: st.DataObject) -> None:
    sentence = data.draw(st.lists(labels(letters), max_size=12))
    found = seqeval_scheme.Entities([sentence], scheme=getattr(seqeval_scheme, name)).entities
    expected = [(entity.start, entity.end, entity.tag) for entity in found[0]]
    assert spans(sentence, scheme, illegal="drop") == expected


@given(labellings("BI"))
def test_lenient_scores(case: tuple[list[list[str]], list[list[str]]]) -> None:
    gold, predicted = case
    if not any(spans(sentence) for sentence in gold + predicted):
        return  # seqeval fails where there is nothing to score
    expected = sequence_labeling.classification_report(
        gold, predicted, output_dict=True, zero_division=0
    )
    check_report(gold, predicted, expected, "iob2", strict=False)


@pytest.mark.parametrize(
    ("scheme", "letters", "name"), [("iob2", "BI", "IOB2"), ("bioes", "BIES", "IOBES")]
)
@pytest.mark.filterwarnings("ignore::fstcrf.errors.LabelWarning")
@given(data=st.data())
def test_strict_scores(scheme: str, letters: str, name: str, data: st.DataObject) -> None:
    gold, predicted = data.draw(labellings(letters))
    if not any(spans(sentence, scheme, illegal="drop") for sentence in gold + predicted):
        return
    expected = sequence_labeling.classification_report(
        gold,
        predicted,
        output_dict=True,
        zero_division=0,
        mode="strict",
        scheme=getattr(seqeval_scheme, name),
    )
    check_report(gold, predicted, expected, scheme, strict=True)


def ends(tag: str, following: str, kind: str, next_kind: str) -> bool:
    pairs = ["BB", "BO", "IB", "IO", "EE", "EI", "EO"]
    return tag + following in pairs or (tag not in "O." and kind != next_kind) or tag in "[]"


def starts(tag: str, following: str, kind: str, next_kind: str) -> bool:
    pairs = ["BB", "IB", "OB", "OI", "EE", "EI", "OE"]
    return (
        tag + following in pairs
        or (following not in "O." and kind != next_kind)
        or following in "[]"
    )


def flat(sentences: list[list[str]]) -> list[tuple[str, str]]:
    """Letter and type of each label, with a boundary behind each sentence and before all."""
    lines = ["O", *(label for sentence in sentences for label in [*sentence, "O"])]
    return [(letter, kind) for letter, _, kind in (line.partition("-") for line in lines)]


def conlleval(
    gold: list[list[str]], predicted: list[list[str]]
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Count correct, guessed and gold chunks per type in one pass."""
    correct, guessed, wanted = Counter[str](), Counter[str](), Counter[str]()
    inside = False
    for (last, now), (last_guess, guess) in zip(
        itertools.pairwise(flat(gold)), itertools.pairwise(flat(predicted)), strict=True
    ):
        gold_ends = ends(last[0], now[0], last[1], now[1])
        guess_ends = ends(last_guess[0], guess[0], last_guess[1], guess[1])
        if inside:
            if gold_ends and guess_ends and last[1] == last_guess[1]:
                inside = False
                correct[last[1]] += 1
            elif gold_ends != guess_ends or now[1] != guess[1]:
                inside = False
        gold_starts = starts(last[0], now[0], last[1], now[1])
        guess_starts = starts(last_guess[0], guess[0], last_guess[1], guess[1])
        inside = inside or (gold_starts and guess_starts and now[1] == guess[1])
        wanted[now[1]] += gold_starts
        guessed[guess[1]] += guess_starts
    return +correct, +guessed, +wanted


@pytest.mark.parametrize("letters", ["BI", "IE"])
@given(data=st.data())
def test_counts_of_conlleval(letters: str, data: st.DataObject) -> None:
    gold, predicted = data.draw(labellings(letters))
    correct, guessed, wanted = conlleval(gold, predicted)
    report = evaluate_spans(gold, predicted)
    assert {k: s.correct for k, s in report.types.items() if s.correct} == correct
    assert {k: s.guessed for k, s in report.types.items() if s.guessed} == guessed
    assert {k: s.gold for k, s in report.types.items() if s.gold} == wanted

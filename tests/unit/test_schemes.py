"""Tagging schemes and spans."""

from __future__ import annotations

import io

import numpy as np
import pytest

from fstcrf.errors import DataError, LabelError, OptionError, SchemeError
from fstcrf.text.corpus import (
    Column,
    Corpus,
    Span,
    convert,
    convert_column,
    labels_from_spans,
    legal_transitions,
    named_scheme,
    read_columns,
    span_arrays,
    spans,
)

SPANS = [Span(0, 1, "A"), Span(1, 3, "A"), Span(3, 6, "B-C"), Span(7, 8, "A")]
WRITTEN = {
    "iob1": "I-A B-A I-A I-B-C I-B-C I-B-C O I-A O",
    "iob2": "B-A B-A I-A B-B-C I-B-C I-B-C O B-A O",
    "bio": "B-A B-A I-A B-B-C I-B-C I-B-C O B-A O",
    "bioes": "S-A B-A E-A B-B-C I-B-C E-B-C O S-A O",
    "iobes": "S-A B-A E-A B-B-C I-B-C E-B-C O S-A O",
    "bilou": "U-A B-A L-A B-B-C I-B-C L-B-C O U-A O",
    "bmes": "S-A B-A E-A B-B-C M-B-C E-B-C O S-A O",
    "bmewo": "W-A B-A E-A B-B-C M-B-C E-B-C O W-A O",
}


@pytest.mark.parametrize("scheme", WRITTEN)
@pytest.mark.parametrize("illegal", ["repair", "drop", "raise"])
def test_each_scheme_both_ways(scheme: str, illegal: str) -> None:
    labels = WRITTEN[scheme].split()
    assert labels_from_spans(reversed(SPANS), 9, scheme) == labels
    assert spans(labels, scheme, illegal=illegal) == SPANS  # type: ignore[arg-type]
    for target, text in WRITTEN.items():
        assert convert(labels, scheme, target) == text.split()


@pytest.mark.parametrize(
    ("scheme", "labels", "token", "message"),
    [
        ("iob2", "O I-A", 1, "'I-A' after 'O' is not legal in iob2"),
        ("iob2", "I-A", 0, "'I-A' after the start is not legal in iob2"),
        ("iob2", "B-A I-B", 1, "'I-B' after 'B-A' is not legal in iob2"),
        ("iob2", "B-A E-A", 1, "label 'E-A' is not iob2: expected O, B-TYPE, I-TYPE"),
        ("iob2", "O-A", 0, "label 'O-A' is not iob2"),
        ("iob2", "NN", 0, "label 'NN' is not iob2"),
        ("iob1", "O B-A", 1, "'B-A' after 'O' is not legal in iob1"),
        ("iob1", "I-A B-B", 1, "'B-B' after 'I-A' is not legal in iob1"),
        ("bioes", "O B-A", 1, "the end after 'B-A' is not legal in bioes"),
        ("bioes", "B-A O", 1, "'O' after 'B-A' is not legal in bioes"),
        ("bioes", "S-A I-A", 1, "'I-A' after 'S-A' is not legal in bioes"),
        ("bmes", "B-A O", 1, "'O' after 'B-A' is not legal in bmes"),
        ("bmes", "M-A", 0, "'M-A' after the start is not legal in bmes"),
        ("bmes", "B-A I-A", 1, "label 'I-A' is not bmes: expected O, B-TYPE, M-TYPE, E-TYPE, S-"),
        ("bmewo", "W-A M-A", 1, "'M-A' after 'W-A' is not legal in bmewo"),
        ("bilou", "B-A U-A", 1, "'U-A' after 'B-A' is not legal in bilou"),
        ("bilou", "S-A", 0, "label 'S-A' is not bilou: expected O, B-TYPE, I-TYPE, L-TYPE, U-TYPE"),
    ],
)
def test_illegal_labels_are_named(scheme: str, labels: str, token: int, message: str) -> None:
    with pytest.raises(SchemeError) as raised:
        spans(labels.split(), scheme, illegal="raise")
    assert str(raised.value).startswith(f"token {token}: {message}")
    assert raised.value.token == token


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("O I-A I-A", [Span(1, 3, "A")]),
        ("B-A I-B", [Span(0, 1, "A"), Span(1, 2, "B")]),
        ("I-A B-A", [Span(0, 1, "A"), Span(1, 2, "A")]),
        ("B-A B-B", [Span(0, 1, "A"), Span(1, 2, "B")]),
        ("B-A E-A E-A", [Span(0, 2, "A"), Span(2, 3, "A")]),
        ("I-A E-A I-A O", [Span(0, 2, "A"), Span(2, 3, "A")]),
        ("B-A E-A B-A E-A", [Span(0, 2, "A"), Span(2, 4, "A")]),
        ("S-A S-A I-A", [Span(0, 1, "A"), Span(1, 2, "A"), Span(2, 3, "A")]),
        ("B-A L-A U-A", [Span(0, 2, "A"), Span(2, 3, "A")]),
        ("[-A ]-A [-B", [Span(0, 1, "A"), Span(1, 2, "A"), Span(2, 3, "B")]),
        ("]-A I-A", [Span(0, 1, "A")]),
        ("B I O B", [Span(0, 2, ""), Span(3, 4, "")]),
        ("NN VB . NN", []),
        ("", []),
    ],
)
def test_the_scorer_reads_everything(labels: str, found: list[Span]) -> None:
    assert spans(labels.split(), "conlleval") == found
    assert spans(labels.split(), "bioes") == found


@pytest.mark.parametrize(
    ("scheme", "labels", "found"),
    [
        ("iob2", "I-A B-A I-B I-A", [Span(1, 2, "A")]),
        ("iob2", "X-A B-A", [Span(1, 2, "A")]),
        ("iob1", "B-A I-B", [Span(1, 2, "B")]),
        ("bioes", "B-A B-A E-A I-A S-B E-B B-A", [Span(1, 3, "A"), Span(4, 5, "B")]),
    ],
)
def test_only_what_is_well_formed(scheme: str, labels: str, found: list[Span]) -> None:
    assert spans(labels.split(), scheme, illegal="drop") == found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([(0, 2, "A"), (1, 3, "A")], "overlaps"),
        ([(2, 2, "A")], "empty or outside a sentence of 4 tokens"),
        ([(3, 5, "A")], "empty or outside"),
        ([(-1, 1, "A")], "empty or outside"),
        ([(0, 1, "A"), (1, 2, "")], r"span 1, \(1, 2, ''\), has the type '', expected a name"),
        ([(0, 1, None)], "has the type None, expected a name"),
        ([("A", 0, 1)], r"span 0 is \('A', 0, 1\), expected \(start, end, type\)"),
        ([(0.0, 1.0, "A")], "whole numbers and a string"),
        (["AB"], "span 0 is 'AB'"),
    ],
)
def test_impossible_spans(found: list[tuple[int, int, str]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        labels_from_spans(found, 4)


def test_spans_without_a_type() -> None:
    assert convert(["I", "I", "O"], "iob1", "iob2") == ["B", "I", "O"]
    assert spans(["B", "I", "O"], illegal="raise") == [Span(0, 2, "")]


def test_options() -> None:
    with pytest.raises(OptionError, match="scheme 'xyz', expected one of iob1, iob2, bio"):
        spans([], "xyz")
    with pytest.raises(OptionError, match="illegal='ignore'"):
        spans([], illegal="ignore")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="accepts every label"):
        spans([], "conlleval", illegal="raise")
    with pytest.raises(OptionError, match="only reads labels"):
        labels_from_spans([], 0, "conlleval")
    assert named_scheme(named_scheme("bio")).name == "iob2"


def test_legal_transitions() -> None:
    labels = ["O", "B-A", "I-A", "B-B", "I-B"]
    expected = [
        # O B-A I-A B-B I-B end
        [1, 1, 0, 1, 0, 1],  # O
        [1, 1, 1, 1, 0, 1],  # B-A
        [1, 1, 1, 1, 0, 1],  # I-A
        [1, 1, 0, 1, 1, 1],  # B-B
        [1, 1, 0, 1, 1, 1],  # I-B
        [1, 1, 0, 1, 0, 1],  # start
    ]
    assert legal_transitions(labels).astype(int).tolist() == expected
    bioes = ["O", "S-A", "B-A", "I-A", "E-A"]
    expected = [
        # O S B I E end
        [1, 1, 1, 0, 0, 1],  # O
        [1, 1, 1, 0, 0, 1],  # S-A
        [0, 0, 0, 1, 1, 0],  # B-A
        [0, 0, 0, 1, 1, 0],  # I-A
        [1, 1, 1, 0, 0, 1],  # E-A
        [1, 1, 1, 0, 0, 1],  # start
    ]
    assert legal_transitions(bioes, "bioes").astype(int).tolist() == expected
    assert legal_transitions(["NN", "B-A"], "conlleval").all()
    with pytest.raises(LabelError, match="label 'NN' is not iob2"):
        legal_transitions(["O", "NN"])


def test_whole_columns() -> None:
    data = b"a I-A\nb I-A\n\nc I-A\nd B-A\n\n"
    corpus = read_columns(io.BytesIO(data), ("word", "label"))
    changed = convert_column(corpus, "label", "iob1", "bioes", illegal="raise")
    assert changed.column_lists("label") == [["B-A", "E-A"], ["S-A", "S-A"]]
    found = span_arrays(corpus.column("label"), corpus.offsets, "iob1")
    assert found.start.tolist() == [0, 2, 3]
    assert found.end.tolist() == [2, 3, 4]
    assert [found.types[k] for k in found.type.tolist()] == ["A", "A", "A"]
    with pytest.raises(SchemeError, match="<input>:1: 'I-A' after the start is not legal in iob2"):
        convert_column(corpus, "label", "iob2", "bioes", illegal="raise")
    with pytest.raises(DataError, match="no column 'chunk'"):
        convert_column(corpus, "chunk", "iob2", "bioes")


def test_no_sentences_at_all() -> None:
    empty = Corpus({"label": Column.from_strings([])}, np.zeros(1, dtype=np.int64))
    assert len(span_arrays(empty.column("label"), empty.offsets).start) == 0
    assert len(convert_column(empty, "label", "iob1", "iob2")) == 0


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["B-X", "_"], "'_' is not a label of a span"),
        (["NN", "O"], "'NN' is not a label of a span"),
        ("B-X", "the labels are the string 'B-X', expected a list"),
    ],
)
def test_labels_that_a_conversion_would_lose(labels: list[str], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        convert(labels, "iob2", "bioes")

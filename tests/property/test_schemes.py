"""Laws of schemes and spans."""

from __future__ import annotations

import itertools
from typing import Literal

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.errors import SchemeError
from fstcrf.taggers.spanencoding import SpanEncoding
from fstcrf.text.corpus import (
    Column,
    Span,
    convert,
    labels_from_spans,
    legal_transitions,
    named_scheme,
    span_arrays,
    spans,
)
from fstcrf.text.corpus.schemes import Illegal, written_spans

SCHEMES = ["io", "iob1", "iob2", "bioes", "bilou", "bmes", "bmewo"]
ILLEGAL: tuple[Illegal, ...] = ("repair", "drop", "raise")
LETTERS = st.sampled_from(["B", "I", "O", "E", "S", "L", "U", "[", "]", ".", "X"])
WILD = st.one_of(
    st.just("O"),
    st.builds("{}-{}".format, LETTERS, st.sampled_from(["A", "B", "A-B"])),
    LETTERS,
)
SENTENCES = st.lists(st.lists(WILD, max_size=8), max_size=5)


@st.composite
def span_lists(draw: st.DrawFn) -> tuple[list[Span], int]:
    lengths = draw(st.lists(st.integers(1, 4), max_size=6))
    found, start = [], 0
    for length in lengths:
        kind = draw(st.sampled_from(["A", "B", "A-B", "", None]))
        if kind is not None:
            found.append(Span(start, start + length, kind))
        start += length
    return found, start


@given(span_lists(), st.sampled_from(SCHEMES))
def test_spans_of_labels_of_spans(case: tuple[list[Span], int], scheme: str) -> None:
    found, length = case
    labels = written_spans(found, length, scheme)
    kept = joined(found) if scheme == "io" else found
    for illegal in ILLEGAL:
        assert spans(labels, scheme, illegal=illegal) == kept


def joined(several: list[Span]) -> list[Span]:
    """Return spans of which those of one type that touch are one: IO cannot tell them apart."""
    found: list[Span] = []
    for span in several:
        if found and found[-1].end == span.start and found[-1].type == span.type:
            found[-1] = Span(found[-1].start, span.end, span.type)
        else:
            found.append(span)
    return found


@given(st.lists(WILD, max_size=8), st.sampled_from(SCHEMES))
def test_raise_is_legal_transitions_and_then_all_ways_agree(labels: list[str], scheme: str) -> None:
    table = named_scheme(scheme)
    try:
        found = spans(labels, scheme, illegal="raise")
    except SchemeError:
        found = None
    known = [x for x in labels if x == "O" or (x[0] in table.letters[1:] and x[1:2] in ("", "-"))]
    if len(known) < len(labels):
        assert found is None
        return
    distinct = list(dict.fromkeys([*labels, "O"]))
    legal = legal_transitions(distinct, scheme)
    path = [len(distinct), *map(distinct.index, labels), len(distinct)]
    assert (found is not None) == all(legal[a, b] for a, b in itertools.pairwise(path))
    if found is not None:
        assert found == spans(labels, scheme) == spans(labels, scheme, illegal="drop")
        assert convert(labels, scheme, scheme) == labels
        if all(span.type for span in found):
            assert labels_from_spans(found, len(labels), scheme) == labels


@pytest.mark.parametrize("illegal", ["repair", "drop"])
@given(sentences=SENTENCES, scheme=st.sampled_from(SCHEMES))
def test_whole_columns_give_the_same_spans(
    illegal: Literal["repair", "drop"], sentences: list[list[str]], scheme: str
) -> None:
    column = Column.from_strings(itertools.chain.from_iterable(sentences))
    offsets = np.cumsum([0, *map(len, sentences)])
    found = span_arrays(column, offsets, scheme, illegal=illegal)
    listed = [
        Span(start, end, found.types[kind])
        for start, end, kind in zip(
            found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True
        )
    ]
    expected = [
        Span(start + base, end + base, kind)
        for base, labels in zip(offsets.tolist(), sentences, strict=False)
        for start, end, kind in spans(labels, scheme, illegal=illegal)
    ]
    assert listed == expected


@given(st.lists(WILD, max_size=8), st.sampled_from(SCHEMES))
def test_spans_are_ordered_and_apart(labels: list[str], scheme: str) -> None:
    for illegal in ILLEGAL[:2]:
        found = spans(labels, scheme, illegal=illegal)
        assert all(0 <= span.start < span.end <= len(labels) for span in found)
        assert all(a.end <= b.start for a, b in itertools.pairwise(found))


@given(data=st.data(), scheme=st.sampled_from(SCHEMES))
def test_labels_of_many_sentences(data: st.DataObject, scheme: str) -> None:
    types = ("A", "B", "")
    offsets, spans, labels = [0], [], []
    for _ in range(data.draw(st.integers(0, 4))):
        length, own, at = data.draw(st.integers(0, 7)), [], 0
        while at < length:
            size = data.draw(st.integers(1, length - at))
            kind = data.draw(st.sampled_from((0, 1, 2, None)))
            if kind is not None:
                own.append(Span(at, at + size, types[kind]))
                spans.append((offsets[-1] + at, offsets[-1] + at + size, kind))
            at += size
        labels.append(written_spans(own, length, scheme))
        offsets.append(offsets[-1] + length)
    start, end, kinds = np.asarray(spans, dtype=np.int64).reshape(-1, 3).T
    spelling = SpanEncoding((*types, "O"), scheme)
    ids = spelling.ids(np.asarray(offsets), start, end, kinds.astype(np.int32)).tolist()
    assert [spelling.labels[k] for k in ids] == [label for one in labels for label in one]

"""Answers of taggers: flat arrays, and what is read from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.arrays import Floats
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.lattices import Answer, TapeAnswer
from fstcrf.text.corpus import spans

LABELS = ("O", "B-X", "I-X")
OFFSETS = np.asarray([0, 2, 2, 3, 6])


def best() -> Answer:
    """Four sentences: two tokens, none, one that is dead, three."""
    scores = np.asarray([1.0, 0.0, -np.inf, 2.0])
    return Answer(
        {"chunk": np.asarray([[0, 1, -1, 1, 2, 0]], dtype=np.int32)},
        {"chunk": LABELS},
        OFFSETS,
        scores=scores,
        probabilities=np.exp(scores - 3.0),
        exact=np.asarray([True, True, True, False]),
        bounds=np.asarray([1.0, 0.0, -np.inf, 2.5]),
        changed=["", "", "", "grammar"],
    )


def two_best() -> Answer:
    """The same sentences: two paths, the only empty one, none, one."""
    never = -np.inf
    flat = [[0, 1, -1, 1, 2, 0], [0, 0, -1, -1, -1, -1]]
    scores = np.asarray([[1.0, 0.5], [0.0, never], [never, never], [2.0, never]])
    return Answer(
        {"chunk": np.asarray(flat, dtype=np.int32)},
        {"chunk": LABELS},
        OFFSETS,
        scores=scores,
        probabilities=lambda: np.exp(scores - 3.0),
        exact=np.ones((4, 2), dtype=bool),
        bounds=scores,
    )


def joint() -> Answer:
    """One sentence on two tapes."""
    return Answer(
        {
            "pos": np.asarray([[1, 0]], dtype=np.int32),
            "chunk": np.asarray([[0, 1]], dtype=np.int32),
        },
        {"chunk": LABELS, "pos": ("N", "V")},
        np.asarray([0, 2]),
        scores=np.asarray([1.0]),
        probabilities=np.asarray([0.5]),
        exact=np.asarray([True]),
        bounds=np.asarray([1.0]),
    )


def test_sizes() -> None:
    one, two = best(), two_best()
    assert (len(one), one.n, one.tapes) == (4, 1, ("chunk",))
    assert (len(two), two.n, len(two["chunk"]), two["chunk"].n) == (4, 2, 4, 2)
    assert one.dead.tolist() == two.dead.tolist() == [False, False, True, False]
    assert one.changed.tolist() == ["", "", "", "grammar"]
    assert two.changed.tolist() == [""] * 4
    assert repr(one) == "<Answer: 4 sentences, 6 tokens, n=1, tapes chunk>"
    assert repr(one["chunk"]) == "<TapeAnswer chunk: 4 sentences, 6 tokens>"


def test_ids_are_padded() -> None:
    first = [[0, 1, -1], [-1, -1, -1], [-1, -1, -1], [1, 2, 0]]
    assert best().ids.tolist() == first
    assert best().ids.dtype == np.int32
    ids = two_best().ids
    assert ids.shape == (4, 2, 3)
    assert ids[:, 0].tolist() == first
    assert ids[:, 1].tolist() == [[0, 0, -1], *[[-1, -1, -1]] * 3]
    assert best().flat.tolist() == [[0, 1, -1, 1, 2, 0]]


def test_nothing_has_ids_too() -> None:
    empty = np.zeros(0)
    answer = Answer(
        {"chunk": np.zeros((1, 0), dtype=np.int32)},
        {"chunk": LABELS},
        np.zeros(1, dtype=np.int64),
        scores=empty,
        probabilities=empty,
        exact=empty > 0,
        bounds=empty,
    )
    assert answer.ids.shape == (0, 0)
    assert (answer.labels(), answer.spans(), list(answer)) == ([], [], [])


def test_probabilities_are_asked_for_once_and_only_when_needed() -> None:
    asked = []
    scores = np.asarray([-1.0])

    def found() -> Floats:
        asked.append(1)
        return scores.copy()

    answer = Answer(
        {"chunk": np.asarray([[0]], dtype=np.int32)},
        {"chunk": LABELS},
        np.asarray([0, 1]),
        scores=scores,
        probabilities=found,
        exact=np.asarray([True]),
        bounds=scores,
    )
    assert answer.labels() == [["O"]]
    assert not asked
    assert answer.probabilities is answer.probabilities
    assert asked == [1]


@given(st.lists(st.lists(st.sampled_from(["O", "B-X", "I-X", "E-X", "S-Y", "I-Y"]))))
def test_spans_are_those_of_each_sentence(labels: list[list[str]]) -> None:
    values = ("O", "B-X", "I-X", "E-X", "S-Y", "I-Y")
    offsets = np.cumsum([0, *map(len, labels)])
    flat = np.asarray([[values.index(x) for row in labels for x in row]], dtype=np.int32)
    tape = TapeAnswer("t", values, flat, offsets, np.ones(len(labels), dtype=np.int64))
    assert tape.spans() == [spans(row, "conlleval") for row in labels]
    assert tape.spans("bioes") == [spans(row, "bioes", illegal="drop") for row in labels]
    assert tape.labels() == labels


def test_columns() -> None:
    column = best().column(missing="_")
    assert column.strings() == ["O", "B-X", "_", "B-X", "I-X", "O"]
    assert best().column(missing="O").values == LABELS
    assert joint()["pos"].column().strings() == ["V", "N"]
    with pytest.raises(NoPathError, match="sentence 2") as caught:
        best().column()
    assert caught.value.sentence == 2
    with pytest.raises(NoPathError, match="tape 'chunk' has no path 1 to write"):
        two_best().column(1)


def test_several_tapes_have_no_short_form() -> None:
    answer = joint()
    assert answer.tapes == ("pos", "chunk")
    assert answer.paths(0)[0].labels == (("V", "N"), ("O", "B-X"))
    assert answer["pos"].labels() == [["V", "N"]]
    for ask in (
        lambda: answer.ids,
        lambda: answer.flat,
        answer.labels,
        answer.spans,
        answer.column,
    ):
        with pytest.raises(OptionError, match="choose one of pos, chunk"):
            ask()
    with pytest.raises(OptionError, match="no tape 'ner': the tapes are pos, chunk"):
        answer["ner"]


def test_arrays_must_go_together() -> None:
    flat = {"chunk": np.asarray([[0]], dtype=np.int32)}
    sets, offsets, one = {"chunk": LABELS}, np.asarray([0, 1]), np.asarray([1.0])
    rest: dict[str, Any] = {"scores": one, "probabilities": one, "exact": one > 0, "bounds": one}
    Answer(flat, sets, offsets, **rest)
    for wrong in (
        {"bounds": np.zeros(2)},
        {"exact": np.ones((1, 2), dtype=bool)},
        {"scores": np.zeros((1, 2))},
        {"changed": ["", ""]},
    ):
        with pytest.raises(ShapeError):
            Answer(flat, sets, offsets, **{**rest, **wrong})
    with pytest.raises(ShapeError, match="expected \\[n, 2\\]"):
        Answer(flat, sets, np.asarray([0, 2]), **rest)
    two: dict[str, Any] = {name: np.zeros((1, 2)) for name in ("scores", "bounds")}
    with pytest.raises(ShapeError, match="chunk 1"):
        Answer(flat, sets, offsets, **two, probabilities=one, exact=np.ones((1, 2), dtype=bool))
    shown = Answer(flat, sets, offsets, **{**rest, "probabilities": np.zeros(2)})
    with pytest.raises(ShapeError, match="probabilities are"):
        _ = shown.probabilities

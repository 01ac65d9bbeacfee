"""Label columns as sets of allowed labels."""

from __future__ import annotations

import pytest

from fstcrf.errors import DataError, LabelError
from fstcrf.text.corpus import Column
from fstcrf.text.sentences import allowed_labels, label_set


def test_labels_are_sorted() -> None:
    assert label_set(["O", "B-X", "I-X", "B-X"]) == ["B-X", "I-X", "O"]


def test_unknown_and_alternatives_are_no_labels() -> None:
    assert label_set(["_", "a|b", "a", "b"]) == ["a", "b"]
    assert label_set(["_", "a|b", "a", "b"], partial=False) == ["_", "a", "a|b", "b"]


def test_a_bar_within_a_label() -> None:
    """Its parts are no labels in their own right."""
    assert label_set(["NOUN|Number=Sing", "NOUN"]) == ["NOUN", "NOUN|Number=Sing"]
    assert label_set(["NOUN|Number=Sing", "VERB|Number=Sing"]) == [
        "NOUN|Number=Sing",
        "VERB|Number=Sing",
    ]


@pytest.mark.parametrize("values", [[], ["_"]])
def test_no_label(values: list[str]) -> None:
    with pytest.raises(DataError, match="holds no label"):
        label_set(values)


def test_labels_are_strings() -> None:
    with pytest.raises(DataError, match="labels are strings, got 1"):
        label_set(["a", 1])  # type: ignore[list-item]


def test_alternatives_may_name_labels_of_an_earlier_model() -> None:
    assert label_set(["a|b"], earlier=["a", "b"]) == []
    assert label_set(["a|b", "c"], earlier=["a|b"]) == ["a|b", "c"]
    assert label_set(["_"], earlier=["a"]) == []


def test_allowed() -> None:
    column = Column.from_strings(["a", "_", "a|c", "b", "a"])
    assert allowed_labels(column, ["a", "b", "c"]).astype(int).tolist() == [
        [1, 0, 0],
        [1, 1, 1],
        [1, 0, 1],
        [0, 1, 0],
        [1, 0, 0],
    ]


def test_a_label_with_a_bar_is_that_label() -> None:
    column = Column.from_strings(["a|b"])
    assert allowed_labels(column, ["a", "a|b", "b"]).tolist() == [[False, True, False]]


@pytest.mark.parametrize("string", ["z", "a|z", "_|a", "a||b", "|", ""])
def test_a_string_that_is_no_label(string: str) -> None:
    column = Column.from_strings(["a", string])
    with pytest.raises(LabelError) as caught:
        allowed_labels(column, ["a", "b"])
    assert str(caught.value) == f"token 1: {string!r} is not one of the 2 labels"


def test_partial_off() -> None:
    for string in ("_", "a|b"):
        with pytest.raises(LabelError, match="token 0"):
            allowed_labels(Column.from_strings([string]), ["a", "b"], partial=False)


def test_strings_that_no_token_has_do_not_count() -> None:
    column = Column.from_strings(["a", "z"])
    assert allowed_labels(Column(column.ids[:1], column.values), ["a"]).tolist() == [[True]]

"""Attributes in all the forms that python-crfsuite takes."""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from fstcrf.ext.compat.pycrfsuite import ItemSequence
from fstcrf.ext.compat.pycrfsuite.items import Growing, ItemError, Lookup, labels_of
from tests.support.compat_data import sequences

FORMS: list[tuple[Any, dict[str, float]]] = [
    (["a", "b"], {"a": 1, "b": 1}),
    (("a", b"b"), {"a": 1, "b": 1}),
    ({"a"}, {"a": 1}),
    ({"a": 0}.keys(), {"a": 1}),
    ([], {}),
    ({}, {}),
    ({"a": True, "b": False, "c": -1, "d": 0.5}, {"a": 1, "b": 0, "c": -1, "d": 0.5}),
    ({"a": "x", "b": b"y", b"c": "z"}, {"a:x": 1, "b:y": 1, "c:z": 1}),
    ({"a": {"b": {"c": "x", "d": 2}}}, {"a:b:c:x": 1, "a:b:d": 2}),
    ({"a": ["x", "y"], "b": {"z"}, "c": ("w",)}, {"a:x": 1, "a:y": 1, "b:z": 1, "c:w": 1}),
    (OrderedDict(a="x"), {"a:x": 1}),
    (MappingProxyType({"a": 2}), {"a": 2}),
    ({"a": np.float32(2), "b": np.str_("q"), "c": np.bool_(True)}, {"a": 2, "b:q": 1, "c": 1}),
    ({"ключ": "мир", "": 1, "e": ""}, {"ключ:мир": 1, "": 1, "e:": 1}),
    ({"a": "x\0y", "b\0c": "z"}, {"a:x": 1, "b": 1}),
    (["x\0y"], {"x": 1}),
]


@pytest.mark.parametrize(("item", "expected"), FORMS)
def test_forms(item: Any, expected: dict[str, float]) -> None:
    assert ItemSequence([item]).items() == [expected]


def test_a_sequence_is_read_from_any_iterable() -> None:
    sequence = ItemSequence(iter([["a"], {"b": 1}]))
    assert len(sequence) == 2
    assert repr(sequence) == "<ItemSequence of size 2>"
    assert ItemSequence(sequence).items() == ItemSequence(sequence.items()).items()


@pytest.mark.parametrize(
    "bad",
    [
        "ab",
        None,
        {"a": 1},
        3,
        ["ab"],
        [None],
        [3],
        [[3]],
        [[["a"]]],
        [{3: "x"}],
        [{"a": None}],
        [{"a": float("nan")}],
        [{"a": float("inf")}],
        [{"a": 1e39}],
        [{"a": [3]}],
        [{"a": [{"b": 1}]}],
        [{"a": "\ud800"}],
        [[b"\xff"]],
    ],
)
def test_what_is_no_item(bad: Any) -> None:
    for read in (ItemSequence, Growing().rows, Lookup(["a"]).rows):
        with pytest.raises(ItemError) as caught:
            read(bad)
        # Users of python-crfsuite expect the one, its tests the other.
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, TypeError)
        assert "\n" not in str(caught.value)


def test_the_token_is_named() -> None:
    with pytest.raises(ItemError, match="token 1: expected a string, got 3"):
        ItemSequence([["a"], [3]])  # type: ignore[list-item]


def test_labels() -> None:
    assert labels_of(("a", b"b", "c\0d")) == ["a", "b", "c"]
    for bad in (None, 3, b"a", ["a", None], [3]):
        with pytest.raises(ItemError):
            labels_of(bad)


@pytest.mark.parametrize("seed", range(3))
def test_looked_up_rows_are_those_of_the_items(seed: int) -> None:
    every, _ = sequences(seed)
    unseen: list[Any] = [
        {"word": "unseen", "deep": {"er": {"a": "x"}}},
        {"odd": 1, "size": 0},
        ["n"],
    ]
    growing = Growing()
    for items in every:
        growing.rows(items)
    names = growing.attributes
    lookup = Lookup(names)
    for items in [*every, *every, unseen]:  # twice: the second time what is remembered is used
        for given in (items, ItemSequence(items)):
            rows = lookup.rows(given)
            values = np.ones(len(rows.rows)) if rows.values is None else rows.values
            for t, item in enumerate(items):
                span = slice(rows.indptr[t], rows.indptr[t + 1])
                found: dict[str, float] = {}
                for row, value in zip(rows.rows[span].tolist(), values[span], strict=True):
                    if row < len(names):
                        found[names[row]] = found.get(names[row], 0.0) + value
                expected: dict[str, float] = {}
                names_, numbers = ItemSequence([item]).tokens[0]
                for name, number in zip(names_, numbers or [1.0] * len(names_), strict=True):
                    if name in lookup._row and number:
                        expected[name] = expected.get(name, 0.0) + number
                assert found == pytest.approx(expected)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fstcrf.ext.compat.pycrfsuite.items._REMEMBERED", 5)
    lookup = Lookup(["w:3", "n:k3:x"])
    for _ in range(2):
        for k in range(20):
            rows = lookup.rows([{"w": str(k), "n": {f"k{k}": "x"}, f"o{k}": {"a": "b"}}])
            assert sorted(rows.rows.tolist()) == ([0, 1, 2] if k == 3 else [2, 2, 2])
    assert lookup._remembered == 5


def test_numbers_that_equal_flags_count_as_they_do() -> None:
    lookup = Lookup(["a", "b"])
    for one, none in ((True, False), (1, 0), (1.0, 0.0), (np.int64(1), np.int64(0))):
        for _ in range(2):
            rows = lookup.rows([{"a": one, "b": none}])
            assert [row for row in rows.rows.tolist() if row < 2] == [0]
            assert rows.values is None


def test_numbers_that_equal_flags_are_remembered_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookup = Lookup(["bias", "title", "w:the"])
    item = {"bias": 1.0, "title": 0, "w": "the"}
    first = lookup.rows([item])
    monkeypatch.setattr(lookup, "_pair", None)  # a second token needs no look at its values
    again = lookup.rows([item, {"bias": True, "title": False, "w": "the"}])
    assert first.rows.tolist() == [0, 3, 2]
    assert again.rows.tolist() == [0, 3, 2] * 2
    assert again.values is None

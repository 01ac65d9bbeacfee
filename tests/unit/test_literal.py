"""Attributes that the caller writes."""

from __future__ import annotations

import pickle
from collections import defaultdict
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.errors import DataError, ModelFileError, OptionError, ShapeError
from fstcrf.text.corpus.corpus import Sentence
from fstcrf.text.features import Design, LiteralIndex, is_literal, literal

SENTENCES: list[Any] = [
    [["w=the", "first"], ["w=cat"]],
    [],
    [["w=the", "first"], {"w=cat", "last"}, []],
]


def decoded(index: LiteralIndex, design: Design) -> list[dict[str, float]]:
    rows = design.node
    values = np.ones(len(rows.index)) if rows.value is None else rows.value
    tokens: list[dict[str, float]] = []
    for start, end in zip(rows.indptr, rows.indptr[1:], strict=False):
        token: dict[str, float] = defaultdict(float)
        for row, value in zip(rows.index[start:end], values[start:end], strict=True):
            token[index.attribute(int(row))] += float(value)
        tokens.append(dict(token))
    return tokens


def test_lists_of_strings() -> None:
    index, design = LiteralIndex.build(SENTENCES)
    assert decoded(index, design) == [
        {"w=the": 1, "first": 1},
        {"w=cat": 1},
        {"w=the": 1, "first": 1},
        {"w=cat": 1, "last": 1},
        {},
    ]
    assert design.node.value is None
    assert design.arc is None
    assert (index.n_node_rows, index.n_arc_rows) == (4, 0)
    assert index.row("last") == 3
    assert index.row("w=dog") is None
    assert index.row("last", arc=True) is None


def test_unknown_attributes_are_absent() -> None:
    index, _ = LiteralIndex.build(SENTENCES)
    design = index.design([[["w=dog", "first"], {"w=dog": 2.0}], [{"last": 0.5, "new": 1}]])
    assert decoded(index, design) == [{"first": 1}, {}, {"last": 0.5}]


def test_the_rules_of_python_crfsuite() -> None:
    index, design = LiteralIndex.build(
        [
            [
                {
                    "word": "the",
                    "title": True,
                    "upper": False,
                    "length": 3.5,
                    "count": np.int64(2),
                    "in": ["a", "b"],
                    "set": {"c"},
                    "prev": {"w": "x", "deep": {"n": 2}},
                }
            ]
        ]
    )
    assert decoded(index, design) == [
        {
            "word:the": 1,
            "title": 1,
            "upper": 0,
            "length": 3.5,
            "count": 2,
            "in:a": 1,
            "in:b": 1,
            "set:c": 1,
            "prev:w:x": 1,
            "prev:deep:n": 2,
        }
    ]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e39])
def test_values_must_be_finite(bad: float) -> None:
    sentences: list[Any] = [[{"a": 1}], [], [[], {"a": 1, "b": bad}]]
    with pytest.raises(
        DataError, match=r"sentence 2, token 1: attribute 'b' is (-?inf|nan|1e\+39), .*float32"
    ):
        LiteralIndex.build(sentences)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("word", "neither a list of attributes nor a dict"),
        (3, "neither a list"),
        (["a", 3], "not a string"),
        (("the", "DT"), "is a row of columns"),
        ({3: "a"}, "key 3 is not a string"),
        ({"a": None}, "attribute 'a' is None"),
        ({"a": [1]}, "'a' holds 1, expected strings"),
        ({"a": 10**400}, "too large"),
    ],
)
def test_tokens_that_are_no_attributes(token: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"sentence 1, token 1: .*{message}"):
        LiteralIndex.build([[["a"]], [["a"], token]])


def test_sentences_of_columns_are_refused() -> None:
    for sentence in ({"word": ["the"]}, Sentence({"word": ["the"]}), "the"):
        with pytest.raises(DataError, match=r"^sentence 1: expected attribute lists"):
            LiteralIndex.build([[["a"]], sentence])  # type: ignore[list-item]


def test_what_is_literal() -> None:
    assert is_literal([["w=the"], []])
    assert is_literal([{"w": "the"}])
    assert is_literal(({"w"},))
    assert not is_literal([("the", "DT")])
    assert not is_literal({"word": ["the"]})
    assert not is_literal(Sentence({"word": ["the"]}))
    assert not is_literal([])
    assert not is_literal("the")
    assert not is_literal(["the"])
    assert not is_literal(3)


def test_hashed_rows() -> None:
    index, design = LiteralIndex.build(SENTENCES, hash_bits=10)
    assert index.n_node_rows == 1024
    assert design.node.index[0] == index.row("w=the")
    assert index.attribute(17) == "#17"
    assert index.collisions(SENTENCES).attributes == 4
    again = LiteralIndex.from_arrays(index.arrays(), index.metadata())
    assert np.array_equal(again.design(SENTENCES).node.index, design.node.index)


def test_renumbering() -> None:
    index, design = LiteralIndex.build(SENTENCES)
    order = np.array([2, 0, 3, 1], dtype=np.int32)
    other = index.renumbered(order)
    assert np.array_equal(other.design(SENTENCES).node.index, order[design.node.index])
    with pytest.raises(ShapeError, match="permutation of 4 rows"):
        index.renumbered(np.zeros(4, dtype=np.int32))


def test_damaged_arrays() -> None:
    index, _ = LiteralIndex.build(SENTENCES)
    arrays, metadata = index.arrays(), index.metadata()
    offsets = arrays["strings.offsets"]
    damages: list[dict[str, Any]] = [
        {"strings.offsets": offsets[:-1]},
        {"strings.offsets": offsets[::-1].copy()},
        {"strings.offsets": offsets.astype(np.int32)},
        {"strings.offsets": np.empty(0, dtype=np.int64)},
        {"strings.blob": np.asarray(arrays["strings.blob"], np.uint8) | np.uint8(0x80)},
        {"strings.blob": np.full_like(arrays["strings.blob"], 97)[:, None]},
    ]
    for damage in damages:
        with pytest.raises(ModelFileError):
            LiteralIndex.from_arrays(arrays | damage, metadata)
    with pytest.raises(ModelFileError, match="no array"):
        LiteralIndex.from_arrays({}, metadata)
    with pytest.raises(ModelFileError, match="expected"):
        LiteralIndex.from_arrays(arrays, {"kind": "templates", "version": 1})
    with pytest.raises(ModelFileError, match="hash_bits"):
        LiteralIndex.from_arrays(arrays, metadata | {"hash_bits": "x"})
    twice = {
        "strings.blob": np.frombuffer(b"aa", dtype=np.uint8),
        "strings.offsets": np.array([0, 1, 2]),
    }
    with pytest.raises(ModelFileError, match="twice"):
        LiteralIndex.from_arrays(twice, metadata)


def test_options() -> None:
    index, _ = LiteralIndex.build(SENTENCES)
    with pytest.raises(OptionError, match="row 9 of an index with 4 rows"):
        index.attribute(9)
    with pytest.raises(OptionError, match="min_count is 0"):
        LiteralIndex.build(SENTENCES, min_count=0)
    with pytest.raises(OptionError, match="min_count"):
        LiteralIndex.build(SENTENCES, min_count=2, hash_bits=4)
    with pytest.raises(OptionError, match="hash_bits is 31"):
        LiteralIndex.build(SENTENCES, hash_bits=31)
    with pytest.raises(OptionError, match="start from"):
        LiteralIndex.build(SENTENCES, hash_bits=4, base=index)
    with pytest.raises(OptionError, match="only a hashed index"):
        index.collisions(SENTENCES)
    with pytest.raises(OptionError, match="cannot be renumbered"):
        LiteralIndex(hash_bits=4).renumbered(np.arange(16, dtype=np.int32))
    with pytest.raises(DataError, match="twice"):
        LiteralIndex(["a", "a"])
    with pytest.raises(DataError, match="surrogate"):
        LiteralIndex(["\ud800"]).arrays()


class Colour(str, Enum):  # noqa: UP042 (a StrEnum is formatted as its value)
    RED = "red"


_STRINGS = st.sampled_from(["a", "b", "a:x", "b:y", "new", "é"])
_VALUES = st.one_of(
    st.sampled_from(["x", "y", "red", Colour.RED, True, False, 0, 1, -0.0, 1.0, 2.5]),
    st.lists(st.sampled_from(["x", "y"]), max_size=2),
    st.dictionaries(st.just("k"), st.sampled_from(["x", 0.5])),
)
_TOKENS = st.one_of(
    st.lists(_STRINGS, max_size=4),
    st.sets(_STRINGS, max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "colour", Colour.RED]), _VALUES, max_size=4),
)


@given(st.lists(st.lists(_TOKENS, max_size=4), max_size=8), st.sampled_from([None, 4]))
def test_a_sentence_alone_has_the_rows_of_a_batch(texts: list[Any], bits: int | None) -> None:
    known: list[Any] = [
        [["a", "a:x", "b:y", "é"], {"colour": Colour.RED, "b": {"k": "x"}, "a": 2.0}]
    ]
    index, _ = LiteralIndex.build(known, hash_bits=bits)
    for text in texts + texts:  # rows are found first, and remembered then
        wanted = index.design([text]).node
        values = np.ones(len(wanted.index)) if wanted.value is None else wanted.value
        bounds, given, own_values = index.of_one(text)
        rows = np.frombuffer(given, dtype=np.int32).tolist()
        own = np.ones(len(rows)) if own_values is None else own_values
        assert len(bounds) == len(text) + 1
        for t in range(len(text)):
            a, b = wanted.indptr[t], wanted.indptr[t + 1]
            pairs = zip(wanted.index[a:b].tolist(), values[a:b].tolist(), strict=True)
            a, b = bounds[t], bounds[t + 1]
            own_pairs = zip(rows[a:b], own[a:b].tolist(), strict=True)
            assert [p for p in own_pairs if p[1]] == [p for p in pairs if p[1]]


def test_errors_of_a_sentence_alone_are_those_of_a_batch() -> None:
    index, _ = LiteralIndex.build(SENTENCES)
    texts: list[Any] = [
        [["first"], ("first",)],
        [["first", 3]],
        [{"a": None}],
        [{"a": 1e39}],
        [{3: "a"}],
    ]
    for text in texts:
        errors = []
        for ask in (index.of_one, lambda text: index.design([text])):
            with pytest.raises(DataError) as caught:
                ask(text)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]


def test_what_is_remembered_of_sentences_alone_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literal, "_REMEMBERED", 5)
    index, _ = LiteralIndex.build(SENTENCES)
    for number in range(20):
        _, rows, _ = index.of_one([["first", f"new {number}"], {"last": True, "n": str(number)}])
        rows = np.frombuffer(rows, dtype=np.int32).tolist()
        assert rows == [index.row("first"), index.row("last")]
        assert len(index._known) <= 5 + 6
    assert not pickle.loads(pickle.dumps(index))._known

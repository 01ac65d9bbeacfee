"""Arguments of transducers that are nothing of the kind are errors of the library's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import Grammar, Lattice, Transducer
from fstcrf.errors import FstcrfError

T: Any = Transducer
COPY: Any = Transducer.from_text("0 0 a\n0", tape=None)
LATTICE: Any = Lattice.from_arrays(["a"], np.zeros((2, 1)))

ARRAYS: Any = {
    "source": np.zeros(1, np.int32), "input": np.zeros(1, np.int32),
    "output": np.zeros(1, np.int32), "target": np.ones(1, np.int32),
    "score": np.zeros(1), "final": np.zeros(2), "input_symbols": ("a",), "output_symbols": ("b",),
}  # fmt: skip
COST = 'export X = "[a]" <?q>;'
ROW = np.zeros(3)
NOTHING: list[Any] = [
    None, 0, 1.5, "a", b"a", {}, {1: 1.0}, {"a"}, [None], ROW, np.zeros((2, 2)),
    np.array("a"), object(),
]  # fmt: skip
"""What is nothing that a transducer is made of."""


def made(**others: Any) -> Any:
    return T(**{**ARRAYS, **others})


def changed(name: str) -> Callable[[Any], Any]:
    return lambda odd: made(**{name: odd})


DOORS: dict[str, Callable[[Any], Any]] = {
    **{f"the class: {name}": changed(name) for name in (*ARRAYS, "named")},
    "the class: semiring": lambda x: made(semiring=x),
    "a table": T.from_table,
    "a row of a table": lambda x: T.from_table({"a": x}),
    "a score of a table": lambda x: T.from_table({"a": {"b": x}}),
    "scores of pairs": lambda x: T.from_pairs([("a", "b")], x),
    "ends": lambda x: T.from_arrays(
        [0], [0], [0], [0], final=x, input_symbols=["a"], output_symbols=["a"]
    ),
    "epsilon": lambda x: T.from_text("0 1 a b", epsilon=x),
    # None is the default, which needs pynini.
    "a type of arcs": lambda x: COPY.to_fst("odd" if x is None else x),
    "a grammar": lambda x: T.from_grammar(x, ["a"]),
    "costs": lambda x: T.from_grammar(COST, ["a"], weights=x),
    "costs of a grammar": lambda x: Grammar.from_text(COST, weights=x),
    "a cost": lambda x: Grammar.from_text(COST, weights={"q": x}),
    "an export": lambda x: T.from_grammar(COST, ["a"], export=x),
    "a grammar that is shipped": Grammar.shipped,
    "labels": Grammar.from_text(COST, ["a"]).accepts,
}
MEANT: dict[str, list[Any]] = {  # what the odd values are that a door takes
    "the class: final": [ROW],
    "the class: named": [{}],
    "a table": [{}],
    "a row of a table": [None, "a", {}, [None]],
    "a score of a table": [0, 1.5],
    "scores of pairs": [None],
    "ends": [None, ROW],
    "epsilon": [None, "a"],
    "costs": [None, {}],
    "costs of a grammar": [None, {}],
    "a cost": [0, 1.5],
    "an export": [None],
}


@pytest.mark.parametrize("door", DOORS)
def test_what_is_nothing_of_the_kind(door: str) -> None:
    for odd in NOTHING:
        if repr(odd) in map(repr, MEANT.get(door, [])):
            DOORS[door](odd)
            continue
        with pytest.raises(FstcrfError) as caught:
            DOORS[door](odd)
        assert len(str(caught.value)) <= 600


ODD: dict[str, Callable[[], Any]] = {
    "pairs: None": lambda: T.from_pairs([(None, "x")]),
    "pairs: triples": lambda: T.from_pairs([("a", "b", "c")]),
    "pairs: numbers": lambda: T.from_pairs([([1], [2])]),
    "pairs: a number": lambda: T.from_pairs(3),
    "arrays: ragged": lambda: T.from_arrays(
        [[0], [0, 1]], [0], [0], [1], input_symbols=["a"], output_symbols=["a"]
    ),
    "arrays: far states": lambda: T.from_arrays(
        [0], [0], [0], [2**31 - 1], input_symbols=["a"], output_symbols=["a"]
    ),
    "lists": lambda: T([0], [0], [0], [1], [0.0], [0.0, 0.0], ("a",), ("a",)),
    "text: None": lambda: T.from_text(None),
    "text: bytes": lambda: T.from_text(b"0"),
    "tape: a number": lambda: T.from_text("0 0 a x\n0", tape=5),
    "reads: a number": lambda: COPY.on(5),
    "seed: negative": lambda: COPY.sample(1, seed=-1),
    "seed: text": lambda: COPY.sample(1, seed="x"),
    "seed of a lattice: negative": lambda: LATTICE.sample(1, seed=-1),
    "seed of a lattice: text": lambda: LATTICE.sample(1, seed="x"),
    "replace: None": lambda: COPY.replace(None, 1),
    "replace: a label": lambda: COPY.replace({"a": "b"}, 1),
    "replace: a number": lambda: COPY.replace({1: COPY}, 1),
    "replace: depth": lambda: COPY.replace({"a": COPY}, "x"),
    "a lone surrogate": lambda: T.from_table({"\ud800": "x"}).to_att(),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_arguments(name: str) -> None:
    with pytest.raises(FstcrfError) as caught:
        ODD[name]()
    assert len(str(caught.value)) <= 600
    assert "\n" not in str(caught.value)


GRAMS = "\\data\\\n{counts}\n\n\\1-grams:\n-1 a\n{more}\n\n\\end\\\n"

BROKEN = {
    "a superscript": ("ngram 1=³", "-1 b"),
    "a long count": ("ngram 1=" + "9" * 5000, "-1 b"),
    "Arabic digits": ("ngram 1=٢", "-1 b"),
    "the same twice": ("ngram 1=2", "-1 a"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_language_models(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.arpa"
    counts, more = BROKEN[name]
    path.write_text(GRAMS.format(counts=counts, more=more), encoding="utf-8")
    with pytest.raises(FstcrfError, match=r"x\.arpa:\d+: "):
        Transducer.lm(path)


@pytest.mark.thorough
def test_words_of_a_language_model_are_looked_up(tmp_path: Path) -> None:
    """Labels times words would be 10¹⁰ comparisons."""
    path = tmp_path / "x.arpa"
    words = "".join(f"-2 w{k}\n" for k in range(50_000))
    path.write_text(f"\\data\\\nngram 1=50001\n\n\\1-grams:\n-1 </s>\n{words}\n\\end\\\n")
    labels = [f"l{k}" for k in range(200_000)]
    assert Transducer.lm(path, labels).input_symbols == tuple(labels)


def test_orders_of_language_models_are_bounded(tmp_path: Path) -> None:
    """Finding the context of an n-gram takes the square of its length."""
    path = tmp_path / "x.arpa"
    path.write_text("\\data\\\n" + "".join(f"ngram {k}=0\n" for k in range(1, 102)))
    with pytest.raises(FstcrfError, match="order 101, expected 100 at most"):
        Transducer.lm(path)


def test_a_whole_language_model_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(GRAMS.format(counts="ngram 1=3", more="-1 b\n-1 </s>"), encoding="utf-8")
    assert Transducer.lm(path).input_symbols == ("a", "b")

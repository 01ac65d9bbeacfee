"""Arguments of transducers that are nothing of the kind are errors of the library's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import Lattice, Transducer
from fstcrf.errors import FstcrfError

T: Any = Transducer
COPY: Any = Transducer.from_text("0 0 a\n0", tape=None)
LATTICE: Any = Lattice.from_arrays(["a"], np.zeros((2, 1)))

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


def test_a_whole_language_model_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.arpa"
    path.write_text(GRAMS.format(counts="ngram 1=3", more="-1 b\n-1 </s>"), encoding="utf-8")
    assert Transducer.lm(path).input_symbols == ("a", "b")

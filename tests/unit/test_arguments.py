"""Numbers as callers give them: what is taken, what is refused, at every door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Grammar, Lattice, compose, constraints
from fstcrf.arguments import closest, first_twice, label_tuple, real_array, real_number
from fstcrf.errors import FstcrfError, LabelError, OptionError, ShapeError
from fstcrf.lattices import product
from fstcrf.training import Gold

LABELS = ("O", "B-A", "I-A")
ZEROS = np.zeros((2, 3))
STEP = [[0, 0, 0]]
DATA = [{"word": ["a", "b"], "y": ["O", "B-A"]}]
TEMPLATE = "U:%x[0,word]\nB"


def test_what_numpy_gives_are_plain_strings() -> None:
    assert [type(label) for label in label_tuple(np.array(["a", "b"]))] == [str, str]


TAGGER = CRF.train(DATA, "y", TEMPLATE, max_iterations=2)
SQUARE, LAST = np.zeros((3, 3)), np.zeros(3)
LATTICE = Lattice.from_arrays(LABELS, ZEROS)

SCORES: dict[str, Callable[[Any], object]] = {
    "emissions": lambda z: Lattice.from_arrays(LABELS, ZEROS + z),
    "objects": lambda z: Lattice.from_arrays(LABELS, (ZEROS + z).astype(object)),
    "lists": lambda z: Lattice.from_arrays(LABELS, [[0, 0, z]]),
    "transitions": lambda z: Lattice.from_arrays(LABELS, ZEROS, SQUARE + z),
    "transitions of tokens": lambda z: Lattice.from_arrays(LABELS, ZEROS, SQUARE[None] + z),
    "initial": lambda z: Lattice.from_arrays(LABELS, ZEROS, initial=LAST + z),
    "final": lambda z: Lattice.from_arrays(LABELS, ZEROS, final=LAST + z),
    "coupling": lambda z: product([LATTICE, LATTICE], coupling={(0, 1): SQUARE + z}),
    "weights": lambda z: product([LATTICE, LATTICE], weights=[1, z]),
    "weighted": LATTICE.weighted,
    "tempered": lambda z: compose(TAGGER, weights=[z]),
    "reweighted": lambda z: compose(TAGGER).with_weights(z),
    "bias": lambda z: TAGGER.tag(DATA[0], bias={"O": z}),
    "sentences": lambda z: CRF.train(DATA, Gold("y", weights=[z]), TEMPLATE),
    "classes": lambda z: CRF.train(DATA, Gold("y", class_weights={"O": z}), TEMPLATE),
    "features": lambda z: CRF.train([[{"a": z}]], [["x"]]),
    "score": lambda z: Grammar.from_arrays(LABELS, STEP, score=[[0, 0, z]]),
    "end": lambda z: Grammar.from_arrays(LABELS, STEP, final=[z]),
    "violation": lambda z: constraints.at_most(1, "A", weight=z),
}


@pytest.mark.parametrize("door", SCORES)
@pytest.mark.parametrize("z", [1 + 1j, np.complex128(1 + 1j), np.complex64(1)], ids=repr)
def test_complex_scores_are_refused(door: str, z: Any) -> None:
    SCORES[door](1.0)
    with pytest.raises(FstcrfError, match=r"complex|expected a string, a number"):
        SCORES[door](z)


@pytest.mark.parametrize("values", [["1"], "1", [None], [[1], [1, 2]], [b"1"], {}, ["2020"]])
def test_what_is_no_array_of_numbers(values: Any) -> None:
    with pytest.raises(ShapeError, match="scores is no array of numbers"):
        real_array(values, "scores")


def test_numbers_of_all_real_kinds() -> None:
    for given in ([True], [1], np.array([1], dtype=np.float16), np.array([1.0], dtype=object)):
        found = real_array(given, "x")
        assert found.dtype == np.float64
        assert found.tolist() == [1.0]
    with pytest.raises(OptionError, match=r"x is \[2\], expected a number"):
        real_number([1, 2], "x")


def test_names_are_compared_within_bounds() -> None:
    """That takes the product of their lengths, for a message."""
    asked = 0

    def many(length: int) -> Iterator[str]:
        nonlocal asked
        for number in range(10_000_000):
            asked += 1
            yield f"{number:0{length}}"

    assert closest("0" * 10, many(10), 3)[0] == "0000000000"
    assert asked < 10_000
    assert closest("x" * 201, many(10)) == closest(b"x", many(10)) == []
    assert closest("x" * 200, ["x" * 201, "X" * 199]) == ["X" * 199]
    assert asked < 10_000
    assert closest("", [""] * 10_000_000) == [""]


def test_the_first_that_was_there_before() -> None:
    assert first_twice(["a", "b", "", "b", "a"]) == "b"
    assert first_twice(["", ""]) == ""
    assert first_twice("abc") is None
    names = [f"w{k}" for k in range(200_000)]
    with pytest.raises(LabelError, match="label 'w0' occurs twice, at 0 and 200000"):
        fstcrf.Transducer.from_arrays(
            [0], [0], [0], [0], input_symbols=names * 2, output_symbols=["a"]
        )

"""Lattices: how they are made, what they refuse, what they say where nothing is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.lattices import Lattice, Path

LABELS = ("O", "B-X", "I-X")
NEVER = float("-inf")


def lattice(tokens: int = 3, **arguments: Any) -> Lattice:
    return Lattice.from_arrays(LABELS, np.zeros((tokens, 3)), **arguments)


# --- Making one --------------------------------------------------------------------------------


def test_every_kind_of_array_will_do() -> None:
    emissions = [[1, 2, 3], [4, 5, 6]]
    kinds: tuple[Any, ...] = (np.float32, np.int64, ">f8", np.float16)
    wanted = Lattice.from_arrays(LABELS, np.asarray(emissions, dtype=np.float64))
    for kind in kinds:
        again = Lattice.from_arrays(list(LABELS), np.asarray(emissions, dtype=kind))
        assert again.dense.values[0].tobytes() == wanted.dense.values[0].tobytes()
    assert Lattice.from_arrays(LABELS, emissions).best().labels == ("I-X", "I-X")
    fortran = np.asfortranarray(np.asarray(emissions, dtype=np.float64))
    assert Lattice.from_arrays(LABELS, fortran).log_partition() == wanted.log_partition()
    reversed_rows = np.asarray(emissions[::-1], dtype=np.float64)[::-1]
    assert Lattice.from_arrays(LABELS, reversed_rows).log_partition() == wanted.log_partition()


def test_arrays_are_copied() -> None:
    arrays = [np.zeros((3, 3)), np.zeros((3, 3)), np.zeros(3), np.zeros(3)]
    one = Lattice.from_arrays(LABELS, *arrays)
    for array in arrays:
        array[...] = np.nan
    assert one.log_partition() == pytest.approx(3 * np.log(3), rel=1e-14)
    assert np.isfinite(one.marginals()).all()


def test_transitions_that_move() -> None:
    transitions = np.full((2, 3, 3), NEVER)
    transitions[0, 0, 1] = 1.0
    transitions[1, 1, 2] = 2.0
    one = lattice(transitions=transitions)
    assert one.best() == Path(("O", "B-X", "I-X"), 3.0, 1.0, exact=True, bound=3.0)
    alone = lattice(1, transitions=np.zeros((0, 3, 3)))
    assert alone.log_partition() == pytest.approx(np.log(3), rel=1e-14)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"emissions": np.zeros(3)}, "emissions is \\[3\\], expected \\[T, 3\\]"),
        ({"emissions": np.zeros((2, 4))}, "emissions is"),
        ({"emissions": [[0, 0, 0], [0, 0]]}, "emissions is no array of numbers"),
        ({"emissions": [["a", "b", "c"]]}, "emissions is no array of numbers"),
        ({"emissions": None}, "emissions is"),
        ({"emissions": [[None, 0, object()]]}, "emissions is no array of numbers"),
        ({"transitions": np.zeros((3, 4))}, "transitions is \\[3, 4\\]"),
        ({"transitions": np.zeros((2, 3, 3))}, "expected \\[3, 3\\] or \\[1, 3, 3\\]"),
        ({"transitions": np.zeros(9)}, "transitions is"),
        ({"initial": np.zeros(2)}, "initial is \\[2\\], expected \\[3\\]"),
        ({"final": np.zeros((1, 3))}, "final is"),
    ],
)
def test_shapes(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        Lattice.from_arrays(LABELS, **{"emissions": np.zeros((2, 3)), **arguments})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("name", "shape", "place"),
    [
        ("emissions", (2, 3), (1, 2)),
        ("transitions", (3, 3), (0, 1)),
        ("transitions", (1, 3, 3), (0, 2, 2)),
        ("initial", (3,), (2,)),
        ("final", (3,), (0,)),
    ],
)
def test_numbers(bad: float, name: str, shape: tuple[int, ...], place: tuple[int, ...]) -> None:
    array = np.zeros(shape)
    array[place] = bad
    arguments: dict[str, Any] = {"emissions": np.zeros((2, 3)), name: array}
    words = rf"{name} has NaN or \+inf at \[{', '.join(map(str, place))}\]"
    with pytest.raises(NumericError, match=words):
        Lattice.from_arrays(LABELS, **arguments)


@pytest.mark.parametrize(
    ("labels", "message"),
    [((), "distinct"), (("a", "a"), "label 'a' occurs twice, at 0 and 1")],
)
def test_labels(labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Lattice.from_arrays(labels, np.zeros((1, len(labels))))


# --- Asking it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1, 1, "X"), "span -1:1"),
        ((1, 1, "X"), "span 1:1"),
        ((2, 1, "X"), "span 2:1"),
        ((0, 4, "X"), "span 0:4 in a sentence of 3 tokens"),
        ((0, 1, "Y"), "no label has the type 'Y'; the types are X"),
        ((0, 1, ""), "no label has the type ''"),
    ],
)
def test_spans_that_cannot_be(arguments: tuple[int, int, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        lattice().span_probability(*arguments)

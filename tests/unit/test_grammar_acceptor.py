"""Acceptors: what they check, what they score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import LabelError, NumericError, ShapeError, TooLargeError
from fstcrf.machines.grammar import (
    Acceptor,
    either,
    equivalent,
    intersect,
    on_tapes,
    simplified,
)

LABELS = ("a", "b")


def acceptor(**changed: Any) -> Acceptor:
    """A, then any number of b, each of which costs 1."""
    parts: dict[str, Any] = {
        "tapes": ("",),
        "labels": (LABELS,),
        "target": np.asarray([[1, -1], [-1, 1]], dtype=np.int32),
        "score": np.asarray([[0.0, 0.0], [0.0, -1.0]]),
        "final": np.asarray([-np.inf, 0.5]),
        "name": "ab*",
    }
    return Acceptor(**{**parts, **changed})


def test_walk() -> None:
    machine = acceptor()
    assert machine.walk(["a"]) == 0.5
    assert machine.walk(["a", "b", "b"]) == -1.5
    assert machine.walk([]) == machine.walk(["b", "a"]) == -np.inf
    assert machine.weighted
    assert not acceptor(score=None, final=np.asarray([-np.inf, 0.0])).weighted


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"tapes": ()}, ShapeError, "acceptor ab*: tapes () must be distinct, and at least one"),
        ({"tapes": ("x", "x")}, ShapeError, "distinct"),
        ({"labels": (("a",),)}, ShapeError, r"target is [2, 2], expected [2, 1]"),
        ({"final": np.zeros(3)}, ShapeError, r"target is [2, 2], expected [3, 2]"),
        ({"target": np.zeros((2, 2))}, ShapeError, "target is float64, expected int32"),
        ({"target": np.full((2, 2), 2, dtype=np.int32)}, ShapeError, "outside [-1, 2)"),
        ({"target": np.full((2, 2), -2, dtype=np.int32)}, ShapeError, "outside [-1, 2)"),
        ({"score": np.zeros((2, 3))}, ShapeError, r"score is [2, 3], expected [2, 2]"),
        ({"score": np.full((2, 2), -np.inf)}, NumericError, "leave the step out"),
        ({"score": np.full((2, 2), np.nan)}, NumericError, "not finite"),
        ({"final": np.asarray([0.0, np.inf])}, NumericError, "a final score is NaN or +inf"),
        ({"final": np.asarray([0.0, np.nan])}, NumericError, "a final score is NaN or +inf"),
        ({"name": "", "final": np.zeros(3)}, ShapeError, "acceptor: target"),
    ],
)
def test_what_it_checks(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        acceptor(**changed)
    assert message in str(raised.value)


def test_walk_checks_what_it_reads() -> None:
    with pytest.raises(LabelError, match="unknown label 'c'"):
        acceptor().walk(["a", "c"])
    with pytest.raises(LabelError, match="unknown label 'c' of tape 'pos'"):
        acceptor(tapes=("pos",)).walk(["c"])
    with pytest.raises(ShapeError, match=r"\[1, 1\] labels, expected 1 of one length"):
        acceptor().walk(["a"], ["a"])


def test_a_product_that_is_too_large() -> None:
    with pytest.raises(TooLargeError, match=r"the product ab\* & ab\* has more than 1 states"):
        intersect(acceptor(), acceptor(), limit=1)


def test_tapes_must_agree() -> None:
    other = replace(acceptor(), labels=(("a", "c"),))
    with pytest.raises(ShapeError, match="missing or has other labels"):
        intersect(acceptor(), other)
    with pytest.raises(ShapeError, match="missing or has other labels"):
        on_tapes(acceptor(), ("pos",), (LABELS,))


def test_a_union_of_scores_is_no_acceptor() -> None:
    with pytest.raises(ShapeError, match=r"ab\* \| ab\*: expected acceptors without scores"):
        either(acceptor(), acceptor())


def test_simplified_leaves_what_it_cannot_do() -> None:
    wide = on_tapes(acceptor(), ("", "pos"), (LABELS, ("N",)))
    assert simplified(wide, np.ones((3, 3), dtype=bool)) is wide
    with pytest.raises(ShapeError, match=r"legal is \[2, 2\], expected \[3, 3\]"):
        simplified(acceptor(), np.ones((2, 2), dtype=bool))
    steps = np.full((101, 2), -1, dtype=np.int32)
    steps[:-1, 0] = np.arange(1, 101)
    final = np.full(101, -np.inf)
    final[-1] = 0.0
    long = acceptor(target=steps, score=None, final=final)
    assert simplified(long, np.ones((3, 3), dtype=bool)).n_states == 101


def test_other_tapes_are_not_equivalent() -> None:
    assert equivalent(acceptor(), acceptor(name="other"))
    assert not equivalent(acceptor(), acceptor(tapes=("pos",)))
    assert not equivalent(acceptor(), acceptor(final=np.asarray([-np.inf, 0.25])))

"""What the epochs of online learning refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fstcrf.errors import (
    DataError,
    KernelError,
    NumericError,
    OptionError,
    ShapeError,
)
from fstcrf.kernel import Graph, Learner, Parameters, SparseRows

STATES, TOKENS, ROWS = 2, 5, 3
CHAIN = Graph(np.zeros(2), np.zeros(2), np.zeros(4))
LOOPS = Graph(np.zeros(2), np.zeros(2), np.zeros(2), *[np.arange(2, dtype=np.int32)] * 2)


def learner(**changes: Any) -> Learner:
    fields: dict[str, Any] = {
        "graph": CHAIN,
        "offsets": np.asarray([0, 2, 5]),
        "design": SparseRows(
            np.arange(TOKENS + 1), np.asarray([0, 1, 2, 0, 1], dtype=np.int32), None, ROWS
        ),
        "slots": np.asarray([[0], [1]], dtype=np.int32),
        "mask": np.ones((ROWS, 8), dtype=np.uint8),
        "arc_mask": np.ones(4, dtype=np.uint8),
        "ends": True,
        "gold": np.asarray([0, 1, 1, 1, 0], dtype=np.int32),
        "weight": np.ones(2),
    }
    return Learner(**{**fields, **changes})


def parameters() -> Parameters:
    return Parameters(np.zeros((ROWS, 8)), np.zeros(4), np.zeros(2), np.zeros(2))


def epoch(one: Learner, theta: Parameters, *, order: NDArray[Any] | None = None) -> None:
    one.perceptron_epoch(np.arange(2) if order is None else order, theta, theta.zeros(), 1)


@pytest.mark.parametrize(("state", "token"), [(2, 4), (-1, 0), (2**31 - 1, 3)])
def test_gold_names_states(state: int, token: int) -> None:
    gold = np.asarray([0, 1, 1, 1, 0], dtype=np.int32)
    gold[token] = state
    with pytest.raises(DataError, match=f"token {token}"):
        learner(gold=gold)


def test_gold_follows_arcs() -> None:
    changes = {"graph": LOOPS, "arc_mask": np.ones(2, dtype=np.uint8)}
    one = learner(**changes, gold=np.asarray([0, 0, 1, 1, 1], dtype=np.int32))
    assert len(one.gold) == TOKENS
    with pytest.raises(DataError, match="leaves the topology at token 3"):
        learner(**changes, gold=np.asarray([0, 0, 1, 0, 0], dtype=np.int32))


def test_parameters_must_be_writable() -> None:
    theta = parameters()
    theta.table.flags.writeable = False
    with pytest.raises(ShapeError, match="table is read-only"):
        epoch(learner(), theta)


@pytest.mark.parametrize("order", [[0, 2], [-1], [2**40]])
def test_orders_name_sentences(order: list[int]) -> None:
    with pytest.raises(OptionError, match="order names an unknown sentence, expected 0 to 1"):
        epoch(learner(), parameters(), order=np.asarray(order))


@pytest.mark.parametrize("order", [np.arange(2, dtype=np.int32), np.zeros((2, 1), dtype=np.int64)])
def test_orders_have_shapes(order: NDArray[Any]) -> None:
    with pytest.raises(ShapeError, match="order is"):
        epoch(learner(), parameters(), order=order)


def test_an_empty_epoch_changes_nothing(variant: str) -> None:
    theta, nothing = parameters(), np.zeros(0, dtype=np.int64)
    assert learner().perceptron_epoch(nothing, theta, theta.zeros(), 7) == (7, 0, 0.0)
    assert not any(a.any() for a in theta.arrays())


def test_weights_that_are_no_numbers(variant: str) -> None:
    for bad in (np.nan, np.inf):
        theta = parameters()
        theta.table[1, 0] = bad
        epoch(learner(), theta)  # no crash; what it learns is nobody's business


def passive(one: Learner, theta: Parameters, **changes: Any) -> tuple[int, float]:
    options: dict[str, Any] = {"variant": "PA-I", "aggressiveness": 1.0, "error_sensitive": True}
    order = np.arange(2)
    return one.passive_aggressive_epoch(order, theta, theta.zeros(), 1, **{**options, **changes})


def arow(one: Learner, theta: Parameters, *, gamma: float = 1.0) -> float:
    ones = Parameters(*(np.ones_like(a) for a in theta.arrays()))
    return one.arow_epoch(np.arange(2), theta, ones, gamma=gamma)


@pytest.mark.parametrize("learn", [passive, arow])
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_margins_of_gold_that_has_no_score(
    variant: str, learn: Callable[..., object], bad: float
) -> None:
    theta = parameters()
    theta.arc[1] = bad  # from state 0 to state 1, as in the first sentence
    with pytest.raises(NumericError, match="diverged at sentence 0: the weights are too large"):
        learn(learner(), theta)


@pytest.mark.parametrize("learn", [passive, arow])
def test_margins_without_any_path(variant: str, learn: Callable[..., object]) -> None:
    theta = parameters()
    theta.final[...] = -np.inf
    with pytest.raises(NumericError, match="diverged at sentence 0"):
        learn(learner(), theta)


def test_nothing_that_differs_is_trained(variant: str) -> None:
    nothing = {"mask": np.zeros((ROWS, 8), dtype=np.uint8), "ends": False}
    one = learner(**nothing, arc_mask=np.zeros(4, dtype=np.uint8))
    for kind in ("PA", "PA-I", "PA-II"):
        theta = parameters()
        step, loss = passive(one, theta, variant=kind)
        assert step == 3
        assert loss == pytest.approx(1.0 + np.sqrt(2.0))
        assert not any(a.any() for a in theta.arrays())


@pytest.mark.parametrize("aggressiveness", [0.0, -1.0, np.nan])
def test_what_the_kernel_itself_refuses(aggressiveness: float) -> None:
    with pytest.raises(KernelError):
        passive(learner(), parameters(), aggressiveness=aggressiveness)
    with pytest.raises(KernelError):
        arow(learner(), parameters(), gamma=aggressiveness)

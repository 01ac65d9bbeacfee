"""Which weights exist, and where they live."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf.arrays import Bools
from fstcrf.errors import DataError, ShapeError
from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import chain_topology
from fstcrf.training import ParameterSpace, Problem, parameter_space
from tests.support.problems import iob2, random_case

LABELS = ("B-X", "I-X", "O")


def one_hot(ids: list[int]) -> Bools:
    return np.asarray(np.asarray(ids)[:, None] == np.arange(3))


def rows(tokens: list[list[int]], columns: int) -> SparseRows:
    indptr = np.cumsum([0, *map(len, tokens)]).astype(np.int64)
    index = np.asarray([i for token in tokens for i in token], dtype=np.int32)
    return SparseRows(indptr, index, None, columns)


def problem(**changes: Any) -> Problem:
    """B-X I-X | O, with attributes {0, 1} {1} | {2}."""
    fields: dict[str, Any] = {
        "topology": chain_topology(LABELS, 1),
        "offsets": np.asarray([0, 2, 3]),
        "node": rows([[0, 1], [1], [2]], 4),
        "arc": None,
        "allowed": one_hot([0, 1, 2]),
        "weight": np.ones(2),
    }
    return Problem(**{**fields, **changes})


def node_weights(space: ParameterSpace) -> list[tuple[int, str]]:
    names = space.topology.node_slot_names
    pairs = (divmod(cell, space.width) for cell in space.node_cells.tolist())
    return [(row, names[slot]) for row, slot in pairs]


def arc_weights(space: ParameterSpace) -> list[tuple[int, str]]:
    names = space.topology.arc_slot_names
    pairs = (divmod(cell, space.arc_width) for cell in space.arc_cells.tolist())
    return [(row, names[slot]) for row, slot in pairs]


def transitions(space: ParameterSpace) -> list[str]:
    return [space.topology.arc_slot_names[s] for s in space.transitions.tolist()]


def test_supported_and_observed() -> None:
    space = parameter_space(problem())
    assert node_weights(space) == [(0, "B-X"), (1, "B-X"), (1, "I-X"), (2, "O")]
    assert transitions(space) == ["B-X → I-X"]
    assert space.size == 5
    assert space.bounds == [0, 4, 5, 5, 5, 5]


def test_complete_and_all() -> None:
    space = parameter_space(problem(), features="complete", transitions="all", ends=True)
    assert node_weights(space) == [(row, label) for row in range(4) for label in LABELS]
    assert len(transitions(space)) == 9
    assert [len(part) for part in space.parts(np.zeros(space.size))] == [12, 9, 0, 3, 3]


def test_forbidden_successions_have_no_weight() -> None:
    topology = chain_topology(LABELS, 1, allowed=iob2)
    space = parameter_space(problem(topology=topology), transitions="all", ends=True)
    assert "O → I-X" not in transitions(space)
    assert len(transitions(space)) == 8
    assert [LABELS[s] for s in space.initial.tolist()] == ["B-X", "O"]
    assert [LABELS[s] for s in space.final.tolist()] == list(LABELS)


def test_unknown_labels_support_what_they_allow() -> None:
    allowed = one_hot([0, 1, 2])
    allowed[1] = [False, True, True]
    space = parameter_space(problem(allowed=allowed))
    assert node_weights(space) == [
        (0, "B-X"),
        (1, "B-X"),
        (1, "I-X"),
        (1, "O"),
        (2, "O"),
    ]
    assert transitions(space) == ["B-X → I-X", "B-X → O"]


def test_attributes_of_arcs() -> None:
    arcs = rows([[], [0, 1], []], 3)
    space = parameter_space(problem(arc=arcs))
    assert space.n_arc_rows == 3
    assert arc_weights(space) == [(0, "B-X → I-X"), (1, "B-X → I-X")]
    space = parameter_space(problem(arc=arcs), features="complete", transitions="none")
    assert len(arc_weights(space)) == 27
    assert transitions(space) == []


def test_second_order_slots() -> None:
    space = parameter_space(problem(topology=chain_topology(LABELS, 2)))
    assert node_weights(space) == [
        (0, "B-X"),
        (0, "<s> B-X"),
        (1, "B-X"),
        (1, "I-X"),
        (1, "<s> B-X"),
        (1, "B-X I-X"),
        (2, "O"),
        (2, "<s> O"),
    ]
    assert transitions(space) == ["<s> B-X → B-X I-X"]


def test_order_0_has_no_transitions() -> None:
    topology = chain_topology(LABELS, 0)
    space = parameter_space(
        problem(topology=topology, arc=rows([[], [0], []], 1)), transitions="all"
    )
    assert space.size == 4


@pytest.mark.parametrize("order", [0, 1, 2])
def test_theta_goes_into_tables_and_comes_back(order: int) -> None:
    case = random_case(order, order=order, arcs=True, ends=True, transitions="all")
    theta = np.random.default_rng(0).normal(size=case.space.size)
    assert np.array_equal(case.space.collect(case.space.tables(theta)), theta)
    assert np.array_equal(np.concatenate(case.space.parts(theta)), theta)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"allowed": np.ones((3, 2), bool)}, ShapeError, r"\[3, 3\] \(tokens, labels\)"),
        ({"allowed": np.ones((2, 3), bool)}, ShapeError, "tokens"),
        ({"weight": np.ones(3)}, ShapeError, r"weight is \[3\], expected \[2\]"),
        ({"weight": np.asarray([1.0, np.nan])}, DataError, "finite"),
        ({"weight": np.asarray([1.0, -1.0])}, DataError, "sentence 1: .* weight -1, expected"),
        ({"weight": np.asarray([1.0, np.inf])}, DataError, "finite"),
        (
            {"topology": chain_topology(LABELS, 1, allowed=iob2), "allowed": one_hot([0, 1, 1])},
            DataError,
            "sentence 1, token 0: label 'I-X' after the start is not part of the model",
        ),
        (
            {"topology": chain_topology(LABELS, 2, allowed=iob2), "allowed": one_hot([2, 1, 2])},
            DataError,
            "sentence 0",
        ),
    ],
)
def test_arrays_that_disagree(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        problem(**changes)


def test_which_sentences_are_partial() -> None:
    allowed = one_hot([0, 1, 2])
    allowed[2] = True
    assert problem(allowed=allowed).partial.tolist() == [False, True]
    assert problem(allowed=allowed).sentence_of.tolist() == [0, 0, 1]
    assert problem().states.tolist() == [0, 1, 2]

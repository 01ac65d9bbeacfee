"""Lattices: how they are made, what they refuse, what they say where nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import LabelError, NoPathError, NumericError, OptionError, ShapeError
from fstcrf.lattices import Lattice, Path
from fstcrf.machines.plans import Chain, Program
from fstcrf.machines.topology import Topology, chain_topology

LABELS = ("O", "B-X", "I-X")
NEVER = float("-inf")


def lattice(tokens: int = 3, **arguments: Any) -> Lattice:
    return Lattice.from_arrays(LABELS, np.zeros((tokens, 3)), **arguments)


def of_topology(topology: Topology, arc_slots: Floats, node: Floats) -> Lattice:
    graph = topology.graph(arc_slots)
    chain = Chain("y", topology, graph.initial, graph.final, graph.score)
    return Lattice(Program([chain]), (node,))


# --- Making one --------------------------------------------------------------------------------


def test_defaults_are_zero() -> None:
    one = lattice()
    assert len(one) == 3
    assert one.labels == LABELS
    assert one.log_partition() == pytest.approx(3 * np.log(3), rel=1e-14)
    best = one.best()
    assert best.probability == pytest.approx(1 / 27, rel=1e-12)
    assert best == Path(("O",) * 3, 0.0, best.probability, exact=True, bound=0.0)


def test_every_kind_of_array_will_do() -> None:
    emissions = [[1, 2, 3], [4, 5, 6]]
    kinds: tuple[Any, ...] = (np.float32, np.int64, ">f8", np.float16)
    wanted = Lattice.from_arrays(LABELS, np.asarray(emissions, dtype=np.float64))
    for kind in kinds:
        again = Lattice.from_arrays(list(LABELS), np.asarray(emissions, dtype=kind))
        assert again.values[0].tobytes() == wanted.values[0].tobytes()
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


@pytest.mark.parametrize("labels", [(), ("a", "a")])
def test_labels(labels: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match="distinct"):
        Lattice.from_arrays(labels, np.zeros((1, len(labels))))


def test_numbers_too_large_to_add_up() -> None:
    with pytest.raises(NumericError):
        Lattice.from_arrays(LABELS, np.full((3, 3), 1e308)).best()


# --- Asking it ---------------------------------------------------------------------------------


def test_score_and_probability() -> None:
    one = Lattice.from_arrays(("a", "b"), [[1.0, 2.0], [4.0, 8.0]], [[16.0, 32.0], [NEVER, 64.0]])
    assert one.score(["a", "b"]) == 1 + 32 + 8
    assert one.score(("b", "a")) == NEVER
    assert one.probability(["b", "a"]) == 0.0
    assert one.probability(["b", "b"]) == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(ShapeError, match="1 labels for 2 tokens"):
        one.score(["a"])
    with pytest.raises(LabelError, match="unknown label 'c'"):
        one.score(["a", "c"])
    with pytest.raises(LabelError, match="unknown label 'c'"):
        one.probability(["c", "a"])


def test_ties_go_to_the_first_label_at_the_first_difference() -> None:
    emissions = np.asarray([[0.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0]])
    transitions = np.zeros((3, 3))
    transitions[1, 2] = -1.0  # B-X I-X: as good as B-X O
    one = Lattice.from_arrays(LABELS, emissions, transitions)
    assert one.best().labels == ("B-X", "O", "O")
    assert one.max_marginals()[1].tolist() == [3.0, 3.0, 3.0]


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


# --- No path -----------------------------------------------------------------------------------


def dead(position: int) -> Lattice:
    emissions = np.zeros((4, 3))
    emissions[position] = NEVER
    return Lattice.from_arrays(LABELS, emissions)


QUESTIONS: list[Callable[[Lattice], object]] = [
    Lattice.best,
    Lattice.marginals,
    lambda one: one.span_probability(0, 2, "X"),
]


@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize("position", range(4))
def test_where_the_paths_end(ask: Callable[[Lattice], object], position: int) -> None:
    with pytest.raises(NoPathError, match="every label sequence is forbidden") as caught:
        ask(dead(position))
    assert caught.value.position == position
    assert f"token {position}" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "position"),
    [
        ({"initial": [NEVER] * 3}, 0),
        ({"final": [NEVER] * 3}, 3),
        ({"transitions": np.full((3, 3), NEVER)}, 1),
        ({"transitions": np.stack([np.zeros((3, 3)), *[np.full((3, 3), NEVER)] * 2])}, 2),
        ({"initial": [0.0, NEVER, NEVER], "transitions": [[NEVER] * 3, [0] * 3, [0] * 3]}, 1),
    ],
)
def test_what_ends_the_paths(arguments: dict[str, Any], position: int) -> None:
    with pytest.raises(NoPathError) as caught:
        lattice(4, **arguments).best()
    assert caught.value.position == position


def test_one_token_without_a_path() -> None:
    for arguments in ({"initial": [NEVER] * 3}, {"final": [NEVER] * 3}):
        with pytest.raises(NoPathError) as caught:
            lattice(1, **arguments).best()
        assert caught.value.position == 0


def test_masks_that_leave_nothing() -> None:
    mask = np.ones((3, 3), dtype=bool)
    mask[2] = False
    with pytest.raises(NoPathError) as caught:
        lattice().restrict(mask).best()
    assert caught.value.position == 2


def test_the_position_on_a_sparse_topology() -> None:
    ring = {(str(i), str((i + 1) % 12)) for i in range(12)}
    topology = chain_topology(
        [str(i) for i in range(12)], allowed=lambda a, b: None in {a, b} or (a, b) in ring
    )
    assert not topology.dense
    node: Floats = np.full((5, 12), NEVER)
    node[[0, 1, 2, 4], [3, 4, 5, 7]] = 0.0
    node[3, 7] = 0.0  # 5 leads to 6 only
    with pytest.raises(NoPathError) as caught:
        of_topology(topology, np.zeros(12), node).best()
    assert caught.value.position == 3

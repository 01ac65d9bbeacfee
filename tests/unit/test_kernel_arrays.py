"""Every array that goes to the kernel is checked: its kind, layout, shape, and the numbers in it.

One law over structures: what is good is taken, and each array spoilt in each way is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import FstcrfError, NumericError, ShapeError
from fstcrf.kernel import Graph, Learner, Parameters, SparseRows, acyclic, decoding
from fstcrf.kernel.machines import MAX_AXES, Axis, Bound, Factor, JointChain, Residual

Array = NDArray[Any]
Arrays = dict[str, Any]
NEVER = -np.inf


def ints(*numbers: int) -> Array:
    return np.asarray(numbers, dtype=np.int32)


@dataclass(frozen=True)
class Structure:
    """How something is made of arrays and sizes, and what else is wrong with it.

    Parameters
    ----------
    make : callable
    arrays : dict
    sizes : dict
        Numbers that go with the arrays.
    odd : dict
        Other arrays and sizes that are refused, by name.
    scores : str
        Names of potentials, where NaN and +inf are refused.
    free : str
        Names of arrays that may have another length, or another axis.
    """

    make: Callable[..., Any]
    arrays: Arrays
    sizes: dict[str, Any] = field(default_factory=dict)
    odd: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    scores: str = ""
    free: str = ""

    def __call__(self, **changes: Any) -> Any:
        return self.make(**{**self.arrays, **self.sizes, **changes})


# Two axes of 2 and 3 states: a sparse one, and a per-token one with two contexts.
FIRST, LAST, TOKENS = 2, 3, 5
OFFSETS = np.asarray([0, 2, 5])
AXIS: Arrays = {"source": ints(0, 0, 1), "target": ints(0, 1, 0), "score": np.zeros((1, 3))}
MOVING = Axis(LAST, place=ints(0, 1), contexts=2)
FACTOR: Arrays = {"place": ints(1, 0), "value": np.zeros((2, LAST))}
TAKEN = np.asarray([[0.0, NEVER], [NEVER, 0.0], [0.0, 0.0]]).reshape(3, 2, 1)
RESIDUAL: Arrays = {
    "source": ints(0, 0, 1),
    "target": ints(0, 1, 1),
    "value": TAKEN,
    "initial": np.asarray([0.0, NEVER]),
    "final": np.zeros(2),
    "place": ints(0, 1),
}
ENDS: Arrays = {"initial": np.zeros((FIRST, LAST)), "final": np.zeros((FIRST, LAST))}
PER_TOKEN: Arrays = {"node": np.zeros((TOKENS, 1, 1)), "arcs": np.zeros((TOKENS, 2, LAST * LAST))}


def machine(**changes: Any) -> JointChain:
    fields: dict[str, Any] = {
        "axes": (Axis(FIRST, **AXIS), MOVING),
        "factors": (Factor(2, LAST, **FACTOR), Factor(1, 1)),
        "residual": Residual(2, rows=2, width=1, **RESIDUAL),
    }
    return JointChain(**{**fields, **ENDS, **changes})


def bound(offsets: Array, node: Array, arcs: Array) -> Any:
    return decoding.best_paths(Bound(machine(), offsets, (node, arcs)))


def samples(uniform: Array) -> Any:
    return decoding.sample_paths(Bound(machine(), OFFSETS, tuple(PER_TOKEN.values())), uniform)


CHAIN = Graph(np.zeros(2), np.zeros(2), np.zeros(4))
LEARNER: Arrays = {
    "offsets": OFFSETS,
    "slots": np.asarray([[0], [1]], dtype=np.int32),
    "mask": np.ones((3, 8), dtype=np.uint8),
    "arc_mask": np.ones(4, dtype=np.uint8),
    "label": ints(0, 1),
    "gold": ints(0, 1, 1, 1, 0),
    "weight": np.ones(2),
}


def learner(**arrays: Any) -> Learner:
    design = SparseRows(np.arange(TOKENS + 1), ints(0, 1, 2, 0, 1), None, 3)
    return Learner(graph=CHAIN, design=design, ends=True, **arrays)


def epoch(table: Array, arc: Array, initial: Array, final: Array) -> Any:
    theta = Parameters(table, arc, initial, final)
    return learner(**LEARNER).perceptron_epoch(np.arange(2), theta, theta.zeros(), 1)


def graph_call(call: Any) -> Structure:
    made = Graph(np.zeros(3), np.zeros(3), np.zeros(9))
    batch: Arrays = {"offsets": OFFSETS, "node": np.zeros((TOKENS, 3))}
    odd = {"offsets": tuple(map(np.asarray, ([0, 6, 5], [0, 2**40, 5], [1, 5], [5], [0, -3])))}
    return Structure(lambda **a: call(made, **a), batch, odd=odd, scores="node")


GRAPH: Arrays = {"initial": np.zeros(3), "final": np.zeros(3), "score": np.zeros(9)}
SPARSE = {**GRAPH, "score": np.zeros(4), "source": ints(0, 0, 1, 2), "target": ints(0, 2, 1, 0)}
SCORES = "initial final score"

STRUCTURES: dict[str, Structure] = {
    "graph": Structure(Graph, GRAPH, odd={"score": (np.zeros((1, 3, 3)),)}, scores=SCORES),
    "sparse graph": Structure(
        Graph,
        SPARSE,
        odd={
            "source": (None, ints(2, 1, 0, 0), ints(0, 0, 1, 3)),
            "target": (None, ints(2, 0, 1, 0), ints(0, 0, 1, 0), ints(0, 3, 1, 0)),
        },
        scores=SCORES,
    ),
    "rows": Structure(
        SparseRows,
        {
            "indptr": np.asarray([0, 2, 2, 3]),
            "index": ints(0, 3, 1),
            "value": np.ones(3, dtype=np.float32),
        },
        {"n_columns": 4},
        {
            "indptr": tuple(map(np.asarray, ([0, 4, 2, 3], [0, 2, 1, 3], [1, 2, 2, 3]))),
            "n_columns": (3, -1, 2**31),
        },
    ),
    "table": Structure(
        SparseRows(np.asarray([0, 2]), ints(0, 3), None, 4).times,
        {"table": np.zeros((4, 8)), "out": np.zeros((1, 8))},
        odd={"table": (np.zeros((4, 7)), np.zeros((4, 0)))},
    ),
    **{
        call.__name__: graph_call(call)
        for call in (
            kernel.log_partition,
            kernel.forward_backward,
            kernel.viterbi,
        )
    },
    "machine": Structure(
        machine,
        ENDS,
        odd={"axes": ((), (Axis(1, score=np.zeros((1, 1))),) * (MAX_AXES + 1))},
        scores="initial final",
    ),
    "axis": Structure(
        lambda **a: machine(axes=(Axis(**a), MOVING)),
        AXIS,
        {"n_states": FIRST},
        {
            "n_states": (0, -1, 3),
            "source": (None, ints(1, 0, 0), ints(0, 0, 2)),
            "target": (None, ints(1, 0, 0), ints(1, 1, 0), ints(0, 1, 2)),
            "score": (np.zeros((TOKENS, 1, 3)), np.zeros(3)),
            "place": (ints(1), ints(0, 0)),
        },
        scores="score",
    ),
    "moving axis": Structure(
        lambda **a: machine(axes=(Axis(FIRST, **AXIS), Axis(LAST, **a))),
        {"place": ints(0, 1), "score": np.zeros((2, LAST * LAST))},
        {"contexts": 2},
        {"contexts": (0, -2, 1), "place": (ints(0, 2), ints(0), ints(0, 0, 0, 0, 0, 0))},
        scores="score",
    ),
    "factor": Structure(
        lambda **a: machine(factors=(Factor(**a), Factor(1, 1))),
        FACTOR,
        {"rows": 2, "width": LAST},
        {
            "rows": (0, -1, 1, 3),
            "width": (0, 2, -1, LAST + 1),
            "place": (ints(0, 2),),
            "value": (np.zeros((TOKENS, 2, LAST)), np.zeros((LAST, 2))),
        },
        scores="value",
    ),
    "residual": Structure(
        lambda **a: machine(residual=Residual(**a)),
        RESIDUAL,
        {"n_states": 2, "rows": 2, "width": 1},
        {
            "n_states": (0, -1, 1, 3),
            "rows": (0, 1, 3),
            "width": (0, 2, LAST),
            "source": (ints(0, 1, 0), ints(0, 0, 2)),
            "target": (ints(0, 1, 2),),
            "place": (ints(0, 2),),
            # no label has two edges, and it begins in one state
            "value": (np.zeros((3, 2, 1)), np.zeros((3, 1, 2))),
            "initial": (np.zeros(2),),
        },
        scores="value initial final",
    ),
    "batch": Structure(
        bound,
        {"offsets": OFFSETS, **PER_TOKEN},
        odd={"offsets": tuple(map(np.asarray, ([1, 5], [0, -1, 5], [0, 4], [-(2**62), 2**62, 5])))},
        scores="node arcs",
    ),
    "samples": Structure(
        samples,
        {"uniform": np.zeros((2, TOKENS))},
        odd={
            "uniform": (
                *(np.full((2, TOKENS), bad) for bad in (-0.1, 1.0, NEVER)),
                *(
                    np.zeros(n)
                    for n in ((TOKENS,), (2, TOKENS - 1), (2, TOKENS + 1), (1, 2, TOKENS))
                ),
                np.zeros((2, TOKENS), dtype=np.float32),
            )
        },
        scores="uniform",
        free="uniform",
    ),
    "learner": Structure(
        learner,
        LEARNER,
        odd={
            "offsets": tuple(map(np.asarray, ([0, 5, 5], [0, 2**40, 5], [1, 5], [0, 2, 4]))),
            "slots": (np.zeros((2, 0), dtype=np.int32), np.asarray([[0], [8]], dtype=np.int32)),
            "mask": (np.ones((3, 7), dtype=np.uint8), np.ones((3, 0), dtype=np.uint8)),
            "arc_mask": (np.ones(3, dtype=np.uint8),),
            "arc_slot": (np.zeros(3, dtype=np.int32), ints(0, 1, 2, 4), ints(0, 1, 2, -1)),
        },
        free="label",
    ),
    "parameters": Structure(
        epoch,
        {
            "table": np.zeros((3, 8)),
            "arc": np.zeros(4),
            "initial": np.zeros(2),
            "final": np.zeros(2),
        },
        odd={"table": (np.broadcast_to(np.zeros(8), (3, 8)),)},
    ),
    "acyclic machine": Structure(
        acyclic.Acyclic,
        {
            "row": np.asarray([0, 2, 3, 3]),
            "target": ints(1, 2, 2),
            "score": np.zeros(3),
            "final": np.asarray([NEVER, NEVER, 0.0]),
        },
        odd={"target": (ints(1, 2, 1), ints(1, 2, 0)), "row": (np.asarray([0, 2, 1, 3]),)},
        scores="score final",
    ),
}


def spoilt(array: Array) -> Iterator[tuple[str, Array]]:
    """Return the array in every way that the kernel cannot read it as it is."""
    number = array.dtype.kind == "f"
    yield "another kind", array.astype(np.float32 if array.dtype == np.float64 else np.float64)
    sizes = {"float64": "i8", "float32": "i4", "int64": "i4", "int32": "i8", "uint16": "i4"}
    yield "another size", np.zeros(array.shape, dtype=sizes.get(array.dtype.name, "bool"))
    if array.size > 1:
        yield "apart", np.repeat(array, 2, axis=-1)[..., ::2]
    if array.ndim > 1 and min(array.shape[-2:]) > 1:
        yield "by columns", np.asfortranarray(array)
    if number:  # others are copied
        whole = np.zeros(array.nbytes + 1, dtype=np.uint8)
        place = whole[1:].view(array.dtype).reshape(array.shape)
        place[...] = array
        yield "not aligned", place
    yield "one fewer", array[:-1].copy()
    yield "one more", np.concatenate([array, array[-1:] + (array.dtype == np.int64)])
    yield "another axis", array[..., None].copy()
    if array.dtype == np.int32 and not number:
        for bad in (-2, 2**30):
            other = array.copy()
            other.flat[-1] = bad
            yield f"{bad}", other


@pytest.mark.parametrize("name", STRUCTURES)
def test_arrays_are_checked(name: str) -> None:
    one = STRUCTURES[name]
    one()
    taken = []
    for key, array in one.arrays.items():
        for how, wrong in spoilt(array):
            try:
                one(**{key: wrong})
            except FstcrfError:
                continue
            taken.append((key, how))
    assert [cell for cell in taken if cell[0] not in one.free.split()] == []
    for key, several in one.odd.items():
        for wrong in several:
            with pytest.raises(FstcrfError):
                one(**{key: wrong})


@pytest.mark.parametrize("name", [name for name, one in STRUCTURES.items() if one.scores])
def test_potentials_are_numbers(name: str) -> None:
    one = STRUCTURES[name]
    for key in one.scores.split():
        for bad in (np.nan, np.inf, 1.1e300):
            wrong = one.arrays[key].copy()
            wrong.flat[-1] = bad
            with pytest.raises(NumericError):
                one(**{key: wrong})


def test_words_of_refusals() -> None:
    """An array is named, with what it is and what was expected."""
    words: dict[str, dict[str, Any]] = {
        "score is [8], expected [9]": {"score": np.zeros(8)},
        "score is float32, expected float64": {"score": np.zeros(9, dtype=np.float32)},
        "score is not contiguous; pass numpy.ascontiguousarray(score)": {
            "score": np.zeros(18)[::2]
        },
        "score is not aligned": {"score": np.zeros(73, np.uint8)[1:].view(np.float64)},
    }
    for message, change in words.items():
        with pytest.raises(ShapeError) as caught:
            Graph(**{**GRAPH, **change})
        assert message.split(";")[0] in str(caught.value)

"""Arrays that the kernel has checked once cannot change: they are copies, or read-only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Ragged
from fstcrf.errors import KernelError, ShapeError
from fstcrf.ext.documents.kernel import Gibbs, Labelling, MarkovChain
from fstcrf.ext.feedback.descent import Aim, Descent, Rule
from fstcrf.ext.feedback.kernel import Feedback
from fstcrf.kernel import Graph, Learner, Parameters, SparseRows, acyclic
from fstcrf.kernel.lazy import Conjunction, LazyAcceptor, lazy_paths
from fstcrf.kernel.learners import ArcWeights, StochasticLearner
from fstcrf.kernel.native import frozen
from fstcrf.kernel.strings import Strings, TextColumn, joined_rows, pack_strings
from fstcrf.kernel.sweep import Layout, Shard, ShardAttributes, SweepWorkspace

Arrays = dict[str, Any]


def ints(*values: int) -> Any:
    return np.asarray(values, dtype=np.int32)


def parts(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """The arrays as parts of others, and those others: what somebody else may write to."""
    whole = {name: np.concatenate([a, a]) for name, a in arrays.items()}
    return {name: whole[name][: len(a)] for name, a in arrays.items()}, whole


# --- Structures, from arrays by name, and what is asked of them -----------------------------------


def rows(arrays: Arrays) -> Callable[[], Any]:
    one = SparseRows(arrays["indptr"], arrays["index"], None, 3)
    return lambda: one.times(np.arange(24.0).reshape(3, 8))


def flat(arrays: Arrays) -> Callable[[], Any]:
    never = -np.inf
    final = np.asarray([never, never, 0.0])
    machine = acyclic.Acyclic(arrays["row"], arrays["target"], np.arange(4.0), final)
    return lambda: machine.nbest(5)


def bound(arrays: Arrays) -> Callable[[], Any]:
    axis = kernel.Axis(2, score=np.asarray([[0.0, 1.0, 2.0, 0.0]]))
    ends = np.zeros((1, 2))
    machine = kernel.JointChain((axis,), (kernel.Factor(1, 2),), None, ends, ends)
    batch = kernel.Bound(machine, arrays["offsets"], (np.arange(12.0).reshape(6, 1, 2),))
    return lambda: kernel.best_paths(batch)


def reader(arrays: Arrays) -> Callable[[], Any]:
    ends = np.zeros((1, 2))
    axis = kernel.Axis(2, score=np.zeros((1, 4)))
    machine = kernel.JointChain((axis,), (kernel.Factor(1, 2),), None, ends, ends)
    final = np.asarray([-np.inf, 0.0, -np.inf])
    one = LazyAcceptor(arrays["place"], arrays["target"], None, final)
    batch = kernel.Bound(machine, np.asarray([0, 4]), (np.arange(8.0).reshape(4, 1, 2),))

    def asked() -> Any:
        found = lazy_paths(batch, Conjunction(machine, [one]), 9)
        return found.path, found.score

    return asked


def learner(arrays: Arrays) -> Callable[[], Any]:
    one = Learner(
        graph=Graph(np.zeros(2), np.zeros(2), np.zeros(4)),
        design=SparseRows(np.arange(6), ints(0, 1, 2, 0, 1), None, 3),
        mask=np.ones((3, 8), dtype=np.uint8),
        arc_mask=np.ones(4, dtype=np.uint8),
        ends=True,
        weight=np.ones(2),
        **arrays,
    )

    def asked() -> Any:
        theta = Parameters(np.zeros((3, 8)), np.zeros(4), np.zeros(2), np.zeros(2))
        one.perceptron_epoch(np.arange(2), theta, theta.zeros(), 1)
        return theta.arrays()

    return asked


def _shared(arrays: Arrays) -> dict[str, Any]:
    attributes = {n: arrays[n] for n in ShardAttributes.__dataclass_fields__ if n in arrays}
    return {
        "width": 8,
        "state_slots": arrays["state_slots"],
        "offsets": arrays["offsets"],
        "weight": np.ones(2),
        "attributes": ShardAttributes(**attributes, row_value=None, single_value=None),
    }


def shard(arrays: Arrays) -> Callable[[], Any]:
    graph = Graph(np.zeros(2), np.zeros(2), np.asarray([0.0, 1.0, 0.5, 0.0]))
    one = Shard(graph, Layout(arrays["ptr"], arrays["slot"]), **_shared(arrays))
    theta = np.arange(1.0, 6.0, dtype=np.float32)

    def asked() -> Any:
        space, out = SweepWorkspace(), np.zeros(5)
        found = one.sweep(graph, theta, space)
        one.collect(space, out)
        return found.arc, found.begin, found.end, out

    return asked


def stochastic(arrays: Arrays) -> Callable[[], Any]:
    one = stochastic_learner(arrays)

    def asked() -> Any:
        one.restart(np.arange(1.0, 10.0))
        one.epoch(np.asarray([1, 0]), np.full(2, 0.1), 0.01, averaging=True)
        return one.theta(mean=True)

    return asked


def stochastic_learner(arrays: Arrays) -> StochasticLearner:
    none = ints(-1, -1)
    return StochasticLearner(
        Graph(np.zeros(2), np.zeros(2), np.zeros(4)),
        Layout(arrays["ptr"], arrays["slot"]),
        **_shared(arrays),
        gold=arrays["gold"],
        arcs=ArcWeights(4, arrays["arc"], none, none),
    )


def strings(arrays: Arrays) -> Callable[[], Any]:
    text, _ = pack_strings(["a", "bc", "def"])
    one = Strings(text, arrays["offsets"])
    return lambda: one.numbers(*pack_strings(["def", "a", "bc", "x"]))


def gibbs(arrays: Arrays) -> Callable[[], Any]:
    labelling = Labelling(ints(0, 1), np.asarray([[0, 1]] * 3, dtype=np.int32))
    graph = Graph(np.zeros(2), np.zeros(2), np.asarray([0.0, 1.0, 0.5, 0.0]))
    one = Gibbs(graph, arrays["offsets"], np.arange(10.0).reshape(5, 2) % 3, labelling)
    uniform = np.random.default_rng(0).random((2, 7))

    def asked() -> Any:
        chain = MarkovChain(ints(0, 0, 0, 0, 0), ints(0, 0, 0, 0, 0))
        score = one.sweep(chain, np.ones(2), np.asarray([True, False]), uniform)
        return score, chain.path, chain.best

    return asked


def feedback(arrays: Arrays) -> Callable[[], Any]:
    theta = Parameters(np.arange(24.0).reshape(3, 8) % 5, np.arange(4.0), np.zeros(2), np.zeros(2))
    one = Feedback(
        Graph(np.zeros(2), np.zeros(2), np.zeros(4)),
        slots=np.asarray([[0], [1]], dtype=np.int32),
        arc_slot=ints(0, 1, 2, 3),
        arc_mask=np.ones(4, dtype=np.uint8),
        label=ints(0, 1),
        ends=True,
        descent=Descent(theta),
    )
    design = SparseRows(np.arange(6), ints(0, 1, 2, 0, 1), None, 3)
    batch = one.batch(arrays["offsets"], design)

    def asked() -> Any:
        made = one.propose(batch, np.asarray([0, 1]), Aim(), Rule(), np.full(5, 0.5))
        return made.path, made.node, made.log_p

    return asked


def emissions(arrays: Arrays) -> Callable[[], Any]:
    chain = kernel.ExpandedChain(
        2, arrays["label"], np.asarray([[0.0, 1.0], [2.0, 0.0]]), *np.zeros((2, 2))
    )
    scores = np.arange(12.0).reshape(2, 3, 2) % 5
    return kernel.EmissionRows(chain, scores, Ragged(arrays["offsets"]), 3).best


SHARD: Arrays = {
    "ptr": np.asarray([0, 2, 4, 5]),
    "slot": np.asarray([0, 1, 0, 1, 1], dtype=np.uint16),
    "row_ptr": np.asarray([0, 1, 2, 2, 4, 4]),
    "row": ints(0, 1, 1, 0),
    "single_ptr": np.asarray([0, 0, 1, 2, 2, 2]),
    "single": ints(0, 0),
    "single_slot": np.asarray([1, 1], dtype=np.uint16),
    "rows": ints(0, 1),
    "singles": ints(4),
    "offsets": np.asarray([0, 2, 5]),
    "state_slots": np.asarray([[0], [1]], dtype=np.int32),
}
STOCHASTIC: Arrays = {**SHARD, "gold": ints(0, 1, 1, 1, 0), "arc": ints(0, 1, 2, 3)}
LEARNER: Arrays = {
    "offsets": np.asarray([0, 2, 5]),
    "slots": np.asarray([[0], [1]], dtype=np.int32),
    "gold": ints(0, 1, 1, 1, 0),
    "arc_slot": ints(0, 1, 2, 3),
    "label": ints(0, 1),
}
READER: Arrays = {
    "place": ints(0, 1),
    "target": np.asarray([[0, 1], [1, 2], [2, 2]], dtype=np.int32),
}
CASES: list[tuple[Callable[[Arrays], Callable[[], Any]], Arrays, str]] = [
    (make, arrays, name)
    for make, arrays in (
        (rows, {"indptr": np.asarray([0, 1, 3]), "index": ints(0, 1, 2)}),
        (flat, {"row": np.asarray([0, 3, 4, 4]), "target": ints(1, 1, 2, 2)}),
        (bound, {"offsets": np.asarray([0, 2, 6])}),
        (reader, READER),
        (learner, LEARNER),
        (shard, SHARD),
        (stochastic, STOCHASTIC),
        (gibbs, {"offsets": np.asarray([0, 2, 5])}),
        (feedback, {"offsets": np.asarray([0, 2, 5])}),
        (emissions, {"label": ints(0, 1), "offsets": np.asarray([0, 2, 5])}),
        (strings, {"offsets": np.asarray([0, 1, 3, 6])}),
    )
    for name in arrays
]


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, tuple):
        return all(same(*pair) for pair in zip(found, expected, strict=True))
    return bool(found.tobytes() == expected.tobytes())


@pytest.mark.parametrize(
    ("make", "arrays", "name"), CASES, ids=[f"{make.__name__}-{n}" for make, _, n in CASES]
)
def test_what_changes_later_is_not_read(
    make: Callable[[Arrays], Callable[[], Any]], arrays: Arrays, name: str
) -> None:
    mine, whole = parts(arrays)
    ask = make(mine)
    expected = make(parts(arrays)[0])()
    whole[name][1:] = whole[name][0]  # numbers that would be allowed
    assert same(ask(), expected)


@pytest.mark.parametrize(("make", "arrays"), [(shard, SHARD), (stochastic, STOCHASTIC)])
def test_arrays_made_for_a_shard_are_kept(
    make: Callable[[Arrays], Callable[[], Any]], arrays: Arrays
) -> None:
    """Large ones are not copied; nobody writes to them any more."""
    mine = {name: array.copy() for name, array in arrays.items()}
    make(mine)
    for name in ("row_ptr", "row", "rows", "single_ptr", "single", "singles", "ptr", "slot"):
        assert not mine[name].flags.writeable
    for name in ("offsets", "state_slots"):
        assert mine[name].flags.writeable


def test_read_only_parts_of_what_is_written_to() -> None:
    whole = ints(1, 2, 3)
    part = whole[:2]
    part.flags.writeable = False
    assert not np.shares_memory(frozen(part), whole)
    whole.flags.writeable = False
    assert frozen(whole[:2]).base is whole


# --- What is looked at where it is used -----------------------------------------------------------


@pytest.mark.parametrize("wrong", [[0, 9], [0, 10**12], [-1, 1], [1, 0]])
def test_strings_outside_the_text(wrong: list[int]) -> None:
    text, _ = pack_strings(["a", "bc", "def"])
    column = TextColumn(ints(0), text, np.asarray(wrong))
    with pytest.raises(KernelError, match="token"):
        joined_rows([column], ints(0), separator=b" ")


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("steps", "D", 3),
        ("steps", "D", -1),
        ("shard", "N", 4),
        ("shard", "longest", 2),
        ("shard", "P", 7),
        ("shard", "P", 2**20),
    ],
)
def test_sizes_of_an_epoch_are_checked(variant: str, part: str, name: str, value: int) -> None:
    """A structure that is no longer what was checked is refused before anything is written."""
    one = stochastic_learner(STOCHASTIC)
    one.restart(np.arange(9.0))
    before = one.state()
    setattr(getattr(one, f"_{part}"), name, value)
    with pytest.raises(KernelError, match="asgd"):
        one.epoch(np.asarray([0, 1]), np.full(2, 0.1), 0.0, averaging=False)
    assert all(same(now, before[key]) for key, now in one.state().items())


@pytest.mark.parametrize("name", ["offsets", "row_ptr", "single_ptr", "ptr"])
def test_bounds_that_are_empty(name: str) -> None:
    with pytest.raises(ShapeError, match="empty"):
        shard({**SHARD, name: np.empty(0, dtype=np.int64)})


@pytest.mark.parametrize("size", [8, 10])
def test_a_restart_needs_all_weights(size: int) -> None:
    one = stochastic_learner(STOCHASTIC)
    one.restart(np.arange(9.0))
    with pytest.raises(ShapeError, match="expected 9"):
        one.restart(np.ones(size))
    np.testing.assert_array_equal(one.theta(mean=False), np.arange(9.0))

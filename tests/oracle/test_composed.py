"""The composition of two machines in the kernel, against its definition, and against pynini."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import KernelError, TooLargeError
from fstcrf.kernel import composed as kernel
from fstcrf.kernel.composed import Operand, composed
from fstcrf.machines.transducer import Transducer
from fstcrf.machines.ways import totals

# Labels; arcs of a state of each machine: either may have more, by far.
SHAPES = {
    "first wider": (5, 60, 3),
    "second wider": (5, 3, 60),
    "as wide": (3, 12, 12),
    "parallel arcs": (1, 5, 5),
    "wide alphabet": (100, 40, 40),
    "no label": (0, 3, 3),
}


def operand(rng: Any, labels: int, arcs: int, *, unknown: bool) -> Operand:
    states = int(rng.integers(1, 6))
    size = int(rng.integers(0, arcs * states + 1))
    source, target = np.sort(rng.integers(0, states, size)), rng.integers(0, states, size)
    label = rng.integers(-2 if unknown else -1, labels, size)
    source, label, target = (x.astype(np.int32) for x in (source, label, target))
    return Operand(labels, source, label, target, rng.random(states) < 0.5)


def defined(first: Operand, second: Operand) -> list[tuple[Any, ...]]:
    """Return the arcs between pairs of states on paths, by the definition: not one is indexed."""
    arcs = defaultdict(list)
    ways, moves = (
        [*zip(x.source.tolist(), x.label.tolist(), x.target.tolist(), strict=True)]
        for x in (first, second)
    )
    may = {source for source, label, _ in moves if label == -1}
    for p in range(len(first.ends)):
        for q in range(len(second.ends)):
            own = [(k, *w[1:]) for k, w in enumerate(ways) if w[0] == p]
            other = [(k, *m[1:]) for k, m in enumerate(moves) if m[0] == q]
            alone = [(-1, k, (p, t, False)) for k, x, t in other if x == -1]
            after = [(k, -1, (t, q, q in may)) for k, x, t in own if x == -1]
            both = [
                (k, j, (t, u, False)) for k, x, t in own for j, y, u in other if x == y and x >= 0
            ]
            arcs[p, q, False] = alone + after + both
            arcs[p, q, True] = after + both
    reached = [(0, 0, False)]
    for state in reached:
        reached += {arc[2]: 0 for arc in arcs[state] if arc[2] not in reached}
    alive = {state for state in reached if first.ends[state[0]] and second.ends[state[1]]}
    while more := {s for s in reached if s not in alive and alive & {a[2] for a in arcs[s]}}:
        alive |= more
    kept = sorted(alive | {(0, 0, False)})
    return [
        (kept.index(s), kept.index(t), k, j, s[:2])
        for s in kept
        for k, j, t in arcs[s]
        if t in alive
    ]


def found(first: Operand, second: Operand, **limits: int) -> list[tuple[Any, ...]]:
    arcs = composed(first, second, **limits)
    columns = (arcs.source, arcs.target, arcs.of, arcs.by)
    states = [*zip(arcs.first.tolist(), arcs.second.tolist(), strict=True)]
    assert states[0] == (0, 0)
    assert states == sorted(states)
    return [(*row, states[row[0]]) for row in zip(*(x.tolist() for x in columns), strict=True)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_composition_has_the_arcs_of_its_definition_in_their_order(shape: str) -> None:
    labels, *sizes = SHAPES[shape]
    some = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first = operand(rng, labels, sizes[0], unknown=False)
        second = operand(rng, labels, sizes[1], unknown=True)
        arcs = found(first, second)
        assert arcs == defined(first, second)
        some += len(arcs) > 0
    assert some > 10


@pytest.mark.parametrize(("name", "value"), [("_ROOM", 8), ("_STEPS", 1)])
def test_neither_room_nor_pauses_change_it(
    name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, size, (2, 300)).astype(np.int32) for size in (30, 4, 30)]
    machines = [
        Operand(4, np.sort(source), label, target, np.ones(30, dtype=bool))
        for source, label, target in zip(*columns, strict=True)
    ]
    wanted = found(*machines)
    monkeypatch.setattr(kernel, name, value)
    assert found(*machines) == wanted
    assert len(wanted) > 10_000


def wide(states: int, arcs: int) -> Operand:
    """Return a machine with some arcs from each state to the next one."""
    source = np.repeat(np.arange(states, dtype=np.int32), arcs)
    target = np.minimum(source + 1, states - 1)
    return Operand(1, source, np.zeros_like(source), target, np.ones(states, dtype=bool))


@pytest.mark.parametrize(("states", "arcs"), [(1, 3000), (90, 300)])
def test_more_arcs_than_the_limit_are_refused_before_there_is_room_for_them(
    states: int, arcs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, most = wide(states, arcs), states * arcs**2
    rooms: list[int] = []
    more = kernel._Room.more_arcs

    def counted(room: Any, size: int) -> None:
        rooms.append(size)
        more(room, size)

    monkeypatch.setattr(kernel._Room, "more_arcs", counted)
    message = f"machines with .* arcs has more than {most - 1:,} arcs"
    with pytest.raises(TooLargeError, match=message):
        composed(machine, machine, most - 1)
    assert max(rooms) <= kernel._UNCOUNTED
    assert len(composed(machine, machine, most).source) == most


@pytest.mark.parametrize(
    "change",
    [
        {"label": np.array([3, 0], np.int32)},
        {"label": np.array([0, -3], np.int32)},
        {"target": np.array([0, 2], np.int32)},
        {"source": np.array([1, 0], np.int32)},
        {"source": np.array([-1, 0], np.int32)},
    ],
    ids=repr,
)
def test_arcs_beyond_the_states_or_labels_are_refused(change: dict[str, Any]) -> None:
    given = {name: np.array([0, 1], np.int32) for name in ("source", "label", "target")} | change
    machine = Operand(3, **given, ends=np.ones(2, dtype=bool))
    with pytest.raises(KernelError, match="arcs of a composition"):
        composed(machine, machine)


NAMES = tuple("abcdef")


def transducer(seed: int, arcs: int, silent: float) -> Transducer:
    """Return a machine with cycles, over which sums are finite; a part of each side is silent."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, 5, (2, arcs))
    read, written = np.where(rng.random((2, arcs)) < silent, -1, rng.integers(0, 6, (2, arcs)))
    score, final = -rng.uniform(4.0, 6.0, arcs), rng.normal(size=5)
    arrays = source, read, written, target, score, final
    return Transducer.from_arrays(*arrays, input_symbols=NAMES, output_symbols=NAMES)


@pytest.mark.parametrize("silent", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("arcs", [(40, 40), (200, 10), (10, 200)], ids=repr)
def test_the_sum_over_all_paths_is_that_of_pynini(arcs: tuple[int, int], silent: float) -> None:
    """A pair of paths that is counted twice would be in the sum twice."""
    pynini: Any = pytest.importorskip("pynini", reason="pynini is not installed")
    from tests.benchmarks.transduced import fst_of

    one, other = (transducer(seed, size, silent) for seed, size in enumerate(arcs))
    both = one @ other
    total = totals(both.source, both.target, both.score, both.final, log=True)[0]
    fsts = fst_of(one, "log64").arcsort("olabel"), fst_of(other, "log64")
    wanted = pynini.shortestdistance(pynini.compose(*fsts), reverse=True, delta=1e-12)[0]
    assert total == pytest.approx(-float(str(wanted)), abs=1e-6)

"""The fused sweep in float32 against forward-backward in float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs, Singles
from fstcrf.errors import ShapeError
from fstcrf.kernel import Graph, Layout, Shard, ShardAttributes, SweepWorkspace, padded


class Task(NamedTuple):
    graph: Graph
    layout: Layout
    arguments: dict[str, Any]
    theta: Singles
    x: Floats  # [N, attributes]
    state_slots: Ints


def task(
    seed: int, states: int, *, direct: bool, values: bool, spread: float = 1.0, never: float = 0.0
) -> Task:
    rng = np.random.default_rng(seed)
    slots = states if direct else states + 3
    attributes, lengths = 12, rng.integers(1, 12, 6)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = int(offsets[-1])
    counts = rng.integers(0, slots + 1, attributes)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    chosen = [np.sort(rng.choice(slots, c, replace=False)) for c in counts]
    slot = np.concatenate(chosen).astype(np.uint16)
    x: Floats = (rng.random((tokens, attributes)) < 0.4).astype(np.float64)
    if values:
        x *= rng.integers(-4, 5, (tokens, attributes)) / 4.0
    state_slots = np.arange(states, dtype=np.int32)[:, None]
    if not direct:
        state_slots = rng.integers(0, slots, (states, 2)).astype(np.int32)

    def potentials(*shape: int) -> Floats:
        drawn = spread * rng.normal(size=shape)
        return np.where(rng.random(shape) < never, -np.inf, drawn)

    graph = Graph(potentials(states), potentials(states), potentials(states * states))
    rows, singles = np.flatnonzero(counts > 2), np.flatnonzero(counts <= 2)
    arguments: dict[str, Any] = {
        "width": padded(slots),
        "state_slots": None if direct else state_slots,
        "offsets": offsets,
        "weight": rng.uniform(0.5, 2.0, len(lengths)),
        "rows": rows.astype(np.int32),
        **row_part(x, rows, values=values),
        **single_part(x, singles, ptr, slot, values=values),
    }
    theta = (spread * rng.normal(size=len(slot))).astype(np.float32)
    return Task(graph, Layout(ptr, slot), arguments, theta, x, state_slots)


def shard_of(one: Task, arguments: dict[str, Any]) -> Shard:
    """The shard of a task: what is no attribute of ShardAttributes goes to Shard itself."""
    names = ShardAttributes.__dataclass_fields__
    own = ShardAttributes(**{n: a for n, a in arguments.items() if n in names})
    others = {n: a for n, a in arguments.items() if n not in names}
    return Shard(one.graph, one.layout, attributes=own, **others)


def row_part(x: Floats, rows: Longs, *, values: bool) -> dict[str, Any]:
    token, row = np.nonzero(x[:, rows])
    ptr = np.concatenate([[0], np.cumsum(np.bincount(token, minlength=len(x)))])
    value = x[:, rows][token, row].astype(np.float32) if values else None
    return {"row_ptr": ptr, "row": row.astype(np.int32), "row_value": value}


def single_part(
    x: Floats,
    singles: Longs,
    ptr: Longs,
    slot: NDArray[np.uint16],
    *,
    values: bool,
) -> dict[str, Any]:
    parameters = [p for a in singles for p in range(ptr[a], ptr[a + 1])]
    owner = [a for a in singles for _ in range(ptr[a], ptr[a + 1])]
    by_token = [
        sorted((int(slot[p]), k) for k, p in enumerate(parameters) if x[n, owner[k]])
        for n in range(len(x))
    ]
    entries = np.asarray([k for entry in by_token for _, k in entry], dtype=np.int32)
    value = [x[n, owner[k]] for n, entry in enumerate(by_token) for _, k in entry]
    return {
        "single_ptr": np.concatenate([[0], np.cumsum([len(e) for e in by_token])]),
        "single": entries,
        "single_slot": slot[np.asarray(parameters, dtype=np.int64)[entries]],
        "single_value": np.asarray(value, dtype=np.float32) if values else None,
        "singles": np.asarray(parameters, dtype=np.int32),
    }


def expected(one: Task) -> tuple[float, Floats, kernel.Posterior]:
    """Loss and gradient in float64."""
    layout, arguments = one.layout, one.arguments
    attribute = np.repeat(np.arange(len(layout.ptr) - 1), np.diff(layout.ptr))
    potentials = np.zeros((len(one.x), arguments["width"]))
    np.add.at(potentials.T, layout.slot, (one.x[:, attribute] * one.theta).T)
    node = np.ascontiguousarray(potentials[:, one.state_slots].sum(axis=2))
    found = kernel.forward_backward(
        one.graph, arguments["offsets"], node, weight=arguments["weight"], domain="log"
    )
    slots = np.zeros_like(potentials)
    for state, its in enumerate(one.state_slots):
        for s in its:
            slots[:, s] += found.node[:, state]
    gradient = (one.x[:, attribute] * slots[:, layout.slot]).sum(axis=0)
    return float(arguments["weight"] @ found.log_z), gradient, found


def check(one: Task, *, rescued: bool | None) -> None:
    shard, space = shard_of(one, one.arguments), SweepWorkspace()
    found = shard.sweep(one.graph, one.theta, space)
    gradient = np.zeros(len(one.theta))
    shard.collect(space, gradient)
    loss, wanted, posterior = expected(one)
    size = 1.0 + np.abs(one.theta).max(initial=0.0)
    np.testing.assert_allclose(found.loss, loss, rtol=2e-6, atol=2e-6 * size)
    np.testing.assert_allclose(gradient, wanted, rtol=2e-5, atol=2e-5 * size)
    np.testing.assert_allclose(found.arc, posterior.arc, rtol=2e-5, atol=2e-5 * size)
    offsets = one.arguments["offsets"]
    begin, end = posterior.node[offsets[:-1]].sum(axis=0), posterior.node[offsets[1:] - 1]
    np.testing.assert_allclose(found.begin, begin, rtol=2e-5, atol=2e-5 * size)
    np.testing.assert_allclose(found.end, end.sum(axis=0), rtol=2e-5, atol=2e-5 * size)
    if rescued is not None:
        assert (found.rescued > 0) is rescued
    shard.collect(space, gradient)
    np.testing.assert_allclose(gradient, 2.0 * wanted, rtol=4e-5, atol=4e-5 * size)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("states", [1, 2, 7, 8, 9, 16, 17, 33, 50, 70])
def test_sweep(variant: str, states: int, *, direct: bool, values: bool) -> None:
    check(task(states, states, direct=direct, values=values), rescued=False)


@pytest.mark.parametrize("states", [4, 9, 20])
def test_forbidden_successions(variant: str, states: int) -> None:
    for seed in range(4):
        check(task(seed, states, direct=True, values=False, never=0.15), rescued=None)


@pytest.mark.parametrize("spread", [30.0, 300.0])
def test_sentences_that_float32_cannot_hold(variant: str, spread: float) -> None:
    for direct in (False, True):
        check(task(5, 9, direct=direct, values=True, spread=spread), rescued=True)


def test_sweeps_repeat_bit_for_bit(variant: str) -> None:
    one = task(3, 12, direct=True, values=True)
    shard, space = shard_of(one, one.arguments), SweepWorkspace()
    first = shard.sweep(one.graph, one.theta, space)
    gradient = space.gradient(shard.size).tobytes()
    space.work(1)[:] = np.nan  # what is left in scratch does not matter
    space.weight(shard.size)[:] = np.nan
    space.gradient(shard.size)[:] = np.nan
    again = shard.sweep(one.graph, one.theta, space)
    assert again.loss == first.loss
    assert again.arc.tobytes() == first.arc.tobytes()
    assert space.gradient(shard.size).tobytes() == gradient


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("offsets", lambda a: a.astype(np.int32)),
        ("offsets", lambda a: a[:-1]),
        ("offsets", lambda a: a[::-1].copy()),
        ("weight", lambda a: a[:-1]),
        ("row", lambda a: a + 100),
        ("row", lambda a: a - 100),
        ("row", lambda a: a[:-1]),
        ("row_ptr", lambda a: np.concatenate([[a[1] + 1], a[1:]])),
        ("row_ptr", lambda a: np.concatenate([a[:1], [a[-1] + 1], a[2:]])),
        ("row_value", lambda a: a.astype(np.float64)),
        ("row_value", lambda a: a[:-1]),
        ("single", lambda a: a + 1000),
        ("single_ptr", lambda a: a[:-1]),
        ("single_slot", lambda a: a + np.uint16(1000)),
        ("single_slot", lambda a: a.astype(np.int32)),
        ("single_value", lambda a: a[:-1]),
        ("rows", lambda a: a + 100),
        ("singles", lambda a: a + 1000),
        ("state_slots", lambda a: a + 100),
        ("state_slots", lambda a: a - 100),
        ("state_slots", lambda a: a[:-1]),
        ("width", lambda _: 12),
        ("width", lambda _: 0),
    ],
)
def test_shards_are_checked(name: str, change: Any) -> None:
    one = task(1, 6, direct=False, values=True)
    arguments = {**one.arguments, name: change(one.arguments[name])}
    with pytest.raises(ShapeError):
        shard_of(one, arguments)


def test_sweeps_are_checked() -> None:
    one = task(1, 6, direct=True, values=True)
    shard, space = shard_of(one, one.arguments), SweepWorkspace()
    larger = Graph(np.zeros(9), np.zeros(9), np.zeros(81))
    per_token = Graph(np.zeros(6), np.zeros(6), np.zeros((4, 36)))
    for graph in (larger, per_token):
        with pytest.raises(ShapeError):
            shard.sweep(graph, one.theta, space)
    with pytest.raises(ShapeError, match="theta is"):
        shard.sweep(one.graph, one.theta[:-1], space)
    with pytest.raises(ShapeError, match="out is"):
        shard.collect(space, np.zeros(len(one.theta) + 1))

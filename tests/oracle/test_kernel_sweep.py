"""Shards of a training text: what they refuse, and that sweeps over them repeat.

Their sums are those of `test_kernel_background` and of `tests/gradient/test_likelihood.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import ShapeError
from fstcrf.kernel import Graph, Shard, SweepWorkspace, padded
from fstcrf.training.shards import attribute_layout, whole_attributes
from tests.support.problems import random_case

CASE = random_case(1, order=2, values=True, attributes=20, lengths=(3, 5, 2, 4))
GRAPH = Graph(np.zeros(12), np.zeros(12), np.zeros(144))
LAYOUT = attribute_layout(CASE.space)


def shard(name: str = "", change: Any = None) -> Shard:
    """Return the shard of a text of second order with rows, single entries and values."""
    problem, topology = CASE.problem, CASE.problem.topology
    slots = len(topology.node_slot_names)
    own = whole_attributes(problem.node, LAYOUT, slots)
    others: dict[str, Any] = {
        "width": padded(slots),
        "state_slots": np.ascontiguousarray(topology.node_slots),
        "offsets": problem.offsets,
        "weight": problem.weight,
    }
    if name in others:
        others[name] = change(others[name])
    elif name:
        own = replace(own, **{name: change(getattr(own, name))})
    return Shard(GRAPH, LAYOUT, attributes=own, **others)


THETA = np.random.default_rng(0).normal(size=len(LAYOUT.slot)).astype(np.float32)


def test_sweeps_repeat_bit_for_bit(variant: str) -> None:
    """What is left in scratch does not matter."""
    one, space = shard(), SweepWorkspace()
    first = one.sweep(GRAPH, THETA, space)
    gradient = space.gradient(one.size).tobytes()
    for scratch in (space.work(1), space.weight(one.size), space.gradient(one.size)):
        scratch[:] = np.nan
    again = one.sweep(GRAPH, THETA, space)
    assert again.loss == first.loss
    assert again.arc.tobytes() == first.arc.tobytes()
    assert space.gradient(one.size).tobytes() == gradient


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
    with pytest.raises(ShapeError):
        shard(name, change)


def test_sweeps_are_checked() -> None:
    one, space = shard(), SweepWorkspace()
    larger = Graph(np.zeros(13), np.zeros(13), np.zeros(169))
    per_token = Graph(np.zeros(12), np.zeros(12), np.zeros((14, 144)))
    for graph in (larger, per_token):
        with pytest.raises(ShapeError):
            one.sweep(graph, THETA, space)
    with pytest.raises(ShapeError, match="theta is"):
        one.sweep(GRAPH, THETA[:-1], space)
    with pytest.raises(ShapeError, match="out is"):
        one.collect(space, np.zeros(len(THETA) + 1))

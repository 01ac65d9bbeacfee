"""Graphs whose arcs are one number but for exceptions: random ones, swept, against all pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.kernel import (
    Classes,
    Graph,
    Layout,
    Shard,
    ShardAttributes,
    Sweep,
    SweepWorkspace,
    padded,
)


class Case(NamedTuple):
    """The same graph twice, and potentials of nodes: one attribute a token and state."""

    sparse: Graph
    dense: Graph
    listed: Bools  # [S * S]
    offsets: Longs
    node: Floats  # [N, S]
    weight: Floats  # [B]


def case(
    seed: int,
    states: int,
    lengths: list[int],
    *,
    classes: int | None = None,
    arcs: float = 0.2,
    rest: float = 0.0,
    spread: float = 1.0,
    never: float = 0.0,
) -> Case:
    """Random arcs over a rest: of all pairs, or of random classes, where some ends are shut."""
    rng = np.random.default_rng(seed)
    listed = rng.random((states, states)) < arcs
    listed[0, 0] = True
    own = spread * rng.normal(size=(states, states))
    own[rng.random(own.shape) < never] = -np.inf
    first, last = spread * rng.normal(size=(2, states))
    node = spread * rng.normal(size=(sum(lengths), states))
    weight = rng.uniform(0.5, 2.0, len(lengths))
    if classes is None:
        return of(first, last, np.where(listed, own, rest), listed, rest, lengths, node, weight)
    leave, enter = rng.integers(-1, classes, (2, states)).astype(np.int32)
    first[rng.random(states) < 0.5] = last[rng.random(states) < 0.3] = -np.inf
    leave[0] = enter[0] = 0  # so that there is a path
    first[0] = last[0] = 0.0
    own[0, 0] = 0.5
    beside = (leave[:, None] >= 0) & (leave[:, None] == enter)
    score = np.where(listed, own, np.where(beside, rest, -np.inf))
    both = Classes.made(leave, classes), Classes.made(enter, classes)
    return of(first, last, score, listed, rest, lengths, node, weight, both)


def of(
    first: Floats,
    last: Floats,
    score: Floats,
    listed: Bools,
    rest: float,
    lengths: list[int],
    node: Floats,
    weight: Floats,
    classes: tuple[Classes, Classes] | None = None,
) -> Case:
    """Arcs that are listed, and the rest of all pairs or of those of one class."""
    source, target = np.divmod(np.flatnonzero(listed).astype(np.int32), np.int32(len(first)))
    sparse = Graph(first, last, score[listed], source, target, rest=rest, classes=classes)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Case(sparse, Graph(first, last, score.ravel()), listed.ravel(), offsets, node, weight)


class Found(NamedTuple):
    sweep: Sweep
    node: Floats  # [N, S] gradient of each token's own attributes


def swept(one: Case, graph: Graph, *, curvature: bool = False) -> Found:
    """Sweep with an attribute for every token and state."""
    tokens, states = one.node.shape
    ptr = np.arange(tokens + 1, dtype=np.int64) * states
    slot = np.tile(np.arange(states), tokens).astype(np.uint16)
    rows = np.arange(tokens, dtype=np.int32)
    none = np.zeros(0, dtype=np.int32)
    attributes = ShardAttributes(
        row_ptr=np.arange(tokens + 1, dtype=np.int64),
        row=rows,
        row_value=None,
        single_ptr=np.zeros(tokens + 1, dtype=np.int64),
        single=none,
        single_slot=none.astype(np.uint16),
        single_value=None,
        rows=rows,
        singles=none,
    )
    shard = Shard(
        graph,
        Layout(ptr, slot),
        width=padded(states),
        state_slots=None,
        offsets=one.offsets,
        weight=one.weight,
        attributes=attributes,
    )
    work = shard.curvature if curvature else shard.sweep
    space = SweepWorkspace()
    sweep = work(graph, one.node.ravel().astype(np.float32), space)
    gradient = np.zeros(one.node.size)
    shard.collect(space, gradient)
    return Found(sweep, gradient.reshape(one.node.shape))


def check(
    one: Case,
    *,
    rescued: bool | None = False,
    tolerance: float = 2e-6,
    domain: kernel.Domain = "log",
) -> None:
    """Sweeps over exceptions and over all pairs give what sums in the log domain give."""
    rounded = one.node.astype(np.float32).astype(np.float64)
    wanted = kernel.forward_backward(
        one.dense, one.offsets, rounded, weight=one.weight, domain=domain
    )
    # Potentials are floats: what they are rounded by counts as much as they are large.
    size = 1.0 + max(np.abs(a[np.isfinite(a)]).max() for a in (one.dense.score, one.node))
    lengths = np.diff(one.offsets).sum()
    near = {"rtol": 10 * tolerance, "atol": 10 * tolerance * size}
    first, last = one.offsets[:-1], one.offsets[1:] - 1
    for graph, arc in ((one.sparse, wanted.arc[one.listed]), (one.dense, wanted.arc)):
        found, node = swept(one, graph)
        np.testing.assert_allclose(
            found.loss, one.weight @ wanted.log_z, rtol=tolerance, atol=1e-7 * size * lengths
        )
        np.testing.assert_allclose(node, wanted.node, **near)
        np.testing.assert_allclose(found.arc, arc, **near)
        np.testing.assert_allclose(found.begin, wanted.node[first].sum(axis=0), **near)
        np.testing.assert_allclose(found.end, wanted.node[last].sum(axis=0), **near)
        if rescued is not None and graph is one.sparse:
            assert (found.rescued > 0) is rescued

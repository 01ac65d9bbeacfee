"""Epochs of online learning against the same algorithms over enumerated paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.kernel import Graph, Learner, Parameters, PassiveAggressive, SparseRows
from tests.support.oracles import assert_close, truth
from tests.support.strategies import each_variant, potentials

WIDTH = 8


@st.composite
def learners(draw: st.DrawFn) -> Learner:
    states, slots = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    offsets = np.cumsum([0, *lengths])
    tokens, rows = int(offsets[-1]), draw(st.integers(1, 4))
    gold = draw(hnp.arrays(np.int32, tokens, elements=st.integers(0, states - 1)))
    counts = draw(hnp.arrays(np.int64, tokens, elements=st.integers(0, 3)))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    index = draw(hnp.arrays(np.int32, int(indptr[-1]), elements=st.integers(0, rows - 1)))
    value = None
    if draw(st.booleans()):
        steps = draw(hnp.arrays(np.int8, len(index), elements=st.integers(-4, 4)))
        value = (steps / 4).astype(np.float32)
    graph = draw(structures(states, offsets, gold))
    bits = st.integers(0, 1)
    arc_slot, n_arc_slots = None, graph.n_arcs
    if draw(st.booleans()):  # arcs that share a weight
        n_arc_slots = draw(st.integers(1, 3))
        arc_slot = draw(
            hnp.arrays(np.int32, graph.n_arcs, elements=st.integers(0, n_arc_slots - 1))
        )
    label = None
    if draw(st.booleans()):
        label = draw(hnp.arrays(np.int32, states, elements=st.integers(0, states - 1)))
    return Learner(
        graph=graph,
        offsets=offsets,
        design=SparseRows(indptr, index, value, rows),
        slots=draw(hnp.arrays(np.int32, (states, slots), elements=st.integers(0, WIDTH - 1))),
        mask=draw(hnp.arrays(np.uint8, (rows, WIDTH), elements=bits)),
        arc_mask=draw(hnp.arrays(np.uint8, n_arc_slots, elements=bits)),
        ends=draw(st.booleans()),
        gold=gold,
        weight=draw(potentials((len(lengths),), unit=0.5, forbid=False)),
        arc_slot=arc_slot,
        label=label,
    )


@st.composite
def structures(draw: st.DrawFn, states: int, offsets: Longs, gold: Ints) -> Graph:
    """A dense graph, or a sparse one that has the arcs of the gold paths."""
    zeros = np.zeros(states)
    if draw(st.booleans()):
        return Graph(zeros, zeros, np.zeros(states * states))
    chosen = draw(hnp.arrays(np.bool_, (states, states)))
    chosen[0, 0] = True
    inner = np.ones(len(gold), dtype=bool)
    inner[offsets[:-1]] = False
    after = np.flatnonzero(inner)
    chosen[gold[after - 1], gold[after]] = True
    source, target = (x.astype(np.int32) for x in np.nonzero(chosen))
    return Graph(zeros, zeros, np.zeros(len(source)), source, target)


@st.composite
def starts(draw: st.DrawFn, learner: Learner, *, forbid: bool) -> Parameters:
    shapes = (learner.mask.shape, learner.arc_mask.shape, *[(learner.graph.n_states,)] * 2)
    table, *others = (
        draw(potentials(shape, unit=0.125, forbid=forbid and i > 0))
        for i, shape in enumerate(shapes)
    )
    return Parameters(table, *others)


def copy_of(p: Parameters) -> Parameters:
    return Parameters(*(a.copy() for a in p.arrays()))


def design(learner: Learner) -> Floats:
    rows = learner.design
    matrix = np.zeros((len(rows), rows.n_columns))
    value = np.ones(len(rows.index)) if rows.value is None else rows.value
    token = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    np.add.at(matrix, (token, rows.index), value)
    return matrix


def arc_table(graph: Graph) -> Longs:
    """Number of the arc between two states; −1 where there is none."""
    size = graph.n_states
    if graph.source is None or graph.target is None:
        return np.arange(size * size).reshape(size, size)
    table = np.full((size, size), -1)
    table[graph.source, graph.target] = np.arange(len(graph.source))
    return table


def at_work(learner: Learner, theta: Parameters, x: Floats) -> tuple[Graph, Floats]:
    """Return graph and node potentials of a sentence under the weights of the moment."""
    node = (x @ theta.table)[:, learner.slots].sum(axis=2)
    g = learner.graph
    return Graph(theta.initial, theta.final, theta.arc[learner.arc_slots], g.source, g.target), node


def add(
    learner: Learner, x: Floats, features: tuple[Floats, Floats], rate: float, to: Parameters
) -> None:
    """Add rate × features, of soft or hard states and pairs of states, to what is trained."""
    node, pairs = features
    slots = np.zeros((len(node), WIDTH))
    for state, its in enumerate(learner.slots):
        for slot in its:
            slots[:, slot] += node[:, state]
    to.table[...] += rate * (x.T @ slots) * learner.mask
    exists = arc_table(learner.graph) >= 0
    arcs = np.zeros(len(learner.arc_mask))
    slots_of = learner.arc_slots[arc_table(learner.graph)[exists]]
    np.add.at(arcs, slots_of, pairs.sum(axis=0)[exists])
    to.arc[...] += rate * arcs * learner.arc_mask
    if learner.ends:
        to.initial[...] += rate * node[0]
        to.final[...] += rate * node[-1]


def one_hot(path: NDArray[np.integer], states: int) -> tuple[Floats, Floats]:
    node = np.eye(states)[path]
    return node, node[:-1, :, None] * node[1:, None, :]


def wrong_labels(learner: Learner, path: NDArray[np.integer], gold: Ints) -> int:
    """All are wrong where there is no path."""
    if path[0] < 0:
        return len(gold)
    labels = learner.state_labels
    return int((labels[path] != labels[gold]).sum())


@pytest.mark.thorough
@each_variant
@given(data=st.data())
def test_perceptron(variant: str, data: st.DataObject) -> None:
    learner = data.draw(learners())
    theta = data.draw(starts(learner, forbid=True))
    order = np.asarray(data.draw(orders(learner)), dtype=np.int64)
    sums, step = theta.zeros(), data.draw(st.integers(1, 5))
    ours, our_sums, our_step = copy_of(theta), copy_of(sums), step
    our_errors, our_loss = 0, 0.0
    x, states = design(learner), learner.graph.n_states
    for b in order:
        a, z = learner.offsets[b : b + 2]
        graph, node = at_work(learner, ours, x[a:z])
        path = truth(graph, node).path
        gold = learner.gold[a:z]
        wrong = wrong_labels(learner, path, gold)
        our_errors += wrong
        our_loss += learner.weight[b] * wrong / len(gold)
        if path[0] >= 0 and wrong:
            for rate, labels in ((1.0, gold), (-1.0, path)):
                for to, factor in ((ours, 1.0), (our_sums, our_step)):
                    change = rate * factor * learner.weight[b]
                    add(learner, x[a:z], one_hot(labels, states), change, to)
        our_step += 1
    end, errors, loss = learner.perceptron_epoch(order, theta, sums, step)
    assert (end, errors) == (our_step, our_errors)
    assert loss == pytest.approx(our_loss)
    for mine, kernels in zip(
        (*ours.arrays(), *our_sums.arrays()), (*theta.arrays(), *sums.arrays()), strict=True
    ):
        assert kernels.tolist() == mine.tolist()  # multiples of 1/64: exact


def behind(learner: Learner, b: int, theta: Parameters, x: Floats) -> tuple[float, int, Parameters]:
    """How far the gold path is behind the best, how wrong that is, how their features differ."""
    a, z = learner.offsets[b : b + 2]
    graph, node = at_work(learner, theta, x[a:z])
    gold, known = learner.gold[a:z], truth(graph, node)
    difference = theta.zeros()
    for rate, path in ((1.0, gold), (-1.0, known.path)):
        add(learner, x[a:z], one_hot(path, learner.graph.n_states), rate, difference)
    gap = known.score - path_score(graph, node, gold)
    return gap, wrong_labels(learner, known.path, gold), difference


def path_score(graph: Graph, node: Floats, path: Ints) -> float:
    arcs = graph.score[arc_table(graph)[path[:-1], path[1:]]]
    ends = graph.initial[path[0]] + graph.final[path[-1]]
    return float(ends + arcs.sum() + node[np.arange(len(path)), path].sum())


def squares(p: Parameters) -> float:
    return float(sum((a * a).sum() for a in p.arrays()))


STEPS: dict[PassiveAggressive, Callable[[float, float, float], float]] = {
    "PA": lambda loss, norm2, _: loss / norm2 if norm2 else 0.0,
    "PA-I": lambda loss, norm2, c: min(c, loss / norm2) if norm2 else 0.0,
    "PA-II": lambda loss, norm2, c: loss / (norm2 + 1 / (2 * c)),
}


@pytest.mark.thorough
@each_variant
@given(data=st.data())
def test_passive_aggressive(variant: str, data: st.DataObject) -> None:
    """One sentence: after it, rounding may decide another best path than enumeration does."""
    learner = data.draw(learners())
    theta = data.draw(starts(learner, forbid=False))
    b = data.draw(st.integers(0, len(learner.offsets) - 2))
    kind = data.draw(st.sampled_from(sorted(STEPS)))
    c, counts = data.draw(st.sampled_from([0.1, 1.0, 10.0])), data.draw(st.booleans())
    sums, step = theta.zeros(), data.draw(st.integers(1, 5))
    ours, our_sums, our_loss = copy_of(theta), copy_of(sums), 0.0
    gap, wrong, difference = behind(learner, b, theta, design(learner))
    if wrong:
        loss = gap + (np.sqrt(wrong) if counts else 1.0)
        tau = learner.weight[b] * STEPS[kind](loss, squares(difference), c)
        our_loss = learner.weight[b] * loss
        for to, rate in ((ours, tau), (our_sums, tau * step)):
            for mine, change in zip(to.arrays(), difference.arrays(), strict=True):
                np.add(mine, rate * change, out=mine)
    end, loss = learner.passive_aggressive_epoch(
        np.asarray([b]),
        theta,
        sums,
        step,
        variant=kind,
        aggressiveness=c,
        error_sensitive=counts,
    )
    assert end == step + 1
    assert loss == pytest.approx(our_loss, abs=1e-9)
    for mine, kernels in zip(
        (*ours.arrays(), *our_sums.arrays()), (*theta.arrays(), *sums.arrays()), strict=True
    ):
        assert_close(kernels, mine, scale=50.0)


@pytest.mark.thorough
@each_variant
@given(data=st.data())
def test_arow(variant: str, data: st.DataObject) -> None:
    learner = data.draw(learners())
    theta = data.draw(starts(learner, forbid=False))
    spread = Parameters(*(np.exp(a) for a in data.draw(starts(learner, forbid=False)).arrays()))
    b = data.draw(st.integers(0, len(learner.offsets) - 2))
    gamma = data.draw(st.sampled_from([0.1, 1.0, 10.0]))
    ours, our_spread, our_loss = copy_of(theta), copy_of(spread), 0.0
    gap, wrong, difference = behind(learner, b, theta, design(learner))
    if wrong:
        loss, weight = gap + wrong, learner.weight[b]
        our_loss = weight * loss
        changes = [weight * d for d in difference.arrays()]
        total = gamma + sum(
            (v * d * d).sum() for v, d in zip(spread.arrays(), changes, strict=True)
        )
        for mean, v, d in zip(ours.arrays(), our_spread.arrays(), changes, strict=True):
            np.add(mean, loss / total * v * d, out=mean)
            v[...] = 1 / (1 / v + d * d / gamma)
    found = learner.arow_epoch(np.asarray([b]), theta, spread, gamma=gamma)
    assert found == pytest.approx(our_loss, abs=1e-9)
    for mine, kernels in zip(
        (*ours.arrays(), *our_spread.arrays()), (*theta.arrays(), *spread.arrays()), strict=True
    ):
        assert_close(kernels, mine, scale=50.0)


@given(data=st.data())
def test_epochs_are_sentences_one_after_the_other(data: st.DataObject) -> None:
    learner = data.draw(learners())
    order = np.asarray(data.draw(orders(learner)), dtype=np.int64)
    start = data.draw(starts(learner, forbid=False))
    at_once, apart = copy_of(start), copy_of(start)
    ones = Parameters(*(np.ones_like(a) for a in start.arrays()))
    together, separate = copy_of(ones), copy_of(ones)
    loss = learner.arow_epoch(order, at_once, together, gamma=2.0)
    losses = [
        learner.arow_epoch(order[i : i + 1], apart, separate, gamma=2.0) for i in range(len(order))
    ]
    assert loss == pytest.approx(sum(losses))
    for one, other in zip(
        (*at_once.arrays(), *together.arrays()), (*apart.arrays(), *separate.arrays()), strict=True
    ):
        assert np.array_equal(one, other)
    options: dict[str, Any] = {"variant": "PA-I", "aggressiveness": 0.5, "error_sensitive": True}
    at_once, apart = copy_of(start), copy_of(start)
    together, separate, step = start.zeros(), start.zeros(), 3
    end, loss = learner.passive_aggressive_epoch(order, at_once, together, step, **options)
    losses = []
    for i in range(len(order)):
        one_by_one = order[i : i + 1]
        step, part = learner.passive_aggressive_epoch(one_by_one, apart, separate, step, **options)
        losses.append(part)
    assert end == step
    assert loss == pytest.approx(sum(losses))
    for one, other in zip(
        (*at_once.arrays(), *together.arrays()), (*apart.arrays(), *separate.arrays()), strict=True
    ):
        assert np.array_equal(one, other)


@pytest.mark.thorough
@each_variant
@given(data=st.data())
def test_sgd(variant: str, data: st.DataObject) -> None:
    learner = data.draw(learners())
    theta = data.draw(starts(learner, forbid=False))
    order = np.asarray(data.draw(orders(learner)), dtype=np.int64)
    rates = np.asarray([data.draw(st.sampled_from([0.0, 0.25, 1.0])) for _ in order])
    decay = data.draw(st.sampled_from([0.0, 0.125, 0.5]))
    scale = data.draw(st.sampled_from([1.0, 0.5, 3.0]))
    ours = Parameters(*(scale * a for a in theta.arrays()))
    x, states, our_loss = design(learner), learner.graph.n_states, 0.0
    for b, rate in zip(order, rates, strict=True):
        a, z = learner.offsets[b : b + 2]
        gold = learner.gold[a:z]
        graph, node = at_work(learner, ours, x[a:z])
        known = truth(graph, node)
        gold_node, gold_pairs = one_hot(gold, states)
        our_loss += learner.weight[b] * (known.log_z - path_score(graph, node, gold))
        for array in ours.arrays():
            array[...] *= 1.0 - rate * decay
        change = -rate * learner.weight[b]
        difference = known.node - gold_node, known.arc - gold_pairs
        add(learner, x[a:z], difference, change, ours)
    new_scale, loss = learner.sgd_epoch(order, rates, decay, theta, scale)
    assert_close(new_scale, scale * np.prod(1.0 - rates * decay))
    assert_close(loss, our_loss, scale=50.0)
    for mine, kernels in zip(ours.arrays(), theta.arrays(), strict=True):
        assert_close(new_scale * kernels, mine, scale=50.0)


def orders(learner: Learner) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, len(learner.offsets) - 2), max_size=6)

"""Training in float32 says what float64 says: value and gradient, whatever weights and data are.

Weights are multiples of 1/256 below 2^14, so that float32 holds their sums exactly: what is left is
the rounding of the recursion itself. A component may be wrong by a ten-thousandth of itself and a
millionth of the largest count that it is the difference of.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import Topology, chain_topology
from fstcrf.training import Likelihood, ParameterSpace, Problem, parameter_space
from fstcrf.training.evidence import Summed
from fstcrf.training.shards import default_arcs_of

UNIT = 1 / 256
LARGEST = 2.0**14 - UNIT
RUN = 40
CHANCES = 5  # attributes that go with no label
SCALES = (1.0, 30.0, 1e3, 1e4)
PARTS = (
    "attributes",
    "transitions",
    "pair attributes",
    "beginnings",
    "ends",
    "all",
    "opposed",
    "cut",
)
MIXED = ("all", "opposed", "cut")
OWN, SHARED = 1e-4, 1e-6

Legal = Callable[[str | None, str | None], bool]


class Task(NamedTuple):
    problem: Problem
    space: ParameterSpace

    @property
    def own(self) -> dict[str, slice]:
        """The weights of each part; what has none is left out."""
        pairs = itertools.pairwise(self.space.bounds)
        found = {name: slice(*pair) for name, pair in zip(PARTS, pairs, strict=False)}
        return {name: part for name, part in found.items() if part.start < part.stop}


def bio(before: str | None, after: str | None) -> bool:
    if after is None or not after.startswith("I-"):
        return True
    return before is not None and before[2:] == after[2:]


def anything(before: str | None, after: str | None) -> bool:
    return True


def scheme(kinds: int) -> tuple[str, ...]:
    return ("O", *(f"{c}-{k}" for k in range(kinds) for c in "BI"))


def rarely(size: int) -> Bools:
    """Labels of which there are runs, and not much else."""
    found: Bools = np.arange(size) % 16 == 2
    return found


def walks(rng: np.random.Generator, labels: tuple[str, ...], legal: Legal, lengths: Longs) -> Longs:
    """Legal labels: a label has few successors, and some sentences are one run."""
    found: list[int] = []
    size = len(labels)
    for length in lengths.tolist():
        if length == RUN:
            found += [1, *[2] * (RUN - 1)]
            continue
        before: str | None = None
        number = int(rng.integers(size))
        for _ in range(length):
            usual = [(number + step) % size for step in (0, 1, 7)]
            open_ = [k for k in usual if legal(before, labels[k])] or [0]
            number = open_[int(rng.integers(len(open_)))]
            before = labels[number]
            found.append(number)
    return np.asarray(found)


def rows_of(rng: np.random.Generator, gold: Longs, columns: int) -> SparseRows:
    """Attributes of a token: one that all have, one of its label, one of chance."""
    count, own = len(gold), columns - CHANCES
    chance = rng.integers(own, columns, count)
    index = np.stack([np.zeros(count), 1 + gold % (own - 1), chance], axis=1)
    return SparseRows(
        np.arange(0, 3 * count + 1, 3), index.reshape(-1).astype(np.int32), None, columns
    )


def task(
    labels: tuple[str, ...],
    *,
    legal: Legal = anything,
    order: int = 1,
    partial: bool = False,
    pairs: bool = False,
    transitions: str = "all",
    many: bool = False,
) -> Task:
    """Sentences of many lengths, or many of a few: only those are taken side by side."""
    rng = np.random.default_rng(len(labels) * 10 + order)
    lengths = rng.integers(10, 14, 320) if many else rng.integers(1, 13, 30)
    lengths[0] = 13 if many else 70
    lengths[-2:] = RUN
    gold = walks(rng, labels, legal, lengths)
    allowed = np.zeros((len(gold), len(labels)), dtype=np.bool_)
    allowed[np.arange(len(gold)), gold] = True
    if partial:
        allowed[rng.random(len(gold)) < 0.3] = True
        allowed |= rng.random(allowed.shape) < 0.1
    start = labels[0] if order == 2 else None
    topology = chain_topology(labels, order, allowed=legal, start_label=start)
    return posed(
        topology,
        np.concatenate([[0], np.cumsum(lengths)]),
        rows_of(rng, gold, 1 + len(labels) + CHANCES),
        allowed,
        arc=rows_of(rng, gold, 3 + CHANCES) if pairs else None,
        transitions=transitions,
    )


def posed(
    topology: Topology,
    offsets: Longs,
    node: SparseRows,
    allowed: Bools,
    *,
    arc: SparseRows | None = None,
    transitions: str = "all",
) -> Task:
    problem = Problem(topology, offsets, node, arc, allowed, np.ones(len(offsets) - 1))
    options: dict[str, Any] = {"transitions": transitions, "features": "complete", "ends": True}
    return Task(problem, parameter_space(problem, **options))


TASKS: dict[str, Callable[[], Task]] = {
    "dense": functools.partial(task, tuple("ABCDE")),
    "dense, 45 labels": functools.partial(task, tuple(f"l{k}" for k in range(45))),
    "rest": functools.partial(
        task, tuple(f"l{k}" for k in range(120)), transitions="observed", many=True
    ),
    "classes": functools.partial(task, scheme(60), legal=bio, transitions="observed", many=True),
    "scheme": functools.partial(task, scheme(2), legal=bio),
    "order 2": functools.partial(task, tuple("ABC"), order=2),
    "order 2, scheme": functools.partial(task, scheme(2), order=2, legal=bio),
    "partial": functools.partial(task, scheme(2), legal=bio, partial=True),
    "pair attributes": functools.partial(task, tuple("ABC"), pairs=True),
}


@functools.cache
def made(name: str) -> Task:
    return TASKS[name]()


def weights(one: Task, part: str, scale: float) -> Floats:
    """Weights of which one part is large."""
    rng = np.random.default_rng(int(scale) + PARTS.index(part))
    theta = rng.normal(size=one.space.size)
    if part in ("opposed", "cut"):
        oppose(one, rng, theta, scale, cut=part == "cut")
    else:
        theta[slice(None) if part == "all" else one.own[part]] *= scale
    return np.clip(np.round(theta / UNIT) * UNIT, -LARGEST, LARGEST)


def oppose(one: Task, rng: np.random.Generator, theta: Floats, scale: float, *, cut: bool) -> None:
    """Let some labels be asked for where little leads to them.

    Attributes of the label before ask for the first one, those of the label itself for that, with
    more weight, and successions to it are improbable. Where a scheme leaves one way to a label, all
    that counts in a sentence comes from what counts for little, over an arc that does. Sentences
    without such labels are as usual: what happens to some must not happen to others.

    `cut`: runs of such labels are asked for, and a run is worth more than the way to it costs.
    """
    topology, space = one.problem.topology, one.space
    rare = rarely(len(topology.labels))
    attribute, slot = np.divmod(space.node_cells, space.width)
    label = np.minimum(attribute - 1, len(rare) - 1)
    own = (attribute > 0) & (attribute <= len(rare))
    before = own & np.append(rare[1:], False)[label] & ~rare[label]
    strength = scale * rng.uniform(1.7, 2.3, len(slot))
    nodes, arcs = theta[one.own["attributes"]], theta[one.own["transitions"]]
    ends = np.zeros((2, topology.n_arc_slots), dtype=np.int32)
    ends[:, topology.arc_slot] = topology.state_label[np.stack([topology.source, topology.target])]
    source, target = ends[:, space.transitions]
    if cut:
        nodes += min(45.0, 0.7 * scale) * (own & rare[label] & (slot == label))
        arcs -= scale * (rare[target] & (source != target))
        return
    nodes += strength * (before & (slot == 0)) + 2.3 * strength * (
        own & rare[label] & (slot == label)
    )
    arcs -= scale * rng.uniform(0.9, 1.2, len(arcs)) * rare[target]


def check(one: Task, theta: Floats) -> None:
    """Hold float32 against float64."""
    single = Likelihood(one.problem, one.space, l2=0.0)
    double = Likelihood(one.problem, one.space, l2=0.0, precision="float64")
    value, gradient = single(theta)
    expected, slope = double(theta)
    tokens = int(one.problem.offsets[-1])
    assert value == pytest.approx(expected, rel=1e-6, abs=1e-6 * tokens)
    largest = float(np.abs(slope + double.observed).max(initial=1.0))
    allowed = OWN * np.abs(slope) + SHARED * largest
    worst = int(np.argmax(np.abs(gradient - slope) - allowed))
    assert abs(gradient[worst] - slope[worst]) <= allowed[worst], (
        f"component {worst} is {gradient[worst]}, expected {slope[worst]}"
    )


CELLS = [
    pytest.param(
        name,
        part,
        scale,
        marks=[pytest.mark.slow] if scale in SCALES[1:3] and part not in MIXED else [],
    )
    for name in TASKS
    for part in PARTS
    if (part == "pair attributes") <= (name == "pair attributes")
    for scale in SCALES
]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "part", "scale"), CELLS)
def test_large_weights(name: str, part: str, scale: float) -> None:
    one = made(name)
    check(one, weights(one, part, scale))


def test_every_way_is_taken() -> None:
    """Of a step: over all pairs, with one number for the rest, with classes."""
    assert way(made("dense, 45 labels")) is None
    assert way(LARGE["scheme, a sentence"]()) is None
    for name in ("rest", "rest, sentences", "rest, long sentences"):
        assert way(task_of(name)) is False, name
    for name in ("classes", "classes, sentences", "classes, long sentences"):
        assert way(task_of(name)) is True, name


def task_of(name: str) -> Task:
    return made(name) if name in TASKS else LARGE[name]()


def way(one: Task) -> bool | None:
    """Tell whether a task's default arcs have classes; None: it has none."""
    found = default_arcs_of(one.space, one.problem.offsets)
    return None if found is None else found.arc_blocks is not None


# --- Many tokens, in the order of their labels ---------------------------------------------------


def in_order(labels: tuple[str, ...], lengths: Longs, gold: Longs, **options: Any) -> Task:
    """Tokens with an attribute that all of them have, and one of their label."""
    count, size = len(gold), len(labels)
    allowed = np.zeros((count, size), dtype=np.bool_)
    allowed[np.arange(count), gold] = True
    index = np.stack([np.zeros(count, dtype=np.int32), 1 + gold], axis=1).astype(np.int32)
    node = SparseRows(np.arange(0, 2 * count + 1, 2), index.reshape(-1), None, 1 + size)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    order, legal = options.pop("order", 1), options.pop("legal", anything)
    start = labels[0] if order == 2 else None
    topology = chain_topology(labels, order, allowed=legal, start_label=start)
    return posed(topology, offsets, node, allowed, **options)


def half(one: Task) -> Floats:
    """The first label is certain where it stands, and has a small probability elsewhere.

    What is small adds up to as much as matters, and a sum that is already large in float32 does not
    see it.
    """
    size = len(one.problem.topology.labels)
    attribute, slot = np.divmod(one.space.node_cells, one.space.width)
    theta = np.zeros(one.space.size)
    own = (attribute > 0) & (slot == attribute - 1)
    theta[one.own["attributes"]] = np.where(own, np.where(slot == 0, 8.0, 7.25), 0.0)
    theta[one.own["attributes"]] -= 2.0 * ((slot > 0) & (slot < size) & ~own)
    return theta


def one_sentence(labels: tuple[str, ...], **options: Any) -> Task:
    count = 1 << 16
    gold = np.minimum(np.arange(count) // (count // 2), 1)
    return in_order(labels, np.asarray([count]), gold, **options)


def sentences(labels: tuple[str, ...], **options: Any) -> Task:
    """Sixteen times half of the first label, half of the second: each shard is in order."""
    count = 1 << 18
    gold = np.arange(count) // (count // 32) % 2
    return in_order(labels, np.full(count // 16, 16), gold, **options)


def long_sentences(labels: tuple[str, ...], **options: Any) -> Task:
    """256 sentences, the first label in one half and the second in the other."""
    count = 1 << 18
    gold = np.arange(count) // (count // 512) % 2
    return in_order(labels, np.full(256, count // 256), gold, **options)


LARGE: dict[str, Callable[[], Task]] = {
    "dense, a sentence": functools.partial(one_sentence, tuple("ABC")),
    "dense, sentences": functools.partial(sentences, tuple("ABC")),
    "scheme, a sentence": functools.partial(
        one_sentence, scheme(20), legal=bio, transitions="observed"
    ),
    "scheme, sentences": functools.partial(
        sentences, scheme(20), legal=bio, transitions="observed"
    ),
    "classes, sentences": functools.partial(
        sentences, scheme(60), legal=bio, transitions="observed"
    ),
    "classes, long sentences": functools.partial(
        long_sentences, scheme(60), legal=bio, transitions="observed"
    ),
    "rest, long sentences": functools.partial(
        long_sentences, tuple(f"l{k}" for k in range(60)), transitions="observed"
    ),
    "rest, sentences": functools.partial(
        sentences, tuple(f"l{k}" for k in range(60)), transitions="observed"
    ),
    "order 2, a sentence": functools.partial(one_sentence, tuple("AB"), order=2),
    "order 2, sentences": functools.partial(sentences, tuple("AB"), order=2),
}

LONGER = ("rest, sentences", "order 2, sentences", "classes, sentences", "scheme, sentences")
LARGE_CELLS = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LONGER else []) for name in LARGE
]


@pytest.mark.thorough
@pytest.mark.parametrize("name", LARGE_CELLS)
def test_many_tokens_in_the_order_of_their_labels(name: str) -> None:
    one = LARGE[name]()
    check(one, half(one))


# --- Sentences that are too long for lanes, alone and in company ---------------------------------


def long_and_short(states: int, long: int, short: int, *, first: bool, lost: bool = False) -> Task:
    """A sentence that is done by itself, before or behind others, each in the order of its labels.

    `lost`: it has room in a lane, but float32 cannot hold it.
    """
    lengths = [long, *[40] * short] if first else [*[40] * short, long]
    gold = np.concatenate([np.arange(n) // (n // 2) for n in lengths]).clip(max=1)
    labels = tuple(f"l{k}" for k in range(states))
    one = in_order(labels, np.asarray(lengths), gold, transitions="observed")
    if not lost:
        return one
    # One token has an attribute of its own, whose weights are 10,000 apart.
    node, at = one.problem.node, long // 2 if first else int(one.problem.offsets[-2]) + long // 2
    index = np.insert(node.index, node.indptr[at + 1], node.n_columns).astype(np.int32)
    ptr = node.indptr + (np.arange(len(node.indptr)) > at)
    rows = SparseRows(ptr, index, None, node.n_columns + 1)
    return posed(
        one.problem.topology,
        one.problem.offsets,
        rows,
        one.problem.allowed,
        transitions="observed",
    )


ORDERS: dict[str, Callable[[], Task]] = {
    "alone": functools.partial(long_and_short, 700, 1 << 13, 0, first=True),
    "before others": functools.partial(long_and_short, 700, 1 << 13, 60, first=True),
    "behind others": functools.partial(long_and_short, 700, 1 << 13, 60, first=False),
    "among lanes": functools.partial(long_and_short, 60, 1 << 13, 60, first=False),
    "lost, alone": functools.partial(long_and_short, 60, 1 << 13, 0, first=True, lost=True),
    "lost, among lanes": functools.partial(
        long_and_short, 60, 1 << 12, 1500, first=True, lost=True
    ),
    "dense, lost": functools.partial(long_and_short, 5, 1 << 14, 20, first=True, lost=True),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ORDERS)
def test_sentences_that_are_done_by_themselves(name: str) -> None:
    """Their counts are flushed to float64 as often as those of others."""
    one = ORDERS[name]()
    theta = half(one)
    theta[theta == 7.25] = 5.0
    if "lost" in name:
        own = one.space.node_cells // one.space.width == one.problem.node.n_columns - 1
        theta[: len(own)][own] = np.where(np.arange(own.sum()) == 0, 1e4, -1e4)
    single = Likelihood(one.problem, one.space, l2=0.0)
    single(theta)
    assert isinstance(single._expectation, Summed)
    rescued = single._expectation.parts.map(lambda part: part.expectation().rescued)
    assert list(rescued) == [name != "among lanes"]
    check(one, theta)

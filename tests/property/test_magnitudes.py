"""Answers at every magnitude of scores: against all paths, or sums of their logs.

What is summed is right to the rounding of the scores themselves, whether exp() reaches or not.
Other properties draw scores of a few units; here they are 0.1 to a million, with what is forbidden,
what is all but forbidden, and ties.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf import Lattice, Lattices
from fstcrf.arrays import Array, Bools, Floats, Ints
from fstcrf.constraints import at_least, at_most, end_with, requires, start_with
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans.decoder import Search
from tests.support.oracles import log_sum

NEVER = -np.inf
MAGNITUDES = (0.1, 1.0, 10.0, 90.0, 1e3, 1e4, 1e6)
SEEDS = st.integers(0, 1 << 30)
ALMOST = -(2.0**20)
EPS = {np.float32: 2e-6, np.float64: 1e-12}


def drawn(
    rng: np.random.Generator, shape: tuple[int, ...], magnitude: float, holes: float
) -> Floats:
    """Scores of a magnitude; a share is forbidden, a few are all but that, half of them tie."""
    scores = rng.normal(size=shape) * magnitude
    if rng.random() < 0.5:
        scores = np.round(scores / magnitude) * magnitude
    scores = np.where(rng.random(shape) < holes, NEVER, scores)
    return np.where(rng.random(shape) < holes / 4, ALMOST, scores)


HOLES = st.sampled_from([0.0, 0.05, 0.3])


# --- Batches of scores ----------------------------------------------------------------------------


class Sums(NamedTuple):
    log_z: float
    share: Floats  # [T, L]
    best: float


def added(values: Floats, axis: int) -> Floats:
    top = values.max(axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found: Floats = np.log(np.exp(values - shift).sum(axis=axis)) + shift.squeeze(axis)
    return found


def in_logs(node: Floats, arcs: Floats, first: Floats, last: Floats) -> Sums:
    """Forward and backward, every sum by its own largest term."""
    count = len(node)
    before, behind = np.empty_like(node), np.empty_like(node)
    most = np.empty_like(node)
    before[0], behind[-1], most[-1] = first + node[0], last, last
    for t in range(1, count):
        before[t] = added(before[t - 1][:, None] + arcs, 0) + node[t]
    for t in range(count - 2, -1, -1):
        behind[t] = added(arcs + (node[t + 1] + behind[t + 1]), 1)
        most[t] = (arcs + (node[t + 1] + most[t + 1])).max(axis=1)
    log_z = log_sum(before[-1] + last)
    share = np.exp(before + behind - log_z) if log_z > NEVER else np.zeros_like(node)
    return Sums(log_z, share, float((first + node[0] + most[0]).max()))


@given(
    seed=SEEDS,
    magnitude=st.sampled_from(MAGNITUDES),
    holes=HOLES,
    size=st.integers(1, 30),
    tokens=st.sampled_from([1, 2, 5, 40]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_batches(
    seed: int, magnitude: float, holes: float, size: int, tokens: int, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    scores: Array = drawn(rng, (2, tokens, size), magnitude, holes).astype(dtype)
    arcs = drawn(rng, (size, size), min(magnitude, 100.0), holes)
    first, last = rng.normal(size=(2, size))
    labels = [f"l{k}" for k in range(size)]
    batch = Lattices.from_arrays(labels, scores, arcs, first, last)
    log_z, answer = batch.log_partition(), batch.decode()
    marginals = answer.marginals()
    for b in range(2):
        wanted = in_logs(scores[b].astype(np.float64), arcs, first, last)
        assert bool(answer.dead[b]) == (wanted.best == NEVER) == (log_z[b] == NEVER)
        if wanted.best == NEVER:
            continue
        # A posterior has the rounding of the scores of all tokens: float64 reads both alike.
        close = EPS[dtype] * max(1.0, 30.0 * tokens)
        close = max(close, 1e-15 * tokens * max(-ALMOST, 4 * magnitude))
        assert log_z[b] == pytest.approx(wanted.log_z, rel=EPS[dtype], abs=close)
        np.testing.assert_allclose(marginals[b], wanted.share, atol=close)
        np.testing.assert_allclose(marginals[b].sum(axis=1), 1.0, atol=1e-5)
        # Ties in float32 may go to any of what it cannot tell apart; the score is that path's own.
        own = scored(scores[b], arcs, first, last, answer.ids[b])
        assert answer.scores[b] == pytest.approx(own, rel=1e-12, abs=1e-9)
        assert own == pytest.approx(wanted.best, rel=EPS[dtype], abs=close)


def scored(scores: Array, arcs: Floats, first: Floats, last: Floats, ids: Ints) -> float:
    node = scores.astype(np.float64)[np.arange(len(ids)), ids].sum()
    return float(node + arcs[ids[:-1], ids[1:]].sum() + first[ids[0]] + last[ids[-1]])


# --- Strings of frames, sets of spans -------------------------------------------------------------


def collapsed(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """Return the string of a path of frames."""
    kept = [s for k, s in enumerate(path) if k == 0 or path[k - 1] != s]
    return tuple(s for s in kept if s != blank)


def frame_strings(scores: Floats, blank: int) -> dict[tuple[int, ...], list[float]]:
    """Return the scores of the paths of every string."""
    found: dict[tuple[int, ...], list[float]] = {}
    for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        total = float(sum(scores[t, s] for t, s in enumerate(path)))
        if total > -np.inf:
            found.setdefault(collapsed(path, blank), []).append(total)
    return found


@given(
    seed=SEEDS,
    magnitude=st.sampled_from(MAGNITUDES),
    holes=HOLES,
    frames=st.integers(0, 5),
    size=st.integers(1, 3),
)
def test_strings_of_frames(
    seed: int, magnitude: float, holes: float, frames: int, size: int
) -> None:
    scores = drawn(np.random.default_rng(seed), (frames, size), magnitude, holes)
    names, blank = "abc"[:size], seed % size
    sums = {
        tuple(names[k] for k in string): values
        for string, values in frame_strings(scores, blank).items()
    }
    total = {string: log_sum(np.asarray(values)) for string, values in sums.items()}
    lattice = Lattice.from_ctc(scores, blank, labels=tuple(names))
    close = 1e-11 * max(100.0, magnitude)
    assert lattice.log_partition() == pytest.approx(log_sum(np.asarray(list(total.values()))))
    alive = sorted((v for v in total.values() if v > NEVER), reverse=True)
    found = lattice.strings(n=len(total) + 1)
    assert [path.score for path in found] == pytest.approx(alive, rel=1e-12, abs=close)
    for string_ in found:
        assert string_.score == pytest.approx(total[string_.labels], rel=1e-12, abs=close)
    over = lattice.restrict(boundaries=np.zeros(frames + 1, dtype=int))  # nothing is said
    for (string, value), one in itertools.product(list(total.items())[:8], (lattice, over)):
        assert one.string_log_partition(string) == pytest.approx(value, rel=1e-12, abs=close)
    every = sorted((v for values in sums.values() for v in values if v > NEVER), reverse=True)
    ranked = [path.score for path in lattice.nbest(10)]
    assert ranked == pytest.approx(every[:10], rel=1e-12, abs=close)
    if every:
        assert lattice.best().score == pytest.approx(every[0], rel=1e-12, abs=close)


def tilings(
    length: int, spans: Sequence[tuple[int, int, str, float]], outside: float
) -> list[tuple[frozenset[tuple[int, int, str]], float]]:
    """All sets of spans that do not overlap, with their scores."""
    found = [[(frozenset[tuple[int, int, str]](), 0.0)]]  # of the first so many tokens
    for end in range(1, length + 1):
        ways = [(chosen, score + outside) for chosen, score in found[end - 1]]
        for start, stop, kind, score in spans:
            if stop == end:
                ways += [(c | {(start, stop, kind)}, s + score) for c, s in found[start]]
        found.append(ways)
    return found[length]


@given(
    seed=SEEDS,
    magnitude=st.sampled_from(MAGNITUDES),
    length=st.integers(1, 6),
    count=st.integers(0, 9),
)
def test_sets_of_spans(seed: int, magnitude: float, length: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    ends = np.sort([rng.choice(length + 1, 2, replace=False) for _ in range(count)], axis=-1)
    places = {(int(a), int(b), "AB"[int(rng.integers(2))]) for a, b in ends.reshape(-1, 2)}
    scores = drawn(rng, (len(places),), magnitude, 0.1).tolist()
    spans = [(*place, score) for place, score in zip(sorted(places), scores, strict=True)]
    outside = float(rng.normal() * magnitude)
    sets = tilings(length, spans, outside)
    values = np.asarray([score for _, score in sets])
    log_z, close = log_sum(values), 1e-11 * max(1.0, magnitude)
    lattice = Lattice.from_spans(length, spans, outside, labels=["A", "B"])
    assert lattice.log_partition() == pytest.approx(log_z, rel=1e-12, abs=close)
    assert lattice.best().score == pytest.approx(values.max(), rel=1e-12, abs=close)
    share = np.exp(values - log_z)
    known = {
        place: sum(p for (chosen, _), p in zip(sets, share, strict=True) if place in chosen)
        for place in places
    }
    for place, wanted in known.items():
        assert lattice.span_probability(*place) == pytest.approx(wanted, abs=10 * close)
    risk, true = lattice.minimum_risk("span"), sum(known.values())
    ratios = [2 * sum(known[p] for p in c) / ((len(c) + true) or 1.0) for c, _ in sets]
    if true:  # else the empty set, which is right
        assert risk.expected == pytest.approx(max(ratios), abs=100 * close + 1e-9)
    alive = np.sort(values[values > NEVER])[::-1][:5]
    found = [path.score for path in lattice.nbest(5)]
    assert found == pytest.approx(alive.tolist(), rel=1e-12, abs=close)


# --- Products under grammars ----------------------------------------------------------------------


class Rule(NamedTuple):
    grammar: Grammar
    holds: Any


def rules(label: str, other: str, tape: str) -> list[Rule]:
    """What grammars say of the labels of a tape, said twice."""
    return [
        Rule(at_most(1, label, tape=tape), lambda row: row.count(label) <= 1),
        Rule(at_least(1, label, tape=tape), lambda row: label in row),
        Rule(requires(label, other, tape=tape), lambda row: label not in row or other in row),
        Rule(start_with([label], tape=tape), lambda row: row[0] == label),
        Rule(end_with([label], tape=tape), lambda row: row[-1] == label),
    ]


SEARCHES: tuple[Search, ...] = ("auto", "lazy", "expanded")


@given(
    seed=SEEDS,
    magnitude=st.sampled_from(MAGNITUDES[:-1]),
    holes=HOLES,
    tapes=st.integers(1, 2),
    tokens=st.integers(1, 4),
    chosen=st.lists(st.integers(0, 4), max_size=2, unique=True),
)
def test_products_under_grammars(
    seed: int, magnitude: float, holes: float, tapes: int, tokens: int, chosen: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    names = [("x", "y", "z"), ("p", "q")][:tapes]
    rows = [list(itertools.product(own, repeat=tokens)) for own in names]
    lattice: Any = None
    scores = []
    for k, own in enumerate(names):
        node = drawn(rng, (tokens, len(own)), magnitude, holes)
        arcs = drawn(rng, (len(own), len(own)), min(magnitude, 100.0), holes)
        one = Lattice.from_arrays(own, node, arcs, tape=f"t{k}")
        lattice = one if lattice is None else lattice @ one
        ids = np.asarray(list(itertools.product(range(len(own)), repeat=tokens)))
        nodes = node[np.arange(tokens), ids].sum(axis=1)
        scores.append(nodes + arcs[ids[:, :-1], ids[:, 1:]].sum(axis=1))
    legal: list[Bools] = [np.ones(len(own), dtype=np.bool_) for own in rows]
    under = lattice
    for k in chosen:
        tape = k % tapes
        rule = rules(names[tape][0], names[tape][1], f"t{tape}")[k]
        legal[tape] &= np.asarray([rule.holds(row) for row in rows[tape]])
        under = under & rule.grammar
    parts = [np.where(ok, s, NEVER) for ok, s in zip(legal, scores, strict=True)]
    joint = parts[0] if tapes == 1 else (parts[0][:, None] + parts[1]).reshape(-1)
    close = 1e-11 * tokens * max(100.0, magnitude)
    assert under.log_partition() == pytest.approx(log_sum(joint), rel=1e-12, abs=close)
    alive = np.sort(joint[joint > NEVER])[::-1][:5]
    if not len(alive):
        return
    for tape, own in enumerate(names):
        share = np.exp(parts[tape] - log_sum(parts[tape]))
        wanted = [
            [share[[row[t] == x for row in rows[tape]]].sum() for x in own] for t in range(tokens)
        ]
        np.testing.assert_allclose(under.marginals(f"t{tape}"), wanted, atol=10 * close)
    for search in SEARCHES:
        found = under.nbest(5, search=search)
        assert [path.score for path in found] == pytest.approx(alive, rel=1e-12, abs=close)
        assert len({path.labels for path in found}) == len(alive)
        assert under.best(search=search).score == pytest.approx(alive[0], rel=1e-12, abs=close)

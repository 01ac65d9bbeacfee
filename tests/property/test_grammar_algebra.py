"""Laws of acceptors, against the scores of all labellings."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from fstcrf.arrays import Floats
from fstcrf.machines.grammar import (
    Acceptor,
    either,
    equivalent,
    intersect,
    is_empty,
    minimise,
    on_tapes,
    simplified,
    trim,
    two_local,
)

LENGTH = 5


@st.composite
def acceptors(
    draw: st.DrawFn,
    tapes: tuple[str, ...] = ("",),
    n_labels: int = 2,
    *,
    weighted: bool | None = None,
    max_states: int = 4,
) -> Acceptor:
    n_states = draw(st.integers(1, max_states))
    shape = (n_states, *[n_labels] * len(tapes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    density = draw(st.sampled_from([0.4, 0.8, 1.0]))
    target = rng.integers(0, n_states, shape).astype(np.int32)
    target[rng.random(shape) > density] = -1
    soft = draw(st.booleans()) if weighted is None else weighted
    scores = rng.integers(-2, 3, shape).astype(np.float64)
    final = rng.integers(-1, 2, n_states).astype(np.float64) if soft else np.zeros(n_states)
    final[rng.random(n_states) > 0.6] = -np.inf
    return Acceptor(
        tapes=tapes,
        labels=tuple(tuple("abc"[:n_labels]) for _ in tapes),
        target=target,
        score=np.where(target >= 0, scores, 0.0) if soft else None,
        final=final,
        name="random",
    )


def scores(acceptor: Acceptor, length: int) -> Floats:
    """Scores of all sequences of symbols of a length, the last symbol fastest."""
    target = acceptor.target.reshape(acceptor.n_states, -1)
    step = np.zeros(target.shape) if acceptor.score is None else acceptor.score
    step = step.reshape(target.shape)
    state, total = np.zeros(1, dtype=np.int64), np.zeros(1)
    for _ in range(length):
        total = (total[:, None] + np.where(target[state] >= 0, step[state], -np.inf)).reshape(-1)
        state = np.maximum(target[state], 0).reshape(-1)
    return total + acceptor.final[state]


def same(a: Acceptor, b: Acceptor, length: int = LENGTH) -> bool:
    return all(np.array_equal(scores(a, n), scores(b, n)) for n in range(length + 1))


@given(acceptors(n_labels=3))
def test_scores_are_what_walk_says(acceptor: Acceptor) -> None:
    for length in range(3):
        sequences = itertools.product("abc", repeat=length)
        assert [acceptor.walk(s) for s in sequences] == scores(acceptor, length).tolist()


@given(acceptors())
def test_trim_and_minimise_keep_scores(acceptor: Acceptor) -> None:
    small = trim(acceptor)
    smallest = minimise(small)
    assert same(acceptor, small)
    assert same(acceptor, smallest)
    assert smallest.n_states <= small.n_states <= acceptor.n_states
    assert minimise(trim(smallest)).n_states == smallest.n_states


@given(acceptors())
def test_minimise_is_minimal(acceptor: Acceptor) -> None:
    """No two states differ by a constant in all continuations; random ones are told apart early."""
    smallest = minimise(trim(acceptor))
    if is_empty(acceptor):
        return
    shapes = set()
    for state in range(smallest.n_states):
        order = [state, *(s for s in range(smallest.n_states) if s != state)]
        number = np.argsort(order)
        turned = Acceptor(
            smallest.tapes,
            smallest.labels,
            np.where(smallest.target >= 0, number[smallest.target], -1)[order].astype(np.int32),
            None if smallest.score is None else smallest.score[order],
            smallest.final[order],
        )
        rest = np.concatenate([scores(turned, n) for n in range(2 * smallest.n_states)])
        best = rest[np.flatnonzero(rest > -np.inf)[0]]
        shapes.add(tuple((rest - best).tolist()))
    assert len(shapes) == smallest.n_states


@given(acceptors(), acceptors())
def test_intersect_adds(a: Acceptor, b: Acceptor) -> None:
    both = intersect(a, b)
    for length in range(LENGTH + 1):
        assert np.array_equal(scores(both, length), scores(a, length) + scores(b, length))
    assert equivalent(both, intersect(b, a))
    assert is_empty(both) == all(
        np.isinf(scores(both, n)).all() for n in range(1, both.n_states + 1)
    )


@given(acceptors(weighted=False), acceptors(weighted=False))
def test_either_is_or(a: Acceptor, b: Acceptor) -> None:
    one = either(a, b)
    for length in range(LENGTH + 1):
        expected = np.maximum(scores(a, length), scores(b, length))
        assert np.array_equal(scores(one, length), expected)


@given(acceptors(("x",)), acceptors(("y", "z"), max_states=3), st.permutations(["x", "y", "z"]))
def test_products_over_tapes(a: Acceptor, b: Acceptor, order: list[str]) -> None:
    both = intersect(a, b)
    assert both.tapes == ("x", "y", "z")
    turned = on_tapes(both, tuple(order), (("a", "b"),) * 3)
    for length in range(3):
        for tokens in itertools.product("ab", repeat=3 * length):
            x, y, z = tokens[:length], tokens[length : 2 * length], tokens[2 * length :]
            expected = a.walk(x) + b.walk(y, z)
            assert both.walk(x, y, z) == expected
            named = {"x": x, "y": y, "z": z}
            assert turned.walk(*(named[tape] for tape in order)) == expected


@given(acceptors(), acceptors())
def test_equivalent(a: Acceptor, b: Acceptor) -> None:
    assert equivalent(a, a)
    assert equivalent(a, minimise(trim(a)))
    assert equivalent(a, b) == same(a, b, length=8)


def neighbours(a: Acceptor, length: int) -> Floats | None:
    """Scores of all sequences by the tables of neighbours."""
    local = two_local(a)
    if local is None:
        return None
    total = local.initial
    last = np.arange(len(total))
    for _ in range(length - 1):
        total = (total[:, None] + local.transition[last]).reshape(-1)
        last = np.tile(np.arange(len(local.initial)), len(last))
    return total + local.final[last]


@given(acceptors(n_labels=3, max_states=3))
def test_two_local_scores_neighbours(a: Acceptor) -> None:
    for length in range(1, LENGTH + 1):
        found = neighbours(a, length)
        if found is not None:
            assert np.array_equal(found, scores(a, length))


@given(st.integers(0, 2**32), st.booleans())
def test_what_neighbours_say_is_two_local(seed: int, soft: bool) -> None:
    """Tables of neighbours as an acceptor, its states blown up, come back as two_local tables."""
    rng = np.random.default_rng(seed)
    n = 3
    legal = rng.random((n + 1, n)) < 0.6
    ends = rng.random(n + 1) < 0.6
    label = np.tile(np.arange(n), (2 * n + 1, 1))
    # State 0 starts; label l leads to 1 + l or to its twin 1 + n + l.
    target = 1 + label + n * rng.integers(0, 2, (2 * n + 1, n))
    row = np.asarray([n, *range(n), *range(n)])
    step = rng.integers(-2, 3, (n + 1, n)).astype(np.float64)
    a = Acceptor(
        ("",),
        (("a", "b", "c"),),
        np.where(legal[row], target, -1).astype(np.int32),
        np.where(legal[row], step[row], 0.0) if soft else None,
        np.where(ends[row], 0.0, -np.inf),
    )
    for length in range(1, LENGTH + 1):
        found = neighbours(a, length)
        assert found is not None
        assert np.array_equal(found, scores(a, length))


@given(acceptors(n_labels=3), st.integers(0, 2**32))
def test_simplified_keeps_the_scores_of_legal_sequences(a: Acceptor, seed: int) -> None:
    rng = np.random.default_rng(seed)
    legal = rng.random((4, 4)) < 0.6
    small = simplified(a, legal)
    assert small.n_states <= minimise(trim(a)).n_states
    for length in range(LENGTH + 1):
        for k, sequence in enumerate(itertools.product(range(3), repeat=length)):
            if all(legal[p, q] for p, q in itertools.pairwise([3, *sequence, 3])):
                assert scores(small, length)[k] == scores(a, length)[k]

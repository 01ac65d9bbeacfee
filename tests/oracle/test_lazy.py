"""Lazy search against every path written down, and its budgets."""

from __future__ import annotations

import itertools
import os
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.constraints import contiguous
from fstcrf.errors import (
    GrammarError,
    NoPathError,
    NumericError,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.kernel import Budget, Conjunction, LazyAcceptor, lazy
from fstcrf.lattices import Lattice, best, nbest, product
from fstcrf.machines.plans import Search
from tests.oracle.test_lattice_products import check_ranking
from tests.support.compositions import random_world
from tests.support.memory import peak

pytestmark = pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")


class Case(NamedTuple):
    """One sentence, its readers, and all that they accept: best first, equals in order."""

    bound: kernel.Bound
    grammar: Conjunction
    ranking: list[tuple[float, tuple[int, ...]]]


def numbers(rng: np.random.Generator, *shape: int, whole: bool) -> Floats:
    return rng.integers(-2, 3, shape).astype(np.float64) if whole else rng.normal(size=shape)


def with_holes(rng: np.random.Generator, values: Floats, share: float = 0.15) -> Floats:
    return np.where(rng.random(values.shape) < share, -np.inf, values)


def random_reader(
    rng: np.random.Generator, states: int, *, soft: bool, whole: bool
) -> LazyAcceptor:
    size, classes = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    target = rng.integers(0, size, (size, classes))
    target[rng.random(target.shape) < 0.25] = -1
    final = numbers(rng, size, whole=whole) if soft else np.zeros(size)
    return LazyAcceptor(
        rng.integers(0, classes, states).astype(np.int32),
        target.astype(np.int32),
        numbers(rng, size, classes, whole=whole) if soft and rng.random() < 0.6 else None,
        with_holes(rng, final, 0.3),
    )


def walk(reader: LazyAcceptor, path: tuple[int, ...]) -> float:
    state, total = 0, 0.0
    for joint in path:
        step = state, reader.place[joint]
        if reader.target[step] < 0:
            return -np.inf
        total += 0.0 if reader.score is None else reader.score[step]
        state = int(reader.target[step])
    return float(total + reader.final[state])


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    whole, soft = seed % 2 == 1, seed % 3 > 0
    states, tokens = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    node, arc, first, last = (
        with_holes(rng, numbers(rng, *shape, whole=whole))
        for shape in ((tokens, states), (states, states), (states,), (states,))
    )
    machine = kernel.JointChain(
        (kernel.Axis(states, score=arc.reshape(1, -1)),),
        (kernel.Factor(1, states),),
        None,
        first[None],
        last[None],
    )
    bound = kernel.Bound(machine, np.asarray([0, tokens]), (node[:, None, :].copy(),))
    readers = [
        random_reader(rng, states, soft=soft, whole=whole) for _ in range(rng.integers(1, 4))
    ]
    ranking = []
    for path in itertools.product(range(states), repeat=tokens):
        score = first[path[0]] + last[path[-1]] + node[range(tokens), path].sum()
        score += sum(arc[i, j] for i, j in itertools.pairwise(path))
        score += sum(walk(reader, path) for reader in readers)
        if score > -np.inf:
            ranking.append((float(score), path))
    ranking.sort(key=lambda entry: -entry[0])  # stable: equals stay in order
    return Case(bound, Conjunction(machine, readers), ranking)


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("n", [1, 4, 50])
def test_the_n_best_of_all_paths(n: int, block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        case = random_case(seed)
        found = kernel.lazy_paths(case.bound, case.grammar, n)
        count = min(n, len(case.ranking))
        assert found.n_paths.tolist() == found.proven.tolist() == [count]
        assert found.bound[0] == -np.inf
        scores = [score for score, _ in case.ranking[:count]]
        np.testing.assert_allclose(found.score[0, :count], scores, rtol=1e-9, atol=1e-9)
        assert np.isneginf(found.score[0, count:]).all()
        assert (found.path[count:] == -1).all()
        paths = [tuple(row) for row in found.path[:count].tolist()]
        assert len(set(paths)) == count
        if seed % 2:  # whole numbers: ties are ties
            assert paths == [path for _, path in case.ranking[:count]]


@pytest.mark.thorough
@pytest.mark.parametrize("limit", [1, 3])
def test_what_a_budget_leaves_is_said(limit: int) -> None:
    unproven = 0
    for seed in range(120):
        case = random_case(seed)
        found = kernel.lazy_paths(case.bound, case.grammar, 1, Budget(states=limit))
        top = case.ranking[0][0] if case.ranking else -np.inf
        assert found.states_expanded[0] <= limit
        if found.proven[0]:
            assert found.score[0, 0] == pytest.approx(top)
            continue
        unproven += 1
        assert max(found.bound[0], found.score[0, 0]) >= top - 1e-9
        if found.n_paths[0]:
            path = tuple(found.path[0].tolist())
            known = {labels: score for score, labels in case.ranking}
            assert found.score[0, 0] == pytest.approx(known[path])
    assert unproven > 20


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(3))
def test_compositions_searched_lazily(block: int) -> None:
    """Several tapes, couplings, conjuncts over one tape or more, soft and hard."""
    seen = 0
    for seed in range(block * 25, block * 25 + 25):
        world = random_world(seed, conjuncts=1 + seed % 3, limit=1500)
        try:
            lattice = product([world.lattice()], search="lazy")
        except GrammarError:
            assert world.log_z == -np.inf
            continue
        if world.log_z == -np.inf:
            with pytest.raises(NoPathError):
                lattice.best()
            continue
        seen += lattice.dense.program.decoder.lazy
        check_ranking(world, lattice, int(np.random.default_rng(seed).choice([1, 4, 12])))
    assert seen > 5


# --- Budgets --------------------------------------------------------------------------------------

LABELS = [f"x{i}" for i in range(29)]


def alternating(tokens: int = 200) -> Lattice:
    """Two labels by turns, strongly; the others are nothing."""
    scores = np.random.default_rng(0).normal(scale=0.1, size=(tokens, 29))
    scores[::2, 0] += 5
    scores[1::2, 1] += 5
    return Lattice.from_arrays(LABELS, scores)


def runs_of(labels: tuple[str, ...]) -> list[str]:
    return [label for label, _ in itertools.groupby(labels)]


def test_the_worst_case_ends_within_its_budget() -> None:
    free = alternating()
    lattice = free & contiguous(LABELS)
    found = lattice.best(Budget(states=20_000))
    assert not found.exact
    runs = runs_of(found.labels)
    assert len(runs) == len(set(runs))
    assert found.score < found.bound <= free.best().score
    assert lattice.score(found.labels) == pytest.approx(found.score)
    every = best([lattice], budget=Budget(states=20_000))
    assert every.states_expanded.tolist() == [20_000]
    assert every.exact.tolist() == [False]


def test_memory_grows_with_what_is_visited() -> None:
    lattice = alternating() & contiguous(LABELS)
    lattice.best(Budget(states=100))  # what is made once
    small, large = (peak(lattice.best, Budget(states=n)) for n in (1_000, 32_000))
    assert small < 4_000_000
    assert large < 32_000 * 1_500


def test_seconds_end_a_search() -> None:
    lattices = [alternating() & contiguous(LABELS)] * 3
    found = best(lattices, budget=Budget(states=10**9, seconds=0.2))
    assert not found.exact.any()
    assert all(path is not None for path in found)


def test_an_easy_sentence_after_a_hard_one_is_proven() -> None:
    easy = Lattice.from_arrays(LABELS, np.eye(29)[[3, 3, 4]] * 5)
    grammar = contiguous(LABELS)
    found = best([alternating() & grammar, easy & grammar], budget=Budget(states=5_000))
    assert found.exact.tolist() == [False, True]
    assert found.labels(1) == ("x3", "x3", "x4")
    assert found.states_expanded.tolist() == [5_000, 3]
    ranked = nbest([alternating() & grammar, easy & grammar], 3, budget=Budget(states=5_000))
    assert [[p.exact for p in paths] for paths in ranked] == [[False] * 3, [True] * 3]


# --- One sentence at a time ---------------------------------------------------------------------


def test_alone_is_as_in_a_batch() -> None:
    """The same memory for one sentence after the other, of all lengths."""
    case = random_case(7)
    machine = case.bound.machine
    for grammar in (case.grammar, None):
        alone = kernel.SentenceMachine(machine, grammar)
        for seed in range(200):
            rng = np.random.default_rng(seed)
            tokens = int(rng.integers(40))
            node = with_holes(rng, numbers(rng, tokens, machine.width, whole=seed % 2 == 1), 0.05)
            bound = kernel.Bound(machine, np.asarray([0, tokens]), (node[:, None].copy(),))
            found = alone.best(node[:, None])
            if grammar is None:
                path, score = kernel.best_paths(bound)
                assert (found.bound, found.states_expanded, found.proven) == (-np.inf, 0, True)
            else:
                wanted = kernel.lazy_paths(bound, grammar)
                path, score = wanted.path[0], wanted.score[0]
                assert (found.bound, found.states_expanded) == (
                    wanted.bound[0],
                    wanted.states_expanded[0],
                )
            assert found.score == score[0]
            assert found.path == (path.tolist() if score[0] > -np.inf else [])


def test_alone_within_a_budget() -> None:
    lattice = alternating(60) & contiguous(LABELS)
    alone = lattice.dense.program.decoder.sentence_machine()
    assert lattice.dense.program.decoder.sentence_machine() is alone
    node = lattice.dense.values[0][:, None]
    found = alone.best(node, Budget(states=100))
    assert (found.proven, found.states_expanded) == (False, 100)
    assert found.score < found.bound
    again = best([lattice], budget=Budget(states=100))
    assert again.scores[0] == found.score
    assert not alone.best(node, Budget(states=30_000)).proven  # its memory has to grow


def test_what_is_not_for_sentences_alone() -> None:
    lattice = Lattice.from_arrays(["a", "b"], np.zeros((3, 2)), np.zeros((2, 2, 2)))
    with pytest.raises(ShapeError, match="exactly one factor"):
        lattice.dense.program.decoder.sentence_machine()
    alone = Lattice.from_arrays(
        ["a", "b"], np.zeros((3, 2))
    ).dense.program.decoder.sentence_machine()
    assert alone.best(np.zeros((0, 1, 2))) == ([], 0.0, True, -np.inf, 0)
    with pytest.raises(ShapeError, match=r"expected \[2, 1, 2\]"):
        alone.best(np.zeros((2, 1, 3)))
    with pytest.raises(NumericError, match="token 1, entry 0"):
        alone.best(np.asarray([[[0.0, 0.0]], [[np.nan, 0.0]]]))


# --- Readers --------------------------------------------------------------------------------------


def test_many_readers_fill_several_words() -> None:
    machine = kernel.JointChain(
        (kernel.Axis(2, score=np.zeros((1, 4))),),
        (kernel.Factor(1, 2),),
        None,
        np.zeros((1, 2)),
        np.zeros((1, 2)),
    )
    counter = np.minimum(np.add.outer(np.arange(50), [0, 1]), 49).astype(np.int32)
    final = np.where(np.arange(50) == 3, 0.0, -np.inf)
    reader = LazyAcceptor(np.asarray([0, 1], dtype=np.int32), counter, None, final)
    grammar = Conjunction(machine, [reader] * 25)
    assert grammar.words == 3
    bound = kernel.Bound(machine, np.asarray([0, 6]), (np.zeros((6, 1, 2)),))
    found = kernel.lazy_paths(bound, grammar, 100)
    assert found.proven.tolist() == [20]  # 6 over 3
    assert {int(row.sum()) for row in found.path[:20]} == {3}


def test_bad_readers() -> None:
    machine = random_case(0).bound.machine
    size = machine.width
    place, final = np.zeros(size, dtype=np.int32), np.zeros(1)
    target = np.zeros((1, 1), dtype=np.int32)
    with pytest.raises(ShapeError, match="reader 0 has sizes or indices"):
        Conjunction(machine, [LazyAcceptor(place + 1, target, None, final)]).view(3)
    for wrong in (target + 1, target - 2, np.zeros((2, 1), dtype=np.int32)):
        with pytest.raises(ShapeError, match="target"):
            LazyAcceptor(place, wrong, None, final)
    case = random_case(0)
    other = random_case(1)
    with pytest.raises(OptionError, match="another machine"):
        kernel.lazy_paths(case.bound, other.grammar)
    with pytest.raises(OptionError, match="expected at least 1"):
        kernel.lazy_paths(case.bound, case.grammar, 0)


# --- What a search may do -------------------------------------------------------------------------


def test_a_search_ends_within_any_larger_allowance_as_within_a_smaller() -> None:
    """It ends without an answer at first; from some allowance on it is as without one."""
    lattice = Lattice.from_arrays(LABELS[:5], np.random.default_rng(3).normal(size=(10, 5)))
    lattice = product([lattice & contiguous(LABELS[:5])], search="lazy")
    bound, grammar = lattice.dense.engine.searched, lattice.dense.program.decoder.conjunction
    assert grammar is not None
    for n in (1, 5):
        whole = kernel.lazy_paths(bound, grammar, n)
        ended = []
        for share in range(0, 400, 8):
            found = kernel.lazy_paths(
                bound, grammar, n, allowance=kernel.Allowance(share * 10 - 100, share * 40)
            )
            ended.append(found.proven[0] == n)
            if ended[-1]:
                assert found.path.tolist() == whole.path.tolist()
                assert found.states_expanded[0] == whole.states_expanded[0]
            else:
                assert found.bound[0] >= whole.score[0, 0]
        assert ended == sorted(ended)
        assert not ended[0]
        assert ended[-1]


def test_labels_that_are_legal_need_no_allowance() -> None:
    """However long the sentence: they are walked down."""
    scores = np.zeros((3_000, 29))
    for k in range(29):
        scores[k * 100 : (k + 1) * 100 + 100, k] += 5 - 0.01 * k
    lattice = product([Lattice.from_arrays(LABELS, scores) & contiguous(LABELS)], search="lazy")
    grammar = lattice.dense.program.decoder.conjunction
    assert grammar is not None
    found = kernel.lazy_paths(
        lattice.dense.engine.searched, grammar, allowance=kernel.Allowance(-(1 << 70), 0)
    )
    path, score = kernel.best_paths(lattice.dense.engine.searched)
    assert (found.proven[0], found.states_expanded[0]) == (1, 3_000)
    assert found.path[0].tolist() == path.tolist()
    assert found.score[0, 0] == pytest.approx(score[0])


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e308])
def test_scores_that_change_during_a_search(
    wrong: float, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread writes into them: it ends, and with paths of states that there are."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        arcs = rng.normal(size=(29, 6, 6))
        lattice = Lattice.from_arrays(LABELS[:6], rng.normal(size=(30, 6)), arcs)
        lattice = product([lattice & contiguous(LABELS[:6])], search="lazy")
        bound, grammar = lattice.dense.engine.searched, lattice.dense.program.decoder.conjunction
        assert grammar is not None
        moving = bound.per_token[1]

        def spoil(rng: np.random.Generator = rng, moving: Floats = moving) -> float:
            moving[rng.integers(len(moving)), 0, rng.integers(36)] = wrong
            return 0.0

        monkeypatch.setattr(lazy, "_STEPS", 3)
        monkeypatch.setattr(lazy, "time", SimpleNamespace(monotonic=spoil))
        found = kernel.lazy_paths(bound, grammar, n, Budget(states=3_000, seconds=1e6))
        assert found.path.min() >= -1
        assert found.path.max() < 6
        assert np.isnan(moving).any() or (moving >= 1e300).any()


@pytest.mark.parametrize(
    ("search", "n"), [("lazy", 1), ("lazy", 20), ("auto", 20), ("expanded", 20)]
)
def test_a_sentence_longer_than_memory(
    search: Search, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before anything is allocated."""
    lattice = Lattice.from_arrays(LABELS, np.zeros((50, 29))) & contiguous(LABELS[:3])
    lattice = product([lattice], search=search)
    bound = lattice.dense.engine.searched
    pages = {"SC_PAGE_SIZE": 1_000, "SC_PHYS_PAGES": 10}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    with pytest.raises(TooLargeError, match=r"best paths of 50 tokens.*blank line missing"):
        lattice.dense.program.decoder.paths(bound, n)
    pages["SC_PHYS_PAGES"] = 1_000_000
    assert lattice.dense.program.decoder.paths(bound, n).proven[0] == n

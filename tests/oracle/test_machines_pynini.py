"""Compositions built a second time, by composing acceptors of joint labels in pynini.

sausage ∘ ends ∘ chain of the first axis ∘ … ∘ residual: each factor of a machine is an acceptor of
its own, and what the kernel never multiplies out is multiplied out here. Joint state k is the
symbol k + 1, because 0 is epsilon. A weight is −score; weights pass through text of nine digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from fstcrf.kernel import decoding
from tests.support.fsts import log_sum, weighted_acceptor
from tests.support.machine_strategies import MILD, Bounds, random_case
from tests.support.machines import Case, axis_states, cells, node_scores

pynini: Any = pytest.importorskip("pynini", reason="pynini is not installed")

TINY = Bounds(paths=200, magnitudes=MILD.magnitudes, never=(0.0, 0.1, 0.3))
SEEDS = range(120)
DIGITS = 1e-7

Arc = tuple[int, int, int, float]  # source, joint state, target, score; from state 0


def acceptor(arc_type: str, arcs: Iterable[Arc], final: dict[int, float]) -> Any:
    """Build an acceptor of joint states."""
    named = [(source, joint + 1, score, target) for source, joint, target, score in arcs]
    return weighted_acceptor(named, final, arc_type)


def sausage(case: Case, arc_type: str) -> Any:
    """Potentials of the joint states, token by token."""
    scores = [node_scores(case, t) for t in range(case.tokens)]
    arcs = [(t, j, t + 1, s) for t, row in enumerate(scores) for j, s in enumerate(row.tolist())]
    return acceptor(arc_type, arcs, {case.tokens: 0.0})


def beginning(case: Case, arc_type: str) -> Any:
    """Read the first joint state with its potential, all others free."""
    initial = case.machine.initial.reshape(-1).tolist()
    arcs = [(0, j, 1, s) for j, s in enumerate(initial)]
    arcs += [(1, j, 1, 0.0) for j in range(case.states)]
    return acceptor(arc_type, arcs, {1: 0.0})


def ending(case: Case, arc_type: str) -> Any:
    """Remember the last joint state: state j + 1."""
    arcs = [(i, j, j + 1, 0.0) for i in range(case.states + 1) for j in range(case.states)]
    final = {j + 1: s for j, s in enumerate(case.machine.final.reshape(-1).tolist())}
    return acceptor(arc_type, arcs, final)


def chain(case: Case, number: int, arc_type: str) -> Any:
    """One axis, unrolled over the tokens because its arcs may move: state 1 + t * S + s."""
    axis, states = case.machine.axes[number], axis_states(case)
    per_token = iter(case.per_token[sum(f.value is None for f in case.machine.factors) :])
    tables = [next(per_token) if a.score is None else a.score for a in case.machine.axes]
    size, before = axis.n_states, int(np.prod(case.sizes[:number]))
    source = np.repeat(np.arange(size), size) if axis.source is None else axis.source
    target = np.tile(np.arange(size), size) if axis.target is None else axis.target
    arcs: list[Arc] = [(0, j, 1 + int(s), 0.0) for j, s in enumerate(states[number])]
    for t in range(1, case.tokens):
        table = tables[number][t] if axis.score is None else tables[number]
        for joint in range(case.states):
            seen = joint // (case.states // before)
            context = 0 if axis.place is None else int(axis.place[seen])
            arcs += [
                (1 + (t - 1) * size + i, joint, 1 + t * size + j, table[context, k])
                for k, (i, j) in enumerate(zip(source.tolist(), target.tolist(), strict=True))
                if j == states[number][joint]
            ]
    last = 1 + (case.tokens - 1) * size
    return acceptor(arc_type, arcs, dict.fromkeys(range(last, last + size), 0.0))


def residual(case: Case, arc_type: str) -> Any:
    """The residual automaton over joint states; its first potential is on every first arc."""
    own = case.machine.residual
    assert own is not None
    row, column = cells(case, own.width, own.place)
    edges = [
        (int(p) + 1, joint, int(q) + 1, value[row[joint], column[joint]])
        for p, q, value in zip(own.source, own.target, own.value, strict=True)
        for joint in range(case.states)
    ]
    edges += [(0, j, q, s + own.initial[p - 1]) for p, j, q, s in edges]
    return acceptor(arc_type, edges, dict(enumerate(own.final.tolist(), 1)))


def composed(case: Case, arc_type: str) -> Any:
    """One sentence's machine, multiplied out."""
    fst = sausage(case, arc_type)
    parts = [beginning(case, arc_type), ending(case, arc_type)]
    parts += [chain(case, c, arc_type) for c in range(len(case.sizes))]
    if case.machine.residual is not None:
        parts.append(residual(case, arc_type))
    for part in parts:
        fst = pynini.compose(fst, part).arcsort("ilabel")
    return fst


def ranked(fst: Any, n: int) -> list[tuple[float, tuple[int, ...]]]:
    """Scores and paths of the n best, better first, then smaller states first."""
    paths = pynini.shortestpath(fst, nshortest=n).paths()
    found = []
    while not paths.done():
        joint = tuple(label - 1 for label in paths.ilabels() if label > 0)
        found.append((-float(paths.weight()), joint))
        paths.next()
    return sorted(found, key=lambda one: (-one[0], one[1]))


def each_sentence() -> list[tuple[int, Case]]:
    return [(seed, one) for seed in SEEDS for one in random_case(seed, TINY).each()[:1]]


def test_log_partition() -> None:
    for seed, case in each_sentence():
        found = decoding.log_partitions(case.bound)[0]
        expected = log_sum(composed(case, "log64"))
        assert found == pytest.approx(expected, rel=DIGITS, abs=DIGITS), f"seed {seed}"


def test_best_paths() -> None:
    for seed, case in each_sentence():
        path, score = decoding.best_paths(case.bound)
        expected = ranked(composed(case, "standard"), 1)
        if not expected:
            assert score[0] == -np.inf, f"seed {seed}"
            assert (path == -1).all()
            continue
        assert score[0] == expected[0][0], f"seed {seed}"  # few digits: exact in float32, too


def test_nbest() -> None:
    """All paths, in order of their scores; OpenFst leaves the order of ties open."""
    for seed, case in each_sentence():
        n = case.states**case.tokens + 1
        counts, scores, paths = decoding.nbest_paths(case.bound, n)
        expected = ranked(composed(case, "standard"), n)
        assert counts[0] == len(expected), f"seed {seed}"
        assert scores[0, : counts[0]].tolist() == [score for score, _ in expected]
        found = zip(scores[0].tolist(), map(tuple, paths[: counts[0]].tolist()), strict=False)
        assert sorted(found, key=lambda one: (-one[0], one[1])) == expected, f"seed {seed}"


def test_marginals() -> None:
    """The share of the paths through a state, cut out by one more acceptor."""
    for seed, case in each_sentence()[::4]:
        fst = composed(case, "log64")
        log_z, marginals, *_ = decoding.axis_posterior(case.bound)
        if log_z[0] == -np.inf:
            continue
        for c, states in enumerate(axis_states(case)):
            for t, s in np.ndindex(case.tokens, case.sizes[c]):
                arcs = [
                    (u, j, u + 1, 0.0)
                    for u in range(case.tokens)
                    for j in range(case.states)
                    if u != t or states[j] == s
                ]
                cut = acceptor("log64", arcs, {case.tokens: 0.0})
                through = np.exp(log_sum(pynini.compose(fst, cut)) - log_z[0])
                scale = max(1.0, abs(float(log_z[0])))
                assert marginals[c][t, s] == pytest.approx(through, abs=DIGITS * scale), seed


def test_the_composition_has_all_paths() -> None:
    """As many as enumeration finds, so that no label was taken for epsilon."""
    case = random_case(
        1, Bounds(paths=64, magnitudes=((1.0, 0),), never=(0.0,), residuals=("none",))
    )
    for one in case.each():
        tropical = composed(one, "standard")
        everything = sum(1 for _ in ranked(tropical, 100))
        counts, _, _ = decoding.nbest_paths(one.bound, 100)
        assert everything == counts[0] > 0

"""Lattices of segments against the enumeration of all their paths."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

from fstcrf.constraints import at_most, pairs
from fstcrf.errors import NoPathError
from fstcrf.lattices import Lattice
from tests.laws.kinds import log_sum, segments


def test_grammars_of_a_composition() -> None:
    case = segments(np.random.default_rng(3), 3)
    tags = ("n", "v")
    emissions = np.random.default_rng(0).normal(size=(3, 2))
    tagger = Lattice.from_arrays(tags, emissions, tape="pos")
    both = case.lattice @ tagger
    agree = pairs({"X": ["n"], "Y": ["v"]}, ("segment", "pos"))
    once = at_most(1, "v", tape="pos")
    scores = []
    for way in case.ways:
        for cell in np.ndindex(2, 2, 2):
            under = [name for a, b, name in way.facts[case.first] for _ in range(b - a)]
            met = {("X", "v"), ("Y", "n")} & {
                (a, tags[k]) for a, k in zip(under, cell, strict=True)
            }
            if not met and sum(cell) <= 1:
                scores.append(way.score + sum(emissions[t, k] for t, k in enumerate(cell)))
    found = both.constrained(agree, over="tokens").constrained(once, over="tokens")
    assert found.log_partition() == pytest.approx(log_sum(scores), abs=1e-11)
    first = case.lattice.constrained(at_most(1, "X")) @ tagger
    second = both.constrained(at_most(1, "X", tape="segment"))
    assert first.log_partition() == pytest.approx(second.log_partition(), abs=1e-11)
    for cut, name in ((1, "X"), (2, "Y")):  # of tokens, not of segments
        few = case.lattice.constrained(at_most(cut, name), over="tokens")
        legal = [
            way.score
            for way in case.ways
            if sum(b - a for a, b, own in way.facts[case.first] if own == name) <= cut
        ]
        assert few.log_partition() == pytest.approx(log_sum(legal), abs=1e-11)


@pytest.mark.parametrize("seed", range(15))
def test_sausages_are_chains(seed: int) -> None:
    """Arcs of one token each, in any order, some missing or forbidden: the numbers of a lattice."""
    rng = np.random.default_rng(seed)
    tokens, labels = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    if seed > 11:
        tokens, labels = ((30, 9), (12, 40), (1, 1))[seed - 12]
    few = min(labels**tokens, 700) + 1
    names = [f"l{k}" for k in range(labels)]
    node = rng.integers(-3, 4, size=(tokens, labels)) / 2.0  # ties
    node[rng.random(node.shape) < 0.1] = -np.inf
    pairs, first, last = rng.normal(size=(labels, labels)), *rng.normal(size=(2, labels))
    if seed % 2:
        pairs, first, last = np.round(pairs), np.zeros(labels), np.zeros(labels)
    there = rng.random(node.shape) < (1.0 if seed % 3 else 0.8)
    start, label = np.nonzero(there)
    order = rng.permutation(len(start)) if seed % 4 == 0 else np.arange(len(start))
    start, label = start[order], label[order]
    score = node[start, label]
    one = Lattice.from_segments(tokens, start, start + 1, label, score, names, pairs, first, last)
    dense = Lattice.from_arrays(names, np.where(there, node, -np.inf), pairs, first, last)
    arcs: Any = one.row.engine
    if 2 * len(start) >= there.size:
        assert arcs.chain is not None
    assert one.log_partition() == pytest.approx(dense.log_partition(), abs=1e-10)
    if one.log_partition() == -np.inf:
        assert one.nbest(3) == []
        for ask in (one.best, one.marginals, lambda: one.sample(1)):
            with pytest.raises(NoPathError):
                ask()
        return
    assert one.best().labels == dense.best().labels
    assert one.best().arcs.tolist() == [
        int(np.flatnonzero((start == t) & (label == names.index(name)))[0])
        for t, name in enumerate(one.best().labels)
    ]
    every = one.nbest(few)
    assert [p.score for p in every] == pytest.approx([p.score for p in dense.nbest(few)], abs=1e-10)
    if labels**tokens < few:
        assert sum(p.probability for p in every) == pytest.approx(1.0, abs=1e-10)
    assert one.entropy() == pytest.approx(dense.entropy(), abs=1e-9)
    assert one.expectations().transitions == pytest.approx(
        dense.arc_marginals().sum(axis=0) if tokens > 1 else np.zeros((labels, labels)), abs=1e-10
    )
    assert all(one.score(p.segments) == pytest.approx(p.score, abs=1e-10) for p in every[:5])
    assert one.marginals() == pytest.approx(dense.marginals(), abs=1e-10)
    assert one.arc_probabilities() == pytest.approx(dense.marginals()[start, label], abs=1e-10)
    for drawn in one.sample(5, seed=seed):
        assert drawn.score == pytest.approx(one.score(drawn.segments), abs=1e-10)
    # the arc engine says the same
    machine = arcs.machine
    assert machine.log_partitions()[0] == pytest.approx(one.log_partition(), abs=1e-10)
    assert arcs.origin[machine.best_paths()[0]].tolist() == one.best().arcs.tolist()


def test_runs_of_frames_under_labels_of_tokens() -> None:
    rng = np.random.default_rng(0)
    score, node, step = (rng.normal(size=size) for size in ((4, 3), (4, 2), (2, 2)))
    frames = Lattice.from_ctc(score, "_", labels=("a", "b", "_"))
    lattice = frames.with_tokens(Lattice.from_arrays(("U", "V"), node, step))
    rows = [list(q) for q in product(range(2), repeat=4)]
    under = np.array([node[range(4), q].sum() + step[q[:-1], q[1:]].sum() for q in rows])
    ways = {}
    for y in product(range(3), repeat=4):
        runs = [list(run) for _, run in groupby(range(4), y.__getitem__)]
        facts = tuple((r[0], r[-1] + 1, "ab"[y[r[0]]]) for r in runs if y[r[0]] < 2)
        ways[facts] = score[range(4), y].sum() + under
    log_z = np.logaddexp.reduce(np.concatenate([*ways.values()]))
    shares = {facts: float(np.exp(own - log_z).sum()) for facts, own in ways.items()}
    for facts, own in ways.items():
        assert lattice.score(facts) == pytest.approx(own.max())
        assert lattice.probability(facts) == pytest.approx(shares[facts])
    for one in {run for facts in ways for run in facts} | {(0, 2, "_")}:
        wanted = sum(share for facts, share in shares.items() if one in facts)
        assert lattice.span_probability(*one) == pytest.approx(wanted)
    assert lattice.score([(0, 1, "a"), (1, 2, "a")]) == -np.inf  # that is one run
    listed = {(s.start, s.end, s.type): p for s, p in lattice.probable_spans(0.0)}
    true = sum(listed.values())
    best = max(2 * sum(listed[run] for run in facts) / (len(facts) + true) for facts in ways)
    assert lattice.minimum_risk().expected == pytest.approx(best)

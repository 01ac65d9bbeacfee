"""Lattices of segments against the enumeration of all their paths."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest

from fstcrf.constraints import at_most, exactly, pairs
from fstcrf.errors import NoPathError, OptionError
from fstcrf.lattices import ArcLattice, Lattice, best, log_partition, marginals
from fstcrf.machines.grammar import Grammar
from tests.support.segments import (
    LABELS,
    Case,
    frame_strings,
    log_sum,
    random_case,
)

SEEDS = range(40)


def alive(case: Case) -> dict[tuple[int, ...], float]:
    paths = case.paths()
    if not paths:
        with pytest.raises(NoPathError):
            case.lattice().best()
        assert case.lattice().log_partition() == -np.inf
        pytest.skip("no path")
    return paths


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wide", [1.0, 300.0])
def test_best_and_sums(seed: int, wide: float, variant: str) -> None:
    case = random_case(seed, wide=wide)
    paths = alive(case)
    lattice = case.lattice()
    ranked = sorted(paths.values(), reverse=True)
    assert lattice.best().score == pytest.approx(ranked[0], rel=1e-12, abs=1e-12)
    assert paths[tuple(lattice.best().arcs.tolist())] == pytest.approx(ranked[0], rel=1e-12)
    found = lattice.nbest(20)
    assert [p.score for p in found] == pytest.approx(ranked[:20], rel=1e-12, abs=1e-12)
    assert len({tuple(p.arcs.tolist()) for p in found}) == len(found)
    for one in found:
        assert tuple(one.segments) == case.spans(tuple(one.arcs.tolist()))
    log_z = log_sum(ranked)
    assert lattice.log_partition() == pytest.approx(log_z, rel=1e-12, abs=1e-12)
    share = {path: np.exp(score - log_z) for path, score in paths.items()}
    arcs, pairs, first, last = np.zeros(len(case.start)), np.zeros((3, 3)), np.zeros(3), np.zeros(3)
    tokens, most = np.zeros((case.length, 3)), np.full((case.length, 3), -np.inf)
    for path, p in share.items():
        arcs[list(path)] += p
        names = case.label[list(path)]
        np.add.at(pairs, (names[:-1], names[1:]), p)
        if path:
            first[names[0]] += p
            last[names[-1]] += p
        for arc in path:
            under = slice(case.start[arc], case.end[arc]), case.label[arc]
            tokens[under] += p
            most[under] = np.maximum(most[under], paths[path])
    assert lattice.marginals() == pytest.approx(tokens, abs=1e-11)
    counts = lattice.expectations()
    for mine, other in zip(counts, (arcs, pairs, first, last), strict=True):
        assert mine == pytest.approx(other, abs=1e-11)
    assert lattice.max_marginals() == pytest.approx(most, rel=1e-12, abs=1e-12)
    entropy = -sum(p * np.log(p) for p in share.values() if p > 0.0)
    assert lattice.entropy() == pytest.approx(entropy, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_gradients_are_differences(seed: int) -> None:
    case = random_case(seed, length=4)
    alive(case)
    counts, step = case.lattice().expectations(), 1e-5
    for name, gradient in (
        ("score", counts.arcs),
        ("transitions", counts.transitions),
        ("initial", counts.initial),
        ("final", counts.final),
    ):
        values = getattr(case, name)
        for cell in np.ndindex(values.shape):
            before = values[cell]
            values[cell] = before + step
            up = case.lattice().log_partition()
            values[cell] = before - step
            down = case.lattice().log_partition()
            values[cell] = before
            assert gradient[cell] == pytest.approx((up - down) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_restrictions_and_scale(seed: int) -> None:
    case = random_case(seed)
    paths = alive(case)
    lattice = case.lattice()
    log_z = log_sum(list(paths.values()))
    by_spans: dict[tuple[tuple[int, int, str], ...], list[float]] = {}
    for path, score in paths.items():
        by_spans.setdefault(case.spans(path), []).append(score)
    for spans, scores in list(by_spans.items())[:10]:
        assert lattice.score(spans) == pytest.approx(max(scores), abs=1e-11)
        wanted = np.exp(log_sum(scores) - log_z)
        assert lattice.probability(spans) == pytest.approx(wanted, abs=1e-11)
    rng = np.random.default_rng(seed)
    mask = rng.random(len(case.start)) < 0.8
    left = [score for path, score in paths.items() if mask[list(path)].all()]
    assert lattice.restrict(mask).log_partition() == pytest.approx(log_sum(left), abs=1e-11)
    borders = rng.integers(-1, 2, size=case.length + 1)
    left = []
    for path, score in paths.items():
        cut = set(case.end[list(path)].tolist()[:-1])
        if all(
            (b != 1 or t in cut) and (b != -1 or t not in cut)
            for t, b in enumerate(borders[: case.length])
            if t > 0
        ):
            left.append(score)
    found = lattice.restrict(boundaries=borders).log_partition()
    assert found == pytest.approx(log_sum(left), abs=1e-11)
    half = log_sum([0.5 * score for score in paths.values()])
    assert lattice.scale(0.5).log_partition() == pytest.approx(half, abs=1e-11)


GRAMMARS = [
    Grammar.from_text('export NO_AA = ("[A]"? ("[B]" | "[C]")+)* "[A]"?;'),
    at_most(1, "B"),
    exactly(1, "A") & at_most(2, "C"),
    Grammar.from_arrays(
        LABELS, [[1, 0, -1], [0, 1, 1]], score=[[0.5, -1.0, 0.0], [0.25, 0, 2.0]], final=[0, -0.5]
    ),
]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("which", range(len(GRAMMARS)))
@pytest.mark.parametrize("over", ["segments", "tokens"])
def test_grammars(seed: int, which: int, over: str) -> None:
    case = random_case(seed)
    paths = alive(case)
    grammar = GRAMMARS[which].bound(LABELS)
    scores = {}
    for path, score in paths.items():
        read = [
            name
            for start, end, name in case.spans(path)
            for _ in range(1 if over == "segments" else end - start)
        ]
        total = score + grammar.score(read)
        if total > -np.inf:
            scores[path] = total
    lattice = case.lattice().constrained(GRAMMARS[which], over=over)  # type: ignore[arg-type]
    ranked = sorted(scores.values(), reverse=True)
    assert lattice.log_partition() == pytest.approx(log_sum(ranked), abs=1e-11)
    if not ranked:
        with pytest.raises(NoPathError):
            lattice.best()
        return
    assert [p.score for p in lattice.nbest(5)] == pytest.approx(ranked[:5], abs=1e-11)
    arcs = np.zeros(len(case.start))
    for path, score in scores.items():
        arcs[list(path)] += np.exp(score - log_sum(ranked))
    assert lattice.arc_probabilities() == pytest.approx(arcs, abs=1e-11)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("steps", ["shared", "own"])
def test_composition_with_a_lattice_of_tokens(seed: int, steps: str) -> None:
    case = random_case(seed, length=3)
    paths = alive(case)
    rng = np.random.default_rng(seed)
    tags = ("n", "v")
    arcs = rng.normal(size=(2, 2) if steps == "shared" else (2, 2, 2))
    emissions, ends = rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
    coupling = rng.normal(size=(3, 2))
    tagger = Lattice.from_arrays(tags, emissions, arcs, *ends, tape="pos")
    joint = case.lattice().with_tokens(tagger, coupling={("segment", "pos"): coupling})
    scores = {}
    for path, score in paths.items():
        for cell in np.ndindex(2, 2, 2):
            total = score + tagger.score([tags[k] for k in cell])
            for arc in path:
                for t in range(case.start[arc], case.end[arc]):
                    total += coupling[case.label[arc], cell[t]]
            scores[path, cell] = total
    ranked = sorted(scores.values(), reverse=True)
    log_z = log_sum(ranked)
    assert joint.log_partition() == pytest.approx(log_z, abs=1e-11)
    found = joint.nbest(10)
    assert [p.score for p in found] == pytest.approx(ranked[:10], abs=1e-11)
    for one in found:
        key = tuple(one.arcs.tolist()), tuple(tags.index(tag) for tag in one.labels[1])
        assert scores[key] == pytest.approx(one.score, abs=1e-11)
    wanted, share = np.zeros(len(case.start)), np.zeros((3, 2))
    for (path, cell), score in scores.items():
        wanted[list(path)] += np.exp(score - log_z)
        share[np.arange(3), list(cell)] += np.exp(score - log_z)
    assert joint.arc_probabilities() == pytest.approx(wanted, abs=1e-11)
    assert joint.marginals("pos") == pytest.approx(share, abs=1e-11)
    free = case.lattice() @ tagger
    apart = case.lattice().log_partition() + tagger.log_partition()
    assert free.log_partition() == pytest.approx(apart, abs=1e-11)


def test_grammars_of_a_composition() -> None:
    case = random_case(3, length=3)
    tags = ("n", "v")
    emissions = np.random.default_rng(0).normal(size=(3, 2))
    tagger = Lattice.from_arrays(tags, emissions, tape="pos")
    both = case.lattice() @ tagger
    agree = pairs({"A": ["n"], "B": ["v"]}, ("segment", "pos"))
    once = at_most(1, "v", tape="pos")
    scores = []
    for path, score in case.paths().items():
        for cell in np.ndindex(2, 2, 2):
            under = [n for start, end, n in case.spans(path) for _ in range(end - start)]
            met = {("A", "v"), ("B", "n")} & {
                (a, tags[k]) for a, k in zip(under, cell, strict=True)
            }
            if not met and sum(cell) <= 1:
                scores.append(score + sum(emissions[t, k] for t, k in enumerate(cell)))
    found = both.constrained(agree, over="tokens").constrained(once, over="tokens")
    assert found.log_partition() == pytest.approx(log_sum(scores), abs=1e-11)
    first = case.lattice().constrained(at_most(1, "A")) @ tagger
    second = both.constrained(at_most(1, "A", tape="segment"))
    assert first.log_partition() == pytest.approx(second.log_partition(), abs=1e-11)


def frames(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(int(rng.integers(0, 6)), 3)) * 1.5
    scores[rng.random(scores.shape) < 0.05] = -np.inf
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(10))
def test_frames_under_a_grammar(seed: int) -> None:
    scores = frames(seed)
    labels = ("a", "b", "-")
    grammar = Grammar.from_arrays(
        labels, [[1, -1, -1], [-1, 0, -1]], score=[[0.5, 0, 0], [0, -0.25, 0]], final=[0.0, 0.125]
    )
    bound = grammar.bound(labels)
    lattice = Lattice.from_ctc(scores, "-", labels=labels) & grammar
    sums = {}
    for string, values in frame_strings(scores, 2).items():
        total = log_sum(values) + bound.score([labels[k] for k in string])
        if total > -np.inf:
            sums[tuple(labels[k] for k in string)] = total
    assert lattice.log_partition() == pytest.approx(log_sum(list(sums.values())), abs=1e-11)
    found = lattice.strings(100)
    assert [p.score for p in found] == pytest.approx(sorted(sums.values(), reverse=True), abs=1e-11)
    assert sum(p.probability for p in found) == pytest.approx(1.0 if sums else 0.0, abs=1e-11)
    half = lattice.scale(0.5).restrict(np.ones(scores.shape, dtype=bool))
    total = sum(p.probability for p in half.strings(100))
    assert total == pytest.approx(1.0 if sums else 0.0, abs=1e-11)


def test_batches_are_their_lattices() -> None:
    cases = [random_case(seed) for seed in range(60)]
    lattices = [case.lattice() for case in cases if case.paths()]
    same = random_case(1)
    for case in cases[:20]:
        case.transitions, case.initial, case.final = same.transitions, same.initial, same.final
    lattices += [case.lattice() for case in cases[:20] if case.paths()]
    assert log_partition(lattices) == pytest.approx([one.log_partition() for one in lattices])
    for path, lattice in zip(best(lattices), lattices, strict=True):
        own = lattice.best()
        assert path is not None
        assert (path.segments, path.score) == (own.segments, own.score)
        assert path.probability == pytest.approx(own.probability, rel=1e-12)
    for share, lattice in zip(marginals(lattices), lattices, strict=True):
        assert share == pytest.approx(lattice.marginals(), abs=1e-12)


def test_samples_have_their_frequencies() -> None:
    case = random_case(7, length=4)
    drawn = case.lattice().sample(20_000, seed=1)
    share = np.zeros(len(case.start))
    for path in drawn:
        share[path.arcs] += 1 / len(drawn)
    assert share == pytest.approx(case.lattice().arc_probabilities(), abs=0.02)
    assert drawn[0].score == pytest.approx(case.total(tuple(drawn[0].arcs.tolist())), abs=1e-11)


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
    if 2 * len(start) >= there.size:
        assert one.engine._chain is not None
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
    machine = one.engine.machine
    assert machine.log_partitions()[0] == pytest.approx(one.log_partition(), abs=1e-10)
    assert one.engine.origin[machine.best_paths()[0]].tolist() == one.best().arcs.tolist()


@pytest.mark.parametrize(
    "lattice",
    [
        Lattice.from_segments(2, [0, 0, 0], [1, 2, 1], [0, 0, 1], [0.0, 1.0, 2.0], ["a", "b"]),
        Lattice.from_segments(
            2, [0, 0, 1, 1, 1], [1, 1, 2, 2, 2], [0, 1, 0, 1, 1], np.zeros(5), ["a", "b"]
        ),
        Lattice.from_spans(2, [(0, 1, "x", 1.0), (1, 2, "x", 1.0)]),
        Lattice.from_segments(0, [], [], [], [], ["a", "b"]),
    ],
)
def test_what_is_no_sausage(lattice: ArcLattice) -> None:
    assert lattice.engine._chain is None


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
    with pytest.raises(OptionError, match="not listed: ask span_probabilities"):
        lattice.probable_spans()
    with pytest.raises(OptionError, match="not listed: ask minimum_risk"):
        lattice.minimum_risk()

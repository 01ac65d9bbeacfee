"""Many labels, of whose pairs few have weights: the same answers as over all pairs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fstcrf import CRF, Corpus, Grammar, kernel
from fstcrf.arrays import Floats
from fstcrf.constraints import at_most, contiguous
from fstcrf.errors import OptionError
from fstcrf.lattices import Lattice
from fstcrf.machines import topology
from fstcrf.machines.topology import chain_topology, machines, sparse_pays
from fstcrf.taggers.weights import Weights
from fstcrf.text.corpus import legal_transitions
from fstcrf.text.features import FeatureIndex, parse_template
from fstcrf.text.sentences import allowed_labels, label_set
from fstcrf.training import (
    Likelihood,
    ParameterSpace,
    Problem,
    expectation,
    parameter_space,
    sgd,
    shards,
    structure,
)
from fstcrf.training.shards import default_arcs_of

LABELS = 150
TEMPLATE = "U:%x[0,0]\nU:%x[-1,0]\nB\n"


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    draw = random.Random(3)
    after = [draw.sample(range(LABELS), 3) for _ in range(LABELS)]
    sentences = [[("w0", f"L{i}")] for i in range(LABELS)]  # some labels occur only here
    for _ in range(260):
        label, rows = draw.randrange(LABELS), []
        for _ in range(draw.randrange(1, 14)):
            word = label if draw.random() < 0.7 else draw.randrange(LABELS)
            rows.append((f"w{word}", f"L{label}"))
            label = draw.choice(after[label])
        sentences.append(rows)
    return Corpus.from_sentences(sentences, ("word", "label"))


@pytest.fixture(scope="module")
def problem(corpus: Corpus) -> Problem:
    _, design = FeatureIndex.build(corpus, parse_template(TEMPLATE), boundary="skip")
    column = corpus.column("label")
    topology = chain_topology(label_set(column.values, partial=False), 1)
    allowed = allowed_labels(column, topology.labels, partial=False)
    return Problem(topology, corpus.offsets, design.node, None, allowed, np.ones(len(corpus)))


@pytest.fixture(scope="module")
def space(problem: Problem) -> ParameterSpace:
    return parameter_space(problem)


@pytest.fixture(scope="module")
def tagger(corpus: Corpus) -> CRF:
    return CRF.train(corpus, "label", TEMPLATE, l2=0.1, max_iterations=12)


def drawn(space: ParameterSpace) -> Floats:
    return np.random.default_rng(1).normal(size=space.size)


# --- Training -------------------------------------------------------------------------------------
def test_the_sweep_goes_over_exceptions(problem: Problem, space: ParameterSpace) -> None:
    found = default_arcs_of(space, problem.offsets)
    assert found is not None
    assert len(found.source) == len(space.transitions)


def test_partial_labels(
    problem: Problem, space: ParameterSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some labels unknown, some one of several: over exceptions, as over all pairs."""
    rng = np.random.default_rng(4)
    allowed = problem.allowed | (rng.random((len(problem.allowed), 1)) < 0.1)
    allowed |= rng.random(allowed.shape) < 0.01
    partial = replace(problem, allowed=allowed)
    assert partial.partial.any()
    theta = drawn(space)
    found = [Likelihood(partial, space, l2=0.3, threads=n)(theta) for n in (1, 2, 7)]
    with monkeypatch.context() as patch:
        patch.setattr(expectation, "sparse_pays", lambda *_args: False)
        value, gradient = Likelihood(partial, space, l2=0.3)(theta)
    assert found[0][0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found[0][1], gradient, rtol=1e-9, atol=1e-9)
    for other in found[1:]:
        assert other[0] == found[0][0]
        assert other[1].tobytes() == found[0][1].tobytes()
    one = Likelihood(partial, space, l2=0.3)
    for place in rng.integers(space.bounds[1], space.bounds[2], 3).tolist():
        step = np.zeros(space.size)
        step[place] = 1e-3  # log Z of the known sentences is a float32
        slope = (one(theta + step)[0] - one(theta - step)[0]) / 2e-3
        assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def two_epochs(problem: Problem, space: ParameterSpace, start: Floats) -> tuple[Floats, int]:
    """Weights, and how many sentences were done in float64."""
    one = sgd.SGDOptimiser(problem, space, start, sgd.ASGD(l2=0.3), first_rate=0.05)
    one.step()
    one.step()
    return one.theta(), one.rescued


def starts(space: ParameterSpace) -> list[Floats]:
    """Weights to start at; the last are those of arcs that all but vanish."""
    steep = np.zeros(space.size)
    steep[space.bounds[1] : space.bounds[2]] = -16.0
    return [np.zeros(space.size), drawn(space), steep]


def check_steps(
    problem: Problem, patched: tuple[str, Callable[..., object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps over exceptions are those over all pairs, up to rounding, also where sums cancel."""
    space = parameter_space(problem)
    for start in starts(space):
        sparse, rescued = two_epochs(problem, space, start)
        with monkeypatch.context() as patch:
            patch.setattr(sgd, *patched)
            dense, _ = two_epochs(problem, space, start)
        assert rescued == 0
        np.testing.assert_allclose(sparse, dense, atol=2e-5 * np.abs(dense).max())


def test_stochastic_steps(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sgd.stochastic_graph(problem, parameter_space(problem))[0].rest == 0.0
    check_steps(problem, ("alone_cost", lambda _states, _arcs: np.inf), monkeypatch)


def test_where_all_pairs_are_better(problem: Problem) -> None:
    everything = parameter_space(problem, transitions="all")
    assert default_arcs_of(everything, problem.offsets) is None
    nothing = parameter_space(problem, transitions="none")
    assert default_arcs_of(nothing, problem.offsets) is None  # nothing to except
    value, _ = Likelihood(problem, nothing, l2=0.3)(np.zeros(nothing.size))
    assert value == pytest.approx(problem.offsets[-1] * np.log(problem.topology.n_labels))


# --- Training under schemes and at order 2 --------------------------------------------------------
def restricted(kind: str) -> Problem:
    """Spans of 40 types under a scheme, or 12 labels at order 2, also with forbidden pairs."""
    draw, sentences = random.Random(5), []
    types = 6 if kind.startswith("order") else 40
    for _ in range(150):
        rows: list[tuple[str, str]] = []
        for _ in range(draw.randrange(1, 5)):
            name = draw.randrange(types)
            inner = draw.randrange(3)
            letters = ["O"] if draw.random() < 0.3 else [f"B-{name}", *[f"I-{name}"] * inner]
            if kind == "bioes" and len(letters) > 1:
                letters[-1] = f"E-{name}"
            elif kind == "bioes" and letters != ["O"]:
                letters = [f"S-{name}"]
            rows += [(f"w{name if draw.random() < 0.7 else 0}", letter) for letter in letters]
        sentences.append(rows)
    corpus = Corpus.from_sentences(sentences, ("word", "label"))
    _, design = FeatureIndex.build(corpus, parse_template(TEMPLATE), boundary="skip")
    column = corpus.column("label")
    labels = label_set(column.values, partial=False)
    scheme = {"bioes": "bioes", "bio": "bio", "order 2 bio": "bio", "order 2": None}[kind]
    table = None if scheme is None else legal_transitions(labels, scheme)
    made = structure.chain(labels, 2 if kind.startswith("order") else 1, table)
    allowed = allowed_labels(column, made.labels, partial=False)
    return Problem(made, corpus.offsets, design.node, None, allowed, np.ones(len(corpus)))


@pytest.fixture(params=["bio", "bioes", "order 2", "order 2 bio"])
def narrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Problem:
    """A problem that is trained over blocks, whatever that costs."""
    monkeypatch.setattr(shards, "dense_cost", lambda _states: np.inf)
    return restricted(request.param)


def test_blocks_of_a_topology(narrow: Problem) -> None:
    """Blocks and what they leave are all arcs, each once."""
    found, states = narrow.topology, narrow.topology.n_states
    leave, enter, count = found.arc_blocks
    block = (leave[:, None] >= 0) & (leave[:, None] == enter)
    arcs = np.zeros((states, states), dtype=bool)
    arcs[found.source, found.target] = True
    assert count >= 1
    assert not (block & ~arcs).any()
    assert (arcs & ~block).sum() < 0.5 * arcs.sum()
    listed = found.default_arcs(np.zeros(0, dtype=np.int32))
    if listed is not None:
        rest = np.zeros_like(arcs)
        rest[listed.source, listed.target] = True
        np.testing.assert_array_equal(block | rest, arcs)


def test_stochastic_steps_over_blocks(narrow: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sgd, "alone_cost", lambda _states, _arcs: 0.0)
    assert sgd.stochastic_graph(narrow, parameter_space(narrow))[0].classes is not None
    check_steps(narrow, ("fits", lambda *_: False), monkeypatch)


# --- Tagging --------------------------------------------------------------------------------------
def same_answers(weights: Weights, rest: float) -> None:
    sparse, dense = weights.sparse_graph, weights.static_graph
    assert sparse is not None
    assert sparse.rest == rest
    assert dense.source is None
    rng = np.random.default_rng(5)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 20, 30))]).astype(np.int64)
    node = rng.normal(size=(int(offsets[-1]), dense.n_states))
    for found, wanted in zip(
        kernel.viterbi(sparse, offsets, node), kernel.viterbi(dense, offsets, node), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    one, other = (kernel.forward_backward(g, offsets, node) for g in (sparse, dense))
    np.testing.assert_allclose(one.log_z, other.log_z, rtol=1e-12)
    np.testing.assert_allclose(one.node, other.node, rtol=1e-9, atol=1e-13)


def test_answers_of_a_tagger(tagger: CRF) -> None:
    same_answers(tagger._weights, 0.0)


def test_any_constant(tagger: CRF) -> None:
    """An imported model may have a weight for every pair, most of them the same."""
    slots = np.zeros(tagger.topology.n_arc_slots)
    slots[tagger.space.transitions] = tagger.space.parts(tagger.theta)[1]
    every = np.arange(len(slots), dtype=np.int32)
    none = tagger.space.node_cells[:0]
    space = ParameterSpace(tagger.topology, 0, 0, none, every, none, every[:0], every[:0])
    same_answers(Weights(tagger.topology, space, slots - 1.25), -1.25)


@pytest.mark.parametrize("name", ["base", "v4"])
def test_one_sentence_alone(
    tagger: CRF, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Narrow registers take the best path of one sentence over all pairs; it is the same."""
    monkeypatch.setattr(kernel, "variant", lambda: name)
    listed = tagger._weights.sparse_graph
    assert listed is not None
    assert topology.best_alone_pays(LABELS, listed.n_arcs) is (name != "base")
    assert topology.best_alone_pays(1000, 8_000)
    assert not topology.best_alone_pays(22, 1)
    tagger.save(tmp_path / "tagger")
    fresh = CRF.load(tmp_path / "tagger")
    assert [fresh.tag(corpus[k]) for k in range(LABELS, LABELS + 9)] == [
        tagger.tag(corpus[k]) for k in range(LABELS, LABELS + 9)
    ]


# --- Lattices ------------------------------------------------------------------------------------
GRAMMARS: tuple[tuple[Grammar, ...], ...] = (
    (),
    (contiguous("L3"),),
    (at_most(2, "L5"), contiguous("L7")),
)


@pytest.fixture(scope="module")
def copied(tagger: CRF, tmp_path_factory: pytest.TempPathFactory) -> CRF:
    """The same tagger, whose lattices go over all pairs where they are compiled by `lattices`."""
    path = tmp_path_factory.mktemp("many") / "tagger"
    tagger.save(path)
    return CRF.load(path)


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_lattices(
    tagger: CRF,
    copied: CRF,
    corpus: Corpus,
    grammar: tuple[Grammar, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for k in (1, LABELS, LABELS + 3, LABELS + 7, LABELS + 8):
        mine, its = tagger.lattice(corpus[k]), copied.lattice(corpus[k])
        for part in grammar:
            mine = mine & part
        with monkeypatch.context() as patch:
            patch.setattr(machines, "sparse_pays", lambda *_args, **_options: False)
            for part in grammar:
                its = its & part
            assert its.plan().axes[0].kind == "dense"
            assert its.dense.program.machine.axes[0].kind == "dense"
        assert mine.plan().axes[0].kind == "rest"
        assert mine.best().labels == its.best().labels
        assert [p.labels for p in mine.nbest(4)] == [p.labels for p in its.nbest(4)]
        np.testing.assert_allclose(
            [p.score for p in mine.nbest(4)], [p.score for p in its.nbest(4)], rtol=1e-12
        )
        np.testing.assert_allclose(mine.log_partition(), its.log_partition(), rtol=1e-12)
        np.testing.assert_allclose(mine.marginals(), its.marginals(), rtol=1e-9, atol=1e-13)
        np.testing.assert_array_equal(mine.max_marginals(), its.max_marginals())
        assert mine.entropy() == pytest.approx(its.entropy(), rel=1e-9)
        assert mine.sample(5, seed=2) == its.sample(5, seed=2)


def test_a_million_labels_are_refused() -> None:
    labels = tuple(f"L{i}" for i in range(1_000_000))
    with pytest.raises(OptionError, match=r"1,000,000 labels: .* 29,000 GB"):
        Lattice.from_arrays(labels, np.zeros((1, len(labels))))


def test_few_labels_stay_dense() -> None:
    assert not sparse_pays(22, 1)
    assert not sparse_pays(340, 340 * 340 // 2)
    assert sparse_pays(340, 5_971)

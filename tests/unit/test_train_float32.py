"""The float32 sweep beside float64: faint sentences, arcs far below the best, long sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from fstcrf import Corpus
from fstcrf.arrays import Floats
from fstcrf.text.corpus import legal_transitions
from fstcrf.text.features import FeatureIndex, parse_template
from fstcrf.text.sentences import allowed_labels, label_set
from fstcrf.training import (
    Likelihood,
    ParameterSpace,
    Problem,
    evidence,
    parameter_space,
    shards,
    structure,
)
from fstcrf.training.sgd import stochastic_learner

Sentence = Sequence[tuple[str, ...]]
Rows = Sequence[Sentence]


class Example(NamedTuple):
    """A problem, and weights that are put by name."""

    problem: Problem
    space: ParameterSpace
    theta: Floats

    def put(self, token: int, attribute: int, label: str, weight: float) -> None:
        """Set the weight of an attribute of a token."""
        node = self.problem.node
        row = int(node.index[int(node.indptr[token]) + attribute])
        cell = row * self.space.width + self.problem.topology.node_slot_names.index(label)
        self.theta[: self.space.bounds[1]][self.space.node_cells == cell] = np.float32(weight)

    def put_arc(self, before: str, after: str, weight: float) -> None:
        """Set the weight of all successions of two labels."""
        topology = self.problem.topology
        label = topology.state_label
        pair = [topology.labels.index(name) for name in (before, after)]
        found = (label[topology.source] == pair[0]) & (label[topology.target] == pair[1])
        slots = np.unique(topology.arc_slot[found])
        self.arcs(self.theta)[np.isin(self.space.transitions, slots)] = np.float32(weight)

    def arcs(self, theta: Floats) -> Floats:
        """Return the part of the successions."""
        return theta[self.space.bounds[1] : self.space.bounds[2]]

    def check(self) -> None:
        """Compare value and gradient with those of float64.

        float32 may lose 1e-4 of a derivative and 1e-6 of the largest expected count, and 1e-6 of
        the scores.
        """
        narrow = Likelihood(self.problem, self.space, l2=0.0)
        wide = Likelihood(self.problem, self.space, l2=0.0, precision="float64")
        value, gradient = narrow(self.theta)
        right, derivative = wide(self.theta)
        scores = right + float(np.abs(wide.observed * self.theta).sum())
        assert value == pytest.approx(right, abs=1e-6 * scores)
        assert_near(gradient, derivative, derivative + wide.observed)


def example(
    rows: Rows, template: str, *, order: int = 1, scheme: str | None = None, complete: bool = True
) -> Example:
    names = (*(f"x{k}" for k in range(len(rows[0][0]) - 1)), "label")
    corpus = Corpus.from_sentences(rows, names)
    _, design = FeatureIndex.build(corpus, parse_template(template), boundary="skip")
    column = corpus.column("label")
    labels = label_set(column.values, partial=False)
    legal = None if scheme is None else legal_transitions(labels, scheme)
    topology = structure.chain(labels, order, legal)
    allowed = allowed_labels(column, topology.labels, partial=False)
    problem = Problem(topology, corpus.offsets, design.node, None, allowed, np.ones(len(corpus)))
    space = parameter_space(problem, features="complete" if complete else "supported")
    return Example(problem, space, np.zeros(space.size))


def assert_near(found: Floats, right: Floats, expected: Floats) -> None:
    error = np.abs(found - right)
    bound = 1e-4 * np.abs(right) + 1e-6 * np.abs(expected).max()
    worst = int((error - bound).argmax())
    assert (error <= bound).all(), (worst, found[worst], right[worst], expected[worst])


def sweep_over(pairs: str, case: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose the way that the costs of a problem would: all pairs of states, or exceptions."""
    found = case.problem.topology.default_arcs(case.space.transitions)
    assert found is not None
    chosen = None if pairs == "all" else found
    monkeypatch.setattr(evidence, "default_arcs_of", lambda *_: chosen)


def spans(further: Sentence) -> Rows:
    one = ([("b", f"B-{k}"), ("i", f"I-{k}"), ("i", f"I-{k}"), ("o", "O")] for k in range(20))
    return [*one, *([("o", "O")] * 13 for _ in range(40)), further]


FAINT = [("p", "B-7"), ("q", "I-7"), *[("r", "I-7")] * 20]


def make_faint(case: Example, arc: float, scores: Sequence[float]) -> None:
    """The last sentence has to be I-7 from its second token on, and hardly any arc leads there."""
    case.put_arc("B-7", "I-7", arc)
    first = int(case.problem.offsets[-2])
    for t, label in enumerate(("O", "I-7", "I-7")):
        case.put(first + t, 0, label, scores[t])


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("pairs", ["all", "exceptions"])
def test_curvature_of_a_sentence_too_faint_for_float32(
    pairs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, alone = (
        example(spans(last), "U:%x[0,0]\nB\n", scheme="bio") for last in (FAINT, [("o", "O")])
    )
    make_faint(case, -27.5, (62.0, 140.0, 60.0))
    alone.put_arc("B-7", "I-7", -27.5)
    sums = []
    for one in (case, alone):
        sweep_over(pairs, one, monkeypatch)
        found = Likelihood(one.problem, one.space, l2=0.0).curvature(one.theta)
        assert found is not None
        sums.append(one.arcs(found))
    apart = np.abs(sums[0] - sums[1]) > 1e-4 * sums[1]
    assert apart.sum() == 2  # those of the last sentence alone


# --- Sums over many tokens ------------------------------------------------------------------------
HALF = 1 << 15  # of the tokens of a shard


def kinds(*kinds: tuple[str, ...]) -> Rows:
    """Sentences of one kind of token after those of the other, as in text sorted by label."""
    return [[kind] * 64 for kind in kinds for _ in range(HALF // 64)]


def test_sums_that_are_flushed_have_the_same_bits_for_any_number_of_threads() -> None:
    rows = kinds(("a", "b", "O"), ("z", "b", "X"))
    case = example(rows, "U0:%x[0,0]\nU1:%x[0,1]\nB\n")
    case.put(0, 0, "O", 3.0)
    one, two = (Likelihood(case.problem, case.space, l2=0.0, threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one(case.theta)[1], two(case.theta)[1])


def test_small_variances_count_behind_large_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without successions tokens are independent: p (1 - p) of each is known."""
    monkeypatch.setattr(shards, "N_SHARDS", 1)
    rows = kinds(("a", "b", "O"), ("z", "b", "X"))
    case = example(rows, "U0:%x[0,0]\nU1:%x[0,1]\n")
    case.put(0, 0, "O", 0.0)
    case.put(HALF, 0, "X", 9.5)
    found = Likelihood(case.problem, case.space, l2=0.0).curvature(case.theta)
    assert found is not None
    p = 1.0 / (1.0 + np.exp(-np.float64(np.float32(9.5))))
    at_b = found[: case.space.bounds[1]].max()
    assert at_b == pytest.approx(HALF * (0.25 + p * (1.0 - p)), rel=1e-6)


@pytest.mark.parametrize("labels", [0, 20, 150])
def test_arcs_of_a_long_sentence_in_a_stochastic_step(labels: int) -> None:
    rows = [[("a", "O")] * 10_000 + [("z", "X")] * 10_000]
    rows += [[("w", f"L{k}")] for k in range(labels)]
    case = example(rows, "U0:%x[0,0]\nB\n", complete=False)
    case.put(0, 0, "O", 8.0)
    case.put(10_000, 0, "X", 3.6)
    check_step(case)


def check_step(case: Example) -> None:
    """Compare what a step over the first sentence, of 20,000 tokens, moves the arcs by."""
    learner, rate = stochastic_learner(case.problem, case.space), 1e-6
    learner.restart(case.theta)
    learner.epoch(np.zeros(1, np.int64), np.full(1, rate), 0.0, averaging=False)
    moved = (case.theta - learner.theta(mean=False)) / rate
    first = Problem(
        case.problem.topology,
        case.problem.offsets[:2],
        case.problem.node.slice(0, 20_000),
        None,
        case.problem.allowed[:20_000],
        np.ones(1),
    )
    wide = Likelihood(first, case.space, l2=0.0, precision="float64")
    right = wide(case.theta)[1]
    arcs = case.arcs(moved), case.arcs(right), case.arcs(right + wide.observed)
    assert_near(*arcs)


# --- Rounding that goes the same way at each token ------------------------------------------------
def alike(labels: int, seed: int, *, complete: bool) -> Example:
    rows = [[("a", "A")] * 10_000 + [("b", "B")] * 10_000]
    rows += [[("w", f"L{k}")] for k in range(labels)]
    case = example(rows, "U0:%x[0,0]\nB\n", complete=complete)
    rng = np.random.default_rng(seed)
    case.theta[:] = np.round(rng.normal(size=len(case.theta), scale=3 * 256)) / 256
    return case


@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize("pairs", ["all", "exceptions"])
@pytest.mark.parametrize("labels", [1, 20])
def test_rounding_does_not_add_up_along_a_sentence(
    labels: int, pairs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = alike(labels, 5, complete=True)
    sweep_over(pairs, case, monkeypatch)
    case.check()


@pytest.mark.thorough
@pytest.mark.usefixtures("variant")
@pytest.mark.parametrize(("labels", "seed"), [(1, 5), (20, 5), (150, 150)])
def test_rounding_does_not_add_up_along_a_stochastic_step(labels: int, seed: int) -> None:
    check_step(alike(labels, seed, complete=False))

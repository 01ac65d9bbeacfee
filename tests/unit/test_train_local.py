"""Locally normalised chains: gradient, probabilities, best paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NumericError, OptionError
from fstcrf.ext.papers.local import LocalLikelihood, normalised
from tests.support.problems import BIO_CASES, Case, random_case


def weights(case: Case, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=case.space.size)


def graph(case: Case, theta: Floats) -> tuple[kernel.Graph, Longs, Floats]:
    """The potentials that a CRF would have."""
    tables, topology, problem = case.space.tables(theta), case.space.topology, case.problem
    slots = tables.transition
    if problem.arc is not None and tables.arc is not None:
        slots = problem.arc.times(tables.arc)[:, : len(slots)] + slots
    node = topology.node_potentials(problem.node.times(tables.node))
    return topology.graph(slots, tables.initial, tables.final), problem.offsets, node


@pytest.mark.parametrize("options", BIO_CASES.values(), ids=BIO_CASES)
def test_the_gradient_is_that_of_central_differences(options: dict[str, Any]) -> None:
    case = random_case(2, **options)
    objective, theta, h = LocalLikelihood(case.problem, case.space, l2=0.2), weights(case), 1e-5
    _, gradient = objective(theta)
    slopes = [
        (objective(theta + h * unit)[0] - objective(theta - h * unit)[0]) / (2 * h)
        for unit in np.eye(len(theta))
    ]
    assert gradient == pytest.approx(slopes, rel=1e-6, abs=1e-7)
    assert objective.evaluations == 1 + 2 * len(theta)


@pytest.mark.parametrize("options", BIO_CASES.values(), ids=BIO_CASES)
def test_what_is_normalised_at_each_token_is_normalised(options: dict[str, Any]) -> None:
    """All paths together have probability 1, and the gold path that of the objective."""
    case = random_case(3, **options)
    theta = weights(case, 3)
    bound, node = normalised(*graph(case, theta))
    log_z = kernel.log_partition(bound, case.problem.offsets, node)
    assert log_z == pytest.approx(np.zeros(case.n_sentences), abs=1e-9)
    gold = np.full_like(node, -np.inf)
    tokens = np.arange(len(node))
    gold[tokens, case.problem.states] = node[tokens, case.problem.states]
    score = kernel.log_partition(bound, case.problem.offsets, gold)
    value, _ = LocalLikelihood(case.problem, case.space, l2=0.0)(theta)
    assert value == pytest.approx(-float(case.problem.weight @ score), rel=1e-9)


def test_sparse_graphs_are_normalised_as_dense_ones() -> None:
    rng = np.random.default_rng(0)
    offsets, node = np.asarray([0, 4, 5]), rng.normal(size=(5, 3))
    source, target = np.asarray([0, 0, 1, 2], np.int32), np.asarray([1, 2, 2, 0], np.int32)
    score, initial = rng.normal(size=4), np.asarray([0.3, 0.0, -np.inf])
    full = np.full((3, 3), -np.inf)
    full[source, target] = score
    some = normalised(kernel.Graph(initial, np.zeros(3), score, source, target), offsets, node)
    every = normalised(kernel.Graph(initial, np.zeros(3), full.ravel()), offsets, node)
    assert (kernel.viterbi(some[0], offsets, some[1])[0]
            == kernel.viterbi(every[0], offsets, every[1])[0]).all()  # fmt: skip
    assert some[0].score == pytest.approx(every[0].score.reshape(5, 3, 3)[:, source, target])


def test_a_dead_end_is_impossible() -> None:
    """State 1 has no arc out, so that nothing goes through it but a last token."""
    offsets, node = np.asarray([0, 2]), np.zeros((2, 2))
    full = np.asarray([0.0, 0.0, -np.inf, -np.inf])
    bound, own = normalised(kernel.Graph(np.zeros(2), np.zeros(2), full), offsets, node)
    path, score = kernel.viterbi(bound, offsets, own)
    assert path.tolist() == [0, 0]
    assert score == pytest.approx([2 * np.log(0.5)])


def test_bad_input() -> None:
    case = random_case(1, partial=True)
    with pytest.raises(OptionError, match="labels that are not known"):
        LocalLikelihood(case.problem, case.space, l2=0.1)
    known = random_case(1)
    objective = LocalLikelihood(known.problem, known.space, l2=0.1)
    with pytest.raises(NumericError, match="the objective is nan at evaluation 1"):
        objective(np.full(known.space.size, np.nan))

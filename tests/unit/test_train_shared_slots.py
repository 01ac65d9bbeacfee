"""Online learning where several arcs share a weight: under a hard grammar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints
from fstcrf.constraints import at_most, label
from fstcrf.machines.grammar import constrained_topology
from fstcrf.training import (
    AROW,
    L2SGD,
    AveragedPerceptron,
    Optimiser,
    ParameterSpace,
    PassiveAggressive,
    Problem,
    parameter_space,
)
from fstcrf.training.online import AROWSettings, PASettings, PerceptronSettings
from fstcrf.training.sgd import L2SGDSettings
from fstcrf.training.support import observed_counts
from tests.support.problems import random_case

Made = tuple[Problem, ParameterSpace]


@pytest.fixture(name="made")
def _made() -> Made:
    """At most four tokens are A: a topology in which each succession is there several times."""
    problem = random_case(3, lengths=(3, 4, 2, 4) * 3, values=True).problem
    grammar = at_most(4, label("A")).bind(problem.topology.labels)
    topology = constrained_topology(problem.topology, grammar)
    assert len(topology.source) > topology.n_arc_slots
    under = replace(problem, topology=topology)
    return under, parameter_space(under, transitions="all")


def alone(problem: Problem, sentence: int, labels: Ints) -> Problem:
    """One sentence of a problem, with these labels."""
    first, last = problem.offsets[sentence : sentence + 2].tolist()
    return replace(
        problem,
        offsets=np.asarray([0, last - first]),
        node=problem.node.slice(first, last),
        allowed=np.eye(problem.topology.n_labels, dtype=bool)[labels],
        weight=np.ones(1),
    )


def best_labels(made: Made, sentence: int, theta: Floats) -> Ints:
    problem, space = made
    tables, topology = space.tables(theta), problem.topology
    first, last = problem.offsets[sentence : sentence + 2].tolist()
    rows = problem.node.slice(first, last)
    node = topology.node_potentials(rows.times(tables.node))
    path, _ = kernel.viterbi(topology.graph(tables.transition), np.asarray([0, last - first]), node)
    return topology.state_label[path]


def plain_perceptron(made: Made, epochs: int, *, seed: int) -> Floats:
    problem, space = made
    theta, history = np.zeros(space.size), [np.zeros(space.size)]
    for epoch in range(epochs):
        for b in np.random.default_rng((seed, epoch)).permutation(len(problem.weight)).tolist():
            first, last = problem.offsets[b : b + 2].tolist()
            gold = problem.allowed[first:last].argmax(axis=1).astype(np.int32)
            best = best_labels(made, b, theta)
            counts = [observed_counts(alone(problem, b, y), space) for y in (gold, best)]
            theta = theta + counts[0] - counts[1]
            history.append(theta)
    return np.asarray(np.mean(history, axis=0))


def test_perceptron(made: Made) -> None:
    problem, space = made
    optimiser = AveragedPerceptron(
        problem, space, np.zeros(space.size), PerceptronSettings(), seed=5
    )
    for _ in range(3):
        optimiser.step()
    assert optimiser.theta() == pytest.approx(plain_perceptron(made, 3, seed=5), abs=1e-6)


KINDS: dict[str, Callable[[Problem, ParameterSpace, Floats], Optimiser]] = {
    "perceptron": lambda problem, space, theta: AveragedPerceptron(
        problem, space, theta, PerceptronSettings()
    ),
    "passive-aggressive": lambda problem, space, theta: PassiveAggressive(
        problem, space, theta, PASettings()
    ),
    "arow": lambda problem, space, theta: AROW(problem, space, theta, AROWSettings()),
    "sgd": lambda problem, space, theta: L2SGD(problem, space, theta, L2SGDSettings(l2=0.1)),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_weights_start_where_they_were_left(
    made: Made, kind: Callable[[Problem, ParameterSpace, Floats], Optimiser]
) -> None:
    """A shared weight is not counted once for each of its arcs."""
    problem, space = made
    first = kind(problem, space, np.zeros(space.size))
    for _ in range(3):
        first.step()
    reached = first.theta()
    assert np.abs(reached).max() > 0
    assert kind(problem, space, reached).theta() == pytest.approx(reached, abs=1e-12)

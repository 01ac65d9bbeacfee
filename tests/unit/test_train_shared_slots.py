"""Online learning where several arcs share a weight: a grammar that forbids nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fstcrf.constraints import at_most, label
from fstcrf.machines.grammar import constrained_topology
from fstcrf.training import parameter_space
from tests.support.problems import random_case
from tests.unit.test_train_online import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_arcs_that_share_weights_change_nothing(method: str, variant: str) -> None:
    """At most four tokens are A, of sentences of four: each succession is there several times."""
    make, _ = METHODS[method]
    problem = random_case(3, lengths=(3, 4, 2, 4) * 3, values=True).problem
    grammar = at_most(4, label("A")).bind(problem.topology.labels)
    topology = constrained_topology(problem.topology, grammar)
    assert len(topology.source) > topology.n_arc_slots
    runs = []
    for one in (problem, replace(problem, topology=topology)):
        space = parameter_space(one, transitions="all")
        optimiser = make((one, space, np.random.default_rng(1).normal(size=space.size)))
        values = [optimiser.step().value for _ in range(3)]
        reached = optimiser.theta()
        runs.append(np.append(reached, values))
        assert make((one, space, reached)).theta() == pytest.approx(reached, abs=1e-12)
    assert runs[1] == pytest.approx(runs[0], abs=1e-9)

"""Online learning where several arcs share a weight: a grammar that forbids nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fstcrf.arrays import Floats
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
from tests.support.problems import random_case

Make = Callable[[Problem, ParameterSpace, Floats], Optimiser]

METHODS: dict[str, Make] = {
    "perceptron": lambda *given: AveragedPerceptron(*given, PerceptronSettings()),
    **{
        name: lambda *given, name=name: PassiveAggressive(*given, PASettings(pa_variant=name))
        for name in ("PA", "PA-I", "PA-II")
    },
    "arow": lambda *given: AROW(*given, AROWSettings()),
    "sgd": lambda *given: L2SGD(*given, L2SGDSettings(l2=0.1), first_rate=0.1),
}


@pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)
def test_arcs_that_share_weights_change_nothing(make: Make, variant: str) -> None:
    """At most four tokens are A, of sentences of four: each succession is there several times."""
    problem = random_case(3, lengths=(3, 4, 2, 4) * 3, values=True).problem
    grammar = at_most(4, label("A")).bind(problem.topology.labels)
    topology = constrained_topology(problem.topology, grammar)
    assert len(topology.source) > topology.n_arc_slots
    runs = []
    for one in (problem, replace(problem, topology=topology)):
        space = parameter_space(one, transitions="all")
        optimiser = make(one, space, np.random.default_rng(1).normal(size=space.size))
        values = [optimiser.step().value for _ in range(3)]
        reached = optimiser.theta()
        runs.append(np.append(reached, values))
        assert make(one, space, reached).theta() == pytest.approx(reached, abs=1e-12)
    assert runs[1] == pytest.approx(runs[0], abs=1e-9)

"""A problem as the kernel's online learners see it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import Learner, Parameters
from fstcrf.train.problem import ParameterSpace, Problem, Tables

__all__ = ["collect_parameters", "online_learner", "online_parameters"]

Floats = NDArray[np.float64]


def online_learner(problem: Problem, space: ParameterSpace) -> Learner:
    """Return the learner of a problem.

    Raises
    ------
    OptionError
        Unknown labels in the data, or weights of arc attributes: both need a batch objective.
    """
    topology = problem.topology
    if problem.partial.any():
        first = int(np.flatnonzero(problem.partial)[0])
        raise OptionError(
            f"sentence {first} has labels that are not known: train with method 'lbfgs'"
        )
    if space.n_arc_rows:
        raise OptionError("the template has B features of the input: train with method 'lbfgs'")
    zeros = np.zeros(topology.n_arc_slots)
    graph = topology.graph(zeros)
    mask = np.zeros(space.n_node_rows * space.width, dtype=np.uint8)
    mask[space.node_cells] = 1
    trained = np.zeros(len(zeros) + 1, dtype=np.uint8)
    trained[space.transitions] = 1
    arc_mask = np.zeros(graph.n_arcs, dtype=np.uint8)
    arc_mask[topology.kernel_arcs()] = trained[topology.arc_slot]
    return Learner(
        graph=graph,
        offsets=problem.offsets,
        design=problem.node,
        slots=np.ascontiguousarray(topology.node_slots),
        mask=mask.reshape(space.n_node_rows, space.width),
        arc_mask=arc_mask,
        ends=len(space.initial) > 0,
        gold=problem.states,
        weight=problem.weight,
    )


def online_parameters(space: ParameterSpace, theta: Floats) -> Parameters:
    """Lay theta out for the learner; what is forbidden is −inf."""
    tables = space.tables(theta)
    graph = space.topology.graph(tables.transition, tables.initial, tables.final)
    return Parameters(tables.node, graph.score.copy(), graph.initial.copy(), graph.final.copy())


def collect_parameters(space: ParameterSpace, parameters: Parameters) -> Floats:
    """Return the theta of which `parameters` is the layout."""
    transition = space.topology.arc_slot_sums(parameters.arc)
    return space.collect(
        Tables(parameters.table, transition, None, parameters.initial, parameters.final)
    )

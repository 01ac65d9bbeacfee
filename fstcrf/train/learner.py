"""A problem as the kernel's online learners see it.

====================  ==========================================================
online_learner        the learner of a problem
online_parameters     theta, laid out for it
collect_parameters    ... and back
Orders, shuffled      in which order the sentences of an epoch come
named_parameters      parameters as arrays of a checkpoint
restored_parameters   ... and back
====================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import Learner, Parameters
from fstcrf.train.problem import ParameterSpace, Problem, Tables

__all__ = [
    "Orders",
    "collect_parameters",
    "named_parameters",
    "online_learner",
    "online_parameters",
    "restored_parameters",
    "shuffled",
]

Floats = NDArray[np.float64]
Orders = Callable[[int], NDArray[np.int64]]
"""Number of an epoch, from 0 → int64 [B], the sentences in the order of their turn."""


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
    n_slots = topology.n_arc_slots
    graph = topology.graph(np.zeros(n_slots))
    mask = np.zeros(space.n_node_rows * space.width, dtype=np.uint8)
    mask[space.node_cells] = 1
    # Behind the slots: what arcs without one have, and what arcs that are not there have.
    arc_mask = np.zeros(n_slots + 2, dtype=np.uint8)
    arc_mask[space.transitions] = 1
    arc_slot = np.full(graph.n_arcs, n_slots + 1, dtype=np.int32)
    arc_slot[topology.kernel_arcs()] = np.where(topology.arc_slot < 0, n_slots, topology.arc_slot)
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
        arc_slot=arc_slot,
        label=topology.state_label,
    )


def online_parameters(space: ParameterSpace, theta: Floats) -> Parameters:
    """Lay theta out for the learner; what is forbidden is −inf."""
    tables = space.tables(theta)
    graph = space.topology.graph(tables.transition, tables.initial, tables.final)
    arc = np.concatenate([tables.transition, [0.0, -np.inf]])
    return Parameters(tables.node, arc, graph.initial.copy(), graph.final.copy())


def collect_parameters(space: ParameterSpace, parameters: Parameters) -> Floats:
    """Return the theta of which `parameters` is the layout."""
    return space.collect(
        Tables(parameters.table, parameters.arc, None, parameters.initial, parameters.final)
    )


def shuffled(seed: int, sentences: int) -> Orders:
    """Return orders that are drawn anew for each epoch."""

    def order(epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng((seed, epoch)).permutation(sentences)

    return order


def named_parameters(name: str, parameters: Parameters) -> dict[str, Floats]:
    """Return parameters as arrays of a checkpoint."""
    return {f"{name}.{i}": array for i, array in enumerate(parameters.arrays())}


def restored_parameters(name: str, state: Mapping[str, NDArray[Any]]) -> Parameters:
    """Return the parameters that `named_parameters` named."""
    return Parameters(*(state[f"{name}.{i}"] for i in range(4)))

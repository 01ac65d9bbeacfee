"""Feature counts of the gold paths: the constant half of the gradient.

=================  ========================================
observed_counts    how often each weight's feature occurs
frequent           the weights whose feature occurs enough
=================  ========================================
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.kernel import SparseRows
from fstcrf.train.problem import ParameterSpace, Problem

__all__ = ["frequent", "observed_counts"]

Floats = NDArray[np.float64]

_BLOCK = 20_000


def observed_counts(problem: Problem, space: ParameterSpace) -> Floats:
    """Return the feature counts of the sentences whose labels are all known, times their weight.

    Returns
    -------
    float64 [space.size]
    """
    topology, first, last = problem.topology, problem.offsets[:-1], problem.offsets[1:] - 1
    weight = np.where(problem.partial, 0.0, problem.weight)
    mass = weight[problem.sentence_of]
    known = np.flatnonzero(mass > 0)
    out = np.zeros(space.size)
    node, transition, arc, initial, final = space.parts(out)
    slots = topology.node_slots[problem.states[known]].astype(np.int64)
    for k in range(slots.shape[1]):
        _count(problem.node, known, slots[:, k], mass[known], space.node_cells, space.width, node)
    inner = known[~np.isin(known, first)]
    slot = _arc_slots(problem, inner)
    inner, slot = inner[slot >= 0], slot[slot >= 0]
    transition += np.bincount(slot, mass[inner], minlength=topology.n_arc_slots)[space.transitions]
    if problem.arc is not None and space.n_arc_rows:
        _count(problem.arc, inner, slot, mass[inner], space.arc_cells, space.arc_width, arc)
    for part, chosen, tokens in ((initial, space.initial, first), (final, space.final, last)):
        used = tokens[weight > 0]
        counts = np.bincount(problem.states[used], mass[used], minlength=topology.n_states)
        np.add(part, counts[chosen], out=part)
    return out


def frequent(problem: Problem, space: ParameterSpace, min_frequency: float) -> ParameterSpace:
    """Keep the weights whose feature occurs at least so often on gold paths.

    A feature is an attribute with a label (or pair of labels), a transition or an end. It counts
    with its value times the weight of the sentence, as CRFsuite's ``feature.minfreq`` does.

    Raises
    ------
    OptionError
        Labels that are not known: their features cannot be counted.
    """
    if problem.partial.any():
        first = int(np.flatnonzero(problem.partial)[0])
        raise OptionError(
            f"sentence {first} has labels that are not known: min_frequency cannot count them"
        )
    enough = observed_counts(problem, space) >= min_frequency
    node, transitions, arc, initial, final = (enough[i:j] for i, j in pairwise(space.bounds))
    return replace(
        space,
        node_cells=space.node_cells[node],
        transitions=space.transitions[transitions],
        arc_cells=space.arc_cells[arc],
        initial=space.initial[initial],
        final=space.final[final],
    )


def _arc_slots(problem: Problem, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Slot of the gold arc into each token, −1 for one without."""
    topology = problem.topology
    table = np.full((topology.n_states, topology.n_states), -1, dtype=np.int64)
    table[topology.source, topology.target] = topology.arc_slot
    return table[problem.states[tokens - 1], problem.states[tokens]]


def _count(
    design: SparseRows,
    tokens: NDArray[np.int64],
    slots: NDArray[np.int64],
    mass: Floats,
    cells: NDArray[np.int64],
    width: int,
    out: Floats,
) -> None:
    """Add up mass x value over the (attribute, slot) pairs of tokens; every pair is a cell.

    In blocks, because the list of occurrences is far longer than that of the pairs.
    """
    place = np.full(design.n_columns * width, -1, dtype=np.int32)
    place[cells] = np.arange(len(cells), dtype=np.int32)
    counts = np.diff(design.indptr)
    for begin in range(0, len(tokens), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        n = counts[tokens[part]]
        start = np.repeat(design.indptr[tokens[part]] - (np.cumsum(n) - n), n)
        entry = start + np.arange(int(n.sum()))
        cell = place[design.index[entry] * np.int64(width) + np.repeat(slots[part], n)]
        weight = np.repeat(mass[part], n)
        if design.value is not None:
            weight = weight * design.value[entry]
        kept = cell >= 0
        out += np.bincount(cell[kept], weight[kept], minlength=len(cells))

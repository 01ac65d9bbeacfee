"""Potentials of tokens as factors of a machine, a row for each combination of the labels they read.

=================  =====================================================================
input_factor       the place of potentials that sentences bring
table_factor       node potentials that all tokens share
coupling_factor    potentials of the labels that tapes have at one token
factor_values      potentials that sentences bring, as the kernel wants them
=================  =====================================================================

The *owner* of potentials is the tape that comes last among the axes of those they are about; where
it is the last axis, a row has a potential for each of its states, elsewhere a row is one state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.plans.axes import Axes
from fstcrf.plans.chain import Coupling, Input

__all__ = ["coupling_factor", "factor_values", "input_factor", "table_factor"]

Floats = NDArray[np.float64]


def table_factor(
    axes: Axes, context: tuple[str, ...], owner: str, value: Floats | None
) -> kernel.Factor:
    """Return node potentials, float64 [L of the context, ..., S of the owner]; None: moving."""
    sizes = axes.sizes(context)
    states = axes.chain[owner].topology.n_states
    rows = int(np.prod(sizes, dtype=np.int64))
    last = len(axes.order) - 1
    if owner == axes.order[-1]:
        place = axes.label_place(context, last)
        table = None if value is None else value.reshape(rows, states)
        return kernel.Factor(rows, states, place, _contiguous(table))
    own = axes.states_before(last)[axes.order.index(owner)]
    labels = [axes.outer_labels[t] for t in context]
    place = np.ravel_multi_index([*labels, own], [*sizes, states]).astype(np.int32)
    table = None if value is None else value.reshape(rows * states, 1)
    return kernel.Factor(rows * states, 1, place, _contiguous(table))


def input_factor(axes: Axes, what: Input) -> kernel.Factor:
    """Return the moving factor of potentials that sentences bring; not those of arcs."""
    context, owner, _ = _arranged(axes, what)
    return table_factor(axes, context, owner, None)


def coupling_factor(axes: Axes, coupling: Coupling) -> kernel.Factor | None:
    """Return the factor of a coupling; None where sentences bring its potentials."""
    if coupling.value is None:
        return None
    what = Input("coupling", coupling.tapes[0], coupling.tapes[1:])
    context, owner, order = _arranged(axes, what)
    value = coupling.value.transpose(order)[..., axes.chain[owner].topology.state_label]
    return table_factor(axes, context, owner, value)


def factor_values(axes: Axes, what: Input, values: Floats) -> Floats:
    """Return potentials that sentences bring, float64 [N, rows, width] of their factor."""
    _, owner, order = _arranged(axes, what)
    topology = axes.chain[owner].topology
    if what.kind == "coupling":
        values = values.transpose(0, *(a + 1 for a in order))
        values = values[..., topology.state_label]
    flat = values.reshape(len(values), -1, topology.n_states)
    if owner != axes.order[-1]:
        flat = flat.reshape(len(values), -1, 1)
    return np.ascontiguousarray(flat)


def _arranged(axes: Axes, what: Input) -> tuple[tuple[str, ...], str, tuple[int, ...]]:
    """Return context, owner and the order of the array's axes (behind the first)."""
    if what.kind == "node":
        return what.context, what.tape, tuple(range(len(what.context) + 1))
    tapes = (what.tape, *what.context)
    owner = axes.owner(tapes)
    context = tuple(t for t in tapes if t != owner)
    return context, owner, tuple(tapes.index(t) for t in (*context, owner))


def _contiguous(values: Floats | None) -> Floats | None:
    return None if values is None else np.ascontiguousarray(values)

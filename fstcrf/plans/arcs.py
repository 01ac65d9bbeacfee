"""Arcs and ends of the axes: the potentials of chains, with what grammars add to them.

================  =====================================================================
kernel_axis       a tape's chain as the kernel runs it: a full matrix, or arc by arc
arc_values        arc potentials that sentences bring, as the kernel wants them
end_potentials    potentials of beginning or ending in a joint state
================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.plans.axes import Axes
from fstcrf.plans.chain import Chain
from fstcrf.plans.folding import Folded, arc_ends

__all__ = ["arc_values", "end_potentials", "kernel_axis"]

Floats = NDArray[np.float64]

# A dense step handles several arcs in the time of one sparse arc (measured: 4 to 9).
_DENSE_ADVANTAGE = 5


def kernel_axis(axes: Axes, k: int, folded: Folded | None) -> kernel.Axis:
    """Return axis k for the kernel.

    Parameters
    ----------
    axes : Axes
    k : int
    folded : Folded, optional
        What grammars add to its chain.
    """
    chain = axes.chain[axes.order[k]]
    contexts = int(np.prod(axes.sizes(chain.arc_context), dtype=np.int64))
    place = axes.label_place(chain.arc_context, k)
    score = None
    if chain.arc is not None:
        score = _with_folded(chain.arc.reshape(contexts, -1), folded)
    source = target = None
    kept = _kept_arcs(chain, folded)
    if kept is not None:
        source, target = (e[kept].astype(np.int32) for e in arc_ends(chain.topology))
        score = None if score is None else np.ascontiguousarray(score[:, kept])
    return kernel.Axis(chain.topology.n_states, source, target, score, place, contexts)


def arc_values(chain: Chain, folded: Folded | None, values: Floats) -> Floats:
    """Return arc potentials that sentences bring, float64 [N, contexts, arcs of the axis].

    Parameters
    ----------
    chain : Chain
        Whose arcs they are.
    folded : Folded, optional
        What grammars add to it.
    values : float64 [N, L of the arc context, ..., kernel arcs]
    """
    flat = _with_folded(values.reshape(len(values), -1, chain.n_kernel_arcs), folded)
    kept = _kept_arcs(chain, folded)
    return np.ascontiguousarray(flat if kept is None else flat[:, :, kept])


def end_potentials(
    axes: Axes, folded: Mapping[str, Folded], end: Literal["initial", "final"]
) -> Floats:
    """Return the potentials of beginning (or ending) in every joint state, float64 [outer, S]."""
    total = np.zeros(axes.shape)
    for k, tape in enumerate(axes.order):
        value = getattr(axes.chain[tape], end)
        if tape in folded:
            value = value + getattr(folded[tape], end)
        total = total + value.reshape([-1 if a == k else 1 for a in range(len(axes.shape))])
    return np.ascontiguousarray(total.reshape(-1, axes.shape[-1]))


def _kept_arcs(chain: Chain, folded: Folded | None) -> NDArray[np.int64] | None:
    """Return the arcs of a sparse axis; None where a full matrix is faster."""
    topology = chain.topology
    legal = np.ones(chain.n_kernel_arcs, dtype=bool)
    if topology.dense:
        legal[:] = False
        legal[topology.kernel_arcs()] = True
    if folded is not None:
        legal &= folded.arc > -np.inf
    if not legal.any():
        return None if topology.dense else np.arange(1)
    if topology.dense and topology.n_states**2 <= _DENSE_ADVANTAGE * legal.sum():
        return None
    return np.flatnonzero(legal)


def _with_folded(arcs: Floats, folded: Folded | None) -> Floats:
    return np.ascontiguousarray(arcs) if folded is None else arcs + folded.arc

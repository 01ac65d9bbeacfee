"""What forward-backward says of a group of lattices beside the probabilities of labels.

=============  ===============================================================
successions    the probability of each succession of labels
label_maxima   the score of the best path through each label
entropies      the entropy of the distribution over paths
=============  ===============================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.lattice.batch import Group
from fstcrf.topology import Topology

__all__ = ["entropies", "label_maxima", "successions"]

Floats = NDArray[np.float64]


def successions(group: Group) -> dict[str, Floats]:
    """Return the probability of each succession of labels of each tape.

    Returns
    -------
    dict of str to float64 [N, L, L]
        Entry (n, i, j): label i at token n - 1 and label j at token n; the rows of first tokens
        mean nothing.

    Raises
    ------
    NoPathError
        A lattice without a path.
    """
    program, machine = group.program, group.bound.machine
    found = kernel.axis_posterior(group.bound, arcs=tuple(range(len(program.order))))
    group.check(found.log_z)
    out = {}
    for tape, axis, rows in zip(program.order, machine.axes, found.arc, strict=True):
        assert rows is not None  # noqa: S101 (asked for above)
        out[tape] = _label_pairs(program.chain[tape].topology, axis, rows)
    return out


def _label_pairs(topology: Topology, axis: kernel.Axis, rows: Floats) -> Floats:
    """Return the sums over the arcs between labels, float64 [N, L, L]."""
    size, label = topology.n_labels, topology.state_label
    source, target = _ends(axis)
    out = np.zeros((len(rows), size * size))
    for k, pair in enumerate((label[source] * size + label[target]).tolist()):
        out[:, pair] += rows[:, k]
    return out.reshape(-1, size, size)


def _ends(axis: kernel.Axis) -> tuple[NDArray[Any], NDArray[Any]]:
    if axis.source is not None and axis.target is not None:
        return axis.source, axis.target
    n = axis.n_states
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)


def label_maxima(group: Group) -> dict[str, Floats]:
    """Return the score of the best path through each label, float64 [N, L]; −inf: none."""
    found = kernel.axis_max_marginals(group.bound)
    return {
        tape: group.program.chain[tape].topology.label_max(states)
        for tape, states in zip(group.program.order, found, strict=True)
    }


def entropies(group: Group) -> Floats:
    """Return the entropy of each lattice's distribution over paths, in nats, float64 [B].

    Raises
    ------
    NoPathError
        A lattice without a path.
    """
    found = kernel.axis_posterior(group.bound, entropy=True)
    group.check(found.log_z)
    assert found.entropy is not None  # noqa: S101 (asked for above)
    return found.entropy

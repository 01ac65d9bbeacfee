"""Tapes whose labels are given, or free: chains without potentials.

==========  ======================================================
bare_chain  a chain in which every legal labelling scores 0
pinned      node potentials that leave each token one label
==========  ======================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.plans import Chain
from fstcrf.topology import Topology

__all__ = ["bare_chain", "pinned"]


def bare_chain(tape: str, topology: Topology) -> Chain:
    """Return the chain of a tape without potentials."""
    size = topology.n_states
    arc = np.full(size * size if topology.dense else len(topology.source), -np.inf)
    arc[topology.kernel_arcs()] = 0.0
    return Chain(
        tape,
        topology,
        np.where(topology.initial, 0.0, -np.inf),
        np.where(topology.final, 0.0, -np.inf),
        arc,
    )


def pinned(label: NDArray[np.int32], size: int) -> NDArray[np.float64]:
    """Return potentials of labels, float64 [N, size]: 0 for the given one, −inf for others."""
    out = np.full((len(label), size), -np.inf)
    out[np.arange(len(label)), label] = 0.0
    return out

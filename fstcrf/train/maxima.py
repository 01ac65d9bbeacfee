"""Best paths, max-marginals and forward maxima of a batch: what competitors are read off.

The score of the best path through a state of a token (its max-marginal) is what is best before and
at it, the forward maximum, plus what is best after it. Both together trace the best path through
any state, token by token; see `fstcrf.train.differences`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.train.batches import Batch, Potentials

__all__ = ["Maxima"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Maxima:
    """What is known of a batch at one theta; made by `of`.

    Parameters
    ----------
    batch : Batch
    potentials : Potentials
    arcs : float64 [S, S] or [n, S, S]
        Arc potentials, from row to column; −inf where there is no arc.
    best : int32 [n]
        States of the best path of each sentence.
    score : float64 [B]
        Its score.
    marginal : float64 [n, S]
        Score of the best path through each state.
    forward : float64 [n, S]
        Score of the best beginning that ends in each state of each token.
    ahead : float64 [n, S]
        Score of a token's state and the best of what can follow it.
    """

    batch: Batch
    potentials: Potentials
    arcs: Floats
    best: Ints
    score: Floats
    marginal: Floats
    forward: Floats
    ahead: Floats

    @classmethod
    def of(cls, batch: Batch, potentials: Potentials) -> Maxima:
        """Decode a batch."""
        graph = potentials.graph
        found = kernel.maxima(graph, batch.offsets, potentials.node)
        return cls(batch, potentials, _full(graph), *found)

    @cached_property
    def arcs_into(self) -> Floats:
        """float64 [S, S]: arc potentials, from column to row."""
        return np.ascontiguousarray(self.arcs.T)

    @cached_property
    def rival(self) -> tuple[Longs, Floats]:
        """int64 [n], float64 [n]: the best state of another label than gold, and its score."""
        batch = self.batch
        gold = batch.problem.topology.state_label[None, :] == batch.label[:, None]
        others = np.where(gold, -np.inf, self.marginal)
        state = others.argmax(axis=1)
        return state, others[np.arange(len(state)), state]


def _full(graph: kernel.Graph) -> Floats:
    """Lay arc potentials out from state to state."""
    states = graph.n_states
    if graph.source is None or graph.target is None:
        return graph.score.reshape(*graph.score.shape[:-1], states, states)
    full = np.full((*graph.score.shape[:-1], states, states), -np.inf)
    full[..., graph.source, graph.target] = graph.score
    return full

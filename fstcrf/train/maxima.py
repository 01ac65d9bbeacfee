"""Best paths, max-marginals and forward maxima of a batch: what competitors are read off.

The score of the best path through a state of a token (its max-marginal) is what is best before and
at it, the forward maximum, plus what is best after it. Both together trace the best path through
any state, token by token; see `fstcrf.train.differences`.

==============  =================================================
Maxima          what is known of a batch at one theta
forward_maxima  score of the best beginning that ends in a state
==============  =================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.train.batches import Batch, Potentials

__all__ = ["Maxima", "forward_maxima"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

_BLOCK = 512  # sentences that advance together


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
    """

    batch: Batch
    potentials: Potentials
    arcs: Floats
    best: Ints
    score: Floats
    marginal: Floats

    @classmethod
    def of(cls, batch: Batch, potentials: Potentials) -> Maxima:
        """Decode a batch."""
        graph, node = potentials.graph, potentials.node
        best, score = kernel.viterbi(graph, batch.offsets, node)
        marginal = kernel.max_marginals(graph, batch.offsets, node)
        return cls(batch, potentials, _full(graph), best, score, marginal)

    @cached_property
    def arcs_into(self) -> Floats:
        """float64 [S, S]: arc potentials, from column to row."""
        return np.ascontiguousarray(self.arcs.T)

    @cached_property
    def forward(self) -> Floats:
        """float64 [n, S]: score of the best beginning that ends in each state of each token."""
        graph = self.potentials.graph
        return forward_maxima(self.arcs, graph.initial, self.batch.offsets, self.potentials.node)

    @cached_property
    def ahead(self) -> Floats:
        """float64 [n, S]: score of a token's state and the best of what can follow it."""
        with np.errstate(invalid="ignore"):
            backward = self.marginal - self.forward + self.potentials.node
        return np.where(np.isneginf(self.marginal), -np.inf, backward)


def forward_maxima(
    arcs: Floats, initial: Floats, offsets: NDArray[np.int64], node: Floats
) -> Floats:
    """Return the score of the best beginning that ends in each state, float64 [n, S].

    Parameters
    ----------
    arcs : float64 [S, S] or [n, S, S]
    initial : float64 [S]
    offsets : int64 [B + 1]
    node : float64 [n, S]
    """
    out = np.empty_like(node)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    for begin in range(0, len(order), _BLOCK):
        part = order[begin : begin + _BLOCK]
        _advance(arcs, initial, offsets[part], lengths[part], node, out)
    return out


def _advance(
    arcs: Floats,
    initial: Floats,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    node: Floats,
    out: Floats,
) -> None:
    """Advance sentences of falling length together; states first, so that rows are long."""
    now = node[starts].T + initial[:, None]
    out[starts] = now.T
    for t in range(1, int(lengths[0])):
        tokens = starts[: int(np.searchsorted(-lengths, -t, side="left"))] + t
        if arcs.ndim == 2:
            now = _step(arcs, now[:, : len(tokens)])
        else:
            now = (arcs[tokens] + now.T[: len(tokens), :, None]).max(axis=1).T
        now += node[tokens].T
        out[tokens] = now.T


def _step(arcs: Floats, now: Floats) -> Floats:
    top: Floats = now[0] + arcs[0][:, None]
    trial = np.empty_like(top)
    for source in range(1, len(arcs)):
        np.add(now[source], arcs[source][:, None], out=trial)
        np.maximum(top, trial, out=top)
    return top


def _full(graph: kernel.Graph) -> Floats:
    """Lay arc potentials out from state to state."""
    states = graph.n_states
    if graph.source is None or graph.target is None:
        return graph.score.reshape(*graph.score.shape[:-1], states, states)
    full = np.full((*graph.score.shape[:-1], states, states), -np.inf)
    full[..., graph.source, graph.target] = graph.score
    return full

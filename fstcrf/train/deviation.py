"""The misclassification measure of whole sentences by all wrong paths, softly: finite psi.

    d = −g(y*) + (1 / psi) (log sum over y ≠ y* of exp(psi g(y)) − log A)

A is the number of wrong paths; without it, psi = 1 makes exp(d) the odds against the gold path. To
subtract the gold path from the sum over all paths would lose every digit where it has nearly all
of the sum. So it is left out of the lattice: a path follows the gold one, leaves it at some token,
and is free from there on. Three copies of the topology say so, with masks on their states: gold so
far (only gold states), just left (only others), free (all). Source: Suzuki, McDermott and Isozaki
(2006), equations 7 and 12.

=========  ==========================================
Deviation  the measure of each sentence, and its mass
=========  ==========================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.topology import Topology
from fstcrf.train.batches import Batch, Potentials
from fstcrf.train.differences import Mass

__all__ = ["Deviation"]

Floats = NDArray[np.float64]

_GOLD, _LEFT, _FREE = range(3)
_SUCCESSION = ((_GOLD, _GOLD), (_GOLD, _LEFT), (_LEFT, _FREE), (_FREE, _FREE))


class Deviation:
    """The measure of each sentence of a batch.

    Parameters
    ----------
    batch : Batch
    potentials : Potentials
    psi : float
        Above 0; the larger, the more the best wrong path counts alone.
    averaged : bool
        Divide by the number of wrong paths, A.

    Attributes
    ----------
    measure : float64 [B]
        d; −inf where there is no wrong path.
    """

    def __init__(self, batch: Batch, potentials: Potentials, *, psi: float, averaged: bool) -> None:
        self._batch, self._psi = batch, psi
        topology = batch.problem.topology
        self._copies = _Copies(topology)
        graph, node = potentials.graph, potentials.node
        self._graph = self._copies.graph(graph, psi)
        self._node = self._copies.node(batch, psi * node)
        wrong = kernel.log_partition(self._graph, batch.offsets, self._node)
        if averaged:
            flat = topology.graph(np.zeros(topology.n_arc_slots))
            wrong -= kernel.log_partition(
                self._copies.graph(flat, 1.0),
                batch.offsets,
                self._copies.node(batch, np.zeros_like(node)),
            )
        wrong = np.where(np.isneginf(wrong) | np.isnan(wrong), -np.inf, wrong)
        self.measure = wrong / psi - _gold_score(batch, potentials)

    def add_mass(self, slope: Floats, mass: Mass) -> None:
        """Add the derivative of sum of slope x d.

        Parameters
        ----------
        slope : float64 [B]
        mass : Mass
        """
        batch, states = self._batch, mass.node.shape[1]
        weight = np.where(np.isneginf(self.measure), 0.0, slope)
        found = kernel.forward_backward(self._graph, batch.offsets, self._node, weight=weight)
        node = found.node.reshape(len(found.node), 3, states).sum(axis=1)
        share = weight[batch.sentence_of]
        token, gold = np.arange(len(batch.state)), batch.state.astype(np.int64)
        node[token, gold] -= share
        mass.node += node
        mass.begin += node[batch.first].sum(axis=0)
        mass.end += node[batch.last].sum(axis=0)
        inner = np.flatnonzero(~batch.first)
        mass.add_arcs(inner, gold[inner - 1], gold[inner], -share[inner])
        arcs = self._copies.single(found.arc)
        source, target = self._copies.source, self._copies.target
        if arcs.ndim == 1:
            mass.add_arcs(np.zeros(len(source), dtype=np.int64), source, target, arcs)
            return
        arcs[batch.first] = 0.0
        into, which = np.nonzero(arcs)
        mass.add_arcs(into, source[which], target[which], arcs[into, which])


def _gold_score(batch: Batch, potentials: Potentials) -> Floats:
    """Score of the gold path of each sentence."""
    gold = np.full(potentials.node.shape, -np.inf)
    token = np.arange(len(batch.state))
    gold[token, batch.state] = potentials.node[token, batch.state]
    return kernel.viterbi(potentials.graph, batch.offsets, gold)[1]


class _Copies:
    """Three copies of a topology, one behind the other."""

    def __init__(self, topology: Topology) -> None:
        states = topology.n_states
        self._states = states
        self.source = topology.source.astype(np.int64)
        self.target = topology.target.astype(np.int64)
        self._kernel_arcs = topology.kernel_arcs()
        source = np.concatenate([self.source + a * states for a, _ in _SUCCESSION])
        target = np.concatenate([self.target + b * states for _, b in _SUCCESSION])
        self._order = np.lexsort((target, source))
        self._source = source[self._order].astype(np.int32)
        self._target = target[self._order].astype(np.int32)

    def graph(self, one: kernel.Graph, psi: float) -> kernel.Graph:
        """Return the graph of the copies, at psi times the potentials."""
        score = np.tile(psi * one.score[..., self._kernel_arcs], len(_SUCCESSION))
        shut = np.full(self._states, -np.inf)
        initial = np.concatenate([psi * one.initial, psi * one.initial, shut])
        final = np.concatenate([shut, psi * one.final, psi * one.final])
        return kernel.Graph(
            initial,
            final,
            np.ascontiguousarray(score[..., self._order]),
            self._source,
            self._target,
        )

    def node(self, batch: Batch, node: Floats) -> Floats:
        """Return the potentials of the copies' states, float64 [n, 3 S]."""
        gold = np.zeros(node.shape, dtype=bool)
        gold[np.arange(len(node)), batch.state] = True
        copies = np.where(gold, node, -np.inf), np.where(gold, -np.inf, node), node
        return np.concatenate(copies, axis=1)

    def single(self, arcs: Floats) -> Floats:
        """Add up the copies of each arc: [..., copies] → [..., arcs]."""
        unsorted = np.empty_like(arcs)
        unsorted[..., self._order] = arcs
        copies = unsorted.reshape(*arcs.shape[:-1], len(_SUCCESSION), -1)
        return np.asarray(copies.sum(axis=-2))

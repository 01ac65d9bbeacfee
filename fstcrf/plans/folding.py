"""Grammars that only look at neighbours become part of a chain; the rest stays an automaton.

==========  =====================================================================
Folded      scores that a chain's states and arcs get from grammars
fold        sort conjuncts: into chains, into couplings, and what is left
==========  =====================================================================

A conjunct over one tape in which each label leads to one state (`two_local`) is a table of
neighbouring labels: it is added to the arcs and costs nothing. One with a single state over several
tapes is a table of the labels at one token: a coupling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import LabelError
from fstcrf.grammar import Acceptor, minimise, simplified, trim, two_local
from fstcrf.plans.chain import Chain, Coupling
from fstcrf.topology import Topology

__all__ = ["Folded", "Folding", "arc_ends", "fold"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Folded:
    """What grammars add to the potentials of a chain; natural logs, −inf forbids.

    Parameters
    ----------
    initial, final : float64 [S]
    arc : float64 [kernel arcs]
    """

    initial: Floats
    final: Floats
    arc: Floats


@dataclass(frozen=True, eq=False)
class Folding:
    """Where the conjuncts of a grammar went.

    Parameters
    ----------
    chains : mapping of str to Folded
        By tape.
    couplings : tuple of Coupling
    rest : tuple of Acceptor
        What needs states of its own, as small as the rest of the composition lets it be.
    full : tuple of Acceptor
        The same, saying all that the grammar says.
    names : tuple of (str, str)
        For every conjunct, its name and where it went, for `Plan`.
    """

    chains: Mapping[str, Folded]
    couplings: tuple[Coupling, ...]
    rest: tuple[Acceptor, ...]
    full: tuple[Acceptor, ...]
    names: tuple[tuple[str, str], ...]


def fold(chains: Sequence[Chain], conjuncts: Sequence[Acceptor]) -> Folding:
    """Sort conjuncts by what they cost.

    Raises
    ------
    LabelError
        A conjunct reads a tape that is not there, or one with other labels.
    """
    known = {chain.name: chain for chain in chains}
    sorter = _Sorter(known)
    waiting = []
    for acceptor in conjuncts:
        _check_tapes(acceptor, known)
        if not sorter.fold(acceptor):
            waiting.append(acceptor)
    rest, full = [], []
    for acceptor in waiting:
        # Beside what has been folded, fewer states may do.
        small = minimise(trim(acceptor))
        if len(small.tapes) == 1:
            small = simplified(small, sorter.legal(small.tapes[0]))
        if not sorter.fold(small):
            rest.append(small)
            full.append(acceptor)
            sorter.names[acceptor.name] = f"kept as an automaton of {small.n_states} states"
    names = tuple((a.name, sorter.names[a.name]) for a in conjuncts)
    return Folding(sorter.folded, tuple(sorter.couplings), tuple(rest), tuple(full), names)


class _Sorter:
    """Folds conjuncts into chains and couplings."""

    def __init__(self, chains: Mapping[str, Chain]) -> None:
        self.chains = chains
        self.folded: dict[str, Folded] = {}
        self.couplings: list[Coupling] = []
        self.names: dict[str, str] = {}

    def fold(self, acceptor: Acceptor) -> bool:
        """Fold a conjunct, if that can be done."""
        tape = acceptor.tapes[0]
        local = two_local(acceptor)
        if local is not None:
            topology = self.chains[tape].topology
            first, last = local.initial[topology.state_label], local.final[topology.state_label]
            self._add(tape, Folded(first, last, _on_arcs(topology, local.transition)))
            self.names[acceptor.name] = f"folded into the arcs of {tape}"
            return True
        small = minimise(trim(acceptor))
        if small.n_states > 1 or small.final[0] == -np.inf:
            return False
        self.couplings.append(_coupling(small))
        if small.final[0] != 0.0:
            self._add(tape, _at_the_end(self.chains[tape], float(small.final[0])))
        self.names[acceptor.name] = "added to the potentials of tokens"
        return True

    def legal(self, tape: str) -> NDArray[np.bool_]:
        """Return which labels may be neighbours so far, start (last row) and end included."""
        chain = self.chains[tape]
        topology, size = chain.topology, len(chain.labels)
        folded = self.folded.get(tape, _at_the_end(chain, 0.0))
        there = np.zeros(chain.n_kernel_arcs, dtype=bool)
        there[topology.kernel_arcs()] = True
        source, target = (ends[there & (folded.arc > -np.inf)] for ends in arc_ends(topology))
        label = topology.state_label
        table = np.zeros((size + 1, size + 1), dtype=bool)
        table[label[source], label[target]] = True
        table[size, label[topology.initial & (folded.initial > -np.inf)]] = True
        table[label[topology.final & (folded.final > -np.inf)], size] = True
        return table

    def _add(self, tape: str, one: Folded) -> None:
        self.folded[tape] = _sum(self.folded[tape], one) if tape in self.folded else one


def _check_tapes(acceptor: Acceptor, known: Mapping[str, Chain]) -> None:
    for tape, labels in zip(acceptor.tapes, acceptor.labels, strict=True):
        if tape not in known:
            raise LabelError(
                f"the grammar {acceptor.name} reads the tape {tape!r}; there is "
                f"{', '.join(map(repr, known))}"
            )
        if labels != known[tape].labels:
            other = sorted(set(labels) ^ set(known[tape].labels))[:5]
            raise LabelError(
                f"the grammar {acceptor.name} was bound to other labels than the tape {tape!r} "
                f"has: {', '.join(other) or 'in another order'}"
            )


def _coupling(acceptor: Acceptor) -> Coupling:
    score = np.zeros(acceptor.target.shape[1:]) if acceptor.score is None else acceptor.score[0]
    return Coupling(acceptor.tapes, np.where(acceptor.target[0] >= 0, score, -np.inf))


def _at_the_end(chain: Chain, score: float) -> Folded:
    """Return a score that every labelling gets once."""
    states = chain.topology.n_states
    return Folded(np.zeros(states), np.full(states, score), np.zeros(chain.n_kernel_arcs))


def _on_arcs(topology: Topology, transition: Floats) -> Floats:
    source, target = arc_ends(topology)
    label = topology.state_label
    return np.ascontiguousarray(transition[label[source], label[target]])


def arc_ends(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return source and target of the arcs as the kernel numbers them."""
    if not topology.dense:
        return topology.source.astype(np.int64), topology.target.astype(np.int64)
    n = topology.n_states
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)


def _sum(a: Folded, b: Folded) -> Folded:
    return replace(a, initial=a.initial + b.initial, final=a.final + b.final, arc=a.arc + b.arc)

"""The product of a chain and an automaton as one chain of pairs of states.

States / Start / Final / Arcs
    A state of the chain and a state of the automaton that it reaches with the chain state's label;
    initial and final if both are; one arc for each chain arc that the automaton can follow.

If few states of the automaton are reachable with each label, as in language models of labels, in
tries and in counters, a token costs only the existing arcs, instead of all states of the automaton
times all arcs of the chain; and no search is necessary. It is compiled once for all sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, distinct
from fstcrf.machines.plans.chain import Chain
from fstcrf.machines.plans.folding import Folded, Folding, arc_ends
from fstcrf.machines.topology import Topology
from fstcrf.ragged import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fstcrf.machines.grammar import Acceptor

_ADVANTAGE = 5  # arcs that a dense step handles in the time of one sparse arc
_MOST_ARCS = 2_000_000


@dataclass(frozen=True, eq=False)
class Pairs:
    """The chain of pairs.

    Parameters
    ----------
    chain : Chain
    state : int64 [P]
        The state of the chain in each pair: the pair has its potentials.
    """

    chain: Chain
    state: Longs

    def values(self, parts: Sequence[Floats]) -> tuple[Floats, ...]:
        """Return the potentials of a sentence, [T, S], for pairs, [T, P]."""
        (node,) = parts
        return (node.take(self.state, axis=1),)


def pairs_of(chain: Chain, folding: Folding, most: int | None = None) -> Pairs | None:
    """Return the chain of pairs; None: there is nothing to fold, or it costs more than it spares.

    Parameters
    ----------
    chain : Chain
        The only chain.
    folding : Folding
        The part of the grammar inside the chain, and a remaining automaton.
    most : int, optional
        Limit of arcs, which replaces the comparison of costs.
    """
    plain = (chain.arc_context, chain.node_contexts, chain.tables) == ((), ((),), ())
    if len(folding.rest) != 1 or folding.couplings or chain.arc is None or not plain:
        return None
    folded = folding.chains.get(chain.name)
    states, size = chain.topology.n_states, folding.rest[0].n_states
    if most is None:
        most = min(_MOST_ARCS, size * states**2 // _ADVANTAGE)
    return _paired(chain, folded, folding.rest[0], most)


def _paired(chain: Chain, folded: Folded | None, acceptor: Acceptor, most: int) -> Pairs | None:
    """Return the chain of pairs if it has fewer than `most` arcs."""
    topology, size = chain.topology, acceptor.n_states
    assert chain.arc is not None  # noqa: S101 (it has been looked at)
    arc, first, last = chain.arc.reshape(-1), chain.initial, chain.final
    if folded is not None:
        arc, first, last = arc + folded.arc, first + folded.initial, last + folded.final
    legal = np.zeros(chain.n_kernel_arcs, dtype=bool)
    legal[topology.kernel_arcs()] = True
    legal &= arc > -np.inf
    source, target = (ends[legal] for ends in arc_ends(topology))
    arc, label = arc[legal], topology.state_label
    rows = Ragged.from_rows(source, topology.n_states)
    gain = np.zeros(acceptor.target.shape) if acceptor.score is None else acceptor.score
    begins = np.flatnonzero(topology.initial & (first > -np.inf))
    begins = begins[acceptor.target[0, label[begins]] >= 0]
    pairs = new = distinct(begins * size + acceptor.target[0, label[begins]])
    parts: list[tuple[Longs, Longs, Floats]] = []
    count = 0
    while len(new):
        state, at = np.divmod(new, size)
        ways = rows.select(state)
        count += ways.total
        if count >= most:
            return None
        way, before = ways.ranges(rows.offsets[state]), np.repeat(np.arange(len(new)), ways.lengths)
        reads = label[target[way]]
        after = acceptor.target[at[before], reads]
        there = after >= 0
        way, before, after = way[there], before[there], after[there]
        goes = target[way] * size + after
        parts.append((new[before], goes, arc[way] + gain[at[before], label[target[way]]]))
        reached = distinct(goes)
        new = np.setdiff1d(reached, pairs, assume_unique=True)
        pairs = distinct(pairs, new)
    if not parts or not len(pairs):
        return None
    source, target, score = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _chain_of(chain, acceptor, pairs, source, target, score, (first, last), begins)


def _chain_of(
    chain: Chain,
    acceptor: Acceptor,
    pairs: Longs,
    source: Longs,
    target: Longs,
    score: Floats,
    ends: tuple[Floats, Floats],
    begins: Longs,
) -> Pairs:
    """Return the chain of the reachable pairs, numbered like the states of the chain."""
    topology, size = chain.topology, acceptor.n_states
    state, at = np.divmod(pairs, size)
    order = np.lexsort((target, source))
    first, last = np.full(len(pairs), -np.inf), ends[1][state] + acceptor.final[at]
    reads = topology.state_label[begins]
    begun = np.searchsorted(pairs, begins * size + acceptor.target[0, reads])
    first[begun] = ends[0][begins] + (0.0 if acceptor.score is None else acceptor.score[0, reads])

    def number(ends: Longs) -> Ints:
        return np.searchsorted(pairs, ends[order]).astype(np.int32)

    met = Topology(
        labels=topology.labels,
        state_names=tuple(topology.state_names[s] for s in state.tolist()),
        state_label=topology.state_label[state],
        node_slots=topology.node_slots[state],
        node_slot_names=topology.node_slot_names,
        source=number(source),
        target=number(target),
        arc_slot=np.full(len(order), -1, dtype=np.int32),
        n_arc_slots=0,
        initial=first > -np.inf,
        final=topology.final[state] & (last > -np.inf),
    )
    kept = np.full(met.n_states**2 if met.dense else len(order), -np.inf)
    kept[met.kernel_arcs()] = score[order]
    last = np.where(met.final, last, -np.inf)
    return Pairs(Chain(chain.name, met, first, last, kept), state)

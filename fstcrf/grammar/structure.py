"""Grammars as part of a tagger's own structure: topology ∘ acceptor, made once, before training.

A tagger trained so normalises over what the grammar allows, and gives nothing else a probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import GrammarError
from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.algebra import intersect
from fstcrf.grammar.minimise import minimise
from fstcrf.topology import Topology

__all__ = ["constrained_topology"]

Ints = NDArray[np.int32]


def constrained_topology(topology: Topology, conjuncts: Sequence[Acceptor]) -> Topology:
    """Return the topology of the label sequences that a hard grammar accepts.

    States are pairs of a state and what the grammar remembers; all pairs of a state share its
    slots, all arcs between the same two states theirs.

    Parameters
    ----------
    topology : Topology
    conjuncts : sequence of Acceptor
        At least one, each over the topology's labels alone.

    Raises
    ------
    GrammarError
        A grammar with scores, or one that leaves nothing.
    """
    soft = [a.name for a in conjuncts if a.weighted]
    if soft:
        raise GrammarError(f"{soft[0]} has scores: only hard grammars can be trained under")
    whole = minimise(reduce(intersect, conjuncts))
    step, n = whole.target, whole.n_states
    label = topology.state_label
    begins = np.flatnonzero(topology.initial)
    after = step[0, label[begins]]
    # A pair (s, q) is s * n + q: in state s, its label read, the grammar in q.
    start = begins[after >= 0] * n + after[after >= 0]
    q = np.arange(n)
    onward = step[:, label[topology.target]].T  # [A, Q]
    arc, before = np.nonzero(onward >= 0)
    source = topology.source[arc].astype(np.int64) * n + q[before]
    target = topology.target[arc].astype(np.int64) * n + onward[arc, before]
    ends = (topology.final[:, None] & (whole.final > -np.inf)[None, :]).reshape(-1)
    useful = _useful(start, source, target, ends)
    if not useful.any():
        raise GrammarError(f"{whole.name} leaves no label sequence that the tagger could give")
    kept = useful[source] & useful[target]
    return _renumbered(topology, n, useful, start, source[kept], target[kept], arc[kept], ends)


def _useful(
    start: NDArray[np.int64],
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    ends: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which pairs lie on a way from the start to an end."""
    reached, alive = np.zeros(len(ends), dtype=bool), ends.copy()
    reached[start] = True
    for found, here, there in ((reached, source, target), (alive, target, source)):
        count = -1
        while count != found.sum():
            count = found.sum()
            found[there[found[here]]] = True
    useful: NDArray[np.bool_] = reached & alive
    return useful


def _renumbered(
    topology: Topology,
    n: int,
    useful: NDArray[np.bool_],
    start: NDArray[np.int64],
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    arc: NDArray[np.int64],
    ends: NDArray[np.bool_],
) -> Topology:
    pairs = np.flatnonzero(useful)
    number = np.full(len(useful), -1, dtype=np.int32)
    number[pairs] = np.arange(len(pairs))
    state, memory = np.divmod(pairs, n)
    order = np.lexsort((number[target], number[source]))
    slot = topology.arc_slot[arc[order]]
    used, compact = np.unique(slot[slot >= 0], return_inverse=True)
    arc_slot = np.full(len(slot), -1, dtype=np.int32)
    arc_slot[slot >= 0] = compact
    initial = np.zeros(len(pairs), dtype=bool)
    initial[number[start[useful[start]]]] = True
    several = len(np.unique(state)) < len(state)
    return Topology(
        labels=topology.labels,
        state_names=tuple(
            f"{topology.state_names[s]}#{q}" if several else topology.state_names[s]
            for s, q in zip(state.tolist(), memory.tolist(), strict=True)
        ),
        state_label=topology.state_label[state],
        node_slots=topology.node_slots[state],
        node_slot_names=topology.node_slot_names,
        source=number[source[order]],
        target=number[target[order]],
        arc_slot=arc_slot,
        n_arc_slots=len(used),
        initial=initial,
        final=ends[pairs],
    )

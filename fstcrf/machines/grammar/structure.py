"""Grammars and chains: which acceptors are tables of neighbours, and which states they need.

Tables of neighbours are folded into transitions; other acceptors need not remember labels that
transitions already forbid; and a topology may be multiplied by a grammar before training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, distinct
from fstcrf.errors import GrammarError, ShapeError
from fstcrf.machines.grammar.acceptor import Acceptor, intersect, minimise, trim
from fstcrf.machines.topology import Topology
from fstcrf.machines.ways import on_paths


@dataclass(frozen=True, eq=False)
class TwoLocal:
    """Scores of neighbours. All are natural logs; −inf forbids.

    Parameters
    ----------
    initial : float64 [L]
        Score of beginning with a label.
    transition : float64 [L, L]
        Score of a label (row) and the next (column).
    final : float64 [L]
        Score of ending with a label.
    """

    initial: Floats
    transition: Floats
    final: Floats


def two_local(acceptor: Acceptor) -> TwoLocal | None:
    """Return an acceptor as scores of neighbouring labels, if that is possible.

    It is possible if each label leads to the same state of the smallest acceptor from everywhere.
    The empty sentence, which has no neighbours, is ignored.

    Returns
    -------
    TwoLocal or None
        `None` if there are no such scores, and for acceptors of several tapes.
    """
    if len(acceptor.tapes) != 1:
        return None
    small = minimise(trim(acceptor))
    n_labels = small.target.shape[1]
    after = small.target.max(axis=0)
    if not ((small.target < 0) | (small.target == after)).all():
        return None
    step = np.zeros(small.target.shape) if small.score is None else small.score
    step = np.where(small.target >= 0, step, -np.inf)
    used = after >= 0
    transition = np.full((n_labels, n_labels), -np.inf)
    transition[used] = step[after[used]]
    final = np.full(n_labels, -np.inf)
    final[used] = small.final[after[used]]
    return TwoLocal(step[0].copy(), transition, final)


# --- What is forbidden anyway ---------------------------------------------------------------------
# Under a tagging scheme, an acceptor need not distinguish sequences that the scheme forbids:
# ``I-NP`` never follows ``O``, so an acceptor's state after it is irrelevant. Two states are merged
# if they, and the states they lead to, agree about every label that can follow.

MAX_STATES = 64
"""Larger acceptors are unchanged, because merging compares all pairs of states."""

_DEAD = -1


def simplified(acceptor: Acceptor, legal: Bools) -> Acceptor:
    """Return a smaller acceptor with the same scores for all legal sequences.

    Parameters
    ----------
    acceptor : Acceptor
        Of one tape; other acceptors are returned unchanged.
    legal : bool [L + 1, L + 1]
        Which label may follow which; the last row is the start of a sentence, the last column its
        end. Illegal sequences must be excluded elsewhere: the result gives them arbitrary scores.

    Raises
    ------
    ShapeError
        `legal` has another shape.
    """
    if len(acceptor.tapes) != 1:
        return acceptor
    size = len(acceptor.labels[0]) + 1
    if legal.shape != (size, size):
        raise ShapeError(f"legal is {list(legal.shape)}, expected {[size, size]}")
    small = minimise(trim(acceptor))
    if small.n_states > MAX_STATES:
        return small
    merging = _Merging.of(small, legal)
    # Most pairs are distinguished at once; other pairs may still be, by states they are merged
    # with.
    for first, second in np.argwhere(np.triu(~merging.distinguished(), 1)).tolist():
        merging = merging.merged(first, second) or merging
    return minimise(trim(merging.acceptor(small)))


@dataclass(frozen=True, eq=False)
class _Merging:
    """A partition of states, and the behaviour of its blocks for the labels that can follow."""

    block: Longs  # [Q]: block of each state, its smallest member
    following: Bools  # [Q, L + 1]: labels that can follow in a block; the last column is the end
    target: Ints  # [Q, L]: a state in the target block of each label, −1: rejected
    score: Floats  # [Q, L + 1]: score of the step, and of the end

    @classmethod
    def of(cls, acceptor: Acceptor, legal: Bools) -> _Merging:
        reached, live = _reachable(acceptor.target, acceptor.final, legal)
        following: Bools = reached @ legal
        labels = np.arange(acceptor.target.shape[1])
        kept = (acceptor.target >= 0) & live[acceptor.target, labels]
        step = np.zeros(kept.shape) if acceptor.score is None else acceptor.score
        return cls(
            block=np.arange(acceptor.n_states),
            following=following,
            target=np.where(kept, acceptor.target, _DEAD).astype(np.int32),
            score=np.column_stack([np.where(kept, step, -np.inf), acceptor.final]),
        )

    def distinguished(self) -> Bools:
        """Return the pairs of states that disagree, or lead to such pairs: bool [Q, Q]."""
        label = range(self.following.shape[1])
        both = [self.following[:, a, None] & self.following[None, :, a] for a in label]
        score = self.score.T
        pairs: Bools = np.logical_or.reduce(
            [m & (s[:, None] != s[None, :]) for m, s in zip(both, score, strict=True)]
        )
        while True:
            wider = pairs.copy()
            for m, target in zip(both, self.target.T, strict=False):
                onward = m & (target >= 0)[:, None] & (target >= 0)[None, :]
                wider |= onward & pairs[target[:, None], target[None, :]]
            if np.array_equal(wider, pairs):
                return pairs
            pairs = wider

    def merged(self, first: int, second: int) -> _Merging | None:
        """Return the partition with two states in one block, `None` if they disagree."""
        block, following = self.block.copy(), self.following.copy()
        target, score = self.target.copy(), self.score.copy()
        queue = [(first, second)]
        while queue:
            a, b = sorted(int(block[state]) for state in queue.pop())
            if a == b:
                continue
            both = following[a] & following[b]
            if (score[a, both] != score[b, both]).any():
                return None
            onward = both[:-1] & (target[a] >= 0)
            queue += zip(target[a, onward].tolist(), target[b, onward].tolist(), strict=True)
            new = following[b] & ~following[a]
            target[a, new[:-1]] = target[b, new[:-1]]
            score[a, new] = score[b, new]
            following[a] |= new
            block[block == b] = a
        return _Merging(block, following, target, score)

    def acceptor(self, original: Acceptor) -> Acceptor:
        """Return the acceptor of the blocks; labels that cannot follow are rejected."""
        kept = distinct(self.block)
        number = np.searchsorted(kept, self.block)
        following = self.following[kept]
        target = np.where(following[:, :-1], self.target[kept], _DEAD)
        score = np.where(following, self.score[kept], -np.inf)
        step = np.where(target >= 0, score[:, :-1], 0.0)
        return replace(
            original,
            target=np.where(target >= 0, number[target], _DEAD).astype(np.int32),
            score=None if original.score is None else step,
            final=score[:, -1],
        )


def _reachable(target: Ints, final: Floats, legal: Bools) -> tuple[Bools, Bools]:
    """Follow legal sequences; both results are bool [Q, L + 1].

    The first marks states reached with that previous label (last column: at the start) from which
    an end is reachable. The second marks states from which an end is reachable after that label.
    """
    n_states, size = target.shape
    labels = np.arange(size)
    step = target >= 0
    live = (final[:, None] > -np.inf) & legal[None, :, size]
    while True:
        # A label can follow if it is legal and leads to a state from which an end is reachable.
        ahead = step & live[target, labels]
        wider = live | (ahead @ legal[:, :size].T)
        if np.array_equal(wider, live):
            break
        live = wider
    reached = np.zeros((n_states, size + 1), dtype=bool)
    reached[0, size] = live[0, size]
    while True:
        wider = reached.copy()
        taken = (reached @ legal[:, :size]) & ahead
        states, reads = np.nonzero(taken)
        wider[target[states, reads], reads] = True
        if np.array_equal(wider, reached):
            return reached & live, live
        reached = wider


# --- Topology ∘ acceptor --------------------------------------------------------------------------
# A tagger trained with such a topology normalises over the legal sequences, and gives all others
# the probability 0.


def constrained_topology(topology: Topology, conjuncts: Sequence[Acceptor]) -> Topology:
    """Return the topology of the label sequences that a hard grammar accepts.

    States are pairs of a topology state and a grammar state; all pairs of a topology state share
    its slots, and all arcs between the same two topology states share theirs.

    Parameters
    ----------
    topology : Topology
    conjuncts : sequence of Acceptor
        At least one, each over the topology's labels only.

    Raises
    ------
    GrammarError
        A grammar with scores, or one that leaves no label sequence.
    """
    soft = [a.name for a in conjuncts if a.weighted]
    if soft:
        raise GrammarError(f"{soft[0]} has scores: only hard grammars can be trained under")
    grammar = minimise(reduce(intersect, conjuncts))
    step, n = grammar.target, grammar.n_states
    label = topology.state_label
    begins = np.flatnonzero(topology.initial)
    after = step[0, label[begins]]
    # A pair (s, q) has the number s * n + q: in state s, after its label is read, the grammar in q.
    start = begins[after >= 0] * n + after[after >= 0]
    q = np.arange(n)
    onward = step[:, label[topology.target]].T  # [A, Q]
    arc, before = np.nonzero(onward >= 0)
    source = topology.source[arc].astype(np.int64) * n + q[before]
    target = topology.target[arc].astype(np.int64) * n + onward[arc, before]
    ends = (topology.final[:, None] & (grammar.final > -np.inf)[None, :]).reshape(-1)
    kept, useful = on_paths(source, target, ends, starts=start)
    if not useful.any():
        raise GrammarError(f"{grammar.name} leaves no label sequence that the tagger could give")
    made = _renumbered(topology, n, useful, start, source[kept], target[kept], arc[kept], ends)
    return replace(made, empty=topology.empty and bool(grammar.final[0] > -np.inf))


def _renumbered(
    topology: Topology,
    n: int,
    useful: Bools,
    start: Longs,
    source: Longs,
    target: Longs,
    arc: Longs,
    ends: Bools,
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
    several = len(distinct(state)) < len(state)
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

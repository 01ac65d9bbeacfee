"""Arcs over stretches of text as flat arrays: lattices of segments, and what is made of them.

States / Start / Final / Arcs
    Nodes, each at a position of the text, several where a grammar was multiplied in; start at
    position 0, final nodes at the end; an arc passes the tokens between two nodes.

An arc begins a segment or carries one on. Neighbouring arcs score as a pair of classes, see
`fstcrf.kernel.paired`. A product with an acceptor, or with a lattice of tokens, is again such
arrays, with the number of the arc that each one came from.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import TooLargeError
from fstcrf.kernel.acyclic import connected
from fstcrf.kernel.paired import Paired, PairedArcs, PairScores, arranged
from fstcrf.lattices.machines import JointArrays
from fstcrf.machines.grammar import Acceptor
from fstcrf.ragged import Ragged

Over: TypeAlias = Literal["segments", "tokens"]
"""What a grammar reads: a label for each segment, or one for each token."""

MOST_ARCS = 30_000_000
"""Arcs, and pairs of classes, of a lattice that is written out."""


@dataclass(frozen=True, eq=False)
class SegmentArcs:
    """A lattice over T tokens: M nodes, A arcs, in the order of `arranged`.

    Parameters
    ----------
    position : int64 [M]
        Of each node in the text, ascending; node 0 is the start.
    source, target : int32 [A]
        Nodes; the position of the second is above that of the first.
    label : int32 [A]
        Of the segment that begins with the arc; −1: none does.
    under : int32 [A]
        The label of its tokens.
    carries : bool [A]
        It carries on what the arc before it began.
    left, right : int32 [A]
        Classes for pair scores.
    score : float64 [A]
    origin : int64 [A]
        The arc that was given, of those that begin one; −1: none.
    state : int32 [A]
        State of the token in a lattice of tokens; −1: none was multiplied in.
    final : float64 [M]
        −inf: no path ends there.
    class_final : float64 [R]
    pairs : PairScores
    per_position : bool
        The table of pairs of a node is that of its position, not the only one.
    """

    position: Longs
    source: Ints
    target: Ints
    label: Ints
    under: Ints
    carries: Bools
    left: Ints
    right: Ints
    score: Floats
    origin: Longs
    state: Ints
    final: Floats
    class_final: Floats
    pairs: PairScores
    per_position: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the kernel's structures behind: they are made again."""
        return SegmentArcs, tuple(getattr(self, part.name) for part in fields(self))

    @property
    def tokens(self) -> Longs:
        """Tokens that each arc passes, int64 [A]."""
        return self.position[self.target] - self.position[self.source]

    @cached_property
    def machine(self) -> Paired:
        """The arrays as the kernel has them."""
        return machine_of([self])

    @cached_property
    def furthest(self) -> int:
        """The last position that a path from the start reaches; what follows it is dead."""
        alive = self.score > -np.inf
        row = Ragged.from_rows(self.source[alive], len(self.position)).offsets
        everywhere = np.ones(len(self.position), dtype=bool)
        reached = connected(row, self.target[alive], 0, everywhere)
        return int(self.position[reached].max())

    def with_arcs(self, keep: Bools | NDArray[np.integer]) -> SegmentArcs:
        """Return some of the arcs."""
        names = ("source", "target", "label", "under", "carries", "left", "right", "score")
        return replace(
            self, **{name: getattr(self, name)[keep] for name in (*names, "origin", "state")}
        )


def machine_of(parts: list[SegmentArcs]) -> Paired:
    """Return the machine of lattices with the same pair scores, one behind the other."""
    if len(parts) == 1 and not parts[0].per_position:
        only = parts[0]
        arcs = PairedArcs(only.source, only.target, only.left, only.right, only.score)
        start = np.zeros(1, dtype=np.int64)
        return Paired(len(only.position), arcs, only.final, only.class_final, only.pairs, start)
    shift = Ragged.from_lengths(len(p.position) for p in parts).offsets

    def nodes(name: str) -> Ints:
        moved = [getattr(p, name) + s for p, s in zip(parts, shift.tolist(), strict=False)]
        return np.concatenate(moved).astype(np.int32)

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(p, name) for p in parts])

    first = parts[0]
    arcs = PairedArcs(
        nodes("source"), nodes("target"), joined("left"), joined("right"), joined("score")
    )
    table = None
    if first.per_position:
        last = len(first.pairs.pair) - 1
        table = np.minimum(joined("position"), last).astype(np.int32)
    return Paired(
        int(shift[-1]), arcs, joined("final"), first.class_final, first.pairs, shift[:-1], table
    )


def in_order(arcs: SegmentArcs) -> SegmentArcs:
    """Return the arcs in the order in which machines have them."""
    order = arranged(PairedArcs(arcs.source, arcs.target, arcs.left, arcs.right, arcs.score))
    return arcs.with_arcs(order)


def trimmed(arcs: SegmentArcs) -> SegmentArcs:
    """Return what lies on a path; of the nodes, node 0 stays in any case."""
    arcs = arcs.with_arcs(arcs.score > -np.inf)
    order = np.argsort(arcs.source, kind="stable")
    row = Ragged.from_rows(arcs.source[order], len(arcs.position)).offsets
    keep = connected(row, arcs.target[order], 0, arcs.final > -np.inf)
    left = keep[arcs.source] & keep[arcs.target]
    keep[0] = True
    number = (np.cumsum(keep) - 1).astype(np.int32)
    arcs = arcs.with_arcs(left)
    return in_order(
        replace(
            arcs,
            position=arcs.position[keep],
            final=arcs.final[keep],
            source=number[arcs.source],
            target=number[arcs.target],
        )
    )


# --- Under a grammar ------------------------------------------------------------------------------


def check_size(arcs: int, what: str) -> None:
    """Refuse to write out too many arcs."""
    if arcs > MOST_ARCS:
        raise TooLargeError(
            f"{what} has {arcs:,} arcs, too many to write out: restrict the lattice, or constrain "
            "fewer labels at once"
        )


def accepted(
    arcs: SegmentArcs, acceptor: Acceptor, symbol: Longs, times: Longs | None
) -> SegmentArcs:
    """Return the product with an acceptor, trimmed.

    Parameters
    ----------
    arcs : SegmentArcs
    acceptor : Acceptor
    symbol : int64 [A]
        What it reads at each arc, an index into its flattened labels; −1: nothing.
    times : int64 [A] or None
        How many times; once where absent.
    """
    states = acceptor.n_states
    check_size(len(arcs.source) * states, f"the product with {acceptor.name}")
    after, gain = acceptor_steps(acceptor, symbol, times)
    arc, state = np.nonzero(after >= 0)
    moved = arcs.with_arcs(arc)
    product = replace(
        moved,
        position=np.repeat(arcs.position, states),
        final=(arcs.final[:, None] + acceptor.final).reshape(-1),
        source=(moved.source.astype(np.int64) * states + state).astype(np.int32),
        target=(moved.target.astype(np.int64) * states + after[arc, state]).astype(np.int32),
        score=moved.score + gain[arc, state],
    )
    return trimmed(product)


def acceptor_steps(acceptor: Acceptor, symbol: Longs, times: Longs | None) -> tuple[Longs, Floats]:
    """State behind each arc for each state before it, [A, Q], −1: rejected, and what it scores."""
    states = acceptor.n_states
    target = acceptor.target.reshape(states, -1).astype(np.int64)
    score = np.zeros(target.shape) if acceptor.score is None else acceptor.score.reshape(states, -1)
    after = np.tile(np.arange(states), (len(symbol), 1))
    gain = np.zeros(after.shape)
    left = (symbol >= 0).astype(np.int64) if times is None else np.where(symbol >= 0, times, 0)
    while (left > 0).any():
        reading = np.flatnonzero(left > 0)
        read, before = symbol[reading][:, None], after[reading]
        alive = before >= 0
        gain[reading] += np.where(alive, score[before, read], 0.0)
        after[reading] = np.where(alive, target[before, read], -1)
        left[reading] -= 1
    return after, gain


# --- With a lattice of tokens ---------------------------------------------------------------------


def composed(arcs: SegmentArcs, joint: JointArrays, coupling: Floats) -> SegmentArcs:
    """Return the product with a lattice of tokens: an arc for each token, segment and state.

    Parameters
    ----------
    arcs : SegmentArcs
    joint : JointArrays
        The lattice of tokens, multiplied out to S states.
    coupling : float64 [L, S]
        Potentials of a token's state under a label.
    """
    states, times = joint.node.shape[1], len(joint.step)
    tables = times if joint.per_token else 1
    _, right, left = arcs.pairs.pair.shape
    check_size(tables * (right * states + 1) * (left + 1) * states, "the composition's pair table")
    pieces = _pieces(arcs)
    check_size(len(pieces.source) * states, "the composition")
    state = np.tile(np.arange(states, dtype=np.int32), len(pieces.source))
    piece = np.repeat(np.arange(len(pieces.source)), states)
    under, token = pieces.under[piece], pieces.position[pieces.source[piece]]
    score = pieces.score[piece] + joint.node[token, state] + coupling[under, state]
    every = pieces.with_arcs(piece)
    return trimmed(
        replace(
            every,
            state=state,
            score=score,
            left=every.left * np.int32(states) + state,
            right=every.right * np.int32(states) + state,
            class_final=np.append(
                (np.append(arcs.class_final[:-1], 0.0)[:, None] + joint.final).reshape(-1),
                arcs.class_final[-1] + joint.empty,
            ),
            pairs=_joint_pairs(arcs, joint),
            per_position=joint.per_token,
        )
    )


def _pieces(arcs: SegmentArcs) -> SegmentArcs:
    """Cut arcs into tokens; arcs to one node with one label share what is behind their first token.

    Nodes within arcs come in the order of their positions. Inner classes stand behind those of the
    lattice: on the left they are one more, on the right that of beginnings.
    """
    _, right, left = arcs.pairs.pair.shape
    labels, length = int(arcs.under.max(initial=0)) + 1, int(arcs.position.max()) + 1
    size, end = arcs.tokens, arcs.position[arcs.target]
    tail = (arcs.target.astype(np.int64) * labels + arcs.under) * right + arcs.right
    rest = tail * length  # and the position of the node: what is within arcs with the same end
    long = np.flatnonzero(size > 1)
    inner = rest[long] + arcs.position[arcs.source[long]] + 1
    check_size(int(size[long].sum()), "the composition")
    within = Ragged.from_lengths(size[long] - 1)
    keys, where = np.unique(within.ranges(inner), return_index=True)
    arc = long[
        within.rows()[where]
    ]  # any arc that passes there: what is read of it is the same for all
    place = keys % length
    nodes = len(arcs.position)
    by_place = np.argsort(np.concatenate([arcs.position, place]), kind="stable")
    number = np.empty(len(by_place), dtype=np.int32)
    number[by_place] = np.arange(len(by_place))
    begin = number[nodes + np.searchsorted(keys, inner)]
    first_target, first_right = number[arcs.target], arcs.right.copy()
    first_target[long], first_right[long] = begin, right - 1
    last = place + 1 == end[arc]
    following = np.searchsorted(keys, np.where(last, 0, keys + 1))
    following = nodes + np.minimum(following, max(len(keys) - 1, 0))
    on = number[np.where(last, arcs.target[arc], following)] if len(keys) else arc.astype(np.int32)
    count = len(keys)
    none = np.full(count, -1, dtype=np.int32)
    return replace(
        arcs,
        position=np.concatenate([arcs.position, place])[by_place],
        final=np.concatenate([arcs.final, np.full(count, -np.inf)])[by_place],
        source=np.concatenate([number[arcs.source], number[nodes:]]),
        target=np.concatenate([first_target, on]),
        label=np.concatenate([arcs.label, none]),
        under=np.concatenate([arcs.under, arcs.under[arc]]),
        carries=np.concatenate([arcs.carries, np.ones(count, dtype=bool)]),
        left=np.concatenate([arcs.left, np.full(count, left, dtype=np.int32)]),
        right=np.concatenate(
            [first_right, np.where(last, arcs.right[arc], right - 1).astype(np.int32)]
        ),
        score=np.concatenate([arcs.score, np.zeros(count)]),
        origin=np.concatenate([arcs.origin, none.astype(np.int64)]),
        state=np.concatenate([arcs.state, none]),
    )


def _joint_pairs(arcs: SegmentArcs, joint: JointArrays) -> PairScores:
    """Pair scores of (class, state): those of segments between them, nothing but steps within."""
    pair = arcs.pairs.pair[0]
    right, left = pair.shape
    states = joint.node.shape[1]
    tables = len(joint.step)
    table = np.full((max(tables, 1), right * states + 1, (left + 1) * states), -np.inf)
    for k in range(tables):
        inner = table[k, : right * states, :].reshape(right, states, left + 1, states)
        step = joint.step[k]
        inner[:-1, :, :-1] = pair[:-1, None, :, None] + step[None, :, None, :]
        inner[-1, :, -1] = step
        table[k, -1, : left * states] = (pair[-1, :, None] + joint.initial).reshape(-1)
    return PairScores(table)


# --- Paths ----------------------------------------------------------------------------------------


def segments_of(
    arcs: SegmentArcs, path: NDArray[np.integer]
) -> tuple[tuple[list[int], list[int], list[int]], Longs]:
    """Return starts, ends and labels of the segments along a path, and its arcs that begin them."""
    if not len(path):
        return ([], [], []), np.zeros(0, dtype=np.int64)
    begins = np.flatnonzero(~arcs.carries[path])
    ends = np.append(begins[1:], len(path)) - 1
    start = arcs.position[arcs.source[path[begins]]]
    end = arcs.position[arcs.target[path[ends]]]
    label = arcs.label[path[begins]]
    named = label >= 0
    found = start[named].tolist(), end[named].tolist(), label[named].tolist()
    return found, path[begins[named]].astype(np.int64)


def spread(arcs: SegmentArcs, share: Floats, length: int, labels: int) -> Floats:
    """Return the sum of what arcs have over the arcs above each token, by label, [T, L]."""
    change = np.zeros((length + 1) * labels)
    under = arcs.under.astype(np.int64)
    start, end = arcs.position[arcs.source], arcs.position[arcs.target]
    size = len(change)
    change += np.bincount(start * labels + under, weights=share, minlength=size)
    change -= np.bincount(end * labels + under, weights=share, minlength=size)
    return np.cumsum(change.reshape(length + 1, labels), axis=0)[:-1]


def within(arcs: SegmentArcs, value: Floats) -> Floats:
    """Return the sum of a value [T, L] over the tokens of each arc, [A]."""
    total = np.zeros((len(value) + 1, value.shape[1]))
    np.cumsum(value, axis=0, out=total[1:])
    start, end = arcs.position[arcs.source], arcs.position[arcs.target]
    return total[end, arcs.under] - total[start, arcs.under]


def pairs_of(
    classes: int, transitions: Floats | None, initial: Floats | None, final: Floats | None
) -> tuple[PairScores, Floats]:
    """Return pair scores and finals of classes that score as they follow one another."""
    pair = np.zeros((1, classes + 1, classes))
    if transitions is not None:
        pair[0, :-1] = transitions
    if initial is not None:
        pair[0, -1] = initial
    ending = np.zeros(classes + 1)
    if final is not None:
        ending[:-1] = final
    return PairScores(pair), ending


def crossed(arcs: SegmentArcs, places: Longs) -> Bools:
    """Return which arcs pass over any of some positions, bool [A]."""
    last = max(int(arcs.position.max()), int(places.max(initial=0)))  # paths may end before places
    before = np.zeros(last + 2, dtype=np.int64)
    before[places + 1] = 1
    before = np.cumsum(before)  # places below each position
    start, end = arcs.position[arcs.source], arcs.position[arcs.target]
    return before[end] > before[start + 1]

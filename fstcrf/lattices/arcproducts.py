"""Products of arcs: with what their paths are to say, and with the arcs of another lattice.

What is the same for every path, as a labelling or boundaries, takes arcs away or counts what was
read. Two lattices beside each other are cut into tokens first: a pair of arcs for each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Array, Bools, Floats, Ints, Longs
from fstcrf.errors import OptionError
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.arcs import TAPED, Arcs, check_size
from fstcrf.lattices.engine import Coupling
from fstcrf.ragged import Ragged

_FREE, _CARRIED = -1, -2
"""In place of a label: the arc begins nothing, or carries something on."""

# --- Some of the paths ----------------------------------------------------------------------------


def exactly(arcs: Arcs, tape: int, start: Longs, end: Longs, label: Longs) -> Arcs:
    """Return the paths of the only row on which these facts, and no others, are on a tape.

    That arcs say only these is not that they say all of them: a path may end before the last.
    """
    length = int(max(arcs.position.max(), end.max(initial=0)))
    wanted, covered = np.full(length + 1, _FREE), np.zeros(length + 1, dtype=np.int64)
    np.add.at(covered, start, 1)
    np.add.at(covered, end, -1)
    wanted[Ragged.from_lengths(end - start).ranges(start)] = _CARRIED
    wanted[start] = label
    reads = np.where(arcs.carries[:, tape], _CARRIED, arcs.label[:, tape])
    keep = reads == wanted[arcs.position[arcs.source]]
    keep |= arcs.tokens == 0
    keep &= ~_crossed(arcs, np.concatenate([start, end]))
    if (np.cumsum(covered) > 1).any():
        keep[:] = False
    last = int(end.max(initial=0))
    final = np.where(arcs.position >= last, arcs.final, -np.inf)
    return replace(arcs.with_arcs(keep), final=final)


def spelling(arcs: Arcs, tape: int, labels: Sequence[int]) -> Arcs:
    """Return the paths on which these labels, and no others, are on a tape, one by one.

    By pairs (node, labels read), of those arcs alone that read the next one.
    """
    read, width = arcs.label[:, tape], len(labels) + 1
    reading = [np.flatnonzero(read == label) for label in labels]
    free = np.flatnonzero(read < 0)
    taken = np.concatenate([*reading, *[free] * width])
    ahead = np.concatenate(
        [
            Ragged.from_lengths(map(len, reading)).rows(),
            np.repeat(np.arange(width), len(free)),
        ]
    )
    moved, final = arcs.with_arcs(taken), np.full((len(arcs.final), width), -np.inf)
    final[:, -1] = arcs.final
    source = moved.source.astype(np.int64) * width + ahead
    target = moved.target.astype(np.int64) * width + ahead + (read[taken] >= 0)
    return replace(
        moved,
        begins=arcs.begins * width,
        at=None if arcs.at is None else np.repeat(arcs.at, width),
        final=final.reshape(-1),
        source=source.astype(np.int32),
        target=target.astype(np.int32),
    ).in_order()


def bounded(arcs: Arcs, wanted: Longs) -> Arcs:
    """Return the paths of the only row by boundaries: 1 must, −1 must not be one, [T + 1]."""
    here = wanted[arcs.position[arcs.source]]
    inside = (arcs.position[arcs.source] > 0) & (arcs.tokens > 0)
    keep = ~_crossed(arcs, np.flatnonzero(wanted == 1))
    keep &= ~(inside & np.where(arcs.carries[:, 0], here == 1, here == -1))
    none = np.flatnonzero(wanted[:-1] == -1)  # something goes on there: no path ends before
    final = np.where(arcs.position > none.max(initial=-1), arcs.final, -np.inf)
    return replace(arcs.with_arcs(keep), final=final)


def _crossed(arcs: Arcs, places: Longs) -> Bools:
    """Tell which arcs pass over any of some positions, bool [A]."""
    last = max(int(arcs.position.max()), int(places.max(initial=0)))
    before = np.zeros(last + 2, dtype=np.int64)  # paths may end before places
    before[places + 1] = 1
    before = np.cumsum(before)  # places below each position
    start, end = arcs.position[arcs.source], arcs.position[arcs.target]
    return before[end] > before[start + 1]


# --- Two lattices ---------------------------------------------------------------------------------


def beside(left: Arcs, right: Arcs, coupling: Coupling) -> Arcs:
    """Return the pairs of paths over the same tokens, trimmed: an arc for each two at a token.

    Parameters
    ----------
    left, right : Arcs
        The tapes of the second come behind.
    coupling : mapping of (int, int) to float64 [L1, L2] or [T, L1, L2]
        Potentials of labels at a token, of an only row at each, by the numbers of two tapes.
    """
    if all(arcs.pairs is None and (arcs.tokens <= 1).all() for arcs in (left, right)):
        return _plain(left, right, coupling)
    one, two = (
        _pieces(_paired(own, empty=_may_be_empty(other)))
        for own, other in ((left, right), (right, left))
    )
    assert one.pairs is not None  # noqa: S101
    assert two.pairs is not None  # noqa: S101
    (tables, r1, l1), (more, r2, l2) = one.pairs.pair.shape, two.pairs.pair.shape
    size = max(tables, more) * ((r1 - 1) * (r2 - 1) + 1) * l1 * l2
    check_size(size, "the composition's pair table")
    first, second = _together(one.boundary, two.boundary)
    node = first * len(two.final) + second  # ascending
    a, b = _together(one.boundary[one.source], two.boundary[two.source])

    def number(x: NDArray[np.integer], y: NDArray[np.integer]) -> Longs:
        return np.searchsorted(node, x.astype(np.int64) * len(two.final) + y)

    score, token = one.score[a] + two.score[b], one.position[one.source[a]]
    for (x, y), table in coupling.items():
        above, below = one.under[a, x], two.under[b, y - one.tapes]
        named = (above >= 0) & (below >= 0)
        place = (above, below) if table.ndim == 2 else (token, above, below)
        score = score + np.where(named, table[place], 0.0)
    taped = {
        name: np.column_stack([getattr(one, name)[a], getattr(two, name)[b]]) for name in TAPED
    }
    texts = one.texts if one.texts is not None else two.texts
    ends = (one.class_final[:-1, None] + two.class_final[:-1]).reshape(-1)
    return Arcs(
        texts=texts,
        begins=number(one.begins, two.begins),
        at=None if texts is None else one.position[first],
        final=one.final[first] + two.final[second],
        source=number(one.source[a], two.source[b]).astype(np.int32),
        target=number(one.target[a], two.target[b]).astype(np.int32),
        left=one.left[a] * np.int32(l2) + two.left[b],
        right=one.right[a] * np.int32(r2 - 1) + two.right[b],
        score=score,
        origin=one.origin[a],
        class_final=np.append(ends, one.class_final[-1] + two.class_final[-1]),
        pairs=one.pairs.beside(two.pairs),
        per_position=one.per_position or two.per_position,
        end=np.column_stack([one.ends[a], two.ends[b]]),
        moves=_moves_beside(one, two, a, b),
        **taped,
    ).trimmed()


def _plain(one: Arcs, two: Arcs, coupling: Coupling) -> Arcs:
    """Return the pairs of paths of lattices without pairs; arcs of either may read nothing.

    Between two tokens the first goes through all such arcs of its own before the second does, so
    that two paths are one pair: a node is where both are, and whether the second has begun to.
    """
    first, second = _together(one.boundary, two.boundary)
    width = len(two.final)
    node = np.repeat(first * width + second, 2)
    node[:] = 2 * node + np.tile([0, 1], len(first))  # ascending

    def number(x: NDArray[np.integer], y: NDArray[np.integer], begun: NDArray[Any]) -> Ints:
        wanted = 2 * (x.astype(np.int64) * width + y) + begun
        found: Ints = np.searchsorted(node, wanted).astype(np.int32)
        return found

    silent = [np.flatnonzero(arcs.tokens < 1) for arcs in (one, two)]
    loud = [np.flatnonzero(arcs.tokens > 0) for arcs in (one, two)]
    a, b = _together(one.boundary[one.source[loud[0]]], two.boundary[two.source[loud[1]]])
    a, b = np.tile(loud[0][a], 2), np.tile(loud[1][b], 2)
    begun = np.repeat([0, 1], len(a) // 2)
    c, at = _together(one.boundary[one.source[silent[0]]], two.boundary)
    d, by = _together(two.boundary[two.source[silent[1]]], one.boundary)
    c, d, by = silent[0][c], np.tile(silent[1][d], 2), np.tile(by, 2)
    before = np.repeat([0, 1], len(d) // 2)
    left, zero = np.concatenate([a, c]), np.zeros(len(c), dtype=np.int64)
    score = np.concatenate([one.score[a] + two.score[b], one.score[c], two.score[d]])
    token = one.position[one.source[a]]
    for (x, y), table in coupling.items():
        above, below = one.under[a, x], two.under[b, y - one.tapes]
        place = (above, below) if table.ndim == 2 else (token, above, below)
        score[: len(a)] += np.where((above >= 0) & (below >= 0), table[place], 0.0)

    def taped(name: str, nothing: int) -> NDArray[Any]:
        mine, its = getattr(one, name), getattr(two, name)
        none = np.full((len(d), mine.shape[1]), nothing, dtype=mine.dtype)
        rest = np.full((len(c), its.shape[1]), nothing, dtype=its.dtype)
        above = np.concatenate([mine[left], none])
        return np.column_stack([above, np.concatenate([its[b], rest, its[d]])])

    count = len(score)
    texts = one.texts if one.texts is not None else two.texts
    return Arcs(
        texts=texts,
        begins=number(one.begins, two.begins, np.zeros(1, dtype=np.int64)).astype(np.int64),
        at=None if texts is None else np.repeat(one.position[first], 2),
        final=np.repeat(one.final[first] + two.final[second], 2),
        source=np.concatenate(
            [
                number(one.source[a], two.source[b], begun),
                number(one.source[c], at, zero),
                number(by, two.source[d], before),
            ]
        ),
        target=np.concatenate(
            [
                number(one.target[a], two.target[b], begun * 0),
                number(one.target[c], at, zero),
                number(by, two.target[d], before * 0 + 1),
            ]
        ),
        left=np.zeros(count, dtype=np.int32),
        right=np.zeros(count, dtype=np.int32),
        score=score,
        origin=np.concatenate([one.origin[left], np.full(len(d), -1)]),
        label=taped("label", -1),
        under=taped("under", -1),
        end=np.column_stack(
            [
                np.concatenate([one.ends[left], np.full((len(d), one.tapes), -1)]),
                np.concatenate([two.ends[b], np.full((len(c), two.tapes), -1), two.ends[d]]),
            ]
        ),
        carries=taped("carries", 0),
        moves=_moves(one, two, left, b, c, d),
        class_final=one.class_final,
        pairs=None,
    ).trimmed()


def _may_be_empty(arcs: Arcs) -> bool:
    """Tell whether a path may read nothing."""
    return bool((arcs.final[arcs.begins] > -np.inf).any() or (arcs.tokens < 1).any())


def _paired(arcs: Arcs, *, empty: bool) -> Arcs:
    """Return the same with pairs, which score nothing where there were none.

    Of paths that read nothing, where none of these stands beside an `empty` one, there may be many.
    """
    if arcs.pairs is not None:
        return arcs
    arcs = _reading(arcs, empty=empty)
    none = np.zeros(len(arcs.source), dtype=np.int32)
    pairs = PairScores(np.zeros((1, 2, 1)))
    return replace(arcs, left=none, right=none, class_final=np.zeros(2), pairs=pairs).in_order()


def _reading(arcs: Arcs, *, empty: bool) -> Arcs:
    """Return the same paths by arcs that all read: each goes on through those that read nothing.

    An arc of a row's start goes through such arcs before it, too. Nothing else does: a path through
    them has then one place, whatever stands beside it.
    """
    silent = arcs.tokens < 1
    if not silent.any():
        return arcs
    origin, end, score = _silent_ways(arcs, np.flatnonzero(silent))
    start = np.zeros(len(arcs.final), dtype=bool)
    start[arcs.begins] = True
    ends = start[origin] & (origin != end) & (arcs.final[end] > -np.inf)
    several = np.bincount(origin[ends], minlength=len(start)) + (arcs.final > -np.inf)
    if empty and (several[arcs.begins] > 1).any():
        raise OptionError(
            "two paths that read nothing stand beside nothing: remove epsilons from the Fst first, "
            "pynini's rmepsilon does"
        )
    final = arcs.final.copy()
    final[origin[ends]] = arcs.final[end[ends]] + score[ends]
    arc = np.flatnonzero(~silent)
    before, way = _together(arcs.source[arc].astype(np.int64), np.where(start[origin], end, -1))
    keep = origin[way] != end[way]
    first = np.concatenate([np.arange(len(arc)), before[keep]])
    source = np.concatenate([arcs.source[arc], origin[way][keep].astype(np.int32)])
    more = np.concatenate([np.zeros(len(arc)), score[way][keep]])
    moved, after = _together(arcs.target[arc[first]].astype(np.int64), origin)
    chosen = arc[first[moved]]
    return replace(
        arcs.with_arcs(chosen),
        source=source[moved],
        target=end[after].astype(np.int32),
        score=arcs.score[chosen] + more[moved] + score[after],
        final=final,
        moves=None,  # an arc may have gone through several
    ).trimmed()


def _silent_ways(arcs: Arcs, silent: Longs) -> tuple[Longs, Longs, Floats]:
    """Return the ways through arcs that read nothing, the empty ones too: start, end and score."""
    nodes = np.arange(len(arcs.final))
    source, target = arcs.source[silent].astype(np.int64), arcs.target[silent].astype(np.int64)
    origin, end, score = nodes, nodes, np.zeros(len(nodes))
    parts = [(origin, end, score)]
    while len(end):
        way, arc = _together(end, source)
        origin, end, score = origin[way], target[arc], score[way] + arcs.score[silent[arc]]
        parts.append((origin, end, score))
        check_size(sum(len(part[0]) for part in parts), "the composition")
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return columns[0], columns[1], columns[2]


def _pieces(arcs: Arcs) -> Arcs:
    """Cut arcs into tokens; arcs to one node with one label share what is behind their first.

    Nodes within arcs come in the order of their positions. Inner classes stand behind those of
    the lattice: on the left they are one more, on the right that of beginnings.
    """
    size, end = arcs.tokens, arcs.position[arcs.target]
    long = np.flatnonzero(size > 1)
    if not len(long):
        return arcs
    assert arcs.pairs is not None  # noqa: S101 (arcs without pairs pass a token)
    _, right, left = arcs.pairs.pair.shape
    check_size(int(size[long].sum()), "the composition")
    under, labels = np.unique(arcs.under[long], axis=0, return_inverse=True)
    tail = arcs.target[long].astype(np.int64) * len(under) + labels.reshape(-1)
    length = int(arcs.position.max()) + 1
    rest = (tail * right + arcs.right[long]) * length  # and the position of the node
    inner = rest + arcs.position[arcs.source[long]] + 1
    within = Ragged.from_lengths(size[long] - 1)
    keys, where = np.unique(within.ranges(inner), return_index=True)
    arc = long[within.rows()[where]]  # any that passes there: what is read of it is the same
    place, nodes = keys % length, len(arcs.final)
    row = arcs.row[arcs.source[arc]]
    boundary = place + arcs.rows.offsets[row] + row
    by_place = np.argsort(np.concatenate([arcs.boundary, boundary]), kind="stable")
    number = np.empty(len(by_place), dtype=np.int32)
    number[by_place] = np.arange(len(by_place))
    first_target, first_right = number[arcs.target], arcs.right.copy()
    first_target[long] = number[nodes + np.searchsorted(keys, inner)]
    first_right[long] = right - 1
    last = place + 1 == end[arc]
    following = np.minimum(np.searchsorted(keys, np.where(last, 0, keys + 1)), len(keys) - 1)
    on = number[np.where(last, arcs.target[arc], nodes + following)]
    count = len(keys)

    def behind(name: str, values: Array) -> Array:
        return np.concatenate([getattr(arcs, name), values])

    none = np.full((count, arcs.tapes), -1, dtype=np.int32)
    return replace(
        arcs,
        begins=number[arcs.begins].astype(np.int64),
        at=behind("position", place)[by_place],
        final=behind("final", np.full(count, -np.inf))[by_place],
        source=np.concatenate([number[arcs.source], number[nodes:]]),
        target=np.concatenate([first_target, on]),
        label=behind("label", none),
        under=behind("under", arcs.under[arc]),
        end=np.concatenate([arcs.ends, none]),
        carries=behind("carries", none < 0),
        left=behind("left", np.full(count, left, dtype=np.int32)),
        right=np.concatenate(
            [first_right, np.where(last, arcs.right[arc], right - 1).astype(np.int32)]
        ),
        score=behind("score", np.zeros(count)),
        origin=behind("origin", none[:, 0].astype(np.int64)),
        moves=None
        if arcs.moves is None
        else behind("moves", np.full((count, arcs.moves.shape[1]), -1)),
        class_final=np.concatenate([arcs.class_final[:-1], [-np.inf], arcs.class_final[-1:]]),
        pairs=arcs.pairs.with_inner(),
    )


def _moves(
    one: Arcs, two: Arcs, left: Longs, b: Longs, alone: Longs, silent: Longs
) -> Longs | None:
    """Return the moves of pairs of arcs, of arcs of the first alone, and of the second alone."""
    parts = []
    if one.moves is not None:
        none = np.full((len(silent), one.moves.shape[1]), -1)
        parts.append(np.concatenate([one.moves[left], none]))
    if two.moves is not None:
        none = np.full((len(alone), two.moves.shape[1]), -1)
        parts.append(np.concatenate([two.moves[b], none, two.moves[silent]]))
    return np.column_stack(parts) if parts else None


def _moves_beside(one: Arcs, two: Arcs, a: Longs, b: Longs) -> Longs | None:
    pairs = ((one.moves, a), (two.moves, b))
    moves = [moves[arc] for moves, arc in pairs if moves is not None]
    return np.column_stack(moves) if moves else None


def _together(one: Longs, two: Longs) -> tuple[Longs, Longs]:
    """Return all pairs of what has the same key, by the first and then the second."""
    order = np.argsort(two, kind="stable")
    keys = two[order]
    low = np.searchsorted(keys, one)
    pairs = Ragged.from_lengths(np.searchsorted(keys, one, side="right") - low)
    check_size(pairs.total, "the composition")
    return pairs.rows(), order[pairs.ranges(low)]

"""Products of arcs: with given labels or boundaries, and with the arcs of another lattice.

A labelling, or boundaries, remove arcs, or count the labels that a path has read. The product of
two lattices has a pair of arcs for each token, so long arcs are cut into tokens first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Array, Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import OptionError
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.arcs import TAPED, ArcEngine, check_size
from fstcrf.lattices.engine import Coupling

_T = TypeVar("_T", bound=np.generic)
_FREE, _CARRIED = -1, -2
"""Codes in place of a label: the arc begins no label, or it continues a label."""

# --- Some of the paths ----------------------------------------------------------------------------


def exactly(arcs: ArcEngine, tape: int, start: Longs, end: Longs, label: Longs) -> ArcEngine:
    """Return the paths of the only row with exactly the given segments on a tape.

    Arcs of other segments are removed. Paths that end before the last segment are removed as well.
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


def spelling(arcs: ArcEngine, tape: int, labels: Sequence[int]) -> ArcEngine:
    """Return the paths with exactly the given labels on a tape.

    The nodes are pairs (node, labels read). They keep only the arcs that read the next label.
    """
    read, width = arcs.label[:, tape], len(labels) + 1
    reading = [np.flatnonzero(read == label) for label in labels]
    silent = np.flatnonzero(read < 0)
    taken = np.concatenate([*reading, *[silent] * width])
    ahead = np.concatenate(
        [
            Ragged.from_lengths(map(len, reading)).rows(),
            np.repeat(np.arange(width), len(silent)),
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


def bounded(arcs: ArcEngine, wanted: Longs) -> ArcEngine:
    """Return the paths of the only row that begin or end a label at each 1, at no −1, [T + 1]."""
    here = wanted[arcs.position[arcs.source]]
    inside = (arcs.position[arcs.source] > 0) & (arcs.tokens > 0)
    keep = ~_crossed(arcs, np.flatnonzero(wanted == 1))
    keep &= ~(inside & np.where(arcs.carries[:, 0], here == 1, here == -1))
    none = np.flatnonzero(wanted[:-1] == -1)  # a label continues there: no path ends before
    final = np.where(arcs.position > none.max(initial=-1), arcs.final, -np.inf)
    return replace(arcs.with_arcs(keep), final=final)


def _crossed(arcs: ArcEngine, places: Longs) -> Bools:
    """Return which arcs cross one of some positions, bool [A]."""
    last = max(int(arcs.position.max()), int(places.max(initial=0)))
    before = np.zeros(last + 2, dtype=np.int64)  # paths can end before `places`
    before[places + 1] = 1
    before = np.cumsum(before)  # places below each position
    start, end = arcs.position[arcs.source], arcs.position[arcs.target]
    return before[end] > before[start + 1]


# --- Two lattices ---------------------------------------------------------------------------------


def product(left: ArcEngine, right: ArcEngine, coupling: Coupling) -> ArcEngine:
    """Return the pairs of paths over the same tokens, trimmed. An arc is a pair of arcs at a token.

    Parameters
    ----------
    left, right : ArcEngine
        The tapes of `right` follow the tapes of `left`.
    coupling : mapping of (int, int) to float64 [L1, L2] or [T, L1, L2]
        Potentials of labels at a token, by the numbers of two tapes. A table for each token needs
        an engine with one row.
    """
    if all(arcs.pairs is None and (arcs.tokens <= 1).all() for arcs in (left, right)):
        return _plain(left, right, coupling)
    one, two = (
        _pieces(_paired(lattice, empty=_may_be_empty(other)))
        for lattice, other in ((left, right), (right, left))
    )
    assert one.pairs is not None  # noqa: S101 (`_paired` adds pairs)
    assert two.pairs is not None  # noqa: S101 (the same)
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
    return ArcEngine(
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
        sizes=one.sizes + two.sizes,
        class_final=np.append(ends, one.class_final[-1] + two.class_final[-1]),
        pairs=one.pairs.product(two.pairs),
        per_position=one.per_position or two.per_position,
        end=np.column_stack([one.ends[a], two.ends[b]]),
        transducer_arcs=_transducer_arcs(one, two, a, b),
        ambiguous=one.ambiguous or two.ambiguous,
        **taped,
    ).trimmed()


def _plain(one: ArcEngine, two: ArcEngine, coupling: Coupling) -> ArcEngine:
    """Return the pairs of paths of lattices without pair scores, whose arcs can be silent.

    A silent arc reads no token. Between two tokens, the silent arcs of `one` precede the silent
    arcs of `two`, so that two paths are one pair. A node is a pair of nodes, and whether `two` has
    taken a silent arc there.
    """
    first, second = _together(one.boundary, two.boundary)
    silent = [np.flatnonzero(arcs.tokens < 1) for arcs in (one, two)]
    loud = [np.flatnonzero(arcs.tokens > 0) for arcs in (one, two)]
    begun = np.arange(2 if len(silent[1]) else 1)
    width, states = len(two.final), len(begun)
    node = np.add.outer((first * width + second) * states, begun).reshape(-1)  # ascending

    def number(x: Longs, y: Longs, state: Longs) -> Ints:
        wanted = (x * width + y) * states + state
        index: Ints = np.searchsorted(node, wanted).astype(np.int32)
        return index

    a, b = _together(one.boundary[one.source[loud[0]]], two.boundary[two.source[loud[1]]])
    a, b = np.tile(loud[0][a], states), np.tile(loud[1][b], states)
    c, at = _together(one.boundary[one.source[silent[0]]], two.boundary)
    d, by = _together(two.boundary[two.source[silent[1]]], one.boundary)
    c, d, by = silent[0][c], np.tile(silent[1][d], states), np.tile(by, states)
    above = np.concatenate([a, c, np.full(len(d), -1)])  # arc of `one`; −1: it does not move
    below = np.concatenate([b, np.full(len(c), -1), d])
    score = np.concatenate([one.score[a] + two.score[b], one.score[c], two.score[d]])
    token = one.position[one.source[a]]
    for (x, y), table in coupling.items():
        over, under = one.under[a, x], two.under[b, y - one.tapes]
        place = (over, under) if table.ndim == 2 else (token, over, under)
        score[: len(a)] += np.where((over >= 0) & (under >= 0), table[place], 0.0)

    def ends(name: str, state: Longs, later: int) -> Ints:
        left, right = getattr(one, name), getattr(two, name)
        x = np.concatenate([left[a], left[c], by]).astype(np.int64)
        y = np.concatenate([right[b], at, right[d]]).astype(np.int64)
        rest = np.full(len(d), 1) if later else np.repeat(begun, len(d) // states)
        return number(x, y, np.concatenate([state, np.zeros(len(c), dtype=np.int64), rest]))

    def taped(name: str, nothing: int) -> NDArray[Any]:
        both = ((one, above), (two, below))
        return np.column_stack([_at(getattr(part, name), arc, nothing) for part, arc in both])

    texts = one.texts if one.texts is not None else two.texts
    classes, before = np.zeros(len(score), dtype=np.int32), np.repeat(begun, len(a) // states)
    return ArcEngine(
        texts=texts,
        begins=number(one.begins, two.begins, begun[:1]).astype(np.int64),
        at=None if texts is None else np.repeat(one.position[first], states),
        final=np.repeat(one.final[first] + two.final[second], states),
        source=ends("source", before, 0),
        target=ends("target", np.zeros_like(before), 1),
        left=classes,
        right=classes,
        score=score,
        origin=np.append(one.origin, -1)[above],
        label=taped("label", -1),
        under=taped("under", -1),
        end=taped("ends", -1),
        carries=taped("carries", 0),
        sizes=one.sizes + two.sizes,
        transducer_arcs=_transducer_arcs(one, two, above, below),
        ambiguous=one.ambiguous or two.ambiguous,
        class_final=one.class_final,
        pairs=None,
    ).trimmed()


def _may_be_empty(arcs: ArcEngine) -> bool:
    """Return whether a path can read no token."""
    return bool((arcs.final[arcs.begins] > -np.inf).any() or (arcs.tokens < 1).any())


def _paired(arcs: ArcEngine, *, empty: bool) -> ArcEngine:
    """Return the engine with pair scores, which are 0 if it had no pair scores.

    `empty`: the other lattice has a path without tokens.
    """
    if arcs.pairs is not None:
        return arcs
    arcs = _reading(arcs, empty=empty)
    none = np.zeros(len(arcs.source), dtype=np.int32)
    pairs = PairScores(np.zeros((1, 2, 1)))
    return replace(arcs, left=none, right=none, class_final=np.zeros(2), pairs=pairs).in_order()


def _reading(arcs: ArcEngine, *, empty: bool) -> ArcEngine:
    """Return the same paths without silent arcs, which read no token.

    Each arc is joined with the silent arcs that follow it. An arc at the start of a row is joined
    with the silent arcs before it as well. So each silent path is joined with one arc only.
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
            "several paths of the machine read no symbol, so an empty sentence has no "
            "unique path: remove epsilon arcs first, pynini.rmepsilon(fst)"
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
        transducer_arcs=None,  # an arc can have several
    ).trimmed()


def _silent_ways(arcs: ArcEngine, silent: Longs) -> tuple[Longs, Longs, Floats]:
    """Return the start, end and score of all paths of silent arcs, including empty paths."""
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


def _pieces(arcs: ArcEngine) -> ArcEngine:
    """Cut arcs into tokens; arcs with one target and one label share all tokens but the first.

    Nodes within arcs have the order of their positions. Inner classes have higher numbers than the
    classes of the lattice: one more left class, and the right class of beginnings.
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
    arc = long[within.rows()[where]]  # any of the arcs that share the token
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

    def extended(name: str, values: Array) -> Array:
        return np.concatenate([getattr(arcs, name), values])

    none = np.full((count, arcs.tapes), -1, dtype=np.int32)
    return replace(
        arcs,
        begins=number[arcs.begins].astype(np.int64),
        at=extended("position", place)[by_place],
        final=extended("final", np.full(count, -np.inf))[by_place],
        source=np.concatenate([number[arcs.source], number[nodes:]]),
        target=np.concatenate([first_target, on]),
        label=extended("label", none),
        under=extended("under", arcs.under[arc]),
        end=np.concatenate([arcs.ends, none]),
        carries=extended("carries", none < 0),
        left=extended("left", np.full(count, left, dtype=np.int32)),
        right=np.concatenate(
            [first_right, np.where(last, arcs.right[arc], right - 1).astype(np.int32)]
        ),
        score=extended("score", np.zeros(count)),
        origin=extended("origin", none[:, 0].astype(np.int64)),
        transducer_arcs=None
        if arcs.transducer_arcs is None
        else extended("transducer_arcs", np.full((count, arcs.transducer_arcs.shape[1]), -1)),
        class_final=np.concatenate([arcs.class_final[:-1], [-np.inf], arcs.class_final[-1:]]),
        pairs=arcs.pairs.with_inner(),
    )


def _transducer_arcs(one: ArcEngine, two: ArcEngine, above: Longs, below: Longs) -> Longs | None:
    """Return the transducer arcs of pairs of arcs; −1 if a pair lacks the arc of a lattice."""
    pairs = ((one.transducer_arcs, above), (two.transducer_arcs, below))
    parts = [_at(taken, arc, -1) for taken, arc in pairs if taken is not None]
    return np.column_stack(parts) if parts else None


def _at(values: NDArray[_T], arc: Longs, nothing: int) -> NDArray[_T]:
    """Return the rows of some arcs, [A, K]; for arc −1 a row of the value `nothing`."""
    return np.concatenate([values, np.full((1, values.shape[1]), nothing, values.dtype)])[arc]


def _together(one: Longs, two: Longs) -> tuple[Longs, Longs]:
    """Return all pairs with equal keys, sorted by the first index and then the second."""
    order = np.argsort(two, kind="stable")
    keys = two[order]
    low = np.searchsorted(keys, one)
    pairs = Ragged.from_lengths(np.searchsorted(keys, one, side="right") - low)
    check_size(pairs.total, "the composition")
    return pairs.rows(), order[pairs.ranges(low)]

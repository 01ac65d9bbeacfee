"""Paths through machines with cycles: their states and arcs, their weights, and silent arcs.

Weights take time proportional to the arcs of machines without cycles: sets of states that reach
each other, *components*, are processed one after another, from the ends backwards. Within a
component, a best path is searched best first, and sums solve linear equations. A computation with
too many steps raises `TooLargeError` early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from fstcrf.arrays import Array, Bools, Floats, Longs, Ragged
from fstcrf.errors import EpsilonCycleError, NumericError, TooLargeError
from fstcrf.kernel.acyclic import connected

MAX_WAYS = 2_000_000
"""Largest number of steps that extend paths without a symbol, or find best paths in cycles."""

MAX_SUMMED = 2_000
"""Largest component whose paths are summed: its equations have this many unknowns."""

FIRST = np.zeros(1, dtype=np.int32)
_CLOSE = 1e-12  # rounding error of a cycle's weight that is 1


def on_paths(
    source: Array, target: Array, ends: Bools, there: Bools | None = None, *, starts: Array = FIRST
) -> tuple[Longs, Bools]:
    """Return the arcs, by source, and the states on the paths from a start to an end.

    Parameters
    ----------
    source, target : int [A]
    ends : bool [Q]
        The states in which a path may end.
    there : bool [A], optional
        The arcs that exist; by default all.
    starts : int [S]
        Where a path may begin; in state 0 when absent.

    Returns
    -------
    arcs : int64 [B]
        Sorted by source; arcs of one state keep their order.
    states : bool [Q]
    """
    arcs = None if there is None else np.flatnonzero(there)
    if arcs is not None:
        source, target = source[arcs], target[arcs]
    if (source[1:] < source[:-1]).any():
        order = np.argsort(source, kind="stable")
        arcs = order if arcs is None else arcs[order]
        source, target = source[order], target[order]
    row, onward = Ragged.from_rows(source, len(ends)).offsets, target
    if starts is FIRST:
        states = connected(row, onward.astype(np.int32, copy=False), 0, ends)
    else:  # one more state leads to all of them
        row, onward = np.append(row, row[-1] + len(starts)), np.append(onward, starts)
        states = connected(row, onward.astype(np.int32), len(ends), np.append(ends, False))[:-1]
    kept = np.flatnonzero(states[source] & states[target])
    return kept if arcs is None else arcs[kept], states


def components(steps: Sequence[Iterable[int]]) -> list[list[int]]:
    """Return the sets of states that reach each other, each after the sets it leads to.

    `steps` are the targets of each state (Tarjan, 1972).

    Examples
    --------
    >>> components([[1], [2], [1], []])
    [[2, 1], [0], [3]]
    """
    first, low = [0] * len(steps), [0] * len(steps)  # 0: not visited
    done, visited = len(steps) + 1, 0
    sets: list[list[int]] = []
    open_: list[int] = []
    todo: list[tuple[int, Iterator[int]]] = []

    def enter(state: int) -> None:
        first[state] = low[state] = visited
        open_.append(state)
        todo.append((state, iter(steps[state])))

    for root in range(len(steps)):
        if not first[root]:
            visited += 1
            enter(root)
        while todo:
            state, left = todo[-1]
            for target in left:
                if not first[target]:
                    visited += 1
                    enter(target)
                    break
                low[state] = min(low[state], low[target])
            else:
                todo.pop()
                if low[state] == first[state]:
                    sets.append([])
                    while not sets[-1] or sets[-1][-1] != state:
                        sets[-1].append(open_.pop())
                        low[sets[-1][-1]] = done
                elif todo:
                    before = todo[-1][0]
                    low[before] = min(low[before], low[state])
    return sets


def totals(source: Array, target: Array, score: Floats, final: Floats, *, log: bool) -> Floats:
    """Return the total weight of all paths from each state to ends; −inf: no path.

    Raises
    ------
    NumericError
        The weights are infinite.
    TooLargeError
        A sum over more than `MAX_SUMMED` states that reach each other; more than `MAX_WAYS` steps.
    """
    arcs = _rows(source, target, score, len(final))
    plus = together if log else max
    weights: list[float] = final.tolist()
    for states in components([[t for t, _ in steps] for steps in arcs]):
        inside = set(states)
        loops = [(s, t, w) for s in states for t, w in arcs[s] if t in inside]
        for s in states:
            ways = [w + weights[t] for t, w in arcs[s] if t not in inside]
            weights[s] = plus([weights[s], *ways]) if ways else weights[s]
        if loops:
            _within(states, loops, weights, log=log)
    return np.asarray(weights)


def _rows(source: Array, target: Array, score: Floats, size: int) -> list[list[tuple[int, float]]]:
    rows: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    for s, t, w in zip(source.tolist(), target.tolist(), score.tolist(), strict=True):
        rows[s].append((t, w))
    return rows


def together(scores: Sequence[float]) -> float:
    """Return the log of a sum of exponentials; −inf: all are 0."""
    best = max(scores)
    if len(scores) == 1 or best == -math.inf:
        return best
    return best + math.log(math.fsum(math.exp(score - best) for score in scores))


def _sum(one: float, other: float) -> float:
    """Return the result of `together` for two scores, faster, for a loop of millions."""
    if one < other:
        one, other = other, one
    return one if other == -math.inf else one + math.log1p(math.exp(other - one))


def _within(
    states: list[int], loops: list[tuple[int, int, float]], weights: list[float], *, log: bool
) -> None:
    """Add the paths that first stay within some states to the paths out of them."""
    if log and len(states) > MAX_SUMMED:
        raise TooLargeError(
            f"cannot sum over the paths of {len(states):,} states that reach each "
            f"other, at most {MAX_SUMMED:,} are supported: minimize() the machine first"
        )
    ends = [weights[s] for s in states]
    if log and len(states) == 1:
        share = sum(math.exp(w) for *_, w in loops)
        if share >= 1:
            raise _infinite(states[0])
        weights[states[0]] -= math.log1p(-share)
        return
    _best(states, loops, weights)
    if not log:
        return
    number = {s: k for k, s in enumerate(states)}
    best = [weights[s] for s in states]
    matrix = np.eye(len(states))
    for s, t, w in loops:  # relative to the best, no number is above 1
        matrix[number[s], number[t]] -= math.exp(w + weights[t] - weights[s])
    try:
        total = np.linalg.solve(matrix, np.exp(np.subtract(ends, best)))
    except np.linalg.LinAlgError:
        raise _infinite(states[0]) from None
    fine = np.isfinite(total) & (total > 0)  # otherwise there is no solution
    if not fine.all():
        raise _infinite(states[int(np.argmin(fine))])
    for s, more in zip(states, np.log(total).tolist(), strict=True):
        weights[s] += more


def _best(states: list[int], loops: list[tuple[int, int, float]], weights: list[float]) -> None:
    """Find the best path of each state: from the ends backwards, best first."""
    back: dict[int, list[tuple[int, float]]] = {s: [] for s in states}
    for s, t, w in loops:
        back[t].append((s, w))
    arcs = dict.fromkeys(states, 0)  # of the best path
    todo = [(-weights[s], s) for s in states if weights[s] > -math.inf]
    todo.sort()
    taken = 0
    while todo:
        score, t = heappop(todo)
        if -score < weights[t]:
            continue
        taken += len(back[t])
        if taken > MAX_WAYS + 4 * len(loops):
            raise TooLargeError(
                f"finding the best paths of {len(states):,} states that reach each other "
                f"takes more than {MAX_WAYS:,} steps"
            )
        for s, w in back[t]:
            value = weights[t] + w
            if value > weights[s] + _CLOSE * max(1.0, abs(value)):
                weights[s], arcs[s] = value, arcs[t] + 1
                if arcs[s] > len(states):
                    raise _infinite(s)
                heappush(todo, (-value, s))


def _infinite(state: int) -> NumericError:
    return NumericError(
        f"the paths from state {state} to a final state have an infinite sum: a "
        "cycle has a score that is too high"
    )


# --- Along arcs without a symbol ------------------------------------------------------------------


def silent_ways(
    source: Array, target: Array, score: Floats, needed: Bools, ends: Bools, *, log: bool
) -> list[dict[int, float]]:
    """Return the states that each one reaches by at least one silent arc, with their weights.

    States are eliminated one after the other as intermediate states (Kleene's algorithm); a state
    is dropped afterwards if no required path begins or ends there.

    Raises
    ------
    EpsilonCycleError
        A cycle with a positive gain, or with an infinite sum.
    TooLargeError
        More than `MAX_WAYS` steps.
    """
    plus: Callable[[float, float], float] = _sum if log else max
    if len(source) > MAX_WAYS:
        raise TooLargeError(
            f"the machine has {len(source):,} epsilon arcs, at most {MAX_WAYS:,} are supported"
        )
    ways: list[dict[int, float]] = [{} for _ in needed]
    before: list[set[int]] = [set() for _ in needed]
    for s, t, w in zip(source.tolist(), target.tolist(), score.tolist(), strict=True):
        ways[s][t] = plus(ways[s][t], w) if t in ways[s] else w
        before[t].add(s)
    total = sum(map(len, ways))
    for k, onward in enumerate(ways):
        star = _repeated(onward.get(k, -math.inf), k, log=log)
        before[k].discard(k)
        total += len(before[k]) * len(onward)
        if total > MAX_WAYS:
            raise TooLargeError(f"the machine has more than {MAX_WAYS:,} epsilon paths")
        ways[k] = {t: w + star for t, w in onward.items()}
        further = [(t, w) for t, w in ways[k].items() if t != k]
        for s in before[k] if onward else ():
            row = ways[s]
            here = row.pop(k)
            for t, w in further:
                row[t] = plus(row[t], here + w) if t in row else here + w
                before[t].add(s)
            if ends[k]:
                row[k] = here + star
        if not needed[k]:
            for t in ways[k]:
                before[t].discard(k)
            ways[k] = {}
    return ways


def _repeated(loop: float, state: int, *, log: bool) -> float:
    """Return the weight of taking a cycle any number of times."""
    if loop > (-_CLOSE if log else _CLOSE):
        why = "the sum over which is infinite" if log else "which gains each time"
        raise EpsilonCycleError(f"state {state} has an epsilon cycle {why}")
    return -math.log1p(-math.exp(loop)) if log else 0.0

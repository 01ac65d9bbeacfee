"""Algebra of acceptors: products, unions, unreachable states, emptiness, equality.

=============  ====================================================================
intersect      both acceptors at once, on the tapes of either
either         one hard acceptor or the other
trim           only states on a way from the start to an end, numbered as they are met
is_empty       nothing but, perhaps, the empty labelling is accepted
equivalent     the same score for every labelling
on_tapes       the same acceptor reading further tapes, or in another order
=============  ====================================================================

Everything is NumPy: what is bound once, runs where pynini is not installed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ShapeError, TooLargeError
from fstcrf.grammar.acceptor import Acceptor, Floats, Ints
from fstcrf.grammar.minimise import minimise, pushed
from fstcrf.kernel.acyclic import connected

__all__ = ["either", "equivalent", "intersect", "is_empty", "on_tapes", "trim"]

MAX_STATES = 10_000

_Scalar = TypeVar("_Scalar", bound=np.generic)


def trim(acceptor: Acceptor) -> Acceptor:
    """Leave out states that no accepted labelling visits; number the others breadth first.

    The start stays even when nothing is accepted; then it is the only state. What is trim already
    comes back as it is.
    """
    flat = _flat(acceptor.target)
    useful = _useful(flat, acceptor.final)
    target = np.where((flat >= 0) & useful[flat], flat, -1).astype(np.int32)
    order = _breadth_first(target)
    number = np.full(len(target) + 1, -1, dtype=np.int32)  # the last row is that of −1
    number[order] = np.arange(len(order))
    shape = (len(order), *acceptor.target.shape[1:])
    target = number[target[order]]
    score = None
    if acceptor.score is not None:
        score = np.where(target >= 0, _flat(acceptor.score)[order], 0.0)
        score = score.reshape(shape) if score.any() else None
    target = target.reshape(shape)
    if _same(target, acceptor.target) and _same(score, acceptor.score):
        return acceptor
    return replace(acceptor, target=target, score=score, final=acceptor.final[order].copy())


def is_empty(acceptor: Acceptor) -> bool:
    """Tell whether no labelling of a token or more is accepted."""
    flat = _flat(acceptor.target)
    live = _useful(flat, acceptor.final)
    return not bool((live[:, None] & (flat >= 0) & live[flat]).any())


def intersect(a: Acceptor, b: Acceptor, limit: int = MAX_STATES) -> Acceptor:
    """Return the trim acceptor of what both accept; scores add.

    Parameters
    ----------
    a, b : Acceptor
        They may read different tapes; the result reads the tapes of `a`, then those of `b` alone.
    limit : int
        Largest number of states, counted before trimming.

    Raises
    ------
    ShapeError
        A tape with two label sets.
    TooLargeError
        More states than `limit`.
    """
    left, right = _on_common_tapes(a, b)
    name = f"{a.name} & {b.name}"
    states, target = _product_states(_flat(left.target), _flat(right.target), limit, name)
    first, second = np.divmod(states, right.n_states)
    score = None
    if left.score is not None or right.score is not None:
        score = np.zeros((len(states), *left.target.shape[1:]))
        score += 0.0 if left.score is None else left.score[first]
        score += 0.0 if right.score is None else right.score[second]
    return trim(
        replace(
            left,
            target=target.reshape(-1, *left.target.shape[1:]),
            score=score,
            final=left.final[first] + right.final[second],
            name=name,
        )
    )


def either(a: Acceptor, b: Acceptor, limit: int = MAX_STATES) -> Acceptor:
    """Return the acceptor of what at least one of two hard acceptors accepts.

    Every labelling has a state in it; those that both reject end in one that is not final.

    Raises
    ------
    ShapeError
        A tape with two label sets; an acceptor with scores.
    TooLargeError
        More states than `limit`.
    """
    if a.weighted or b.weighted:
        raise ShapeError(f"{a.name} | {b.name}: expected acceptors without scores")
    left, right = (_completed(x) for x in _on_common_tapes(a, b))
    name = f"{a.name} | {b.name}"
    states, target = _product_states(_flat(left.target), _flat(right.target), limit, name)
    first, second = np.divmod(states, right.n_states)
    final = np.maximum(left.final[first], right.final[second])
    shape = (-1, *left.target.shape[1:])
    return replace(left, target=target.reshape(shape), final=final, name=name)


def _completed(acceptor: Acceptor) -> Acceptor:
    """Return the acceptor with a last state, which is not final, for all that has no other."""
    dead = acceptor.n_states
    rows = np.concatenate([acceptor.target, np.full_like(acceptor.target[:1], dead)])
    target = np.where(rows >= 0, rows, dead).astype(np.int32)
    return replace(acceptor, target=target, final=np.append(acceptor.final, -np.inf))


def _on_common_tapes(a: Acceptor, b: Acceptor) -> tuple[Acceptor, Acceptor]:
    tapes = (*a.tapes, *(t for t in b.tapes if t not in a.tapes))
    sets = dict(zip(b.tapes + a.tapes, b.labels + a.labels, strict=True))
    labels = tuple(sets[t] for t in tapes)
    return on_tapes(a, tapes, labels), on_tapes(b, tapes, labels)


def shortened(name: str, limit: int = 120) -> str:
    """Return a name that fits a message."""
    return name if len(name) <= limit else name[: name.rfind(" & ", 0, limit)] + " & …"


def _product_states(
    left: Ints, right: Ints, limit: int, name: str
) -> tuple[NDArray[np.int64], Ints]:
    """Return the pairs of states met from the start, and where each symbol leads from them.

    A pair (p, q) is p times the states of `right` plus q; results are int64 [P] and int32 [P, A].
    """
    width = len(right)
    number: dict[int, int] = {0: 0}
    rows: list[NDArray[np.int64]] = []
    frontier = np.zeros(1, dtype=np.int64)
    while len(frontier):
        first, second = left[frontier // width], right[frontier % width]
        pairs = np.where((first >= 0) & (second >= 0), first.astype(np.int64) * width + second, -1)
        rows.append(pairs)
        found = [int(p) for p in np.unique(pairs) if p >= 0 and int(p) not in number]
        number.update((pair, len(number) + i) for i, pair in enumerate(found))
        if len(number) > limit:
            raise TooLargeError(
                f"the product {shortened(name)} has more than {limit} states, too many to "
                "expand: constrain fewer labels at once"
            )
        frontier = np.asarray(found, dtype=np.int64)
    states = np.fromiter(number, dtype=np.int64, count=len(number))
    by_pair = np.argsort(states)
    targets = np.concatenate(rows)
    place = by_pair[np.searchsorted(states[by_pair], np.maximum(targets, 0))]
    return states, np.where(targets >= 0, place, -1).astype(np.int32)


def on_tapes(
    acceptor: Acceptor, tapes: tuple[str, ...], labels: tuple[tuple[str, ...], ...]
) -> Acceptor:
    """Return the acceptor that reads these tapes, those new to it without looking at them.

    Raises
    ------
    ShapeError
        A tape that is missing, or has another label set.
    """
    sets = dict(zip(tapes, labels, strict=True))
    for tape, known in zip(acceptor.tapes, acceptor.labels, strict=True):
        if sets.get(tape) != known:
            raise ShapeError(f"{acceptor.name}: tape {tape!r} is missing or has other labels")
    if acceptor.tapes == tapes:
        return acceptor
    inner = [t for t in tapes if t in acceptor.tapes]
    order = (0, *(1 + acceptor.tapes.index(t) for t in inner))
    own = (acceptor.n_states, *(len(sets[t]) if t in inner else 1 for t in tapes))
    full = (acceptor.n_states, *map(len, labels))

    def spread(array: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.ascontiguousarray(np.broadcast_to(array.transpose(order).reshape(own), full))

    score = None if acceptor.score is None else spread(acceptor.score).astype(np.float64)
    target = spread(acceptor.target).astype(np.int32)
    return replace(acceptor, tapes=tapes, labels=labels, target=target, score=score)


def equivalent(a: Acceptor, b: Acceptor, tolerance: float = 1e-9) -> bool:
    """Tell whether two acceptors over the same tapes give every labelling the same score.

    Parameters
    ----------
    a, b : Acceptor
    tolerance : float
        How far the scores of a step may differ.
    """
    if (a.tapes, a.labels) != (b.tapes, b.labels):
        return False
    a, b = minimise(trim(a)), minimise(trim(b))
    if not np.array_equal(a.target, b.target):
        return False
    return all(
        np.array_equal(np.isinf(x), np.isinf(y))
        and np.allclose(x[~np.isinf(x)], y[~np.isinf(y)], rtol=tolerance, atol=tolerance)
        for x, y in zip(pushed(a), pushed(b), strict=True)
    )


def _flat(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    return array.reshape(len(array), -1)


def _useful(target: Ints, final: Floats) -> NDArray[np.bool_]:
    """Return which states are on a way from the start to an end, bool [Q]."""
    there = target >= 0
    row = np.append(0, np.cumsum(there.sum(axis=1), dtype=np.int64))
    return connected(row, target[there], 0, final > -np.inf)


def _same(a: NDArray[np.generic] | None, b: NDArray[np.generic] | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and np.array_equal(a, b)


def _breadth_first(target: Ints) -> NDArray[np.int64]:
    met = np.zeros(len(target), dtype=bool)
    layer = np.zeros(1, dtype=np.int64)
    layers = []
    while len(layer):
        met[layer] = True
        layers.append(layer)
        found, first = np.unique(target[layer], return_index=True)
        new = (found >= 0) & ~met[found]
        layer = found[new][np.argsort(first[new])].astype(np.int64)
    return np.concatenate(layers)

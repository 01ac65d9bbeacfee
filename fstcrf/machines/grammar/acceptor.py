"""A deterministic acceptor over the labels of one tape or several: one conjunct of a grammar.

It reads one label of each of its tapes at every token. State 0 is the start; a state without a
successor for some labels rejects these labels. With scores it is weighted: the score of a labelling
is the sum of its steps and of its last state. Products, unions and minimisation are all NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from fstcrf.arguments import string_list
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, distinct
from fstcrf.errors import LabelError, NumericError, ShapeError, TooLargeError
from fstcrf.kernel.acyclic import connected

MAX_STATES = 10_000
"""States of a product, before trimming."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Acceptor:
    """A deterministic acceptor, bound to label sets.

    Parameters
    ----------
    tapes : tuple of str
        Names of the tapes that it reads; ``""`` for the only tape of a tagger.
    labels : tuple of tuple of str
        The label set of each tape.
    target : int32 [Q, L1, ...]
        State after (state, a label of each tape); −1: rejected.
    score : float64 [Q, L1, ...] or None
        Natural-log score of the step, 0 for rejected steps; `None` if all scores are 0.
    final : float64 [Q]
        Natural-log score of ending in the state; −inf if a sentence may not end there.
    name : str
        Description for messages.

    Raises
    ------
    ShapeError
        Arrays that disagree with each other or with the label sets; no state; no tape.
    NumericError
        A score that is NaN, +inf, or −inf on a step.
    """

    tapes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    target: Ints
    score: Floats | None
    final: Floats
    name: str = ""

    def __post_init__(self) -> None:
        where = f"acceptor {self.name}" if self.name else "acceptor"
        if not self.tapes or len(set(self.tapes)) != len(self.tapes):
            raise ShapeError(f"{where}: tapes {self.tapes} must be distinct, and at least one")
        shape = (len(self.final), *map(len, self.labels))
        if len(self.labels) != len(self.tapes) or self.target.shape != shape or not shape[0]:
            raise ShapeError(
                f"{where}: target is {list(self.target.shape)}, expected {list(shape)}"
            )
        if self.target.dtype != np.int32:
            raise ShapeError(f"{where}: target is {self.target.dtype}, expected int32")
        if self.target.size and (self.target.min() < -1 or self.target.max() >= shape[0]):
            raise ShapeError(f"{where}: target holds numbers outside [-1, {shape[0]})")
        if np.isnan(self.final).any() or (self.final == np.inf).any():
            raise NumericError(f"{where}: a final score is NaN or +inf")
        if self.score is None:
            return
        if self.score.shape != shape:
            raise ShapeError(f"{where}: score is {list(self.score.shape)}, expected {list(shape)}")
        if not np.isfinite(self.score).all():
            raise NumericError(f"{where}: the score of a step is not finite; leave the step out")

    @property
    def n_states(self) -> int:
        """Number of states, Q."""
        return len(self.final)

    @property
    def weighted(self) -> bool:
        """Whether some legal labelling has a score other than 0."""
        return self.score is not None or bool((self.final[self.final > -np.inf] != 0.0).any())

    def support(self) -> Acceptor:
        """Return the acceptor without its scores: 0 for each labelling that it accepts."""
        return replace(self, score=None, final=np.where(self.final > -np.inf, 0.0, -np.inf))

    def walk(self, *sequences: Sequence[str]) -> float:
        """Return the natural-log score of a labelling, −inf if it is rejected.

        Parameters
        ----------
        *sequences : sequence of str
            The labels of each tape, in the order of ``tapes``.

        Raises
        ------
        ShapeError
            Another number of tapes, or tapes of different lengths.
        LabelError
            A label that a tape does not have.
        """
        sequences = tuple(string_list(sequence, "label") for sequence in sequences)
        if len(sequences) != len(self.tapes) or len({len(s) for s in sequences}) != 1:
            raise ShapeError(
                f"{self.name}: got sequences of {[len(s) for s in sequences]} labels, "
                f"expected {len(self.tapes)} of one length"
            )
        columns = [
            _label_ids(sequence, labels, tape)
            for sequence, labels, tape in zip(sequences, self.labels, self.tapes, strict=True)
        ]
        state, total = 0, 0.0
        for token in zip(*columns, strict=True):
            step = (state, *token)
            if self.target[step] < 0:
                return -np.inf
            total += 0.0 if self.score is None else float(self.score[step])
            state = int(self.target[step])
        return total + float(self.final[state])

    def steps(self, symbol: Longs, times: Longs) -> tuple[Longs, Floats]:
        """Return the state after reading symbols from each state, and the score.

        Parameters
        ----------
        symbol : int64 [A]
            Joint label, the first tape slowest.
        times : int64 [A]
            Number of repetitions of each symbol.

        Returns
        -------
        int64 [A, Q], float64 [A, Q]
            The state reached; −1: rejected.
        """
        target = self.target.reshape(self.n_states, -1).astype(np.int64)
        score = None if self.score is None else self.score.reshape(self.n_states, -1)
        after = np.tile(np.arange(self.n_states), (len(symbol), 1))
        gain, left = np.zeros(after.shape), times.copy()
        while (left > 0).any():
            reading = np.flatnonzero(left > 0)
            read, before = symbol[reading][:, None], after[reading]
            alive = before >= 0
            if score is not None:
                gain[reading] += np.where(alive, score[before, read], 0.0)
            after[reading] = np.where(alive, target[before, read], -1)
            left[reading] -= 1
        return after, gain


def _label_ids(sequence: Sequence[str], labels: tuple[str, ...], tape: str) -> list[int]:
    index = {label: i for i, label in enumerate(labels)}
    try:
        return [index[label] for label in sequence]
    except KeyError as error:
        on = f" of tape {tape!r}" if tape else ""
        raise LabelError(f"unknown label {error.args[0]!r}{on}") from None


# --- Products and unions --------------------------------------------------------------------------


_SMALL = 1000
"""Cells of an acceptor's table from which on it is remembered that it is trim, or minimal."""

_trim: WeakSet[Acceptor] = WeakSet()
_minimal: WeakSet[Acceptor] = WeakSet()


def trim(acceptor: Acceptor) -> Acceptor:
    """Leave out states that no accepted labelling visits; number the others breadth first.

    The start is kept even if nothing is accepted; then it is the only state. An acceptor that is
    trim already is returned unchanged.
    """
    if acceptor in _trim:
        return acceptor
    flat = _flat(acceptor.target)
    useful = _useful(flat, acceptor.final)
    target = np.where((flat >= 0) & useful[flat], flat, np.int32(-1))
    order = _breadth_first(target)
    number = np.full(len(target) + 1, -1, dtype=np.int32)  # the last row is for −1
    number[order] = np.arange(len(order))
    shape = (len(order), *acceptor.target.shape[1:])
    target = number[target[order]]
    score = None
    if acceptor.score is not None:
        score = np.where(target >= 0, _flat(acceptor.score)[order], 0.0)
        score = score.reshape(shape) if score.any() else None
    target = target.reshape(shape)
    if _same(target, acceptor.target) and _same(score, acceptor.score):
        if target.size > _SMALL:
            _trim.add(acceptor)
        return acceptor
    return replace(acceptor, target=target, score=score, final=acceptor.final[order].copy())


def is_empty(acceptor: Acceptor) -> bool:
    """Return whether only the empty labelling, or no labelling, is accepted."""
    flat = _flat(acceptor.target)
    live = _useful(flat, acceptor.final)
    return not bool((live[:, None] & (flat >= 0) & live[flat]).any())


def only_empty(acceptor: Acceptor) -> bool:
    """Return whether exactly the empty labelling is accepted."""
    return bool(acceptor.final[0] > -np.inf) and is_empty(acceptor)


def intersect(a: Acceptor, b: Acceptor, limit: int = MAX_STATES) -> Acceptor:
    """Return the trim acceptor of the intersection; scores add.

    Parameters
    ----------
    a, b : Acceptor
        They may read different tapes; the result reads the tapes of `a`, then the other tapes of
        `b`.
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
    """Return the acceptor of the union of two hard acceptors.

    It is complete: labellings that both reject end in a state that is not final.

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
    """Return the acceptor with one more state, not final, as the target of all rejected labels."""
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


def _product_states(left: Ints, right: Ints, limit: int, name: str) -> tuple[Longs, Ints]:
    """Return the reachable pairs of states, and the successor of each pair for each symbol.

    A pair (p, q) is p times the states of `right` plus q; results are int64 [P] and int32 [P, A].
    """
    width = len(right)
    number: dict[int, int] = {0: 0}
    rows: list[Longs] = []
    frontier = np.zeros(1, dtype=np.int64)
    while len(frontier):
        first, second = left[frontier // width], right[frontier % width]
        pairs = np.where((first >= 0) & (second >= 0), first.astype(np.int64) * width + second, -1)
        rows.append(pairs)
        fresh = [int(p) for p in distinct(pairs) if p >= 0 and int(p) not in number]
        number.update((pair, len(number) + i) for i, pair in enumerate(fresh))
        if len(number) > limit:
            raise TooLargeError(
                f"the product {shortened(name)} has more than {limit} states, which is too "
                "many to expand: use constraints over fewer labels"
            )
        frontier = np.asarray(fresh, dtype=np.int64)
    states = np.fromiter(number, dtype=np.int64, count=len(number))
    by_pair = np.argsort(states)
    targets = np.concatenate(rows)
    place = by_pair[np.searchsorted(states[by_pair], np.maximum(targets, 0))]
    return states, np.where(targets >= 0, place, -1).astype(np.int32)


def on_tapes(
    acceptor: Acceptor, tapes: tuple[str, ...], labels: tuple[tuple[str, ...], ...]
) -> Acceptor:
    """Return the acceptor over these tapes; it ignores tapes that are new to it.

    Raises
    ------
    ShapeError
        A tape that is missing, or has another label set.
    """
    sets = dict(zip(tapes, labels, strict=True))
    for tape, expected in zip(acceptor.tapes, acceptor.labels, strict=True):
        if sets.get(tape) != expected:
            raise ShapeError(f"{acceptor.name}: tape {tape!r} is missing or has other labels")
    if acceptor.tapes == tapes:
        return acceptor
    inner = [t for t in tapes if t in acceptor.tapes]
    order = (0, *(1 + acceptor.tapes.index(t) for t in inner))
    shape = (acceptor.n_states, *(len(sets[t]) if t in inner else 1 for t in tapes))
    full = (acceptor.n_states, *map(len, labels))

    def widened(array: NDArray[np.generic]) -> NDArray[np.generic]:
        return np.ascontiguousarray(np.broadcast_to(array.transpose(order).reshape(shape), full))

    score = None if acceptor.score is None else widened(acceptor.score).astype(np.float64)
    target = widened(acceptor.target).astype(np.int32)
    return replace(acceptor, tapes=tapes, labels=labels, target=target, score=score)


def equivalent(a: Acceptor, b: Acceptor, tolerance: float = 1e-9) -> bool:
    """Return whether two acceptors over the same tapes give every labelling the same score.

    Parameters
    ----------
    a, b : Acceptor
    tolerance : float
        Largest difference between the scores of a step.
    """
    if (a.tapes, a.labels) != (b.tapes, b.labels):
        return False
    a, b = minimise(trim(a)), minimise(trim(b))
    if not np.array_equal(a.target, b.target):
        return False
    return all(
        np.array_equal(np.isinf(x), np.isinf(y))
        and np.allclose(x[~np.isinf(x)], y[~np.isinf(y)], rtol=tolerance, atol=tolerance)
        for x, y in zip(_pushed(a), _pushed(b), strict=True)
    )


def _flat(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    return array.reshape(len(array), -1)


def _useful(target: Ints, final: Floats) -> Bools:
    """Return which states are on a path from the start to an end, bool [Q]."""
    there = target >= 0
    row = Ragged.from_lengths(there.sum(axis=1)).offsets
    return connected(row, target[there], 0, final > -np.inf)


def _same(a: NDArray[np.generic] | None, b: NDArray[np.generic] | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and np.array_equal(a, b)


def _breadth_first(target: Ints) -> Longs:
    visited = np.zeros(len(target), dtype=bool)
    layer = np.zeros(1, dtype=np.int64)
    layers = []
    while len(layer):
        visited[layer] = True
        layers.append(layer)
        reached, first = _first_places(target[layer].ravel(), len(target))
        new = (reached >= 0) & ~visited[reached]
        layer = reached[new][np.argsort(first[new])].astype(np.int64)
    return np.concatenate(layers)


def _first_places(states: Ints, count: int) -> tuple[Ints | Longs, Longs]:
    """Return the distinct states, all below `count`, and where each occurs first.

    The states may have −1 among them; it is returned or left out.
    """
    if len(states) < count:
        return np.unique(states, return_index=True)
    first = np.full(count + 1, -1)  # the last one is for −1
    first[states[::-1]] = np.arange(len(states) - 1, -1, -1)  # of equal states, the first one stays
    reached = np.flatnonzero(first[:-1] >= 0)
    return reached, first[reached]


# --- Minimisation ---------------------------------------------------------------------------------
# Two states are equivalent if every continuation is accepted from both or from neither, with scores
# that differ by one constant. The constant is known before the states are compared: it is the score
# difference of one and the same continuation, the first of the shortest accepted ones. Pushing
# these scores towards the start gives equivalent states equal rows. (Best scores would not do: with
# a rewarded loop there is no best score.) Then partitions are refined.

_DIGITS = 10
"""Scores that agree in this many decimals count as equal, because sums are rounded."""


def minimise(acceptor: Acceptor) -> Acceptor:
    """Return the smallest acceptor with the same scores.

    Parameters
    ----------
    acceptor : Acceptor
        Trim, except for a start from which no labelling is accepted.

    Returns
    -------
    Acceptor
        Its states are numbered in the order of their first members.
    """
    if acceptor in _minimal:
        return acceptor
    minimal = _minimised(acceptor)
    if minimal.target.size > _SMALL:
        _minimal.add(minimal)
    return minimal


def _minimised(acceptor: Acceptor) -> Acceptor:
    classes = _classes(acceptor)
    _, first, classes = np.unique(classes, return_index=True, return_inverse=True)
    if len(first) == acceptor.n_states:
        return acceptor
    order = np.argsort(first)
    number = np.argsort(order)[classes].astype(np.int32)
    kept = first[order]
    target = acceptor.target[kept]
    merged = np.where(target >= 0, number[target], -1).astype(np.int32)
    score = None
    if acceptor.weighted:
        offset = _continuations(acceptor)
        offset -= offset[kept][number]
        offset[np.abs(offset) < 10.0**-_DIGITS] = 0.0
        score = np.where(target >= 0, offset[target], 0.0)
        score += 0.0 if acceptor.score is None else acceptor.score[kept]
        score = score if score.any() else None
    return replace(acceptor, target=merged, score=score, final=acceptor.final[kept])


def _pushed(acceptor: Acceptor) -> tuple[Floats, Floats]:
    """Return canonical scores of steps [Q, L1, ...] and ends [Q], common to equivalent ones."""
    rest = _continuations(acceptor)
    rest -= rest[0]
    step = np.zeros(acceptor.target.shape) if acceptor.score is None else acceptor.score
    source = rest.reshape(-1, *[1] * (acceptor.target.ndim - 1))
    step = np.where(acceptor.target >= 0, step + rest[acceptor.target] - source, -np.inf)
    return step, acceptor.final - rest


def _classes(acceptor: Acceptor) -> Longs:
    target = acceptor.target.reshape(acceptor.n_states, -1)
    if acceptor.weighted:
        step, final = (_rounded(x) for x in _pushed(acceptor))
        weights = np.column_stack([step.reshape(acceptor.n_states, -1), final])
        classes = numbered(weights)
    else:
        classes = numbered(np.column_stack([target >= 0, acceptor.final + 0.0]))
    if target.size > _SMALL:
        # Labels that lead to the same states from everywhere need only one column.
        columns = np.ascontiguousarray(target.T)
        target = target[:, distinct(_first_equal(columns))]
    return coarsest(target, classes)


def _rounded(scores: Floats) -> Floats:
    """Return rounded scores, without −0; large ones, which have no decimals, are unchanged."""
    with np.errstate(over="ignore"):
        rounded = np.round(scores, _DIGITS)
    return np.where(np.abs(scores) < 1e200, rounded, scores) + 0.0


def _continuations(acceptor: Acceptor) -> Floats:
    """Return the score, float64 [Q], of the first of the shortest accepted continuations."""
    target: Ints = acceptor.target.reshape(acceptor.n_states, -1)
    score = None if acceptor.score is None else acceptor.score.reshape(target.shape)
    done = acceptor.final > -np.inf
    rest = np.where(done, acceptor.final, 0.0)
    before = predecessors(target)
    reached = np.flatnonzero(done)
    while len(reached):
        reached = before(reached)
        reached = reached[~done[reached]]
        ahead = target[reached]
        label = ((ahead >= 0) & done[ahead]).argmax(axis=1)
        rest[reached] = rest[target[reached, label]]
        if score is not None:
            rest[reached] += score[reached, label]
        done[reached] = True
    return rest


# --- Partitions of states -------------------------------------------------------------------------
# Moore's refinement in rounds, restricted to states that lead to a new class. When a class is
# split, its largest part keeps the number, so that a state changes its class at most log₂ Q times:
# a machine of a hundred thousand states takes only seconds.


def predecessors(target: Ints) -> Callable[[NDArray[np.integer]], Longs]:
    """Return a function from states to their predecessors, each once, in order.

    `target`, int32 [Q, A], is −1 for a missing step.
    """
    start, symbol = np.nonzero(target >= 0)
    ends = target[start, symbol]
    sources, steps = start[np.argsort(ends, kind="stable")], Ragged.from_rows(ends, len(target))
    return lambda states: distinct(sources[steps.entries(states)])


def coarsest(target: Ints, classes: Longs) -> Longs:
    """Return the coarsest refinement of classes, int64 [Q], in which classes lead to classes."""
    parts, before = _Parts(classes), None
    splitter = np.arange(len(target))
    while len(splitter) and parts.n < len(target):
        ahead = target[splitter]
        targets = np.where(ahead >= 0, parts.classes[ahead], -1)
        fresh = parts.split(splitter, targets)
        before = before or predecessors(target)
        splitter = before(fresh)
    return parts.classes


def numbered(rows: NDArray[np.generic]) -> Longs:
    """Return a number for each row, from 0 without gaps; equal rows have equal numbers."""
    numbers: Longs = np.unique(_first_equal(rows), return_inverse=True)[1]
    return numbers


def _first_equal(rows: NDArray[np.generic]) -> Longs:
    """Return the index of the first row that equals each row."""
    seen: dict[bytes, int] = {}
    return np.asarray([seen.setdefault(row.tobytes(), k) for k, row in enumerate(rows)])


class _Parts:
    """Classes of states, int64 [Q], and the size of each."""

    def __init__(self, classes: Longs) -> None:
        self.classes = classes.copy()
        self.size = np.bincount(classes, minlength=len(classes))
        self.n = int(classes.max()) + 1

    def split(self, sources: Longs, targets: Longs) -> Longs:
        """Split classes into members with equal successors, and the rest; return the moved states.

        `sources`, int64 [K], are all states that lead to a class of the last round; `targets`,
        int64 [K, A], are the classes they lead to.
        """
        old = self.classes[sources]
        rows = numbered(np.column_stack([old, targets]))
        _, first, size = np.unique(rows, return_index=True, return_counts=True)
        of_class = old[first]
        classes, n_sources = np.unique(old, return_counts=True)
        rest = self.size[classes] - n_sources
        # The largest group of each class is the last one in this order.
        order = np.lexsort((size, of_class))
        largest = order[np.append(np.diff(of_class[order]) > 0, True)]
        wins = size[largest] > rest
        moved = np.ones(len(size), dtype=bool)
        moved[largest[wins]] = False
        number = of_class.copy()
        number[moved] = self._new(size[moved])
        left = wins & (rest > 0)
        others = self._members(classes[left], sources)
        place = np.searchsorted(classes[left], self.classes[others])
        self.classes[others] = self._new(rest[left])[place]
        self.classes[sources] = number[rows]
        self.size[classes] = np.maximum(size[largest], rest)
        return np.concatenate([sources[moved[rows]], others])

    def _new(self, size: Longs) -> Longs:
        """Return numbers for classes of these sizes."""
        numbers = np.arange(self.n, self.n + len(size))
        self.size[numbers] = size
        self.n += len(size)
        return numbers

    def _members(self, classes: Longs, excluded: Longs) -> Longs:
        """Return the members of some classes except `excluded` ones."""
        if not len(classes):
            return np.zeros(0, dtype=np.int64)
        inside = np.zeros(self.n, dtype=bool)
        inside[classes] = True
        members = inside[self.classes]
        members[excluded] = False
        return np.flatnonzero(members)

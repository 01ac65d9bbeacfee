"""Finds a smallest set of constraints that contradict each other.

It never computes the product of all constraints. A set of constraints grows by counter-examples: a
labelling that satisfies the set breaks some other constraint, which is added. When no labelling
satisfies the set, constraints that are not needed are dropped. The cost grows with the set, not
with the grammar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import ContradictionError, TooLargeError
from fstcrf.machines.grammar.acceptor import Acceptor, intersect, minimise, trim

Word: TypeAlias = Mapping[str, Sequence[str]]
"""The labels of each tape."""

TOGETHER = "together they accept nothing"
ANY_ONE = "leave out any one of them, and the rest can be satisfied"
"""Statement of the result: these constraints contradict each other, and no smaller subset does."""

MAX_STATES = 4096
_MAX_ENTRIES = 20_000_000


def irreducible(
    constraints: Sequence[Acceptor],
    witness: Callable[[Sequence[Acceptor]], Word | None],
    first: Sequence[Acceptor] = (),
) -> tuple[Acceptor, ...] | None:
    """Return a minimal set of constraints that no labelling satisfies together.

    Parameters
    ----------
    constraints : sequence of Acceptor
    witness : callable
        Returns a labelling that satisfies given constraints, or `None`. The labelling has all tapes
        that constraints read.
    first : sequence of Acceptor
        Initial set of constraints.

    Returns
    -------
    tuple of Acceptor or None
        `None` if some labelling satisfies all of them; () if no labelling exists even without
        constraints.
    """
    chosen = list(first)
    times: Counter[Acceptor] = Counter()
    while (word := witness(chosen)) is not None:
        broken = [acceptor for acceptor in constraints if _breaks(word, acceptor)]
        if not broken:
            return None
        times.update(broken)
        # A constraint that is broken repeatedly is probably to blame; of several such constraints,
        # the smallest is cheapest.
        chosen.append(min(broken, key=lambda acceptor: (-times[acceptor], acceptor.n_states)))
    for one in tuple(chosen):
        fewer = [a for a in chosen if a is not one]
        if witness(fewer) is None:
            chosen = fewer
    return tuple(sorted(chosen, key=constraints.index))


def contradictory(
    constraints: Sequence[Acceptor], given: Sequence[Acceptor] = ()
) -> tuple[Acceptor, ...] | None:
    """Return a minimal set of constraints that no sentence of any length satisfies together.

    Parameters
    ----------
    constraints : sequence of Acceptor
    given : sequence of Acceptor
        Further constraints that always hold; they are never part of the result.

    Returns
    -------
    tuple of Acceptor or None
        `None` if a sentence of at least one token satisfies all of them.

    Raises
    ------
    TooLargeError
        The answer is unknown, because the constraints have too many states together.
    """
    sets: dict[str, tuple[str, ...]] = {}
    for acceptor in (*constraints, *given):
        sets.update(zip(acceptor.tapes, acceptor.labels, strict=True))
    always = [minimise(trim(acceptor.support())) for acceptor in given]
    hard = {acceptor: minimise(trim(acceptor.support())) for acceptor in constraints}

    def witness(chosen: Sequence[Acceptor]) -> Word | None:
        # Given constraints are also added on demand: they may be about other tapes.
        used = [hard[acceptor] for acceptor in chosen]
        while True:
            word = _common(used, sets)
            broken = [] if word is None else [a for a in always if _breaks(word, a)]
            if not broken:
                return word
            used.append(broken[0])

    return irreducible(constraints, witness)


def contradiction_error(constraints: Sequence[Acceptor]) -> ContradictionError:
    """Return the error that names contradictory constraints.

    If finding them takes too many states, the error names no constraint.
    """
    try:
        names = tuple(acceptor.name for acceptor in contradictory(constraints) or ())
    except TooLargeError:
        names = ()
    if len(names) == 1:
        message = f"{names[0]} accepts nothing"
    elif names:
        message = f"{listed_names(names)} contradict each other: {TOGETHER}; {ANY_ONE}"
    else:
        message = f"the {len(constraints)} constraints contradict each other: {TOGETHER}"
    return ContradictionError(message, constraints=names)


def listed_names(names: Sequence[str]) -> str:
    """Return names of constraints for a message: "a, b and c"."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def shortest(acceptor: Acceptor) -> dict[str, list[str]] | None:
    """Return the shortest accepted labelling of at least one token, or `None`.

    Ties: the first in the order of labels.

    Examples
    --------
    >>> from fstcrf.constraints import exactly
    >>> (twice,) = exactly(2, "A").bind(["A", "B"])
    >>> shortest(twice)
    {'': ['A', 'A']}
    """
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    ends = acceptor.final > -np.inf
    # The state and the tuple of labels from which each state was first reached.
    origin = np.full((acceptor.n_states, 2), -1, dtype=np.int64)
    visited = np.zeros(acceptor.n_states, dtype=bool)
    layer = np.zeros(1, dtype=np.int64)
    layers = 0
    while len(layer):
        reached = flat[layer]
        states, first = np.unique(reached, return_index=True)
        new = (states >= 0) & ~visited[states]
        rows, symbols = np.divmod(first[new], flat.shape[1])
        order = np.argsort(first[new])
        source, symbols, target = layer[rows][order], symbols[order], states[new][order]
        origin[target] = np.column_stack([source, symbols])
        visited[target] = True
        layers += 1
        if ends[target].any():
            return _traced(acceptor, origin, int(target[ends[target].argmax()]), layers)
        layer = target.astype(np.int64)
    return None


def _traced(
    acceptor: Acceptor, origin: np.ndarray[tuple[int, int], np.dtype[np.int64]], state: int, n: int
) -> dict[str, list[str]]:
    symbols = []
    for _ in range(n):
        state, symbol = origin[state].tolist()
        symbols.append(symbol)
    places = np.unravel_index(symbols[::-1], acceptor.target.shape[1:])
    return {
        tape: [labels[i] for i in place.tolist()]
        for tape, labels, place in zip(acceptor.tapes, acceptor.labels, places, strict=True)
    }


def _common(acceptors: Sequence[Acceptor], sets: Mapping[str, tuple[str, ...]]) -> Word | None:
    """Return the shortest labelling that all accept; an unread tape has its first label."""
    if not acceptors:
        return {tape: [labels[0]] for tape, labels in sets.items()}
    tapes = {tape for acceptor in acceptors for tape in acceptor.tapes}
    tuples = int(np.prod([len(sets[tape]) for tape in tapes], dtype=np.float64))
    limit = min(MAX_STATES, _MAX_ENTRIES // tuples)

    def product(a: Acceptor, b: Acceptor) -> Acceptor:
        return minimise(intersect(a, b, limit=limit))

    word = shortest(reduce(product, acceptors))
    if word is None:
        return None
    tokens = len(next(iter(word.values())))
    return {tape: word.get(tape, [labels[0]] * tokens) for tape, labels in sets.items()}


def _breaks(word: Word, acceptor: Acceptor) -> bool:
    return acceptor.walk(*(word[tape] for tape in acceptor.tapes)) == -np.inf


# --- Proofs by counting ---------------------------------------------------------------------------
# Twelve labels that must each occur do not fit into eleven tokens. The product of twelve
# constraints shows this as well, but has 4096 states. Counting uses each constraint separately: the
# number of tokens it still needs, the number it still allows, and the labels that change these
# numbers. If weights of the constraints exist for which the sum exceeds the possible change under
# every labelling, they are a proof; a linear program finds the best weights.

_MAX_COUNTED = 2_000
"""Larger acceptors are not counted."""

_REJECTED = -10_000
"""Change for a label that no state accepts: lower than all other changes together can offset."""

_MARGIN = 1e-6


class _Account(NamedTuple):
    """A quantity of an acceptor that changes with labels."""

    owner: int
    due: float  # least decrease from the start to an end; negative: possible increase
    change: Floats  # [L]: largest decrease that a token with each label allows


def overfull(
    acceptors: Sequence[Acceptor], allowed: Mapping[str, Bools]
) -> tuple[Acceptor, ...] | None:
    """Return acceptors that a sentence cannot satisfy together, `None` if counting finds no proof.

    Parameters
    ----------
    acceptors : sequence of Acceptor
        Trim and minimal; acceptors of several tapes are ignored.
    allowed : mapping of str to bool [T, L]
        For each tape, the allowed labels of each token.

    Returns
    -------
    tuple of Acceptor or None
        In their order; the set may not be minimal.
    """
    for tape, mask in allowed.items():
        of_tape = [a for a in acceptors if a.tapes == (tape,) and a.n_states <= _MAX_COUNTED]
        accounts = [x for i, a in enumerate(of_tape) for x in _accounts(i, a)]
        used = _proof(accounts, mask) if accounts else None
        if used is not None:
            owners = {accounts[k].owner for k in used}
            return tuple(a for i, a in enumerate(of_tape) if i in owners)
    return None


def wanted(acceptor: Acceptor) -> Ints:
    """Return the fewest tokens from each state to an end, int32 [Q]; −1: no path."""
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    fewest = np.where(acceptor.final > -np.inf, 0, -1).astype(np.int32)
    tokens = 0
    while True:
        there = np.append(fewest >= 0, False)  # the last one is for −1
        new = there[flat].any(axis=1) & (fewest < 0)
        if not new.any():
            return fewest
        tokens += 1
        fewest[new] = tokens


def _accounts(owner: int, acceptor: Acceptor) -> list[_Account]:
    flat = acceptor.target
    if not (acceptor.final > -np.inf).any():
        return []
    accounts = []
    for level in (wanted(acceptor), -_allowed(acceptor)):
        fall = np.where(flat >= 0, level[:, None] - level[flat], _REJECTED).max(axis=0)
        due = level[0] - level[acceptor.final > -np.inf].max()
        if due or fall.any():
            accounts.append(_Account(owner, float(due), fall.astype(np.float64)))
    return accounts


def _allowed(acceptor: Acceptor) -> Ints:
    """Return the number of later tokens that can have a label that progresses, int32 [Q]."""
    # Imported here: a slow import, needed only for errors.
    from scipy.sparse import coo_array  # noqa: PLC0415
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    flat, states = acceptor.target, acceptor.n_states
    source, symbol = np.nonzero(flat >= 0)
    target = flat[source, symbol]
    graph = coo_array((np.ones(len(source)), (source, target)), shape=(states, states))
    _, component = connected_components(graph, connection="strong")
    onward = component[source] != component[target]
    consumed = np.ones(flat.shape[1], dtype=bool)
    consumed[symbol[~onward]] = False
    # No loop has such a label: the longest paths are found in at most as many rounds as there are
    # states.
    longest = np.zeros(states, dtype=np.int32)
    for _ in range(states):
        nearer = longest.copy()
        np.maximum.at(nearer, source, consumed[symbol] + longest[target])
        if np.array_equal(nearer, longest):
            break
        longest = nearer
    return longest


def _proof(accounts: Sequence[_Account], mask: Bools) -> list[int] | None:
    """Return the accounts of a proof: weighted, they must decrease by more than tokens allow."""
    from scipy.optimize import linprog  # noqa: PLC0415 (slow to import)

    due = np.asarray([account.due for account in accounts])
    change = np.column_stack([account.change for account in accounts])
    kinds, times = np.unique(mask, axis=0, return_counts=True)
    # Variables: a weight of each account, and the largest change of a token of each kind.
    rows: list[Floats] = []
    for k, kind in enumerate(kinds):
        most = np.unique(change[kind], axis=0)
        ends = np.zeros((len(most), len(kinds)))
        ends[:, k] = -1.0
        rows.append(np.column_stack([most, ends]))
    table = np.concatenate(rows)
    solved = linprog(
        np.concatenate([-due, times]),
        A_ub=table,
        b_ub=np.zeros(len(table)),
        bounds=[(0.0, 1.0)] * len(due) + [(None, None)] * len(kinds),
        method="highs",
    )
    if solved.x is None:
        return None
    weight = np.where(solved.x[: len(due)] > _MARGIN, solved.x[: len(due)], 0.0)
    if weight @ due - _most(weight, change, kinds, times) <= _MARGIN * len(mask):
        return None
    return np.flatnonzero(weight).tolist()


def _most(weight: Floats, change: Floats, kinds: Bools, times: Longs) -> float:
    """Return the possible weighted decrease in a sentence; verifies the solver's result."""
    value = change @ weight
    return float(sum(n * value[kind].max() for kind, n in zip(kinds, times.tolist(), strict=True)))

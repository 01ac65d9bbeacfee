"""Which constraints contradict each other: a set that cannot be smaller.

====================  ==========================================================================
shortest              the shortest labelling that an acceptor accepts
irreducible           constraints without a labelling in common; with any one fewer there is one
contradictory         the same for acceptors alone: of sentences of any length
contradiction_error   says which constraints they are
====================  ==========================================================================

All constraints are never multiplied out. A set of them grows by counter-examples: a labelling that
satisfies the set breaks some other constraint, which joins it; when nothing satisfies the set,
those that it can do without are dropped. What that costs grows with the set and not with the
grammar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

import numpy as np

from fstcrf.errors import ContradictionError, TooLargeError
from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.algebra import intersect, trim
from fstcrf.grammar.minimise import minimise

__all__ = [
    "ANY_ONE",
    "TOGETHER",
    "Word",
    "contradiction_error",
    "contradictory",
    "hardened",
    "irreducible",
    "listed_names",
    "shortest",
]

Word: TypeAlias = Mapping[str, Sequence[str]]
"""The labels of each tape."""

TOGETHER = "together they accept nothing"
ANY_ONE = "leave out any one of them, and the rest can be satisfied"
"""What is so of constraints that contradict each other and are as few as can be."""

MAX_STATES = 4096
_MAX_ENTRIES = 20_000_000


def irreducible(
    constraints: Sequence[Acceptor],
    witness: Callable[[Sequence[Acceptor]], Word | None],
    first: Sequence[Acceptor] = (),
) -> tuple[Acceptor, ...] | None:
    """Return constraints that nothing satisfies together, any one fewer of which something does.

    Parameters
    ----------
    constraints : sequence of Acceptor
    witness : callable
        Returns a labelling that satisfies the constraints that it is given, None where there is
        none. It says all tapes that constraints read.
    first : sequence of Acceptor
        Some of the constraints, to begin with.

    Returns
    -------
    tuple of Acceptor or None
        None where something satisfies all of them; () where nothing satisfies no constraint.
    """
    chosen = list(first)
    times: Counter[Acceptor] = Counter()
    while (word := witness(chosen)) is not None:
        broken = [acceptor for acceptor in constraints if _breaks(word, acceptor)]
        if not broken:
            return None
        times.update(broken)
        # What is broken time and again is to blame; of several such, the smallest costs least.
        chosen.append(min(broken, key=lambda acceptor: (-times[acceptor], acceptor.n_states)))
    for one in tuple(chosen):
        fewer = [a for a in chosen if a is not one]
        if witness(fewer) is None:
            chosen = fewer
    return tuple(sorted(chosen, key=constraints.index))


def contradictory(
    constraints: Sequence[Acceptor], given: Sequence[Acceptor] = ()
) -> tuple[Acceptor, ...] | None:
    """Return constraints that no sentence of any length satisfies together, as few as can be.

    Parameters
    ----------
    constraints : sequence of Acceptor
    given : sequence of Acceptor
        What holds anyway: they are in no answer.

    Returns
    -------
    tuple of Acceptor or None
        None where a sentence of a token or more satisfies all of them.

    Raises
    ------
    TooLargeError
        That cannot be told: those that were looked at have too many states together.
    """
    sets: dict[str, tuple[str, ...]] = {}
    for acceptor in (*constraints, *given):
        sets.update(zip(acceptor.tapes, acceptor.labels, strict=True))
    always = [hardened(acceptor) for acceptor in given]
    hard = {acceptor: hardened(acceptor) for acceptor in constraints}

    def witness(chosen: Sequence[Acceptor]) -> Word | None:
        # What is given comes in when it is needed, too: it may be about other tapes.
        used = [hard[acceptor] for acceptor in chosen]
        while True:
            word = _common(used, sets)
            broken = [] if word is None else [a for a in always if _breaks(word, a)]
            if not broken:
                return word
            used.append(broken[0])

    return irreducible(constraints, witness)


def contradiction_error(constraints: Sequence[Acceptor]) -> ContradictionError:
    """Return the error that says which of some constraints contradict each other.

    Where that would take too many states to tell, it names none.
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


def hardened(acceptor: Acceptor) -> Acceptor:
    """Return the smallest acceptor of the same labellings, without scores."""
    final = np.where(acceptor.final > -np.inf, 0.0, -np.inf)
    return minimise(trim(replace(acceptor, score=None, final=final)))


def shortest(acceptor: Acceptor) -> dict[str, list[str]] | None:
    """Return the shortest labelling of a token or more that an acceptor accepts, None without one.

    Of several, the first in the order of labels.

    Examples
    --------
    >>> from fstcrf.constraints import exactly
    >>> (twice,) = exactly(2, "A").bind(["A", "B"])
    >>> shortest(twice)
    {'': ['A', 'A']}
    """
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    ends = acceptor.final > -np.inf
    # From where each state was met first, and by which tuple of labels.
    origin = np.full((acceptor.n_states, 2), -1, dtype=np.int64)
    met = np.zeros(acceptor.n_states, dtype=bool)
    layer = np.zeros(1, dtype=np.int64)
    layers = 0
    while len(layer):
        reached = flat[layer]
        found, first = np.unique(reached, return_index=True)
        new = (found >= 0) & ~met[found]
        rows, symbols = np.divmod(first[new], flat.shape[1])
        order = np.argsort(first[new])
        source, symbols, target = layer[rows][order], symbols[order], found[new][order]
        origin[target] = np.column_stack([source, symbols])
        met[target] = True
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
    """Return the shortest labelling that all accept; a tape that none reads has its first label."""
    if not acceptors:
        return {tape: [labels[0]] for tape, labels in sets.items()}
    tapes = {tape for acceptor in acceptors for tape in acceptor.tapes}
    tuples = int(np.prod([len(sets[tape]) for tape in tapes], dtype=np.float64))
    limit = min(MAX_STATES, _MAX_ENTRIES // tuples)

    def product(a: Acceptor, b: Acceptor) -> Acceptor:
        return minimise(intersect(a, b, limit=limit))

    found = shortest(reduce(product, acceptors))
    if found is None:
        return None
    tokens = len(next(iter(found.values())))
    return {tape: found.get(tape, [labels[0]] * tokens) for tape, labels in sets.items()}


def _breaks(word: Word, acceptor: Acceptor) -> bool:
    return acceptor.walk(*(word[tape] for tape in acceptor.tapes)) == -np.inf

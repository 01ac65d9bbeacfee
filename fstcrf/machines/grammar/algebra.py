"""Grammars as languages over labels: combined, compared, sampled.

All functions work on acceptors, and so on bound grammars; tapes may be several. A combination of
unbound grammars is a constraint, which is computed when it is bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TypeAlias

import numpy as np

from fstcrf.arrays import Floats, Ints
from fstcrf.errors import GrammarError
from fstcrf.lazy import LazyModule
from fstcrf.machines.grammar.acceptor import (
    Acceptor,
    either,
    equivalent,
    intersect,
    minimise,
    on_tapes,
    trim,
)
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.grammar.labels import LabelSets

languages = LazyModule("fstcrf.machines.languages")  # these modules import this one
relations = LazyModule("fstcrf.machines.relations")

Labelling: TypeAlias = tuple[str, ...] | dict[str, tuple[str, ...]]
"""Labels of the only tape, or a dict from tape to labels."""

Parts: TypeAlias = tuple[Constraint, ...]

# --- Combined -------------------------------------------------------------------------------------


def union(first: Parts, second: Parts) -> Constraint:
    """Return the constraint that accepts the union."""
    return _combined("|", either, first, second)


def difference(first: Parts, second: Parts) -> Constraint:
    """Return the constraint that accepts the first language without the second."""
    return _combined("-", _difference, first, second)


def complement(parts: Parts) -> Constraint:
    """Return the constraint that accepts the complement."""
    name = f"~({_shown(parts)})"
    build = partial(_complemented, name, parts)
    return Constraint(name, build, ("~", *parts), language=True)


def support(parts: Parts) -> Constraint:
    """Return the same constraint without scores."""
    build = partial(_support, parts)
    return Constraint(f"support({_shown(parts)})", build, ("support", *parts), language=True)


def moved(part: Constraint, tape: str) -> Constraint:
    """Return a constraint that reads one tape, on another tape."""
    build = partial(_moved, part, tape)
    return replace(
        part,
        name=f"{part.name} on {tape}",
        build=build,
        content=("on", part, tape),
        _bound={},
    )


def _combined(
    sign: str,
    make: Callable[[Acceptor, Acceptor], Acceptor],
    first: Parts,
    second: Parts,
) -> Constraint:
    name = f"({_shown(first)} {sign} {_shown(second)})"
    build = partial(_of_both, name, make, first, second)
    return Constraint(name, build, (sign, first, second), language=True)


def _shown(parts: Parts) -> str:
    return " & ".join(part.name for part in parts)


def _of_both(
    name: str,
    make: Callable[[Acceptor, Acceptor], Acceptor],
    first: Parts,
    second: Parts,
    sets: LabelSets,
) -> tuple[Acceptor, ...]:
    both = minimise(trim(make(_hard(first, sets), _hard(second, sets))))
    return (replace(both, name=name),)


def _complemented(name: str, parts: Parts, sets: LabelSets) -> tuple[Acceptor, ...]:
    return (replace(_complement(_hard(parts, sets)), name=name),)


def _support(parts: Parts, sets: LabelSets) -> tuple[Acceptor, ...]:
    bound = (acceptor for part in parts for acceptor in part.bind(sets))
    return tuple(minimise(trim(acceptor.support())) for acceptor in bound)


def _moved(part: Constraint, tape: str, sets: LabelSets) -> tuple[Acceptor, ...]:
    if tape not in sets:
        raise GrammarError(f"no tape {tape!r}; the tapes are {', '.join(map(repr, sets))}")
    return tuple(replace(one, tapes=(tape,)) for one in part.bind({"": sets[tape]}))


def conjoined(parts: Parts, sets: LabelSets) -> Acceptor:
    """Return the acceptor of a conjunction, over all tapes in their order."""
    acceptor = reduce(intersect, (acceptor for part in parts for acceptor in part.bind(sets)))
    return minimise(on_tapes(acceptor, tuple(sets), tuple(sets.values())))


def _hard(parts: Parts, sets: LabelSets) -> Acceptor:
    acceptor = conjoined(parts, sets)
    if acceptor.weighted:
        raise GrammarError(
            f"{_shown(parts)} has scores, expected a hard grammar: .support() drops the "
            "scores and keeps the labellings"
        )
    return acceptor


def _complement(acceptor: Acceptor) -> Acceptor:
    # The union with the empty language is complete: each labelling has a state.
    nothing = replace(acceptor, final=np.full(acceptor.n_states, -np.inf))
    complete = either(acceptor, nothing)
    final = np.where(complete.final > -np.inf, -np.inf, 0.0)
    return minimise(trim(replace(complete, final=final)))


def _difference(first: Acceptor, second: Acceptor) -> Acceptor:
    return intersect(first, _complement(second))


# --- Compared -------------------------------------------------------------------------------------


def witness(first: Acceptor, second: Acceptor) -> Labelling | None:
    """Return a shortest labelling with different scores; `None`: there is none.

    Pairs of states are visited in order of length. If two paths reach one pair with different score
    differences, some continuation distinguishes the acceptors; so each pair is expanded at most
    twice.
    """
    if equivalent(first, second):
        return None
    walks = [_Steps(one) for one in (first, second)]
    seen: dict[tuple[int, int], set[float]] = {}
    queue: deque[tuple[int, int, float, tuple[int, ...]]] = deque([(0, 0, 0.0, ())])
    while queue:
        p, q, difference, symbols = queue.popleft()
        differences = seen.setdefault((p, q), set())
        if round(difference, 9) in differences or len(differences) > 1:
            continue
        differences.add(round(difference, 9))
        ends = walks[0].final(p), walks[1].final(q)
        if max(ends) > -np.inf and not abs(ends[0] - ends[1] + difference) <= 1e-9:
            return _labelling(first, symbols)
        for symbol, (a, more), (b, less) in walks[0].joint_steps(walks[1], p, q):
            both = a >= 0 and b >= 0
            queue.append((a, b, difference + more - less if both else 0.0, (*symbols, symbol)))
    return None


class _Steps:
    """An acceptor's steps by symbol; state −1 accepts no labelling."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.target: Ints = acceptor.target.reshape(acceptor.n_states, -1)
        self.score: Floats | None = None
        if acceptor.score is not None:
            self.score = acceptor.score.reshape(acceptor.n_states, -1)
        self.ends = acceptor.final

    def final(self, state: int) -> float:
        return -np.inf if state < 0 else float(self.ends[state])

    def step(self, state: int, symbol: int) -> tuple[int, float]:
        if state < 0:
            return -1, 0.0
        score = 0.0 if self.score is None else float(self.score[state, symbol])
        return int(self.target[state, symbol]), score

    def joint_steps(
        self, other: _Steps, p: int, q: int
    ) -> list[tuple[int, tuple[int, float], tuple[int, float]]]:
        """Return symbols that either side accepts; of symbols with equal steps only the first."""
        ways: dict[tuple[tuple[int, float], tuple[int, float]], int] = {}
        for symbol in range(self.target.shape[1]):
            both = self.step(p, symbol), other.step(q, symbol)
            if max(both[0][0], both[1][0]) >= 0:
                ways.setdefault(both, symbol)
        return [(symbol, *both) for both, symbol in ways.items()]


def _labelling(acceptor: Acceptor, symbols: Sequence[int]) -> Labelling:
    sizes = tuple(map(len, acceptor.labels))
    columns = np.unravel_index(np.asarray(symbols, dtype=np.int64), sizes)
    labels = {
        tape: tuple(names[k] for k in column.tolist())
        for tape, names, column in zip(acceptor.tapes, acceptor.labels, columns, strict=True)
    }
    return next(iter(labels.values())) if len(labels) == 1 else labels


# --- Their labellings -----------------------------------------------------------------------------
# An acceptor over several tapes is an acceptor over a tape of tuples, which are named by number.


def example(acceptor: Acceptor) -> Labelling | None:
    """Return a labelling with the fewest tokens; `None` if no labelling is accepted."""
    string = languages.example(relations.over_tuples(acceptor))
    return None if string is None else _labelling(acceptor, list(map(int, string)))


def sampled(acceptor: Acceptor, n: int, seed: int) -> list[Labelling]:
    """Return random labellings: each step, and the end, of a state is equally likely.

    After 1,000 tokens a walk takes the shortest path to an end.
    """
    strings = languages.sampled(relations.over_tuples(acceptor), n, seed)
    return [_labelling(acceptor, list(map(int, string))) for string in strings]

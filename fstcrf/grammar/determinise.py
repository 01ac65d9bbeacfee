"""From alternatives to one path: the weighted subset construction, best path by best path.

What a regular expression makes has several paths for one label sequence. The score of a sequence
is that of its best path, so a state of the result is a set of states, each with how much worse its
best path is than the best of the set. Such sets may be many, or endlessly many where two loops
over the same labels differ in score: hence a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.errors import GrammarError, TooLargeError
from fstcrf.grammar.acceptor import Floats, Ints

__all__ = ["MAX_STATES", "Automaton", "determinise"]

MAX_STATES = 10_000
MAX_MEMBERS = 500_000
"""Members of all sets of states together: what takes more takes too long."""

_DIGITS = 10
_EPSILON = 1e-12

_Subset = tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Automaton:
    """An automaton with alternatives.

    Parameters
    ----------
    start : int
        −1: there is no state.
    steps : list of lists of (symbol, score, target)
        For each state. Symbols 0 … n_symbols − 1 read a token. Scores are natural logs.
    silent : list of lists of (score, target)
        For each state, steps that read nothing.
    final : list of float
        Score of ending, −inf where it may not.
    n_symbols : int
    """

    start: int
    steps: Sequence[Sequence[tuple[int, float, int]]]
    silent: Sequence[Sequence[tuple[float, int]]]
    final: Sequence[float]
    n_symbols: int


def determinise(automaton: Automaton, limit: int = MAX_STATES) -> tuple[Ints, Floats, Floats]:
    """Return an automaton with at most one path for each sequence, and the same best scores.

    Parameters
    ----------
    automaton : Automaton
    limit : int
        Largest number of states.

    Returns
    -------
    target : int32 [Q, n_symbols]
        −1 where there is no step.
    score : float64 [Q, n_symbols]
        0 where there is no step.
    final : float64 [Q]
        −inf where it may not end.

    Raises
    ------
    GrammarError
        A loop that reads no token has a positive score.
    TooLargeError
        More states than `limit`, or sets of states that are too large.
    """
    begin = _closed(automaton, {automaton.start: 0.0} if automaton.start >= 0 else {})
    # Only the first set keeps the scores as they are: there is nothing before it to take them.
    number: dict[_Subset, int] = {_key(begin): 0}
    queue = [begin]
    target: list[list[int]] = []
    score: list[list[float]] = []
    final: list[float] = []
    members = 0
    for subset in queue:
        members += len(subset)
        if members > MAX_MEMBERS:
            raise TooLargeError(
                f"more than {MAX_MEMBERS:,} alternatives on the way to at most {limit} states"
            )
        ends = (rest + automaton.final[state] for state, rest in subset.items())
        final.append(max(ends, default=-np.inf))
        target.append([-1] * automaton.n_symbols)
        score.append([0.0] * automaton.n_symbols)
        for symbol, reached in sorted(_read(automaton, subset).items()):
            closed = _closed(automaton, reached)
            if not closed:  # from here nothing is accepted
                continue
            best = max(closed.values())
            rest = {state: value - best for state, value in closed.items()}
            key = _key(rest)
            if key not in number:
                number[key] = len(queue)
                queue.append(rest)
                if len(queue) > limit:
                    raise TooLargeError(f"more than {limit} states")
            target[-1][symbol] = number[key]
            score[-1][symbol] = best
    shape = (len(queue), automaton.n_symbols)
    return (
        np.asarray(target, dtype=np.int32).reshape(shape),
        np.asarray(score, dtype=np.float64).reshape(shape),
        np.asarray(final, dtype=np.float64),
    )


def _read(automaton: Automaton, subset: dict[int, float]) -> dict[int, dict[int, float]]:
    reached: dict[int, dict[int, float]] = {}
    for state, rest in subset.items():
        for symbol, score, target in automaton.steps[state]:
            found = reached.setdefault(symbol, {})
            found[target] = max(found.get(target, -np.inf), rest + score)
    return reached


def _closed(automaton: Automaton, states: dict[int, float]) -> dict[int, float]:
    """Return all states reached without reading, each with its best score."""
    best = dict(states)
    changed = list(states)
    rounds = 0
    while changed:
        again: dict[int, None] = {}
        for state in changed:
            for score, target in automaton.silent[state]:
                value = best[state] + score
                if value > best.get(target, -np.inf) + _EPSILON or target not in best:
                    best[target] = value
                    again[target] = None
        changed = list(again)
        rounds += 1
        if rounds > len(automaton.steps) + 1:
            raise GrammarError("a loop that reads no label has a negative weight, a reward")
    # States that only lead on without reading have told all that they say.
    return {
        s: value for s, value in best.items() if automaton.steps[s] or automaton.final[s] > -np.inf
    }


def _key(subset: dict[int, float]) -> _Subset:
    return tuple(sorted((state, round(rest, _DIGITS)) for state, rest in subset.items()))

"""Regular expressions over labels, names and functions resolved → acceptors, by way of pynini.

pynini sees small numbers, never labels: labels that the expression does not tell apart are one
symbol, which keeps pairs of labels of two tapes workable, and a label may hold any character. Its
machines are unweighted: a score is a symbol of its own that reads no token, until `determinise`
adds scores up in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import GrammarError, TooLargeError
from fstcrf.grammar.acceptor import Acceptor, intersect, minimise, on_tapes, trim
from fstcrf.grammar.automata import automaton_of, determinise, fst_of
from fstcrf.grammar.constraint import Constraint
from fstcrf.grammar.labels import Matching
from fstcrf.grammar.syntax import Concatenation, Difference, Repetition, Tree, Union, Weighted
from fstcrf.openfst import pynini_module

if TYPE_CHECKING:
    from collections.abc import Callable

    import pynini

__all__ = ["Constrained", "Regular", "Symbol", "compiled", "has_scores", "leaves"]


@dataclass(frozen=True, eq=False, slots=True)
class Symbol:
    """One token: for each tape that matters its label, or the class of its labels.

    The tape is None where only one is read.
    """

    fields: tuple[tuple[str | None, str | Matching], ...]
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Constrained:
    """What a constraint accepts."""

    constraint: Constraint
    line: int


Regular: TypeAlias = Tree[Symbol | Constrained]


def leaves(expression: Regular) -> Iterator[Symbol | Constrained]:
    """Yield each symbol and constraint of an expression once, however often it is used."""
    for part in _parts(expression):
        if isinstance(part, Symbol | Constrained):
            yield part


def has_scores(expression: Regular) -> bool:
    """Tell whether an expression scores some of its sequences itself, not by a constraint."""
    return any(isinstance(part, Weighted) for part in _parts(expression))


def _parts(expression: Regular) -> Iterator[Regular]:
    seen: set[int] = set()
    stack = [expression]
    while stack:
        here = stack.pop()
        if id(here) not in seen:
            seen.add(id(here))
            yield here
            stack.extend(reversed(_children(here)))


def _children(expression: Regular) -> tuple[Regular, ...]:
    match expression:
        case Concatenation(parts) | Union(parts):
            return parts
        case Difference(left, right):
            return left, right
        case Repetition(part) | Weighted(part):
            return (part,)
        case _:
            return ()


# --- Compilation ----------------------------------------------------------------------------------

MAX_STATES = 100_000
"""States of a machine with alternatives, before it is made deterministic."""

MAX_PAIRS = 50_000_000
"""Pairs of states of the two sides of a minus."""


def compiled(
    expression: Regular,
    tapes: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    flags: Callable[[Symbol], Bools],
    parts: Callable[[Constrained], tuple[Acceptor, ...]],
    name: str,
) -> Acceptor:
    """Return the smallest acceptor of a regular expression.

    Parameters
    ----------
    tapes, labels
        The tapes that are read, and their label sets: A tuples of labels in all.
    flags : callable
        Says of a symbol which tuples it stands for: bool [A], the last tape fastest.
    parts : callable
        Binds a constraint.
    name : str
        What the result stands for.
    """
    symbols: dict[int, Bools] = {}
    machines: dict[int, Acceptor] = {}
    for leaf in leaves(expression):
        if isinstance(leaf, Symbol):
            symbols[id(leaf)] = flags(leaf)
        else:
            whole = reduce(intersect, parts(leaf))
            machines[id(leaf)] = on_tapes(whole, tapes, labels)
    first, place = _kinds(list(symbols.values()), list(machines.values()), labels)
    building = _Building(
        len(first),
        {key: np.flatnonzero(shown[first]) for key, shown in symbols.items()},
        {key: _narrowed(machine, first) for key, machine in machines.items()},
    )
    automaton = automaton_of(building.fst(expression), len(first), building.scores)
    target, score, final = determinise(automaton)
    small = Acceptor(
        tapes=("",),
        labels=(tuple(map(str, range(len(first)))),),
        target=target,
        score=score,
        final=final,
        name=name,
    )
    small = minimise(trim(small))
    shape = (small.n_states, *map(len, labels))
    return trim(
        Acceptor(
            tapes=tapes,
            labels=labels,
            target=small.target[:, place].reshape(shape),
            score=None if small.score is None else small.score[:, place].reshape(shape),
            final=small.final,
            name=name,
        )
    )


def _kinds(
    symbols: list[Bools], machines: list[Acceptor], labels: tuple[tuple[str, ...], ...]
) -> tuple[Longs, Longs]:
    """Sort tuples of labels into kinds that the expression does not tell apart.

    Returns
    -------
    (int64 [K], int64 [A])
        A tuple of each kind, and the kind of each tuple.
    """
    size = int(np.prod([len(known) for known in labels]))
    rows: list[Floats] = [
        np.zeros((1, size)),
        *(s[None].astype(float) for s in symbols),
    ]
    for machine in machines:
        rows.append(machine.target.reshape(-1, size).astype(np.float64))
        rows += [] if machine.score is None else [machine.score.reshape(-1, size)]
    _, first, place = np.unique(
        np.concatenate(rows), axis=1, return_index=True, return_inverse=True
    )
    return first, place.reshape(-1)


def _narrowed(machine: Acceptor, first: Longs) -> Acceptor:
    """Return a machine over kinds."""
    flat = (machine.n_states, -1)
    return Acceptor(
        tapes=("",),
        labels=(tuple(map(str, range(len(first)))),),
        target=machine.target.reshape(flat)[:, first],
        score=None if machine.score is None else machine.score.reshape(flat)[:, first],
        final=machine.final,
        name=machine.name,
    )


@dataclass(eq=False)
class _Building:
    """Makes one unweighted pynini machine; symbol k is k + 1, score i is kinds + i + 1."""

    kinds: int
    symbols: dict[int, Longs]
    machines: dict[int, Acceptor]
    scores: list[float] = field(default_factory=list)
    _made: dict[int, pynini.Fst] = field(default_factory=dict)

    def fst(self, expression: Regular) -> pynini.Fst:
        """Return the machine of an expression, made once."""
        key = id(expression)
        if key not in self._made:
            self._made[key] = self._new(expression)
        return self._made[key]

    def _new(self, expression: Regular) -> pynini.Fst:
        library = pynini_module()
        found: pynini.Fst
        match expression:
            case Symbol():
                found = fst_of(2, [(0, int(k) + 1, 1) for k in self.symbols[id(expression)]], [1])
            case Constrained():
                found = self._machine(self.machines[id(expression)])
            case Concatenation(parts):
                machines = list(map(self.fst, parts))
                _check_size(sum(machine.num_states() for machine in machines))
                found = reduce(library.concat, machines, fst_of(1, [], [0]))
            case Union(parts):
                machines = list(map(self.fst, parts))
                _check_size(sum(machine.num_states() for machine in machines))
                found = library.union(*machines)
            case Difference(left, right):
                found = self._difference(self.fst(left), self.fst(right))
            case Repetition(part, low, high):
                found = _repeated(self.fst(part), low, high)
            case Weighted(part, cost):
                ending = fst_of(2, [(0, self._symbol(0.0 - cost), 1)], [1])
                found = library.concat(self.fst(part), ending)
        return found

    def _symbol(self, score: float) -> int:
        if score not in self.scores:
            self.scores.append(score)
        return self.kinds + 1 + self.scores.index(score)

    def _machine(self, machine: Acceptor) -> pynini.Fst:
        """Return a machine, each score as a state between two."""
        arcs: list[tuple[int, int, int]] = []
        last = machine.n_states
        n_states = last + 1
        for state, symbol in zip(*np.nonzero(machine.target >= 0), strict=True):
            score = 0.0 if machine.score is None else float(machine.score[state, symbol])
            source, target = int(state), int(machine.target[state, symbol])
            if score:
                arcs.append((source, self._symbol(score), n_states))
                source, n_states = n_states, n_states + 1
            arcs.append((source, int(symbol) + 1, target))
        for state in np.flatnonzero(machine.final > -np.inf).tolist():
            score = float(machine.final[state])
            arcs.append((state, self._symbol(score) if score else 0, last))
        return fst_of(n_states, arcs, [last])

    def _difference(self, left: pynini.Fst, right: pynini.Fst) -> pynini.Fst:
        target, score, final = determinise(automaton_of(right, self.kinds, self.scores))
        if score.any() or final[final > -np.inf].any():
            raise GrammarError("a soft constraint stands behind a minus")
        arcs = [
            (int(state), int(symbol) + 1, int(target[state, symbol]))
            for state, symbol in zip(*np.nonzero(target >= 0), strict=True)
        ]
        # Scores of the left one pass by the right one.
        passing = range(self.kinds + 1, self.kinds + 1 + len(self.scores))
        arcs += [(state, symbol, state) for state in range(len(final)) for symbol in passing]
        accepted = np.flatnonzero(final > -np.inf).tolist()
        if left.num_states() * len(final) > MAX_PAIRS:
            raise TooLargeError("the two sides of a minus have too many states together")
        right = fst_of(len(final), arcs, accepted)
        found: pynini.Fst = pynini_module().difference(left, right)
        return found


def _repeated(fst: pynini.Fst, low: int, high: int | None) -> pynini.Fst:
    _check_size(fst.num_states() * max(low, high or 0))
    bounds = (low,) if high is None else (low, high)
    found: pynini.Fst = pynini_module().closure(fst, *bounds)
    return found


def _check_size(states: int) -> None:
    if states > MAX_STATES:
        raise TooLargeError(f"a part of it has {states:,} states, expected up to {MAX_STATES:,}")

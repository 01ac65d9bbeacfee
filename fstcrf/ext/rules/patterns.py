"""Grammar files with open costs, and the one automaton that counts all their patterns at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import GrammarError, TooLargeError
from fstcrf.files import path_name
from fstcrf.kernel import dot
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor, Grammar, on_tapes
from fstcrf.machines.grammar.acceptor import MAX_STATES
from fstcrf.machines.grammar.language import Rule, parse_rules
from fstcrf.machines.grammar.syntax import read_text
from fstcrf.taggers.component import ObservedTape, bound, merged, observed
from fstcrf.taggers.joint import JointCRF
from fstcrf.text.lines import unix_lines

_Number = TypeVar("_Number", bound=np.generic)

_MOST_STEPS = 20_000_000  # of the automaton: each is a score and an expected count
_TOGETHER = 64  # states whose steps are made together
_NAMED = 4  # rules in a message


@dataclass(frozen=True)
class RuleFile:
    """The text of a grammar file in which some costs are open, ``<?>``.

    Parameters
    ----------
    text : str
    rules : tuple of Rule
        Its exports.
    path : str, optional
        For messages.
    """

    text: str
    rules: tuple[Rule, ...]
    path: str | None = None

    @classmethod
    def of(cls, given: str | os.PathLike[str]) -> Self:
        """Read a file, or a text, which has several lines or a semicolon.

        Raises
        ------
        GrammarError
            Rules that cannot be read, with the line; no open cost.
        OSError
            A file that cannot be read.
        """
        path, text = None, given
        if not isinstance(text, str) or not ("\n" in text or ";" in text):
            path = path_name(given)
            text = read_text(path)
        text = unix_lines(text.removeprefix("\ufeff"))
        found = cls(text, parse_rules(text, path), path)
        if not found.open:
            raise GrammarError(
                "the rules have no open cost to learn: write <?> as a cost, each[x, <?>]", path=path
            )
        return found

    @made_once
    def open(self) -> tuple[Rule, ...]:
        """The exports whose costs are open."""
        return tuple(rule for rule in self.rules if rule.span is not None)

    def with_costs(self, weights: Sequence[float]) -> str:
        """Return the text with costs, the negatives of these weights, in the open places."""
        found = self.text
        places = [(rule.span or (0, 0), w) for rule, w in zip(self.open, weights, strict=True)]
        for (start, end), weight in sorted(places, reverse=True):
            found = f"{found[:start]}<{written(weight)}>{found[end:]}"
        return found


def written(weight: float) -> str:
    """Return the cost of a weight as files have it: six digits."""
    return f"{0.0 - weight:.6g}"


@dataclass(frozen=True, eq=False)
class CountedPattern:
    """The counts of an open cost: cells of the automaton's steps, and its ends.

    Parameters
    ----------
    cell : int64 [n]
        Steps, as the automaton's arrays [C, Q, L] have them laid out.
    value : float64 [n]
        How often each of them counts.
    end : float64 [Q]
        How often ending in a state counts.
    """

    cell: Longs
    value: Floats
    end: Floats


@dataclass(frozen=True, eq=False)
class CountingAutomaton:
    """All rules of a file as one deterministic automaton over labels and kinds of tokens.

    Parameters
    ----------
    given : tuple of ObservedTape
        Columns that distinguish kinds of tokens, the last one fastest.
    target : int32 [C, Q, L]
        State after each step; −1: rejected.
    step : float64 [C, Q, L]
        Score of the steps without the open costs.
    end : float64 [Q]
        Score of ending without them, −inf if a sentence may not end.
    patterns : tuple of CountedPattern
        One for each open cost.
    sizes : str
        A text with the number of states of each rule, the largest first.
    """

    given: tuple[ObservedTape, ...]
    target: Ints
    step: Floats
    end: Floats
    patterns: tuple[CountedPattern, ...]
    sizes: str = ""

    def scored(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return scores of steps and ends under weights, float64 [open costs]."""
        step, end = self.step.copy(), self.end.copy()
        flat = step.reshape(-1)
        for pattern, weight in zip(self.patterns, weights.tolist(), strict=True):
            flat[pattern.cell] += weight * pattern.value
            end += weight * pattern.end
        return step, end

    def counted(self, read: Floats, ended: Floats) -> Floats:
        """Return the count of each pattern for numbers of steps and ends, float64 [open costs]."""
        flat = read.reshape(-1)
        return np.asarray([dot(flat[p.cell], p.value) + dot(ended, p.end) for p in self.patterns])


def counting_automaton(file: RuleFile, composition: JointCRF) -> CountingAutomaton:
    """Return the automaton of a file for a tagger, which may have a grammar.

    Raises
    ------
    GrammarError
        A rule that does not go with the tagger's labels and columns.
    TooLargeError
        The patterns have too many states together.
    """
    tape = composition.taggers[0].tape
    sets = composition.label_sets
    known = [given for given in composition.given if given.tape not in sets]
    columns = observed([tagger.index for tagger in composition.taggers], sets, known)
    fixed: list[Acceptor] = [*composition.conjuncts]
    counts: list[list[Acceptor]] = []
    sizes = {"the tagger's grammar": _states(fixed)} if fixed else {}
    for rule in file.rules:
        found = bound(Grammar((rule.constraint,)), sets, lambda: columns)
        sizes[rule.name] = _states(found)
        if rule.span is None:
            fixed += found
        else:
            counts.append(found)
    parts = [*fixed, *(acceptor for several in counts for acceptor in several)]
    given, parts_merged = merged(columns, parts)
    names = (*(one.tape for one in given), tape)
    labels = (*(one.kept for one in given), sets[tape])
    spread = [on_tapes(acceptor, names, labels) for acceptor in parts_merged]
    targets = [np.ascontiguousarray(a.target.reshape(a.n_states, -1)) for a in spread]
    told = _largest(sizes)
    states, target = _product(targets, told)
    shape = (len(states), -1, len(sets[tape]))

    def laid(table: NDArray[_Number]) -> NDArray[_Number]:
        return np.ascontiguousarray(table.reshape(shape).transpose(1, 0, 2))

    alive = laid(target) >= 0

    def scores(k: int) -> Floats | None:
        own = spread[k].score
        if own is None:
            return None
        rows = own.reshape(spread[k].n_states, -1)[states[:, k]]
        return np.where(alive, laid(rows), 0.0)

    step, end = np.zeros(alive.shape), np.zeros(len(states))
    for k in range(len(fixed)):
        added = scores(k)
        step += 0.0 if added is None else added
        end += spread[k].final[states[:, k]]
    patterns, k = [], len(fixed)
    for several in counts:
        total, ends = np.zeros(alive.shape), np.zeros(len(states))
        for _ in several:
            added = scores(k)
            total += 0.0 if added is None else added
            ends += spread[k].final[states[:, k]]
            k += 1
        cell = np.flatnonzero(total)
        patterns.append(CountedPattern(cell, total.reshape(-1)[cell], ends))
    return CountingAutomaton(given, laid(target), step, end, tuple(patterns), told)


def _states(acceptors: Sequence[Acceptor]) -> int:
    return prod(acceptor.n_states for acceptor in acceptors)


def _largest(sizes: Mapping[str, int]) -> str:
    """Name rules by their states, the largest first."""
    order = sorted(sizes, key=lambda name: -sizes[name])
    shown = ", ".join(f"{name} {sizes[name]:,}" for name in order[:_NAMED])
    more = f" and {len(order) - _NAMED} more" if len(order) > _NAMED else ""
    return f"the rules (states: {shown}{more})"


def _product(targets: Sequence[Ints], told: str) -> tuple[Ints, Ints]:
    """Return the states of the product, int32 [Q, parts], and where steps lead, int32 [Q, A]."""
    if not targets:
        raise GrammarError("no pattern to count: give at least one")
    start = np.zeros(len(targets), dtype=np.int32)
    number = {start.tobytes(): 0}
    states, rows, done = [start], [], 0
    while done < len(states):
        block = np.stack(states[done : done + _TOGETHER])
        done += len(block)
        ahead = np.stack([t[block[:, k]] for k, t in enumerate(targets)], axis=-1)
        alive: Bools = np.all(ahead >= 0, axis=-1)
        reached, place = np.unique(ahead[alive], axis=0, return_inverse=True)
        numbers = np.zeros(len(reached), dtype=np.int32)
        for i, state in enumerate(reached):
            key = state.tobytes()
            if key not in number:
                number[key] = len(states)
                states.append(state)
            numbers[i] = number[key]
        row = np.full(alive.shape, -1, dtype=np.int32)
        row[alive] = numbers[place.reshape(-1)]
        rows.append(row)
        if len(states) > MAX_STATES or len(states) * alive.shape[1] > _MOST_STEPS:
            raise TooLargeError(
                f"{told} have more than {done:,} states together, over {alive.shape[1]:,} "
                "labels and kinds of tokens; a pass takes that many times longer than "
                f"without rules, at most {MAX_STATES:,} are supported: use fewer or shorter "
                "rules"
            )
    return np.stack(states), np.concatenate(rows)


def kinds_of(given: Sequence[ObservedTape], ids: Mapping[str, Ints], n_tokens: int) -> Ints:
    """Return the kind of each token, int32 [N], from the labels of the given tapes."""
    kind = np.zeros(n_tokens, dtype=np.int64)
    for tape in given:
        kind = kind * len(tape.kept) + ids[tape.tape]
    return kind.astype(np.int32)

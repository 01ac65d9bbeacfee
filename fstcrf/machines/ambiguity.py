"""Transducers of which the best of several runs counts: one run for each pair of strings.

A sum over paths counts a run, so a tropical machine may have but one over the same strings. Whether
it has is told from the square of the machine; where it has several, it is made deterministic, from
its beginning or from its end. An arc that reads and writes is taken apart for that: a run is then
one string, over what is read and what is written, in their order. Two runs with one such string
have the same labels at the same places.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Array, Floats, Longs
from fstcrf.errors import TooLargeError
from fstcrf.kernel.acyclic import topological
from fstcrf.lazy import memoised
from fstcrf.machines.algebra import trimmed
from fstcrf.machines.grammar.automata import (
    MAX_STATES,
    Automaton,
    Steps,
    ambiguous,
    sequence_shown,
    subsets,
)
from fstcrf.machines.transducer import Transducer
from fstcrf.ragged import Ragged

_MOST_SETS = 20_000  # of the nodes of one sentence
_FEW_ARCS, _FEW_STATES = 1_000, 300
"""Of machines that are looked at when they are composed, and of their deterministic forms."""


class Single(NamedTuple):
    """A machine with one run for each pair of strings, or why there is none."""

    machine: Transducer  # the one that was given, where there is none
    problem: str = ""  # why; empty where there is one


def at_hand(machine: Transducer) -> Single:
    """Return what `single` does where that is found at once, as best paths do not need it."""
    if machine.semiring == "log" or len(machine.source) <= _FEW_ARCS or _deterministic(machine):
        return single(machine, _FEW_STATES)
    return Single(machine, f"{machine!r} is large")


@memoised(64)
def single(machine: Transducer, limit: int | None = None) -> Single:
    """Return a machine with the same best runs, and one for each pair of strings.

    It has so many states at most, 10,000 when absent.
    """
    limit = MAX_STATES if limit is None else min(limit, MAX_STATES)
    if machine.semiring == "log" or _deterministic(machine):
        return Single(machine)
    useful = trimmed(machine)
    string = _taken_apart(useful)
    try:
        witness = ambiguous(string)
    except TooLargeError as error:
        several = f"it is too large to tell whether it has several runs over a string ({error})"
    else:
        if witness is None:
            return Single(machine)
        names = (*useful.input_symbols, *useful.output_symbols)
        several = f"it has several runs over {sequence_shown([names[x] for x in witness])}"
    forms = [
        _joined(found, machine, backwards=backwards)
        for backwards in (True, False)
        if (found := _determinised(string, limit, backwards=backwards)) is not None
    ]
    if forms:
        return Single(min(forms, key=lambda form: len(form.source)))
    return Single(
        machine,
        f"{machine!r}: of tropical runs the best one counts, {several}, and no deterministic form "
        f"of {limit:,} states or less from either end; its best path is known, but no sum: "
        "say semiring='log' where runs are to add up",
    )


def _deterministic(machine: Transducer) -> bool:
    place = machine.source.astype(np.int64) * (len(machine.input_symbols) + 1) + machine.input
    return bool((machine.input >= 0).all()) and len(np.unique(place)) == len(place)


def _taken_apart(machine: Transducer) -> Automaton:
    """Return the automaton of strings over what is read, and behind that what is written."""
    size = len(machine.input_symbols)
    states = len(machine.final)
    read, written = machine.input, machine.output
    if machine.tape is None:
        written = np.full_like(read, -1)
    both = np.flatnonzero((read >= 0) & (written >= 0))
    middle = states + np.arange(len(both), dtype=np.int32)
    symbol = np.where(read >= 0, read, np.where(written >= 0, written + size, -1))
    target = machine.target.copy()
    target[both] = middle
    columns = (
        np.append(machine.source, middle),
        np.append(symbol, written[both] + size),
        np.append(machine.score, np.zeros(len(both))),
        np.append(target, machine.target[both]),
    )
    final = np.append(machine.final, np.full(len(both), -np.inf))
    return _automaton(columns, final, size + len(machine.output_symbols))


def _automaton(
    columns: tuple[Array, ...], final: Floats, symbols: int, start: int = 0
) -> Automaton:
    steps: list[list[tuple[int, float, int]]] = [[] for _ in final]
    silent: list[list[tuple[float, int]]] = [[] for _ in final]
    for source, symbol, score, target in zip(*(c.tolist() for c in columns), strict=True):
        if symbol < 0:
            silent[source].append((score, target))
        else:
            steps[source].append((symbol, score, target))
    return Automaton(start, steps, silent, final.tolist(), symbols)


class _Arcs(NamedTuple):
    """Arcs of what is deterministic, int64 [A] and float64 [A], and its ends, float64 [Q]."""

    source: Longs
    symbol: Longs
    target: Longs
    score: Floats
    final: Floats


def _determinised(string: Automaton, limit: int, *, backwards: bool) -> _Arcs | None:
    """Return an automaton made deterministic, of its strings read backwards; None: too large."""
    try:
        return _arcs(*subsets(_reversed(string) if backwards else string, limit)[:2])
    except TooLargeError:
        return None


def _arcs(steps: Steps, final: list[float]) -> _Arcs:
    rows = [
        (state, symbol, target, score)
        for state, several in enumerate(steps)
        for symbols, target, score in several
        for symbol in symbols.tolist()
    ]
    source, symbol, target, score = np.asarray(rows, dtype=np.float64).reshape(-1, 4).T
    s, x, t = (column.astype(np.int64) for column in (source, symbol, target))
    return _Arcs(s, x, t, score, np.asarray(final, dtype=np.float64))


def _reversed(string: Automaton) -> Automaton:
    """Return the automaton of the same strings from their ends; it has one state more."""
    first = len(string.final)
    steps: list[list[tuple[int, float, int]]] = [[] for _ in range(first + 1)]
    silent: list[list[tuple[float, int]]] = [[] for _ in range(first + 1)]
    for state in range(first):
        for symbol, score, target in string.steps[state]:
            steps[target].append((symbol, score, state))
        for score, target in string.silent[state]:
            silent[target].append((score, state))
        if string.final[state] > -np.inf:
            silent[first].append((string.final[state], state))
    final = [0.0 if state == string.start else -np.inf for state in range(first + 1)]
    return Automaton(first, steps, silent, final, string.n_symbols)


def _joined(found: _Arcs, machine: Transducer, *, backwards: bool) -> Transducer:
    """Return strings over what is read and written as a transducer again."""
    source, symbol, target, score, final = found
    if backwards:  # one state more, before those in which the strings end
        ends = np.flatnonzero(final > -np.inf)
        source, target = (
            np.append(target + 1, np.zeros_like(ends)),
            np.append(source + 1, ends + 1),
        )
        symbol = np.append(symbol, np.full_like(ends, -1))
        score = np.append(score, final[ends])
        final = np.full(len(final) + 1, -np.inf)
        final[1] = 0.0
    size = len(machine.input_symbols)
    read = np.where(symbol < size, symbol, -1).astype(np.int32)
    written = np.where(symbol >= size, symbol - size, -1).astype(np.int32)
    if machine.tape is None:
        written = read
    whole = replace(
        machine,
        source=source.astype(np.int32),
        input=read,
        output=written,
        target=target.astype(np.int32),
        score=score,
        final=final,
    )
    return whole if machine.tape is None else _together(whole)


# --- Of one sentence: the composition itself ------------------------------------------------------


class SingleArcs(NamedTuple):
    """Arcs of which no two paths say the same; nodes are in topological order."""

    source: Longs  # [A]
    target: Longs  # [A]
    symbol: Longs  # [A] what each says
    score: Floats  # [A]
    final: Floats  # [M]
    place: Longs  # [M]


def single_arcs(
    source: Array,
    target: Array,
    symbols: Longs,
    score: Floats,
    final: Floats,
    place: Longs,
    after: Longs,
) -> SingleArcs | None:
    """Return an acyclic composition with one path for each that says something else.

    Parameters
    ----------
    source, target : int [A]
        Nodes; they begin at the first one.
    symbols : int64 [A, K]
        What each arc says, one behind the other; −1: nothing.
    score : float64 [A]
    final : float64 [M]
    place : int64 [M]
        Where each node is; paths that say the same go through the same places.
    after : int64 [S]
        Where a path is behind each symbol; −1: where it was.

    Returns
    -------
    SingleArcs or None
        None: there are too many sets of nodes.
    """
    states, count = len(final), len(source)
    arc, column = np.nonzero(symbols >= 0)
    of_arc = Ragged.from_rows(arc, count)
    order, said = of_arc.ranges(), of_arc.lengths
    last = order == said[arc] - 1
    middle = states + np.cumsum(~last) - 1  # the node behind each but the last
    begins = np.where(order == 0, source[arc], np.append(0, middle[:-1]))
    silent = np.flatnonzero(said == 0)
    columns = (
        np.append(begins, source[silent]),
        np.append(symbols[arc, column], np.full(len(silent), -1)),
        np.append(np.where(order == 0, score[arc], 0.0), score[silent]),
        np.append(np.where(last, target[arc], middle), target[silent]),
    )
    added = int((~last).sum())
    string = _automaton(columns, np.append(final, np.full(added, -np.inf)), len(after))
    try:
        steps, ends, _ = subsets(string, _MOST_SETS)
    except TooLargeError:
        return None
    found = _arcs(steps, ends)
    row = Ragged.from_rows(found.source, len(ends)).offsets
    number = topological(row, found.target.astype(np.int32))[0].astype(np.int64)
    at = np.full(len(ends), place[0])
    by = np.argsort(number[found.source], kind="stable")
    starts, spoken, leads = (x[by] for x in (found.source, found.symbol, found.target))
    for s, x, t in zip(starts.tolist(), after[spoken].tolist(), leads.tolist(), strict=True):
        at[t] = at[s] if x < 0 else x
    back = np.argsort(number)
    return SingleArcs(
        number[starts], number[leads], spoken, found.score[by], found.final[back], at[back]
    )


def _together(machine: Transducer) -> Transducer:
    """Return the machine with what is written at once behind what is read as one arc."""
    states = len(machine.final)
    ways_in = np.bincount(machine.target, minlength=states)
    ways_out = np.bincount(machine.source, minlength=states)
    middle = (ways_in == 1) & (ways_out == 1) & (machine.final == -np.inf)
    middle[0] = False
    behind = np.full(states, -1)
    behind[machine.source] = np.arange(len(machine.source))
    first = np.flatnonzero((machine.input >= 0) & middle[machine.target])
    second = behind[machine.target[first]]
    fits = (machine.output[first] < 0) & (machine.output[second] >= 0) & (machine.input[second] < 0)
    first, second = first[fits], second[fits]
    output, target, score = machine.output.copy(), machine.target.copy(), machine.score.copy()
    output[first], target[first] = machine.output[second], machine.target[second]
    score[first] += machine.score[second]
    keep = np.ones(len(output), dtype=bool)
    keep[second] = False
    return replace(
        machine,
        source=machine.source[keep],
        input=machine.input[keep],
        output=output[keep],
        target=target[keep],
        score=score[keep],
    )

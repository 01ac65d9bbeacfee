"""Transducers of which the best of several runs counts: one run for each pair of strings.

A sum over paths counts each run, so a tropical machine must have only one over the same strings.
Two steps find out whether it has. First, an arc that reads and writes is split: a run is then one
string, over input and output symbols, in their order. If a string has several runs, which the
square of the machine shows, the machine is determinised, from its beginning or from its end. Then
runs that write the same strings at other places are compared: see `fstcrf.machines.rivals`. If both
are too large, runs are compared on each sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Longs
from fstcrf.errors import TooLargeError
from fstcrf.lazy import memoised
from fstcrf.machines.algebra import made, reversed_, trimmed
from fstcrf.machines.grammar.automata import (
    MAX_STATES,
    Automaton,
    ambiguous,
    deterministic,
    is_deterministic,
    sequence_shown,
)
from fstcrf.machines.rivals import Graph, ManyRivalsError, best_runs
from fstcrf.machines.transducer import Transducer
from fstcrf.machines.ways import on_paths

_RIVALS, _MOST_RIVALS = 10, 20_000
"""Runs over the same strings that are compared for each state that there may be, and at most."""

_FEW_ARCS, _FEW_STATES = 1_000, 300
"""Limits of machines that compositions examine at once, and of their deterministic forms."""


@dataclass(frozen=True, eq=False)
class BestRuns(Transducer):
    """The runs of another machine of which no other one over the same strings is better."""

    of: Transducer | None = None
    # for each arc and end, its arc or end in that machine; ends are numbered after arcs
    origin: Longs | None = None


class Disambiguation(NamedTuple):
    """A machine with one run for each pair of strings, or the reason why there is none."""

    machine: Transducer  # the original machine, if there is a reason
    problem: str = ""


def cheaply_unambiguous(machine: Transducer) -> Disambiguation:
    """Return the result of `unambiguous` if it is fast; best paths do not need it."""
    if machine.semiring == "log" or len(machine.source) <= _FEW_ARCS or is_deterministic(machine):
        return unambiguous(machine, _FEW_STATES)
    return Disambiguation(machine, f"{machine!r} is large")


@memoised(64)
def unambiguous(machine: Transducer, limit: int | None = None) -> Disambiguation:
    """Return a machine with the same best runs, and one for each pair of strings.

    It has at most `limit` states, by default 10,000.
    """
    limit = MAX_STATES if limit is None else min(limit, MAX_STATES)
    if machine.semiring == "log" or is_deterministic(machine):
        return Disambiguation(machine)
    useful = trimmed(machine)
    string, form, several = _taken_apart(useful), machine, ""
    try:
        witness = ambiguous(Automaton.of(string))
    except TooLargeError as error:
        several = f"it is too large to tell whether it has several runs over a string ({error})"
    else:
        if witness is not None:
            names = (*useful.input_symbols, *useful.output_symbols)
            several = f"it has several runs over {sequence_shown([names[x] for x in witness])}"
    if several:
        forms = [
            _joined(made_, machine)
            for backwards in (True, False)
            if (made_ := _determinised(string, limit, backwards=backwards)) is not None
        ]
        form = min(forms, key=lambda one: len(one.source), default=machine)
    if form.tape is None and (form is not machine or not several):
        return Disambiguation(form)
    return _of_strings(form, machine, several, limit)


def _of_strings(form: Transducer, machine: Transducer, several: str, limit: int) -> Disambiguation:
    """Return a form in which runs over the same strings are one, wherever they write."""
    useful_arcs, _ = on_paths(form.source, form.target, form.final > -np.inf, form.score > -np.inf)
    arcs = np.sort(useful_arcs)
    output = form.output[arcs, None][:, : form.tape is not None]
    ends = (form.source[arcs], form.target[arcs])
    graph = Graph(*ends, form.input[arcs], output, form.score[arcs], form.final)
    try:
        best = best_runs(graph, min(_RIVALS * limit, _MOST_RIVALS))
    except ManyRivalsError as error:
        if error.run is not None:
            run = arcs[error.run]
            read, written = (
                [names[x] for x in column[run].tolist() if x >= 0]
                for names, column in (
                    (form.input_symbols, form.input),
                    (form.output_symbols, form.output),
                )
            )
            several = f"it has several runs over {sequence_shown(read)}"
            several += f" that write {' '.join(written)!r}" if form.tape is not None else ""
        several = several or "it is too large to tell whether it has several runs over a string"
        return Disambiguation(
            machine,
            f"{machine!r}: of tropical runs the best one counts, {several}, and no form of "
            f"{limit:,} states or less has one run for each: its best path is known, but no sum of "
            "a sentence with many such runs: say semiring='log' where runs are to add up",
        )
    if best is None:
        return Disambiguation(form)
    arc = arcs[best.arc]
    fields_ = {f.name: getattr(form, f.name) for f in fields(Transducer)}
    fields_ |= {name: getattr(form, name)[arc] for name in ("input", "output", "score")}
    fields_ |= {"source": best.source.astype(np.int32), "target": best.target.astype(np.int32)}
    final = np.where(best.ends, form.final[best.state], -np.inf)
    fields_ |= {"final": final, "named": {}}
    origin = np.append(arc, len(form.source) + best.state)
    return Disambiguation(BestRuns(**fields_, of=form, origin=origin))


def _taken_apart(machine: Transducer) -> Transducer:
    """Return the acceptor of strings over input symbols, each followed by output symbols."""
    size = len(machine.input_symbols)
    states = len(machine.final)
    read, written = machine.input, machine.output
    if machine.tape is None:
        written = np.full_like(read, -1)
    both = np.flatnonzero((read >= 0) & (written >= 0))
    middle = states + np.arange(len(both))
    target = machine.target.copy()
    target[both] = middle
    symbol = np.append(
        np.where(read >= 0, read, np.where(written >= 0, written + size, -1)), written[both] + size
    )
    part = (
        np.append(machine.source, middle),
        symbol,
        symbol,
        np.append(target, machine.target[both]),
        np.append(machine.score, np.zeros(len(both))),
    )
    final = np.append(machine.final, np.full(len(both), -np.inf))
    names = tuple(map(str, range(size + len(machine.output_symbols))))
    return replace(made(machine, [part], final, names, names), tape=None)


def _determinised(string: Transducer, limit: int, *, backwards: bool) -> Transducer | None:
    """Return the string acceptor with one run per string, unless it is too large."""
    try:
        if backwards:
            return reversed_(deterministic(reversed_(string), limit))
        return deterministic(string, limit)
    except TooLargeError:
        return None


def _joined(string: Transducer, machine: Transducer) -> Transducer:
    """Return the transducer of an acceptor over input and output symbols."""
    symbol = string.input
    size = len(machine.input_symbols)
    read = np.where(symbol < size, symbol, np.int32(-1))
    written = np.where(symbol >= size, symbol - np.int32(size), np.int32(-1))
    if machine.tape is None:
        written = read
    transducer = replace(
        machine,
        source=string.source,
        input=read,
        output=written,
        target=string.target,
        score=string.score,
        final=string.final,
        named={},
    )
    return transducer if machine.tape is None else _together(transducer)


def _together(machine: Transducer) -> Transducer:
    """Return the machine with one arc for each input symbol and its immediate output."""
    states = len(machine.final)
    ways_in = np.bincount(machine.target, minlength=states)
    ways_out = np.bincount(machine.source, minlength=states)
    middle = (ways_in == 1) & (ways_out == 1) & (machine.final == -np.inf)
    middle[0] = False
    outgoing = np.full(states, -1)
    outgoing[machine.source] = np.arange(len(machine.source))
    first = np.flatnonzero((machine.input >= 0) & middle[machine.target])
    second = outgoing[machine.target[first]]
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

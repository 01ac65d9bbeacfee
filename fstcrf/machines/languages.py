"""Languages: acceptors are determinised, compared and complemented; and strings of machines."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats, Ragged
from fstcrf.errors import NoPathError, OptionError, TooLargeError
from fstcrf.machines.algebra import (
    MAX_ARCS,
    Labels,
    aligned,
    check_acceptor,
    composed,
    made,
    support,
    trimmed,
    without_epsilon,
)
from fstcrf.machines.grammar.acceptor import Acceptor, minimise
from fstcrf.machines.grammar.automata import MAX_STATES, deterministic, is_deterministic
from fstcrf.machines.machine import M, Machine
from fstcrf.machines.ways import totals

_LONG = 1_000
"""Length of a random walk before it heads for an end."""


def determinised(machine: M, limit: int = MAX_STATES) -> M:
    """Return an acceptor that gives the same weights, with one run for each string at most.

    Raises
    ------
    OptionError
        No acceptor.
    EpsilonCycleError
        As `without_epsilon`.
    TooLargeError
        More than `limit` states.
    """
    check_acceptor("what is deterministic", machine)
    machine = without_epsilon(machine)
    if len(machine.final) <= limit and is_deterministic(machine):
        return machine
    try:
        return trimmed(deterministic(machine, limit))
    except TooLargeError as error:
        raise TooLargeError(
            f"cannot determinize: {error}; machine.reverse() may have a deterministic form"
        ) from None


def minimised(machine: M) -> M:
    """Return the smallest deterministic acceptor that gives the same weights.

    Weights may be at other places of a path. See `determinised` for errors.
    """
    machine = determinised(machine)
    used, column = np.unique(machine.input, return_inverse=True)
    _check_table("minimize", len(machine.final), len(used))
    target = np.full((len(machine.final), max(1, len(used))), -1, dtype=np.int32)
    score = np.zeros(target.shape)
    target[machine.source, column] = machine.target
    score[machine.source, column] = machine.score
    names = tuple(machine.input_symbols[k] for k in used.tolist()) or ("",)
    small = minimise(Acceptor(("",), (names,), target, score, machine.final))
    source, symbol = np.nonzero(small.target >= 0)
    scores = np.zeros(small.target.shape) if small.score is None else small.score
    arcs, read = (source, symbol), used[symbol]
    part = source, read, read, small.target[arcs], scores[arcs]
    return made(machine, [part], small.final)


def _check_table(what: str, states: int, symbols: int) -> None:
    """Refuse a table of the steps of each state and symbol that is too large."""
    if states * symbols > MAX_ARCS:
        raise TooLargeError(
            f"{what}: {states:,} states times {symbols:,} symbols exceed the limit of "
            f"{MAX_ARCS:,} steps"
        )


def equivalent(first: M, second: M, tolerance: float = 1e-9) -> bool:
    """Return whether two acceptors give each string the same weight, up to a tolerance.

    The deterministic forms are walked together. Each pair of states has a delay: the difference of
    the weights of the strings that lead to it. If two strings lead to one pair with different
    delays, then they cannot both continue to equal weights.
    """
    first, second = determinised(first), determinised(second)
    machines = aligned(trimmed(first), trimmed(replace(second, semiring=first.semiring)))
    (one, ends), (other, other_ends) = map(_steps, machines)
    delays = {(0, 0): 0.0}
    pairs = [(0, 0)]
    for pair in pairs:
        p, q = pair
        if not _close(delays[pair] + ends[p], other_ends[q], tolerance):
            return False
        if one[p].keys() != other[q].keys():  # every state leads to an end
            return False
        for symbol, (target, score) in one[p].items():
            other_target, other_score = other[q][symbol]
            reached, delay = (target, other_target), delays[pair] + score - other_score
            if reached not in delays:
                pairs.append(reached)
            if not _close(delays.setdefault(reached, delay), delay, tolerance):
                return False
    return True


_Steps: TypeAlias = list[dict[int, tuple[int, float]]]
"""The target and the score of each state's arc by symbol."""


def _steps(machine: Machine) -> tuple[_Steps, list[float]]:
    """Return the arcs of a deterministic machine by state and symbol, and its final scores."""
    steps: _Steps = [{} for _ in machine.final]
    arcs = (machine.source, machine.input, machine.target, machine.score)
    for source, symbol, target, score in zip(*(x.tolist() for x in arcs), strict=True):
        steps[source][symbol] = target, score
    return steps, machine.final.tolist()


def _close(one: float, other: float, tolerance: float) -> bool:
    if not (math.isfinite(one) and math.isfinite(other)):
        return one == other
    return abs(one - other) <= tolerance * max(1.0, abs(one), abs(other))


# --- Without weights ------------------------------------------------------------------------------


def complement(machine: M) -> M:
    """Return the acceptor of all strings over its symbols that the machine does not accept."""
    _check_language("complement", machine)
    language = determinised(support(machine))
    states, size = len(language.final), len(language.input_symbols)
    _check_table("a complement", states + 1, size)
    target = np.full((states + 1, size), states)  # the last state: a dead end for missing arcs
    target[language.source, language.input] = language.target
    source, symbol = np.divmod(np.arange(target.size), size or 1)
    final = np.where(np.append(language.final, -np.inf) > -np.inf, -np.inf, 0.0)
    part = source, symbol, symbol, target.ravel(), np.zeros(target.size)
    return replace(trimmed(made(language, [part], final)), semiring=machine.semiring)


def difference(first: M, second: M) -> M:
    """Return the acceptor of the strings that the first accepts and the second does not."""
    for machine in (first, second):
        _check_language("difference", machine)
    first, second = aligned(first, replace(second, semiring=first.semiring))
    return composed(first, complement(second))


def witness(first: Machine, second: Machine) -> Labels | None:
    """Return a shortest string that only one acceptor accepts; `None` if they are equivalent."""
    examples = example(difference(first, second)), example(difference(second, first))
    return min((string for string in examples if string is not None), key=len, default=None)


def _check_language(what: str, machine: Machine) -> None:
    check_acceptor(f"a {what}", machine)
    if any(np.any(x[x > -np.inf]) for x in (machine.score, machine.final)):
        raise OptionError(f"a {what} needs an acceptor without weights: take its .support() first")


# --- Their strings --------------------------------------------------------------------------------


class Run(NamedTuple):
    """A path of a transducer: the symbols that it reads and writes, and its score."""

    input: Labels
    output: Labels
    score: float


def shortest(machine: Machine) -> Run | None:
    """Return the path with the highest score; `None` if there is no path.

    Of several such paths, one with the fewest arcs is returned.
    """
    machine = trimmed(machine)
    best = totals(machine.source, machine.target, machine.score, machine.final, log=False)
    on_best = machine.score + best[machine.target] >= best[machine.source]
    row = Ragged.from_rows(machine.source, len(machine.final)).offsets.tolist()
    before: dict[int, int] = {}  # the arc by which a state was reached first
    queue = [0] if best[0] > -np.inf else []
    for state in queue:
        if machine.final[state] >= best[state]:
            return _run(machine, before, state)
        for arc in range(row[state], row[state + 1]):
            target = int(machine.target[arc])
            if on_best[arc] and target and target not in before:
                before[target] = arc
                queue.append(target)
    return None


def _run(machine: Machine, before: dict[int, int], end: int) -> Run:
    """Return the path that ends in a state, from the arc before each state."""
    arcs: list[int] = []
    state = end
    while state:
        arcs.append(before[state])
        state = int(machine.source[arcs[-1]])
    arcs.reverse()
    read, written = machine.input[arcs].tolist(), machine.output[arcs].tolist()
    return Run(
        tuple(machine.input_symbols[x] for x in read if x >= 0),
        tuple(machine.output_symbols[x] for x in written if x >= 0),
        math.fsum([*machine.score[arcs].tolist(), float(machine.final[end])]),
    )


def example(machine: Machine) -> Labels | None:
    """Return a string of the acceptor with the fewest labels; `None` if there is no string."""
    check_acceptor("an example", machine)
    machine = trimmed(machine)
    row = Ragged.from_rows(machine.source, len(machine.final)).offsets.tolist()
    targets, symbols = machine.target.tolist(), machine.input.tolist()
    origin: list[tuple[int, int] | None] = [None] * len(machine.final)
    done: set[int] = set()
    todo = deque([(0, origin[0])])
    while todo:
        state, came = todo.popleft()
        if state in done:
            continue
        done.add(state)
        origin[state] = came
        if machine.final[state] > -np.inf:
            return _string(machine, origin, state)
        for arc in range(row[state], row[state + 1]):
            add = todo.appendleft if symbols[arc] < 0 else todo.append
            add((targets[arc], (state, symbols[arc])))
    return None


def _string(machine: Machine, origin: list[tuple[int, int] | None], state: int) -> Labels:
    symbols: list[int] = []
    while (came := origin[state]) is not None:
        state, symbol = came
        symbols.append(symbol)
    return tuple(machine.input_symbols[x] for x in reversed(symbols) if x >= 0)


def sampled(machine: Machine, n: int, seed: int = 0) -> list[Labels]:
    """Return random strings of an acceptor: each state chooses one of its arcs, or the end.

    All choices are equally likely, for any weights; strings are therefore not equally likely. A
    walk of more than 1,000 arcs continues directly to an end.
    """
    check_acceptor("samples", machine)
    machine = trimmed(machine)
    home = _distances(machine)
    if not np.isfinite(home[0]):
        raise NoPathError("cannot sample: the acceptor accepts no string")
    nearer = home[machine.target] < home[machine.source]
    row = Ragged.from_rows(machine.source, len(machine.final)).offsets.tolist()
    rng = np.random.default_rng(whole_number(seed, "seed"))
    strings: list[Labels] = []
    for _ in range(whole_number(n, "n")):
        state, arcs = 0, list[int]()
        while True:
            ways = np.arange(row[state], row[state + 1])
            if len(arcs) >= _LONG:
                ways = ways[nearer[ways]]
            choice = int(rng.integers(len(ways) + (machine.final[state] > -np.inf)))
            if choice == len(ways):
                break
            arcs.append(int(ways[choice]))
            state = int(machine.target[arcs[-1]])
        symbols = machine.input[arcs].tolist()
        strings.append(tuple(machine.input_symbols[x] for x in symbols if x >= 0))
    return strings


def _distances(machine: Machine) -> Floats:
    """Return the minimum number of arcs from each state to an end, [Q]."""
    order = np.argsort(machine.target, kind="stable")
    row = Ragged.from_rows(machine.target[order], len(machine.final)).offsets.tolist()
    before = machine.source[order].tolist()
    distance = np.where(machine.final > -np.inf, 0.0, np.inf).tolist()
    for state in (queue := [state for state, far in enumerate(distance) if far == 0]):
        for source in before[row[state] : row[state + 1]]:
            if distance[source] == np.inf:
                distance[source] = distance[state] + 1
                queue.append(source)
    return np.asarray(distance)

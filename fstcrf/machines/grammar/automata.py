"""Automata with alternatives, made deterministic; machines made elsewhere as constraints.

The weighted subset construction: what a regular expression makes has several paths for one label
sequence, and the score of a sequence is that of its best path, or of a log machine their sum. So a
state of the result is a set of states, each with its weight relative to that of the set. Such sets
may be many, or endlessly many where two loops over the same labels differ in score: hence a limit.
A machine with one path for each labelling may have any number of states.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, real_array
from fstcrf.arrays import Array, Floats, Ints, Longs, distinct
from fstcrf.errors import GrammarError, ShapeError, TooLargeError
from fstcrf.machines import openfst
from fstcrf.machines.algebra import made, trimmed
from fstcrf.machines.grammar.acceptor import Acceptor, minimise, trim
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.grammar.labels import LabelSets, label_sets, nearest, only_tape
from fstcrf.machines.machine import M, Machine
from fstcrf.machines.ways import together

if TYPE_CHECKING:
    import pynini

MAX_STATES = 10_000
MAX_STEPS = 1_000_000
"""Steps that are looked at on the way to a deterministic form."""

MAX_MEMBERS = 500_000
"""Members of all sets of states together: what takes more takes too long."""

_KEPT = 100_000
"""Sets whose continuations are kept, so as not to look for them again."""

MAX_PAIRS = 1_000_000
"""Pairs of states that are looked at to tell whether a machine has several paths for a sequence."""

_DIGITS = 10
_EPSILON = 1e-12
_SHOWN = 12
"""Labels of a sequence that a message shows."""

_Pair: TypeAlias = tuple[int, int, bool]
_Subset: TypeAlias = tuple[tuple[int, float], ...] | tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Automaton:
    """An automaton with alternatives; scores are natural logs.

    A step reads any symbol of a class: `classes` has the symbols of each, int64, sorted. Without
    them, class k is symbol k alone.
    """

    start: int
    steps: Sequence[Sequence[tuple[int, float, int]]]  # of each state: class, score, target
    silent: Sequence[Sequence[tuple[float, int]]]  # of each state: score, target
    final: Sequence[float]  # −inf where it may not end
    n_symbols: int
    classes: Sequence[Longs] | None = None

    @classmethod
    def of_arcs(
        cls, source: Array, symbol: Array, target: Array, score: Floats, final: Floats, size: int
    ) -> Automaton:
        """Return the automaton of arcs over `size` symbols, −1: none; it starts in state 0."""
        steps: list[list[tuple[int, float, int]]] = [[] for _ in final]
        silent: list[list[tuple[float, int]]] = [[] for _ in final]
        columns = (x.tolist() for x in (source, symbol, target, score))
        for here, reads, there, value in zip(*columns, strict=True):
            if reads < 0:
                silent[here].append((value, there))
            else:
                steps[here].append((reads, value, there))
        return cls(0, steps, silent, final.tolist(), size)

    @classmethod
    def of(cls, machine: Machine) -> Automaton:
        """Return the automaton of what a machine reads."""
        columns = machine.source, machine.input, machine.target, machine.score
        return cls.of_arcs(*columns, machine.final, len(machine.input_symbols))


def determinise(automaton: Automaton, limit: int = MAX_STATES) -> tuple[Ints, Floats, Floats]:
    """Return an automaton with at most one path for each sequence, and the same best scores.

    That is its targets, int32 [Q, n_symbols], −1 where there is no step, the scores of steps,
    and of ends, float64 [Q], −inf where there is none. A loop that reads no token and has a
    positive score is a GrammarError, more than `limit` states a TooLargeError.
    """
    steps, final = subsets(automaton, limit)
    target = np.full((len(steps), automaton.n_symbols), -1, dtype=np.int32)
    score = np.zeros(target.shape)
    for state, several in enumerate(steps):
        for symbols, number, best in several:
            target[state, symbols] = number
            score[state, symbols] = best
    return target, score, np.asarray(final, dtype=np.float64)


def deterministic(machine: M, limit: int = MAX_STATES) -> M:
    """Return an acceptor with the same weights, and at most one run for each string.

    Of a log machine, each arc has to read a symbol. Weights of strings are sums or maxima of those
    of runs, as its semiring says.

    Raises
    ------
    GrammarError
        A loop that reads nothing and gains.
    TooLargeError
        More than `limit` states.
    """
    steps, final = subsets(Automaton.of(machine), limit, log=machine.semiring == "log")
    rows = [
        (state, symbol, target, score)
        for state, several in enumerate(steps)
        for symbols, target, score in several
        for symbol in symbols.tolist()
    ]
    columns = np.asarray(rows, dtype=np.float64).reshape(-1, 4).T
    source, symbol, target = columns[:3].astype(np.int32)
    part = source, symbol, symbol, target, columns[3]
    return made(machine, [part], np.asarray(final, dtype=np.float64))


Steps: TypeAlias = list[list[tuple[Longs, int, float]]]


def subsets(
    automaton: Automaton, limit: int = MAX_STATES, *, log: bool = False
) -> tuple[Steps, list[float]]:
    """Return the same, of each state its steps, as symbols, target and score, and the ends.

    With `log`, the weights of paths are summed; then each step has to read a symbol.
    """
    plus: _Plus = together if log else max
    sets, alphabet = _Subsets(automaton, limit, plus), _Alphabet(automaton, plus)
    steps: Steps = []
    final: list[float] = []
    for subset in sets.queue:
        ends = [rest + automaton.final[state] for state, rest in subset.items()]
        final.append(plus(ends) if ends else -np.inf)
        steps.append([])
        for symbols, reached in alphabet.read(subset):
            successor = sets.after(reached)
            if successor is not None:  # else nothing is accepted from here
                steps[-1].append((symbols, *successor))
    return steps, final


_Plus: TypeAlias = Callable[[Sequence[float]], float]


class _Subsets:
    """Sets of states by number, each state with its path's weight relative to the whole set's."""

    def __init__(self, automaton: Automaton, limit: int, plus: _Plus) -> None:
        self.automaton, self.limit, self.plus = automaton, limit, plus
        # Only the first set keeps the scores as they are: there is nothing before to take them.
        begin = _closed(automaton, {automaton.start: 0.0})
        self.queue = [begin]
        self.number: dict[_Subset, int] = {_key(begin): 0}
        self.members = len(begin)
        self.known: dict[_Subset, tuple[int, float] | None] = {}

    def after(self, reached: dict[int, float]) -> tuple[int, float] | None:
        """Return the set of what is reached and its weight; None where nothing is accepted."""
        total = self.plus(list(reached.values()))
        rest = {state: value - total for state, value in reached.items()}
        key = _key(rest)
        if key not in self.known:
            if len(self.known) > _KEPT:
                self.known.clear()
            self.known[key] = self._new(rest)
        subset = self.known[key]
        return None if subset is None else (subset[0], total + subset[1])

    def _new(self, reached: dict[int, float]) -> tuple[int, float] | None:
        rest, more = _closed(self.automaton, reached), 0.0
        if not rest:
            return None
        if self.plus is max:  # what is reached without reading may be better
            more = max(rest.values())
            rest = {state: value - more for state, value in rest.items()}
        key = _key(rest)
        if key not in self.number:
            self.number[key] = len(self.queue)
            self.queue.append(rest)
            self.members += len(rest)
            if len(self.queue) > self.limit:
                raise TooLargeError(f"more than {self.limit} states")
            if self.members > MAX_MEMBERS:
                raise TooLargeError(
                    f"more than {MAX_MEMBERS:,} alternatives on the way to at most "
                    f"{self.limit} states"
                )
        return self.number[key], more


class _Alphabet:
    """What a set of states reads: symbols that lead to the same are looked at once."""

    def __init__(self, automaton: Automaton, plus: _Plus) -> None:
        self.steps, self.plus = automaton.steps, plus
        self.classes: Sequence[Longs] | Longs = np.arange(automaton.n_symbols)[:, None]
        if automaton.classes is not None:
            self.classes = automaton.classes
        self.parts: dict[tuple[int, ...], list[tuple[Longs, tuple[int, ...]]]] = {}
        self.taken = 0

    def read(self, subset: dict[int, float]) -> Iterator[tuple[Longs, dict[int, float]]]:
        """Yield symbols and the states that they lead to with their scores, by first symbol."""
        by_class: dict[int, dict[int, float]] = {}
        self._count(subset)
        for state, rest in subset.items():
            for number, score, target in self.steps[state]:
                self._add(by_class.setdefault(number, {}), target, rest + score)
        key = tuple(sorted(by_class))
        if key not in self.parts:
            self.parts[key] = self._told_apart(key)
        for symbols, (first, *others) in self.parts[key]:
            reached = by_class[first]
            if others:
                reached = dict(reached)
                for number in others:
                    for target, value in by_class[number].items():
                        self._add(reached, target, value)
            yield symbols, reached

    def _add(self, scores: dict[int, float], target: int, value: float) -> None:
        before = scores.get(target)
        if before is not None:
            scores[target] = self.plus((before, value))
        elif value > -np.inf:
            scores[target] = value

    def _count(self, subset: Iterable[int]) -> None:
        self.taken += sum(len(self.steps[state]) for state in subset)
        if self.taken > MAX_STEPS:
            raise TooLargeError(f"more than {MAX_STEPS:,} steps of sets of states")

    def _told_apart(self, key: tuple[int, ...]) -> list[tuple[Longs, tuple[int, ...]]]:
        """Return symbols and the classes that they are in, symbols of the same ones together."""
        if len(key) == 1:
            return [(self.classes[key[0]], key)]
        inside: dict[int, list[int]] = {}
        for number in key:
            for symbol in self.classes[number].tolist():
                inside.setdefault(symbol, []).append(number)
        together: dict[tuple[int, ...], list[int]] = {}
        for symbol in sorted(inside):
            together.setdefault(tuple(inside[symbol]), []).append(symbol)
        return [(np.asarray(symbols), numbers) for numbers, symbols in together.items()]


# --- Whether a sequence has several paths ---------------------------------------------------------
# Pairs of states that two paths over the same symbols have reached, and whether the paths have
# parted. Where both have and may end, the symbols so far have two paths.


def ambiguous(automaton: Automaton) -> list[int] | None:
    """Return a shortest sequence of symbols with several paths; None where there is none.

    All states are useful. Steps without a symbol count, too: a loop of them makes endlessly many
    paths. More than `MAX_PAIRS` pairs of states are a TooLargeError.
    """
    moves = _Moves(automaton)
    first = (automaton.start, automaton.start, False)
    origin: dict[_Pair, tuple[_Pair, int] | None] = {first: None}
    for pair in (queue := [first]):
        if moves.ends(pair):
            return _symbols_to(origin, pair)
        for symbol, reached in moves.after(pair):
            if reached not in origin:
                origin[reached] = pair, symbol
                queue.append(reached)
        if len(origin) > MAX_PAIRS:
            raise TooLargeError(f"more than {MAX_PAIRS:,} pairs of states")
    return None


def _symbols_to(origin: dict[_Pair, tuple[_Pair, int] | None], pair: _Pair) -> list[int]:
    symbols: list[int] = []
    while (before := origin[pair]) is not None:
        pair, symbol = before
        symbols.append(symbol)
    return symbols[::-1]


class _Moves:
    """What follows pairs of states; a state is listed twice where two silent ways lead to it."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.known: dict[int, tuple[dict[int, list[int]], int]] = {}

    def ends(self, pair: _Pair) -> bool:
        """Tell whether the symbols so far have two paths that end here."""
        one, other, parted = pair
        if parted:
            return self._of(one)[1] > 0 and self._of(other)[1] > 0
        return self._of(one)[1] > 1

    def after(self, pair: _Pair) -> Iterator[tuple[int, _Pair]]:
        """Yield symbols that both states read, and the pairs that they lead to."""
        one, other, parted = pair
        right = self._of(other)[0]
        for symbol, targets in self._of(one)[0].items():
            if parted:
                pairs: Iterable[tuple[int, int]] = product(targets, right.get(symbol, ()))
            else:
                yield from ((symbol, (target, target, False)) for target in targets)
                pairs = combinations(targets, 2)
            yield from ((symbol, (min(both), max(both), True)) for both in pairs)

    def _of(self, state: int) -> tuple[dict[int, list[int]], int]:
        """Return the targets of each symbol behind a state, and in how many ways it may end."""
        if state not in self.known:
            steps: dict[int, list[int]] = {}
            reached, times = [state], Counter([state])
            for here in reached:
                for number, _, target in self.automaton.steps[here]:
                    for symbol in self._symbols(number):
                        steps.setdefault(symbol, []).append(target)
                for _, target in self.automaton.silent[here]:
                    if times[target] < 2:
                        times[target] += 1
                        reached.append(target)
            ends = sum(self.automaton.final[here] > -np.inf for here in reached)
            self.known[state] = steps, ends
        return self.known[state]

    def _symbols(self, number: int) -> Iterable[int]:
        classes = self.automaton.classes
        return (number,) if classes is None else classes[number].tolist()


def check_sums(machine: Machine, paths: Automaton, name: str, shown: Sequence[str]) -> None:
    """Refuse a machine that sums over the paths of a sequence, of which some sequence has several.

    Here the best path alone counts; where there is one, it is the sum. `shown` names the symbols of
    `paths`. Nothing is asked of a machine of the tropical semiring.
    """
    if machine.semiring == "tropical":
        return
    if machine.is_acceptor and is_deterministic(machine):
        return
    try:
        witness = ambiguous(paths)
    except TooLargeError as error:
        what = f"it is too large to tell whether labels have one path each ({error})"
    else:
        if witness is None:
            return
        what = f"{sequence_shown([shown[k] for k in witness])} has several"
    raise GrammarError(
        f"{name} has the log semiring, which sums over all paths of a labelling, "
        f"and {what}; a grammar scores a labelling by one path: sum the paths first "
        "with pynini.determinize(pynini.rmepsilon(fst)), or use the best path with "
        'pynini.arcmap(fst, map_type="to_standard")'
    )


def is_deterministic(machine: Machine) -> bool:
    """Tell whether each arc reads a symbol, and no state has two arcs that read the same one."""
    place = machine.source.astype(np.int64) * (len(machine.input_symbols) + 1) + machine.input
    return bool((machine.input >= 0).all()) and len(distinct(place)) == len(place)


def sequence_shown(names: Sequence[str]) -> str:
    """Return a sequence of labels for a message."""
    if not names:
        return "the empty labelling"
    few = " ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
    return f"the labelling {few!r}"


def _closed(automaton: Automaton, states: dict[int, float]) -> dict[int, float]:
    """Return all states reached without reading, each with its best score."""
    best = dict(states)
    changed = [state for state in states if automaton.silent[state]]
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
    if any(subset.values()):
        return tuple(sorted((state, round(rest, _DIGITS)) for state, rest in subset.items()))
    return tuple(sorted(subset))


# --- Machines of pynini ↔ acceptors ---------------------------------------------------------------
# `fstcrf.machines.openfst` reads and writes them: scores here, costs there.


_SPECIAL, _ESCAPED = re.compile(r"([\s\\])"), r"\\\1"


def to_fst(acceptor: Acceptor, arc_type: openfst.ArcType = "log64") -> pynini.Fst:
    """Return an acceptor as a machine of pynini with a symbol table; label i is symbol i + 1.

    Of several tapes, a symbol is ``pos=NN chunk=B-NP``, as `.grm` files have it: a blank or a
    backslash within a label has a backslash before it. The last tape's label runs fastest.
    """
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    states, symbols = np.nonzero(flat >= 0)
    score = np.zeros(len(states))
    if acceptor.score is not None:
        score = acceptor.score.reshape(flat.shape)[states, symbols]
    names: Iterable[str] = acceptor.labels[0]
    if len(acceptor.tapes) > 1:
        names = (
            " ".join(
                f"{tape}={_SPECIAL.sub(_ESCAPED, label)}"
                for tape, label in zip(acceptor.tapes, labels, strict=True)
            )
            for labels in product(*acceptor.labels)
        )
    table, read = tuple(names), symbols.astype(np.int32)
    ends = states.astype(np.int32), flat[states, symbols]
    machine = Machine(ends[0], read, read, ends[1], score, acceptor.final, table, table, tape=None)
    fst: pynini.Fst = openfst.to_fst(machine, arc_type)
    return fst


# --- Machines made elsewhere, as constraints ------------------------------------------------------


def constraint_from_machine(
    fst: pynini.Fst | str | Path, tape: str | None, name: str = ""
) -> Constraint:
    """Return an acceptor over label symbols as a part of a grammar; see `Grammar.from_fst`."""
    called = name or (Path(fst).name if isinstance(fst, str | Path) else "fst")
    named = openfst.has_symbols(fst)
    machine = trimmed(openfst.from_fst(fst, openfst.Naming(numbered=True)))
    if not machine.is_acceptor:
        raise GrammarError(f"{called} writes other symbols than it reads; expected an acceptor")
    check_sums(machine, Automaton.of(machine), called, machine.input_symbols)
    sums = machine.semiring == "log"
    bind = partial(_bound, machine, tape, called, named=named)
    return Constraint(called, bind, language=True, sums=sums)


def _bound(
    machine: Machine, tape: str | None, name: str, sets: LabelSets, *, named: bool
) -> tuple[Acceptor, ...]:
    chosen = only_tape(sets, tape)
    labels = sets[chosen]
    machine = _over(machine, labels, named=named)
    try:
        if is_deterministic(machine):
            target, score = _table(machine)
            final = machine.final
        else:
            target, score, final = determinise(Automaton.of(machine))
    except TooLargeError as error:
        raise GrammarError(
            f"cannot make the machine deterministic: {error}; compose it without that: "
            "lattice @ Transducer.from_fst(fst, tape=None)"
        ) from None
    return (minimise(trim(Acceptor((chosen,), (labels,), target, score, final, name))),)


def _table(machine: Machine) -> tuple[Ints, Floats]:
    """Return the targets and the scores of a deterministic machine by state and symbol."""
    shape = len(machine.final), len(machine.input_symbols)
    target, score = np.full(shape, -1, dtype=np.int32), np.zeros(shape)
    target[machine.source, machine.input] = machine.target
    score[machine.source, machine.input] = machine.score
    return target, score


def _over(machine: Machine, labels: tuple[str, ...], *, named: bool) -> Machine:
    """Return a machine over labels; the symbols of one without names are numbers of labels."""
    known = labels if named else tuple(map(str, range(1, len(labels) + 1)))
    place = {label: i for i, label in enumerate(known)}
    number = np.asarray([*(place.get(x, -2) for x in machine.input_symbols), -1], dtype=np.int32)
    read = number[machine.input]
    if (read < -1).any():
        symbol = machine.input_symbols[machine.input[read < -1].min()]
        raise GrammarError(
            f"symbol {symbol!r} is no label{nearest(symbol, labels)}"
            if named
            else f"symbol {symbol}, but there are {len(labels)} labels; label i is symbol i + 1"
        )
    return replace(machine, input=read, output=read, input_symbols=labels, output_symbols=labels)


def constraint_from_arrays(
    labels: LabelSet,
    target: ArrayLike,
    score: ArrayLike | None,
    final: ArrayLike | None,
    tape: str | None,
    name: str,
) -> Constraint:
    """Return arrays as a part of a grammar; see `Grammar.from_arrays`."""
    own_labels = label_sets(labels)[""]
    step = np.asarray(target)
    if step.ndim != 2 or not np.issubdtype(step.dtype, np.integer):
        raise ShapeError(
            f"{name}: target is {step.dtype} {list(step.shape)}, expected integers [states, labels]"
        )
    states = len(step)
    if step.size and (step.min() < -1 or step.max() >= states):
        raise ShapeError(f"{name}: target holds numbers outside [-1, {states})")
    ends = np.zeros(states) if final is None else real_array(final, f"{name}: final")
    scores = None
    if score is not None:
        arcs = real_array(score, f"{name}: score")
        if arcs.shape != step.shape:
            raise ShapeError(f"{name}: score is {list(arcs.shape)}, expected {list(step.shape)}")
        scores = np.where(step >= 0, arcs, 0.0)
    whole = Acceptor(("",), (own_labels,), step.astype(np.int32), scores, ends, name)
    arrays = (whole.target, whole.final, *(() if scores is None else (scores,)))
    content = "arrays", own_labels, *((a.shape, a.tobytes()) for a in arrays), tape
    return Constraint(name, partial(_arranged, trim(whole), tape), content, language=True)


def _arranged(acceptor: Acceptor, tape: str | None, sets: LabelSets) -> tuple[Acceptor, ...]:
    """Return an acceptor over the labels of a tape, in their order; it rejects those new to it."""
    chosen = only_tape(sets, tape)
    labels, own = sets[chosen], acceptor.labels[0]
    unknown = next((label for label in own if label not in labels), None)
    if unknown is not None:
        raise GrammarError(f"no label {unknown!r}{nearest(unknown, labels)}")
    place = [labels.index(label) for label in own]
    target = np.full((acceptor.n_states, len(labels)), -1, dtype=np.int32)
    target[:, place] = acceptor.target
    score = None
    if acceptor.score is not None:
        score = np.zeros(target.shape)
        score[:, place] = acceptor.score
    return (Acceptor((chosen,), (labels,), target, score, acceptor.final, acceptor.name),)

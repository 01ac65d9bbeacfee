"""Automata with alternatives, made deterministic; machines made elsewhere as constraints.

The weighted subset construction. A regular expression gives several paths for one label sequence;
the score of a sequence is the score of its best path, or, in a log machine, the sum of its paths. A
state of the result is therefore a set of states, each with its weight relative to the weight of the
set. There may be many such sets, or infinitely many if two loops over the same labels differ in
score: hence a limit. A machine with one path for each labelling may have any number of states.
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
"""Limit of steps of sets of states in a determinisation."""

MAX_MEMBERS = 500_000
"""Total members of all sets of states: larger constructions take too long."""

_KEPT = 100_000
"""Limit of sets whose successors are cached."""

MAX_PAIRS = 1_000_000
"""Pairs of states that the test for several paths of one sequence examines."""

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
    them, class k has only symbol k.
    """

    start: int
    steps: Sequence[Sequence[tuple[int, float, int]]]  # for each state: class, score, target
    silent: Sequence[Sequence[tuple[float, int]]]  # for each state: score, target
    final: Sequence[float]  # −inf for a state that is not final
    n_symbols: int
    classes: Sequence[Longs] | None = None

    @classmethod
    def of_arcs(
        cls, source: Array, symbol: Array, target: Array, score: Floats, final: Floats, size: int
    ) -> Automaton:
        """Return the automaton of arcs over `size` symbols, −1 for silent ones, from state 0."""
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
        """Return the automaton of a machine's input."""
        columns = machine.source, machine.input, machine.target, machine.score
        return cls.of_arcs(*columns, machine.final, len(machine.input_symbols))


def determinise(automaton: Automaton, limit: int = MAX_STATES) -> tuple[Ints, Floats, Floats]:
    """Return an automaton with at most one path for each sequence, and the same best scores.

    The results are its targets, int32 [Q, n_symbols], −1 without a step, the scores of steps, and
    the scores of ends, float64 [Q], −inf for states that are not final. A silent loop with a
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

    The weight of a string is the sum or the maximum of its runs, depending on the semiring. Each
    arc of a log machine must read a symbol.

    Raises
    ------
    GrammarError
        A silent loop with a positive score.
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
    """Return the same as lists: steps of each state (symbols, target, score), and the ends.

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
            if successor is not None:  # otherwise no string is accepted from here
                steps[-1].append((symbols, *successor))
    return steps, final


_Plus: TypeAlias = Callable[[Sequence[float]], float]


class _Subsets:
    """Sets of states by number, each state with its path's weight relative to the whole set's."""

    def __init__(self, automaton: Automaton, limit: int, plus: _Plus) -> None:
        self.automaton, self.limit, self.plus = automaton, limit, plus
        # Only the first set keeps absolute scores: no earlier step can take them.
        begin = _closed(automaton, {automaton.start: 0.0})
        self.queue = [begin]
        self.number: dict[_Subset, int] = {_key(begin): 0}
        self.members = len(begin)
        self.entries: dict[_Subset, tuple[int, float] | None] = {}

    def after(self, reached: dict[int, float]) -> tuple[int, float] | None:
        """Return the number of the set of reached states and its weight; None if it is dead."""
        total = self.plus(list(reached.values()))
        rest = {state: value - total for state, value in reached.items()}
        key = _key(rest)
        if key not in self.entries:
            if len(self.entries) > _KEPT:
                self.entries.clear()
            self.entries[key] = self._new(rest)
        subset = self.entries[key]
        return None if subset is None else (subset[0], total + subset[1])

    def _new(self, reached: dict[int, float]) -> tuple[int, float] | None:
        rest, more = _closed(self.automaton, reached), 0.0
        if not rest:
            return None
        if self.plus is max:  # silent steps may reach better scores
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
    """The symbols that a set of states reads; symbols with equal targets are processed once."""

    def __init__(self, automaton: Automaton, plus: _Plus) -> None:
        self.steps, self.plus = automaton.steps, plus
        self.classes: Sequence[Longs] | Longs = np.arange(automaton.n_symbols)[:, None]
        if automaton.classes is not None:
            self.classes = automaton.classes
        self.parts: dict[tuple[int, ...], list[tuple[Longs, tuple[int, ...]]]] = {}
        # A sum takes about twice the time of a maximum.
        self.taken, self.most = 0, MAX_STEPS if plus is max else MAX_STEPS // 2

    def read(self, subset: dict[int, float]) -> Iterator[tuple[Longs, dict[int, float]]]:
        """Yield symbols and the states that they lead to with their scores, by first symbol."""
        by_class: dict[int, dict[int, float]] = {}
        self._count(subset)
        for state, rest in subset.items():
            for number, score, target in self.steps[state]:
                scores = by_class.setdefault(number, {})
                before, value = scores.get(target, -np.inf), rest + score
                if value > -np.inf:
                    scores[target] = value if before == -np.inf else self.plus((before, value))
        key = tuple(sorted(by_class))
        if key not in self.parts:
            self.parts[key] = self._told_apart(key)
        for symbols, (first, *others) in self.parts[key]:
            reached = by_class[first]
            if others:
                reached = dict(reached)
                for number in others:
                    for target, value in by_class[number].items():
                        before = reached.get(target, -np.inf)
                        reached[target] = value if before == -np.inf else self.plus((before, value))
            yield symbols, reached

    def _count(self, subset: Iterable[int]) -> None:
        self.taken += sum(len(self.steps[state]) for state in subset)
        if self.taken > self.most:
            raise TooLargeError(f"more than {self.most:,} steps of sets of states")

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
# Pairs of states that two paths over the same symbols reach, and whether the paths have parted. If
# they have, and both states are final, the symbols so far have two paths.


def ambiguous(automaton: Automaton) -> list[int] | None:
    """Return a shortest sequence of symbols with several paths, or `None`.

    All states must be useful. Silent steps also count: a loop of them makes infinitely many paths.
    More than `MAX_PAIRS` pairs of states are a TooLargeError.
    """
    steps = _PairSteps(automaton)
    first = (automaton.start, automaton.start, False)
    origin: dict[_Pair, tuple[_Pair, int] | None] = {first: None}
    for pair in (queue := [first]):
        if steps.ends(pair):
            return _symbols_to(origin, pair)
        for symbol, reached in steps.after(pair):
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


class _PairSteps:
    """The successors of pairs of states; several silent paths to a state list it repeatedly."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.cache: dict[int, tuple[dict[int, list[int]], int]] = {}

    def ends(self, pair: _Pair) -> bool:
        """Return whether the symbols so far have two paths that end here."""
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
        """Return the targets of each symbol from a state, and the number of paths to an end."""
        if state not in self.cache:
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
            self.cache[state] = steps, ends
        return self.cache[state]

    def _symbols(self, number: int) -> Iterable[int]:
        classes = self.automaton.classes
        return (number,) if classes is None else classes[number].tolist()


def check_sums(machine: Machine, paths: Automaton, name: str, shown: Sequence[str]) -> None:
    """Refuse a machine that sums over the paths of a sequence, of which some sequence has several.

    Only the best path counts here; if there is one path, it is the sum. `shown` names the symbols
    of `paths`. A machine of the tropical semiring is always accepted.
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
    """Return whether each arc reads a symbol, and all arcs of a state read different symbols."""
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
    # States with only silent steps have already passed on their scores.
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

    For several tapes, a symbol is ``pos=NN chunk=B-NP``, as in `.grm` files: a blank or a backslash
    within a label has a backslash before it. The last tape's label runs fastest.
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
    names = labels if named else tuple(map(str, range(1, len(labels) + 1)))
    place = {label: i for i, label in enumerate(names)}
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
    acceptor = Acceptor(("",), (own_labels,), step.astype(np.int32), scores, ends, name)
    arrays = (acceptor.target, acceptor.final, *(() if scores is None else (scores,)))
    content = "arrays", own_labels, *((a.shape, a.tobytes()) for a in arrays), tape
    return Constraint(name, partial(_arranged, trim(acceptor), tape), content, language=True)


def _arranged(acceptor: Acceptor, tape: str | None, sets: LabelSets) -> tuple[Acceptor, ...]:
    """Return an acceptor over the labels of a tape, in their order; it rejects those new to it."""
    chosen = only_tape(sets, tape)
    labels, original = sets[chosen], acceptor.labels[0]
    unknown = next((label for label in original if label not in labels), None)
    if unknown is not None:
        raise GrammarError(f"no label {unknown!r}{nearest(unknown, labels)}")
    place = [labels.index(label) for label in original]
    target = np.full((acceptor.n_states, len(labels)), -1, dtype=np.int32)
    target[:, place] = acceptor.target
    score = None
    if acceptor.score is not None:
        score = np.zeros(target.shape)
        score[:, place] = acceptor.score
    return (Acceptor((chosen,), (labels,), target, score, acceptor.final, acceptor.name),)

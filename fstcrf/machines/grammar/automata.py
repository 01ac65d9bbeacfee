"""Automata with alternatives, made deterministic; machines made elsewhere as constraints.

The weighted subset construction, best path by best path: what a regular expression makes has
several paths for one label sequence, and the score of a sequence is that of its best path. So a
state of the result is a set of states, each with how much worse its best path is than the best of
the set. Such sets may be many, or endlessly many where two loops over the same labels differ in
score: hence a limit. A machine with one path for each labelling may have any number of states.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, real_array
from fstcrf.arrays import Floats, Ints, Longs, distinct
from fstcrf.errors import DataError, GrammarError, ShapeError, TooLargeError
from fstcrf.files import read_file
from fstcrf.machines.grammar.acceptor import Acceptor, minimise, trim
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.grammar.labels import LabelSets, label_sets, nearest, only_tape
from fstcrf.machines.openfst import ArcType, FstArrays, connect, from_bytes, from_fst
from fstcrf.machines.openfst import symbols as name_table
from fstcrf.machines.openfst import to_fst as machine_fst

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

    start: int  # −1: there is no state
    steps: Sequence[Sequence[tuple[int, float, int]]]  # of each state: class, score, target
    silent: Sequence[Sequence[tuple[float, int]]]  # of each state: score, target
    final: Sequence[float]  # −inf where it may not end
    n_symbols: int
    classes: Sequence[Longs] | None = None


def determinise(automaton: Automaton, limit: int = MAX_STATES) -> tuple[Ints, Floats, Floats]:
    """Return an automaton with at most one path for each sequence, and the same best scores.

    That is its targets, int32 [Q, n_symbols], −1 where there is no step, the scores of steps,
    and of ends, float64 [Q], −inf where there is none. A loop that reads no token and has a
    positive score is a GrammarError, more than `limit` states a TooLargeError.
    """
    steps, final, _ = subsets(automaton, limit)
    target = np.full((len(steps), automaton.n_symbols), -1, dtype=np.int32)
    score = np.zeros(target.shape)
    for state, several in enumerate(steps):
        for symbols, number, best in several:
            target[state, symbols] = number
            score[state, symbols] = best
    return target, score, np.asarray(final, dtype=np.float64)


Steps: TypeAlias = list[list[tuple[Longs, int, float]]]


def subsets(
    automaton: Automaton, limit: int = MAX_STATES
) -> tuple[Steps, list[float], list[dict[int, float]]]:
    """Return the same, of each state its steps: symbols, target and score; ends; sets of states."""
    sets = _Subsets(automaton, limit)
    alphabet = _Alphabet(automaton)
    steps: Steps = []
    final: list[float] = []
    for subset in sets.queue:
        ends = (rest + automaton.final[state] for state, rest in subset.items())
        final.append(max(ends, default=-np.inf))
        steps.append([])
        for symbols, reached in alphabet.read(subset):
            successor = sets.after(reached)
            if successor is not None:  # else nothing is accepted from here
                steps[-1].append((symbols, *successor))
    return steps, final, sets.queue


class _Subsets:
    """Sets of states by number, each state with how much worse its best path is."""

    def __init__(self, automaton: Automaton, limit: int) -> None:
        self.automaton, self.limit = automaton, limit
        # Only the first set keeps the scores as they are: there is nothing before to take them.
        begin = _closed(automaton, {automaton.start: 0.0} if automaton.start >= 0 else {})
        self.queue = [begin]
        self.number: dict[_Subset, int] = {_key(begin): 0}
        self.members = len(begin)
        self.known: dict[_Subset, tuple[int, float] | None] = {}

    def after(self, reached: dict[int, float]) -> tuple[int, float] | None:
        """Return the set of what is reached and its best score; None where nothing is accepted."""
        best = max(reached.values())
        rest = {state: value - best for state, value in reached.items()}
        key = _key(rest)
        if key not in self.known:
            if len(self.known) > _KEPT:
                self.known.clear()
            self.known[key] = self._new(rest)
        subset = self.known[key]
        return None if subset is None else (subset[0], best + subset[1])

    def _new(self, reached: dict[int, float]) -> tuple[int, float] | None:
        closed = _closed(self.automaton, reached)
        if not closed:
            return None
        best = max(closed.values())
        rest = {state: value - best for state, value in closed.items()}
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
        return self.number[key], best


class _Alphabet:
    """What a set of states reads: symbols that lead to the same are looked at once."""

    def __init__(self, automaton: Automaton) -> None:
        self.steps = automaton.steps
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
                scores = by_class.setdefault(number, {})
                value = rest + score
                if value > scores.get(target, -np.inf):
                    scores[target] = value
        key = tuple(sorted(by_class))
        if key not in self.parts:
            self.parts[key] = self._told_apart(key)
        for symbols, (first, *others) in self.parts[key]:
            reached = by_class[first]
            if others:
                reached = dict(reached)
                for number in others:
                    for target, value in by_class[number].items():
                        if value > reached.get(target, -np.inf):
                            reached[target] = value
            yield symbols, reached

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
    if automaton.start < 0:
        return None
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


def check_sums(machine: FstArrays, paths: Automaton, name: str, shown: Sequence[str]) -> None:
    """Refuse a machine that sums over the paths of a sequence, of which some sequence has several.

    Here the best path alone counts; where there is one, it is the sum. `shown` names the symbols of
    `paths`. Nothing is asked of a machine of the tropical semiring.
    """
    if machine.semiring == "tropical":
        return
    place = machine.source.astype(np.int64) * (len(shown) + 1) + machine.ilabel
    if machine.is_acceptor and machine.ilabel.all() and len(distinct(place)) == len(place):
        return  # deterministic
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


def _machine(
    arcs: np.ndarray[tuple[int, int], np.dtype[np.int32]],
    score: np.ndarray[tuple[int], np.dtype[np.float64]],
    final: np.ndarray[tuple[int], np.dtype[np.float64]],
    symbols: tuple[str, ...] | None = None,
) -> FstArrays:
    source, symbol, target = (np.ascontiguousarray(column) for column in arcs.T)
    return FstArrays(0, source, target, symbol, symbol, score, final, symbols, symbols)


def automaton(machine: FstArrays, n_symbols: int) -> Automaton:
    """Return an acceptor all of whose states are useful; 0 reads nothing, 1 … n_symbols a token."""
    steps: list[list[tuple[int, float, int]]] = [[] for _ in range(machine.n_states)]
    quiet: list[list[tuple[float, int]]] = [[] for _ in range(machine.n_states)]
    columns = (machine.source, machine.ilabel, machine.score, machine.target)
    for source, label, score, target in zip(*(c.tolist() for c in columns), strict=True):
        if label:
            steps[source].append((label - 1, score, target))
        else:
            quiet[source].append((score, target))
    return Automaton(machine.start, steps, quiet, machine.final.tolist(), n_symbols)


_SPECIAL, _ESCAPED = re.compile(r"([\s\\])"), r"\\\1"


def to_fst(acceptor: Acceptor, arc_type: ArcType = "log64") -> pynini.Fst:
    """Return an acceptor as a machine of pynini with a symbol table; label i is symbol i + 1.

    Of several tapes, a symbol is ``pos=NN chunk=B-NP``, as `.grm` files have it: a blank or a
    backslash within a label has a backslash before it. The last tape's label runs fastest.
    """
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    states, symbols = np.nonzero(flat >= 0)
    arcs = np.column_stack([states, symbols + 1, flat[states, symbols]]).astype(np.int32)
    score = np.zeros(len(arcs))
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
    table = name_table(tuple(names))
    fst: pynini.Fst = machine_fst(_machine(arcs, score, acceptor.final, table), arc_type)
    return fst


# --- Machines made elsewhere, as constraints ------------------------------------------------------


def constraint_from_machine(
    fst: pynini.Fst | str | Path, tape: str | None, name: str = ""
) -> Constraint:
    """Return an acceptor over label symbols as a part of a grammar; see `Grammar.from_fst`."""
    called = name or (Path(fst).name if isinstance(fst, str | Path) else "fst")
    machine = connect(_machine_of(fst))
    if not machine.is_acceptor:
        raise GrammarError(f"{called} writes other symbols than it reads; expected an acceptor")
    largest = int(machine.ilabel.max(initial=0))
    table = machine.isymbols or tuple(map(str, range(largest + 1)))
    check_sums(machine, automaton(machine, largest), called, table[1:])
    sums = machine.semiring == "log"
    return Constraint(called, partial(_bound, machine, tape, called), language=True, sums=sums)


def _machine_of(fst: pynini.Fst | str | Path) -> FstArrays:
    """Return a machine of pynini, or of a file in OpenFst's binary format."""
    if not isinstance(fst, str | Path):
        return from_fst(fst)
    try:
        return from_bytes(read_file(fst))
    except DataError as error:
        raise DataError(error.message, path=str(fst)) from None


def _bound(
    machine: FstArrays, tape: str | None, name: str, sets: LabelSets
) -> tuple[Acceptor, ...]:
    chosen = only_tape(sets, tape)
    labels = sets[chosen]
    numbered = _numbered(machine, labels)
    deterministic = _deterministic(numbered, len(labels))
    if deterministic is None:
        try:
            deterministic = determinise(automaton(numbered, len(labels)))
        except TooLargeError as error:
            raise GrammarError(
                f"cannot make the machine deterministic: {error}; compose it without that: "
                "lattice @ Transducer.from_fst(fst, tape=None)"
            ) from None
    target, score, final = deterministic
    return (minimise(trim(Acceptor((chosen,), (labels,), target, score, final, name))),)


def _deterministic(machine: FstArrays, n_labels: int) -> tuple[Ints, Floats, Floats] | None:
    """Return the arrays of a machine, if it has states and one path a labelling at most."""
    place = machine.source.astype(np.int64) * n_labels + machine.ilabel - 1
    if machine.start < 0 or not machine.ilabel.all() or len(distinct(place)) < len(place):
        return None
    # The start becomes state 0.
    number = np.arange(machine.n_states, dtype=np.int32)
    number[[0, machine.start]] = machine.start, 0
    target = np.full((machine.n_states, n_labels), -1, dtype=np.int32)
    score = np.zeros(target.shape)
    target.reshape(-1)[place] = number[machine.target]
    score.reshape(-1)[place] = machine.score
    return target[number], score[number], machine.final[number]


def _numbered(machine: FstArrays, labels: tuple[str, ...]) -> FstArrays:
    """Return the machine with label i as symbol i + 1, whatever its own symbols are."""
    used = distinct(machine.ilabel).tolist()
    if machine.isymbols is None:
        if used and used[-1] > len(labels):
            raise GrammarError(
                f"symbol {used[-1]}, but there are {len(labels)} labels; label i is symbol i + 1"
            )
        return machine
    place = {label: i + 1 for i, label in enumerate(labels)}
    number = np.zeros(len(machine.isymbols), dtype=np.int32)
    for symbol in used:
        text = machine.isymbols[symbol]
        if symbol and text not in place:
            raise GrammarError(f"symbol {text!r} is no label{nearest(text, labels)}")
        number[symbol] = place[text] if symbol else 0
    numbered = number[machine.ilabel]
    return replace(machine, ilabel=numbered, olabel=numbered, isymbols=None, osymbols=None)


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

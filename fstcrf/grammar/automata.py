"""Automata with alternatives, from pynini, OpenFst's files or expressions, made deterministic.

The weighted subset construction, best path by best path: what a regular expression makes has
several paths for one label sequence, and the score of a sequence is that of its best path. So a
state of the result is a set of states, each with how much worse its best path is than the best of
the set. Such sets may be many, or endlessly many where two loops over the same labels differ in
score: hence a limit. A machine with one path for each labelling may have any number of states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, real_array
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import DataError, GrammarError, ShapeError, TooLargeError
from fstcrf.grammar.acceptor import Acceptor, intersect, minimise, on_tapes, trim
from fstcrf.grammar.constraint import Constraint
from fstcrf.grammar.labels import LabelSets, Matching, label_sets, nearest, only_tape
from fstcrf.grammar.syntax import Concatenation, Difference, Repetition, Tree, Union, Weighted
from fstcrf.openfst import ArcType, Machine, connect, from_bytes, from_fst, pynini_module
from fstcrf.openfst import symbols as name_table
from fstcrf.openfst import to_fst as machine_fst

if TYPE_CHECKING:
    from collections.abc import Callable

    import pynini

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


# --- Machines of pynini ↔ acceptors ---------------------------------------------------------------
# `fstcrf.openfst` reads and writes them: scores here, costs there.


def fst_of(n_states: int, arcs: Iterable[tuple[int, int, int]], final: Iterable[int]) -> pynini.Fst:
    """Return an unweighted machine of pynini that starts in state 0.

    Parameters
    ----------
    arcs : iterable of (source, symbol, target)
        Symbol 0 reads nothing.
    final : iterable of int
        States in which it ends.
    """
    table = np.asarray(sorted(arcs), dtype=np.int32).reshape(-1, 3)
    ends = np.full(n_states, -np.inf)
    ends[list(final)] = 0.0
    fst: pynini.Fst = machine_fst(_machine(table, np.zeros(len(table)), ends), "standard")
    return fst


def _machine(
    arcs: np.ndarray[tuple[int, int], np.dtype[np.int32]],
    score: np.ndarray[tuple[int], np.dtype[np.float64]],
    final: np.ndarray[tuple[int], np.dtype[np.float64]],
    symbols: tuple[str, ...] | None = None,
) -> Machine:
    source, symbol, target = (np.ascontiguousarray(column) for column in arcs.T)
    return Machine(0, source, target, symbol, symbol, score, final, symbols, symbols)


def automaton_of(fst: pynini.Fst, n_symbols: int, scores: Sequence[float] = ()) -> Automaton:
    """Return the useful part of an acceptor.

    Parameters
    ----------
    fst : pynini.Fst
        Symbols 1 … n_symbols read a token, 0 nothing; n_symbols + 1 + i stands for scores[i].
    scores : sequence of float
        Natural-log scores.
    """
    return automaton(connect(from_fst(fst)), n_symbols, scores)


def automaton(machine: Machine, n_symbols: int, scores: Sequence[float] = ()) -> Automaton:
    """Return an acceptor all of whose states are useful; parameters as for `automaton_of`."""
    symbol = machine.ilabel
    silent = (symbol == 0) | (symbol > n_symbols)
    worth = np.concatenate([np.zeros(n_symbols + 1), np.asarray(scores, dtype=np.float64)])
    total = (machine.score + worth[symbol]).tolist()
    steps: list[list[tuple[int, float, int]]] = [[] for _ in range(machine.n_states)]
    quiet: list[list[tuple[float, int]]] = [[] for _ in range(machine.n_states)]
    arcs = zip(
        machine.source.tolist(), symbol.tolist(), total, machine.target.tolist(), strict=True
    )
    for (source, label, score, target), unread in zip(arcs, silent.tolist(), strict=True):
        if unread:
            quiet[source].append((score, target))
        else:
            steps[source].append((label - 1, score, target))
    return Automaton(machine.start, steps, quiet, machine.final.tolist(), n_symbols)


def to_fst(acceptor: Acceptor, arc_type: ArcType = "log64") -> pynini.Fst:
    """Return an acceptor as a machine of pynini with a symbol table.

    Parameters
    ----------
    acceptor : Acceptor
        Label i is symbol i + 1. Of several tapes, a symbol is ``pos=NN chunk=B-NP``; they are
        numbered with the last tape fastest.
    arc_type : {"standard", "log", "log64"}
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
            " ".join(f"{tape}={label}" for tape, label in zip(acceptor.tapes, labels, strict=True))
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
        raise GrammarError(f"{called} writes something else than it reads; expected an acceptor")
    return Constraint(called, partial(_bound, machine, tape, called))


def _machine_of(fst: pynini.Fst | str | Path) -> Machine:
    """Return a machine of pynini, or of a file in OpenFst's binary format."""
    if not isinstance(fst, str | Path):
        return from_fst(fst)
    try:
        return from_bytes(Path(fst).read_bytes())
    except DataError as error:
        raise DataError(str(error), path=str(fst)) from None


def _bound(machine: Machine, tape: str | None, name: str, sets: LabelSets) -> tuple[Acceptor, ...]:
    chosen = only_tape(sets, tape)
    labels = sets[chosen]
    numbered = _numbered(machine, labels)
    found = _deterministic(numbered, len(labels))
    if found is None:
        try:
            found = determinise(automaton(numbered, len(labels)))
        except TooLargeError as error:
            raise GrammarError(f"as a deterministic machine: {error}") from None
    target, score, final = found
    return (minimise(trim(Acceptor((chosen,), (labels,), target, score, final, name))),)


def _deterministic(machine: Machine, n_labels: int) -> tuple[Ints, Floats, Floats] | None:
    """Return the arrays of an acceptor whose machine has one path for a labelling at most.

    Such a machine may be of any size. None for others, and for one without states.
    """
    place = machine.source.astype(np.int64) * n_labels + machine.ilabel - 1
    if machine.start < 0 or not machine.ilabel.all() or len(np.unique(place)) < len(place):
        return None
    # The start becomes state 0.
    number = np.arange(machine.n_states, dtype=np.int32)
    number[[0, machine.start]] = machine.start, 0
    target = np.full((machine.n_states, n_labels), -1, dtype=np.int32)
    score = np.zeros(target.shape)
    target.reshape(-1)[place] = number[machine.target]
    score.reshape(-1)[place] = machine.score
    return target[number], score[number], machine.final[number]


def _numbered(machine: Machine, labels: tuple[str, ...]) -> Machine:
    """Return the machine with label i as symbol i + 1, whatever its own symbols are."""
    used = np.unique(machine.ilabel).tolist()
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
    known = label_sets(labels)[""]
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
        given = real_array(score, f"{name}: score")
        if given.shape != step.shape:
            raise ShapeError(f"{name}: score is {list(given.shape)}, expected {list(step.shape)}")
        scores = np.where(step >= 0, given, 0.0)
    whole = Acceptor(("",), (known,), step.astype(np.int32), scores, ends, name)
    arrays = (whole.target, whole.final, *(() if scores is None else (scores,)))
    content = "arrays", known, *((a.shape, a.tobytes()) for a in arrays), tape
    return Constraint(name, partial(_arranged, trim(whole), tape), content)


def _arranged(acceptor: Acceptor, tape: str | None, sets: LabelSets) -> tuple[Acceptor, ...]:
    """Return an acceptor over the labels of a tape, in their order; it rejects those new to it."""
    chosen = only_tape(sets, tape)
    labels, known = sets[chosen], acceptor.labels[0]
    unknown = next((label for label in known if label not in labels), None)
    if unknown is not None:
        raise GrammarError(f"no label {unknown!r}{nearest(unknown, labels)}")
    place = [labels.index(label) for label in known]
    target = np.full((acceptor.n_states, len(labels)), -1, dtype=np.int32)
    target[:, place] = acceptor.target
    score = None
    if acceptor.score is not None:
        score = np.zeros(target.shape)
        score[:, place] = acceptor.score
    return (Acceptor((chosen,), (labels,), target, score, acceptor.final, acceptor.name),)


# --- Regular expressions --------------------------------------------------------------------------


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

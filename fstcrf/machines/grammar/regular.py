"""From regular expressions over labels to the smallest deterministic acceptor.

Thompson's construction ("Regular expression search algorithm", CACM 11(6), 1968), with fewer silent
steps. A part of an expression is a machine with one start state, which no arc enters, and one end
state, which no arc leaves. So parts are joined by merging two states. Arcs read classes of labels
that the expression does not distinguish, for any number of labels. Only the right side of a minus
is determinised during the construction.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import GrammarError, TooLargeError
from fstcrf.machines.grammar.acceptor import Acceptor, intersect, minimise, on_tapes, trim
from fstcrf.machines.grammar.automata import Automaton, ambiguous, determinise, sequence_shown
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.grammar.labels import Matching
from fstcrf.machines.grammar.syntax import (
    Composition,
    Concatenation,
    Cross,
    Difference,
    Intersection,
    Place,
    Repetition,
    Tree,
    Turned,
    Union,
    Weighted,
)
from fstcrf.machines.ways import on_paths

MAX_STATES = 100_000
"""Largest number of states of a part before determinisation."""

MAX_ARCS = 2_000_000
"""Largest number of its arcs."""

MAX_PAIRS = 1_000_000
"""Largest number of pairs of states of the two sides of a minus."""


# --- Expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Symbol:
    """One token: a label or class for each relevant tape; tape `None` is the only tape."""

    fields: tuple[tuple[str | None, str | Matching], ...]
    place: Place
    filled: bool = False  # its text contains symbols of parameters or sets


@dataclass(frozen=True, eq=False, slots=True)
class Constrained:
    """The language of a constraint."""

    constraint: Constraint
    place: Place
    learned: tuple[int, int] | None = None  # start and end of its cost in the text, if that is open


@dataclass(frozen=True, eq=False, slots=True)
class Bound:
    """The language of an acceptor."""

    acceptor: Acceptor
    place: Place


@dataclass(frozen=True, eq=False, slots=True)
class Ranged:
    """An expression for each symbol of a set that depends on the labels: ``parts["B-(.*)"]``."""

    kind: str  # label, parts or values
    pattern: str
    tape: str | None
    expand: Callable[[tuple[str, ...]], Regular]
    one: Regular  # the expression for one placeholder symbol
    place: Place


Regular: TypeAlias = Tree[Symbol | Constrained | Bound | Ranged]


def leaves(expression: Regular) -> Iterator[Symbol | Constrained]:
    """Yield each distinct symbol and constraint of an expression once."""
    for part in parts(expression):
        if isinstance(part, Symbol | Constrained):
            yield part


def has_scores(expression: Regular) -> bool:
    """Return whether an expression has weights itself, not only in its constraints."""
    return any(isinstance(part, Weighted) for part in parts(expression))


def writes(expression: Regular) -> bool:
    """Return whether an expression is a relation: its output differs from its input."""
    stack = [expression]
    seen: set[int] = set()
    while stack:
        here = stack.pop()
        if isinstance(here, Cross):
            return True
        if id(here) not in seen and not (isinstance(here, Turned) and here.side != "invert"):
            seen.add(id(here))
            stack.extend(_children(here))
    return False


def parts(expression: Regular) -> Iterator[Regular]:
    """Yield each part of an expression once, including the expression."""
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
        case Concatenation(several) | Union(several):
            return several
        case Difference() | Intersection() | Cross() | Composition():
            return expression.left, expression.right
        case Repetition(part) | Weighted(part) | Turned(part):
            return (part,)
        case Ranged():
            return (expression.one,)
        case _:
            return ()


def rebuilt(expression: Regular, new: Callable[[Regular], Regular]) -> Regular:
    """Return an expression with its parts replaced."""
    match expression:
        case Concatenation(several) | Union(several):
            return type(expression)(tuple(map(new, several)), expression.place)
        case Difference() | Intersection() | Cross() | Composition():
            left, right = new(expression.left), new(expression.right)
            return type(expression)(left, right, expression.place)
        case Repetition(part) | Weighted(part) | Turned(part):
            return replace(expression, part=new(part))
        case _:
            return expression


# --- Compilation ----------------------------------------------------------------------------------


def compiled(
    expression: Regular,
    tapes: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    flags: Callable[[Symbol], Bools],
    bind: Callable[[Constrained], tuple[Acceptor, ...]],
    name: str,
) -> Acceptor:
    """Return the smallest acceptor of a regular expression over A tuples of labels.

    `flags` returns the tuples that match a symbol, bool [A], the last tape fastest; `bind` binds a
    constraint.
    """
    part, classes, _, place = _part_of(expression, tapes, labels, flags, bind)
    small = _smallest(part, classes, name)
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


def nondeterministic(
    expression: Regular,
    labels: tuple[str, ...],
    flags: Callable[[Symbol], Bools],
    bind: Callable[[Constrained], tuple[Acceptor, ...]],
    tape: str,
) -> tuple[list[tuple[int, int, int, float]], int]:
    """Return the arcs of an expression over one tape before determinisation, and its last state.

    An arc is a source, a label or −1, a target and a score; every path begins in state 0.
    """
    part, classes, first, place = _part_of(expression, (tape,), (labels,), flags, bind)
    of_kind = [np.flatnonzero(place == kind).tolist() for kind in range(len(first))]
    part = _trimmed(part)
    arcs: list[tuple[int, int, int, float]] = []
    for source, reads, target, score in part.arcs:
        kinds = [] if reads == _SILENT else classes.members[reads].tolist()
        read = [-1] if reads == _SILENT else [x for kind in kinds for x in of_kind[kind]]
        arcs += [(source, label, target, score) for label in read]
        if len(arcs) > MAX_ARCS:
            raise TooLargeError(f"the expression has more than {MAX_ARCS:,} arcs")
    return arcs, part.n_states - 1


def _part_of(
    expression: Regular,
    tapes: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    flags: Callable[[Symbol], Bools],
    bind: Callable[[Constrained], tuple[Acceptor, ...]],
) -> tuple[_Part, _Classes, Longs, Longs]:
    """Return the machine of an expression over kinds of tuples; a tuple of each kind; all kinds."""
    symbols: dict[int, Bools] = {}
    machines: dict[int, Acceptor] = {}
    for leaf in parts(expression):
        match leaf:
            case Symbol():
                symbols[id(leaf)] = flags(leaf)
            case Constrained():
                machines[id(leaf)] = on_tapes(reduce(intersect, bind(leaf)), tapes, labels)
            case Bound(acceptor):
                machines[id(leaf)] = acceptor
            case _:
                pass
    first, place = _kinds(list(symbols.values()), list(machines.values()), labels)
    building = _Building(
        _Classes(len(first)),
        {key: np.flatnonzero(shown[first]) for key, shown in symbols.items()},
        {key: _narrowed(machine, first) for key, machine in machines.items()},
    )
    part = building.part(expression)
    summed = next((x for x in leaves(expression) if _sums(x, machines)), None)
    if summed is not None:
        names = [_tuple_shown(labels, number) for number in first.tolist()]
        _check_one_path(summed, _automaton(part, building.classes), names)
    return part, building.classes, first, place


def _sums(leaf: Symbol | Constrained, machines: dict[int, Acceptor]) -> bool:
    """Return whether a part has weights of the log semiring."""
    return isinstance(leaf, Constrained) and leaf.constraint.sums and machines[id(leaf)].weighted


def _tuple_shown(labels: tuple[tuple[str, ...], ...], number: int) -> str:
    places = np.unravel_index(number, tuple(map(len, labels)))
    return "|".join(names[place] for names, place in zip(labels, places, strict=True))


def _check_one_path(part: Symbol | Constrained, automaton: Automaton, names: Sequence[str]) -> None:
    """Refuse several paths for a sequence if a part would sum their scores."""
    witness = ambiguous(automaton)
    if witness is None or not isinstance(part, Constrained):
        return
    labelling = sequence_shown([names[k] for k in witness])
    raise GrammarError(
        f"{part.constraint.name} has the log semiring, which sums over all paths of "
        f"a labelling, but an expression uses the best path, and {labelling} has "
        "several paths: use the best path in the machine as well, "
        'pynini.arcmap(fst, map_type="to_standard"), or make the expression '
        "unambiguous"
    )


def _kinds(
    symbols: list[Bools], machines: list[Acceptor], labels: tuple[tuple[str, ...], ...]
) -> tuple[Longs, Longs]:
    """Sort A tuples of labels into K kinds: a tuple of each [K], and the kind of each tuple [A]."""
    size = int(np.prod([len(tape_labels) for tape_labels in labels]))
    rows: list[NDArray[np.uint8]] = [np.packbits([np.zeros(size, dtype=bool), *symbols], axis=0)]
    for machine in machines:
        tables = (machine.target, *(() if machine.score is None else (machine.score + 0.0,)))
        rows += [_bytes(table.reshape(machine.n_states, size)) for table in tables]
    behaviour = np.ascontiguousarray(np.concatenate(rows).T)
    keys = behaviour.view(np.dtype((np.void, behaviour.shape[1]))).reshape(-1)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return first, place.reshape(-1)


def _bytes(table: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Return a table [Q, A] as bytes, uint8 [Q × bytes of one, A]."""
    turned = np.ascontiguousarray(table.T)
    return turned.view(np.uint8).reshape(len(turned), -1).T


def _narrowed(machine: Acceptor, first: Longs) -> Acceptor:
    flat = (machine.n_states, -1)
    score = None if machine.score is None else machine.score.reshape(flat)[:, first]
    return _over_kinds(
        machine.target.reshape(flat)[:, first], score, machine.final, len(first), machine.name
    )


def _over_kinds(
    target: Ints, score: Floats | None, final: Floats, n_kinds: int, name: str
) -> Acceptor:
    return Acceptor(("",), (tuple(map(str, range(n_kinds))),), target, score, final, name)


def _smallest(part: _Part, classes: _Classes, name: str) -> Acceptor:
    target, score, final = determinise(_automaton(part, classes))
    return minimise(trim(_over_kinds(target, score, final, classes.n_kinds, name)))


# --- Machines of parts ----------------------------------------------------------------------------

_SILENT = -1


class _Classes:
    """Distinct sets of kinds, with numbers."""

    def __init__(self, n_kinds: int) -> None:
        self.n_kinds = n_kinds
        self.members: list[Longs] = []
        self._number: dict[bytes, int] = {}

    def number(self, kinds: NDArray[np.integer]) -> int:
        """Return the number of a set of kinds, which are in order."""
        key = kinds.astype(np.int64)
        number = self._number.setdefault(key.tobytes(), len(self.members))
        if number == len(self.members):
            self.members.append(key)
        return number


_Arc: TypeAlias = tuple[int, int, int, float]
"""Source, class read, target, score."""
_Place: TypeAlias = tuple[int, int, int]
"""Position of a part in another one: its first state, the shift of inner states, its last state."""


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """A machine from state 0, to which no arc leads, to its last state, which no arc leaves.

    They are one state if only the empty sequence is accepted. An arc reads a class, or is silent
    (`_SILENT`), and adds a natural-log score. The arcs of inner parts precede its own, and are
    stored in these parts until `_flat`: copies in each part would make deep nesting quadratic.
    """

    n_states: int
    n_arcs: int  # including inner parts
    arcs: Sequence[_Arc]
    inner: Sequence[tuple[_Part, _Place]] = ()


def _part(n_states: int, arcs: Sequence[_Arc], inner: Iterable[tuple[_Part, _Place]] = ()) -> _Part:
    """Return a part; if it equals its only inner part, return that one."""
    reading = [(part, place) for part, place in inner if part.n_arcs]
    if len(reading) == 1 and not arcs:
        ((part, place),) = reading
        if place == (0, 0, n_states - 1) and part.n_states == n_states:
            return part
    inner_arcs = sum(part.n_arcs for part, _ in reading)
    _check_size(n_states, inner_arcs)
    return _Part(n_states, inner_arcs + len(arcs), arcs, reading)


def _flat(part: _Part) -> list[_Arc]:
    """Return the arcs of a part and of all inner parts."""
    arcs: list[_Arc] = []
    stack = [(part, (0, 0, part.n_states - 1))]
    while stack:  # last to first
        here, place = stack.pop()
        moved = partial(_moved, here.n_states - 1, place)
        arcs += [
            (moved(source), reads, moved(target), score)
            for source, reads, target, score in reversed(here.arcs)
        ]
        stack += [
            (inner, (moved(first), place[1] + shift, moved(last)))
            for inner, (first, shift, last) in here.inner
        ]
    return arcs[::-1]


def _moved(end: int, place: _Place, state: int) -> int:
    """Return the number of a part's state in another part; `end` is the part's last state."""
    first, shift, last = place
    return first if state == 0 else last if state == end else state + shift


def _check_size(states: int, arcs: int) -> None:
    for size, what, limit in ((states, "states", MAX_STATES), (arcs, "arcs", MAX_ARCS)):
        if size > limit:
            raise TooLargeError(f"a part of it has {size:,} {what}, expected up to {limit:,}")


_NOTHING = _part(2, ())
_EMPTY = _part(1, ())


def _concatenated(parts: Sequence[_Part], skips: Iterable[int] = ()) -> _Part:
    """Return the concatenation of parts; it may end before the parts in `skips`."""
    begins = list(itertools.accumulate((part.n_states - 1 for part in parts), initial=0))
    last = begins[-1]
    placed = [
        (part, (begin, begin, begin + part.n_states - 1))
        for part, begin in zip(parts, begins, strict=False)
    ]
    links = [(begins[k], _SILENT, last, 0.0) for k in skips if begins[k] < last]
    return _part(last + 1, links, placed)


def _either(parts: Sequence[_Part]) -> _Part:
    last = sum(max(part.n_states - 2, 0) for part in parts) + 1
    placed: list[tuple[_Part, _Place]] = []
    begin = 1
    for part in parts:
        if part.n_states > 1:
            placed.append((part, (0, begin - 1, last)))
            begin += part.n_states - 2
    silent = [(0, _SILENT, last, 0.0)] if len(placed) < len(parts) else []
    return _part(last + 1, silent, placed)


def _repeated(part: _Part, low: int, high: int | None) -> _Part:
    """Return a part repeated `low` to `high` times; `None`: any number."""
    times = max(low, high or 0)
    _check_size(part.n_states * times, part.n_arcs * times)
    if high is not None:
        return _concatenated([part] * high, range(low, high))
    # A loop through state 1, which is both its first and its last state.
    last = max(part.n_states, 2)
    links = [(0, _SILENT, 1, 0.0), (1, _SILENT, last, 0.0)]
    any_number = _part(last + 1, links, [(part, (1, 1, 1))])
    return _concatenated([part] * low + [any_number])


def _trimmed(part: _Part) -> _Part:
    """Keep arcs on paths from the first state to the last, in the order of sources."""
    arcs = sorted(_flat(part), key=operator.itemgetter(0))
    source, target = (np.asarray([arc[k] for arc in arcs], dtype=np.int32) for k in (0, 2))
    ends = np.zeros(part.n_states, dtype=bool)
    ends[-1] = True
    kept, useful = on_paths(source, target, ends)
    if not useful[0]:
        return _NOTHING
    number = (np.cumsum(useful) - 1).tolist()
    left = (arcs[k] for k in kept.tolist())
    return _part(int(useful.sum()), [(number[s], reads, number[t], w) for s, reads, t, w in left])


def _automaton(part: _Part, classes: _Classes) -> Automaton:
    part = _trimmed(part)
    steps: list[list[tuple[int, float, int]]] = [[] for _ in range(part.n_states)]
    silent: list[list[tuple[float, int]]] = [[] for _ in range(part.n_states)]
    for source, reads, target, score in part.arcs:
        if reads == _SILENT:
            silent[source].append((score, target))
        else:
            steps[source].append((reads, score, target))
    final = [-np.inf] * (part.n_states - 1) + [0.0]
    return Automaton(0, steps, silent, final, classes.n_kinds, classes.members)


@dataclass(eq=False)
class _Building:
    """Builds the machine of each part of an expression once."""

    classes: _Classes
    symbols: dict[int, Longs]
    machines: dict[int, Acceptor]
    _made: dict[int, _Part] = field(default_factory=dict)

    def part(self, expression: Regular) -> _Part:
        """Return the machine of an expression; nesting may be arbitrarily deep."""
        stack = [expression]
        while stack:
            waiting = [x for x in _children(stack[-1]) if id(x) not in self._made]
            if waiting:
                stack += reversed(waiting)
            else:
                last = stack.pop()
                if id(last) not in self._made:
                    self._made[id(last)] = self._new(last)
        return self._made[id(expression)]

    def _new(self, expression: Regular) -> _Part:
        made: _Part
        match expression:
            case Symbol():
                made = self._reads(self.symbols[id(expression)])
            case Constrained() | Bound():
                made = self._machine(self.machines[id(expression)])
            case Concatenation(parts):
                made = _concatenated(list(map(self.part, parts)))
            case Union(parts):
                made = _either(list(map(self.part, parts)))
            case Difference(left, right):
                made = self._difference(self.part(left), self.part(right))
            case Intersection(left, right):
                made = self._intersection(self.part(left), self.part(right))
            case Repetition(part, int(low), high) if not isinstance(high, str):
                made = _repeated(self.part(part), low, high)
            case Weighted(part, cost):
                ending = _part(2, [(0, _SILENT, 1, 0.0 - float(cost))])
                made = _concatenated([self.part(part), ending])
            case _:
                raise AssertionError(f"{expression} writes")
        return made

    def _reads(self, kinds: Longs) -> _Part:
        return _part(2, [(0, self.classes.number(kinds), 1, 0.0)]) if len(kinds) else _NOTHING

    def _machine(self, machine: Acceptor) -> _Part:
        """Return the machine of an acceptor, between a new first and a new last state."""
        last = machine.n_states + 1
        arcs: list[tuple[int, int, int, float]] = [(0, _SILENT, 1, 0.0)]
        for state, targets in enumerate(machine.target):
            scores = np.zeros(len(targets)) if machine.score is None else machine.score[state]
            together: dict[tuple[int, float], list[int]] = {}
            for kind in np.flatnonzero(targets >= 0).tolist():
                together.setdefault((int(targets[kind]), float(scores[kind])), []).append(kind)
            for (target, score), kinds in together.items():
                arcs.append((state + 1, self.classes.number(np.asarray(kinds)), target + 1, score))
        ends = np.flatnonzero(machine.final > -np.inf).tolist()
        arcs += [(state + 1, _SILENT, last, float(machine.final[state])) for state in ends]
        return _part(last + 1, arcs)

    def _difference(self, left: _Part, right: _Part) -> _Part:
        """Return the pairs of a state of the left side and one of the right side, completed."""
        taken = _smallest(right, self.classes, "the right side of a minus")
        if taken.weighted:
            raise GrammarError("the right side of a minus is soft, expected a hard constraint")
        walk = _Walk(taken, self.classes)
        scores = [-np.inf if final > -np.inf else 0.0 for final in taken.final.tolist()]
        return self._paired(left, walk, [*scores, 0.0], "the two sides of a minus")

    def _intersection(self, left: _Part, right: _Part) -> _Part:
        """Return the pairs of a state of the left side and one of the right side."""
        taken = _smallest(right, self.classes, "the right side of &")
        walk = _Walk(taken, self.classes)
        return self._paired(left, walk, [*taken.final.tolist(), -np.inf], "the two sides of &")

    def _paired(self, left: _Part, walk: _Walk, ends: list[float], what: str) -> _Part:
        """Return the product of the left side and a walk through another one, with its scores."""
        left = _trimmed(left)
        leaving: list[list[tuple[int, int, float]]] = [[] for _ in range(left.n_states)]
        for source, reads, target, score in left.arcs:
            leaving[source].append((reads, target, score))
        number: dict[tuple[int, int], int] = {(0, 0): 0}
        arcs: list[tuple[int, int, int, float]] = []
        for place, (state, other) in enumerate(queue := [(0, 0)]):
            for reads, target, score in leaving[state]:
                for kinds, reached, more in walk.ahead(reads, other):
                    pair = target, reached
                    if pair not in number:
                        number[pair] = len(queue)
                        queue.append(pair)
                    arcs.append((place, kinds, number[pair], score + more))
            if len(queue) > MAX_PAIRS:
                raise TooLargeError(f"{what} have too many states together")
        last = len(queue)
        done = [pair for pair in queue if pair[0] == left.n_states - 1]
        arcs += [(number[p], _SILENT, last, ends[p[1]]) for p in done if ends[p[1]] > -np.inf]
        return _trimmed(_part(last + 1, arcs))


class _Walk:
    """Steps of an acceptor by classes; an extra last state collects all rejected labels."""

    def __init__(self, acceptor: Acceptor, classes: _Classes) -> None:
        dead = acceptor.n_states
        self.target = np.where(acceptor.target >= 0, acceptor.target, dead)
        self.target = np.concatenate([self.target, np.full_like(self.target[:1], dead)])
        self.score = np.zeros(self.target.shape)
        if acceptor.score is not None:
            self.score[:-1] = acceptor.score
        self.classes = classes
        self._steps: dict[tuple[int, int], list[tuple[int, int, float]]] = {}

    def ahead(self, reads: int, state: int) -> list[tuple[int, int, float]]:
        """Return the steps of a class: classes within it, the target and the score of each."""
        if reads == _SILENT:
            return [(_SILENT, state, 0.0)]
        key = reads, state
        if key not in self._steps:
            kinds = self.classes.members[reads]
            target, score = self.target[state, kinds], self.score[state, kinds]
            ways = dict.fromkeys(zip(target.tolist(), score.tolist(), strict=True))
            self._steps[key] = [
                (self.classes.number(kinds[(target == reached) & (score == more)]), reached, more)
                for reached, more in ways
            ]
        return self._steps[key]

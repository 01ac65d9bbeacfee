"""Keeps the best of several runs over the same strings, in which symbols may be at different arcs.

Two runs of a machine are over the same strings if the sequences of their arcs' *keys* are equal,
and they write the same string in each column. The arcs by which a run writes a string do not
matter. The *rivals* of a run are the other runs over the same strings. A run is kept if no rival
has a larger gain. If gains are equal, runs are compared at the first state where they differ:
ending and arcs with a key precede arcs without one, then the smaller number.

States / Start / Final / Arcs
    A state is a state of the machine with the rivals that agree with the run so far: the state of
    each, its delay in the written strings, and its lead in gain. The start has no rivals. A run may
    end if no rival ends with a larger gain. Each arc is an arc of the machine, under which all
    rivals move along.

A rival moves when the run takes an arc with a key: it takes an arc with the same key, and then any
number of arcs without one. So each rival is before an arc with a key, or at its end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Array, Bools, Floats, Longs

_LONG = 64  # symbols of a delay that cost as much as a rival
_BITS, _LARGE = 40, 1e200
"""Gains are compared as multiples of 2^-40: sums of these have no rounding."""

_Delay: TypeAlias = tuple[tuple[int, ...], ...]
"""For each column the symbols that a rival has written before the run, or ~symbol if it is late."""

_Pair: TypeAlias = tuple[int, int, _Delay]
"""The state of a run, the state of a rival, and its delay; state −1: no rival yet."""

_Node: TypeAlias = tuple[int, int, _Delay, bool]
"""The same, and whether the rival may take further arcs without a key."""

_Way: TypeAlias = tuple[int, _Delay, int]
"""A rival after some arcs: its state, its delay, and its gain minus the run's."""

_Lead: TypeAlias = tuple[int, int]
"""A rival's lead in gain, and for ties 1: the rival is kept, −1: the run is."""

_Rivals: TypeAlias = dict[tuple[int, _Delay], _Lead]
"""By state and delay."""

_Ahead: TypeAlias = tuple[list[frozenset[int]], list[float], list[float]]
"""For each state the symbols that may be written next, and the least and largest number of them."""


class Graph(NamedTuple):
    """A machine in the form in which its runs are compared: A arcs, Q states and C columns."""

    source: Array  # int [A]
    target: Array  # int [A]
    key: Array  # int [A] −1: no key
    written: Array  # int [A, C] −1: no output
    gain: Floats  # [A]
    final: Floats  # [Q] gain of ending; −inf: no run ends there
    begins: Sequence[int] = (0,)  # runs that begin in different states are not compared


class Best(NamedTuple):
    """The best runs as a machine of A' arcs and Q' states."""

    arc: Longs  # [A'] original arc of each arc
    source: Longs  # [A'] ascending
    target: Longs  # [A']
    state: Longs  # [Q'] original state of each state, ascending
    ends: Bools  # [Q'] whether a run may end there


class ManyRivalsError(Exception):
    """There are too many rivals."""

    def __init__(self, run: list[int] | None = None) -> None:
        super().__init__()
        self.run = run  # the arcs of a run that has a rival; `None`: no rival was found


def best_runs(graph: Graph, limit: int) -> Best | None:
    """Return the best runs; `None` if each run is the only one over its strings.

    Parameters
    ----------
    graph : Graph
        All states are useful; arcs without a key form no cycle.
    limit : int
        Largest number of rivals.

    Raises
    ------
    ManyRivalsError
        There are more rivals.
    """
    search = _Search(graph, limit)
    try:
        pairs = search.agreeing()
    except ManyRivalsError as error:
        if error.run is not None:
            raise
        search = _Search(graph, limit, _agreeing_in_keys(graph, limit, error))
        pairs = search.agreeing()
    return search.best(pairs) if pairs else None


def _agreeing_in_keys(graph: Graph, limit: int, error: ManyRivalsError) -> set[tuple[int, int]]:
    """Return the states of runs and rivals with the same keys; raise the error if they are many."""
    try:
        pairs = _Search(graph._replace(written=graph.written[:, :0]), limit).agreeing()
    except ManyRivalsError:
        raise error from None
    return {(run, rival) for run, rival, _ in pairs}


class _Search:
    """A machine as lists, and how rivals move along with its runs."""

    def __init__(
        self, graph: Graph, limit: int, within: set[tuple[int, int]] | None = None
    ) -> None:
        self.begins, self.limit, self.within, self.counted = graph.begins, limit, within, 0
        self.target, self.key = graph.target.tolist(), graph.key.tolist()
        self.gain = [_fixed_point(x) for x in graph.gain.tolist()]
        self.final = [None if x == -np.inf else _fixed_point(x) for x in graph.final.tolist()]
        written = graph.written.tolist()
        self.rival_output = [tuple([(x,) if x >= 0 else () for x in row]) for row in written]
        self.run_output = [tuple([(~x,) if x >= 0 else () for x in row]) for row in written]
        self.silent: list[list[int]] = [[] for _ in self.final]
        self.keyed: list[dict[int, list[int]]] = [{} for _ in self.final]
        for arc, source in enumerate(graph.source.tolist()):
            if self.key[arc] < 0:
                self.silent[source].append(arc)
            else:
                self.keyed[source].setdefault(self.key[arc], []).append(arc)
        self.arcs = [
            sorted(chain(silent, *keyed.values()))
            for silent, keyed in zip(self.silent, self.keyed, strict=True)
        ]
        columns = range(graph.written.shape[1])
        self.nothing: _Delay = ((),) * len(columns)
        self.ahead = [_ahead(graph, column) for column in columns]
        self.closed: dict[int, list[tuple[int, _Delay, int]]] = {}
        self.continuations: dict[tuple[int, _Delay, int], list[tuple[int, _Delay, int]]] = {}

    def _count(self, number: int) -> None:
        self.counted += number
        if self.counted > self.limit:
            raise ManyRivalsError

    # --- How rivals move ---

    def _closed(self, state: int) -> list[tuple[int, _Delay, int]]:
        """Return the targets of arcs without a key: state, output, and the largest gain.

        The first one is the state itself.
        """
        if state not in self.closed:
            best: dict[tuple[int, _Delay], int] = {(state, self.nothing): 0}
            for here, output in (queue := [*best]):
                gained = best[here, output]
                for arc in self.silent[here]:
                    joined = _joined(output, self.rival_output[arc])
                    assert joined is not None  # noqa: S101 (the run has written nothing)
                    way, gain = (self.target[arc], joined), gained + self.gain[arc]
                    if way not in best or best[way] < gain:
                        best[way] = gain
                        queue.append(way)
                self._count(1 + len(self.silent[here]))
            self.closed[state] = [(here, output, gain) for (here, output), gain in best.items()]
        return self.closed[state]

    def _by(self, ways: Iterable[tuple[int, _Delay, int]], arcs: Iterable[int]) -> Iterator[_Way]:
        """Yield rivals after some arcs of a state, for each delay they may have."""
        for arc in arcs:
            for _, delay, lead in ways:
                joined = _joined(delay, self.rival_output[arc])
                if joined is not None:
                    yield self.target[arc], joined, lead + self.gain[arc]

    def _candidates(self, ways: Iterable[_Way], arc: int) -> Iterator[_Way]:
        """Yield the rivals that may agree with the run after it takes an arc."""
        target, output, gain = self.target[arc], self.run_output[arc], self.gain[arc]
        for state, delay, lead in ways:
            joined = _joined(delay, output)
            if joined is not None and self._may_agree(target, state, joined):
                yield state, joined, lead - gain

    def _may_agree(self, run: int, rival: int, delay: _Delay) -> bool:
        """Return whether a run and a rival may write the same next symbol, and equally many."""
        if self.within is not None and (run, rival) not in self.within:
            return False
        for (nexts, least, most), symbols in zip(self.ahead, delay, strict=True):
            size = len(symbols) if symbols and symbols[0] >= 0 else -len(symbols)
            if not symbols:
                if nexts[run].isdisjoint(nexts[rival]):
                    return False
            elif symbols[0] not in nexts[run] if size > 0 else ~symbols[0] not in nexts[rival]:
                return False
            if least[rival] + size > most[run] or most[rival] + size < least[run]:
                return False
        return True

    def _following(self, state: int, delay: _Delay, arc: int) -> list[_Way]:
        """Return the continuations of a rival when the run takes an arc."""
        rivals = self.continuations.get((state, delay, arc))
        if rivals is None:
            ways: Iterable[_Way] = [(state, delay, 0)]
            if self.key[arc] >= 0:
                ways = self._by(ways, self.keyed[state].get(self.key[arc], ()))
            rivals = self.continuations[state, delay, arc] = [*self._candidates(ways, arc)]
            self._count(1 + sum(map(len, delay)) // _LONG)
        return rivals

    def _further(self, run: int, state: int, delay: _Delay) -> Iterator[_Way]:
        """Yield a rival's continuations by arcs without a key, while the run stays."""
        for way in self._by([(state, delay, 0)], self.silent[state]):
            if self._may_agree(run, way[0], way[1]):
                yield way

    def _parting(self, state: int, arc: int) -> Iterator[tuple[_Way, int, bool]]:
        """Yield the new rivals of a run without rivals when it takes an arc.

        Each comes with 1 if the rival is kept in a tie, −1 if the run is, and whether it may take
        further arcs without a key.
        """
        nothing = [(state, self.nothing, 0)]
        if self.key[arc] < 0:
            others = self.silent[state]
            for way in self._candidates(nothing, arc):  # it takes an arc with a key, or ends
                yield way, 1, False
        else:
            others = self.keyed[state][self.key[arc]]
            for begun in self._closed(state)[1:]:
                taken = self.keyed[begun[0]].get(self.key[arc], ())
                for way in self._candidates(self._by([begun], taken), arc):
                    yield way, -1, True
        for other in others:
            if other != arc:
                for way in self._candidates(self._by(nothing, [other]), arc):
                    yield way, 1 if other < arc else -1, True

    # --- Which pairs of runs agree to their ends ---

    def agreeing(self) -> set[_Pair]:
        """Return the pairs of runs and rivals that agree from the start to an end; empty: none."""
        starts = [(begin, -1, self.nothing, False) for begin in self.begins]
        origin: dict[_Node, tuple[_Node, int] | None] = dict.fromkeys(starts)
        into: dict[_Node, list[_Node]] = {start: [] for start in starts}
        ended: list[_Node] = []
        try:
            for node in (queue := starts):
                self._count(1)
                if self._ends(node[:3]):
                    ended.append(node)
                for further, arc in self._nodes(node):
                    if further not in origin:
                        origin[further] = node, arc
                        into[further] = []
                        queue.append(further)
                    into[further].append(node)
        except ManyRivalsError:
            raise ManyRivalsError(_run(origin, ended)) from None
        useful = set(ended)
        for node in (queue := ended):
            for before in into[node]:
                if before not in useful:
                    useful.add(before)
                    queue.append(before)
        return {node[:3] for node in useful}

    def _nodes(self, node: _Node) -> Iterator[tuple[_Node, int]]:
        """Yield the successors of a run and a rival, and the arc of the run; −1: it stays."""
        run, rival, delay, may_extend = node
        if may_extend:
            for state, later, _ in self._further(run, rival, delay):
                yield (run, state, later, True), -1
        for arc in self.arcs[run]:
            target, keyed = self.target[arc], self.key[arc] >= 0
            if rival >= 0:
                for state, later, _ in self._following(rival, delay, arc):
                    yield (target, state, later, keyed), arc
                continue
            yield (target, -1, self.nothing, False), arc
            for (state, later, _), _, goes_on in self._parting(run, arc):
                yield (target, state, later, goes_on), arc

    def _ends(self, pair: _Pair) -> bool:
        """Return whether the run may end, and the rival with the same strings."""
        run, rival, delay = pair
        if self.final[run] is None:
            return False
        if rival >= 0:
            return self.final[rival] is not None and delay == self.nothing
        ways = self._closed(run)[1:]
        return any(output == self.nothing and self.final[s] is not None for s, output, _ in ways)

    # --- The best of them ---

    def best(self, pairs: set[_Pair]) -> Best:
        """Return the best runs, given the pairs that agree from the start to an end."""
        queue: list[tuple[int, frozenset[tuple[tuple[int, _Delay], _Lead]]]]
        queue = [(begin, frozenset()) for begin in self.begins]
        number = {start: place for place, start in enumerate(queue)}
        rows, ends = list[tuple[int, int, int]](), list[bool]()
        for place, (state, key) in enumerate(queue):
            rivals = dict(key)
            ends.append(self._wins(state, rivals))
            for arc in self.arcs[state]:
                further = self._moved(state, rivals, arc, pairs)
                if further is None:
                    continue
                successor = self.target[arc], frozenset(further.items())
                if successor not in number:
                    number[successor] = len(queue)
                    queue.append(successor)
                rows.append((place, arc, number[successor]))
        states = np.array([state for state, _ in queue])
        useful = _leading(rows, [k for k, may in enumerate(ends) if may], len(queue))
        useful[: len(self.begins)] = True
        return _trimmed(rows, states, np.array(ends), useful)

    def _moved(self, state: int, rivals: _Rivals, arc: int, pairs: set[_Pair]) -> _Rivals | None:
        """Return the rivals after the run takes an arc; `None` if one is better for good."""
        stay: _Rivals = {}
        move: _Rivals = {}
        target, keyed = self.target[arc], self.key[arc] >= 0

        def add(table: _Rivals, way: _Way, lead: int, kept: int) -> bool:
            rival, more = way[:2], (lead + way[2], kept)
            better = (target, *rival) in pairs and (rival not in table or table[rival] < more)
            if better:
                table[rival] = more
            return better

        for (where, delay), lead in rivals.items():
            for way in self._following(where, delay, arc):
                add(move if keyed else stay, way, *lead)
        for way, kept, goes_on in self._parting(state, arc):
            add(move if goes_on else stay, way, 0, kept)
        for rival in (queue := [*move]):
            further = self._further(target, *rival)
            queue += [way[:2] for way in further if add(move, way, *move[rival])]
        for rival, lead in stay.items():
            move[rival] = max(lead, move.get(rival, lead))
        self._count(1 + len(rivals) + len(queue))
        twin = move.pop((target, self.nothing), None)  # same state and same strings
        return None if twin is not None and twin > (0, 0) else move

    def _wins(self, state: int, rivals: _Rivals) -> bool:
        """Return whether a run may end in a state, and no rival ends with a larger gain."""
        final = self.final[state]
        if final is None:
            return False
        both = [(rival, *lead) for rival, lead in rivals.items()]
        both += [((s, output), gain, -1) for s, output, gain in self._closed(state)[1:]]
        for (where, delay), lead, kept in both:
            end = self.final[where]
            if end is not None and delay == self.nothing and (lead + end - final, kept) > (0, 0):
                return False
        return True


def _run(
    origin: Mapping[_Node, tuple[_Node, int] | None], ended: Sequence[_Node]
) -> list[int] | None:
    """Return the arcs of the first run that is known to have a rival."""
    if not ended:
        return None
    arcs, node = [], ended[0]
    while (before := origin[node]) is not None:
        node, arc = before
        arcs += [arc] if arc >= 0 else []
    return arcs[::-1]


def _joined(delay: _Delay, output: _Delay) -> _Delay | None:
    """Return a delay after more output, of the run as ~symbol; `None`: the strings differ."""
    if not any(output):
        return delay
    joined = []
    for symbols, more in zip(delay, output, strict=True):
        left = symbols
        for symbol in more:
            if not left or (left[0] < 0) == (symbol < 0):
                left = (*left, symbol)
            elif left[0] == ~symbol:
                left = left[1:]
            else:
                return None
        joined.append(left)
    return tuple(joined)


def _ahead(graph: Graph, column: int) -> _Ahead:
    """Return the output after each state: the next symbol, −1 for the end, and the numbers."""
    ends = graph.final > -np.inf
    nexts = [frozenset([-1]) if end else frozenset[int]() for end in ends.tolist()]
    least, most = np.where(ends, 0.0, np.inf).tolist(), np.where(ends, 0.0, -np.inf).tolist()
    if not (graph.target > graph.source).all():  # there may be cycles
        most = [np.inf] * len(nexts)
    order = np.argsort(-graph.source, kind="stable")
    columns = (graph.source, graph.target, graph.written[:, column])
    rows = [*zip(*(part[order].tolist() for part in columns), strict=True)]
    changed = True
    while changed:
        changed = False
        for source, target, symbol in rows:
            length = int(symbol >= 0)
            more = frozenset([symbol]) if length else nexts[target]
            if not more <= nexts[source]:
                nexts[source], changed = nexts[source] | more, True
            if least[target] + length < least[source]:
                least[source], changed = least[target] + length, True
            if most[target] + length > most[source]:
                most[source], changed = most[target] + length, True
    return nexts, least, most


def _fixed_point(gain: float) -> int:
    """Return a gain as a multiple of the smallest difference."""
    return round(math.ldexp(gain, _BITS)) if abs(gain) < _LARGE else int(gain) << _BITS


def _leading(rows: list[tuple[int, int, int]], ends: list[int], states: int) -> Bools:
    """Return the states that lead to some states, by rows of source, arc and target."""
    into: list[list[int]] = [[] for _ in range(states)]
    for source, _, target in rows:
        into[target].append(source)
    leading = np.zeros(states, dtype=bool)
    leading[ends] = True
    for state in (queue := [*ends]):
        for before in into[state]:
            if not leading[before]:
                leading[before] = True
                queue.append(before)
    return leading


def _trimmed(rows: list[tuple[int, int, int]], states: Longs, ends: Bools, kept: Bools) -> Best:
    """Return a machine with some of its states, in the order of the given ones."""
    source, arc, target = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    order = np.flatnonzero(kept)
    order = order[np.argsort(states[order], kind="stable")]
    number = np.zeros(len(states), dtype=np.int64)
    number[order] = np.arange(len(order))
    there = np.flatnonzero(kept[source] & kept[target])
    there = there[np.lexsort((arc[there], number[source[there]]))]
    return Best(
        arc[there], number[source[there]], number[target[there]], states[order], ends[order]
    )

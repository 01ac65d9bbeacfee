"""A chain and a transducer as one chain of pairs of their states, without scores: their fold.

States / Start / Final / Arcs
    A state of the chain and a state of the transducer after the label is read; initial and final
    if both are; an arc of the chain and a run of the transducer along it: any number of moves
    without input, then one that reads the label.

Several runs of the transducer between the same two states are one arc, with the score of the best
of them, or the log of their sum. A grammar's automaton is a transducer without output. If few of
its states are reachable with each label, as in language models of labels, in tries and in counters,
a token costs only the existing arcs, and no search is necessary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Array, Bools, Floats, Ints, Longs, Ragged, distinct
from fstcrf.kernel.acyclic import connected
from fstcrf.kernel.transduced import IndexedTransducer
from fstcrf.lazy import made_once
from fstcrf.machines.grammar.acceptor import Acceptor
from fstcrf.machines.plans.chain import TapeChain
from fstcrf.machines.plans.folding import Folding, arc_ends
from fstcrf.machines.topology import Topology

LEAST_ARCS, MOST_ARCS = 20_000, 1_000_000
"""Arcs at a token that a fold may have where arcs are few, and where they are many."""

_LOOKED = 20  # pairs that are looked at for an arc there may be
_WORTH = 16  # arcs of a fold that take less time than one that is written out, compiling aside
_MOST_CELLS = 10_000_000
_ADVANTAGE = 5  # number of arcs of a dense step that take the time of a sparse arc
_MOST_PAIRED = 2_000_000

Scores: TypeAlias = tuple[Floats, Floats, Floats]
"""Of beginning in each state, of each arc, and of ending in each state."""


class _Runs(NamedTuple):
    """Runs of the transducer: for each key the best run, and the log of the sum of all runs."""

    key: Longs  # [R] rising
    best: Floats  # [R]
    total: Floats  # [R]
    before: Longs  # [R] the run without its last move; −1 if the run is empty
    move: Longs  # [R] its last move


class _Extensions(NamedTuple):
    """All ways in which runs become runs that are one move longer: C terms of sums."""

    before: Longs  # [C] the shorter run
    move: Longs  # [C]
    after: Longs  # [C] the longer run
    share: Floats  # [C] probability of this term, if the longer run is taken

    def taken(self, after: Array, before: Floats, uses: Floats) -> None:
        """Add the expected uses of longer runs to the uses of shorter runs, and of moves."""
        weights = after[self.after] * self.share
        before += np.bincount(self.before, weights, len(before))
        uses += np.bincount(self.move, weights, len(uses))


def _longer(
    machine: IndexedTransducer, runs: _Runs, shorter: Longs, move: Longs, key: Longs
) -> tuple[_Runs, _Extensions]:
    """Extend some runs by one move, and return them under new keys."""
    gain = machine.gain[move]
    best, total = runs.best[shorter] + gain, runs.total[shorter] + gain
    order = np.lexsort((-best, key))
    first = np.diff(key[order], prepend=-1) != 0
    starts = np.flatnonzero(first)
    one, after = order[starts], np.cumsum(first) - 1
    if len(starts) == len(key):
        return (
            _Runs(key[one], best[one], total[one], shorter[one], move[one]),
            _Extensions(shorter[one], move[one], after, np.ones(len(one))),
        )
    terms = total[order]
    total = np.logaddexp.reduceat(terms, starts)
    share = np.exp(terms - total[after])
    return (
        _Runs(key[one], best[one], total, shorter[one], move[one]),
        _Extensions(shorter[order], move[order], after, share),
    )


def _silent(machine: IndexedTransducer, most: int) -> tuple[_Runs, tuple[_Extensions, ...]] | None:
    """Return the runs without input from the targets of labels, by first and last state.

    Runs are sorted by length, and each length has one `_Moves`. There is no result if there are
    more than `most` runs.
    """
    bounds, width = machine.index.astype(np.int64), machine.labels + 1
    root = distinct(np.append(machine.target[machine.reads >= 0].astype(np.int64), machine.start))
    none, nothing, count = np.full(len(root), -1), np.zeros(len(root)), 0
    levels = [_Runs(root * machine.states + root, nothing, nothing, none, none)]
    taken: list[_Extensions] = []
    while True:
        root, at = np.divmod(levels[-1].key, machine.states)
        ways = Ragged.from_lengths(bounds[at * width + 1] - bounds[at * width])
        if not ways.total:
            return _Runs(*map(np.concatenate, zip(*levels, strict=True))), tuple(taken)
        if count + ways.total > most:
            return None
        shorter, move = ways.rows(), ways.ranges(bounds[at * width])
        key = root[shorter] * machine.states + machine.target[move].astype(np.int64)
        runs, step = _longer(machine, levels[-1], shorter, move, key)
        levels.append(runs._replace(before=runs.before + count))
        step = step._replace(before=step.before + count)
        count += len(root)
        taken.append(step._replace(after=step.after + count))


class ChainArcs(NamedTuple):
    """The part of a chain that decides which paths exist."""

    label: Longs  # [S]
    source: Longs  # [A] of the arcs that are not forbidden, rising
    target: Longs  # [A]
    initial: Bools  # [S]
    final: Bools  # [S]


ScoredArcs: TypeAlias = tuple[ChainArcs, Scores]


def _scored_arcs(label: Longs, source: Longs, target: Longs, scores: Scores) -> ScoredArcs:
    """Return the arcs that are not forbidden, and the scores of the chain without the others."""
    first, arc, last = scores
    legal = arc > -np.inf
    arcs = ChainArcs(label, source[legal], target[legal], first > -np.inf, last > -np.inf)
    return arcs, (first, arc[legal], last)


def chain_arcs(chain: TapeChain, grammar: Folding) -> ScoredArcs | None:
    """Return the arcs of a chain with the part of a grammar that is folded into it.

    There is no result if the scores depend on other tapes.
    """
    plain = (chain.arc_context, chain.node_contexts, chain.tables) == ((), ((),), ())
    if chain.arc is None or not plain:
        return None
    topology, first, arc, last = chain.topology, chain.initial, chain.arc.reshape(-1), chain.final
    if chain.name in grammar.chains:
        more = grammar.chains[chain.name]
        first, arc, last = first + more.initial, arc + more.arc, last + more.final
    first = np.where(topology.initial, first, -np.inf)
    last = np.where(topology.final, last, -np.inf)
    kept = np.sort(topology.kernel_arcs())
    source, target = (ends[kept] for ends in arc_ends(topology))
    label = topology.state_label.astype(np.int64)
    return _scored_arcs(label, source, target, (first, arc[kept], last))


def indexed(acceptor: Acceptor) -> IndexedTransducer:
    """Return an acceptor over one tape as a transducer without output."""
    there = acceptor.target >= 0
    state, label = np.nonzero(there)
    states, labels = there.shape
    cell = state * (labels + 1) + label + 1
    score = np.zeros(len(state)) if acceptor.score is None else acceptor.score[there]
    return IndexedTransducer(
        labels=labels,
        start=0,
        index=Ragged.from_rows(cell, states * (labels + 1)).offsets.astype(np.int32),
        reads=label.astype(np.int32),
        target=acceptor.target[there],
        gain=np.append(score, acceptor.final),
        origin=np.arange(len(state) + states),
        output=np.full(len(state) + states, -1, dtype=np.int32),
    )


class OutputTable(dict[tuple[int, int], tuple[tuple[int, int], ...]]):
    """Cache of the output of a fold's elements: labels, and their offsets in tokens.

    The key is two consecutive pairs of a path; −1 is the beginning or the end of the path.
    """

    def __init__(self, fold: Fold) -> None:
        super().__init__()
        self._fold = fold

    def __missing__(self, key: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        fold, (source, target) = self._fold, key
        arcs, pairs = len(fold.source), len(fold.state)
        if target < 0:
            element = arcs + len(fold.begins) + (source if source >= 0 else pairs)
        elif source < 0:
            element = arcs + int(fold.begins.searchsorted(target))
        else:
            element = int(fold.code.searchsorted(source * pairs + target))
        written = slice(*fold.writes.offsets[element : element + 2].tolist())
        both = fold.late[written].tolist(), fold.written[written].tolist()
        self[key] = output = tuple(zip(*both, strict=True))
        return output


@dataclass(frozen=True, eq=False)
class Fold:
    """The chain of pairs, without the scores of the chain.

    Its *elements* are its E arcs, B beginnings, P ends, and one for the empty sequence.
    """

    state: Longs  # [P] of the chain, in each pair
    source: Longs  # [E] pairs; rising, and of one source the targets
    target: Longs  # [E]
    arc: Longs  # [E] of the arcs of the chain that are not forbidden
    begins: Longs  # [B] pairs, rising
    best: Floats  # [E + B + P + 1] score of the best run of the transducer along an element
    total: Floats  # log of the sum over the runs
    writes: Ragged  # of elements, by the best run
    written: Ints
    late: Longs  # 1 if a label is written after the element reads its label, 0 if before
    run: Longs  # [E + B + P + 1] of the transducer; −1: an end that there is not
    taken: tuple[_Extensions, ...]  # of runs that end, that read, and of silent runs, longest first
    silent: int  # number of silent runs

    @made_once
    def code(self) -> Longs:
        """Source · pairs + target of each arc, rising."""
        return self.source * len(self.state) + self.target

    @made_once
    def outputs(self) -> OutputTable:
        """The output of its elements."""
        return OutputTable(self)

    @made_once
    def unambiguous(self) -> bool:
        """Whether each element has one run."""
        return bool((self.best == self.total).all())

    def uses(self, elements: Floats, size: int) -> Floats:
        """Return the expected uses of each move and end, given the expected uses of all elements.

        Parameters
        ----------
        elements : [E + B + P + 1]
        size : int
            Number of moves and ends of the transducer.
        """
        (ending, reading, *silent), inner = self.taken, len(self.source) + len(self.begins)
        uses, runs = np.zeros(size), np.zeros(self.silent)
        reads = np.bincount(self.run[:inner], elements[:inner], len(reading.after))
        last = self.run[inner:] + 1  # 0: no end
        ends = np.bincount(last, elements[inner:], len(ending.after) + 1)[1:]
        ending.taken(ends, runs, uses)
        reading.taken(reads, runs, uses)
        for step in silent:
            step.taken(runs, runs, uses)
        return uses

    def scored(self, scores: Scores, gain: Floats) -> Scores:
        """Return the scores of beginning in pairs, of arcs, and of ending in pairs."""
        arcs, ends = len(self.source), len(self.source) + len(self.begins)
        first = np.full(len(self.state), -np.inf)
        first[self.begins] = scores[0][self.state[self.begins]] + gain[arcs:ends]
        return first, scores[1][self.arc] + gain[:arcs], scores[2][self.state] + gain[ends:-1]

    def arcs(self, chain: ScoredArcs) -> ScoredArcs:
        """Return the arcs of pairs, with the scores of the chain and of the best runs."""
        arcs, scores = chain
        label = arcs.label[self.state]
        return _scored_arcs(label, self.source, self.target, self.scored(scores, self.best))

    def machine(self, scores: Scores, gain: Floats, empty: float) -> kernel.JointChain:
        """Return the fold for the kernel, with the scores of a chain and of the fold's elements."""
        pairs, arcs = len(self.state), len(self.source)
        first, score, last = self.scored(scores, gain)
        source, target = self.source.astype(np.int32), self.target.astype(np.int32)
        axis = kernel.Axis(pairs, source, target, score[None])
        if not arcs or pairs**2 <= _ADVANTAGE * arcs:
            full = np.full((1, pairs**2), -np.inf)
            full[0, self.code] = score
            axis = kernel.Axis(pairs, score=full)
        factor = kernel.Factor(1, pairs)
        return kernel.JointChain(
            (axis,), (factor,), None, first[None], last[None], empty=empty + gain[-1]
        )


def folded(shape: ChainArcs, machine: IndexedTransducer, limit: int | None = None) -> Fold | None:
    """Return the fold of a chain and a transducer, unless it is too large or has no path.

    `limit` is its largest number of arcs; by default, as many as are faster than a composition.
    """
    width, states = machine.labels + 1, machine.states
    written = len(shape.source) * states + len(machine.target)  # at a token, at most
    most = min(MOST_ARCS, max(LEAST_ARCS, _WORTH * written)) if limit is None else limit
    silent = _silent(machine, most) if states * width <= _MOST_CELLS else None
    if silent is None:
        return None
    runs, taken = silent
    bounds, (root, at) = machine.index.astype(np.int64), np.divmod(runs.key, states)
    first = bounds[at * width + 1]
    reads = Ragged.from_lengths(bounds[(at + 1) * width] - first)
    if reads.total > most:
        return None
    shorter, move = reads.rows(), reads.ranges(first)
    place = root[shorter] * machine.labels + machine.reads[move]
    ways, reading = _longer(machine, runs, shorter, move, place * states + machine.target[move])
    shorter = np.flatnonzero(machine.ends[at])
    ends, ending = _longer(machine, runs, shorter, len(machine.target) + at[shorter], root[shorter])
    end = np.full(states, -1)
    end[ends.key] = np.arange(len(ends.key))
    pairs = _reachable_pairs(shape, machine, ways, end, most)
    if pairs is None:
        return None
    taken = ending, reading, *reversed(taken)
    return _fold_of(pairs, machine, runs, ways, ends, end[machine.start], taken)


class ReachablePairs(NamedTuple):
    """Pairs on paths, and the runs by which each reads a label, or ends."""

    state: Longs  # [P] of the chain
    source: Longs  # [E] rising, and of one source the targets
    target: Longs  # [E]
    arc: Longs  # [E]
    way: Longs  # [E]
    begins: Longs  # [B] rising
    begun: Longs  # [B] ways
    end: Longs  # [P] run to end; −1 if no path ends here


def _reachable_pairs(
    shape: ChainArcs, machine: IndexedTransducer, ways: _Runs, end: Longs, most: int
) -> ReachablePairs | None:
    """Return the pairs of states of a chain and a transducer that are on a path."""
    states, labels = machine.states, machine.labels
    place, after = np.divmod(ways.key, states)
    by_place, by_label = Ragged.from_rows(place, states * labels), np.argsort(shape.label)
    label, at = np.divmod(distinct(place % labels * states + after), states)
    rows = Ragged.from_rows(shape.label, labels)
    entered = rows.select(label)
    if entered.total > most:
        return None
    code = np.sort(by_label[entered.ranges(rows.offsets[label])] * states + at[entered.rows()])
    state, at = np.divmod(code, states)
    leaving = (by_source := Ragged.from_rows(shape.source, len(shape.label))).select(state)
    if leaving.total > _LOOKED * most:
        return None
    arc, before = leaving.ranges(by_source.offsets[state]), leaving.rows()
    first = np.flatnonzero(shape.initial)
    into = np.append(
        shape.target[arc], first
    )  # states after the arcs of pairs, then initial states
    cell = np.append(at[before], np.full(len(first), machine.start)) * labels + shape.label[into]
    read = by_place.select(cell)
    if read.total > most:
        return None
    way, entry = read.ranges(by_place.offsets[cell]), read.rows()
    target = code.searchsorted(into[entry] * states + after[way])
    source = np.append(before, np.full(len(first), len(code)))[entry]  # all begin from one more
    row = Ragged.from_rows(source, len(code) + 1).offsets
    ending = np.where(shape.final[state], end[at], -1)
    kept = connected(row, target.astype(np.int32), len(code), np.append(ending >= 0, False))
    if not kept[-1]:
        return None
    there = np.flatnonzero(kept[source] & kept[target])
    there = there[np.lexsort((target[there], source[there]))]
    number, inner = np.cumsum(kept) - 1, int(np.searchsorted(source[there], len(code)))
    arcs, begun, pairs = there[:inner], there[inner:], np.flatnonzero(kept[:-1])
    source, target = number[source[arcs]], number[target]
    begins = target[begun]
    return ReachablePairs(
        state[pairs],
        source,
        target[arcs],
        arc[entry[arcs]],
        way[arcs],
        begins,
        way[begun],
        ending[pairs],
    )


def _fold_of(
    pairs: ReachablePairs,
    machine: IndexedTransducer,
    runs: _Runs,
    ways: _Runs,
    ends: _Runs,
    empty: int,
    taken: tuple[_Extensions, ...],
) -> Fold:
    """Return the fold of the pairs; `empty`: the way to end at once."""
    reading, ending = np.append(pairs.way, pairs.begun), np.append(pairs.end, empty)

    def of_each(name: str, nothing: float) -> Any:
        last = np.append(getattr(ends, name), nothing)[ending]
        return np.append(getattr(ways, name)[reading], last)

    output = np.append(machine.output, np.int32(-1))
    run, move = of_each("before", -1), of_each("move", -1)
    element, label, time = [np.arange(len(run))], [output[move]], [np.ones(len(run), np.int64)]
    while len(run):  # from the last move to the first
        silent = np.flatnonzero(run >= 0)
        element.append(element[-1][silent] if len(element) > 1 else silent)
        move, run = runs.move[run[silent]], runs.before[run[silent]]
        label.append(output[move])
        time.append(np.full(len(run), 1 - len(time)))
    rows, symbol, when = (np.concatenate(part) for part in (element, label, time))
    order = np.lexsort((when, rows))
    order = order[symbol[order] >= 0]
    return Fold(
        *(pairs.state, pairs.source, pairs.target, pairs.arc, pairs.begins),
        best=of_each("best", -np.inf),
        total=of_each("total", -np.inf),
        writes=Ragged.from_rows(rows[order], len(reading) + len(ending)),
        written=symbol[order],
        late=np.maximum(when[order], 0),
        run=np.append(reading, ending),
        taken=taken,
        silent=len(runs.key),
    )


# --- The fold of a chain and its grammar ----------------------------------------------------------


def grammar_fold(arcs: ChainArcs, acceptor: Acceptor, most: int) -> Fold | None:
    """Return the fold of a chain and an acceptor, unless tokens have `most` arcs or more."""
    fold = folded(arcs, indexed(acceptor), max(LEAST_ARCS, most))
    degrees = np.bincount(arcs.source, minlength=len(arcs.label))
    return None if fold is None or degrees[fold.state].sum() >= most else fold


def chain_of_pairs(chain: TapeChain, grammar: Folding) -> tuple[TapeChain, Longs] | None:
    """Return the fold of a chain and a grammar of one automaton, and the old state of each new one.

    There is no result if the scores depend on other tapes, or if the product is faster.
    """
    scored = chain_arcs(chain, grammar)
    if scored is None:
        return None
    (acceptor,), topology = grammar.rest, chain.topology
    most = min(_MOST_PAIRED, int(acceptor.n_states * topology.n_states**2 // _ADVANTAGE))
    fold = grammar_fold(scored[0], acceptor, most)
    if fold is None:
        return None
    state, (arcs, (first, score, last)) = fold.state, fold.arcs(scored)
    of_pairs = Topology(
        labels=topology.labels,
        state_names=tuple(topology.state_names[s] for s in state.tolist()),
        state_label=topology.state_label[state],
        node_slots=topology.node_slots[state],
        node_slot_names=topology.node_slot_names,
        source=arcs.source.astype(np.int32),
        target=arcs.target.astype(np.int32),
        arc_slot=np.full(len(score), -1, dtype=np.int32),
        n_arc_slots=0,
        initial=arcs.initial,
        final=arcs.final,
    )
    kept = np.full(of_pairs.n_states**2 if of_pairs.dense else len(score), -np.inf)
    kept[of_pairs.kernel_arcs()] = score
    return TapeChain(chain.name, of_pairs, first, last, kept), state

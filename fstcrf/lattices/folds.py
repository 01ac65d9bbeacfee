"""A chain and a transducer as one chain, compiled once: the fold of their composition.

States / Start / Final / Arcs
    A state of the chain and the state of the transducer behind its label; begins and ends where
    both do; an arc of the chain and all that the transducer may do along with it: any number of
    moves without input, then one that reads the label.

Several runs of the transducer between the same two states are one arc. For best paths it has the
score of the best of them, and is told by it; for sums, the log of their sum. So log Z, the best
path, and what is said of tokens on the first tape are one recursion of the kernel over as many
tokens. All else is asked of arcs, which are written out when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, distinct
from fstcrf.kernel import MOST_ALONE, Budget
from fstcrf.kernel.acyclic import connected
from fstcrf.kernel.transduced import IndexedTransducer
from fstcrf.lattices.arcs import Arcs
from fstcrf.lattices.engine import Over, Runs, Spelled
from fstcrf.lattices.paths import Places
from fstcrf.lazy import made_once, memoised
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import Program
from fstcrf.machines.plans.decoder import Decoder
from fstcrf.machines.plans.pairs import pairs_of
from fstcrf.machines.transducer import Transducer
from fstcrf.ragged import RUN_TOKENS, Ragged

LEAST_ARCS, MOST_ARCS = 20_000, 1_000_000
"""Arcs at a token that a fold may have where arcs are few, and where they are many."""

_LOOKED = 20  # pairs that are looked at for an arc there may be
_WORTH = 16  # arcs of a fold that take less time than one that is written out, compiling aside
_MOST_CELLS = 10_000_000
_DENSE_ADVANTAGE = 5  # a dense step handles so many arcs in the time of a sparse one
_RUN_BYTES = 64_000_000
_ONE, _EMPTY = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)


class _Runs(NamedTuple):
    """Runs of the transducer: of those with one key the best one, and the log of their sum."""

    key: Longs  # [R] rising
    best: Floats  # [R]
    total: Floats  # [R]
    before: Longs  # [R] the run without its last move; −1: it has none
    move: Longs  # [R] its last move


def _longer(moves: IndexedTransducer, runs: _Runs, own: Longs, move: Longs, key: Longs) -> _Runs:
    """Return some of the runs with a move more, by new keys."""
    gain = moves.gain[move]
    best, total = runs.best[own] + gain, runs.total[own] + gain
    order = np.lexsort((-best, key))
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    one = order[starts]
    total = np.logaddexp.reduceat(total[order], starts) if len(starts) < len(key) else total[one]
    return _Runs(key[one], best[one], total, own[one], move[one])


def _silent(moves: IndexedTransducer, most: int) -> _Runs | None:
    """Return the runs without input from where labels lead, by first state and last; None: many.

    Those of one length stand behind shorter ones.
    """
    bounds, width = moves.index.astype(np.int64), moves.labels + 1
    root = distinct(np.append(moves.target[moves.reads >= 0].astype(np.int64), moves.start))
    none, nothing, count = np.full(len(root), -1), np.zeros(len(root)), 0
    levels = [_Runs(root * moves.states + root, nothing, nothing, none, none)]
    while True:
        root, at = np.divmod(levels[-1].key, moves.states)
        ways = Ragged.from_lengths(bounds[at * width + 1] - bounds[at * width])
        if not ways.total:
            return _Runs(*map(np.concatenate, zip(*levels, strict=True)))
        if count + ways.total > most:
            return None
        own, move = ways.rows(), ways.ranges(bounds[at * width])
        key = root[own] * moves.states + moves.target[move].astype(np.int64)
        runs = _longer(moves, levels[-1], own, move, key)
        levels.append(runs._replace(before=runs.before + count))
        count += len(root)


class Shape(NamedTuple):
    """What of a chain decides which paths there are."""

    label: Longs  # [S]
    source: Longs  # [A] of the arcs that are not forbidden, rising
    target: Longs  # [A]
    number: Longs  # [A] in the kernel
    initial: Bools  # [S]
    final: Bools  # [S]


class _Says(dict[tuple[int, int], tuple[tuple[int, int], ...]]):
    """What elements of a fold write, each how many tokens behind its place; looked up when asked.

    By two pairs that follow each other in a path; −1: it begins, or it ends.
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
        own = slice(*fold.writes.offsets[element : element + 2].tolist())
        both = fold.late[own].tolist(), fold.written[own].tolist()
        self[key] = says = tuple(zip(*both, strict=True))
        return says


@dataclass(frozen=True, eq=False)
class Fold:
    """The chain of pairs, without the scores of the chain.

    Its *elements* are its E arcs, then B ways to begin, P to end, and that of what has no tokens.
    """

    state: Longs  # [P] of the chain, in each pair
    source: Longs  # [E] pairs; rising, and of one source the targets
    target: Longs  # [E]
    arc: Longs  # [E] of the chain
    begins: Longs  # [B] pairs, rising
    best: Floats  # [E + B + P + 1] what the transducer adds to elements by its best run
    total: Floats  # by the sum of runs
    writes: Ragged  # of elements, by the best run
    written: Ints
    late: Longs  # 1: it is written behind the label that the element reads; 0: before it

    @made_once
    def code(self) -> Longs:
        """Source · pairs + target of each arc, rising."""
        return self.source * len(self.state) + self.target

    @made_once
    def says(self) -> _Says:
        """What its elements write."""
        return _Says(self)

    @made_once
    def single(self) -> bool:
        """There is one run for each element."""
        return bool((self.best == self.total).all())

    def machine(
        self, scores: tuple[Floats, Floats, Floats], gain: Floats, empty: float
    ) -> kernel.JointChain:
        """Return it for the kernel, with the scores of a chain and those of elements."""
        pairs, arcs, begins = len(self.state), len(self.source), len(self.begins)
        first, score = np.full((1, pairs), -np.inf), scores[1][self.arc] + gain[:arcs]
        first[0, self.begins] = scores[0][self.state[self.begins]] + gain[arcs : arcs + begins]
        last = scores[2][self.state] + gain[arcs + begins : -1]
        source, target = self.source.astype(np.int32), self.target.astype(np.int32)
        axis = kernel.Axis(pairs, source, target, score[None])
        if not arcs or pairs**2 <= _DENSE_ADVANTAGE * arcs:
            full = np.full((1, pairs**2), -np.inf)
            full[0, self.code] = score
            axis = kernel.Axis(pairs, score=full)
        factor = kernel.Factor(1, pairs)
        return kernel.JointChain(
            (axis,), (factor,), None, first, last[None], empty=empty + gain[-1]
        )


def folded(shape: Shape, moves: IndexedTransducer) -> Fold | None:
    """Return the fold of a chain and a transducer; None: too large, or there is no path."""
    width, states = moves.labels + 1, moves.states
    written = len(shape.source) * states + len(moves.target)  # at a token, at most
    most = min(MOST_ARCS, max(LEAST_ARCS, _WORTH * written))
    runs = _silent(moves, most) if states * width <= _MOST_CELLS else None
    if runs is None:
        return None
    bounds, (root, at) = moves.index.astype(np.int64), np.divmod(runs.key, states)
    first = bounds[at * width + 1]
    reads = Ragged.from_lengths(bounds[(at + 1) * width] - first)
    if reads.total > most:
        return None
    own, move = reads.rows(), reads.ranges(first)
    place = root[own] * moves.labels + moves.reads[move]
    ways = _longer(moves, runs, own, move, place * states + moves.target[move])
    own = np.flatnonzero(moves.ends[at])
    ends = _longer(moves, runs, own, len(moves.target) + at[own], root[own])
    end = np.full(states, -1)
    end[ends.key] = np.arange(len(ends.key))
    met = _met(shape, moves, ways, end, most)
    return None if met is None else _fold_of(met, moves, runs, ways, ends, end[moves.start])


class _Met(NamedTuple):
    """Pairs that lie on a path, and the ways to read a label, or to end, that lead there."""

    state: Longs  # [P] of the chain
    source: Longs  # [E] rising, and of one source the targets
    target: Longs  # [E]
    arc: Longs  # [E]
    way: Longs  # [E]
    begins: Longs  # [B] rising
    begun: Longs  # [B] ways
    end: Longs  # [P] ways to end; −1: none


def _met(shape: Shape, moves: IndexedTransducer, ways: _Runs, end: Longs, most: int) -> _Met | None:
    """Return the pairs of states of a chain and of a transducer that lie on a path."""
    states, labels = moves.states, moves.labels
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
    into = np.append(shape.target[arc], first)  # of each arc of a pair, then of each beginning
    cell = np.append(at[before], np.full(len(first), moves.start)) * labels + shape.label[into]
    read = by_place.select(cell)
    if read.total > most:
        return None
    way, own = read.ranges(by_place.offsets[cell]), read.rows()
    target = code.searchsorted(into[own] * states + after[way])
    source = np.append(before, np.full(len(first), len(code)))[own]  # all begin from one more
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
    own_arc = shape.number[arc[own[arcs]]]
    begins = target[begun]
    return _Met(
        state[pairs], source, target[arcs], own_arc, way[arcs], begins, way[begun], ending[pairs]
    )


def _fold_of(
    met: _Met, made: IndexedTransducer, runs: _Runs, ways: _Runs, ends: _Runs, empty: int
) -> Fold:
    """Return the fold of the pairs; `empty`: the way to end at once."""
    reading, ending = np.append(met.way, met.begun), np.append(met.end, empty)

    def of_each(name: str, nothing: float) -> Any:
        last = np.append(getattr(ends, name), nothing)[ending]
        return np.append(getattr(ways, name)[reading], last)

    output = np.append(made.output, np.int32(-1))
    run, move = of_each("before", -1), of_each("move", -1)
    element, label, time = [np.arange(len(run))], [output[move]], [np.ones(len(run), np.int64)]
    while len(run):  # from the last move to the first
        silent = np.flatnonzero(run >= 0)
        element.append(element[-1][silent] if len(element) > 1 else silent)
        move, run = runs.move[run[silent]], runs.before[run[silent]]
        label.append(output[move])
        time.append(np.full(len(run), 1 - len(time)))
    rows, said, when = (np.concatenate(part) for part in (element, label, time))
    order = np.lexsort((when, rows))
    order = order[said[order] >= 0]
    return Fold(
        *(met.state, met.source, met.target, met.arc, met.begins),
        best=of_each("best", -np.inf),
        total=of_each("total", -np.inf),
        writes=Ragged.from_rows(rows[order], len(reading) + len(ending)),
        written=said[order],
        late=np.maximum(when[order], 0),
    )


# --- With the scores of a chain -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Folding:
    """A fold with the scores of the chain of a program."""

    program: Program  # of the chain; its grammar is part of the fold
    made: IndexedTransducer
    machine: Transducer
    fold: Fold
    scores: tuple[Floats, Floats, Floats]  # of the chain: beginning, arcs, ending
    state: Longs  # [P] which potential of the chain each pair has
    label: Ints  # [P]

    @made_once
    def best(self) -> Decoder:
        """Of the best runs."""
        return Decoder(self.fold.machine(self.scores, self.fold.best, self.program.empty_score))

    @made_once
    def total(self) -> Decoder:
        """Of their sums."""
        if self.fold.single:
            return self.best
        return Decoder(self.fold.machine(self.scores, self.fold.total, self.program.empty_score))

    @made_once
    def _names(self) -> list[str]:
        names = self.program.labels(self.program.tapes[0])
        return [names[k] for k in self.label.tolist()]

    def spelled(self, path: list[int]) -> Spelled:
        """Return what a path of pairs says on each tape, and where."""
        labels = tuple(map(self._names.__getitem__, path))
        if self.machine.tape is None:
            return labels, ()
        events = map(self.fold.says.__getitem__, pairwise([-1, *path, -1]))
        said = [(k + late, x) for k, one in enumerate(events) for late, x in one]
        where, written = zip(*said, strict=True) if said else ((), ())
        symbols = self.machine.output_symbols
        places = Places(where, where, np.full(len(said), -1), written=True)
        return (labels, tuple([symbols[x] for x in written])), (None, places)

    @made_once
    def by_label(self) -> tuple[Longs, Ints, Longs]:
        """Pairs in the order of their labels, the labels, and where each begins."""
        order = np.argsort(self.label, kind="stable")
        labels, first = np.unique(self.label[order], return_index=True)
        return order, labels, first


@memoised(32)
def folding(program: Program, made: IndexedTransducer, machine: Transducer) -> Folding | None:
    """Return the fold of what a program's lattices and a transducer are composed to; None: none.

    The program has one chain; its grammar becomes part of it.
    """
    if len(program.chains) > 1 or program.couplings:
        return None
    chain, state, more = program.chains[0], None, None
    if program.conjuncts:
        more = program.folding.chains.get(chain.name)
        if program.folding.rest or program.folding.couplings:
            pairs = pairs_of(chain, program.folding, MOST_ARCS)
            if pairs is None:
                return None
            chain, state, more = pairs.chain, pairs.state, None
    plain = (chain.arc_context, chain.node_contexts, chain.tables) == ((), ((),), ())
    if chain.arc is None or not plain:
        return None
    topology, first, arc, last = chain.topology, chain.initial, chain.arc.reshape(-1), chain.final
    if more is not None:
        first, arc, last = first + more.initial, arc + more.arc, last + more.final
    first = np.where(topology.initial, first, -np.inf)
    last = np.where(topology.final, last, -np.inf)
    legal = np.zeros(len(arc), dtype=bool)
    legal[topology.kernel_arcs()] = True
    legal &= arc > -np.inf
    ways = topology.state_label, topology.source, topology.target, legal
    parts = [part.tobytes() for part in (*ways, first > -np.inf, last > -np.inf)]
    fold = _folded(made, *parts, dense=topology.dense)
    if fold is None:
        return None
    own = fold.state if state is None else state[fold.state]
    label = topology.state_label[fold.state]
    return Folding(program, made, machine, fold, (first, arc, last), own, label)


@memoised(32)  # chains differ in their scores more often than in their paths
def _folded(made: IndexedTransducer, *parts: bytes, dense: bool) -> Fold | None:
    label, source, target = (np.frombuffer(x, np.int32).astype(np.int64) for x in parts[:3])
    legal, initial, final = (np.frombuffer(x, np.bool_) for x in parts[3:])
    number = np.flatnonzero(legal)
    source, target = np.divmod(number, len(label)) if dense else (source[number], target[number])
    return folded(Shape(label, source, target, number, initial, final), made)


@memoised(32)
def _constrained(program: Program, acceptor: Acceptor) -> Program:
    return program.constrained([replace(acceptor, tapes=program.tapes)])


class FoldedArcs:
    """Rows of one fold; an engine, and in all that it does not answer by itself `Arcs`.

    It has what each row brings, float64 [T, S], and what returns the arcs.
    """

    ambiguous, apart = "", None

    def __init__(
        self, folding: Folding, nodes: Sequence[Floats], write: Callable[[], Arcs]
    ) -> None:
        self.folding, self.nodes, self._write = folding, nodes, write

    def __getattr__(self, name: str) -> Any:
        """Return what the arcs have."""
        return getattr(self.written, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.written.__reduce__()

    @made_once
    def written(self) -> Arcs:
        """The arcs."""
        return self._write()

    @made_once
    def rows(self) -> Ragged:
        """Tokens of each row."""
        return Ragged.from_lengths(list(map(len, self.nodes)))

    @property
    def texts(self) -> Ragged:
        """The same: paths cover a text."""
        return self.rows

    @property
    def shared(self) -> tuple[str, int]:
        """What rows of one engine share."""
        return "fold", id(self.folding)

    @property
    def resolved(self) -> FoldedArcs:
        """The same: each path counts."""
        return self

    @property
    def clocked(self) -> FoldedArcs:
        """The same: paths cover a text."""
        return self

    def forget(self) -> None:
        """Let go of the potentials of pairs; they are made again when somebody asks."""
        self.__dict__.pop("_values", None)

    @staticmethod
    def joined(parts: Sequence[FoldedArcs]) -> FoldedArcs:
        """Return the rows of one engine."""
        nodes = [node for part in parts for node in part.nodes]
        return FoldedArcs(parts[0].folding, nodes, lambda: Arcs.joined([p.written for p in parts]))

    def runs(self, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the runs (first, end) of engines of so many tokens that are asked at once."""
        most = _RUN_BYTES // (8 * len(self.folding.state))
        return Ragged.from_lengths(tokens).runs(max(1, min(RUN_TOKENS, most)))

    def product(self, acceptor: Acceptor, tapes: Sequence[int], over: Over) -> Arcs:
        """Return the product with an acceptor; a fold again, of one over the first tape."""

        def write() -> Arcs:
            return self.written.product(acceptor, tapes, over)

        if tuple(tapes) == (0,):
            own = self.folding
            fold = folding(_constrained(own.program, acceptor), own.made, own.machine)
            if fold is not None:
                return cast("Arcs", FoldedArcs(fold, self.nodes, write))
        return write()

    # --- What the kernel answers --------------------------------------------------------------

    @made_once
    def _values(self) -> Floats:
        """The potentials of pairs at all tokens, [N, 1, P]."""
        nodes = self.nodes
        node = nodes[0] if len(nodes) == 1 else np.concatenate(nodes)
        return node.take(self.folding.state, axis=1)[:, None]

    def _bound(self, decoder: Decoder) -> kernel.Bound:
        return kernel.Bound(decoder.machine, self.rows.offsets, (self._values,))

    @property
    def _alone(self) -> bool:
        """There is one sentence, not too long a one for what is laid out once."""
        return (
            len(self.nodes) == 1 and 0 < len(self.nodes[0]) * len(self.folding.state) < MOST_ALONE
        )

    @made_once
    def log_z(self) -> Floats:
        """Log Z of each row, [B]; −inf: there is no path."""
        total = self.folding.total
        if self._alone:
            return np.array([total.sentence_machine().log_partition(self._values)])
        return kernel.log_partitions(self._bound(total))

    @property
    def usual_log_z(self) -> Floats:
        """The same."""
        return self.log_z

    @property
    def best_scores(self) -> Floats:
        """Score of the best path of each row, [B]; −inf: there is none."""
        return kernel.best_paths(self._bound(self.folding.best))[1]

    def nbest(self, n: int, budget: Budget | None = None) -> Runs:
        """Return the n best paths of each row; the best one is spelled, its elements are arcs."""
        if n != 1:
            return self.written.nbest(n, budget)
        if self._alone:
            best = self.folding.best.sentence_machine().best(self._values)
            score, paths = np.array([best.score]), [best.path]
            if not best.path:
                return Runs(_EMPTY, score[:0], _EMPTY, self._elements, spelled=[])
            counts = _ONE
        else:
            path, score = kernel.best_paths(self._bound(self.folding.best))
            paths, alive = [own.tolist() for own in self.rows.split(path)], score > -np.inf
            paths = [own for own, lives in zip(paths, alive, strict=True) if lives]
            score, counts = score[alive], alive.astype(np.int64)
        spelled = [self.folding.spelled(own) for own in paths]
        return Runs(counts, score, _EMPTY, self._elements, spelled=spelled)

    def _elements(self) -> Ints:
        return self.written.nbest(1).elements

    def marginals(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:
        """Return the probability of each label of the first tape at each token, [tokens, labels].

        Of others, zeros: they are written at boundaries.
        """
        node = kernel.axis_posterior(self._bound(self.folding.total)).node[0]
        order, labels, first = self.folding.by_label
        read = np.zeros((len(node), sizes[0]))
        read[:, labels] = np.minimum(np.add.reduceat(node[:, order], first, axis=1), 1.0)
        return [np.zeros((len(node), sizes[tape])) if tape else read for tape in tapes]

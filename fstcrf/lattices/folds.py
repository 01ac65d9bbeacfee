"""Compositions of a chain and a transducer, compiled once to one chain: the fold of both.

The kernel finds log Z, the best path, and marginals of the first tape by one recursion over the
tokens. Other questions need the arcs of the composition, which are made on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias, cast

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import RUN_TOKENS, Bools, Floats, Ints, Longs, Ragged
from fstcrf.kernel import MOST_ALONE, Budget
from fstcrf.kernel.transduced import IndexedTransducer
from fstcrf.lattices.arcs import ArcEngine
from fstcrf.lattices.engine import (
    DecodedPath,
    Engine,
    Over,
    PathBatch,
    TapeLabels,
    refuse_options,
)
from fstcrf.lattices.paths import Positions
from fstcrf.lazy import made_once, memoised
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import Program
from fstcrf.machines.plans.decoder import Decoder
from fstcrf.machines.plans.folds import (
    LEAST_ARCS,
    MOST_ARCS,
    ChainArcs,
    Fold,
    Scores,
    chain_arcs,
    folded,
    grammar_fold,
)
from fstcrf.machines.transducer import Transducer

_Write: TypeAlias = Callable[[Bools | None], ArcEngine]

_RUN_BYTES = 64_000_000
_MANY_ARCS = 30_000  # of a row; the n best of fewer are found sooner among all arcs
_MOST_RANKED = 1024  # paths that are ranked by the fold, which makes room for all of them
_CLOSE = 1e-9  # relative rounding error of a path's score
_WORTH_FREE = 64  # arcs of a dense fold that take less time than a composed arc without successions
_ONE, _EMPTY = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class FoldedTransducer:
    """A fold with the scores of the chain of a program."""

    program: Program  # of the chain; its grammar is part of the fold
    transducer: IndexedTransducer
    machine: Transducer
    fold: Fold
    scores: Scores  # of the chain: beginning, arcs, ending
    state: Longs  # [P] state of the chain that each pair has the potential of
    label: Ints  # [P]

    @made_once
    def best(self) -> Decoder:
        """The decoder for best paths: an arc has the score of its best run."""
        return Decoder(self.fold.machine(self.scores, self.fold.best, self.program.empty_score))

    @made_once
    def total(self) -> Decoder:
        """The decoder for sums: an arc has the log of the sum over its runs."""
        if self.fold.unambiguous:
            return self.best
        return Decoder(self.fold.machine(self.scores, self.fold.total, self.program.empty_score))

    @made_once
    def _names(self) -> list[str]:
        names = self.program.labels(self.program.tapes[0])
        return [names[k] for k in self.label.tolist()]

    def decoded(self, path: list[int]) -> DecodedPath:
        """Return the labels of a path of pairs on each tape, and the boundaries of its output."""
        labels = tuple(map(self._names.__getitem__, path))
        if self.machine.tape is None:
            return labels, ()
        events = map(self.fold.outputs.__getitem__, pairwise([-1, *path, -1]))
        output = [(k + late, x) for k, event in enumerate(events) for late, x in event]
        where, written = zip(*output, strict=True) if output else ((), ())
        symbols = self.machine.output_symbols
        places = Positions(where, where, np.full(len(output), -1), output=True)
        return (labels, tuple([symbols[x] for x in written])), (None, places)

    @property
    def n_labels(self) -> int:
        """Number of labels of the tape that the transducer reads."""
        return len(self.program.labels(self.program.tapes[0]))

    @made_once
    def label_pairs(self) -> Longs:
        """Labels of each arc of the fold, source · labels + target."""
        label = self.label.astype(np.int64)
        return label[self.fold.source] * self.n_labels + label[self.fold.target]

    @made_once
    def by_label(self) -> tuple[Longs, Ints, Longs]:
        """Pairs in the order of their labels, the labels, and where each begins."""
        order = np.argsort(self.label, kind="stable")
        labels, first = np.unique(self.label[order], return_index=True)
        return order, labels, first


@memoised(32)
def folded_transducer(
    program: Program, transducer: IndexedTransducer, machine: Transducer
) -> FoldedTransducer | None:
    """Return the fold of the lattices of a program and a transducer.

    There is no fold if the program has several chains, or if it would be too large.
    """
    chain, grammar = program.chains[0], program.folding
    if len(program.chains) > 1 or program.couplings or grammar.couplings or len(grammar.rest) > 1:
        return None
    count, limit = chain.topology.n_states, None
    if program.order_zero:
        limit = max(LEAST_ARCS, _WORTH_FREE * (count * transducer.states + len(transducer.target)))
        if transducer.successions > limit:
            return None
    scored, state = chain_arcs(chain, grammar), np.arange(count)
    if scored is None:
        return None
    for acceptor in grammar.rest:
        pairs = grammar_fold(scored[0], acceptor, MOST_ARCS)
        if pairs is None:
            return None
        scored, state = pairs.arcs(scored), pairs.state
    arcs, scores = scored
    fold = _folded(transducer, limit, *(column.tobytes() for column in arcs))
    if fold is None:
        return None
    label = arcs.label[fold.state].astype(np.int32)
    return FoldedTransducer(program, transducer, machine, fold, scores, state[fold.state], label)


@memoised(32)  # chains differ in their scores more often than in their paths
def _folded(transducer: IndexedTransducer, limit: int | None, *columns: bytes) -> Fold | None:
    label, source, target = (np.frombuffer(column, np.int64) for column in columns[:3])
    initial, final = (np.frombuffer(column, np.bool_) for column in columns[3:])
    return folded(ChainArcs(label, source, target, initial, final), transducer, limit)


@memoised(32)
def _constrained(program: Program, acceptor: Acceptor) -> Program:
    return program.constrained([replace(acceptor, tapes=program.tapes)])


class FoldEngine(Engine):
    """An engine of rows of one fold. The `ArcEngine` of the same rows answers all other questions.

    Parameters
    ----------
    fold : FoldedTransducer
    nodes : sequence of float64 [T, S]
        Potentials of the tokens of each row.
    write : function
        Returns the rows as arcs: all, or those of the states that a mask keeps, bool [N, S].
    """

    run_keys = None

    def __init__(self, fold: FoldedTransducer, nodes: Sequence[Floats], write: _Write) -> None:
        self.fold, self.nodes, self.write = fold, nodes, write

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the arcs."""
        return getattr(self.expanded, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.expanded.__reduce__()

    @made_once
    def expanded(self) -> ArcEngine:
        """The rows as arcs, made on first use."""
        return self.write(None)

    @made_once
    def rows(self) -> Ragged:
        """The tokens of each row."""
        return Ragged.from_lengths(list(map(len, self.nodes)))

    @property
    def texts(self) -> Ragged:
        """The tokens of each row, because each path covers all of them."""
        return self.rows

    @property
    def shared(self) -> tuple[str, int]:
        """The key of rows that one engine may hold together."""
        return "fold", id(self.fold)

    @property
    def resolved(self) -> FoldEngine:
        """The same engine: every path counts."""
        return self

    @property
    def time_aligned(self) -> FoldEngine:
        """The same engine: every path covers all tokens."""
        return self

    def forget(self) -> None:
        for name in ("_values", "_posterior"):
            self.__dict__.pop(name, None)

    @staticmethod
    def joined(parts: Sequence[FoldEngine]) -> FoldEngine:
        """Return one engine of the rows of several."""
        nodes = [node for part in parts for node in part.nodes]

        def write(kept: Bools | None) -> ArcEngine:
            if kept is None:
                return ArcEngine.joined([part.expanded for part in parts])
            masks = Ragged.from_lengths([part.rows.total for part in parts]).split(kept)
            pairs = zip(parts, masks, strict=True)
            return ArcEngine.joined(
                [part.expanded if mask.all() else part.write(mask) for part, mask in pairs]
            )

        return FoldEngine(parts[0].fold, nodes, write)

    @staticmethod
    def runs(engines: Sequence[FoldEngine]) -> Iterator[tuple[int, int]]:
        """Yield the ranges (first, end) of engines that are joined, of bounded size."""
        most = _RUN_BYTES // (8 * len(engines[0].fold.state))
        tokens = Ragged.from_lengths([engine.rows.total for engine in engines])
        return tokens.runs(max(1, min(RUN_TOKENS, most)))

    def product(
        self, acceptor: Acceptor, tapes: Sequence[int], over: Over, *, written: bool = False
    ) -> ArcEngine:
        """Return the product with an acceptor: a fold if the acceptor reads the first tape only."""
        if written:
            return self.expanded.product(acceptor, tapes, over, written=True)

        def write(kept: Bools | None) -> ArcEngine:
            arcs = self.expanded if kept is None else self.write(kept)
            return arcs.product(acceptor, tapes, over)

        if tuple(tapes) == (0,):
            fold = self.fold
            product = folded_transducer(
                _constrained(fold.program, acceptor), fold.transducer, fold.machine
            )
            if product is not None:
                return cast("ArcEngine", FoldEngine(product, self.nodes, write))
        return write(None)

    # --- Questions to the kernel --------------------------------------------------------------

    @made_once
    def _values(self) -> Floats:
        """The potentials of pairs at all tokens, [N, 1, P]."""
        nodes = self.nodes
        node = nodes[0] if len(nodes) == 1 else np.concatenate(nodes)
        return node.take(self.fold.state, axis=1)[:, None]

    def _bound(self, decoder: Decoder) -> kernel.Bound:
        return kernel.Bound(decoder.machine, self.rows.offsets, (self._values,))

    @property
    def _is_short_sentence(self) -> bool:
        """Whether there is one sentence, short enough for `Decoder.sentence_machine`."""
        return len(self.nodes) == 1 and 0 < len(self.nodes[0]) * len(self.fold.state) < MOST_ALONE

    @made_once
    def log_z(self) -> Floats:
        total = self.fold.total
        if self._is_short_sentence:
            return np.array([total.sentence_machine().log_partition(self._values)])
        return kernel.log_partitions(self._bound(total))

    @property
    def best_scores(self) -> Floats:
        return kernel.best_paths(self._bound(self.fold.best))[1]

    def nbest(self, n: int, budget: Budget | None = None) -> PathBatch:
        refuse_options({"budget": budget})
        if n != 1:
            narrow = 1 < n <= _MOST_RANKED and self._many_arcs.any()
            return self._nbest(n) if narrow else self.expanded.nbest(n)
        if self._is_short_sentence:
            best = self.fold.best.sentence_machine().best(self._values)
            score, paths = np.array([best.score]), [best.path]
            if not best.path:
                return PathBatch(_EMPTY, score[:0], _EMPTY, self._elements, decoded=[])
            counts = _ONE
        else:
            path, score = kernel.best_paths(self._bound(self.fold.best))
            paths, alive = [row.tolist() for row in self.rows.split(path)], score > -np.inf
            paths = [row for row, lives in zip(paths, alive, strict=True) if lives]
            score, counts = score[alive], alive.astype(np.int64)
        decoded = [self.fold.decoded(path) for path in paths]
        return PathBatch(counts, score, _EMPTY, self._elements, decoded=decoded)

    def _elements(self) -> Ints:
        return self.expanded.nbest(1).elements

    @property
    def _many_arcs(self) -> Bools:
        """Which rows have many arcs, bool [B]; a row has the same bits in each batch."""
        fold, order_zero = self.fold, self.fold.program.order_zero  # arcs of labels, not of pairs
        arcs = len(fold.transducer.reads if order_zero else fold.fold.source)
        return np.asarray(self.rows.lengths * arcs > _MANY_ARCS)

    def _nbest(self, n: int) -> PathBatch:
        """Return the n best paths. Only the arcs of states on these paths are composed."""
        kept = self._on_best(n)
        arcs = self.expanded if kept.all() else self.write(kept)
        paths = arcs.nbest(n)
        columns = [self._column(arcs, paths, tape) for tape in range(arcs.tapes)]
        decoded: list[DecodedPath] = [(labels, ()) for labels, _ in columns[0]]
        if len(columns) > 1:
            rows = zip(*columns, strict=True)
            decoded = [((read, written), (None, place)) for (read, _), (written, place) in rows]
        return paths._replace(path=lambda: self.expanded.nbest(n).elements, decoded=decoded)

    def _on_best(self, n: int) -> Bools:
        """Return the states of the chain on a path with at least the n-th best score, bool [N, S].

        The n best paths of pairs are n runs, so each of the n best runs has at least this score.
        Rows with few arcs keep all states.
        """
        bound, fold = self._bound(self.fold.best), self.fold
        runs = kernel.nbest_paths(bound, n)
        proven = self._many_arcs & (runs.n_paths == n)
        least = np.where(proven, runs.score[:, -1], -np.inf)
        least = least - _CLOSE * (1.0 + np.abs(least))
        (highest,) = kernel.axis_max_marginals(bound)
        pairs = highest >= self.rows.repeat(least)[:, None]
        states, first = np.unique(fold.state, return_index=True)
        kept = np.zeros((len(pairs), self.nodes[0].shape[1]), dtype=bool)
        kept[:, states] = np.logical_or.reduceat(pairs, first, axis=1)
        kept[self.rows.repeat(~proven)] = True
        return kept

    def _column(
        self, arcs: ArcEngine, paths: PathBatch, tape: int
    ) -> list[tuple[tuple[str, ...], Positions]]:
        """Return the labels of a tape on each path, and their boundaries."""
        program, along = self.fold.program, arcs.segments_along(paths.elements, tape)
        names = program.labels(program.tapes[0]) if not tape else self.fold.machine.output_symbols
        labels, end = [names[k] for k in along.label.tolist()], cast("Longs", along.end).tolist()
        cuts = paths.bounds if along.at is None else np.searchsorted(along.at, paths.bounds)
        return [
            (tuple(labels[a:b]), Positions(where, where, np.full(b - a, -1), output=True))
            for a, b in pairwise(cuts.tolist())
            for where in [tuple(end[a:b])]
        ]

    def marginals(self, tapes: Sequence[int]) -> list[Floats]:
        read = self._read(kernel.axis_posterior(self._bound(self.fold.total)).node[0])
        outputs = len(self.fold.machine.output_symbols)
        return [np.zeros((len(read), outputs)) if tape else read for tape in tapes]

    def _read(self, node: Floats) -> Floats:
        """Return label marginals, [N, L]: the sums of the pair marginals `node`, [N, P]."""
        order, labels, first = self.fold.by_label
        read = np.zeros((len(node), self.fold.n_labels))
        read[:, labels] = np.minimum(np.add.reduceat(node[:, order], first, axis=1), 1.0)
        return read

    # --- Derivatives of log Z of the only row -------------------------------------------------

    @made_once
    def _posterior(self) -> tuple[Floats, Floats]:
        """Probability of each pair at each token, [T, P], and expected number of each element."""
        fold = self.fold.fold
        sums = kernel.axis_posterior(self._bound(self.fold.total), arcs=(0,), summed=True)
        (node,), (arcs,) = sums.node, cast("tuple[Floats]", sums.arc)
        if len(arcs) > len(fold.source):  # the kernel has all pairs of pairs
            arcs = arcs[fold.code]
        none = np.zeros(len(fold.state))
        first, last = (node[0], node[-1]) if len(node) else (none, none)
        empty = float(not len(node))
        return node, np.concatenate([arcs, first[fold.begins], last, [empty]])

    def label_counts(self, tape: int) -> tuple[Floats, Floats]:
        del tape
        (node, elements), pair, size = self._posterior, self.fold.label_pairs, self.fold.n_labels
        counts = np.bincount(pair, elements[: len(pair)], size**2).astype(np.float64)
        return self._read(node), counts.reshape(size, size)

    def move_counts(self, sizes: Sequence[int]) -> list[Floats]:
        transducer, (size,) = self.fold.transducer, sizes
        uses = self.fold.fold.uses(self._posterior[1], len(transducer.origin))
        return [np.bincount(transducer.origin, uses, size).astype(np.float64)]

    # --- Questions that need the arcs ---------------------------------------------------------

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> PathBatch:
        return self.expanded.sample(n, generators)

    def labels_along(self, path: Ints, tape: int) -> TapeLabels:
        return self.expanded.labels_along(path, tape)

    def segments_along(self, path: Ints, tape: int) -> TapeLabels:
        return self.expanded.segments_along(path, tape)

    def entropies(self) -> Floats:
        return self.expanded.entropies()

    def highest(self, tapes: Sequence[int]) -> list[Floats]:
        return self.expanded.highest(tapes)

    def successions(self, tapes: Sequence[int]) -> list[Floats]:
        return self.expanded.successions(tapes)

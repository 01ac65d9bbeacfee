"""Arcs of a lattice composed with a transducer, which are written out when somebody asks for them.

What is asked of all paths together is answered by the fold of the composition: log Z, the best
path, and what is said of tokens on the first tape. All else is asked of the arcs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.kernel import Budget
from fstcrf.lattices.arcs import Arcs
from fstcrf.lattices.engine import Over, Runs, Spelled, Told
from fstcrf.lattices.folds import MOST_ARCS, Fold, Shape, folded
from fstcrf.lattices.paths import Places
from fstcrf.lazy import made_once, memoised
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.moves import compiled
from fstcrf.machines.plans import Chain, Program
from fstcrf.machines.plans.decoder import Decoder
from fstcrf.machines.plans.folding import arc_ends
from fstcrf.machines.plans.pairs import pairs_of
from fstcrf.machines.transducer import Transducer
from fstcrf.ragged import RUN_TOKENS, Ragged

_ONE, _NONE, _NO_SCORE = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(0)
_NOT_GIVEN = np.full(256, -1)
_NOT_GIVEN.flags.writeable = False
_NO_ELEMENTS = np.zeros(0, dtype=np.int32)
_MOST_SAYING = 100_000  # labels that all elements of a fold write together
_RUN_BYTES = 64_000_000


@dataclass(frozen=True, eq=False)
class Folding:
    """A fold with the scores of the chain of a program.

    Parameters
    ----------
    program : Program
        Of the chain; its grammar is part of the fold.
    machine : Transducer
    fold : Fold
    state : int64 [P]
        Which potential of the chain each pair has.
    label : int32 [P]
        Of each pair.
    best, total : Decoder
        Of the best runs, and of their sums.
    """

    program: Program
    machine: Transducer
    fold: Fold
    state: Longs
    label: Ints
    best: Decoder
    total: Decoder

    @made_once
    def read(self) -> Ints:
        """The label of each element, int32; −1: it ends a path."""
        fold = self.fold
        ends = np.full(len(self.label) + 1, -1, dtype=np.int32)
        return np.concatenate([self.label[fold.target], self.label[fold.begins], ends])

    @made_once
    def _says(self) -> dict[int, tuple[tuple[int, str], ...]] | None:
        """What elements write, and how many tokens behind their place; by `Fold.keys`."""
        fold, names = self.fold, self.machine.output_symbols
        if fold.writes.total > _MOST_SAYING:
            return None
        writing = np.flatnonzero(fold.sizes)
        cuts, late = fold.writes.offsets.tolist(), fold.late.tolist()
        said = [names[k] for k in fold.written.tolist()]
        both = list(zip(late, said, strict=True))
        each = ((k, tuple(both[cuts[k] : cuts[k + 1]])) for k in writing.tolist())
        keys = fold.keys[writing].tolist()
        return {key: says for key, (_, says) in zip(keys, each, strict=True)}

    @made_once
    def _names(self) -> list[str]:
        (names,) = (chain.labels for chain in self.program.chains)
        return [names[k] for k in self.label.tolist()]

    def spelled(self, path: list[int]) -> Spelled | None:
        """Return what a path of pairs says on each tape, and where; it has a token or more.

        None: there are too many elements to say it quickly.
        """
        names, pairs = self._names, len(self.label)
        labels = tuple([names[pair] for pair in path])
        if self.machine.tape is None:
            return labels, ()
        if self._says is None:
            return None
        says = self._says.get
        events = [says(~path[0]), *[says(a * pairs + b) for a, b in pairwise(path)]]
        events.append(says(pairs**2 + path[-1]))
        said = [(k + late, x) for k, one in enumerate(events) if one for late, x in one]
        where, written = zip(*said, strict=True) if said else ((), ())
        none = _NOT_GIVEN[: len(said)] if len(said) <= len(_NOT_GIVEN) else np.full(len(said), -1)
        return (labels, written), (None, Places(where, where, none, written=True))

    @made_once
    def by_label(self) -> tuple[Longs, Ints, Longs]:
        """Pairs in the order of their labels, the labels, and where each begins."""
        order = np.argsort(self.label, kind="stable")
        labels, first = np.unique(self.label[order], return_index=True)
        return order, labels, first


def _chain_of(program: Program) -> tuple[Chain, Floats, Longs] | None:
    """Return the only chain of a program under its grammar, and the scores of its arcs.

    And which of the potentials that a sentence brings each of its states has. None: there is no
    such chain.
    """
    if len(program.chains) > 1 or program.couplings:
        return None
    chain, state = program.chains[0], np.arange(program.chains[0].topology.n_states)
    more = program.folding.chains.get(chain.name)
    if program.folding.rest or program.folding.couplings:
        pairs = pairs_of(chain, program.folding, MOST_ARCS)
        if pairs is None:
            return None
        chain, state, more = pairs.chain, pairs.state, None
    plain = (chain.arc_context, chain.node_contexts, chain.tables) == ((), ((),), ())
    if chain.arc is None or not plain:
        return None
    arc, first, last = chain.arc.reshape(-1), chain.initial, chain.final
    if more is not None:
        arc, first, last = arc + more.arc, first + more.initial, last + more.final
    first = np.where(chain.topology.initial, first, -np.inf)
    last = np.where(chain.topology.final, last, -np.inf)
    return replace(chain, initial=first, final=last), arc, state


@memoised(64)
def folding(program: Program, machine: Transducer) -> Folding | None:
    """Return the fold of what a program's lattices and a transducer are composed to; None: none.

    Raises
    ------
    EpsilonCycleError, LabelError
        As `fstcrf.machines.moves.compiled`.
    """
    found = _chain_of(program)
    if found is None:
        return None
    chain, arc, state = found
    topology = chain.topology
    legal = np.zeros(chain.n_kernel_arcs, dtype=bool)
    legal[topology.kernel_arcs()] = True
    legal &= arc > -np.inf
    fold = _folded(
        topology.labels,
        topology.state_label.astype(np.int64).tobytes(),
        np.array([*(ends[legal] for ends in arc_ends(topology)), np.flatnonzero(legal)]).tobytes(),
        (chain.initial > -np.inf).tobytes(),
        (chain.final > -np.inf).tobytes(),
        machine,
    )
    if fold is None:
        return None
    gains = [fold.best] if np.array_equal(fold.best, fold.total) else [fold.best, fold.total]
    empty = program.empty_score
    best, *more = [Decoder(fold.machine(chain, arc, gain, empty)) for gain in gains]
    label = topology.state_label[fold.state]
    total = more[0] if more else best
    return Folding(program, machine, fold, state[fold.state], label, best, total)


@memoised(64)  # chains differ in their scores more often than in their paths
def _folded(
    labels: tuple[str, ...],
    label: bytes,
    arcs: bytes,
    initial: bytes,
    final: bytes,
    machine: Transducer,
) -> Fold | None:
    source, target, number = np.frombuffer(arcs, dtype=np.int64).reshape(3, -1)
    first, last = (np.frombuffer(which, dtype=bool) for which in (initial, final))
    states = np.frombuffer(label, dtype=np.int64)
    shape = Shape(states, len(labels), source, target, number, first, last)
    return folded(shape, compiled(machine, labels))


@memoised(64)
def _constrained(program: Program, acceptor: Acceptor) -> Program:
    return program.constrained([replace(acceptor, tapes=program.tapes)])


class FoldedArcs:
    """Rows of one fold; an engine, and in all that it does not answer by itself `Arcs`.

    A path by the fold has elements below 0: −1 − k is its element k.

    Parameters
    ----------
    folding : Folding
    nodes : sequence of B float64 [T, S]
        What each row brings.
    write : callable
        Returns the arcs.
    """

    ambiguous = ""

    def __init__(
        self, folding: Folding, nodes: Sequence[Floats], write: Callable[[], Arcs]
    ) -> None:
        self.folding, self.nodes, self._write = folding, nodes, write

    def __getattr__(self, name: str) -> Any:
        """Return what the arcs have."""
        return getattr(self.written, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.written.__reduce__()

    @cached_property
    def written(self) -> Arcs:
        """The arcs."""
        return self._write()

    @cached_property
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
    def clocked(self) -> FoldedArcs:
        """The same: paths cover a text."""
        return self

    def forget(self) -> None:
        """Let go of the potentials of pairs; they are made again when somebody asks."""
        for name in ("_values", "_best"):
            self.__dict__.pop(name, None)

    @staticmethod
    def joined(parts: Sequence[FoldedArcs]) -> FoldedArcs:
        """Return the rows of one engine."""
        if len(parts) == 1:
            return parts[0]
        nodes = [node for part in parts for node in part.nodes]
        return FoldedArcs(parts[0].folding, nodes, lambda: Arcs.joined([p.written for p in parts]))

    def runs(self, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the runs (first, end) of engines of so many tokens that are asked at once."""
        most = _RUN_BYTES // (8 * len(self.folding.state))
        return Ragged.from_lengths(tokens).runs(max(1, min(RUN_TOKENS, most)))

    def product(
        self, acceptor: Acceptor, tapes: Sequence[int], over: Over, *, written: bool = False
    ) -> Arcs:
        """Return the product with an acceptor; a fold again, of one over the first tape."""
        if tuple(tapes) == (0,) and not written and len(self.nodes) == 1:
            own = self.folding
            program = _constrained(own.program, acceptor)
            found = folding(program, own.machine)
            if found is not None:
                under = lambda: self.written.product(acceptor, (0,), over)  # noqa: E731
                return cast("Arcs", FoldedArcs(found, self.nodes, under))
        return self.written.product(acceptor, tapes, over, written=written)

    # --- What the kernel answers --------------------------------------------------------------

    @cached_property
    def _values(self) -> Floats:
        """The potentials of pairs at all tokens, [N, P]."""
        nodes = self.nodes
        node = nodes[0] if len(nodes) == 1 else np.concatenate(nodes)
        return node.take(self.folding.state, axis=1)

    def _bound(self, decoder: Decoder) -> kernel.Bound:
        return kernel.Bound(decoder.machine, self.rows.offsets, (self._values[:, None],))

    @made_once
    def log_z(self) -> Floats:
        """Log Z of each row, [B]; −inf: there is no path."""
        total = self.folding.total
        if len(self.nodes) == 1 and len(self.nodes[0]):
            return np.array([total.sentence_machine().log_partition(self._values[:, None])])
        return kernel.log_partitions(self._bound(total))

    @property
    def usual_log_z(self) -> Floats:
        """The same."""
        return self.log_z

    @cached_property
    def _best(self) -> tuple[Ints, Floats]:
        """The best path of each row, of pairs, and its score; −1 where there is none."""
        return kernel.best_paths(self._bound(self.folding.best))

    @property
    def best_scores(self) -> Floats:
        """Score of the best path of each row, [B]; −inf: there is none."""
        return self._best[1]

    def nbest(self, n: int, budget: Budget | None = None) -> Runs:
        """Return the n best paths of each row."""
        if n != 1:
            return self.written.nbest(n, budget)
        elements = self.folding.fold.elements
        if len(self.nodes) == 1 and len(self.nodes[0]):
            found = self.folding.best.sentence_machine().best(self._values[:, None])
            if not found.path:
                return Runs(_NONE, _NO_SCORE, _NONE, _NO_ELEMENTS)
            bounds = np.array([0, len(found.path) + 1])
            whole = _ONE, np.array([found.score]), bounds, lambda: ~elements(np.array(found.path))
            return Runs(*whole, spelled=self.folding.spelled(found.path))
        path, score = self._best
        alive = score > -np.inf
        cuts = zip(self.rows.offsets[:-1][alive], self.rows.offsets[1:][alive], strict=True)
        paths = [elements(path[a:b]) for a, b in cuts]
        bounds = Ragged.from_lengths(list(map(len, paths))).offsets
        flat = np.concatenate([*paths, _NO_ELEMENTS])
        return Runs(alive.astype(np.int64), score[alive], bounds, ~flat)

    def told(self, path: Ints, tape: int, *, placed: bool = False) -> Told:
        """Return what stands on a tape along a path, or along paths one behind the other."""
        if not len(path) or path[0] >= 0:
            return self.written.told(path, tape, placed=placed)
        own, elements = self.folding, ~path
        read = own.read[elements]
        named = np.flatnonzero(read >= 0)
        if tape == 0:
            return Told(read[named], named)
        fold, ends = own.fold, np.flatnonzero(read < 0)
        first, sizes = fold.writes.offsets[elements], fold.sizes[elements]
        at = np.flatnonzero(sizes)
        which = first[at]
        if sizes.max() > 1:
            said = Ragged.from_lengths(sizes)
            at, which = said.rows(), said.ranges(first)
        place = at + fold.late[which]
        if len(ends) > 1:  # paths one behind the other
            begin = np.append(0, ends[:-1] + 1)
            place -= begin[ends.searchsorted(at)]
        return Told(fold.written[which], at, place, place, np.full(len(at), -1))

    def marginals(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:
        """Return the probability of each label of the first tape at each token, [tokens, labels].

        Of others, zeros: they are written at boundaries.
        """
        node = kernel.axis_posterior(self._bound(self.folding.total)).node[0]
        order, labels, first = self.folding.by_label
        tables = [np.zeros((len(node), sizes[tape])) for tape in tapes]
        for tape, table in zip(tapes, tables, strict=True):
            if tape == 0:
                table[:, labels] = np.add.reduceat(node[:, order], first, axis=1)
        return [np.minimum(table, 1.0, out=table) for table in tables]

    def highest(self, tapes: Sequence[int], sizes: Sequence[int], tokens: int) -> list[Floats]:
        """Return the score of the best path through each label, [tokens, labels]; −inf: none."""
        (node,) = kernel.axis_max_marginals(self._bound(self.folding.best))
        order, labels, first = self.folding.by_label
        tables = [np.full((tokens, sizes[tape]), -np.inf) for tape in tapes]
        for tape, table in zip(tapes, tables, strict=True):
            if tape == 0:
                table[:, labels] = np.maximum.reduceat(node[:, order], first, axis=1)
        return tables

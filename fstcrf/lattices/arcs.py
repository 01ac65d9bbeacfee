"""The engine of lattices that are acyclic machines: arcs over parts of a text, as flat arrays.

States / Start / Final / Arcs
    The states are *nodes*. Each node has a position in its row, and several nodes can share a
    position. Each row begins at its first node. An arc reads the tokens between its two nodes.

On each tape, an arc begins a label or continues the label of the arc before it, and its tokens are
under a label. The arcs of segments, spans and words begin a label. The arcs of CTC frames begin or
continue a symbol. The arcs of an acceptor read one token, or no token.

Each arc has a left and a right class. If there are pair scores, each two neighbouring arcs score by
the right class of the first and the left class of the second (`fstcrf.kernel.paired`). Without pair
scores the machine is a plain acyclic acceptor (`fstcrf.kernel.acyclic`), which is several times
faster. The product with an acceptor, and the product of two lattices, are such arrays again. They
keep the number of the input arc of each arc.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import AmbiguousError, TooLargeError
from fstcrf.kernel import Budget
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.kernel.paired import Paired, PairedArcs, PairScores, arranged, ascending
from fstcrf.lattices import distinct
from fstcrf.lattices.arcchains import ArcChain
from fstcrf.lattices.engine import Engine, Over, PathBatch, TapeLabels, refuse_options
from fstcrf.lattices.reading import Reading, pairs_of_tokens
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import scaled
from fstcrf.machines.ways import on_paths

MOST_ARCS = 30_000_000
"""Most arcs, or pairs of classes, of a lattice."""

FIRST, _ONE = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
FIRST.flags.writeable = False
_SHARED = ("source", "target", "left", "right", "score", "origin")
TAPED = ("label", "under", "carries")
_OF_ARCS = (*_SHARED, *TAPED)
_TRANSDUCED = ("transducer_arcs", "run_keys", "gain")


@dataclass(frozen=True, eq=False)
class ArcEngine(Engine):
    """A batch of B rows with K tapes, which have M nodes and A arcs together.

    Parameters
    ----------
    texts : Ragged, optional
        Tokens of each row. If absent, the rows have no text: a token is a label that a path reads
        on the first tape.
    begins : int64 [B]
        First node of each row.
    at : int64 [M], optional
        Position of each node in its row. If absent, it is the number of labels read before it.
    final : float64 [M]
        Final score of each node; −inf if no path ends there.
    source, target : int32 [A]
        Nodes; each target is greater than its source. The arcs have the order of `arranged`, or
        ascending sources if there are no pair scores.
    left, right : int32 [A]
        Classes for pair scores.
    score : float64 [A]
    origin : int64 [A]
        Number of the input arc that begins with this arc; −1 if there is no such arc.
    label : int32 [A, K]
        The label that begins with the arc on each tape; −1 if no label does.
    under : int32 [A, K]
        The label of the tokens of the arc; −1 if they have no label.
    end : int64 [A, K], optional
        The position where the label that begins with the arc ends; −1 if the arc does not determine
        it. If `end` is absent, labels end with their arcs.
    carries : bool [A, K]
        Whether the arc continues the label of the arc before it.
    sizes : tuple of K int
        Number of labels of each tape, or the largest number if rows differ.
    class_final : float64 [R]
        Final score of each right class, then of the empty path.
    pairs : PairScores, optional
        Scores of pairs of classes, if there are any.
    per_position : bool
        Each position has its own table of pair scores.
    transducer_arcs : int64 [A, M], optional
        For each composed transducer, the number of its arc. Numbers from its number of arcs are the
        states where a path ends. −1 if the transducer takes no arc.
    ambiguous : str
        Reason why several paths may be runs over the same strings, of which only the best counts:
        then there is no sum over the paths. Empty if each path counts.
    run_keys : int64 [A, 1 + C], optional
        Keys that distinguish the strings of such runs: the arc of the lattice in which each path
        counts, and columns of output labels, or of transducer arcs. −1 is an empty key.
    gain : float64 [A], optional
        The part of the score in which such runs differ.
    """

    texts: Ragged | None
    begins: Longs
    at: Longs | None
    final: Floats
    source: Ints
    target: Ints
    left: Ints
    right: Ints
    score: Floats
    origin: Longs
    label: Ints
    under: Ints
    end: Longs | None
    carries: Bools
    sizes: tuple[int, ...]
    class_final: Floats
    pairs: PairScores | None
    per_position: bool = False
    transducer_arcs: Longs | None = None
    ambiguous: str = ""
    run_keys: Longs | None = None
    gain: Floats | None = None

    @classmethod
    def of_row(
        cls,
        length: int,
        *,
        source: Ints,
        target: Ints,
        score: Floats,
        label: Ints,
        class_final: Floats,
        pairs: PairScores | None,
        **others: Any,
    ) -> ArcEngine:
        """Return a row of T tokens with one node at each boundary, which ends at the last node.

        Unless other columns are given, each arc begins its label, and the label ends with the arc.
        """
        labels = label if label.ndim == 2 else label[:, None]
        final = np.full(length + 1, -np.inf)
        final[length] = 0.0
        begins = {"under": labels, "end": None, "carries": np.zeros(labels.shape, dtype=bool)}
        others = begins | {"origin": np.full(len(source), -1, dtype=np.int64)} | others
        return cls(
            texts=Ragged(np.array([0, length])),
            begins=FIRST,
            at=np.arange(length + 1),
            final=final,
            source=source,
            target=target,
            score=score,
            label=labels,
            class_final=class_final,
            pairs=pairs,
            **others,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays only: the structures of the kernel are made again."""
        return ArcEngine, tuple(getattr(self, part.name) for part in fields(self))

    @property
    def n_elements(self) -> int:
        """Number of arcs."""
        return len(self.source)

    @property
    def expanded(self) -> ArcEngine:
        """The engine itself: it has all arcs."""
        return self

    @property
    def tapes(self) -> int:
        """Number of tapes."""
        return int(self.label.shape[1])

    @made_once
    def rows(self) -> Ragged:
        """Tokens of each row; without a text, of its longest path."""
        if self.texts is not None:
            return self.texts
        size = np.where(self.final > -np.inf, self._ways[1], 0)
        return Ragged.from_lengths(np.maximum.reduceat(size, self.begins))

    @made_once
    def position(self) -> Longs:
        """Position of each node in its row, int64 [M]."""
        return np.maximum(self._ways[1], 0).astype(np.int64) if self.at is None else self.at

    @property
    def tokens(self) -> Longs:
        """Tokens that each arc reads, int64 [A]; without a text, 1 for each label."""
        if self.at is None:
            return (self.label[:, 0] >= 0).astype(np.int64)
        return self.position[self.target] - self.position[self.source]

    @made_once
    def row(self) -> Longs:
        """The row of each node, int64 [M]."""
        if len(self.begins) == 1:
            return np.zeros(len(self.final), dtype=np.int64)
        return np.searchsorted(self.begins, np.arange(len(self.final)), side="right") - 1

    @made_once
    def boundary(self) -> Longs:
        """A key of the row and the position of each node, int64 [M]."""
        return self.place + self.row

    @made_once
    def place(self) -> Longs:
        """Tokens before each node, counted through all rows, int64 [M]."""
        if len(self.begins) == 1:
            return self.position
        return self.position + self.rows.offsets[self.row]

    def with_arcs(self, keep: Bools | NDArray[np.integer]) -> ArcEngine:
        """Return the engine with some of the arcs."""
        parts = {name: getattr(self, name)[keep] for name in _OF_ARCS}
        parts |= {name: None if v is None else v[keep] for name, v in self._optional.items()}
        return replace(self, **parts)

    @property
    def _optional(self) -> dict[str, Longs | Floats | None]:
        return {name: getattr(self, name) for name in ("end", *_TRANSDUCED)}

    def in_order(self) -> ArcEngine:
        """Return the engine with its arcs in the order of the machine."""
        if self.pairs is None:
            return self.with_arcs(ascending(self.source.astype(np.int64)))
        arcs = PairedArcs(self.source, self.target, self.left, self.right, self.score)
        return self.with_arcs(arranged(arcs))

    # --- What the kernel answers --------------------------------------------------------------

    @made_once
    def machine(self) -> Acyclic | Paired:
        """The machine of the kernel."""
        nodes = len(self.final)
        if self.pairs is None:
            row = Ragged.from_rows(self.source, nodes).offsets
            return Acyclic(row, self.target, self.score, self.final, self.begins)
        arcs = PairedArcs(self.source, self.target, self.left, self.right, self.score)
        table = None
        if self.per_position:
            table = np.minimum(self.position, len(self.pairs.pair) - 1).astype(np.int32)
        return Paired(nodes, arcs, self.final, self.class_final, self.pairs, self.begins, table)

    @made_once
    def explicit(self) -> tuple[Acyclic, Ints | None]:
        """A plain machine with an arc for each pair, and the arc of this engine that each is.

        A pair has the number −1. The numbers are absent if there are no pairs.
        """
        machine = self.machine
        return (machine, None) if isinstance(machine, Acyclic) else machine.explicit

    @made_once
    def chain(self) -> ArcChain | None:
        """The rows as chains of tokens, if that is faster."""
        return ArcChain.of(self)

    @property
    def log_z(self) -> Floats:
        """Log Z of each row, float64 [B]; −inf without a path; AmbiguousError without a sum."""
        self.check_sum()
        return self.machine.log_partitions() if self.chain is None else self.chain.log_z

    @property
    def usual_log_z(self) -> Floats:
        return np.full(len(self.begins), np.nan) if self.ambiguous else self.log_z

    def check_sum(self) -> None:
        """Raise AmbiguousError if there is no sum over the paths."""
        if self.ambiguous:
            raise AmbiguousError(self.ambiguous)

    @property
    def best_scores(self) -> Floats:
        return self.machine.best_scores() if self.chain is None else self.chain.best_scores

    @property
    def shared(self) -> Hashable:
        """A key: engines with equal keys can be joined."""
        same = (0, 0) if self.pairs is None else (id(self.pairs), id(self.class_final))
        form = 0 if self.chain is None else id(self.chain.program), self.per_position
        widths = [-1 if a is None else a.shape[1] for a in (self.transducer_arcs, self.run_keys)]
        return *same, *form, self.at is None, self.tapes, *widths, self.ambiguous

    @staticmethod
    def joined(parts: Sequence[ArcEngine]) -> ArcEngine:
        """Return one engine with the rows of several, which have one `shared` key."""
        if len(parts) == 1:
            return parts[0]
        first, shift = parts[0], Ragged.from_lengths(len(p.final) for p in parts).offsets
        no_text, plain = first.at is None, all(p.end is None for p in parts)
        there = [name for name in _TRANSDUCED if getattr(first, name) is not None]
        names = (*_OF_ARCS, *there)
        columns: dict[str, Any] = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
        moved = np.repeat(shift[:-1].astype(np.int32), [len(p.source) for p in parts])
        begins = [p.begins + s for p, s in zip(parts, shift.tolist(), strict=False)]
        lengths = [] if no_text else [p.rows.lengths for p in parts]
        joined = ArcEngine(
            texts=None if no_text else Ragged.from_lengths(np.concatenate(lengths)),
            begins=np.concatenate(begins),
            at=None if no_text else np.concatenate([p.position for p in parts]),
            final=np.concatenate([p.final for p in parts]),
            sizes=tuple(map(max, zip(*(p.sizes for p in parts), strict=True))),
            class_final=first.class_final,
            pairs=first.pairs,
            per_position=first.per_position,
            end=None if plain else np.concatenate([p.ends for p in parts]),
            ambiguous=first.ambiguous,
            **(columns | {name: columns[name] + moved for name in ("source", "target")}),
        )
        counts = [len(part.source) for part in parts]
        joined.__dict__["chain"] = ArcChain.joined([part.chain for part in parts], counts)
        return joined

    @staticmethod
    def runs(engines: Sequence[ArcEngine]) -> Iterator[tuple[int, int]]:
        """Yield the ranges (first, end) of engines that can be joined: one range."""
        yield 0, len(engines)

    def marginals(self, tapes: Sequence[int]) -> list[Floats]:
        if self.chain is not None:
            return [self.chain.marginals]
        tables = []
        for tape in tapes:
            table = self.covers(tape).sum_by_token(self.posterior, self.rows, self.sizes[tape])
            tables.append(np.minimum(np.maximum(table, 0.0, out=table), 1.0, out=table))
        return tables

    def highest(self, tapes: Sequence[int]) -> list[Floats]:
        best, tokens = self.maxima(), self.rows.total
        return [self.covers(tape).highest(best, tokens, self.sizes[tape]) for tape in tapes]

    @made_once
    def posterior(self) -> Floats:
        """Probability of each arc, float64 [A]; 0 in a row without a path."""
        self.check_sum()
        if self.chain is not None:
            return self.chain.posterior
        machine = self.machine
        return machine.marginals()[1] if isinstance(machine, Acyclic) else machine.marginals().arc

    def nbest(self, n: int, budget: Budget | None = None) -> PathBatch:
        """Return the n best paths of each row.

        Ties are decided at the earliest node where the paths differ: the path that ends there wins,
        then the smaller left class, then the smaller arc number.
        """
        refuse_options({"budget": budget})
        if self.chain is not None and n > 0:
            return self.chain.nbest(n)
        if n != 1 and self.run_keys is not None:
            searched = distinct.best_paths(self, n)
            return self.resolved.nbest(n) if searched is None else self._batch(*searched)
        if n != 1:
            self.check_sum()  # several runs would be the same path
            machine, _ = self.explicit
            best = machine.nbest(n)
            return self._batch(best.arcs, best.score, best.n_paths)
        (path, offsets), score = self.machine.best_paths(), self.best_scores
        if len(score) == 1 and score[0] > -np.inf:
            return PathBatch(_ONE, score, offsets, path)
        alive = score > -np.inf
        bounds = Ragged.from_lengths(np.diff(offsets)[alive]).offsets
        return PathBatch(alive.astype(np.int64), score[alive], bounds, path)

    @property
    def resolved(self) -> ArcEngine:
        """The engine with one path for all runs over the same strings: the best of these runs.

        It remains `ambiguous` if there are too many runs to compare.
        """
        return self if self.run_keys is None else self._resolved

    @made_once
    def _resolved(self) -> ArcEngine:
        return distinct.resolved(self)

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> PathBatch:
        self.check_sum()
        if self.chain is not None and n > 0:
            paths = self.chain.sample(n, generators)
        else:
            machine, _ = self.explicit
            arcs = machine.sample(n, generators)
            paths = self._batch(arcs, np.zeros(len(arcs)), np.full(len(self.begins), n))
        return paths._replace(score=self._scores(paths))

    def _batch(self, paths: Ints, score: Floats, counts: Longs) -> PathBatch:
        """Return paths of the explicit machine, [R, W], as paths of this engine."""
        _, which = self.explicit
        there = paths >= 0
        if which is not None and paths.size:
            paths = np.where(there, which[np.maximum(paths, 0)], -1)
            there = paths >= 0
        bounds = Ragged.from_lengths(there.sum(axis=1)).offsets
        return PathBatch(counts, score, bounds, paths[there])

    def _scores(self, paths: PathBatch) -> Floats:
        count, path = len(paths.score), paths.elements
        rows = Ragged(paths.bounds)
        begin = np.repeat(self.begins, paths.counts)
        last = begin.copy()
        full = paths.bounds[1:] > paths.bounds[:-1]
        last[full] = self.target[path[paths.bounds[1:][full] - 1]]
        total: Floats = self.final[last]
        total = total + np.bincount(rows.rows(), weights=self.score[path], minlength=count)
        if self.pairs is None:
            return total
        none = self.pairs.pair.shape[1] - 1
        before = np.empty(len(path), dtype=np.int64)
        before[1:] = self.right[path[:-1]]
        before[paths.bounds[:-1][full]] = none
        table = self.position[self.source[path]] if self.per_position else 0
        if self.per_position:
            table = np.minimum(table, len(self.pairs.pair) - 1)
        links = self.pairs.pair[table, before, self.left[path]]
        ending = np.full(count, none)
        ending[full] = self.right[path[paths.bounds[1:][full] - 1]]
        total = total + np.bincount(rows.rows(), weights=links, minlength=count)
        total += self.class_final[ending]
        return total

    def maxima(self) -> Floats:
        """Return the score of the best path through each arc, float64 [A]; −inf without a path."""
        machine, which = self.explicit
        scores = machine.max_marginals()
        if which is None:
            return scores
        best, arc = np.full(len(self.source), -np.inf), which >= 0
        best[which[arc]] = scores[arc]
        return best

    def successions(self, tapes: Sequence[int]) -> list[Floats]:
        if self.chain is not None:
            return [self.chain.successions]
        return [pairs_of_tokens(self, tape, each=True)[:, :-1] for tape in tapes]

    def label_counts(self, tape: int) -> tuple[Floats, Floats]:
        if self.chain is not None:
            return super().label_counts(tape)
        return self.marginals([tape])[0], pairs_of_tokens(self, tape)[0, :-1]

    @property
    def explicit_nodes(self) -> Longs:
        """The node of each state of the explicit machine."""
        machine = self.machine
        return machine.slots if isinstance(machine, Paired) else np.arange(len(self.final))

    def entropies(self) -> Floats:
        self.check_sum()
        return self.explicit[0].entropies()

    def expected_pairs(self) -> tuple[Floats, Floats] | None:
        """Return the expected number of each pair of classes, [R, L], and of ends, [R].

        The result is None if there are no pair scores.
        """
        machine = self.machine
        if not isinstance(machine, Paired):
            return None
        sums = machine.marginals(counted=True)
        ends = np.bincount(machine.right, weights=sums.end, minlength=len(self.class_final))
        return sums.pair_counts.sum(axis=0), ends.astype(np.float64)

    def move_counts(self, sizes: Sequence[int]) -> list[Floats]:
        if self.transducer_arcs is None or self.transducer_arcs.shape[1] != len(sizes):
            return super().move_counts(sizes)
        each = zip(self.transducer_arcs.T + 1, sizes, strict=True)  # 0: no arc
        return [np.bincount(x, self.posterior, n + 1)[1:].astype(np.float64) for x, n in each]

    @made_once
    def _ways(self) -> tuple[Ints, Ints]:
        """Fewest and most labels of the first tape on a path to each node; −1 without a path."""
        if isinstance(self.machine, Acyclic):  # it has no forbidden arcs
            return self.machine.lengths(np.ascontiguousarray(self.label[:, 0]))
        alive = np.flatnonzero(self.score > -np.inf)
        order = alive[ascending(self.source[alive].astype(np.int64))]
        row = Ragged.from_rows(self.source[order], len(self.final)).offsets
        flat = Acyclic(row, self.target[order], self.score[order], self.final, self.begins)
        return flat.lengths(np.ascontiguousarray(self.label[order, 0]))

    def furthest(self) -> int:
        """Return the last position that a path from the start reaches."""
        return int(self.position[self._ways[1] >= 0].max())

    # --- Labels of arcs -----------------------------------------------------------------------

    def covers(self, tape: int) -> Reading:
        """Return the label that the tokens of each arc are under, which is cheap to make."""
        label, start = self.under[:, tape], self.place[self.source]
        end = start + 1 if self.at is None else self.place[self.target]
        if not (label < 0).any():
            return Reading(slice(None), start, end, label, units=self.at is None)
        arc = np.flatnonzero(label >= 0)
        return Reading(arc, start[arc], end[arc], label[arc], units=self.at is None)

    @property
    def ends(self) -> Longs:
        """End position of the label that begins with each arc, [A, K]; −1 if unknown."""
        if self.end is not None:
            return self.end
        return np.where(self.label >= 0, self.position[self.target][:, None], -1)

    def begun(self, tape: int) -> Reading | None:
        """Return the label that begins with each arc, or None if the end of a label is unknown."""
        label, end = self.label[:, tape], self.ends[:, tape]
        arc = np.flatnonzero(label >= 0)
        if (end[arc] < 0).any():
            return None
        source = self.source[arc]
        shift = self.place[source] - self.position[source]
        return Reading(arc, self.place[source], end[arc] + shift, label[arc])

    def labels_along(self, path: Ints, tape: int) -> TapeLabels:
        label, begins, _, _ = self._along(path, tape)
        return TapeLabels(label, begins)

    def segments_along(self, path: Ints, tape: int) -> TapeLabels:
        label, begins, first, last = self._along(path, tape)
        origin = self.origin[first] if tape == 0 else np.full(len(label), -1)
        start, end = self.position[self.source[first]], self.position[self.target[last]]
        if self.at is None:
            read = self._read_along(path)
            end = read if begins is None else read[begins]
        return TapeLabels(label, begins, start, end, origin)

    def _along(self, path: Ints, tape: int) -> tuple[Ints, Longs | None, Ints, Ints]:
        """Return the labels on a path, their indices in it, and their first and last arcs."""
        label = self.label[:, tape][path]
        begins: Longs | None = None
        first, last = path, path
        if self.at is not None and (carries := self.carries[:, tape][path]).any():
            carries &= ~self._first(path)  # the first arc of a path does not continue another path
            begins = np.flatnonzero(~carries)
            first, label = path[begins], label[begins]
            last = path[np.append(begins[1:], len(path)) - 1] if len(begins) else first
        if (label < 0).any():
            named = np.flatnonzero(label >= 0)
            first, last, label = first[named], last[named], label[named]
            begins = named if begins is None else begins[named]
        return label, begins, first, last

    def _first(self, path: Ints) -> Bools:
        """Return which arcs of concatenated paths are the first arc of a path, bool [N]."""
        source = self.source[path]
        if len(self.begins) == 1:
            return np.asarray(source == self.begins[0], dtype=bool)
        return np.asarray(np.isin(source, self.begins), dtype=bool)

    def _read_along(self, path: Ints) -> Longs:
        """Return how many labels of the first tape each path has read after each arc, [N]."""
        count = np.cumsum(self.label[path, 0] >= 0)
        first = np.flatnonzero(self._first(path))
        before = np.append(0, count)[first]
        read: Longs = count - np.repeat(before, np.diff(np.append(first, len(path))))
        return read

    # --- Other paths and scores ---------------------------------------------------------------

    def trimmed(self) -> ArcEngine:
        """Return the engine without nodes and arcs that are on no path; first nodes remain."""
        arcs = self.with_arcs(self.score > -np.inf)
        ends = arcs.final > -np.inf
        _, keep = on_paths(arcs.source, arcs.target, ends, starts=arcs.begins)
        left = keep[arcs.source] & keep[arcs.target]
        keep[arcs.begins] = True
        number = (np.cumsum(keep) - 1).astype(np.int32)
        arcs = arcs.with_arcs(left)
        return replace(
            arcs,
            begins=number[arcs.begins].astype(np.int64),
            at=None if arcs.at is None else arcs.at[keep],
            final=arcs.final[keep],
            source=number[arcs.source],
            target=number[arcs.target],
        ).in_order()

    @made_once
    def time_aligned(self) -> ArcEngine:
        """The engine with one position for each node.

        Without a text, paths that have read different numbers of labels can meet at a node.
        """
        if self.at is not None or (self._ways[0] == self._ways[1]).all():
            return self
        longest = self._ways[1]
        states, size = int(longest.max()) + 1, int(self.label[:, 0].max()) + 1
        target = np.tile(np.arange(1, states + 1, dtype=np.int32)[:, None], (1, size))
        target[-1] = -1
        labels = (tuple(map(str, range(size))),)
        counter = Acceptor(("",), labels, target, None, np.zeros(states), "positions")
        return self.product(counter, [0], "segments")

    def lengths(self) -> tuple[int, int]:
        """Return the labels on the shortest and the longest path of the only row, or zeros."""
        shortest, longest = self._ways
        ends = (self.final > -np.inf) & (longest >= 0)
        if not ends.any():
            return 0, 0
        return int(shortest[ends].min()), int(longest[ends].max())

    def reweight(self, score: Floats) -> ArcEngine:
        """Return the same paths, each scored by the sum of its arcs' new scores, float64 [A]."""
        return replace(
            self,
            score=np.where(self.score > -np.inf, score, -np.inf),
            final=_support(self.final),
            class_final=_support(self.class_final),
            pairs=None if self.pairs is None else PairScores(_support(self.pairs.pair)),
        )

    def scale(self, factor: float) -> ArcEngine:
        """Return the same paths with all scores times a factor; forbidden arcs remain forbidden."""
        scores = replace(
            self,
            score=scaled(self.score, factor),
            final=scaled(self.final, factor),
            class_final=scaled(self.class_final, factor),
            pairs=None if self.pairs is None else PairScores(scaled(self.pairs.pair, factor)),
        )
        _ = scores.machine  # it checks the scores
        return scores

    # --- Products -----------------------------------------------------------------------------

    def product(
        self, acceptor: Acceptor, tapes: Sequence[int], over: Over, *, written: bool = False
    ) -> ArcEngine:
        """Return the product with an acceptor, trimmed.

        Parameters
        ----------
        acceptor : Acceptor
        tapes : sequence of int
            The tapes that it reads.
        over : {"segments", "tokens"}
            It reads the label that begins with an arc, once, or the label of each token.
        written : bool
            Add a tape with the acceptor's state before each arc and the symbol that it reads there:
            state · symbols + symbol.
        """
        states = acceptor.n_states
        check_size(len(self.source) * states, f"the product with {acceptor.name}")
        columns = (self.label if over == "segments" else self.under)[:, list(tapes)]
        sizes = tuple(map(len, acceptor.labels))
        read = np.ravel_multi_index(tuple(np.maximum(columns, 0).T), sizes)
        symbol = np.where((columns >= 0).all(axis=1), read, -1)
        times = np.ones(len(symbol), dtype=np.int64) if over == "segments" else self.tokens
        after, gain = acceptor.steps(symbol, np.where(symbol >= 0, times, 0))
        arc, state = np.nonzero(after >= 0)
        moved = self.with_arcs(arc)
        if written:
            symbols = int(np.prod(sizes))
            code = np.where(symbol[arc] >= 0, state * symbols + symbol[arc], -1)
            moved = moved.with_tape(code.astype(np.int32), states * symbols)
        return replace(
            moved,
            begins=self.begins * states,
            at=None if self.at is None else np.repeat(self.at, states),
            final=(self.final[:, None] + acceptor.final).reshape(-1),
            source=(moved.source.astype(np.int64) * states + state).astype(np.int32),
            target=(moved.target.astype(np.int64) * states + after[arc, state]).astype(np.int32),
            score=moved.score + gain[arc, state],
        ).trimmed()

    def with_tape(self, label: Ints, size: int) -> ArcEngine:
        """Return the engine with one more tape, on which each arc begins its label of `size`."""
        same = np.zeros(len(label), dtype=bool)
        return replace(
            self,
            label=np.column_stack([self.label, label]),
            under=np.column_stack([self.under, label]),
            carries=np.column_stack([self.carries, same]),
            end=np.column_stack([self.ends, self.position[self.target]]),
            sizes=(*self.sizes, size),
        )


def _support(values: Floats) -> Floats:
    return np.where(values > -np.inf, 0.0, -np.inf)


def check_size(arcs: int, what: str) -> None:
    """Raise TooLargeError if there are too many arcs to store."""
    if arcs > MOST_ARCS:
        raise TooLargeError(
            f"{what} has {arcs:,} arcs, which is too many to store: restrict the "
            "lattice, or use constraints over fewer labels"
        )

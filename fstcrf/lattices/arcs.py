"""Arcs over stretches of text as flat arrays: the engine of acyclic machines of every kind.

States / Start / Final / Arcs
    Nodes, each at a position of its row, several at one position where a machine has them; a row
    begins at a node of its own; final nodes; an arc passes the tokens between its two nodes.

On every tape an arc begins something, or carries on what the arc before it began, and its tokens
are under a label. Segments, spans and words are arcs that begin one thing; frames of CTC begin a
symbol or carry it on; arcs of an acceptor pass a token, or none. Neighbouring arcs may score as a
pair of classes, see `fstcrf.kernel.paired`; without pairs the machine is plain, see
`fstcrf.kernel.acyclic`, which is several times faster than pairs that score 0. A product with an
acceptor, and that of two such lattices, are again such arrays, with the number of the arc that was
given of each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import AmbiguousError, TooLargeError
from fstcrf.kernel import Budget
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.kernel.paired import Paired, PairedArcs, PairScores, arranged, ascending
from fstcrf.lattices import distinct
from fstcrf.lattices.arcchains import ArcChain
from fstcrf.lattices.engine import Over, PathBatch, TapeLabels
from fstcrf.lattices.reading import Reading, successions
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor
from fstcrf.machines.plans import scaled
from fstcrf.machines.ways import on_paths
from fstcrf.ragged import Ragged

MOST_ARCS = 30_000_000
"""Arcs, and pairs of classes, of a lattice that is written out."""

FIRST, _ONE = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
FIRST.flags.writeable = False
_SHARED = ("source", "target", "left", "right", "score", "origin")
TAPED = ("label", "under", "carries")
_OF_ARCS = (*_SHARED, *TAPED)
_BEHIND = ("moves", "apart", "gain")


@dataclass(frozen=True, eq=False)
class ArcEngine:
    """B rows of M nodes and A arcs together, with K tapes.

    Parameters
    ----------
    texts : Ragged, optional
        Tokens of each row; None: it has no text but the labels of the first tape, as many as a path
        reads.
    begins : int64 [B]
        The node where each row begins, its first one.
    at : int64 [M], optional
        Position of each node in its row; None: the labels that are read before it.
    final : float64 [M]
        −inf: no path ends there.
    source, target : int32 [A]
        Nodes, the second above the first; sorted as `arranged` says, without pairs by source.
    left, right : int32 [A]
        Classes for pair scores.
    score : float64 [A]
    origin : int64 [A]
        The arc that was given, of those that begin one; −1: none.
    label : int32 [A, K]
        What begins with the arc; −1: nothing does.
    under : int32 [A, K]
        The label of its tokens; −1: none.
    end : int64 [A, K], optional
        The position where what begins with it ends, −1: that is not known here; None: where the arc
        ends.
    carries : bool [A, K]
        It carries on what the arc before it began.
    class_final : float64 [R]
    pairs : PairScores, optional
        None: neighbours score nothing.
    per_position : bool
        The table of pairs of a node is that of its position, not the only one.
    moves : int64 [A, M], optional
        The arc of each transducer that was composed, and behind its arcs the state where a path
        ends in it; −1: none.
    ambiguous : str
        Why several paths may be runs over the same strings, of which only the best one counts, so
        that there is no sum over the paths; empty: each path counts.
    apart : int64 [A, 1 + C], optional
        What tells such runs from each other path, −1: nothing. The arcs of a lattice without such
        runs, of which each path counts, and then columns of strings: what transducers behind it
        write, or the arcs by which they move.
    gain : float64 [A], optional
        The part of the score that such runs differ in.
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
    class_final: Floats
    pairs: PairScores | None
    per_position: bool = False
    moves: Longs | None = None
    ambiguous: str = ""
    apart: Longs | None = None
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
        """Return a row of T tokens with a node at each boundary, which ends at the last of them.

        Where nothing else is given, arcs begin their labels, which end with them.
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
        """Leave the kernel's structures behind: they are made again."""
        return ArcEngine, tuple(getattr(self, part.name) for part in fields(self))

    @property
    def n_elements(self) -> int:
        """Arcs."""
        return len(self.source)

    @property
    def expanded(self) -> ArcEngine:
        """The same: all arcs are there."""
        return self

    @property
    def tapes(self) -> int:
        """Number of tapes."""
        return int(self.label.shape[1])

    @made_once
    def rows(self) -> Ragged:
        """Tokens of each row; of a row without a text, of its longest path."""
        if self.texts is not None:
            return self.texts
        size = np.where(self.final > -np.inf, self._ways[1], 0)
        return Ragged.from_lengths(np.maximum.reduceat(size, self.begins))

    @made_once
    def position(self) -> Longs:
        """Of each node in its row, int64 [M]."""
        return np.maximum(self._ways[1], 0).astype(np.int64) if self.at is None else self.at

    @property
    def tokens(self) -> Longs:
        """Tokens that each arc passes, int64 [A]; without a text one for a label that it reads."""
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
        """A number of each node that those at the same place of the same row share."""
        return self._place + self.row

    @made_once
    def _place(self) -> Longs:
        """Tokens before each node, counted through all rows, int64 [M]."""
        if len(self.begins) == 1:
            return self.position
        return self.position + self.rows.offsets[self.row]

    def with_arcs(self, keep: Bools | NDArray[np.integer]) -> ArcEngine:
        """Return some of the arcs."""
        parts = {name: getattr(self, name)[keep] for name in _OF_ARCS}
        parts |= {name: None if v is None else v[keep] for name, v in self._optional.items()}
        return replace(self, **parts)

    @property
    def _optional(self) -> dict[str, Longs | Floats | None]:
        return {name: getattr(self, name) for name in ("end", *_BEHIND)}

    def in_order(self) -> ArcEngine:
        """Return the arcs in the order in which machines have them."""
        if self.pairs is None:
            return self.with_arcs(ascending(self.source.astype(np.int64)))
        arcs = PairedArcs(self.source, self.target, self.left, self.right, self.score)
        return self.with_arcs(arranged(arcs))

    # --- What the kernel answers --------------------------------------------------------------

    @made_once
    def machine(self) -> Acyclic | Paired:
        """The arrays as the kernel has them."""
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
        """The machine with pairs as arcs of their own, and which arc each one is; −1: a pair.

        None: all arcs are arcs.
        """
        machine = self.machine
        return (machine, None) if isinstance(machine, Acyclic) else machine.explicit

    @made_once
    def chain(self) -> ArcChain | None:
        """The same as chains of tokens, where that is faster; joined rows have theirs joined."""
        return ArcChain.of(self)

    @property
    def log_z(self) -> Floats:
        """Log Z of each row, [B]; −inf: there is no path; AmbiguousError: there is no sum."""
        self.check_sum()
        return self.machine.log_partitions() if self.chain is None else self.chain.log_z

    @property
    def usual_log_z(self) -> Floats:
        """The same; NaN where there is no sum."""
        return np.full(len(self.begins), np.nan) if self.ambiguous else self.log_z

    def check_sum(self) -> None:
        """Raise AmbiguousError where there is no sum over the paths."""
        if self.ambiguous:
            raise AmbiguousError(self.ambiguous)

    @property
    def best_scores(self) -> Floats:
        """Score of the best path of each row, [B]; −inf: there is none."""
        return self.machine.best_scores() if self.chain is None else self.chain.best_scores

    @property
    def shared(self) -> Hashable:
        """What rows of one engine share."""
        same = (0, 0) if self.pairs is None else (id(self.pairs), id(self.class_final))
        form = 0 if self.chain is None else id(self.chain.program), self.per_position
        widths = [-1 if part is None else part.shape[1] for part in (self.moves, self.apart)]
        return *same, *form, self.at is None, self.tapes, *widths, self.ambiguous

    @staticmethod
    def joined(parts: Sequence[ArcEngine]) -> ArcEngine:
        """Return engines with the same pair scores and tapes as one."""
        if len(parts) == 1:
            return parts[0]
        first, shift = parts[0], Ragged.from_lengths(len(p.final) for p in parts).offsets
        own, plain = first.at is None, all(p.end is None for p in parts)
        there = [name for name in _BEHIND if getattr(first, name) is not None]
        names = (*_OF_ARCS, *there)
        found: dict[str, Any] = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
        moved = np.repeat(shift[:-1].astype(np.int32), [len(p.source) for p in parts])
        begins = [p.begins + s for p, s in zip(parts, shift.tolist(), strict=False)]
        joined = ArcEngine(
            texts=None
            if own
            else Ragged.from_lengths(np.concatenate([p.rows.lengths for p in parts])),
            begins=np.concatenate(begins),
            at=None if own else np.concatenate([p.position for p in parts]),
            final=np.concatenate([p.final for p in parts]),
            class_final=first.class_final,
            pairs=first.pairs,
            per_position=first.per_position,
            end=None if plain else np.concatenate([p.ends for p in parts]),
            ambiguous=first.ambiguous,
            **(found | {name: found[name] + moved for name in ("source", "target")}),
        )
        counts = [len(part.source) for part in parts]
        joined.__dict__["chain"] = ArcChain.joined([part.chain for part in parts], counts)
        return joined

    def runs(self, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the runs (first, end) of engines of so many tokens that are joined: all."""
        yield 0, len(tokens)

    def forget(self) -> None:
        """Let go of nothing: the arcs are the lattice."""

    def marginals(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:
        """Return the probability of each label of some tapes at each token, [tokens, labels]."""
        if self.chain is not None:
            return [self.chain.marginals]
        found = []
        for tape in tapes:
            each = self.covers(tape).spread(self.posterior, self.rows, sizes[tape])
            found.append(np.minimum(np.maximum(each, 0.0, out=each), 1.0, out=each))
        return found

    def highest(self, tapes: Sequence[int], sizes: Sequence[int], tokens: int) -> list[Floats]:
        """Return the score of the best path through each label, [tokens, labels]; −inf: none."""
        best = self.maxima()
        return [self.covers(tape).highest(best, tokens, sizes[tape]) for tape in tapes]

    @made_once
    def posterior(self) -> Floats:
        """Probability of each arc, [A]; 0 where there is no path."""
        self.check_sum()
        if self.chain is not None:
            return self.chain.posterior
        machine = self.machine
        return machine.marginals()[1] if isinstance(machine, Acyclic) else machine.marginals().arc

    def nbest(self, n: int, budget: Budget | None = None) -> PathBatch:  # noqa: ARG002
        """Return the n best paths of each row.

        Ties: ending comes before going on, then the smaller left class, then the arc that comes
        first, at the earliest node where the candidates differ.
        """
        if self.chain is not None and n > 0:
            return self.chain.nbest(n)
        if n != 1 and self.apart is not None:
            found = distinct.best_paths(self, n)
            if found is not None:
                return self._runs(*found)
            return self.resolved.nbest(n)
        if n != 1:
            self.check_sum()  # several runs would be one and the same path
            machine, _ = self.explicit
            found = machine.nbest(n)
            return self._runs(found.arcs, found.score, found.found)
        (path, offsets), score = self.machine.best_paths(), self.best_scores
        if len(score) == 1 and score[0] > -np.inf:
            return PathBatch(_ONE, score, offsets, path)
        alive = score > -np.inf
        bounds = Ragged.from_lengths(np.diff(offsets)[alive]).offsets
        return PathBatch(alive.astype(np.int64), score[alive], bounds, path)

    @property
    def resolved(self) -> ArcEngine:
        """The rows with one path for all runs over the same strings: the best of these.

        They are still `ambiguous` where there are too many runs to tell.
        """
        return self if self.apart is None else self._resolved

    @made_once
    def _resolved(self) -> ArcEngine:
        return distinct.resolved(self)

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> PathBatch:
        """Return n independent exact samples of each row, their scores among them."""
        self.check_sum()
        if self.chain is not None and n > 0:
            runs = self.chain.sample(n, generators)
            return runs._replace(score=self._scores(runs))
        machine, _ = self.explicit
        drawn = machine.sample(n, generators)
        found = np.full(len(self.begins), n)
        runs = self._runs(drawn, np.zeros(len(drawn)), found)
        return runs._replace(score=self._scores(runs))

    def _runs(self, paths: Ints, score: Floats, found: Longs) -> PathBatch:
        """Return paths of the explicit machine, [R, W], as paths of these arcs."""
        _, which = self.explicit
        own = paths >= 0
        if which is not None and paths.size:
            paths = np.where(own, which[np.maximum(paths, 0)], -1)
            own = paths >= 0
        return PathBatch(found, score, Ragged.from_lengths(own.sum(axis=1)).offsets, paths[own])

    def _scores(self, runs: PathBatch) -> Floats:
        """Return the scores of paths."""
        count, path = len(runs.score), runs.elements
        rows = Ragged(runs.bounds)
        begin = np.repeat(self.begins, runs.found)
        last = begin.copy()
        full = runs.bounds[1:] > runs.bounds[:-1]
        last[full] = self.target[path[runs.bounds[1:][full] - 1]]
        total: Floats = self.final[last]
        total = total + np.bincount(rows.rows(), weights=self.score[path], minlength=count)
        if self.pairs is None:
            return total
        none = self.pairs.pair.shape[1] - 1
        before = np.empty(len(path), dtype=np.int64)
        before[1:] = self.right[path[:-1]]
        before[runs.bounds[:-1][full]] = none
        table = self.position[self.source[path]] if self.per_position else 0
        if self.per_position:
            table = np.minimum(table, len(self.pairs.pair) - 1)
        links = self.pairs.pair[table, before, self.left[path]]
        ending = np.full(count, none)
        ending[full] = self.right[path[runs.bounds[1:][full] - 1]]
        total = total + np.bincount(rows.rows(), weights=links, minlength=count)
        total += self.class_final[ending]
        return total

    def maxima(self) -> Floats:
        """Return the score of the best path through each arc, [A]; −inf: there is none."""
        machine, which = self.explicit
        found = machine.max_marginals()
        if which is None:
            return found
        best, arc = np.full(len(self.source), -np.inf), which >= 0
        best[which[arc]] = found[arc]
        return best

    def successions(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:
        """Return the probability of each succession of labels in the only row, [tokens, L, L].

        Entry (t, i, j): label i at token t - 1 and label j at token t.
        """
        found = []
        for tape in tapes:
            both = self.after_last(tape, sizes[tape], "tokens")
            code, token = both.label[:, -1].astype(np.int64), both.position[both.source]
            under, shape = both.under[:, tape], (self.rows.total, sizes[tape])
            found.append(successions(code, token, both.tokens, under, both.posterior, shape))
        return found

    def after_last(self, tape: int, size: int, over: Over) -> ArcEngine:
        """Return the product with the machine whose state is the last label: 0, none, or label + 1.

        Its last tape has state · labels + label.
        """
        target = np.tile(np.arange(1, size + 1, dtype=np.int32), (size + 1, 1))
        labels = (tuple(map(str, range(size))),)
        last = Acceptor(("",), labels, target, None, np.zeros(size + 1), "successions")
        return self.product(last, [tape], over, written=True)

    def entropies(self) -> Floats:
        """Return the entropy of each row in nats, [B]."""
        self.check_sum()
        return self.explicit[0].entropies()

    def met(self) -> tuple[Floats, Floats]:
        """Return the expected meetings of classes, [R, L], and ends behind each, [R].

        Without pairs there are none.
        """
        machine = self.machine
        assert isinstance(machine, Paired)  # noqa: S101 (the caller has looked)
        sums = machine.marginals(counted=True)
        ends = np.bincount(machine.right, weights=sums.end, minlength=len(self.class_final))
        return sums.met.sum(axis=0), ends.astype(np.float64)

    @made_once
    def _ways(self) -> tuple[Ints, Ints]:
        """Labels of the first tape on the shortest and the longest way to each node; −1: no way."""
        if isinstance(self.machine, Acyclic):  # which has none that are forbidden
            return self.machine.lengths(np.ascontiguousarray(self.label[:, 0]))
        alive = np.flatnonzero(self.score > -np.inf)
        order = alive[ascending(self.source[alive].astype(np.int64))]
        row = Ragged.from_rows(self.source[order], len(self.final)).offsets
        flat = Acyclic(row, self.target[order], self.score[order], self.final, self.begins)
        return flat.lengths(np.ascontiguousarray(self.label[order, 0]))

    def furthest(self) -> int:
        """Return the last position that a path from the start reaches; what follows is dead."""
        return int(self.position[self._ways[1] >= 0].max())

    # --- What arcs say ------------------------------------------------------------------------

    def covers(self, tape: int) -> Reading:
        """Return the label that the tokens of each arc are under.

        It is not kept: what is as large as the arcs costs more to hold than to make again.
        """
        label, start = self.under[:, tape], self._place[self.source]
        end = start + 1 if self.at is None else self._place[self.target]
        if not (label < 0).any():
            return Reading(slice(None), start, end, label, units=self.at is None)
        arc = np.flatnonzero(label >= 0)
        return Reading(arc, start[arc], end[arc], label[arc], units=self.at is None)

    @property
    def ends(self) -> Longs:
        """The position where what begins with each arc ends, [A, K]; −1: that is not known."""
        if self.end is not None:
            return self.end
        return np.where(self.label >= 0, self.position[self.target][:, None], -1)

    def begun(self, tape: int) -> Reading | None:
        """Return what begins with each arc; None where it is not known where that ends."""
        label, end = self.label[:, tape], self.ends[:, tape]
        arc = np.flatnonzero(label >= 0)
        if (end[arc] < 0).any():
            return None
        source = self.source[arc]
        shift = self._place[source] - self.position[source]
        return Reading(arc, self._place[source], end[arc] + shift, label[arc])

    def labels_along(self, path: Ints, tape: int, *, placed: bool = False) -> TapeLabels:
        """Return what stands on a tape along a path, or along paths one behind the other."""
        label = self.label[:, tape][path]
        begins: Longs | None = None
        first, last = path, path
        if self.at is not None and (carries := self.carries[:, tape][path]).any():
            carries &= ~self._first(path)  # what says nothing carries on, but not another path
            begins = np.flatnonzero(~carries)
            first, label = path[begins], label[begins]
            last = path[np.append(begins[1:], len(path)) - 1] if len(begins) else first
        if (label < 0).any():
            named = np.flatnonzero(label >= 0)
            first, last, label = first[named], last[named], label[named]
            begins = named if begins is None else begins[named]
        if not placed:
            return TapeLabels(label, begins)
        origin = self.origin[first] if tape == 0 else np.full(len(label), -1)
        start, end = self.position[self.source[first]], self.position[self.target[last]]
        if self.at is None:
            read = self._read_along(path)
            end = read if begins is None else read[begins]
        return TapeLabels(label, begins, start, end, origin)

    def _first(self, path: Ints) -> Bools:
        """Return which arcs of paths one behind the other are the first of one."""
        source = self.source[path]
        if len(self.begins) == 1:
            return np.asarray(source == self.begins[0], dtype=bool)
        return np.asarray(np.isin(source, self.begins), dtype=bool)

    def _read_along(self, path: Ints) -> Longs:
        """Return the labels of the first tape that paths one behind the other have read so far."""
        count = np.cumsum(self.label[path, 0] >= 0)
        first = np.flatnonzero(self._first(path))
        before = np.append(0, count)[first]
        read: Longs = count - np.repeat(before, np.diff(np.append(first, len(path))))
        return read

    # --- Some of the paths --------------------------------------------------------------------

    def trimmed(self) -> ArcEngine:
        """Return what lies on a path; nodes where rows begin stay in any case."""
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
        """The same with nodes at one position each, whatever path leads there.

        Where there is no text, a node may be behind several numbers of labels.
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
        """Return the labels on the shortest and the longest path of the only row; zeros: none."""
        shortest, longest = self._ways
        ends = (self.final > -np.inf) & (longest >= 0)
        if not ends.any():
            return 0, 0
        return int(shortest[ends].min()), int(longest[ends].max())

    # --- Other scores -------------------------------------------------------------------------

    def reweight(self, score: Floats) -> ArcEngine:
        """Return the same paths, each with the sum of its arcs' new scores."""
        return replace(
            self,
            score=np.where(self.score > -np.inf, score, -np.inf),
            final=_support(self.final),
            class_final=_support(self.class_final),
            pairs=None if self.pairs is None else PairScores(_support(self.pairs.pair)),
        )

    def scale(self, factor: float) -> ArcEngine:
        """Return the same paths with all scores times a factor; what is forbidden stays so."""
        found = replace(
            self,
            score=scaled(self.score, factor),
            final=scaled(self.final, factor),
            class_final=scaled(self.class_final, factor),
            pairs=None if self.pairs is None else PairScores(scaled(self.pairs.pair, factor)),
        )
        assert found.machine is not None  # noqa: S101 (it is checked when it is made)
        return found

    # --- Products -----------------------------------------------------------------------------

    def product(
        self, acceptor: Acceptor, tapes: Sequence[int], over: Over, *, written: bool = False
    ) -> ArcEngine:
        """Return the product with an acceptor, trimmed.

        Parameters
        ----------
        acceptor : Acceptor
        tapes : sequence of int
            What it reads.
        over : {"segments", "tokens"}
            segments: it reads what begins with an arc, once; tokens: the label of each token.
        written : bool
            One more tape has, for each arc, the acceptor's state before it and what it reads there:
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
            code = np.where(symbol[arc] >= 0, state * int(np.prod(sizes)) + symbol[arc], -1)
            moved = moved.with_tape(code.astype(np.int32))
        return replace(
            moved,
            begins=self.begins * states,
            at=None if self.at is None else np.repeat(self.at, states),
            final=(self.final[:, None] + acceptor.final).reshape(-1),
            source=(moved.source.astype(np.int64) * states + state).astype(np.int32),
            target=(moved.target.astype(np.int64) * states + after[arc, state]).astype(np.int32),
            score=moved.score + gain[arc, state],
        ).trimmed()

    def with_tape(self, label: Ints) -> ArcEngine:
        """Return the arcs with one tape more, of which each begins its label."""
        none = np.zeros(len(label), dtype=bool)
        parts: dict[str, Any] = {"label": label, "under": label, "carries": none}
        mine = {name: np.column_stack([getattr(self, name), parts[name]]) for name in TAPED}
        end = np.column_stack([self.ends, self.position[self.target]])
        return replace(self, **cast("dict[str, Any]", mine), end=end)


def _support(values: Floats) -> Floats:
    return np.where(values > -np.inf, 0.0, -np.inf)


def check_size(arcs: int, what: str) -> None:
    """Refuse to write out too many arcs."""
    if arcs > MOST_ARCS:
        raise TooLargeError(
            f"{what} has {arcs:,} arcs, which is too many to store: restrict the "
            "lattice, or use constraints over fewer labels"
        )

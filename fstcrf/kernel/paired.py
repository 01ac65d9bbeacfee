"""Acyclic machines with pair scores between neighbouring arcs: lattices of segments.

An arc has a left class and a right one. If an arc follows another at a node, the right class of the
first and the left class of the second have a pair score. Paths are sequences of arcs from a begin;
scores are natural logs, −inf forbids. The cost of a node is its right classes times its left ones,
for any number of arcs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, ShapeError, TooLargeError
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.kernel.native import array_in, array_out, check, ffi, frozen, lib
from fstcrf.lazy import made_once

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData


_MOST_PAIRS = 30_000_000


@dataclass(frozen=True, eq=False)
class PairScores:
    """Scores of pairs of classes, for any number of machines.

    Parameters
    ----------
    pair : float64 [K, R, L]
        K tables of right classes before left ones. The last right class marks beginnings.

    Raises
    ------
    NumericError
        NaN, +inf or beyond 1e300.
    """

    pair: Floats

    def __post_init__(self) -> None:
        if self.pair.ndim != 3 or not self.pair.size:
            raise ShapeError(f"pair is {list(self.pair.shape)}, expected [K, R, L]")
        bad = ~(self.pair <= 1e300) | ((self.pair < -1e300) & (self.pair > -np.inf))
        if bad.any():
            place = np.argwhere(bad)[0].tolist()
            raise NumericError(f"NaN, +inf or beyond 1e300: score of the pair {place}")
        object.__setattr__(self, "pair", frozen(np.ascontiguousarray(self.pair)))

    def product(self, other: PairScores) -> PairScores:
        """Return the sums of both scores; the classes are pairs of classes."""
        one, two = self.pair, other.pair
        (tables, r1, l1), (more, r2, l2) = one.shape, two.shape
        pair = np.empty((max(tables, more), (r1 - 1) * (r2 - 1) + 1, l1 * l2))
        inner = one[:, :-1, None, :, None] + two[:, None, :-1, None, :]
        pair[:, :-1] = inner.reshape(len(pair), -1, l1 * l2)
        pair[:, -1] = (one[:, -1, :, None] + two[:, -1, None, :]).reshape(len(pair), -1)
        return PairScores(pair)

    def with_inner(self) -> PairScores:
        """Return the same with one more class on both sides, for continuations within an arc."""
        tables, right, left = self.pair.shape
        pair = np.full((tables, right + 1, left + 1), -np.inf)
        pair[:, : right - 1, :left] = self.pair[:, :-1]
        pair[:, right, :left] = self.pair[:, -1]
        pair[:, right - 1, left] = 0.0
        return PairScores(pair)

    @made_once
    def top(self) -> float:
        """The largest score; 0 if all are −inf."""
        largest = float(self.pair.max())
        return largest if largest > -np.inf else 0.0

    @made_once
    def silent(self) -> bool:
        """Whether there are several classes, and no pair of neighbours has a score other than 0."""
        return self.pair.shape[2] > 1 and not self.pair[:, :-1].any()

    @made_once
    def turned(self) -> Floats:
        """Scores as [K, L, R]."""
        return np.ascontiguousarray(self.pair.transpose(0, 2, 1))

    @made_once
    def linear(self) -> Floats:
        """exp(pair − top), [K, R, L]."""
        return np.exp(self.pair - self.top)

    @made_once
    def turned_linear(self) -> Floats:
        """exp(pair − top), [K, L, R]."""
        return np.ascontiguousarray(self.linear.transpose(0, 2, 1))

    def fields(self) -> dict[str, object]:
        """Return the fields of the C structure."""
        tables, right, left = self.pair.shape
        names = {"pair": self.pair, "turned": self.turned}
        names |= {"linear": self.linear, "around": self.turned_linear}
        arrays = {k: array_in(v, np.float64, v.shape, k) for k, v in names.items()}
        return {"K": tables, "R": right, "L": left, "top": self.top, **arrays}


class PairedArcs(NamedTuple):
    """Arcs between nodes that are numbered in topological order."""

    source: Ints  # [A] nodes
    target: Ints  # [A]
    left: Ints  # [A] classes
    right: Ints  # [A]
    score: Floats  # [A]


class PairedSums(NamedTuple):
    """Posterior probabilities of the arcs of a machine, and expected counts."""

    arc: Floats  # [A]
    end: Floats  # [X] of ending in each exit slot
    pair_counts: Floats  # [K, R, L] expected numbers of neighbouring classes, if counted


def arranged(arcs: PairedArcs) -> Longs:
    """Return the order of a machine's arcs: by source, left class, then as given."""
    key = arcs.source.astype(np.int64) * (int(arcs.left.max(initial=0)) + 1) + arcs.left
    return ascending(key)


def ascending(key: Longs) -> Longs:
    """Return the stable order of keys that are often in order already."""
    if (key[1:] >= key[:-1]).all():
        return np.arange(len(key))
    return np.argsort(key, kind="stable").astype(np.int64)


def _slots(key: Longs, size: int) -> tuple[Longs, Longs]:
    """Return the distinct keys below `size`, ascending, and the position of each key among them."""
    if size > 8 * len(key) + 4096:
        keys, number = np.unique(key, return_inverse=True)
        return keys.astype(np.int64), number.reshape(-1).astype(np.int64)
    there = np.zeros(size, dtype=bool)
    there[key] = True
    keys = np.flatnonzero(there)
    number = np.empty(size, dtype=np.int64)
    number[keys] = np.arange(len(keys))
    return keys, number[key]


def _runs(key: Longs) -> Longs:
    """Return the starts of runs of equal keys, for ascending keys, and the end of the last run."""
    new = np.empty(len(key) + 1, dtype=bool)
    new[0] = new[-1] = True
    np.not_equal(key[1:], key[:-1], out=new[1:-1])
    return np.flatnonzero(new) if len(key) else np.zeros(1, dtype=np.int64)


class Paired:
    """A machine of one lattice or of several.

    Parameters
    ----------
    nodes : int
    arcs : PairedArcs
        In the order of `arranged`.
    final : float64 [nodes]
        −inf: no path ends there.
    class_final : float64 [R]
        Score of ending after an arc of a right class, added to the score of the node.
    pairs : PairScores
    begins : int64 [B]
        Nodes where lattices begin; no arc leads to them.
    table : int32 [nodes], optional
        Index of each node's table of pairs.

    Raises
    ------
    ShapeError
        Nodes or classes out of range, or arcs that do not lead to higher nodes.
    NumericError
        A score that is NaN, +inf or beyond 1e300.
    """

    def __init__(
        self,
        nodes: int,
        arcs: PairedArcs,
        final: Floats,
        class_final: Floats,
        pairs: PairScores,
        begins: Longs,
        table: Ints | None = None,
    ) -> None:
        _, right, left = pairs.pair.shape
        self.arcs, self.pairs, self.nodes = arcs, pairs, nodes
        if nodes < 1 or final.shape != (nodes,) or class_final.shape != (right,):
            raise ShapeError(f"finals does not match {nodes} nodes and {right} right classes")
        if len(begins) and not 0 <= begins.min() <= begins.max() < nodes:
            raise ShapeError(f"begins holds numbers outside [0, {nodes})")
        entered = arcs.source.astype(np.int64) * left + arcs.left
        if (entered[1:] < entered[:-1]).any():
            raise ShapeError("arcs are not sorted by source and left class")
        left_at = arcs.target.astype(np.int64) * right + arcs.right
        for key, size in ((entered, nodes * left), (left_at, nodes * right)):
            if len(key) and not (key.min() >= 0 and key.max() < size):
                raise ShapeError(f"nodes or classes outside [0, {nodes}) and their tables")
        self.arc_row = _runs(entered)
        entries = entered[self.arc_row[:-1]]
        exits, slot = _slots(np.concatenate([left_at, begins * right + (right - 1)]), nodes * right)
        self.exit = slot[: len(arcs.source)].astype(np.int32)
        self.begins = slot[len(arcs.source) :]
        self.entry_node, self.exit_node = entries // left, exits // right
        self.left = (entries - self.entry_node * left).astype(np.int32)
        self.right = (exits - self.exit_node * right).astype(np.int32)
        places = np.arange(nodes + 1)
        self.entry_row = np.searchsorted(entries, places * left)
        self.exit_row = np.searchsorted(exits, places * right)
        self.final = final[self.exit_node] + class_final[self.right]
        self.table = table
        where = ffi.new("int64_t *")
        status = lib.fc_check_paired(self._handle, where)
        if status == lib.FC_ENUMERIC:
            raise NumericError(f"NaN, +inf or beyond 1e300: score {where[0]} of a lattice")
        if status != lib.FC_OK:
            raise ShapeError(f"arcs do not lead to higher nodes: entry {where[0]}")

    @made_once
    def _handle(self) -> CData:
        nodes, arcs = self.nodes, len(self.exit)
        entries, exits = len(self.left), len(self.right)
        fields = {
            "entry_row": array_in(self.entry_row, np.int64, (nodes + 1,), "entry_row"),
            "exit_row": array_in(self.exit_row, np.int64, (nodes + 1,), "exit_row"),
            "arc_row": array_in(self.arc_row, np.int64, (entries + 1,), "arc_row"),
            "left": array_in(self.left, np.int32, (entries,), "left"),
            "right": array_in(self.right, np.int32, (exits,), "right"),
            "exit": array_in(self.exit, np.int32, (arcs,), "exit"),
            "score": array_in(self.arcs.score, np.float64, (arcs,), "score"),
            "final": array_in(self.final, np.float64, (exits,), "final"),
            "table": ffi.NULL,
            **self.pairs.fields(),
        }
        if self.table is not None:
            fields["table"] = array_in(self.table, np.int32, (nodes,), "table")
        sizes = {"M": nodes, "A": arcs, "I": entries, "X": exits}
        return ffi.new("fc_paired *", {**sizes, **fields})

    @made_once
    def best_suffix(self) -> tuple[Floats, Floats]:
        """Score of the best path from each entry and exit slot to an end; −inf: no path."""
        entry, exit_ = np.empty(len(self.left)), np.empty(len(self.right))
        check(lib.fc_paired_best(self._handle, array_out(entry), array_out(exit_)), "suffix")
        return entry, exit_

    @made_once
    def _sums(self) -> tuple[Floats, ...]:
        """Logs of the sums over all paths from each slot to an end, and two more arrays.

        These are the rounding errors of entries, then exits, [I + X], and the probability of each
        arc, [A], given a path that continues by its entry slot.
        """
        entry, exit_ = np.empty(len(self.left)), np.empty(len(self.right))
        rounding_errors, work = np.empty((2, len(entry) + len(exit_)))
        share = np.empty(len(self.exit))
        out = map(array_out, (entry, exit_, rounding_errors, share, work))
        check(lib.fc_paired_sums(self._handle, *out), "suffix")
        return entry, exit_, rounding_errors, share

    def best_scores(self) -> Floats:
        """Return the score of the best path from each begin, [B]; −inf: no path."""
        return self.best_suffix[1][self.begins]

    def log_partitions(self) -> Floats:
        """Return log Z of each begin, [B]."""
        return self._sums[1][self.begins]

    def best_paths(self) -> tuple[Ints, Longs]:
        """Return the arcs of the best paths, concatenated, and their offsets, [B + 1].

        Ties: ending first, then the smaller left class, then the arc with the smaller index, at the
        earliest node where the candidates differ. A lattice without a path has no arcs.
        """
        room = self.nodes + len(self.begins)  # lattices share no nodes, and every arc leads upwards
        path, offset = np.empty(room, dtype=np.int32), np.zeros(len(self.begins) + 1, np.int64)
        where = ffi.new("int64_t *")
        status = lib.fc_paired_paths(
            self._handle,
            array_in(self.best_suffix[0], np.float64, (len(self.left),), "suffix"),
            array_in(self.best_suffix[1], np.float64, (len(self.right),), "suffix"),
            len(self.begins),
            array_in(self.begins, np.int64, self.begins.shape, "begins"),
            room,
            array_out(path),
            array_out(offset),
            where,
        )
        check(status, "best_paths", where[0])
        return path[: offset[-1]], offset

    def marginals(self, *, counted: bool = False) -> PairedSums:
        """Return posterior probabilities, zeros without a path, and counts if requested."""
        arc, end = np.empty(len(self.exit)), np.empty(len(self.right))
        count = np.empty(self.pairs.pair.shape if counted else (0, 0, 0))
        work = np.empty(4 * len(self.left) + len(self.right))
        where = ffi.new("int64_t *")
        entry, exit_, rounding_errors, share = (
            array_in(one, np.float64, one.shape, "suffix") for one in self._sums
        )
        status = lib.fc_paired_marginals(
            self._handle,
            entry,
            exit_,
            rounding_errors,
            share,
            len(self.begins),
            array_in(self.begins, np.int64, self.begins.shape, "begins"),
            array_out(arc),
            array_out(end),
            array_out(count) if counted else ffi.NULL,
            array_out(work),
            where,
        )
        check(status, "marginals", where[0])
        return PairedSums(arc, end, count)

    @made_once
    def _plain(self) -> Acyclic | None:
        """The machine of nodes and arcs, if pairs of neighbours have no scores; otherwise None.

        The score of beginning with a class is added to the first arcs. If the arcs into a node end
        with different scores, these scores are added to the arcs. Then no arc may leave the node;
        otherwise there is no result.
        """
        arcs, nodes, exits = self.arcs, self.nodes, self.exit_node
        if not self.pairs.silent:
            return None
        row, begins = Ragged.from_rows(arcs.source, nodes).offsets, exits[self.begins]
        final, score = np.full(nodes, -np.inf), arcs.score
        final[exits] = self.final
        differ = np.zeros(nodes, dtype=bool)
        differ[exits[self.final != final[exits]]] = True
        if differ[begins].any() or (differ & (np.diff(row) > 0)).any():
            return None
        if differ.any():
            last = differ[arcs.target]
            score = score + np.where(last, self.final[self.exit], 0.0)
            final[differ] = 0.0
        first = np.zeros(nodes, dtype=bool)
        first[begins] = True
        table = 0 if self.table is None else self.table[arcs.source]
        initial = np.where(first[arcs.source], self.pairs.pair[table, -1, arcs.left], 0.0)
        score = score + initial
        return Acyclic(row, arcs.target.astype(np.int32), score, final, begins)

    @made_once
    def slots(self) -> Longs:
        """Node of each state of `explicit`, int64 [states]."""
        if self._plain is not None:
            return np.arange(self.nodes)
        return np.sort(np.concatenate([self.exit_node, self.entry_node]), kind="stable")

    @made_once
    def entry(self) -> Longs:
        """Entry slot of each arc, int64 [A]."""
        return Ragged(self.arc_row).rows()

    @made_once
    def explicit(self) -> tuple[Acyclic, Ints]:
        """The machine with pairs as separate arcs, and the original arc of each; −1: a pair.

        States are slots, exits before entries at each node. If no pair has a score, states are
        nodes, and there are no arcs for pairs.
        """
        if self._plain is not None:
            return self._plain, np.arange(len(self.exit), dtype=np.int32)
        exits = np.arange(len(self.right)) + self.entry_row[self.exit_node]
        entries = np.arange(len(self.left)) + self.exit_row[self.entry_node + 1]
        successors = Ragged(self.entry_row).select(self.exit_node)
        if successors.total > _MOST_PAIRS:
            raise TooLargeError(
                f"n best paths and samples need {successors.total:,} pairs of arcs written out: "
                "too many; restrict the lattice"
            )
        x, j = successors.rows(), successors.ranges(self.entry_row[self.exit_node])
        table = 0 if self.table is None else self.table[self.exit_node[x]]
        link = self.pairs.pair[table, self.right[x], self.left[j]]
        alive = link > -np.inf
        x, j, link = x[alive], j[alive], link[alive]
        source = np.concatenate([exits[x], entries[self.entry]])
        target = np.concatenate([entries[j], exits[self.exit]])
        which = np.concatenate([np.full(len(x), -1), np.arange(len(self.exit))]).astype(np.int32)
        order = np.argsort(source, kind="stable")
        final = np.full(len(exits) + len(entries), -np.inf)
        final[exits] = self.final
        machine = Acyclic(
            Ragged.from_rows(source[order], len(final)).offsets,
            target[order].astype(np.int32),
            np.concatenate([link, self.arcs.score])[order],
            final,
            exits[self.begins],
        )
        return machine, which[order]

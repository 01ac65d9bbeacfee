"""A batch of fully labelled sentences of a problem, with the data for their paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.lazy import made_once
from fstcrf.text.corpus.corpus import Column
from fstcrf.text.corpus.schemes import span_arrays
from fstcrf.training.memory import SweepCounts
from fstcrf.training.problem import Problem, Tables, arc_slots
from fstcrf.training.shards import N_SHARDS, part_count, shard_bounds


@dataclass(frozen=True)
class Batch:
    """Sentences of a problem.

    Parameters
    ----------
    problem : Problem
        The whole.
    sentences : int64 [B]
        Their numbers in it.
    offsets : int64 [B + 1]
    node, arc : SparseRows [n, ...]
        Attributes of the n tokens, and of the arcs into them, if there are such.
    state : int32 [n]
        Gold states.
    label : int32 [n]
        Gold labels.
    weight : float64 [B]
    """

    problem: Problem
    sentences: Longs
    offsets: Longs
    node: kernel.SparseRows
    arc: kernel.SparseRows | None
    state: Ints
    label: Ints
    weight: Floats

    @made_once
    def sentence_of(self) -> Longs:
        """int64 [n]: sentence of each token, counted in the batch."""
        return Ragged(self.offsets).rows()

    @made_once
    def first(self) -> Bools:
        """Bool [n]: is a token the first of its sentence."""
        out = np.zeros(len(self.state), dtype=bool)
        out[self.offsets[:-1]] = True
        return out

    @made_once
    def last(self) -> Bools:
        """Bool [n]: is a token the last of its sentence."""
        out = np.zeros(len(self.state), dtype=bool)
        out[self.offsets[1:] - 1] = True
        return out


@dataclass(frozen=True, slots=True)
class BatchPotentials:
    """BatchPotentials of a batch, natural-log scores.

    Parameters
    ----------
    node : float64 [n, S]
    graph : Graph
        Arcs, beginnings and ends.
    """

    node: Floats
    graph: kernel.Graph

    @classmethod
    def of(cls, batch: Batch, tables: Tables, scale: float = 1.0) -> BatchPotentials:
        """Return the potentials of a batch at ``scale`` times the weights of the tables."""
        topology = batch.problem.topology
        node = topology.node_potentials(batch.node.times(tables.node))
        slots = arc_slots(tables, batch.arc)
        if scale == 1.0:
            return cls(node, topology.graph(slots, tables.initial, tables.final))
        ends = scale * tables.initial, scale * tables.final
        return cls(scale * node, topology.graph(scale * slots, *ends))


def batch_of(problem: Problem, sentences: Longs) -> Batch:
    """Return some sentences of a problem, in the order given."""
    rows = Ragged(problem.offsets)
    tokens = rows.entries(sentences)
    return Batch(
        problem,
        sentences,
        rows.select(sentences).offsets,
        problem.node.taken(tokens),
        None if problem.arc is None else problem.arc.taken(tokens),
        problem.states[tokens],
        problem.topology.state_label[problem.states[tokens]],
        problem.weight[sentences],
    )


def batches(problem: Problem) -> Iterator[Batch]:
    """Split a problem into batches that depend only on its length."""
    for first, last in pairwise(shard_bounds(problem.offsets)):
        tokens, part = problem.part(first, last)
        state = problem.states[tokens]
        label = problem.topology.state_label[state]
        numbers = np.arange(first, last)
        yield Batch(problem, numbers, part.offsets, part.node, part.arc, state, label, part.weight)


# --- Segments of sentences ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of tokens that do not overlap, in order.

    Parameters
    ----------
    start, end : int64 [M]
        First token and the token after the last one.
    type : int64 [M]
        Number of the type.
    """

    start: Longs
    end: Longs
    type: Longs

    def __len__(self) -> int:
        """Return the number of segments, M."""
        return len(self.start)

    def chosen(self, which: Bools) -> Segments:
        """Return some of the segments."""
        return Segments(self.start[which], self.end[which], self.type[which])

    def without(self, others: Segments, tokens: int) -> Segments:
        """Return the segments that are not among the others (of the same bounds and type)."""
        end, kind = np.full((2, tokens), -1, dtype=np.int64)
        end[others.start], kind[others.start] = others.end, others.type
        return self.chosen((end[self.start] != self.end) | (kind[self.start] != self.type))

    def with_next(self, offsets: Longs) -> Segments:
        """Return the segments, each extended by the next token of its sentence, if there is one.

        They may then overlap.

        Parameters
        ----------
        offsets : int64 [B + 1]
        """
        sentence = np.searchsorted(offsets, self.start, side="right")
        return Segments(self.start, np.minimum(self.end + 1, offsets[sentence]), self.type)


def label_segments(labels: Ints, offsets: Longs, names: tuple[str, ...]) -> Segments:
    """Return the spans of some sentences' labels, as conlleval reads them.

    Parameters
    ----------
    labels : int32 [n]
    offsets : int64 [B + 1]
    names : tuple of str
        The labels.
    """
    spans = span_arrays(Column(labels, names), offsets, "conlleval", illegal="repair")
    return Segments(spans.start, spans.end, spans.type.astype(np.int64))


def gold_segments(batch: Batch) -> Segments:
    """Return the spans of a batch's gold labels."""
    return label_segments(batch.label, batch.offsets, batch.problem.topology.labels)


def whole_sentences(batch: Batch) -> Segments:
    """Return every sentence as a segment."""
    return Segments(
        batch.offsets[:-1], batch.offsets[1:], np.zeros(len(batch.sentences), dtype=np.int64)
    )


def batch_bytes(problem: Problem, counts: SweepCounts, threads: int, vectors: int) -> int:
    """Return the bytes of an objective and of `vectors` additional float64 vectors."""
    shards = N_SHARDS * part_count(int(problem.offsets[-1]))
    return counts.objective(shards, threads) + 8 * vectors * counts.weights

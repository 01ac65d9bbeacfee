"""The likelihood of segmentations: which weights there are, value and gradient.

The vector theta lists, part after part: weights of attributes of tokens, as the first token of a
segment, within one, and as its last; of lengths and tails; of neighbouring labels; of first and
last labels; of features of whole segments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, Singles
from fstcrf.ext.course import Course
from fstcrf.ext.segments.gold import GoldSegments
from fstcrf.ext.segments.kernel import (
    Extras,
    SegmentSums,
    SemiMarkov,
    segment_sums,
)
from fstcrf.ext.segments.phrases import observed_values
from fstcrf.kernel import PackedTable, SparseRows, padded
from fstcrf.kernel.native import Workers
from fstcrf.kernel.rows import packed_cells
from fstcrf.training.likelihood import LOG_ROUNDING, SummedLikelihood
from fstcrf.training.magnitudes import row_magnitudes
from fstcrf.training.optimiser import Optimiser, Staged
from fstcrf.training.preconditioning import InUnits, curvature_units
from fstcrf.training.problem import Blocks
from fstcrf.training.shards import N_SHARDS, shard_bounds
from fstcrf.training.support import SlotSets, entries

ROLES = 3
"""A token is the first of its segment, within it, or its last; the only one is all of these."""


@dataclass(frozen=True, eq=False)
class SegmentSpace(Blocks):
    """Which weights there are.

    Parameters
    ----------
    labels : int
    rows : int
        Attributes of tokens.
    cells : int64
        The cells that have a weight: row · 3 P + role · P + label, ascending.
    longest : int32 [labels]
    tails : bool [labels]
        Labels whose segments may be longer.
    values : int
        Weights of features of whole segments.
    """

    labels: int
    rows: int
    cells: Longs
    longest: Ints
    tails: Bools
    values: int

    @property
    def width(self) -> int:
        """Columns of a row of labels, P."""
        return padded(self.labels)

    @property
    def depth(self) -> int:
        """Tokens of the longest segment without a tail, D."""
        return int(self.longest.max(initial=1))

    @property
    def length_cells(self) -> Bools:
        """Which lengths and tails there are, bool [D + 2, L]."""
        lengths = np.arange(1, self.depth + 1)[:, None] <= self.longest
        return np.concatenate([lengths, np.tile(self.tails, (2, 1))])

    @property
    def blocks(self) -> tuple[int, ...]:
        """Number of weights of each part of theta."""
        lengths, labels = int(self.length_cells.sum()), self.labels
        return len(self.cells), lengths, labels**2, labels, labels, self.values

    def machine(self, theta: Floats) -> SemiMarkov:
        """Return the shared parameters under some weights."""
        _, lengths, pairs, initial, final, _ = self.parts(theta)
        labels, width = self.labels, self.width
        length = np.full((self.depth + 2, width), -np.inf)
        length[:, :labels][self.length_cells] = lengths
        pair = np.zeros((labels, width))
        pair[:, :labels] = pairs.reshape(labels, labels)
        ends = np.zeros((2, width))
        ends[:, :labels] = initial, final
        return SemiMarkov(self.longest, length, pair, ends[0], ends[1])

    def table(self, theta: Floats) -> PackedTable:
        """Return the weights of attributes of tokens, as tagging reads them."""
        weights = np.ascontiguousarray(self.parts(theta)[0])
        return PackedTable.from_cells(self.rows, ROLES * self.width, self.cells, weights)

    def tokens(self, table: PackedTable, rows: SparseRows) -> Floats:
        """Return the scores of tokens, float64 [N, 3, P]."""
        width = ROLES * self.width
        return table.sum_rows(rows, width).reshape(len(rows), ROLES, self.width)


def gold_roles(gold: GoldSegments) -> Iterator[tuple[Longs, Longs]]:
    """Yield the tokens and labels of each role in gold segments."""
    tokens = Ragged.from_lengths(gold.end - gold.start)
    yield gold.start, gold.label
    yield tokens.ranges(gold.start), tokens.repeat(gold.label)
    yield gold.end - 1, gold.label


def supported_cells(rows: SparseRows, gold: GoldSegments, labels: int) -> Longs:
    """Return the cells of attributes that gold segments show, ascending."""
    width = padded(labels)
    seen = SlotSets(rows.n_columns, ROLES * width)
    for role, (token, label) in enumerate(gold_roles(gold)):
        for block in np.array_split(np.arange(len(token)), max(1, len(token) // 20_000)):
            entry, count = entries(rows, token[block])
            seen.add(rows.index[entry], role * width + np.repeat(label[block], count))
    return seen.cells(ROLES * width)


@dataclass(frozen=True, eq=False)
class SegmentProblem:
    """Sentences to learn from.

    Parameters
    ----------
    offsets : int64 [B + 1]
    rows : SparseRows [N, R]
        Attributes of tokens.
    extras : Extras
        Weights of whole segments.
    gold : GoldSegments
    """

    offsets: Longs
    rows: SparseRows
    extras: Extras
    gold: GoldSegments

    def every(self, step: int) -> SegmentProblem:
        """Return every `step`-th sentence."""
        kept = np.arange(0, len(self.offsets) - 1, step)
        tokens, extra = Ragged(self.offsets), Ragged(self.extras.offset)
        own = extra.entries(kept)
        extras = Extras(extra.select(kept).offsets, self.extras.cell[own], self.extras.what[own])
        gold = self.gold.chosen(self.offsets, kept)
        rows = self.rows.taken(tokens.entries(kept))
        return SegmentProblem(tokens.select(kept).offsets, rows, extras, gold)


@dataclass(frozen=True, eq=False)
class _Shard:
    tokens: slice
    offsets: Longs
    rows: SparseRows
    extras: Extras


def _shards(problem: SegmentProblem) -> Iterator[_Shard]:
    for first, last in pairwise(shard_bounds(problem.offsets)):
        a, b = problem.offsets[[first, last]].tolist()
        offsets = problem.offsets[first : last + 1] - a
        extras = problem.extras.run(first, last)
        yield _Shard(slice(a, b), offsets, problem.rows.slice(a, b), extras)


class SegmentExpectation:
    """Sum of log Z over all segmentations, and expected counts.

    Parameters
    ----------
    problem : SegmentProblem
    space : SegmentSpace
    workers : Workers
        The result has the same bits for any number of threads.

    Attributes
    ----------
    value_sums : float64 [2, size] or None
        Magnitudes of attribute values, as `sums_of_squares` returns them.
    """

    def __init__(self, problem: SegmentProblem, space: SegmentSpace, *, workers: Workers) -> None:
        self._space, self._workers = space, workers
        self._shards = list(_shards(problem))
        self._tokens = np.zeros((int(problem.offsets[-1]), ROLES * space.width))
        self._gradient = np.zeros(len(space.cells))  # by the weights of attributes
        self._blocks = list(_row_blocks(problem.rows.transposed(), space))
        self.value_sums = _value_sums(problem, space)
        self._table = packed_cells(space.rows, ROLES * space.width, space.cells)

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return the sum of log Z and the expected counts at theta."""
        parts = self._swept(theta.astype(np.float64, copy=False))
        return sum(math.fsum(part.log_z.tolist()) for part in parts), self._collected(parts)

    def curvature(self, theta: Singles | Floats) -> Floats:
        """Return about how much each count changes with its weight, float64 [size].

        For weights of attributes with values 0 and 1, it is the sum of p (1 − p) over the tokens,
        with p the probability that the attribute counts there; for other values, at most the sum of
        x² / 4; for other weights, the expected count.
        """
        parts = self._swept(theta.astype(np.float64, copy=False), lambda p: p * (1.0 - p))
        curvature = self._collected(parts)
        if self.value_sums is not None:
            times, squares = self.value_sums
            np.copyto(curvature, squares / 4.0, where=times != squares)
        return curvature

    def _swept(
        self, theta: Floats, of: Callable[[Floats], Floats] | None = None
    ) -> list[SegmentSums]:
        """Return the sums of all shards; a function of tokens' counts is collected."""
        space = self._space
        machine, parts = space.machine(theta), space.parts(theta)
        table, values = self._table(parts[0]), np.ascontiguousarray(parts[-1])

        def swept(shard: _Shard) -> SegmentSums:
            tokens = space.tokens(table, shard.rows)
            out = self._tokens[shard.tokens]
            counts = out.reshape(tokens.shape)
            sums = segment_sums(machine, shard.offsets, tokens, shard.extras, values, out=counts)
            if of is not None:
                out[:] = of(out)
            return sums._replace(token=np.zeros(0))

        totals = list(self._workers.map(swept, self._shards))
        self._workers.each(self._gather, self._blocks)
        return totals

    def _gather(self, block: _RowBlock) -> None:
        out = self._gradient[block.cells]
        block.rows.cells(self._tokens, block.first, block.slot, out=out)

    def _collected(self, parts: list[SegmentSums]) -> Floats:
        """Return expected counts, as theta has them; shards are added up in their order."""
        space = self._space
        labels = space.labels

        def total(name: str) -> Floats:
            found = getattr(parts[0], name).copy()
            for part in parts[1:]:
                found += getattr(part, name)
            return np.asarray(found)

        return np.concatenate(
            [
                self._gradient,
                total("length")[:, :labels][space.length_cells],
                total("pair")[:, :labels].reshape(-1),
                total("initial")[:labels],
                total("final")[:labels],
                total("value"),
            ]
        )


def segment_likelihood(
    problem: SegmentProblem,
    space: SegmentSpace,
    *,
    l2: float,
    threads: int = 1,
    weight: float = 1.0,
) -> SummedLikelihood:
    """Return the penalised likelihood of gold segments; each sentence counts `weight` times."""
    workers = Workers(threads)
    expectation = SegmentExpectation(problem, space, workers=workers)
    return SummedLikelihood(
        expectation,
        observed(problem, space),
        l2=l2,
        threads=workers,
        value_sums=expectation.value_sums,
        weight=weight,
        rounding=LOG_ROUNDING,
    )


def _value_sums(problem: SegmentProblem, space: SegmentSpace) -> Floats | None:
    """Return the magnitudes of attribute values, as `sums_of_squares` does."""
    if problem.rows.value is None:
        return None
    sums = np.ones((2, space.size))
    rows = row_magnitudes(problem.rows, np.ones(len(problem.offsets) - 1), problem.offsets)
    sums[:, : len(space.cells)] = rows[:, space.cells // (ROLES * space.width)]
    return sums


@dataclass(frozen=True, eq=False)
class _RowBlock:
    """Attributes with the tokens that have them, and with their cells."""

    rows: SparseRows
    cells: slice
    first: Longs  # [rows + 1]
    slot: Ints


def _row_blocks(rows: SparseRows, space: SegmentSpace) -> Iterator[_RowBlock]:
    """Cut rows into blocks of about equally many entries."""
    width = ROLES * space.width
    first = np.searchsorted(space.cells, np.arange(len(rows) + 1) * width)
    slot = (space.cells % width).astype(np.int32)
    cuts = np.searchsorted(rows.indptr, np.linspace(0, len(rows.index), N_SHARDS + 1)[1:-1])
    for a, b in pairwise(sorted({0, *cuts.tolist(), len(rows)})):
        cells = slice(*first[[a, b]].tolist())
        yield _RowBlock(rows.slice(a, b), cells, first[a : b + 1] - first[a], slot[cells])


def observed(problem: SegmentProblem, space: SegmentSpace) -> Floats:
    """Return the count of each weight in the gold segments, float64 [size]."""
    gold, labels, width = problem.gold, space.labels, space.width
    counts = np.zeros(len(space.cells))
    for role, (token, label) in enumerate(gold_roles(gold)):
        for block in np.array_split(np.arange(len(token)), max(1, len(token) // 20_000)):
            entry, count = entries(problem.rows, token[block])
            row = problem.rows.index[entry].astype(np.int64)
            cell = (row * ROLES + role) * width + np.repeat(label[block], count)
            place = np.searchsorted(space.cells, cell)
            there = place < len(space.cells)
            there[there] = space.cells[place[there]] == cell[there]
            value = problem.rows.value
            mass = None if value is None else value[entry][there].astype(np.float64)
            counts += np.bincount(place[there], weights=mass, minlength=len(counts))
    length = gold.end - gold.start
    lengths = np.zeros((space.depth + 2, labels))
    longest = space.longest[gold.label]
    short = length <= longest
    np.add.at(lengths, (length[short] - 1, gold.label[short]), 1.0)
    np.add.at(lengths, (np.full((~short).sum(), space.depth), gold.label[~short]), 1.0)
    tail = (length - longest)[~short].astype(np.float64)
    np.add.at(lengths, (np.full(len(tail), space.depth + 1), gold.label[~short]), tail)
    first = np.isin(gold.start, problem.offsets)
    pairs, follows = np.zeros((labels, labels)), np.flatnonzero(~first)
    np.add.at(pairs, (gold.label[follows - 1], gold.label[follows]), 1.0)
    last = np.isin(gold.end, problem.offsets)
    short_gold = GoldSegments(gold.start[short], gold.end[short], gold.label[short])
    return np.concatenate(
        [
            counts,
            lengths[space.length_cells],
            pairs.reshape(-1),
            np.bincount(gold.label[first], minlength=labels).astype(np.float64),
            np.bincount(gold.label[last], minlength=labels).astype(np.float64),
            observed_values(
                problem.extras, short_gold, problem.offsets, space.depth, width, space.values
            ),
        ]
    )


# --- The course of training -----------------------------------------------------------------------

_SHARE, _FEW, _FIRST = 8, 2000, 30
"""From 2,000 sentences, every 8th sentence is trained on for the first 30 iterations."""

_UNIT_POWER = 13
"""64ths, of the curvature; chains have 22, which takes more iterations here, to a higher value."""


def segment_optimiser(
    problem: SegmentProblem, space: SegmentSpace, course: Course, *, staged: bool
) -> Optimiser:
    """Return the optimiser of a run.

    In stages, L-BFGS first covers most of the distance on a share of the sentences, then continues
    on all of them, in units that fit the curvature there. OWL-QN, whose penalty defines units, and
    runs that held-out data may end early use all sentences from the start.
    """
    l2, threads, start = course.l2, course.threads, np.zeros(space.size)
    sentences = len(problem.offsets) - 1
    if not staged or course.l1 > 0.0 or not l2 > 0.0 or sentences < _FEW:
        return course.minimiser(segment_likelihood(problem, space, l2=l2, threads=threads), start)
    share = problem.every(_SHARE)
    weight = sentences / (len(share.offsets) - 1)
    first = segment_likelihood(share, space, l2=l2, threads=threads, weight=weight)

    def on_all(theta: Floats) -> Optimiser:
        objective = segment_likelihood(problem, space, l2=l2, threads=threads)
        curvature = objective.curvature(theta)
        assert curvature is not None  # noqa: S101 (segments have it)
        unit = curvature_units(curvature, objective.value_units, _UNIT_POWER)
        return InUnits(objective, theta, unit, course.minimiser, Workers(threads))

    return Staged(course.minimiser(first, start), _FIRST, on_all)

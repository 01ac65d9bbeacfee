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
from fstcrf.errors import NumericError
from fstcrf.ext.course import Course
from fstcrf.ext.segments.gold import GoldSegments
from fstcrf.ext.segments.kernel import (
    Extras,
    SegmentSums,
    SemiMarkov,
    refilled,
    refilling,
    segment_sums,
)
from fstcrf.ext.segments.phrases import observed_values
from fstcrf.kernel import PackedTable, SparseRows, dot, padded
from fstcrf.kernel.native import Workers
from fstcrf.training.magnitudes import row_magnitudes, units
from fstcrf.training.optimiser import Optimiser, Staged
from fstcrf.training.preconditioning import InUnits, units_of
from fstcrf.training.shards import N_SHARDS, shard_bounds
from fstcrf.training.support import SlotSets, entries

ROLES = 3
"""A token is the first of its segment, within it, or its last; the only one is all of these."""


@dataclass(frozen=True, eq=False)
class SegmentSpace:
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
    def bounds(self) -> list[int]:
        """The bounds of the parts of theta."""
        sizes = (
            len(self.cells),
            int(self.length_cells.sum()),
            self.labels**2,
            self.labels,
            self.labels,
            self.values,
        )
        bounds: list[int] = Ragged.from_lengths(sizes).offsets.tolist()
        return bounds

    @property
    def size(self) -> int:
        """Weights."""
        return self.bounds[-1]

    def parts(self, theta: Floats) -> list[Floats]:
        """Return theta cut into its parts."""
        return [theta[a:b] for a, b in pairwise(self.bounds)]

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


class SegmentLikelihood:
    """Penalised negative log-likelihood of gold segments, for batch optimisers.

    Parameters
    ----------
    problem : SegmentProblem
    space : SegmentSpace
    l2 : float
        Coefficient of |theta|².
    threads : int
        The result has the same bits for any number.
    weight : float
        How often each sentence counts.
    """

    def __init__(
        self,
        problem: SegmentProblem,
        space: SegmentSpace,
        *,
        l2: float,
        threads: int = 1,
        weight: float = 1.0,
    ) -> None:
        self._weight = weight
        self.l2, self.size, self.evaluations, self.noise = l2, space.size, 0, 0.0
        self._space, self._workers = space, Workers(threads)
        self._shards = list(_shards(problem))
        self._tokens = np.zeros((int(problem.offsets[-1]), ROLES * space.width))
        self._gradient = np.zeros(len(space.cells))  # by the weights of attributes
        self._blocks = list(_row_blocks(problem.rows.transposed(), space))
        self.observed = observed(problem, space)
        self._value_sums = _value_sums(problem, space)
        self._packed: tuple[PackedTable, tuple[Longs, Longs, Longs]] | None = None

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta, float64 [size].

        Raises
        ------
        NumericError
            The value is not finite.
        """
        self.evaluations += 1
        parts = self._swept(theta)
        loss = sum(math.fsum(part.log_z.tolist()) for part in parts)
        # No labelling has more than the sum of all: a value below zero is due to rounding.
        value = self._weight * max(loss - dot(theta, self.observed), 0.0)
        value += self.l2 * dot(theta, theta)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        self.noise = 2.0**-48 * abs(self._weight * loss)
        gradient = self._collected(parts)
        gradient -= self.observed
        if self._weight != 1.0:
            gradient *= self._weight
        gradient += 2.0 * self.l2 * theta
        return value, gradient

    @property
    def value_units(self) -> Singles | None:
        """Units of weights, float32 [size], that make up for the values of attributes (`units`)."""
        sums = self._value_sums
        return None if sums is None else units(self._weight * sums, self.l2)

    def curvature(self, theta: Floats) -> Floats:
        """Return about how much the gradient changes with each weight, float64 [size].

        For weights of attributes with values 0 and 1, it is the sum of p (1 − p) over the tokens,
        with p the probability that the attribute counts there; for other values, at most the sum of
        x² / 4; for other weights, the expected count.
        """
        parts = self._swept(theta, lambda p: p * (1.0 - p))
        curvature = self._collected(parts)
        if self._value_sums is not None:
            times, squares = self._weight * self._value_sums
            np.copyto(curvature, squares / 4.0, where=times != squares)
        return curvature + 2.0 * self.l2

    def _swept(
        self, theta: Floats, of: Callable[[Floats], Floats] | None = None
    ) -> list[SegmentSums]:
        """Return the sums of all shards; a function of tokens' counts is collected."""
        space = self._space
        machine, table = space.machine(theta), self._table(theta)
        values = np.ascontiguousarray(space.parts(theta)[-1])

        def swept(shard: _Shard) -> SegmentSums:
            tokens = space.tokens(table, shard.rows)
            out = self._tokens[shard.tokens]
            counts = out.reshape(tokens.shape)
            sums = segment_sums(machine, shard.offsets, tokens, shard.extras, values, out=counts)
            if of is not None:
                out[:] = of(out)
            return sums._replace(token=np.zeros(0))

        parts = list(self._workers.map(swept, self._shards))
        self._workers.each(self._gather, self._blocks)
        return parts

    def _table(self, theta: Floats) -> PackedTable:
        """Return the weights of attributes, in the table of the evaluation before."""
        if self._packed is None:
            table = self._space.table(theta)
            self._packed = table, refilling(table, self._space.cells)
        else:
            table, at = self._packed
            self._packed = refilled(table, self._space.parts(theta)[0], at), at
        return self._packed[0]

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


def _value_sums(problem: SegmentProblem, space: SegmentSpace) -> Floats | None:
    """Return the magnitudes of attribute values, as `magnitudes` does."""
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
        return course.minimiser(SegmentLikelihood(problem, space, l2=l2, threads=threads), start)
    share = problem.every(_SHARE)
    weight = sentences / (len(share.offsets) - 1)
    first = SegmentLikelihood(share, space, l2=l2, threads=threads, weight=weight)

    def on_all(theta: Floats) -> Optimiser:
        objective = SegmentLikelihood(problem, space, l2=l2, threads=threads)
        unit, of_values = objective.curvature(theta), objective.value_units
        if of_values is None:
            unit = units_of(unit, _UNIT_POWER)
        else:
            own = of_values.astype(np.float64)
            unit = own * units_of(unit * own**2, _UNIT_POWER)
        return InUnits(objective, theta, unit, course.minimiser, Workers(threads))

    return Staged(course.minimiser(first, start), _FIRST, on_all)

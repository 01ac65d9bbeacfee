"""The data of a batch training: parts in any process; one tree adds their sums.

A text of more than 2^20 tokens consists of several problems (`training/shards.py`). An executor
places them, maps functions over them and folds by a tree; a text in memory is placed by the local
one. Arguments and results of functions that go to parts are arrays, so that processes and machines
can exchange them. A worker without a state reports it and receives instructions for making it, so
that a killed worker, a new one and the first call are one case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, Singles
from fstcrf.errors import OptionError
from fstcrf.kernel import ShardAttributes, SparseRows
from fstcrf.kernel.native import Workers
from fstcrf.lazy import made_once
from fstcrf.machines.topology import DefaultArcs
from fstcrf.training.executors.executor import Placement, local
from fstcrf.training.expectation import Expectation, SweepPlan, part_expectation, single_arcs
from fstcrf.training.magnitudes import largest_value, sums_of_squares, valued
from fstcrf.training.preconditioning import (
    DiagonalHessian,
    Groups,
    Sharing,
    merged_attributes,
    prints,
    tied_space,
)
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.shards import (
    added,
    attribute_layout,
    default_arcs_of,
    parts_of,
    start_step,
    sweepable,
)
from fstcrf.training.support import observed_counts

Precision = Literal["float32", "float64"]
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class DataCounts:
    """Sizes of the data, which determine the course of a batch training.

    Parameters
    ----------
    sentences, tokens : int
    entries : int
        Number of attributes over all tokens, without attributes of arcs.
    labelled : int
        Number of sentences whose labels are all known.
    valued : bool
        Whether attributes have values other than 1.
    largest : float
        Largest absolute value of an attribute, at least 1.
    """

    sentences: int
    tokens: int
    entries: int
    labelled: int
    valued: bool
    largest: float

    @classmethod
    def of(cls, parts: Placement) -> DataCounts:
        """Return the sizes of all parts together."""
        sizes = zip(*parts.map(part_counts), strict=True)
        sentences, tokens, entries, labelled, values, largest = sizes
        sums = sum(sentences), sum(tokens), sum(entries), sum(labelled)
        return cls(*sums, any(values), max(largest))


class Store(Protocol):
    """Another memory for the arrays of a part, such as files."""

    def ready(self) -> None:
        """Begin to read the arrays."""

    def rest(self) -> None:
        """Give memory back until the next use."""

    def fresh(self) -> Store:
        """Return an empty store of the same kind."""

    def kept(self, problem: Problem) -> Problem:
        """Return a problem whose arrays are stored."""

    def attributes(self, shards: Iterable[ShardAttributes]) -> Iterable[ShardAttributes]:
        """Return the attributes of shards, stored in the order in which they are swept."""


def store_of(part: Problem) -> Store | None:
    """Return the store that has the arrays of a part, if there is one."""
    store: Store | None = getattr(part, "store", None)
    return store


# --- Functions that go to parts -------------------------------------------------------------------


def part_counts(part: Problem) -> tuple[int, int, int, int, bool, float]:
    """Return the sizes of a part, in the order of `DataCounts`."""
    labelled = int(np.count_nonzero(~part.partial))
    sizes = len(part.weight), int(part.offsets[-1]), len(part.node.index), labelled
    return *sizes, valued(part), largest_value(part)


def part_prints(part: Problem) -> NDArray[np.uint64]:
    """Return the fingerprints of attributes."""
    return prints(part.node, part.first_token)


def part_start(part: Problem, step: int) -> Problem | None:
    """Return the sentences that stochastic epochs begin with; stored arrays are copied."""
    numbers = np.arange(-part.first % step, len(part.weight), step)
    numbers = numbers[~part.partial[numbers]]  # whose labels are all known
    if store_of(part) is None and len(numbers) == len(part.weight):
        return part
    return part.chosen(numbers) if len(numbers) else None


def part_tied(part: Problem, keep: Bools, group: Ints) -> Problem:
    """Return a part in which tied attributes are one."""
    merged = replace(part, node=merged_attributes(part.node, keep, group))
    store = store_of(part)
    return merged if store is None else store.fresh().kept(merged)


class Engine(NamedTuple):
    """A part that is ready to be summed, and the problem if the Hessian may need it.

    `ready` begins to read stored arrays, `rest` gives memory back until the next use.
    """

    expectation: Callable[[], Expectation]
    problem: Problem | None
    ready: Callable[[], None] | None = None
    rest: Callable[[], None] | None = None


def part_engine(
    part: Problem, space: ParameterSpace, plan: SweepPlan | None, threads: int
) -> Engine:
    """Return a part ready to be summed."""
    store, workers = store_of(part), Workers(threads)
    needed = part if plan is None or not single_arcs(space.topology) else None
    if store is None:
        made = part_expectation(part, space, plan, workers=workers)
        return Engine(lambda: made, needed)
    if plan is None:  # scratch is not kept between two calls
        anew = partial(part_expectation, part, space, None, workers=workers)
        return Engine(anew, part, store.ready, store.rest)
    store = store.fresh()
    kept = part_expectation(
        part, space, plan, workers=workers, keep=store.attributes, stored=store.kept
    )
    return Engine(lambda: kept, needed, store.ready, store.rest)


def part_expected(part: Engine, theta: Singles | Floats) -> tuple[float, Floats]:
    """Return value and gradient."""
    return part.expectation()(theta)


def part_curvature(part: Engine, theta: Singles | Floats) -> Floats | None:
    """Return the sums of variances, or `None` if the part does not support them."""
    return part.expectation().curvature(theta)


def part_hessian(
    part: Engine, space: ParameterSpace, l2: float, scale: Floats, u: Floats
) -> Floats:
    """Return the sums of variances by the reference."""
    if part.problem is None:
        raise OptionError("this engine computes the curvature itself, expected one with a problem")
    return DiagonalHessian(part.problem, space, l2=l2, scale=scale).variances(u)


# --- The text -------------------------------------------------------------------------------------


@dataclass(eq=False)
class Evidence:
    """The data of a batch training: parts of a text, and the weights that exist.

    Parameters
    ----------
    parts : Placement
        Of problems, whose numbers in the text are known.
    space : ParameterSpace
    offsets : int64 [B + 1]
        Of all sentences.
    counts : DataCounts
    threads, part_threads : int
        Of this process, and of each that has parts.
    members : int32 [size], optional
        Number of original parameters of each, if attributes of equal tokens are merged.
    here : bool
        Whether all parts are in the memory of this process.
    """

    parts: Placement
    space: ParameterSpace
    offsets: Longs
    counts: DataCounts
    threads: int = 1
    part_threads: int = 1
    members: Ints | None = None
    here: bool = False

    @classmethod
    def of(cls, problem: Problem, space: ParameterSpace, *, threads: int = 1) -> Evidence:
        """Return the evidence of a problem in memory."""
        parts = local(parts_of(problem))
        return cls(parts, space, problem.offsets, DataCounts.of(parts), threads, threads, here=True)

    @made_once
    def default_arcs(self) -> DefaultArcs | None:
        """The arcs with weights as exceptions, if the fused kernel treats them so."""
        return default_arcs_of(self.space, self.offsets) if sweepable(self.space) else None

    def observed(self) -> Floats:
        """Return the feature counts of the gold paths."""
        return _writable(self.parts.fold(added, observed_counts, self.space))

    def value_sums(self) -> Floats | None:
        """Return the magnitudes of feature values (`sums_of_squares`); `None` if all are 1."""
        if not self.counts.valued:
            return None
        return _writable(self.parts.fold(added, sums_of_squares, self.space))

    def tied(self) -> tuple[Evidence, Sharing]:
        """Return the data with attributes of equal tokens merged; these data become invalid."""
        groups = Groups.of(_writable(self.parts.fold(added, part_prints)))
        space, sharing = tied_space(self.space, groups)
        parts = self.parts.then(part_tied, groups.keep, groups.group)
        return replace(self, parts=parts, space=space, members=sharing.members), sharing

    def start(self) -> Problem:
        """Return the sentences for initial stochastic epochs: every k-th with known labels."""
        step = start_step(int(self.offsets[-1]))
        chosen = [one for one in self.parts.map(part_start, step) if one is not None]
        if not chosen:
            raise OptionError(
                "stochastic_epochs need sentences whose labels are all known, and there are none"
            )
        return chosen[0] if len(chosen) == 1 else _concatenated(chosen)

    def summed(
        self, *, sweeps: bool = True
    ) -> tuple[Expectation, Floats, bool, int, Floats | None]:
        """Make parts ready to be summed, and return the terms of their likelihood.

        These are the expectation, the feature counts of the gold paths, whether the fused kernel
        sums some sentences, the number of first weights whose gold score the expectation includes,
        and the magnitudes of feature values. Without `sweeps`, all sums are by the float64
        reference.
        """
        space, counts, plan = self.space, self.counts, None
        observed, sums = self.observed(), self.value_sums()
        if sweeps and sweepable(space):
            plan = SweepPlan(attribute_layout(space), self.default_arcs, counts.valued)
        self.parts = self.parts.then(part_engine, space, plan, self.part_threads)
        fused = plan is not None and counts.labelled > 0
        scored = space.bounds[1] if fused and counts.valued else 0
        return Summed(self.parts), observed, fused, scored, sums

    def hessian(self, l2: float, u: Floats) -> Floats:
        """Return the approximate diagonal of the Hessian by a reference that needs memory."""
        scale = np.ones(self.space.size) if self.members is None else np.sqrt(self.members)
        total = self.parts.fold(added, part_hessian, self.space, l2, scale, u)
        return np.asarray(_writable(total) * scale**2 + 2.0 * l2)


class Summed(NamedTuple):
    """The sum of the parts' expectations, by the tree over their numbers."""

    parts: Placement

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        loss, gradient = self.parts.fold(both_added, part_expected, theta)
        return float(loss), _writable(gradient)

    def curvature(self, theta: Singles | Floats) -> Floats | None:
        """Return the sums of variances, float64 [size]; `None` if a part cannot compute them."""
        curvature = self.parts.fold(added_known, part_curvature, theta)
        return None if curvature is None else _writable(curvature)


def _writable(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a writable array in the kernel's layout."""
    return np.require(array, requirements=["C", "A", "W"])


def both_added(one: tuple[float, Floats], other: tuple[float, Floats]) -> tuple[float, Floats]:
    """Add value and gradient of two parts; the first gradient is changed."""
    return one[0] + other[0], added(one[1], other[1])


def added_known(one: Floats | None, other: Floats | None) -> Floats | None:
    """Add arrays unless one is `None`; the first is changed."""
    return None if one is None or other is None else added(one, other)


def _concatenated(problems: Sequence[Problem]) -> Problem:
    """Return successive sentences as one problem."""
    one = problems[0]
    arcs = [p.arc for p in problems if p.arc is not None]
    return Problem(
        one.topology,
        Ragged.from_lengths(np.concatenate([np.diff(p.offsets) for p in problems])).offsets,
        _stacked([p.node for p in problems]),
        _stacked(arcs) if arcs else None,
        np.concatenate([p.allowed for p in problems]),
        np.concatenate([p.weight for p in problems]),
    )


def _stacked(rows: Sequence[SparseRows]) -> SparseRows:
    value = None
    if any(one.value is not None for one in rows):
        ones = [np.ones(len(r.index), np.float32) if r.value is None else r.value for r in rows]
        value = np.concatenate(ones)
    bounds = Ragged.from_lengths(np.concatenate([np.diff(one.indptr) for one in rows])).offsets
    return SparseRows(bounds, np.concatenate([r.index for r in rows]), value, rows[0].n_columns)

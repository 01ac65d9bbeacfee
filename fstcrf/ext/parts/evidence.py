"""Parts of a text as evidence: each part is summed on its worker, and one tree adds the sums.

The functions of this module go to the parts. Their arguments and results are arrays, so that
processes and machines can exchange them.

Parts. A text of more than 2^20 tokens consists of several such problems, *parts*, whose number is a
function of the tokens; a binary tree over their numbers adds their expectations
(`training/shards.py`, `executors/executor.py`). Below that size, shards are summed sequentially
into one vector. Optimisers access the data through a protocol, `Evidence`: `InMemory` is a problem
here, `SpreadEvidence` parts on workers. An executor places states, maps functions over them and
folds by the tree. Workers hold states by number; a worker without a state reports it and receives
instructions for making it, so that a killed worker, a new one and the first call are one case.
`ext/parts/texts.py` reads files into parts, in passes that assign the same numbers as one machine:
strings by their first appearance, keys counted and sorted, fingerprints of tied attributes added.
Within a limit of memory (`ext/parts/spool.py`), arrays are in unnamed mapped files, and their pages
are released after each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, Singles
from fstcrf.errors import OptionError
from fstcrf.ext.parts.spool import Spool
from fstcrf.kernel import SparseRows
from fstcrf.kernel.native import Workers
from fstcrf.lazy import made_once
from fstcrf.machines.topology import DefaultArcs, Topology
from fstcrf.training.evidence import NO_START, DataCounts, TiedEvidence
from fstcrf.training.executors.executor import Placement
from fstcrf.training.expectation import (
    Expectation,
    SweepPlan,
    added_known,
    both_added,
    part_expectation,
    single_arcs,
)
from fstcrf.training.likelihood import SummedLikelihood
from fstcrf.training.magnitudes import largest_value, sums_of_squares, valued
from fstcrf.training.preconditioning import (
    DiagonalHessian,
    Groups,
    merged_attributes,
    prints,
    tied_space,
)
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.shards import (
    added,
    attribute_layout,
    default_arcs_of,
    digest,
    start_sentences,
    start_step,
    sweepable,
)
from fstcrf.training.support import Extent, Support, observed_counts, support


@dataclass(frozen=True, eq=False)
class SentencePart:
    """Some sentences of a text.

    Parameters
    ----------
    problem : Problem
    first, first_token : int
        Numbers of the first sentence and token in the text.
    spool : Spool, optional
        The folder that arrays go to.
    """

    problem: Problem
    first: int
    first_token: int
    spool: Spool | None = None

    def ready(self) -> None:
        """Begin to read arrays in files."""
        if self.spool is not None:
            self.spool.ready()

    def rest(self) -> None:
        """Give memory back until the next use."""
        if self.spool is not None:
            self.spool.rest()
            self.problem.__dict__.pop("states", None)  # it is computed when it is asked for


class PartFacts(NamedTuple):
    """The properties of a part.

    entries : int; of attributes.
    labelled : int; number of sentences whose labels are all known.
    digest : bytes; a hash of all.
    valued : bool; attributes have values, other than 1.
    largest : float; size of the largest of those, at least 1.
    """

    entries: int
    labelled: int
    digest: bytes
    valued: bool
    largest: float


# --- Functions that go to parts -------------------------------------------------------------------


def facts(part: SentencePart) -> PartFacts:
    """Return the properties that parts need not compute again."""
    problem = part.problem
    labelled = int(np.count_nonzero(~problem.partial))
    largest = largest_value(problem)
    return PartFacts(len(problem.node.index), labelled, digest(problem), valued(problem), largest)


def part_support(part: SentencePart, features: Extent) -> Support:
    """Return which weights a part asks for."""
    return support(part.problem, features=features)


def supports_joined(one: Support, other: Support) -> Support:
    """Return the combined requests of two parts."""
    return one.joined(other)


def part_prints(part: SentencePart) -> NDArray[np.uint64]:
    """Return the prints of attributes."""
    return prints(part.problem.node, part.first_token)


def part_observed(part: SentencePart, space: ParameterSpace) -> Floats:
    """Return the feature counts of the gold paths."""
    return observed_counts(part.problem, space)


def part_magnitudes(part: SentencePart, space: ParameterSpace) -> Floats:
    """Return the magnitudes of feature values."""
    return sums_of_squares(part.problem, space)


def part_start(part: SentencePart, step: int) -> Problem | None:
    """Return the sentences that stochastic epochs begin with, their arrays copied."""
    numbers = start_sentences(part.problem, step, part.first)
    return part.problem.chosen(numbers) if len(numbers) else None


def part_tied(part: SentencePart, keep: Bools, group: Ints) -> SentencePart:
    """Return a part in which tied attributes are one."""
    node = merged_attributes(part.problem.node, keep, group)
    problem = replace(part.problem, node=node)
    if part.spool is None:
        return replace(part, problem=problem)
    spool = part.spool.fresh()
    return replace(part, problem=spool.kept(problem), spool=spool)


class Engine(NamedTuple):
    """A part that is ready to be summed; it has the problem if the reference may need it."""

    expectation: Expectation
    problem: Problem | None
    spool: Spool | None

    def ready(self) -> None:
        """Begin to read arrays in files."""
        if self.spool is not None:
            self.spool.ready()

    def rest(self) -> None:
        """Give memory back until the next use."""
        if self.spool is not None:
            self.spool.rest()


class _MadeAnew(NamedTuple):
    """A general expectation whose scratch is not kept between two calls."""

    part: SentencePart
    space: ParameterSpace
    threads: int

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        part, workers = self.part, _workers(self.threads)
        made = part_expectation(part.problem, self.space, None, workers=workers, first=part.first)
        return made(theta)

    def curvature(self, theta: Singles | Floats) -> None:
        """Return `None`: there is no curvature."""
        del theta


@lru_cache(maxsize=1)
def _workers(threads: int) -> Workers:
    """Return the threads that all parts of a process share."""
    return Workers(threads)


def part_engine(
    part: SentencePart, space: ParameterSpace, plan: SweepPlan | None, threads: int
) -> Engine:
    """Return the engine of a part."""
    problem, workers = part.problem, _workers(threads)
    kept = None if plan is not None and single_arcs(space.topology) else problem
    if part.spool is None:
        expectation = part_expectation(problem, space, plan, workers=workers, first=part.first)
        return Engine(expectation, kept, None)
    if plan is None:
        return Engine(_MadeAnew(part, space, threads), kept, part.spool)
    spool = part.spool.fresh()
    expectation = part_expectation(
        problem,
        space,
        plan,
        workers=workers,
        first=part.first,
        keep=spool.attributes,
        stored=spool.kept,
    )
    return Engine(expectation, kept, spool)


def part_expected(part: Engine, theta: Singles | Floats) -> tuple[float, Floats]:
    """Return value and gradient."""
    return part.expectation(theta)


def part_curvature(part: Engine, theta: Singles | Floats) -> Floats | None:
    """Return the sums of variances, or `None` if the part does not support them."""
    return part.expectation.curvature(theta)


def part_hessian(
    part: Engine, space: ParameterSpace, l2: float, scale: Floats, u: Floats
) -> Floats:
    """Return the sums of variances by the reference."""
    if part.problem is None:
        raise OptionError("this engine computes the curvature itself, expected one with a problem")
    return DiagonalHessian(part.problem, space, l2=l2, scale=scale).variances(u)


# --- The text as evidence -------------------------------------------------------------------------


class _Elsewhere:
    """Expectations of engines on workers."""

    def __init__(self, engines: Placement) -> None:
        self._engines = engines

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return value and gradient at theta."""
        loss, gradient = self._engines.fold(both_added, part_expected, theta)
        return float(loss), _own(gradient)

    def curvature(self, theta: Singles | Floats) -> Floats | None:
        """Return the sums of variances, or `None` if engines do not support them."""
        curvature: Floats | None = self._engines.fold(added_known, part_curvature, theta)
        return None if curvature is None else _own(curvature)


def _own(array: Any) -> Any:
    """Return a writable array in the kernel's layout."""
    return np.require(array, requirements=["C", "A", "W"])


class SpreadEvidence:
    """Parts of a text as evidence; a run asks for one likelihood of it.

    Parameters
    ----------
    parts : Placement
        Of `SentencePart`.
    space : ParameterSpace
    offsets : int64 [B + 1]
        Of all sentences.
    facts : sequence of PartFacts
    threads : int
        Of this process.
    part_threads : int
        Threads of each process that has parts.
    """

    def __init__(
        self,
        parts: Placement,
        space: ParameterSpace,
        offsets: Longs,
        facts: Sequence[PartFacts],
        *,
        threads: int = 1,
        part_threads: int = 1,
    ) -> None:
        self._part_threads = part_threads
        self._parts, self.space, self._offsets = parts, space, offsets
        self._facts, self._threads = facts, threads

    @property
    def topology(self) -> Topology:
        """The structure of labels."""
        return self.space.topology

    @made_once
    def counts(self) -> DataCounts:
        """The sizes of the evidence."""
        labelled = sum(part.labelled for part in self._facts)
        listed = labelled > 0 and sweepable(self.space)
        return DataCounts(
            sentences=len(self._offsets) - 1,
            tokens=int(self._offsets[-1]),
            entries=sum(part.entries for part in self._facts),
            labelled=labelled,
            listed=listed and self._default_arcs(self.space) is not None,
            largest=max(part.largest for part in self._facts),
        )

    def observed(self, space: ParameterSpace) -> Floats:
        """Return the feature counts of the gold paths."""
        counts: Floats = _own(self._parts.fold(added, part_observed, space))
        return counts

    def likelihood(self, l2: float) -> SummedLikelihood:
        """Return the likelihood of all weights."""
        return self._likelihood(self.space, l2, None)

    def tied(self, l2: float) -> TiedEvidence:
        """Return the likelihood where attributes of the same tokens are one."""
        groups = Groups.of(_own(self._parts.fold(added, part_prints)))
        space, sharing = tied_space(self.space, groups)
        self._parts = self._parts.then(part_tied, groups.keep, groups.group)
        likelihood = self._likelihood(space, l2, sharing.members)
        scale = np.sqrt(sharing.members)

        def hessian(l2: float, u: Floats) -> Floats:
            total: Floats = _own(self._parts.fold(added, part_hessian, space, l2, scale, u))
            return np.asarray(total * scale**2 + 2.0 * l2)

        return TiedEvidence(likelihood, sharing, hessian)

    def start(self) -> Problem:
        """Return the sentences for initial stochastic epochs: every k-th with known labels."""
        step = start_step(int(self._offsets[-1]))
        parts = [one for one in self._parts.map(part_start, step) if one is not None]
        if not parts:
            raise OptionError(NO_START)
        return parts[0] if len(parts) == 1 else _concatenated(parts)

    def close(self) -> None:
        """Forget the parts."""
        self._parts.close()

    def _likelihood(
        self, space: ParameterSpace, l2: float, members: Ints | None
    ) -> SummedLikelihood:
        observed, sums, plan = self.observed(space), None, None
        has_values = any(part.valued for part in self._facts)
        if has_values:
            sums = _own(self._parts.fold(added, part_magnitudes, space))
        if sweepable(space):
            plan = SweepPlan(attribute_layout(space), self._default_arcs(space), has_values)
        fused = plan is not None and self.counts.labelled > 0
        self._parts = self._parts.then(part_engine, space, plan, self._part_threads)
        return SummedLikelihood(
            _Elsewhere(self._parts),
            observed,
            l2=l2,
            fused=fused,
            threads=self._threads,
            members=members,
            scored=space.bounds[1] if fused and has_values else 0,
            value_sums=sums,
        )

    def _default_arcs(self, space: ParameterSpace) -> DefaultArcs | None:
        return default_arcs_of(space.topology, self._offsets, space)


def _concatenated(problems: Sequence[Problem]) -> Problem:
    """Return successive sentences as one problem."""
    one = problems[0]
    tokens = Ragged.from_lengths(int(p.offsets[-1]) for p in problems).offsets.tolist()
    arcs = [p.arc for p in problems if p.arc is not None]
    return Problem(
        one.topology,
        np.concatenate([[0], *(p.offsets[1:] + n for p, n in zip(problems, tokens, strict=False))]),
        _stacked([p.node for p in problems]),
        _stacked(arcs) if arcs else None,
        np.concatenate([p.allowed for p in problems]),
        np.concatenate([p.weight for p in problems]),
    )


def _stacked(rows: Sequence[SparseRows]) -> SparseRows:
    entries = Ragged.from_lengths(len(one.index) for one in rows).offsets.tolist()
    indptr = [one.indptr[1:] + n for one, n in zip(rows, entries, strict=False)]
    value = None
    if any(one.value is not None for one in rows):
        ones = [np.ones(len(r.index), np.float32) if r.value is None else r.value for r in rows]
        value = np.concatenate(ones)
    index = np.concatenate([one.index for one in rows])
    return SparseRows(np.concatenate([[0], *indptr]), index, value, rows[0].n_columns)

"""Questions to many lattices of any kinds at once.

Lattices that can be rows of one engine go to the kernel in one call. The answers depend neither on
the company of a lattice nor on the number of threads. Results are arrays; `Path` objects are made
when they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.kernel import Budget
from fstcrf.kernel.native import mapped
from fstcrf.lattices.dense import Dense
from fstcrf.lattices.pathquestions import ArrayT_co, refuse_options
from fstcrf.lattices.paths import Labels, LabelsT_co, Path
from fstcrf.lattices.questions import Questions
from fstcrf.lattices.tapes import Taped
from fstcrf.lazy import LazyModule
from fstcrf.machines.plans import Search, warn_unproven
from fstcrf.machines.plans.program import searched
from fstcrf.ragged import Ragged

if TYPE_CHECKING:
    from fstcrf.lattices import arcs
    from fstcrf.lattices.engine import Engine, Runs
else:
    arcs = LazyModule("fstcrf.lattices.arcs")

__all__ = ["best", "log_partition", "marginals", "nbest", "sample"]

AnswerT = TypeVar("AnswerT")

_RUN_TOKENS = 20_000
_RUN_BYTES = 64_000_000


@dataclass(frozen=True, eq=False)
class Group:
    """Lattices that are the rows of one engine, and where they stand among all lattices."""

    numbers: list[int]
    lattices: Sequence[Any]
    engine: Engine

    @cached_property
    def _log_z(self) -> list[float]:
        known: list[float] = self.engine.usual_log_z.tolist()
        return known

    def paths(self, row: int, runs: Runs) -> list[Path]:
        """Return the paths of one lattice, given as runs of its row."""
        found: list[Path] = self.lattices[row].paths(self.engine, runs, self._log_z[row])
        return found

    def check(self, scores: Floats) -> None:
        """Raise NoPathError, with its number, where the score of a lattice is −inf."""
        for k in np.flatnonzero(np.isneginf(scores)).tolist()[:1]:
            raise self.lattices[k].row.no_path().of_sentence(self.numbers[k])


def groups_of(
    lattices: Sequence[Questions], search: Search | None = None, *, clocked: bool = False
) -> list[Group]:
    """Sort lattices by what the rows of an engine share, in runs of bounded size."""
    alike: dict[Hashable, list[int]] = {}
    for number, lattice in enumerate(lattices):
        alike.setdefault(_shared(lattice), []).append(number)
    parts = (_groups(lattices, numbers, search, clocked=clocked) for numbers in alike.values())
    return [group for groups in parts for group in groups]


def _shared(lattice: Any) -> Hashable:
    row = getattr(lattice, "row", None)
    if row is None:
        raise OptionError(
            f"{lattice!r} is no Lattice: taggers make them by lattice(sentence); those of "
            "normalize='chain' are asked one by one"
        )
    same: Hashable = id(row.program) if isinstance(row, Taped) else row.engine.shared
    return same


def _groups(
    lattices: Sequence[Questions], numbers: list[int], search: Search | None, *, clocked: bool
) -> Iterator[Group]:
    members = [lattices[k] for k in numbers]
    one, rows = members[0].row, cast("Any", [lattice.row for lattice in members])
    if not isinstance(one, Taped):
        engines = [row.engine.clocked if clocked else row.engine for row in rows]
        yield Group(numbers, members, arcs.joined(engines))
        return
    program = one.program if search is None else searched(one.program, search)
    cells = int(np.prod(program.shape)) * program.decoder.machine.n_residual
    limit = max(1, min(_RUN_TOKENS, _RUN_BYTES // (8 * cells)))
    values = [row.values for row in rows]
    for first, end in Ragged.from_lengths([len(own[0]) for own in values]).runs(limit):
        run = numbers[first:end]
        yield Group(run, members[first:end], Dense(program, values[first:end], run))


def answered(
    lattices: Sequence[Questions],
    ask: Callable[[Group], AnswerT],
    threads: int,
    search: Search | None = None,
    *,
    clocked: bool = False,
) -> list[tuple[Group, AnswerT]]:
    """Ask every group, on threads; the groups do not depend on them.

    A group that was asked holds no joined potentials: the next one finds their memory, warm, and
    answers that are kept are not twice as large as the lattices.
    """
    whole_number(threads, "threads", least=1)
    groups = groups_of(lattices, search, clocked=clocked)

    def once(group: Group) -> AnswerT:
        found = ask(group)
        group.engine.forget()
        return found

    return list(zip(groups, mapped(once, groups, threads), strict=True))


# --- Best paths -----------------------------------------------------------------------------------


class Ranking(Sequence[list[Path[LabelsT_co]]], Generic[LabelsT_co]):
    """The n best paths of each lattice, best first."""

    def __init__(self, n: int, size: int, found: list[tuple[Group, Runs]]) -> None:
        self._n, self._size, self._found = n, size, found

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> list[Path[LabelsT_co]]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Path[LabelsT_co]]]: ...
    def __getitem__(
        self, index: int | slice
    ) -> list[Path[LabelsT_co]] | list[list[Path[LabelsT_co]]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        group, row, runs, own = self._places[range(len(self))[index]]
        found = group.paths(row, runs.of_row(row, own.start, own.stop))
        return cast("list[Path[LabelsT_co]]", found)

    @property
    def scores(self) -> list[Floats]:
        """The scores of each lattice's paths, falling."""
        places = [self._places[number] for number in range(len(self))]
        return [runs.score[own] for _, _, runs, own in places]

    @property
    def unproven(self) -> int:
        """Lattices some of whose paths are not proven to be the best."""
        return sum(
            int(((runs.proven < self._n) & (runs.bound > -np.inf)).sum())
            for _, runs in self._found
            if runs.proven is not None and runs.bound is not None
        )

    @cached_property
    def _places(self) -> dict[int, tuple[Group, int, Runs, slice]]:
        return {
            number: (group, row, runs, own)
            for group, runs in self._found
            for row, (number, own) in enumerate(
                zip(group.numbers, Ragged.from_lengths(runs.found).slices(), strict=True)
            )
        }


class Paths(Sequence["Path[LabelsT_co] | None"], Generic[LabelsT_co]):
    """The best path of each lattice; None for one without a path.

    Attributes
    ----------
    scores : float64 [B]
        −inf for a lattice without a path.
    exact : bool [B]
        The path is the best one, or there is none: proven.
    bounds : float64 [B]
        No path scores more; the score itself where that is proven.
    popped : int64 [B]
        States that a lazy search took from its queue; 0 where nothing was searched.
    """

    def __init__(self, lattices: Sequence[Questions], found: list[tuple[Group, Runs]]) -> None:
        size, self._lattices = len(lattices), lattices
        self.scores, self.exact = np.full(size, -np.inf), np.ones(size, dtype=bool)
        self.bounds, self.popped = self.scores.copy(), np.zeros(size, dtype=np.int64)
        self._ranking: Ranking[LabelsT_co] = Ranking(1, size, found)
        for group, runs in found:
            numbers = np.asarray(group.numbers)
            self.scores[numbers[runs.found > 0]] = runs.score
            if runs.proven is not None and runs.bound is not None and runs.popped is not None:
                self.bounds[numbers] = runs.bound
                self.exact[numbers] = np.isneginf(runs.bound) | (runs.proven > 0)
                self.popped[numbers] = runs.popped
        np.maximum(self.bounds, self.scores, out=self.bounds)

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def __getitem__(self, index: int) -> Path[LabelsT_co] | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path[LabelsT_co] | None]: ...
    def __getitem__(
        self, index: int | slice
    ) -> Path[LabelsT_co] | list[Path[LabelsT_co] | None] | None:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return next(iter(self._ranking[index]), None)

    def labels(self, number: int) -> Labels:
        """Return the labels of one path, as `Path.labels`; () for a lattice without a path."""
        path = self[number]
        return self._lattices[number].each(lambda _: ()) if path is None else path.labels


def best(
    lattices: Sequence[Questions[LabelsT_co, object]],
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Paths[LabelsT_co]:
    """Return the best path of each lattice.

    Parameters
    ----------
    lattices : sequence of Lattice
        Of any kinds.
    threads : int
        The answer does not depend on it.
    search : {"auto", "lazy", "expanded"}, optional
        How paths under a grammar are found, see `Lattice.constrained`; as compiled when absent.
        Not of lattices of arcs, which are written out.
    budget : Budget, optional
        When to give up on a lattice whose grammar is searched lazily: such a path is not ``exact``.

    Returns
    -------
    Paths
        A sequence of `Path`; None for a lattice without a path.

    Raises
    ------
    OptionError
        Threads below 1, another search, or what is no lattice.
    """
    paths = found_best(lattices, threads=threads, search=search, budget=budget)
    warn_unproven(int((~paths.exact).sum()), len(lattices))
    return paths


def found_best(
    lattices: Sequence[Questions[LabelsT_co, object]],
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Paths[LabelsT_co]:
    """Return what `best` does, without a warning of what is not proven."""
    return Paths(lattices, _runs(lattices, 1, threads, search, budget))


def nbest(
    lattices: Sequence[Questions[LabelsT_co, object]],
    n: int,
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Ranking[LabelsT_co]:
    """Return the n best paths of each lattice, best first; fewer where there are fewer.

    Parameters as for `best`.

    Raises
    ------
    OptionError
        n below 1; as `best`.
    """
    n = whole_number(n, "n", least=1, narrow=True)  # of empty sentences, too
    ranking = ranked(lattices, n, threads=threads, search=search, budget=budget)
    warn_unproven(ranking.unproven, len(lattices))
    return ranking


def ranked(
    lattices: Sequence[Questions[LabelsT_co, object]],
    n: int,
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Ranking[LabelsT_co]:
    """Return what `nbest` does, without a warning of what is not proven."""
    return Ranking(n, len(lattices), _runs(lattices, n, threads, search, budget))


def _runs(
    lattices: Sequence[Questions],
    n: int,
    threads: int,
    search: Search | None,
    budget: Budget | None,
) -> list[tuple[Group, Runs]]:
    def ask(group: Group) -> Runs:
        if not isinstance(group.engine, Dense):
            refuse_options({"search": search, "budget": budget})
        return group.engine.nbest(n, budget)

    return answered(lattices, ask, threads, search)


# --- Sums and samples -----------------------------------------------------------------------------


def log_partition(lattices: Sequence[Questions], *, threads: int = 1) -> Floats:
    """Return log Z of each lattice, float64 [B]; −inf where there is no path."""
    return _of_each(lattices, lambda engine: engine.log_z, threads)


def entropies(lattices: Sequence[Questions], *, threads: int = 1) -> Floats:
    """Return the entropy of each lattice's distribution over paths, in nats, float64 [B]."""
    return _of_each(lattices, lambda engine: engine.entropies(), threads)


def usual_log_z(lattices: Sequence[Questions], *, threads: int = 1) -> Floats:
    """Return log Z of each; NaN where that takes a product too large to expand for it."""
    return _of_each(lattices, lambda engine: engine.usual_log_z, threads)


def _of_each(
    lattices: Sequence[Questions], ask: Callable[[Engine], Floats], threads: int
) -> Floats:
    found = np.empty(len(lattices))
    for group, values in answered(lattices, lambda group: ask(group.engine), threads):
        found[group.numbers] = values
    return found


def marginals(
    lattices: Sequence[Questions[Any, ArrayT_co]], *, threads: int = 1
) -> list[ArrayT_co]:
    """Return the probability of each label at each token of each lattice.

    Returns
    -------
    list of float64 [T, L]
        Of several tapes, a tuple of such arrays for each lattice.

    Raises
    ------
    NoPathError
        A lattice without a path.
    """
    found: dict[int, ArrayT_co] = {}

    def ask(group: Group) -> list[Floats]:
        if isinstance(group.engine, Dense):
            return group.engine.marginals(range(len(group.lattices[0].on)), ())
        most = np.max([lattice.sizes for lattice in group.lattices], axis=0).tolist()
        tables = group.engine.marginals(range(len(most)), most)
        group.check(group.engine.log_z)
        return tables

    for group, tables in answered(lattices, ask, threads, clocked=True):
        same, only = isinstance(group.engine, Dense), len(tables) == 1
        rows = zip(group.numbers, group.lattices, group.engine.rows.slices(), strict=True)
        for number, lattice, tokens in rows:
            each = [table[tokens] for table in tables]
            if not same:  # rows of one engine may have other labels
                each = [part[:, :own] for part, own in zip(each, lattice.sizes, strict=True)]
            found[number] = cast("ArrayT_co", each[0] if only else tuple(each))
    return [found[number] for number in range(len(lattices))]


def sample(
    lattices: Sequence[Questions[LabelsT_co, object]], n: int, *, seed: int = 0, threads: int = 1
) -> list[list[LabelsT_co]]:
    """Return n independent samples from the distribution over each lattice's paths.

    Parameters
    ----------
    lattices : sequence of Lattice
        Of any kinds.
    n : int
    seed : int
        Of numpy's default generator; a lattice's samples depend on nothing but the seed and its
        place.
    threads : int

    Returns
    -------
    list of list of labels
        As `Path.labels`; of lattices with segments paths.

    Raises
    ------
    NoPathError
        A lattice without a path.
    OptionError
        A negative n or seed.
    """
    n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")

    def ask(group: Group) -> Runs:
        if not isinstance(group.engine, Dense):
            group.check(group.engine.log_z)
        generators = [np.random.default_rng([seed, number]) for number in group.numbers]
        return group.engine.sample(n, generators)

    found: dict[int, list[LabelsT_co]] = {}
    for group, runs in answered(lattices, ask, threads):
        paths = Ragged.from_lengths(runs.found).slices()
        for row, (number, own) in enumerate(zip(group.numbers, paths, strict=True)):
            mine = runs.of_row(row, own.start, own.stop)
            found[number] = lattices[number].drawn(group.engine, mine)
    return [found[number] for number in range(len(lattices))]

"""Questions to many lattices of any kinds at once.

Lattices that can be rows of one engine go to the kernel in one call. The answers depend neither on
the company of a lattice nor on the number of threads. Results are arrays; `Path` objects are made
when they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, overload

import numpy as np

from fstcrf.arguments import items_of, whole_number
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import LabelError, OptionError, ShapeError
from fstcrf.kernel import Budget
from fstcrf.kernel.native import mapped
from fstcrf.lattices.chains import ChainEngine
from fstcrf.lattices.engine import PathBatch
from fstcrf.lattices.inputs import SentenceInputs
from fstcrf.lattices.pathquestions import ArrayT_co, refuse_options
from fstcrf.lattices.paths import Labels, LabelsT_co, Path, labels_of_tapes, said_by_tapes, shares
from fstcrf.lattices.questions import Questions
from fstcrf.lazy import made_once
from fstcrf.machines.plans import Program, Search, warn_unproven
from fstcrf.machines.plans.program import searched
from fstcrf.ragged import RUN_TOKENS, Ragged

if TYPE_CHECKING:
    from fstcrf.lattices.engine import Engine, Labelling, Tape

AnswerT = TypeVar("AnswerT")
LatticeT = TypeVar("LatticeT")

AnyLattice: TypeAlias = Questions
"""A lattice of any kind."""

_RUN_BYTES = 64_000_000


class Batch(Sequence[LatticeT]):
    """Lattices in a row, and the engines whose rows they are.

    Parameters
    ----------
    lattices : sequence of Lattice
        Of any kinds.
    """

    def __init__(self, lattices: Sequence[LatticeT]) -> None:
        self._lattices = lattices

    def __len__(self) -> int:
        """Lattices."""
        return len(self._lattices)

    @overload
    def __getitem__(self, index: int) -> LatticeT: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LatticeT]: ...
    def __getitem__(self, index: int | slice) -> LatticeT | Sequence[LatticeT]:
        if isinstance(index, slice):
            return [self.row(k) for k in range(*index.indices(len(self)))]
        return self.row(range(len(self))[index])

    def __iter__(self) -> Iterator[LatticeT]:
        return map(self.row, range(len(self)))

    def row(self, k: int) -> LatticeT:
        """Return the k-th lattice."""
        return self._lattices[k]

    def select(self, which: Bools | Longs) -> Batch[LatticeT]:
        """Return some of the lattices, by numbers or bool [B]."""
        return Batch([self.row(k) for k in np.arange(len(self))[which].tolist()])

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes of the first lattice."""
        tapes: tuple[Tape, ...] = getattr(self[0], "on", ()) if len(self) else ()
        return tapes

    def groups(
        self,
        search: Search | None = None,
        *,
        time_aligned: bool = False,
        best: bool = False,
        threads: int = 1,
    ) -> list[Group]:
        """Sort the lattices by what the rows of an engine share, in runs of bounded size.

        `best`: they are asked for best paths alone.
        """
        del threads
        rows, alike = [row_of(lattice) for lattice in self], dict[Hashable, list[int]]()
        for number, row in enumerate(rows):
            alike.setdefault(_shared(row, best=best), []).append(number)
        parts = (
            _groups(
                self,
                [rows[k] for k in numbers],
                numbers,
                search,
                time_aligned=time_aligned,
                best=best,
            )
            for numbers in alike.values()
        )
        return [group for groups in parts for group in groups]

    def _clamp_each(
        self, said: Sequence[Labelling], ask: Callable[[Engine], Floats], threads: int
    ) -> Floats:
        """Return what is asked of the engines of the paths of each lattice that say something."""
        del threads
        found: list[float] = []
        for lattice, own in zip(cast("Batch[Questions]", self), said, strict=True):
            try:
                found += ask(lattice.row.clamped(own).engine).tolist()
            except (LabelError, ShapeError) as error:
                raise type(error)(f"sentence {len(found)}: {error}") from None
        return np.array(found)


@dataclass(eq=False)
class Group:
    """Lattices that are the rows of one engine, by their numbers among all lattices."""

    numbers: Sequence[int]
    batch: Batch[Any]
    engine: Engine

    @property
    def lattices(self) -> Iterator[Any]:
        """The lattices, row by row."""
        return map(self.batch.row, self.numbers)

    def lattice(self, row: int) -> Any:
        """Return the lattice of a row."""
        return self.batch.row(self.numbers[row])

    @made_once
    def _log_z(self) -> list[float]:
        known: list[float] = self.engine.usual_log_z.tolist()
        return known

    def paths(self, row: int, runs: PathBatch) -> list[Path]:
        """Return the paths of one lattice, given as runs of its row."""
        lattice, log_z = self.lattice(row), lambda: self._log_z[row]
        if getattr(self.engine, "ambiguous", ""):  # of each the best path counts
            log_z = partial(lattice._log_total, self.engine)
        found: list[Path] = lattice._paths_of(self.engine, runs, log_z)
        return found

    def drawn(self, row: int, runs: PathBatch) -> list[Any]:
        """Return what the samples of one lattice are."""
        lattice = self.lattice(row)
        if lattice.segmented:  # a path, whose probability is that in its own lattice
            return self.paths(row, runs)
        found: list[Any] = lattice._sampled_labels(self.engine, runs)
        return found

    def check(self, scores: Floats) -> None:
        """Raise NoPathError, with its number, where the score of a lattice is −inf."""
        for k in np.flatnonzero(np.isneginf(scores)).tolist()[:1]:
            raise self.lattice(k).row.no_path().of_sentence(self.numbers[k])


def row_of(lattice: Any) -> Any:
    """Return the row of a lattice; OptionError for anything else."""
    row = getattr(lattice, "row", None)
    if row is None:
        raise OptionError(
            f"{lattice!r} is not a Lattice: get the lattice of a tagger with lattice(sentence)"
        )
    return row


def _shared(row: Any, *, best: bool) -> Hashable:
    if isinstance(row, SentenceInputs):
        return id(row.program)
    same: Hashable = (row.search_engine if best else row.engine).shared
    return same


def _groups(
    batch: Batch[Any],
    rows: list[Any],
    numbers: list[int],
    search: Search | None,
    *,
    time_aligned: bool,
    best: bool,
) -> Iterator[Group]:
    one = rows[0]
    if not isinstance(one, SentenceInputs):
        engines = [row.search_engine if best else row.engine for row in rows]
        if time_aligned:
            engines = [engine.time_aligned for engine in engines]
        for first, end in engines[0].runs([engine.rows.total for engine in engines]):
            joined = engines[0].joined(engines[first:end])
            yield Group(numbers[first:end], batch, joined)
        return
    program = one.program if search is None else searched(one.program, search)
    values = [row.values for row in rows]
    for first, end in runs_of(program, Ragged.from_lengths([len(own[0]) for own in values])):
        run = numbers[first:end]
        yield Group(run, batch, ChainEngine(program, values[first:end], run))


def runs_of(program: Program, rows: Ragged) -> Iterator[tuple[int, int]]:
    """Yield the runs of rows of a program that are asked at once."""
    cells = int(np.prod(program.shape)) * program.decoder.machine.n_residual
    return rows.runs(max(1, min(RUN_TOKENS, _RUN_BYTES // (8 * cells))))


def answered(
    lattices: Sequence[Questions],
    ask: Callable[[Group], AnswerT],
    threads: int,
    search: Search | None = None,
    *,
    time_aligned: bool = False,
    best: bool = False,
) -> list[tuple[Group, AnswerT]]:
    """Ask every group, on threads; the groups do not depend on them.

    A group that was asked holds no joined potentials: the next one finds their memory, warm, and
    answers that are kept are not twice as large as the lattices.
    """
    whole_number(threads, "threads", least=1)
    batch = lattices if isinstance(lattices, Batch) else Batch(lattices)
    groups = batch.groups(search, time_aligned=time_aligned, best=best, threads=threads)

    def once(group: Group) -> AnswerT:
        found = ask(group)
        group.engine.forget()
        return found

    return list(zip(groups, mapped(once, groups, threads), strict=True))


# --- Best paths -----------------------------------------------------------------------------------


class Ranking(Sequence[list[Path[LabelsT_co]]], Generic[LabelsT_co]):
    """The n best paths of each lattice, best first."""

    def __init__(self, n: int, size: int, found: list[tuple[Group, PathBatch]]) -> None:
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
        paths = group.paths(row, runs.of_row(row, own.start, own.stop))
        return cast("list[Path[LabelsT_co]]", paths)

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

    @made_once
    def _places(self) -> dict[int, tuple[Group, int, PathBatch, slice]]:
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
    states_expanded : int64 [B]
        States that a lazy search took from its queue; 0 where nothing was searched.
    """

    def __init__(self, lattices: Sequence[Questions], found: list[tuple[Group, PathBatch]]) -> None:
        size, self._lattices = len(lattices), lattices
        self.scores, self.exact = np.full(size, -np.inf), np.ones(size, dtype=bool)
        self.bounds, self.states_expanded = self.scores.copy(), np.zeros(size, dtype=np.int64)
        self._ranking: Ranking[LabelsT_co] = Ranking(1, size, found)
        for group, runs in found:
            numbers = np.asarray(group.numbers)
            self.scores[numbers[runs.found > 0]] = runs.score
            if (
                runs.proven is not None
                and runs.bound is not None
                and runs.states_expanded is not None
            ):
                self.bounds[numbers] = runs.bound
                self.exact[numbers] = np.isneginf(runs.bound) | (runs.proven > 0)
                self.states_expanded[numbers] = runs.states_expanded
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
        if path is None:
            return labels_of_tapes([()] * len(self._lattices[number].tapes))
        return path.labels


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
    paths: Paths[LabelsT_co] = Paths(lattices, found_runs(lattices, 1, threads, search, budget))
    warn_unproven(int((~paths.exact).sum()), len(lattices))
    return paths


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
    ranking = nbest_paths(lattices, n, threads=threads, search=search, budget=budget)
    warn_unproven(ranking.unproven, len(lattices))
    return ranking


def nbest_paths(
    lattices: Sequence[Questions[LabelsT_co, object]],
    n: int,
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Ranking[LabelsT_co]:
    """Return what `nbest` does, without a warning of what is not proven."""
    return Ranking(n, len(lattices), found_runs(lattices, n, threads, search, budget))


def found_runs(
    lattices: Sequence[AnyLattice],
    n: int,
    threads: int,
    search: Search | None,
    budget: Budget | None,
) -> list[tuple[Group, PathBatch]]:
    """Return the n best paths of each group of lattices."""

    def ask(group: Group) -> PathBatch:
        if not isinstance(group.engine, ChainEngine):
            refuse_options({"search": search, "budget": budget})
        return group.engine.nbest(n, budget)

    return answered(lattices, ask, threads, search, best=True)


# --- Sums and samples -----------------------------------------------------------------------------


def log_partition(lattices: Sequence[Questions], *, threads: int = 1) -> Floats:
    """Return log Z of each lattice, float64 [B]; −inf where there is no path."""
    return of_each(lattices, lambda engine: engine.log_z, threads)


def entropy(lattices: Sequence[AnyLattice], *, threads: int = 1) -> Floats:
    """Return the entropy of each lattice's distribution over paths, in nats, float64 [B]."""
    return of_each(lattices, lambda engine: engine.entropies(), threads)


def usual_log_z(lattices: Sequence[Questions], *, threads: int = 1) -> Floats:
    """Return log Z of each; NaN where that takes a product too large to expand for it."""
    return of_each(lattices, lambda engine: engine.usual_log_z, threads)


def of_each(
    lattices: Sequence[AnyLattice], ask: Callable[[Engine], Floats], threads: int
) -> Floats:
    """Return what is asked of the engines of all lattices, a number for each, [B]."""
    groups = answered(lattices, lambda group: ask(group.engine), threads)
    if len(groups) == 1:
        return groups[0][1].copy()
    every = np.empty(len(lattices))
    for group, values in groups:
        every[group.numbers] = values
    return every


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

    def ask(engine: ChainEngine, on: Sequence[int]) -> list[Floats]:
        return engine.marginals(on, ())

    return _of_tokens(lattices, ask, "marginals", threads)


def max_marginals(
    lattices: Sequence[Questions[Any, ArrayT_co]], *, threads: int = 1
) -> list[ArrayT_co]:
    """Return the score of the best path through each label at each token; −inf: there is none."""

    def ask(engine: ChainEngine, on: Sequence[int]) -> list[Floats]:
        return engine.highest(on, (), 0)

    return _of_tokens(lattices, ask, "max_marginals", threads)


def arc_marginals(
    lattices: Sequence[Questions[Any, ArrayT_co]], *, threads: int = 1
) -> list[ArrayT_co]:
    """Return the probability of each succession of labels; see `Lattice.arc_marginals`."""

    def ask(engine: ChainEngine, on: Sequence[int]) -> list[Floats]:
        return engine.successions(on, ())

    return _of_tokens(lattices, ask, "arc_marginals", threads)


def _of_tokens(
    lattices: Sequence[Questions[Any, ArrayT_co]],
    ask: Callable[[ChainEngine, Sequence[int]], list[Floats]],
    name: str,
    threads: int,
) -> list[ArrayT_co]:
    """Return what arrays have for the tokens of each lattice, each tape; arcs are asked by name."""

    def each(group: Group) -> list[Any]:
        engine = group.engine
        if not isinstance(engine, ChainEngine):
            if name == "marginals":
                return _of_arcs(group)
            return [getattr(lattice, name)() for lattice in group.lattices]
        tables = ask(engine, range(len(engine.on)))
        parts = [engine.rows.split(table) for table in tables]
        if name == "arc_marginals":
            parts = [[row[1:] for row in rows] for rows in parts]
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))

    groups = answered(lattices, each, threads, time_aligned=True)
    if len(groups) == 1:
        return groups[0][1]
    found: list[Any] = [None] * len(lattices)
    for group, rows in groups:
        for number, row in zip(group.numbers, rows, strict=True):
            found[number] = row
    return found


def _of_arcs(group: Group) -> list[Any]:
    """Return the marginals of lattices of arcs, which may have other labels each."""
    lattices = list(group.lattices)
    sizes = [lattice.sizes for lattice in lattices]
    most = np.max(sizes, axis=0).tolist()
    tables = group.engine.marginals(range(len(most)), most)
    group.check(group.engine.log_z)
    split = zip(sizes, *map(group.engine.rows.split, tables), strict=True)
    each = [[p[:, :n] for p, n in zip(parts, own, strict=True)] for own, *parts in split]
    for lattice, parts in zip(lattices, each, strict=True):
        for k in (k for k, tape in enumerate(lattice.on) if tape.output):
            parts[k] = lattice.row.arcs().expected_output(k)
    return list(map(tuple, each)) if len(most) > 1 else [part for (part,) in each]


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

    def ask(group: Group) -> PathBatch:
        if not isinstance(group.engine, ChainEngine):
            group.check(group.engine.log_z)
        generators = [np.random.default_rng([seed, number]) for number in group.numbers]
        return group.engine.sample(n, generators)

    drawn: list[list[LabelsT_co]] = [[] for _ in range(len(lattices))]
    for group, runs in answered(lattices, ask, threads):
        same = isinstance(group.engine, ChainEngine)  # all rows have the same labels
        every = lattices[group.numbers[0]]._sampled_labels(group.engine, runs) if same else []
        own = zip(group.numbers, Ragged.from_lengths(runs.found).slices(), strict=True)
        for row, (number, paths) in enumerate(own):
            drawn[number] = every[paths]
            if not same:
                mine = runs.of_row(row, paths.start, paths.stop)
                drawn[number] = group.drawn(row, mine)
    return drawn


# --- One labelling --------------------------------------------------------------------------------


def score(lattices: Sequence[Questions], said: Sequence[Labelling], *, threads: int = 1) -> Floats:
    """Return the score of the best path of each lattice that says this and nothing else, [B].

    Parameters
    ----------
    lattices : sequence of Lattice
        Of any kinds.
    said : sequence of B labellings
        As for `Lattice.score`.
    threads : int

    Raises
    ------
    LabelError, ShapeError, OptionError
        As `Lattice.score`; another number of labellings than lattices.
    """
    return _of_said(lattices, said, lambda engine: engine.best_scores, threads)


def probability(
    lattices: Sequence[Questions], said: Sequence[Labelling], *, threads: int = 1
) -> Floats:
    """Return the probability of all paths of each lattice that say this; raises as `score`."""
    own = _of_said(lattices, said, lambda engine: engine.log_z, threads)
    return shares(own, log_partition(lattices, threads=threads))


def _of_said(
    lattices: Sequence[Questions],
    said: Sequence[Labelling],
    ask: Callable[[Engine], Floats],
    threads: int,
) -> Floats:
    said = list(items_of(said, "the labels are", "those of each sentence"))
    if len(said) != len(lattices):
        raise ShapeError(f"labellings of {len(said)} sentences for {len(lattices)} lattices")
    for number, one in enumerate(said):
        if one is None:
            raise LabelError(f"sentence {number}: expected a list of labels, got None")
    if any(isinstance(one, Path | Mapping) for one in said):
        said = [said_by_tapes(one, x.tapes) for one, x in zip(said, lattices, strict=True)]
    batch = lattices if isinstance(lattices, Batch) else Batch(lattices)
    return batch._clamp_each(said, ask, threads)

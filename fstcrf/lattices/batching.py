"""Questions to many lattices at once, of any kinds.

Lattices that can share an engine are asked in one call of the kernel. The answer of a lattice
depends neither on the other lattices nor on the number of threads. Results are arrays; a `Path`
object is made when it is first read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

import numpy as np

from fstcrf.arguments import items_of, whole_number
from fstcrf.arrays import Bools, Floats, Longs, Ragged
from fstcrf.errors import LabelError, NoPathError, OptionError, ShapeError
from fstcrf.kernel import Budget
from fstcrf.kernel.lazy import shared
from fstcrf.kernel.native import mapped
from fstcrf.lattices.engine import PLAIN, EngineRequest, PathBatch
from fstcrf.lattices.paths import (
    Labels,
    LabelsT_co,
    Path,
    labels_by_tape,
    labels_of_tapes,
    shares,
)
from fstcrf.lattices.questions import ArrayT_co, Questions
from fstcrf.lazy import made_once
from fstcrf.machines.plans import Search, warn_unproven

if TYPE_CHECKING:
    from fstcrf.lattices.engine import Engine, Labelling, Row, Tape

AnswerT = TypeVar("AnswerT")
LatticeT = TypeVar("LatticeT")
ItemT_co = TypeVar("ItemT_co", covariant=True)

AnyLattice: TypeAlias = Questions
"""A lattice of any kind."""


class Batch(Sequence[LatticeT]):
    """A sequence of lattices, which makes the engines that they share.

    Parameters
    ----------
    lattices : sequence of Lattice
        Of any kinds.
    """

    def __init__(self, lattices: Sequence[LatticeT]) -> None:
        self._lattices = lattices

    def __len__(self) -> int:
        """Return the number of lattices."""
        return len(self._lattices)

    @overload
    def __getitem__(self, index: int) -> LatticeT: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LatticeT]: ...
    def __getitem__(self, index: int | slice) -> LatticeT | Sequence[LatticeT]:
        if isinstance(index, slice):
            return [self._row(k) for k in range(*index.indices(len(self)))]
        return self._row(range(len(self))[index])

    def __iter__(self) -> Iterator[LatticeT]:
        return map(self._row, range(len(self)))

    def _row(self, k: int) -> LatticeT:
        return self._lattices[k]

    def select(self, which: Bools | Longs) -> Batch[LatticeT]:
        """Return some of the lattices, by their numbers or by a mask, bool [B]."""
        return Batch([self._row(k) for k in np.arange(len(self))[which].tolist()])

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes of the first lattice."""
        tapes: tuple[Tape, ...] = getattr(self[0], "on", ()) if len(self) else ()
        return tapes

    def _groups(self, request: EngineRequest = PLAIN, threads: int = 1) -> list[Group]:
        """Return the engines, of bounded size, that answer a request.

        An engine may use some threads.
        """
        del threads
        rows, alike = [row_of(lattice) for lattice in self], dict[Hashable, list[int]]()
        for number, row in enumerate(rows):
            alike.setdefault(row.batch_key(request), []).append(number)
        return [
            Group(numbers[part], self, engine)
            for numbers in alike.values()
            for part, engine in rows[numbers[0]].engines(
                [rows[k] for k in numbers], numbers, request
            )
        ]

    def _clamp_each(
        self, labellings: Sequence[Labelling], ask: Callable[[Engine], Floats], threads: int
    ) -> Floats:
        """Ask, for each lattice, the engine of the paths with some labels for a number, [B]."""
        del threads
        answers: list[float] = []
        for lattice, labels in zip(self, labellings, strict=True):
            try:
                answers += ask(row_of(lattice).clamped(labels).engine).tolist()
            except (LabelError, ShapeError) as error:
                raise type(error)(f"sentence {len(answers)}: {error}") from None
        return np.array(answers)


@dataclass(eq=False)
class Group:
    """An engine, and the numbers of its rows among the lattices of a batch."""

    numbers: Sequence[int]
    batch: Batch[Any]
    engine: Engine

    @property
    def lattices(self) -> Iterator[Questions]:
        """The lattices, row by row."""
        return (self.batch[number] for number in self.numbers)

    def lattice(self, row: int) -> Questions:
        """Return the lattice of a row."""
        lattice: Questions = self.batch[self.numbers[row]]
        return lattice

    @made_once
    def _log_z(self) -> list[float]:
        log_z: list[float] = self.engine.usual_log_z.tolist()
        return log_z

    def paths(self, row: int, paths: PathBatch) -> list[Path[Any]]:
        """Return the `Path` objects of one row, from its part of a batch of paths."""
        lattice, log_z = self.lattice(row), lambda: self._log_z[row]
        if self.engine.ambiguous:  # the engine has no sum over its paths
            log_z = partial(lattice.row.log_partition, self.engine)
        return lattice.row.paths(self.engine, paths, log_z)

    def samples(self, paths: PathBatch) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number of each lattice, and its samples: labels or `Path` objects."""
        parts = [*zip(self.numbers, Ragged.from_lengths(paths.counts).slices(), strict=True)]
        if self.engine.on:  # all rows have the same labels
            samples = self.lattice(0).row.samples(self.engine, paths)
            yield from ((number, samples[part]) for number, part in parts)
            return
        for k, (number, part) in enumerate(parts):
            lattice, sampled = self.lattice(k), paths.of_row(k, part.start, part.stop)
            if lattice.segmented:  # the probability of a path needs the log Z of its row
                yield number, self.paths(k, sampled)
            else:
                yield number, lattice.row.samples(self.engine, sampled)

    def tables(self, ask: Callable[[Engine, Sequence[int]], list[Floats]]) -> list[Any] | None:
        """Return the answer to a question about tokens, [T, ...], for each lattice.

        The function maps an engine and tapes to a table for each tape, [N, ...]. The result is None
        if the lattices do not share their labels.
        """
        if not self.engine.on:
            return None
        rows = [self.engine.rows.split(x) for x in ask(self.engine, range(len(self.engine.on)))]
        return rows[0] if len(rows) == 1 else list(zip(*rows, strict=True))

    def error(self, row: int) -> NoPathError:
        """Return the error about a lattice without a path, with its number."""
        return self.lattice(row).row.no_path().of_sentence(self.numbers[row])


def row_of(lattice: object) -> Row:
    """Return the row of a lattice; OptionError for an object that is not a lattice."""
    if not isinstance(lattice, Questions):
        raise OptionError(
            f"{lattice!r} is not a Lattice: get the lattice of a tagger with lattice(sentence)"
        )
    return lattice.row


def answered(
    lattices: Sequence[Questions],
    ask: Callable[[Group], AnswerT],
    threads: int,
    request: EngineRequest = PLAIN,
) -> list[tuple[Group, AnswerT]]:
    """Return each group of lattices with its answer.

    The joined potentials of a group are dropped after the question. So the next group finds their
    memory warm, and answers that are kept are not twice as large as the lattices. The groups do
    not depend on the number of threads.
    """
    whole_number(threads, "threads", least=1)
    groups = _batch(lattices)._groups(request, threads)  # noqa: SLF001

    def once(group: Group) -> AnswerT:
        answer = ask(group)
        group.engine.forget()
        return answer

    return list(zip(groups, mapped(once, groups, threads), strict=True))


def _batch(lattices: Sequence[Questions]) -> Batch[Any]:
    return lattices if isinstance(lattices, Batch) else Batch(lattices)


# --- Best paths -----------------------------------------------------------------------------------


class BestPaths(Sequence[ItemT_co]):
    """The best paths of each lattice: the common part of `Paths` and `Ranking`.

    Attributes
    ----------
    exact : bool [B]
        The paths are proven to be the best, or the lattice is proven to have no path.
    bounds : float64 [B]
        Upper bound of the scores of all paths that were not found, and of the best path.
    states_expanded : int64 [B]
        States that a lazy search took from its queue; 0 without a search.
    """

    def __init__(
        self, lattices: Sequence[Questions], n: int, groups: list[tuple[Group, PathBatch]]
    ) -> None:
        size, self._lattices, self._groups = len(lattices), lattices, groups
        self.exact, self.bounds = np.ones(size, dtype=bool), np.full(size, -np.inf)
        self.states_expanded = np.zeros(size, dtype=np.int64)
        self._best = self.bounds.copy()
        for group, paths in groups:
            numbers = np.asarray(group.numbers)
            first = Ragged.from_lengths(paths.counts).offsets[:-1]
            some = paths.counts > 0
            self._best[numbers[some]] = paths.score[first[some]]
            if paths.bound is not None:
                self.bounds[numbers] = paths.bound
            if paths.bound is not None and paths.proven is not None:
                self.exact[numbers] = np.isneginf(paths.bound) | (paths.proven >= n)
            if paths.states_expanded is not None:
                self.states_expanded[numbers] = paths.states_expanded
        np.maximum(self.bounds, self._best, out=self.bounds)

    def __len__(self) -> int:
        return len(self.exact)

    @overload
    def __getitem__(self, index: int) -> ItemT_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[ItemT_co]: ...
    def __getitem__(self, index: int | slice) -> ItemT_co | list[ItemT_co]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        group, row, paths, part = self.place(range(len(self))[index])
        return self._item(group.paths(row, paths.of_row(row, part.start, part.stop)))

    def place(self, number: int) -> tuple[Group, int, PathBatch, slice]:
        """Return the group of a lattice, its row there, and the paths of the row in a batch."""
        return self._places[number]

    @abstractmethod
    def _item(self, paths: list[Path[Any]]) -> ItemT_co: ...

    @property
    def unproven(self) -> int:
        """Number of lattices whose paths are not all proven to be the best."""
        return int((~self.exact).sum())

    @made_once
    def _places(self) -> dict[int, tuple[Group, int, PathBatch, slice]]:
        return {
            number: (group, row, paths, part)
            for group, paths in self._groups
            for row, (number, part) in enumerate(
                zip(group.numbers, Ragged.from_lengths(paths.counts).slices(), strict=True)
            )
        }


class Ranking(BestPaths[list[Path[LabelsT_co]]], Generic[LabelsT_co]):
    """The n best paths of each lattice, best first. Other attributes as for `BestPaths`."""

    def _item(self, paths: list[Path[Any]]) -> list[Path[LabelsT_co]]:
        return paths

    @property
    def scores(self) -> list[Floats]:
        """The scores of the paths of each lattice, in descending order."""
        places = [self._places[number] for number in range(len(self))]
        return [paths.score[part] for _, _, paths, part in places]


class Paths(BestPaths["Path[LabelsT_co] | None"], Generic[LabelsT_co]):
    """The best path of each lattice, or None for a lattice without a path.

    Other attributes as for `BestPaths`.
    """

    def _item(self, paths: list[Path[Any]]) -> Path[LabelsT_co] | None:
        return next(iter(paths), None)

    @property
    def scores(self) -> Floats:
        """The score of each path, float64 [B]; −inf for a lattice without a path."""
        return self._best

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
        Lattices of any kinds.
    threads : int
        Number of worker threads. Results are identical for any number.
    search : {"auto", "lazy", "expanded"}, optional
        Method for paths under a grammar, see `Lattice.constrained`. If absent, each lattice has
        its own method. Lattices of arcs need no search.
    budget : Budget, optional
        Limit of a lazy search. A path that was found within it but is not proven to be the best is
        not ``exact``.

    Returns
    -------
    Paths
        A sequence of `Path`; ``None`` for a lattice without a path.

    Raises
    ------
    OptionError
        `threads` is below 1, `search` is another word, or an item is not a lattice.
    """
    batches = path_batches(lattices, 1, threads, search, budget)
    paths: Paths[LabelsT_co] = Paths(lattices, 1, batches)
    warn_unproven(paths.unproven, len(lattices))
    return paths


def nbest(
    lattices: Sequence[Questions[LabelsT_co, object]],
    n: int,
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Ranking[LabelsT_co]:
    """Return the n best paths of each lattice, best first, or all if a lattice has fewer.

    Parameters as for `best`.

    Raises
    ------
    OptionError
        `n` is below 1; other errors as for `best`.
    """
    n = whole_number(n, "n", least=1, narrow=True)  # also if there are no lattices
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
    """Return the n best paths, as `nbest`, without a warning about unproven paths."""
    return Ranking(lattices, n, path_batches(lattices, n, threads, search, budget))


def path_batches(
    lattices: Sequence[AnyLattice],
    n: int,
    threads: int,
    search: Search | None,
    budget: Budget | None,
) -> list[tuple[Group, PathBatch]]:
    """Return the n best paths of each group of lattices."""
    request, share = EngineRequest(search, best=True), shared(budget, len(lattices), threads)

    def ask(group: Group) -> PathBatch:
        return group.engine.nbest(n, share(len(group.numbers)))

    return answered(lattices, ask, threads, request)


# --- Sums and samples -----------------------------------------------------------------------------


def log_partition(lattices: Sequence[Questions], *, threads: int = 1) -> Floats:
    """Return log Z of each lattice, float64 [B]; −inf for a lattice without a path."""
    return of_each(lattices, lambda engine: engine.log_z, threads)


def entropy(lattices: Sequence[AnyLattice], *, threads: int = 1) -> Floats:
    """Return the entropy of the paths of each lattice in nats, float64 [B]."""
    return of_each(lattices, lambda engine: engine.entropies(), threads)


def usual_log_z(lattices: Sequence[Questions], *, threads: int = 1) -> Floats:
    """Return log Z of each lattice; NaN if the product is too large to expand for it."""
    return of_each(lattices, lambda engine: engine.usual_log_z, threads)


def of_each(
    lattices: Sequence[AnyLattice], ask: Callable[[Engine], Floats], threads: int
) -> Floats:
    """Ask the engines of all lattices for one number for each lattice, float64 [B]."""
    groups = answered(lattices, lambda group: ask(group.engine), threads)
    if len(groups) == 1:
        return groups[0][1].copy()
    numbers = np.empty(len(lattices))
    for group, values in groups:
        numbers[group.numbers] = values
    return numbers


def marginals(
    lattices: Sequence[Questions[Any, ArrayT_co]], *, threads: int = 1
) -> list[ArrayT_co]:
    """Return the probability of each label at each token of each lattice.

    Returns
    -------
    list of float64 [T, L]
        For lattices of several tapes, a list of tuples of such arrays.

    Raises
    ------
    NoPathError
        A lattice has no path.
    """

    def ask(group: Group) -> list[Any]:
        tables = group.tables(lambda engine, tapes: engine.marginals(tapes))
        return _marginals_of_arcs(group) if tables is None else tables

    return _of_tokens(lattices, ask, threads)


def max_marginals(
    lattices: Sequence[Questions[Any, ArrayT_co]], *, threads: int = 1
) -> list[ArrayT_co]:
    """Return the score of the best path with each label at each token; see `Lattice`."""

    def ask(group: Group) -> list[Any]:
        tables = group.tables(lambda engine, tapes: engine.highest(tapes))
        return [one.max_marginals() for one in group.lattices] if tables is None else tables

    return _of_tokens(lattices, ask, threads)


def arc_marginals(
    lattices: Sequence[Questions[Any, ArrayT_co]], *, threads: int = 1
) -> list[ArrayT_co]:
    """Return the probability of each pair of neighbouring labels; see `Lattice.arc_marginals`."""

    def ask(group: Group) -> list[Any]:
        tables = group.tables(lambda engine, tapes: engine.successions(tapes))
        if tables is None:
            return [lattice.arc_marginals() for lattice in group.lattices]
        if len(group.engine.on) == 1:
            return [table[1:] for table in tables]
        return [tuple([table[1:] for table in each]) for each in tables]

    return _of_tokens(lattices, ask, threads)


def _of_tokens(
    lattices: Sequence[Questions[Any, ArrayT_co]], ask: Callable[[Group], list[Any]], threads: int
) -> list[ArrayT_co]:
    """Ask groups a question about tokens, and return the answers in the order of the lattices."""
    groups = answered(lattices, ask, threads, EngineRequest(time_aligned=True))
    if len(groups) == 1:
        return groups[0][1]
    answers = {n: x for group, rows in groups for n, x in zip(group.numbers, rows, strict=True)}
    return [answers[number] for number in range(len(lattices))]


def _marginals_of_arcs(group: Group) -> list[Any]:
    """Return the marginals of lattices that may have different labels."""
    engine, lattices = group.engine, list(group.lattices)
    tables = engine.marginals(range(len(lattices[0].on)))
    engine.check_alive(group.error)
    answers: list[Any] = []
    for lattice, *parts in zip(lattices, *map(engine.rows.split, tables), strict=True):
        per_tape = [part[:, :size] for part, size in zip(parts, lattice.sizes, strict=True)]
        for k in (k for k, tape in enumerate(lattice.on) if tape.output):
            per_tape[k] = lattice.row.arcs().expected_output(k)
        answers.append(tuple(per_tape) if len(per_tape) > 1 else per_tape[0])
    return answers


def sample(
    lattices: Sequence[Questions[LabelsT_co, object]], n: int, *, seed: int = 0, threads: int = 1
) -> list[list[LabelsT_co]]:
    """Return n independent samples from the distribution over the paths of each lattice.

    Parameters
    ----------
    lattices : sequence of Lattice
        Lattices of any kinds.
    n : int
        Number of samples of each lattice.
    seed : int
        Seed of numpy's default generator. The samples of a lattice depend only on the seed and on
        the index of the lattice.
    threads : int
        Number of worker threads. Results are identical for any number.

    Returns
    -------
    list of list of labels
        Labels as in `Path.labels`. For lattices with segments, `Path` objects.

    Raises
    ------
    NoPathError
        A lattice has no path.
    OptionError
        `n` or `seed` is negative.
    """
    n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")

    def ask(group: Group) -> PathBatch:
        group.engine.check_alive(group.error)
        generators = [np.random.default_rng([seed, number]) for number in group.numbers]
        return group.engine.sample(n, generators)

    groups = answered(lattices, ask, threads)
    samples = dict(pair for group, paths in groups for pair in group.samples(paths))
    return [samples[number] for number in range(len(lattices))]


# --- One labelling --------------------------------------------------------------------------------


def score(
    lattices: Sequence[Questions], labellings: Sequence[Labelling], *, threads: int = 1
) -> Floats:
    """Return the score of the best path of each lattice with exactly the given labels.

    Parameters
    ----------
    lattices : sequence of Lattice
        Lattices of any kinds.
    labellings : sequence of B labellings
        The labels of each lattice, as for `Lattice.score`.
    threads : int

    Returns
    -------
    float64 [B]
        −inf if no path has the labels.

    Raises
    ------
    LabelError, ShapeError, OptionError
        As for `Lattice.score`; or the number of labellings is not the number of lattices.
    """
    return _of_labels(lattices, labellings, lambda engine: engine.best_scores, threads)


def probability(
    lattices: Sequence[Questions], labellings: Sequence[Labelling], *, threads: int = 1
) -> Floats:
    """Return the probability of all paths of each lattice with exactly the given labels.

    Parameters and errors as for `score`.
    """
    sums = _of_labels(lattices, labellings, lambda engine: engine.log_z, threads)
    return shares(sums, log_partition(lattices, threads=threads))


def _of_labels(
    lattices: Sequence[Questions],
    labellings: Sequence[Labelling],
    ask: Callable[[Engine], Floats],
    threads: int,
) -> Floats:
    rows = list(items_of(labellings, "the labels are", "those of each sentence"))
    if len(rows) != len(lattices):
        raise ShapeError(f"labellings of {len(rows)} sentences for {len(lattices)} lattices")
    for number, labels in enumerate(rows):
        if labels is None:
            raise LabelError(f"sentence {number}: expected a list of labels, got None")
    if any(isinstance(labels, Path | Mapping) for labels in rows):
        rows = [labels_by_tape(x, one.tapes) for x, one in zip(rows, lattices, strict=True)]
    return _batch(lattices)._clamp_each(rows, ask, threads)

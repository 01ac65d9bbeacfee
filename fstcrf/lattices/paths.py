"""The best paths of many lattices, and the best labellings of some of their tapes.

Results are arrays; `Path` objects are made when they are looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Generic, NamedTuple, TypedDict, overload

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import whole_number
from fstcrf.arrays import Bools, Floats, Ints
from fstcrf.kernel import Budget
from fstcrf.lattices.answer import LabelsT_co, Path, labels_of_tapes, share, shown_tapes
from fstcrf.lattices.batch import Group, answered
from fstcrf.lattices.tapes import Taped, restricted
from fstcrf.machines.plans import Search, no_path_error, warn_unproven


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

    def __init__(
        self,
        size: int,
        found: list[tuple[Group, kernel.SearchResult]],
        lattices: Sequence[Taped[LabelsT_co, object]],
    ) -> None:
        self.scores = np.empty(size)
        self.bounds = self.scores.copy()
        self.exact = np.ones(size, dtype=bool)
        self.popped = np.zeros(size, dtype=np.int64)
        self._lattices, self._found = lattices, found
        for group, searched in found:
            score = searched.score[:, 0]
            self.scores[group.numbers] = score
            self.bounds[group.numbers] = np.maximum(searched.bound, score)
            self.exact[group.numbers] = np.isneginf(searched.bound) | (searched.proven > 0)
            self.popped[group.numbers] = searched.popped

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
        number = range(len(self))[index]
        score = float(self.scores[number])
        if score == -np.inf:
            return None
        labels = self.labels(number)
        group, k, _ = self._places[number]
        return Path(
            labels,
            score,
            share(score, group.usual_log_z[k]),
            exact=bool(self.exact[number]),
            bound=float(self.bounds[number]),
        )

    def labels(self, number: int) -> LabelsT_co:
        """Return the labels of one path, as `Path.labels`; () for a lattice without a path."""
        lattice = self._lattices[number]
        if self.scores[number] == -np.inf:
            return lattice.no_labels
        return lattice.path_labels(self._places[number][2])

    @cached_property
    def _places(self) -> dict[int, tuple[Group, int, Ints]]:
        return {
            number: (group, k, searched.path[0, group.offsets[k] : group.offsets[k + 1]])
            for group, searched in self._found
            for k, number in enumerate(group.numbers)
        }


class Ranking(Sequence[list[Path[LabelsT_co]]], Generic[LabelsT_co]):
    """The n best paths of each lattice, best first."""

    def __init__(
        self,
        size: int,
        found: list[tuple[Group, kernel.SearchResult]],
        lattices: Sequence[Taped[LabelsT_co, object]],
    ) -> None:
        self._size, self._found, self._lattices = size, found, lattices

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
        return list(self._paths(range(len(self))[index]))

    @property
    def scores(self) -> list[Floats]:
        """The scores of each lattice's paths, falling."""
        return [self._scores(number) for number in range(len(self))]

    @property
    def unproven(self) -> int:
        """Lattices some of whose paths are not proven to be the best."""
        return sum(int(found.unproven(found.score.shape[1]).sum()) for _, found in self._found)

    def _scores(self, number: int) -> Floats:
        _, k, ranked = self._places[number]
        return ranked.score[k, : ranked.found[k]]

    def _paths(self, number: int) -> Iterator[Path[LabelsT_co]]:
        lattice = self._lattices[number]
        group, k, ranked = self._places[number]
        rows = ranked.path[:, group.offsets[k] : group.offsets[k + 1]]
        proven, bound = int(ranked.proven[k]), float(ranked.bound[k])
        scored = zip(self._scores(number).tolist(), rows, strict=False)
        for rank, (score, row) in enumerate(scored):
            yield Path(
                lattice.path_labels(row),
                score,
                share(score, group.usual_log_z[k]),
                exact=rank < proven,
                bound=score if rank < proven else max(score, bound),
            )

    @cached_property
    def _places(self) -> dict[int, tuple[Group, int, kernel.SearchResult]]:
        return {
            number: (group, k, ranked)
            for group, ranked in self._found
            for k, number in enumerate(group.numbers)
        }


def best(
    lattices: Sequence[Taped[LabelsT_co, object]],
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Paths[LabelsT_co]:
    """Return the best path of each lattice.

    Parameters
    ----------
    lattices : sequence of Lattice
    threads : int
        The answer does not depend on it.
    search : {"auto", "lazy", "expanded"}, optional
        How paths under a grammar are found, see `Lattice.constrained`; as compiled when absent.
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
    lattices: Sequence[Taped[LabelsT_co, object]],
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Paths[LabelsT_co]:
    """Return what `best` does, without a warning of what is not proven."""
    found = answered(lattices, lambda group: group.paths(1, budget), threads, search)
    return Paths(len(lattices), found, lattices)


def best_path(
    lattice: Taped[LabelsT_co, object],
    *,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Path[LabelsT_co]:
    """Return the best path of one lattice; NoPathError where none was found within the budget."""
    found = found_best([lattice], search=search, budget=budget)
    path = found[0]
    if path is None:
        if not found.exact[0]:
            popped = int(found.popped[0])
            raise no_path_error(lattice.program, lattice.values, given_up=popped)
        raise Group.single(lattice).no_path(0)
    warn_unproven(int(not path.exact), 1)
    return path


def nbest(
    lattices: Sequence[Taped[LabelsT_co, object]],
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
    lattices: Sequence[Taped[LabelsT_co, object]],
    n: int,
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Ranking[LabelsT_co]:
    """Return what `nbest` does, without a warning of what is not proven."""
    found = answered(lattices, lambda group: group.paths(n, budget), threads, search)
    return Ranking(len(lattices), found, lattices)


# --- The n best labellings of some tapes ----------------------------------------------------------
#
# They differ in the tapes shown. Each ranks by the best path that has its labels, and its
# probability is that of all paths that have them: the log Z of the lattice restricted to them, less
# log Z. The n best paths of all tapes often hold enough of them. Where they do not, the labellings
# are cut into parts: behind the best labelling come those that differ from it first at one place,
# one part for each place, each with a best path of its own (Lawler 1972).

_JOINT = 8
"""Paths of all tapes that are looked at first, for each labelling that is wanted."""


def nbest_of_tapes(
    lattices: Sequence[Taped],
    n: int,
    tapes: Sequence[str],
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> list[list[Path]]:
    """Return the n best labellings of some tapes of each lattice, best first.

    Of these tapes are the labels of a `Path`, in this order. Its score is that of the best path of
    all tapes with these labels; its probability is summed over the other tapes.
    """
    chosen = [shown_tapes(lattice.tapes, tapes) for lattice in lattices][:1]
    n = whole_number(n, "n", least=1, narrow=True)
    looked = min(_JOINT * n, 2**31 - 1)
    several = nbest(lattices, looked, threads=threads, search=search, budget=budget)
    found: list[list[Path]] = []
    for lattice, paths in zip(lattices, several, strict=True):
        shown = chosen[0]
        different = _different(lattice, paths, shown)
        if len(different) < n and len(paths) == looked:
            parts = _Parts(lattice, shown, {"threads": threads, "search": search, "budget": budget})
            different = [path for _, path in zip(range(n), parts, strict=False)]
        found.append(different[:n])
    return _summed(lattices, found, chosen, threads)


def _different(taped: Taped, paths: Sequence[Path], shown: tuple[str, ...]) -> list[Path]:
    """Return the first path of each labelling of the tapes shown, without the others."""
    found: dict[tuple[tuple[str, ...], ...], Path] = {}
    exact = True
    for path in paths:
        exact = exact and path.exact
        labels = tuple(taped.labels_of(path.labels, tape) for tape in shown)
        found.setdefault(labels, _named(labels, path, exact=exact, bound=path.bound))
    return list(found.values())


def _named(labels: tuple[tuple[str, ...], ...], path: Path, *, exact: bool, bound: float) -> Path:
    return Path(labels_of_tapes(labels), path.score, path.probability, exact=exact, bound=bound)


def _summed(
    lattices: Sequence[Taped],
    found: list[list[Path]],
    chosen: list[tuple[str, ...]],
    threads: int,
) -> list[list[Path]]:
    """Return the paths with the probability of their labels, summed over the other tapes."""
    parts, whose = [], []
    for number, (lattice, paths) in enumerate(zip(lattices, found, strict=True)):
        for path in paths:
            parts.append(restricted(lattice, _masks(lattice, chosen[0], path)))
            whose.append(number)
    part, whole = (_log_z(some, threads) for some in (parts, lattices))
    chances = iter([share(log_z, whole[number]) for log_z, number in zip(part, whose, strict=True)])
    return [
        [Path(p.labels, p.score, next(chances), exact=p.exact, bound=p.bound) for p in paths]
        for paths in found
    ]


def _log_z(lattices: Sequence[Taped], threads: int) -> list[float]:
    """Return log Z of each lattice; NaN where that takes a product too large to expand for it."""
    found = answered(lattices, lambda group: group.usual_log_z, threads)
    out = np.empty(len(lattices))
    for group, log_z in found:
        out[group.numbers] = log_z
    sums: list[float] = out.tolist()
    return sums


def _masks(lattice: Taped, shown: tuple[str, ...], path: Path) -> list[Bools]:
    labels = path.labels if len(shown) > 1 else (path.labels,)
    masks = _all(lattice)
    for tape, mine in zip(shown, labels, strict=True):
        ids = lattice.program.chain[tape].topology.label_ids(mine)
        mask = masks[lattice.tapes.index(tape)]
        mask[:] = False
        mask[np.arange(len(ids)), ids] = True
    return masks


def _all(lattice: Taped) -> list[Bools]:
    """Return masks that allow every label of every tape."""
    sizes = [len(lattice.program.labels(tape)) for tape in lattice.tapes]
    return [np.ones((len(lattice), size), dtype=np.bool_) for size in sizes]


class _Part(NamedTuple):
    """Labellings of the tapes shown, and the best path among them.

    Parts are taken by cost, then in the order of the label numbers.
    """

    cost: float  # −score of the path
    ids: tuple[int, ...]  # all tapes shown at the first token, at the second one, ...
    path: Path
    bound: float  # no path of the part scores more
    masks: list[Bools]  # [T, L] labels that a path of the part may have, for all tapes
    fixed: int  # so many of the ids are the same in all paths of the part


class _Search(TypedDict):
    threads: int
    search: Search | None
    budget: Budget | None


class _Parts:
    """The labellings of some tapes of one lattice, best first."""

    def __init__(self, lattice: Taped, shown: tuple[str, ...], options: _Search) -> None:
        self.lattice, self.shown, self.options = lattice, shown, options
        self.places = [lattice.tapes.index(tape) for tape in shown]
        self.unknown = -np.inf  # no path scores more in parts where the budget ended the search

    def __iter__(self) -> Iterator[Path]:
        queue = self._solved([(_all(self.lattice), 0)])
        while queue:
            part = heapq.heappop(queue)
            bound = max([part.bound, self.unknown, *(other.bound for other in queue)])
            labels = tuple(self.lattice.labels_of(part.path.labels, tape) for tape in self.shown)
            yield _named(labels, part.path, exact=bound <= part.path.score, bound=bound)
            for other in self._solved(list(self._cut(part))):
                heapq.heappush(queue, other)

    def _cut(self, part: _Part) -> Iterator[tuple[list[Bools], int]]:
        """Yield the rest of a part, cut by the first place that differs from its best path."""
        masks = list(part.masks)
        for number in range(part.fixed, len(part.ids)):
            token, tape = divmod(number, len(self.places))
            place, label = self.places[tape], part.ids[number]
            other = masks[place].copy()
            other[token, label] = False
            if other[token].any():
                yield [other if k == place else m for k, m in enumerate(masks)], number
            masks[place] = masks[place].copy()
            masks[place][token] = False
            masks[place][token, label] = True

    def _solved(self, parts: Sequence[tuple[list[Bools], int]]) -> list[_Part]:
        """Return the parts that have a path, as a heap."""
        lattices = [restricted(self.lattice, masks) for masks, _ in parts]
        paths = best(lattices, **self.options)
        found = [
            _Part(-path.score, self._ids(path), path, path.bound, masks, fixed)
            for path, (masks, fixed) in zip(paths, parts, strict=True)
            if path is not None
        ]
        given_up = [bound for path, bound in zip(paths, paths.bounds, strict=True) if path is None]
        self.unknown = max([self.unknown, *given_up])
        heapq.heapify(found)
        return found

    def _ids(self, path: Path) -> tuple[int, ...]:
        rows = [
            self.lattice.program.chain[tape].topology.label_ids(
                self.lattice.labels_of(path.labels, tape)
            )
            for tape in self.shown
        ]
        return tuple(np.stack(rows, axis=1).ravel().tolist())

"""The n best labellings of some tapes of lattices that have a label for each token.

The labellings differ in the tapes shown. A labelling has the score and the probability of the best
path with its labels. Often the n best paths of all tapes have enough labellings.
Otherwise, a set of labellings is divided into its best labelling and one part for each place: the
labellings that differ from the best one at this place first. The best path of each part is found by
the usual decoder (Lawler 1972), so grammars may be searched lazily and within a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Bools
from fstcrf.kernel import Budget
from fstcrf.lattices import sequences
from fstcrf.lattices.batching import Paths, Ranking, best, nbest, usual_log_z
from fstcrf.lattices.paths import Path, labels_of_tapes, share, shown_tapes
from fstcrf.lattices.sequences import Entry, Labels
from fstcrf.machines.plans import Search

_JOINT = 8
"""Paths of all tapes that are ranked first, for each labelling."""
_MORE, _MOST_RANKED = 8, 1_024
"""Factor of the paths of each further ranking, and the most paths of one."""


def nbest_of_tapes(
    lattices: Sequence[Any],
    n: int,
    tapes: Sequence[str],
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> list[list[Path]]:
    """Return the n best labellings of some tapes of each lattice, best first.

    A `Path` holds the labels of these tapes, in this order. It has the score and the probability of
    the best path of all tapes with these labels.
    """
    chosen = [shown_tapes(lattice.tapes, tapes) for lattice in lattices]
    n = whole_number(n, "n", least=1, narrow=True)
    log_z = cache(lambda: usual_log_z(lattices, threads=threads).tolist())
    labellings: list[list[Path]] = [[] for _ in chosen]
    rank = partial(nbest, threads=threads, search=search, budget=budget)
    solve = partial(best, threads=threads, search=search, budget=budget)
    left, n_paths = list(range(len(chosen))), min(_JOINT * n, 2**31 - 1)
    several = rank(lattices, n_paths)
    while left:
        again: list[int] = []
        for place, number in enumerate(left):
            lattice, shown = lattices[number], chosen[number]
            paths, complete = _first_of_each(several, place, shown, n_paths)
            labellings[number] = _distinct(lattice, paths, shown)
            if complete or len(labellings[number]) >= n:
                continue
            # A search would begin again: there, parts of the labellings take less time.
            if several.states_expanded[place] or _MORE * n_paths > _MOST_RANKED:
                labellings[number] = list(islice(_Labellings(lattice, shown, solve).search(), n))
            else:
                again.append(number)
        left, n_paths = again, _MORE * n_paths
        several = rank([lattices[number] for number in left], n_paths) if left else several
    return [
        [_with_probability(path, number, log_z) for path in paths[:n]]
        for number, paths in enumerate(labellings)
    ]


def _first_of_each(
    ranking: Ranking, number: int, shown: tuple[str, ...], n_paths: int
) -> tuple[list[Path], bool]:
    """Return the first path of each labelling of some tapes, and whether all paths were ranked."""
    group, row, batch, part = ranking.place(number)
    count, engine = part.stop - part.start, group.engine
    paths = batch.of_row(row, part.start, part.stop)
    names = [tape.name for tape in engine.on]
    if paths.decoded is None and count > 1 and set(shown) <= set(names):
        along = [engine.labels_along(paths.elements, names.index(tape)).label for tape in shown]
        labels = np.concatenate([ids.reshape(count, -1) for ids in along], axis=1)
        first: dict[bytes, int] = {}
        for rank, ids in enumerate(labels):
            first.setdefault(ids.tobytes(), rank)
        paths = paths.ranks(np.fromiter(first.values(), np.int64))
    return group.paths(row, paths), count < n_paths


def _with_probability(path: Path, number: int, log_z: Callable[[], list[float]]) -> Path:
    value: Any = lambda: share(path.score, log_z()[number])  # noqa: E731 (typed as what it returns)
    return replace(path, probability=value)


def _distinct(lattice: Any, paths: Sequence[Path], shown: tuple[str, ...]) -> list[Path]:
    """Return the first path of each labelling of the tapes shown, without the other tapes."""
    first: dict[tuple[tuple[str, ...], ...], Path] = {}
    exact = True
    for path in paths:
        exact = exact and path.exact
        labels = tuple(lattice._labels_on(path.labels, tape) for tape in shown)
        first.setdefault(labels, _named(shown, labels, path, exact=exact, bound=path.bound))
    return list(first.values())


def _named(
    tapes: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    path: Path,
    *,
    exact: bool,
    bound: float,
) -> Path:
    shown = labels_of_tapes(labels)
    return Path(shown, path.score, np.nan, exact=exact, bound=bound, tapes=tapes)


def _all(lattice: Any) -> list[Bools]:
    """Return masks that allow every label of every tape."""
    return [np.ones((len(lattice), size), dtype=np.bool_) for size in lattice.sizes]


class _Part(NamedTuple):
    """A set of labellings with a common prefix, and the best path among them."""

    ids: Labels  # labels of the best path: all tapes shown at the first token, the second one, ...
    path: Path
    masks: list[Bools]  # [T, L] labels that a path of the part may have, for all tapes
    fixed: int  # the number of ids in the common prefix


class _Labellings:
    """The labellings of some tapes of one lattice.

    Parameters
    ----------
    lattice : Lattice
    shown : tuple of str
        The tapes.
    solve : function
        Returns the best path of each of several lattices.
    """

    def __init__(self, lattice: Any, shown: tuple[str, ...], solve: Callable[..., Paths]) -> None:
        self.lattice, self.shown, self.solve = lattice, shown, solve
        self.places = [lattice.tapes.index(tape) for tape in shown]
        self.parts: dict[Labels, _Part] = {}  # that are not divided yet, by their best labelling
        self.unsolved = -np.inf  # bound of the parts for which the budget did not suffice

    def search(self) -> Iterator[Path]:
        """Yield the labellings, best first, each with the score of its best path."""
        for ids, *_ in sequences.search(self._entries([(_all(self.lattice), 0)]), self._divided):
            bound = max([self.unsolved, *(part.path.bound for part in self.parts.values())])
            path = self.parts[ids].path
            labels = tuple(self.lattice._labels_on(path.labels, tape) for tape in self.shown)
            yield _named(self.shown, labels, path, exact=bound <= path.score, bound=bound)

    def _divided(self, part: _Part) -> list[Entry[_Part]]:
        """Return the rest of a part without its best labelling."""
        del self.parts[part.ids]
        return self._entries(list(self._cut(part)))

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

    def _entries(self, parts: Sequence[tuple[list[Bools], int]]) -> list[Entry[_Part]]:
        """Return the best labelling of each part with its score, and the part to divide further."""
        lattices = [self.lattice._with_row(self.lattice.row.restrict(masks)) for masks, _ in parts]
        paths = self.solve(lattices)
        entries: list[Entry[_Part]] = []
        for path, bound, (masks, fixed) in zip(paths, paths.bounds, parts, strict=True):
            if path is None:
                self.unsolved = max(self.unsolved, bound)
                continue
            ids = self._ids(path)
            self.parts[ids] = part = _Part(ids, path, masks, fixed)
            entries += [(path.score, ids, None), (path.score, ids, part)]
        return entries

    def _ids(self, path: Path) -> tuple[int, ...]:
        rows = [
            self.lattice.row.program.chain[tape].topology.label_ids(
                self.lattice._labels_on(path.labels, tape)
            )
            for tape in self.shown
        ]
        return tuple(np.stack(rows, axis=1).ravel().tolist())

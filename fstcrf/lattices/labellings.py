"""The n best labellings of some tapes of lattices that have a label for each token.

They differ in the tapes shown. The score and the probability of each are those of the best path
that has its labels. The n best paths of all tapes often hold enough of them. Where they do not, the
labellings are cut into parts: behind the best labelling come those that differ from it first at one
place, one part for each place, each with a best path of its own (Lawler 1972).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Bools
from fstcrf.kernel import Budget
from fstcrf.lattices.batching import Paths, best, nbest, usual_log_z
from fstcrf.lattices.paths import Path, labels_of_tapes, share, shown_tapes
from fstcrf.machines.plans import Search

_JOINT = 8
"""Paths of all tapes that are looked at first, for each labelling that is wanted."""


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

    A `Path` holds the labels of these tapes, in this order. Its score and its probability are those
    of the best path of all tapes with these labels.
    """
    chosen = [shown_tapes(lattice.tapes, tapes) for lattice in lattices][:1]
    log_z = cache(lambda: usual_log_z(lattices, threads=threads).tolist())
    n = whole_number(n, "n", least=1, narrow=True)
    looked = min(_JOINT * n, 2**31 - 1)
    several = nbest(lattices, looked, threads=threads, search=search, budget=budget)
    found: list[list[Path]] = []
    for number, (lattice, paths) in enumerate(zip(lattices, several, strict=True)):
        shown = chosen[0]
        different = _different(lattice, paths, shown)
        if len(different) < n and len(paths) == looked:
            solve = partial(best, threads=threads, search=search, budget=budget)
            parts = _Parts(lattice, shown, solve)
            different = [path for _, path in zip(range(n), parts, strict=False)]
        found.append([_with_chance(path, number, log_z) for path in different[:n]])
    return found


def _with_chance(path: Path, number: int, log_z: Callable[[], list[float]]) -> Path:
    chance: Any = lambda: share(path.score, log_z()[number])  # noqa: E731 (typed as what it returns)
    return replace(path, probability=chance)


def _different(taped: Any, paths: Sequence[Path], shown: tuple[str, ...]) -> list[Path]:
    """Return the first path of each labelling of the tapes shown, without the others."""
    found: dict[tuple[tuple[str, ...], ...], Path] = {}
    exact = True
    for path in paths:
        exact = exact and path.exact
        labels = tuple(taped.labels_of(path.labels, tape) for tape in shown)
        found.setdefault(labels, _named(shown, labels, path, exact=exact, bound=path.bound))
    return list(found.values())


def _named(
    tapes: tuple[str, ...],
    labels: tuple[tuple[str, ...], ...],
    path: Path,
    *,
    exact: bool,
    bound: float,
) -> Path:
    own = labels_of_tapes(labels)
    return Path(own, path.score, np.nan, exact=exact, bound=bound, tapes=tapes)


def _all(lattice: Any) -> list[Bools]:
    """Return masks that allow every label of every tape."""
    return [np.ones((len(lattice), size), dtype=np.bool_) for size in lattice.sizes]


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


class _Parts:
    """The labellings of some tapes of one lattice, best first."""

    def __init__(self, lattice: Any, shown: tuple[str, ...], solve: Callable[..., Paths]) -> None:
        self.lattice, self.shown, self.solve = lattice, shown, solve
        self.places = [lattice.tapes.index(tape) for tape in shown]
        self.unknown = -np.inf  # no path scores more in parts where the budget ended the search

    def __iter__(self) -> Iterator[Path]:
        queue = self._solved([(_all(self.lattice), 0)])
        while queue:
            part = heapq.heappop(queue)
            bound = max([part.bound, self.unknown, *(other.bound for other in queue)])
            labels = tuple(self.lattice.labels_of(part.path.labels, tape) for tape in self.shown)
            proven = bound <= part.path.score
            yield _named(self.shown, labels, part.path, exact=proven, bound=bound)
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
        one = self.lattice
        lattices = [one.with_row(one.row.restrict(masks)) for masks, _ in parts]
        paths = self.solve(lattices)
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
            self.lattice.row.program.chain[tape].topology.label_ids(
                self.lattice.labels_of(path.labels, tape)
            )
            for tape in self.shown
        ]
        return tuple(np.stack(rows, axis=1).ravel().tolist())

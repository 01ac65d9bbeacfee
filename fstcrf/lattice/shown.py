"""The n best labellings of some tapes of a lattice, whatever the other tapes say.

==============  ============================================================
shown_tapes     tapes as users name them, checked
nbest_of_tapes  the n best of some tapes, for many lattices
==============  ============================================================

They differ in the tapes shown. Each ranks by the best path that has its labels, and its probability
is that of all paths that have them: the log Z of the lattice restricted to them, less log Z.

The n best paths of all tapes often hold enough of them. Where they do not, the labellings are cut
into parts: behind the best labelling come those that differ from it first at one place, one part
for each place, each with a best path of its own (Lawler 1972).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.lattice.answer import Path, labels_of_tapes, share
from fstcrf.lattice.batch import answered, best, nbest
from fstcrf.lattice.tapes import restricted

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.lattice.lattice import Lattice
    from fstcrf.lattice.tapes import Taped

__all__ = ["nbest_of_tapes", "shown_tapes"]

Mask = NDArray[np.bool_]

_JOINT = 8
"""Paths of all tapes that are looked at first, for each labelling that is wanted."""


def shown_tapes(known: Sequence[str], tapes: Sequence[str]) -> tuple[str, ...]:
    """Return the tapes that are asked for.

    Raises
    ------
    OptionError
        None, one twice, or one that is not there.
    """
    if isinstance(tapes, str) or not tapes or len(set(tapes)) < len(tapes):
        raise OptionError(f"tapes is {tapes!r}, expected names of tapes, each once")
    odd = [tape for tape in tapes if tape not in known]
    if odd:
        raise OptionError(f"no tape {odd[0]!r}: there is {', '.join(known)}")
    return tuple(tapes)


def nbest_of_tapes(
    lattices: Sequence[Lattice],
    n: int,
    tapes: Sequence[str],
    *,
    threads: int = 1,
    budget: Budget | None = None,
) -> list[list[Path]]:
    """Return the n best labellings of some tapes of each lattice, best first.

    Parameters
    ----------
    lattices : sequence of Lattice
        All with these tapes.
    n : int
    tapes : sequence of str
        Of these tapes are the labels of a `Path`, in this order. Its score is that of the best
        path of all tapes with these labels; its probability is summed over the other tapes.
    threads : int
        The answer does not depend on it.
    budget : Budget, optional
        As for `fstcrf.nbest`.

    Raises
    ------
    OptionError
        n below 1, or tapes that there are not.
    """
    chosen = [shown_tapes(lattice.tapes, tapes) for lattice in lattices][:1]
    ranked = nbest(lattices, _JOINT * n if n > 0 else n, threads=threads, budget=budget)
    found: list[list[Path]] = []
    for lattice, paths in zip(lattices, ranked, strict=True):
        shown = chosen[0]
        different = _different(lattice, paths, shown)
        if len(different) < n and len(paths) == _JOINT * n:
            parts = _Parts(lattice, shown, threads, budget)
            different = [path for _, path in zip(range(n), parts, strict=False)]
        found.append(different[:n])
    return _summed(lattices, found, chosen, threads)


def _different(taped: Taped, paths: Sequence[Path], shown: tuple[str, ...]) -> list[Path]:
    """Return the first path of each labelling of the tapes shown, without the others."""
    found: dict[tuple[tuple[str, ...], ...], Path] = {}
    exact = True
    for path in paths:
        exact = exact and path.exact
        labels = tuple(taped.of_tape(path.labels, tape) for tape in shown)
        found.setdefault(labels, _named(labels, path, exact=exact, bound=path.bound))
    return list(found.values())


def _named(labels: tuple[tuple[str, ...], ...], path: Path, *, exact: bool, bound: float) -> Path:
    return Path(labels_of_tapes(labels), path.score, path.probability, exact=exact, bound=bound)


def _summed(
    lattices: Sequence[Lattice],
    found: list[list[Path]],
    chosen: list[tuple[str, ...]],
    threads: int,
) -> list[list[Path]]:
    """Return the paths with the probability of their labels, summed over the other tapes."""
    alone, whose = [], []
    for number, (lattice, paths) in enumerate(zip(lattices, found, strict=True)):
        for path in paths:
            alone.append(restricted(lattice, _masks(lattice, chosen[0], path)))
            whose.append(number)
    part, whole = (_log_z(some, threads) for some in (alone, lattices))
    chances = iter([share(log_z, whole[number]) for log_z, number in zip(part, whose, strict=True)])
    return [
        [Path(p.labels, p.score, next(chances), exact=p.exact, bound=p.bound) for p in paths]
        for paths in found
    ]


def _log_z(lattices: Sequence[Lattice], threads: int) -> list[float]:
    """Return log Z of each lattice; NaN where that takes a product too large to expand for it."""
    out = np.zeros(len(lattices))
    for group, log_z in answered(lattices, lambda group: group.usual_log_z, threads):
        out[group.numbers] = log_z
    return out.tolist()


def _masks(lattice: Lattice, shown: tuple[str, ...], path: Path) -> list[Mask]:
    labels = path.labels if len(shown) > 1 else (path.labels,)
    masks = _all(lattice)
    for tape, mine in zip(shown, labels, strict=True):
        ids = lattice.program.chain[tape].topology.label_ids(mine)
        mask = masks[lattice.tapes.index(tape)]
        mask[:] = False
        mask[np.arange(len(ids)), ids] = True
    return masks


def _all(lattice: Lattice) -> list[Mask]:
    """Return masks that allow every label of every tape."""
    sizes = [len(lattice.program.labels(tape)) for tape in lattice.tapes]
    return [np.ones((len(lattice), size), dtype=np.bool_) for size in sizes]


class _Part(NamedTuple):
    """Labellings of the tapes shown, and the best path among them.

    Parameters
    ----------
    cost : float
        −score of the path: parts are taken in this order, then in that of the label numbers.
    ids : tuple of int
        Labels of the path: those of all tapes shown at the first token, at the second one, ...
    path : Path
    bound : float
        No path of the part scores more.
    masks : list of bool [T, L]
        The labels that a path of the part may have, for all tapes.
    fixed : int
        So many of the ids are the same in all paths of the part.
    """

    cost: float
    ids: tuple[int, ...]
    path: Path
    bound: float
    masks: list[Mask]
    fixed: int


class _Parts:
    """The labellings of some tapes of one lattice, best first."""

    def __init__(
        self, lattice: Lattice, shown: tuple[str, ...], threads: int, budget: Budget | None
    ) -> None:
        self.lattice, self.shown = lattice, shown
        self.threads, self.budget = threads, budget
        self.places = [lattice.tapes.index(tape) for tape in shown]
        self.unknown = -np.inf  # no path scores more in parts where the budget ended the search

    def __iter__(self) -> Iterator[Path]:
        queue = self._solved([(_all(self.lattice), 0)])
        while queue:
            part = heapq.heappop(queue)
            bound = max([part.bound, self.unknown, *(other.bound for other in queue)])
            labels = tuple(self.lattice.of_tape(part.path.labels, tape) for tape in self.shown)
            yield _named(labels, part.path, exact=bound <= part.path.score, bound=bound)
            for other in self._solved(list(self._cut(part))):
                heapq.heappush(queue, other)

    def _cut(self, part: _Part) -> Iterator[tuple[list[Mask], int]]:
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

    def _solved(self, parts: Sequence[tuple[list[Mask], int]]) -> list[_Part]:
        """Return the parts that have a path, as a heap."""
        lattices = [restricted(self.lattice, masks) for masks, _ in parts]
        paths = best(lattices, threads=self.threads, budget=self.budget)
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
                self.lattice.of_tape(path.labels, tape)
            )
            for tape in self.shown
        ]
        return tuple(np.stack(rows, axis=1).ravel().tolist())

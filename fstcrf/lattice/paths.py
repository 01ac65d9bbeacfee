"""One label sequence with its score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel

if TYPE_CHECKING:
    from fstcrf.lattice.batch import Group
    from fstcrf.lattice.lattice import Lattice

__all__ = [
    "Labels",
    "Path",
    "Paths",
    "Ranking",
    "labels_of_tapes",
]

Labels: TypeAlias = tuple[Any, ...]
"""A tuple of str; of several tapes, a tuple of such tuples."""


def labels_of_tapes(labels: Sequence[tuple[str, ...]]) -> Labels:
    """Return the labels of some tapes as a path has them: those of an only tape as they are."""
    return tuple(labels) if len(labels) > 1 else labels[0]


@dataclass(frozen=True, slots=True)
class Path:
    """One label sequence through a lattice.

    Parameters
    ----------
    labels : tuple of str
        Of several tapes, a tuple of such tuples, one a tape.
    score : float
        Sum of its potentials (natural log).
    probability : float
        exp(score − log Z); NaN where that needs a grammar too large to multiply out
        (`Lattice.confidence` bounds it).
    exact : bool
        Nothing scores higher: proven, not searched until a budget ended.
    bound : float
        No label sequence scores higher than this (natural log).
    """

    labels: Labels
    score: float
    probability: float
    exact: bool
    bound: float


# --- Paths of many lattices -----------------------------------------------------------------------

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class Paths(Sequence["Path | None"]):
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
        lattices: Sequence[Lattice],
    ) -> None:
        self.scores, self.bounds = np.zeros(size), np.zeros(size)
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
    def __getitem__(self, index: int) -> Path | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path | None]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        score = float(self.scores[number])
        if score == -np.inf:
            return None
        labels = self.labels(number)
        place = self._places.get(number)
        if place is None:
            return Path(labels, 0.0, 1.0, exact=True, bound=0.0)
        group, k, _ = place
        return Path(
            labels,
            score,
            share(score, group.usual_log_z[k]),
            exact=bool(self.exact[number]),
            bound=float(self.bounds[number]),
        )

    def labels(self, number: int) -> Any:
        """Return the labels of one path, as `Path.labels`; () for a lattice without a path."""
        lattice = self._lattices[number]
        place = self._places.get(number)
        if place is None or self.scores[number] == -np.inf:
            return lattice.per_tape(lambda _: ())
        return lattice.path_labels(place[2])

    @cached_property
    def _places(self) -> dict[int, tuple[Group, int, Ints]]:
        return {
            number: (group, k, searched.path[0, group.offsets[k] : group.offsets[k + 1]])
            for group, searched in self._found
            for k, number in enumerate(group.numbers)
        }


class Ranking(Sequence[list[Path]]):
    """The n best paths of each lattice, best first."""

    def __init__(
        self,
        size: int,
        found: list[tuple[Group, kernel.SearchResult]],
        lattices: Sequence[Lattice],
    ) -> None:
        self._size, self._found, self._lattices = size, found, lattices

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> list[Path]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Path]]: ...
    def __getitem__(self, index: int | slice) -> Any:
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
        place = self._places.get(number)
        if place is None:
            return np.zeros(1)
        _, k, ranked = place
        return ranked.score[k, : ranked.found[k]]

    def _paths(self, number: int) -> Iterator[Path]:
        lattice = self._lattices[number]
        place = self._places.get(number)
        if place is None:
            yield Path(lattice.per_tape(lambda _: ()), 0.0, 1.0, exact=True, bound=0.0)
            return
        group, k, ranked = place
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


def share(score: float, log_z: float) -> float:
    """Return exp(score − log Z), at most 1 whatever the rounding; 0 for −inf, NaN for NaN."""
    return float(np.minimum(1.0, np.exp(score - log_z))) if score > -np.inf else 0.0

"""Questions to many lattices at once: to those of tokens, or to those of arcs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.kernel import Budget
from fstcrf.lattices import batch, paths
from fstcrf.lattices.answer import Labels, LabelsT_co, Path
from fstcrf.lattices.paths import Paths, Ranking
from fstcrf.lattices.tapes import ArrayT_co, Taped
from fstcrf.lazy import LazyModule
from fstcrf.machines.plans import Search

if TYPE_CHECKING:
    from fstcrf.lattices import arcbatches
    from fstcrf.lattices.arclattice import ArcLattice
else:
    arcbatches = LazyModule("fstcrf.lattices.arcbatches")

__all__ = ["best", "log_partition", "marginals", "nbest", "sample"]


def _of_arcs(lattices: Sequence[object], threads: int) -> bool:
    """Whether lattices are of arcs: the first of them is."""
    whole_number(threads, "threads", least=1)
    return len(lattices) > 0 and hasattr(lattices[0], "engine")


def _check(options: Mapping[str, object]) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise OptionError(f"{given[0]}= is for lattices of tokens; those of arcs are written out")


@overload
def best(
    lattices: Sequence[Taped[LabelsT_co, object]],
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Paths[LabelsT_co]: ...
@overload
def best(lattices: Sequence[ArcLattice], *, threads: int = 1) -> Sequence[Path | None]: ...
def best(lattices: Sequence[Any], *, threads: int = 1, **options: Any) -> Any:
    """Return the best path of each lattice; see `fstcrf.lattices.paths.best`.

    Lattices are of tokens, or all of them of arcs; these have no options but `threads`.
    """
    if _of_arcs(lattices, threads):
        _check(options)
        return arcbatches.best(lattices)
    return paths.best(lattices, threads=threads, **options)


@overload
def nbest(
    lattices: Sequence[Taped[LabelsT_co, object]],
    n: int,
    *,
    threads: int = 1,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Ranking[LabelsT_co]: ...
@overload
def nbest(lattices: Sequence[ArcLattice], n: int, *, threads: int = 1) -> list[list[Path]]: ...
def nbest(lattices: Sequence[Any], n: int, *, threads: int = 1, **options: Any) -> Any:
    """Return the n best paths of each lattice; see `fstcrf.lattices.paths.nbest`, and `best`."""
    if _of_arcs(lattices, threads):
        _check(options)
        return arcbatches.nbest(lattices, n)
    return paths.nbest(lattices, n, threads=threads, **options)


def log_partition(lattices: Sequence[Taped | ArcLattice], *, threads: int = 1) -> Floats:
    """Return log Z of each lattice, float64 [B]; −inf where there is no path."""
    every: Sequence[Any] = lattices
    if _of_arcs(lattices, threads):
        return arcbatches.log_partition(every)
    return batch.log_partition(every, threads=threads)


@overload
def marginals(
    lattices: Sequence[Taped[Labels, ArrayT_co]], *, threads: int = 1
) -> list[ArrayT_co]: ...
@overload
def marginals(lattices: Sequence[ArcLattice], *, threads: int = 1) -> list[Any]: ...
def marginals(lattices: Sequence[Any], *, threads: int = 1) -> list[Any]:
    """Return the probability of each label at each token; see `fstcrf.lattices.batch.marginals`."""
    if _of_arcs(lattices, threads):
        return arcbatches.marginals(lattices)
    return batch.marginals(lattices, threads=threads)


@overload
def sample(
    lattices: Sequence[Taped[LabelsT_co, object]], n: int, *, seed: int = 0, threads: int = 1
) -> list[list[LabelsT_co]]: ...
@overload
def sample(
    lattices: Sequence[ArcLattice], n: int, *, seed: int = 0, threads: int = 1
) -> list[list[Any]]: ...
def sample(lattices: Sequence[Any], n: int, *, seed: int = 0, threads: int = 1) -> list[list[Any]]:
    """Return n independent samples of each lattice; see `fstcrf.lattices.batch.sample`."""
    if _of_arcs(lattices, threads):
        return arcbatches.sample(lattices, n, seed=seed)
    return batch.sample(lattices, n, seed=seed, threads=threads)

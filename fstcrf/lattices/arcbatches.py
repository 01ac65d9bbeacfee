"""Many lattices of arcs at once: those that share pair scores and tapes are rows of one engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats
from fstcrf.errors import NoPathError, OptionError
from fstcrf.lattices.answer import Path
from fstcrf.lattices.arclattice import ArcLattice
from fstcrf.lattices.arcs import Arcs, joined
from fstcrf.lattices.engine import Runs
from fstcrf.ragged import Ragged

__all__ = ["best", "log_partition", "marginals", "nbest", "sample"]


class _Group(NamedTuple):
    numbers: list[int]
    lattices: list[ArcLattice]
    engine: Arcs

    def rows(self, runs: Runs) -> Iterator[tuple[int, list[Path]]]:
        """Yield the number of each lattice and its paths."""
        arcs = Ragged.from_lengths(one.engine.n_elements for one in self.lattices).offsets.tolist()
        paths, log_z = Ragged.from_lengths(runs.found).slices(), self.engine.log_z.tolist()
        for k, (lattice, own) in enumerate(zip(self.lattices, paths, strict=True)):
            bounds = runs.bounds[own.start : own.stop + 1]
            elements = runs.elements[bounds[0] : bounds[-1]] - np.int32(arcs[k])
            mine = Runs(runs.found[k : k + 1], runs.score[own], bounds - bounds[0], elements)
            yield self.numbers[k], lattice.paths(lattice.engine, mine, log_z[k])

    def check(self) -> None:
        """Raise NoPathError, with its number, for the first lattice that has no path."""
        for k in np.flatnonzero(np.isneginf(self.engine.log_z)).tolist()[:1]:
            error = self.lattices[k].no_path()
            raise NoPathError(error.reason, position=error.position, sentence=self.numbers[k])


def _grouped(lattices: Sequence[ArcLattice], *, clocked: bool = False) -> list[_Group]:
    """Sort lattices by what their engines must share."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, lattice in enumerate(lattices):
        if not isinstance(lattice, ArcLattice):
            raise OptionError(
                f"lattice {number} is {lattice!r}: lattices of tokens and of arcs are asked apart"
            )
        arcs = lattice.engine
        same = (0, 0) if arcs.pairs is None else (id(arcs.pairs), id(arcs.class_final))
        kind = arcs.per_position, arcs.at is None, arcs.tapes
        groups.setdefault((*same, *map(int, kind)), []).append(number)
    found = []
    for numbers in groups.values():
        members = [lattices[k] for k in numbers]
        engines = [one.clocked if clocked else one.engine for one in members]
        found.append(_Group(numbers, members, joined(engines)))
    return found


def best(lattices: Sequence[ArcLattice]) -> list[Path | None]:
    """Return the best path of each lattice; None where there is none."""
    return [paths[0] if paths else None for paths in nbest(lattices, 1)]


def nbest(lattices: Sequence[ArcLattice], n: int) -> list[list[Path]]:
    """Return the n best paths of each lattice, best first."""
    n = whole_number(n, "n", least=1, narrow=True)
    found: dict[int, list[Path]] = {}
    for group in _grouped(lattices):
        found.update(group.rows(group.engine.nbest(n)))
    return [found[k] for k in range(len(lattices))]


def log_partition(lattices: Sequence[ArcLattice]) -> Floats:
    """Return log Z of each, float64 [B]; −inf where there is no path."""
    found = np.empty(len(lattices))
    for group in _grouped(lattices):
        found[group.numbers] = group.engine.log_z
    return found


def marginals(lattices: Sequence[ArcLattice]) -> list[Any]:
    """Return the probability of each label at each token of each lattice, as `Lattice.marginals`.

    Raises
    ------
    NoPathError
        A lattice without a path.
    """
    found: dict[int, Any] = {}
    for group in _grouped(lattices, clocked=True):
        group.check()
        engine, rows = group.engine, list(group.engine.rows.slices())
        sizes = [[len(tape.labels) for tape in one.on] for one in group.lattices]
        parts = []
        for tape in range(engine.tapes):
            most = max(own[tape] for own in sizes)
            parts.append(engine.marginals(tape, most))
        for number, own, tokens in zip(group.numbers, sizes, rows, strict=True):
            tables = tuple(part[tokens, :size] for part, size in zip(parts, own, strict=True))
            found[number] = tables if len(tables) > 1 else tables[0]
    return [found[k] for k in range(len(lattices))]


def sample(lattices: Sequence[ArcLattice], n: int, *, seed: int = 0) -> list[list[Any]]:
    """Return n independent samples of each lattice, as `ArcLattice.sample` does.

    Raises
    ------
    NoPathError
        A lattice without a path.
    """
    n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
    found: dict[int, list[Any]] = {}
    for group in _grouped(lattices):
        group.check()
        generators = [np.random.default_rng([seed, number]) for number in group.numbers]
        found.update(group.rows(group.engine.sample(n, generators)))
    return [
        found[k] if one.segmented else [path.labels for path in found[k]]
        for k, one in enumerate(lattices)
    ]

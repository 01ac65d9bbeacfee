"""Compositions of lattices of one sentence: scores add up, and all tapes are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, permutations
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import real_array
from fstcrf.arrays import Floats
from fstcrf.errors import OptionError, ShapeError
from fstcrf.lattices.engine import Tape, refuse_options
from fstcrf.lattices.inputs import distinct_tapes, potentials
from fstcrf.lattices.questions import Questions
from fstcrf.machines.plans import Search

LatticeT = TypeVar("LatticeT", bound=Questions)


def product(
    lattices: Sequence[LatticeT],
    *,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    weights: Sequence[float] | None = None,
    search: Search | None = None,
) -> LatticeT:
    """Return the composition of lattices of one sentence: scores add up, and all tapes are kept.

    Parameters
    ----------
    lattices : sequence of Lattice
        They have equal lengths, and one tape or more each.
    coupling : mapping of (int, int) to [L1, L2] or [T, L1, L2], optional
        Potentials of the labels that two lattices, by position, give the same token; axes in the
        order of their ``labels``.
    weights : sequence of float, optional
        Factor of each lattice's potentials, at least 0; the default is 1.
    search : {"auto", "lazy", "expanded"}, optional
        As for `Lattice.constrained`.

    Raises
    ------
    ShapeError
        Lattices of different lengths, couplings of other shapes, another number of weights.
    OptionError
        Negative weights; a coupling of a lattice with itself or of one with several tapes; a search
        of arcs, which are written out.
    NumericError
        NaN or +inf in a coupling.
    """
    if not lattices:
        raise OptionError("compose() needs at least one lattice")
    parts = list(lattices) if weights is None else _weighted(lattices, weights)
    length = common_length(parts)
    tables: dict[tuple[int, int], Floats] = {}
    coupling = {} if coupling is None else coupling
    if not isinstance(coupling, Mapping):
        raise OptionError(
            "coupling= is a mapping: {(0, 1): potentials of the labels of lattices 0 and 1}"
        )
    tapes = [part.on for part in parts]
    first = [0, *accumulate(map(len, tapes))]
    for key, table in coupling.items():
        if key not in permutations(range(len(parts)), 2):
            raise OptionError(f"coupling {key}: expected two positions below {len(parts)}")
        if any(len(tapes[k]) > 1 for k in key):
            raise OptionError(
                f"coupling {key} refers to a lattice of several tapes: use "
                "with_tokens(coupling=), where the tapes have names"
            )
        pair = tapes[key[0]][0], tapes[key[1]][0]
        tables[first[key[0]], first[key[1]]] = coupling_table(table, key, pair, length)
    lattice = _composed(parts, tables)
    if search is not None and (chain := lattice.row.as_chain) is not None:
        return lattice._with_row(chain.searching(search))
    refuse_options({"search": search})
    return lattice


def composed(lattices: Sequence[LatticeT], coupling: Mapping[tuple[int, int], Floats]) -> LatticeT:
    """Return the composition of lattices; keys of couplings are two numbers among all tapes."""
    common_length(lattices)
    return _composed(lattices, coupling)


def _composed(lattices: Sequence[LatticeT], coupling: Mapping[tuple[int, int], Floats]) -> LatticeT:
    names = distinct_tapes([lattice.tapes for lattice in lattices])
    first, *others = lattices
    return first._with_row(first.row.compose([other.row for other in others], names, coupling))


def coupling_table(values: ArrayLike, key: object, tapes: tuple[Tape, Tape], length: int) -> Floats:
    """Return checked potentials of the labels of two tapes, for all tokens or for each token."""
    sizes = len(tapes[0].labels), len(tapes[1].labels)
    shapes: list[tuple[int | None, ...]] = [sizes, (length, *sizes)]
    return potentials(values, f"coupling {key}", shapes)


def common_length(lattices: Sequence[Questions]) -> int:
    """Return the length of a sentence; if no lattice has a text, the length of the longest path."""
    lengths = {lattice.length for lattice in lattices if lattice.row.covers_text}
    if len(lengths) > 1:
        raise ShapeError(
            f"the lattices have {sorted(lengths)} tokens: all must belong to one sentence"
        )
    return lengths.pop() if lengths else max(lattice.length for lattice in lattices)


def _weighted(lattices: Sequence[LatticeT], weights: Sequence[float]) -> list[LatticeT]:
    if len(weights) != len(lattices):
        raise ShapeError(f"{len(weights)} weights for {len(lattices)} lattices")
    factors = real_array(weights, "weights", error=OptionError).tolist()
    if any(not 0 <= w < np.inf for w in factors):
        raise OptionError(f"weights are {factors}, expected numbers from 0")
    return [
        lattice if weight == 1.0 else lattice._with_row(lattice.row.scale(weight, grammar=False))
        for lattice, weight in zip(lattices, factors, strict=True)
    ]

"""The diagonal of the Hessian, approximately: the preconditioner of Sha and Pereira (2003).

    H_f = sum over tokens of (E f² − (E f)²) + 2 l2

The true diagonal is the variance of a feature's count over a whole sentence. Taking the tokens of a
sentence as independent makes it a sum that one forward-backward gives. It is never negative; the
penalty makes it positive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import OptionError
from fstcrf.train.problem import ParameterSpace, Problem, Tables

__all__ = ["DiagonalHessian", "arc_cells"]


_CELLS = 200_000  # posteriors of arcs that are held at once


class DiagonalHessian:
    """theta → the approximate diagonal of the Hessian of `Likelihood`, float64 [size].

    Parameters
    ----------
    problem : Problem
        All labels known. An attribute that a token has twice counts as two.
    space : ParameterSpace
    l2 : float
        Coefficient of |theta|², above 0.
    scale : float64 [size], optional
        The data sees ``scale * theta``, the penalty theta (see `fstcrf.train.ties`).

    Attributes
    ----------
    evaluations : int
        Number of calls so far: passes of forward-backward over the data.

    Raises
    ------
    OptionError
        Unknown labels, whose Hessian has no sign; or no penalty, without which an entry may be 0.
    """

    def __init__(
        self, problem: Problem, space: ParameterSpace, *, l2: float, scale: Floats | None = None
    ) -> None:
        if problem.partial.any():
            first = int(np.flatnonzero(problem.partial)[0])
            raise OptionError(
                f"sentence {first} has labels that are not known: no preconditioner for those"
            )
        if not l2 > 0.0:
            raise OptionError(f"l2 is {l2}, expected a number above 0: the preconditioner needs it")
        self.l2, self.evaluations = l2, 0
        self._space, self._scale = space, scale
        self._parts = list(_parts(problem))
        self._node = _squared(problem.node)
        self._arc = None if problem.arc is None else _squared(problem.arc)

    def __call__(self, theta: Floats) -> Floats:
        """Return the diagonal at theta (float64 [size]); every entry is at least 2 l2."""
        self.evaluations += 1
        sums = self._variances(theta)
        arc = None
        if self._arc is not None and sums.arc is not None:
            arc = self._arc.transposed().times(sums.arc)
        node = self._node.transposed().times(sums.node)
        begin, end = sums.ends
        diagonal = self._space.collect(Tables(node, sums.transition, arc, begin, end))
        if self._scale is not None:
            diagonal *= self._scale**2
        diagonal += 2.0 * self.l2
        return diagonal

    def _variances(self, theta: Floats) -> _Sums:
        space, topology, tokens = self._space, self._space.topology, len(self._node)
        tables = space.tables(theta if self._scale is None else theta * self._scale)
        sums = _Sums(
            np.zeros((tokens, space.width)),
            np.zeros((tokens, space.arc_width)) if space.n_arc_rows else None,
            np.zeros(topology.n_arc_slots),
            np.zeros((2, topology.n_states)),
        )
        for part in self._parts:
            self._add(part, tables, sums)
        return sums

    def _add(self, part: _Part, tables: Tables, sums: _Sums) -> None:
        """Add the variances of some sentences; those of attributes wait for the product."""
        topology, space = self._space.topology, self._space
        node = topology.node_potentials(part.node.times(tables.node))
        slots = np.broadcast_to(tables.transition, (len(node), topology.n_arc_slots))
        if part.arc is not None and tables.arc is not None:
            slots = part.arc.times(tables.arc)[:, : topology.n_arc_slots] + slots
        graph = topology.graph(slots, tables.initial, tables.final)
        found = kernel.forward_backward(graph, part.offsets, node)
        weight = np.repeat(part.weight, np.diff(part.offsets))[:, None]
        sums.node[part.tokens] = weight * _variance(topology.slot_sums(found.node, space.width))
        first, last = part.offsets[:-1], part.offsets[1:] - 1
        arcs = topology.arc_slot_sums(found.arc)
        arcs[first] = 0.0
        arcs = weight * _variance(arcs)
        sums.transition[:] += arcs.sum(axis=0)
        if sums.arc is not None:
            sums.arc[part.tokens, : topology.n_arc_slots] = arcs
        for k, tokens in enumerate((first, last)):
            sums.ends[k] += (weight[tokens] * _variance(found.node[tokens])).sum(axis=0)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Variances of slots at tokens, of arc slots at tokens and in all, of first and last states."""

    node: Floats
    arc: Floats | None
    transition: Floats
    ends: Floats


@dataclass(frozen=True, slots=True)
class _Part:
    """Some sentences: few enough for the posteriors of their arcs."""

    tokens: slice
    offsets: Longs
    node: kernel.SparseRows
    arc: kernel.SparseRows | None
    weight: Floats


def _parts(problem: Problem) -> Iterator[_Part]:
    for first, last in pairwise(_bounds(problem)):
        a, b = problem.offsets[[first, last]].tolist()
        yield _Part(
            slice(a, b),
            problem.offsets[first : last + 1] - a,
            problem.node.slice(a, b),
            None if problem.arc is None else problem.arc.slice(a, b),
            problem.weight[first:last],
        )


def _bounds(problem: Problem) -> list[int]:
    """Cut sentences into runs of about so many tokens that their arcs fit into _CELLS."""
    tokens, offsets = max(1, _CELLS // _arcs(problem)), problem.offsets
    cuts = np.searchsorted(offsets, np.arange(tokens, int(offsets[-1]), tokens))
    return sorted({0, *cuts.tolist(), len(offsets) - 1})


def _arcs(problem: Problem) -> int:
    topology = problem.topology
    return topology.n_states**2 if topology.dense else max(1, len(topology.source))


def arc_cells(problem: Problem) -> int:
    """Return the number of arcs at all tokens: what one diagonal costs."""
    return _arcs(problem) * int(problem.offsets[-1])


def _variance(probability: Floats) -> Floats:
    """Return p (1 − p), never negative for all that rounding does."""
    return np.maximum(probability * (1.0 - probability), 0.0)


def _squared(rows: kernel.SparseRows) -> kernel.SparseRows:
    if rows.value is None:
        return rows
    return kernel.SparseRows(rows.indptr, rows.index, rows.value**2, rows.n_columns)

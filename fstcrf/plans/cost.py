"""What best paths cost over a product and beside it, counted before anything is run.

An operation is what a core does in a nanosecond, roughly: the constants were measured once, over
one to three tapes of 5 to 121 labels and automata of 2 to 64 states, where they tell the time of a
product within a factor of 1.7, mostly 1.3. Searches count the same operations as they go
(`csrc/lazy.h`). So which way is taken depends on what is asked, never on the machine, its load, the
threads or the other sentences of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.grammar import Acceptor
from fstcrf.kernel import Machine

__all__ = ["Cost", "edges_of", "product_cost", "search_cost"]

_TOKEN = 94
"""Operations of any token."""

_WALKED = 0.75
"""... of a joint state in the row that is looked at on the way back."""

_STATE = 22
"""... of a state of the automaton."""

_CELL = 2.05
"""... of a joint state of the product."""

_ARC = 0.025
"""... of an arc of a dense axis."""

_SPARSE_ARC = 0.125
"""... of an arc of a sparse axis."""

_EDGE = 0.15
"""... of an edge of the automaton, at each joint state of the tapes."""

_FAR_ARC = 0.1
"""... of an arc in a table beyond the first cache, for every four rows that it is applied to."""

_NEAR = 4_096
"""Arcs in a table that stays in the first cache."""

_TAKEN = 215
"""Operations of a search for each state that it takes."""

_ROW = 1.3
"""... and for each joint state of the rows behind that."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What the best paths of a sentence take, for each of its tokens.

    Parameters
    ----------
    cells : int
        Joint states that are kept at a token.
    operations : float
        Of the best path.
    further : float
        Of each further path.
    """

    cells: int
    operations: float
    further: float

    def paths(self, n: int) -> int:
        """Return the operations of the n best paths, a token."""
        return int(self.operations + (n - 1) * self.further)


def product_cost(machine: Machine, states: int = 1, edges: int = 0) -> Cost:
    """Return what best paths over a machine cost beside an automaton that is multiplied out.

    Parameters
    ----------
    machine : Machine
        Without a residual automaton of its own.
    states, edges : int
        Of the automaton.
    """
    plane = int(np.prod(machine.shape, dtype=np.int64))
    cells = states * plane
    arcs, before = 0.0, 1
    for axis in machine.axes:
        each = cells * axis.n_arcs / axis.n_states
        arcs += each * (_ARC if axis.source is None else _SPARSE_ARC)
        if axis.source is None and axis.n_arcs > _NEAR:
            arcs += _FAR_ARC * axis.n_arcs * -(-states * before // 4)
        before *= axis.n_states
    walked = _TOKEN + _WALKED * plane
    return Cost(
        cells,
        walked + _STATE * states + _CELL * cells + arcs + _EDGE * edges * plane,
        walked,
    )


def search_cost(machine: Machine) -> Cost:
    """Return what a search costs where the machine's own best paths are legal: the least."""
    plane = int(np.prod(machine.shape, dtype=np.int64))
    taken = _TAKEN + _ROW * plane
    return Cost(plane, product_cost(machine).operations + taken, taken)


def edges_of(acceptor: Acceptor) -> int:
    """Return the pairs of states of an acceptor that some labels lead from and to."""
    flat: Sequence[np.ndarray] = acceptor.target.reshape(acceptor.n_states, -1)  # type: ignore[assignment]
    return sum(int((np.unique(row) >= 0).sum()) for row in flat)

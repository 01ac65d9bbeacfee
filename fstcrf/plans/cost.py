"""What best paths cost over a product and beside it, counted before anything is run.

An operation is what a core does in a nanosecond, roughly. The constants were fitted once to the
time of products over one to three tapes of 5 to 2,500 joint states and automata of 2 to 1,500
states: nine of ten take 0.8 to 1.3 times what is counted. Searches count the same operations as
they go (`csrc/lazy.h`). So which way is taken depends on what is asked, never on the machine, its
load, the threads or the other sentences of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fstcrf.grammar import Acceptor
from fstcrf.kernel import Machine

__all__ = ["Cost", "allowance", "edges_of", "product_cost", "search_cost"]

_LANES = 8
"""Cells of the last axis go together by so many."""

_TOKEN = 124
"""Operations of any token."""

_WALKED = 1.07
"""... of a joint state of the tapes, in the row that is looked at on the way back."""

_CELL = 1.2
"""... of a joint state of the product."""

_ARC, _SPARSE_ARC = 0.027, 0.135
"""... of an arc between joint states, of dense and of sparse axes."""

_FAR_ARC = 0.032
"""... of an arc in a table beyond the first cache, for every four rows that it is applied to."""

_NEAR = 4_096
"""Arcs in a table that stays in the first cache."""

_EDGE, _EDGE_ROW = 0.58, 2.7
"""... of an edge of the automaton, at each joint state if it reads the last tape, and at each of
the tapes before it."""

_TAKEN, _ROW = 150, 1.3
"""Operations of a search for each state that it takes, and for each cell of the rows behind it."""

_WALK, _WALKED_ROWS = 260, 2
"""The same as a search itself counts them while the best labels are legal."""


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


def product_cost(
    machine: Machine, states: int = 1, edges: int = 0, *, reads_last: bool = False
) -> Cost:
    """Return what best paths over a machine cost with an automaton that is multiplied out.

    Parameters
    ----------
    machine : Machine
        Without a residual automaton of its own.
    states, edges : int
        Of the automaton.
    reads_last : bool
        Whether the automaton reads the last tape.
    """
    outer, plane = machine.outer, machine.outer * machine.width
    padded = outer * (-(-machine.width // _LANES) * _LANES)
    walked = _TOKEN + _WALKED * plane
    total = walked + _CELL * states * padded + _EDGE_ROW * edges * outer
    if reads_last:
        total += _EDGE * edges * padded
    rows = states
    for axis in machine.axes:
        each = states * padded * axis.n_arcs / axis.n_states
        total += each * (_ARC if axis.source is None else _SPARSE_ARC)
        if axis.source is None and axis.n_arcs > _NEAR:
            total += _FAR_ARC * axis.n_arcs * -(-rows // 4)
        rows *= axis.n_states
    return Cost(states * padded, total, walked)


def search_cost(machine: Machine) -> Cost:
    """Return what a search costs where the machine's own best paths are legal: the least."""
    free = product_cost(machine)
    taken = _TAKEN + _ROW * machine.outer * machine.width
    return Cost(free.cells, free.operations + taken, taken)


def allowance(machine: Machine, cost: Cost, n: int) -> int:
    """Return the operations a token that a search for n paths may do instead of a product.

    A quarter of the product's, but enough for a best path that is legal, or nearly so.
    """
    walk = _WALK + _WALKED_ROWS * machine.outer * machine.width
    return max(cost.paths(n) // 4, walk + walk // 5)


def edges_of(acceptor: Acceptor) -> int:
    """Return the pairs of states of an acceptor that some labels lead from and to."""
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    pairs = np.arange(acceptor.n_states)[:, None] * acceptor.n_states + flat
    return len(np.unique(pairs[flat >= 0]))

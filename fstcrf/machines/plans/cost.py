"""What best paths cost over a product and beside it, counted before anything is run.

An operation is what a core does in a nanosecond, roughly. The constants were fitted once to the
time of 312 products over one to three tapes of 5 to 2,500 joint states and automata of 2 to 3,000
states: eight of ten are counted as 0.78 to 1.14 times what they take. Searches count the same
operations as they go (`csrc/lazy.h`). So which way is taken depends on what is asked, never on the
machine, its load, the threads or the other sentences of a batch.

Which of the two is decided by counting (`machines/plans/cost.py`). What a product takes a token
follows from its sizes, by constants that were fitted once; what a search does, it counts as it
goes: rows of successors and comparisons in the queue, since states differ by a factor of 50 in
what stands behind them. A product that costs at most 1.8 times what the least search costs is run
at once. Else the best path of the tagger is walked down, without a queue, as far as the grammar
allows it. Where that is not to the end, the walk goes on past what is refused, and counts the
*breaches*: runs of tokens that are refused, or lose a score. They tell searches that are in vain
before they begin: of 385 drawn sentences whose best labels were not legal, 174 had seven breaches
or more, and no search of these took less than four times as long as the product; of 43 with one
breach, half of the searches took less than half of it. With fewer than seven the sentence is
searched until that has cost, with the backward pass, 0.15 of the product, or 0.12 behind that
pass. From then on it may do 0.9 of the product for the share that its bound has fallen by, of the
way to the score of a legal path that is found at once, and at most half of it. What a search has
come to by its bound says more than how far its longest path has come, which is near the end after
a tenth of the product, whether the search ends or not. No rule of this kind can keep below twice
the better of both on every input: whatever a search may do in vain, one that would have ended a
little later is lost. Of several paths, those found are what a search has come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf.arrays import distinct
from fstcrf.kernel import Allowance, Axis, JointChain
from fstcrf.machines.topology import rest_cost

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Acceptor

_LANES = 8
"""Cells of the last axis go together by so many."""

_WALKED = 0.5
"""Operations of a joint state of the tapes, in a row that is looked at again."""


class _Rates(NamedTuple):
    """Operations of a machine's best paths, fitted to what they take."""

    token: float
    axis: float  # a token, of each where there are several
    plane: float  # of a joint state of the tapes: its potentials, and the row on the way back
    arc: float  # between joint states, of dense axes
    far_arc: float  # in a table beyond the first cache, for every four rows it is applied to
    block: float  # of rows that share a table of a dense axis


_FREE = _Rates(token=28, axis=35, plane=0.9, arc=0.027, far_arc=0.032, block=0.0)
_WHOLE = _Rates(token=54, axis=56, plane=0.88, arc=0.036, far_arc=0.008, block=2.6)
"""Without and with an automaton."""

_SPARSE_ARC = 0.135
"""... of an arc between joint states, of sparse axes."""

_NEAR = 4_096
"""Arcs in a table that stays in the first cache."""

_EDGE, _EDGE_ROW = 0.27, 1.37
"""... of an edge of the automaton, at each joint state if it reads the last tape (if not, edges
share those states), and at each of the tapes before it."""

_STEP, _STEP_CELL = 12, 0.25
"""... of a search for each token and each joint state, while the best labels are legal."""

_LEAST, _BEYOND = 0.15, 0.12
"""Shares of a product's operations that a search may do at first, and in any case behind its
backward pass."""

_MOST, _MOST_OF_SEVERAL = 0.5, 0.9
"""... and when it is near its end, of one path and of several."""

_FURTHER = 10
"""... of a token of each further path, beside the joint states that are looked at."""


@dataclass(frozen=True, slots=True)
class DecodingCost:
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
    machine: JointChain, states: int = 1, edges: int = 0, *, reads_last: bool = False
) -> DecodingCost:
    """Return what best paths over a machine cost with an automaton that is multiplied out.

    Parameters
    ----------
    machine : JointChain
        Without a residual automaton of its own.
    states, edges : int
        Of the automaton.
    reads_last : bool
        Whether the automaton reads the last tape.
    """
    rates = _WHOLE if edges else _FREE
    padded = machine.outer * (-(-machine.width // _LANES) * _LANES)
    total = rates.token + rates.plane * padded + _EDGE_ROW * edges * machine.outer
    if edges:
        total += _EDGE * padded * (edges if reads_last else states)
    if len(machine.axes) > 1:
        total += rates.axis * len(machine.axes)
    rows = states
    for axis in machine.axes:
        if axis.others is not None:
            total += _rest_cost(axis, rows, states * padded // axis.n_states, len(machine.axes))
            rows *= axis.n_states
            continue
        each = states * padded * axis.n_arcs / axis.n_states
        total += each * (_SPARSE_ARC if axis.source is not None else rates.arc)
        if axis.source is None:
            blocks = 1 if axis is machine.axes[-1] else rows
            total += rates.block * blocks
        if axis.source is None and axis.n_arcs > _NEAR:
            total += rates.far_arc * axis.n_arcs * -(-rows // 4)
        rows *= axis.n_states
    return DecodingCost(states * padded, total, _FURTHER + _WALKED * machine.outer * machine.width)


def _rest_cost(axis: Axis, before: int, vectors: int, axes: int) -> float:
    """Return what a step costs that leaves out the arcs with the score of most.

    Parameters
    ----------
    axis : Axis
    before : int
        Rows of cells that the axes before it, and an automaton, make.
    vectors : int
        Vectors of states that are stepped.
    axes : int
        Of the machine.
    """
    last = before >= vectors
    turned = last and (axes > 1 or before > 1)
    count = 0 if axis.others is None else len(axis.others)
    return rest_cost(axis.n_states, count, vectors, turned=turned)


def search_cost(machine: JointChain) -> DecodingCost:
    """Return what a search costs where the machine's own best paths are legal: the least."""
    free = product_cost(machine)
    return DecodingCost(free.cells, free.operations + _walk(machine), free.further)


def _walk(machine: JointChain) -> float:
    return _STEP + _STEP_CELL * machine.outer * machine.width


def allowance(begun: float, cost: DecodingCost, n: int) -> Allowance:
    """Return what a search for n paths may do instead of a product.

    A search that has got far soon ends, as a rule; one that has not hardly ever does.

    Parameters
    ----------
    begun : float
        Operations of the backward pass and the walk that come first: they count as done.
    cost : DecodingCost
        Of the product.
    n : int
    """
    whole = cost.paths(n)
    least = max(_LEAST * whole - begun, _BEYOND * whole)
    most = _MOST if n == 1 else _MOST_OF_SEVERAL
    return Allowance(int(least), int(max(most * whole - begun, least)))


def worst_cost(begun: float, cost: DecodingCost) -> int:
    """Return the operations of a best path that a search gives up on: its own and the product's."""
    return int(begun + allowance(begun, cost, 1).most + cost.operations)


def edges_of(acceptor: Acceptor) -> int:
    """Return the pairs of states of an acceptor that some labels lead from and to."""
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    pairs = np.arange(acceptor.n_states)[:, None] * acceptor.n_states + flat
    return len(distinct(pairs[flat >= 0]))

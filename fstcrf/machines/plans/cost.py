"""Costs of best paths, by a product and by a search, estimated before either is run.

An operation takes a core about a nanosecond. The constants were fitted once to the times of 312
products over one to three tapes of 5 to 2,500 joint states and automata of 2 to 3,000 states: eight
of ten estimates are 0.78 to 1.14 times the real time. Searches count the same operations as they
run (`csrc/lazy.h`). So the choice depends only on the question, never on the processor, its load,
the threads or the other sentences of a batch.

The choice between the two follows from these counts. The cost of a product per token follows from
its sizes, by constants that were fitted once. A search counts rows of successors and comparisons in
its queue as it runs, since states differ by a factor of 50 in cost. A product that costs at most
1.8 times the cheapest possible search is run at once. Otherwise the best path of the tagger is
followed, without a queue, as long as the grammar allows it. If it does not reach the end, the walk
continues past rejected labels, and counts the *breaches*: runs of tokens that are rejected, or lose
score. Breaches identify hopeless searches before they begin. Of 385 random sentences whose best
labels were not legal, 174 had at least seven breaches, and each of their searches took at least
four times as long as the product. Of 43 with one breach, half of the searches took less than half
of it. With fewer than seven breaches, the sentence is searched until the cost, with the backward
pass, is 0.15 of the product, or 0.12 without that pass. From then on the search may cost up to 0.9
of the product times its progress, but at most half of the product. Progress is the fall of its
bound, relative to the score of a legal path that is found greedily. The bound is a better measure
of progress than the longest path, which is near the end after a tenth of the product in any case.
No such rule can always stay below twice the better of the two: for any effort of a failing search,
another search would have ended a little later. For several paths, progress is the number of paths
found.
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
"""Cells of the last axis that are processed together."""

_WALKED = 0.5
"""Operations of a joint state of the tapes, in a row that is read again."""


class _Rates(NamedTuple):
    """Operations of a machine's best paths, fitted to measured times."""

    token: float
    axis: float  # per token, for each axis if there are several
    plane: float  # per joint state of the tapes: its potentials, and its row in the forward walk
    arc: float  # between joint states, of dense axes
    # in a table larger than the first-level cache, for every four rows it is applied to
    far_arc: float
    block: float  # of rows that share a table of a dense axis


_FREE = _Rates(token=28, axis=35, plane=0.9, arc=0.027, far_arc=0.032, block=0.0)
_WHOLE = _Rates(token=54, axis=56, plane=0.88, arc=0.036, far_arc=0.008, block=2.6)
"""Without and with an automaton."""

_SPARSE_ARC = 0.135
"""... per arc between joint states, of sparse axes."""

_NEAR = 4_096
"""Largest table of arcs that stays in the first-level cache."""

_EDGE, _EDGE_ROW = 0.27, 1.37
"""... per edge of the automaton, at each joint state if it reads the last tape (if not, edges
share these states), and at each state of the earlier tapes."""

_STEP, _STEP_CELL = 12, 0.25
"""... of a search per token and joint state, while the best labels are legal."""

_LEAST, _BEYOND = 0.15, 0.12
"""Shares of a product's operations that a search may use at first, and in any case after its
backward pass."""

_MOST, _MOST_OF_SEVERAL = 0.5, 0.9
"""... and near its end, for one path and for several."""

FIRST_SEARCH = 20
"""Best paths of the machine that a search may cost before multipliers make its bounds tight."""

_FURTHER = 10
"""... per token of each further path, in addition to the joint states that are read."""


@dataclass(frozen=True, slots=True)
class DecodingCost:
    """The cost of a sentence's best paths, per token.

    Parameters
    ----------
    cells : int
        Joint states stored at a token.
    operations : float
        Cost of the best path.
    further : float
        Cost of each further path.
    """

    cells: int
    operations: float
    further: float

    def paths(self, n: int) -> int:
        """Return the operations of the n best paths, per token."""
        return int(self.operations + (n - 1) * self.further)


def product_cost(
    machine: JointChain, states: int = 1, edges: int = 0, *, reads_last: bool = False
) -> DecodingCost:
    """Return the cost of best paths over a machine with an expanded automaton.

    Parameters
    ----------
    machine : JointChain
        Without a residual automaton.
    states, edges : int
        Sizes of the automaton.
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
    """Return the cost of a step that visits only arcs that differ from the rest.

    Parameters
    ----------
    axis : Axis
    before : int
        Rows of cells, from earlier axes and an automaton.
    vectors : int
        Vectors of states in a step.
    axes : int
        Axes of the machine.
    """
    last = before >= vectors
    turned = last and (axes > 1 or before > 1)
    count = 0 if axis.others is None else len(axis.others)
    return rest_cost(axis.n_states, count, vectors, turned=turned)


def search_cost(machine: JointChain) -> DecodingCost:
    """Return the lowest cost of a search, when the machine's own best paths are legal."""
    product = product_cost(machine)
    return DecodingCost(product.cells, product.operations + _walk(machine), product.further)


def _walk(machine: JointChain) -> float:
    return _STEP + _STEP_CELL * machine.outer * machine.width


def allowance(begun: float, cost: DecodingCost, n: int) -> Allowance:
    """Return the operations that a search for n paths may use instead of a product.

    A search that has made progress usually ends soon; others hardly ever do.

    Parameters
    ----------
    begun : float
        Operations of the initial backward pass and walk; they count as done.
    cost : DecodingCost
        Cost of the product.
    n : int
    """
    operations = cost.paths(n)
    least = max(_LEAST * operations - begun, _BEYOND * operations)
    most = _MOST if n == 1 else _MOST_OF_SEVERAL
    return Allowance(int(least), int(max(most * operations - begun, least)))


def worst_cost(begun: float, cost: DecodingCost) -> int:
    """Return the operations of a failed search, including the product's."""
    return int(begun + allowance(begun, cost, 1).most + cost.operations)


def edges_of(acceptor: Acceptor) -> int:
    """Return the number of pairs of states that an arc connects."""
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    pairs = np.arange(acceptor.n_states)[:, None] * acceptor.n_states + flat
    return len(distinct(pairs[flat >= 0]))

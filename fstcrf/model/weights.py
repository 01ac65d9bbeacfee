"""The weights of a CRF, laid out for tagging: from attributes to potentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs
from fstcrf.kernel.single import SentenceGraph
from fstcrf.once import made_once
from fstcrf.topology import Topology
from fstcrf.train.problem import ParameterSpace, Tables


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of a CRF.

    Parameters
    ----------
    topology : Topology
    space : ParameterSpace
        Which weights exist.
    theta : float64 [space.size]
        The weights.
    """

    topology: Topology
    space: ParameterSpace
    theta: Floats

    def node(self, rows: kernel.SparseRows) -> Floats:
        """Return the potentials of states, float64 [N, S], of attributes of labels."""
        slots = self._packed.gathered(rows, len(self.topology.node_slot_names))
        return self.topology.node_potentials(slots)

    def graph(self, rows: kernel.SparseRows | None) -> kernel.Graph:
        """Return the graph with the potentials of attributes of label pairs, if there are any."""
        weights = self._label_weights
        if not self.has_arc_attributes or rows is None:
            return self.still_graph
        slots = self._packed_arcs.gathered(rows, len(weights.transition))
        slots += weights.transition
        return self.topology.graph(slots, weights.initial, weights.final)

    @made_once
    def still_graph(self) -> kernel.Graph:
        """The graph without attributes of label pairs."""
        weights = self._label_weights
        return self.topology.graph(weights.transition, weights.initial, weights.final)

    @made_once
    def single(self) -> SentenceGraph | None:
        """The same laid out for sentences that come one at a time.

        None where they need more: attributes of label pairs, longer histories, or where some
        labels may not follow each other, so that a sentence may have no path.
        """
        graph = self.still_graph
        parts = graph.score, graph.initial, graph.final
        whole = graph.source is None and all(np.isfinite(part).all() for part in parts)
        if self.has_arc_attributes or not self.topology.direct or not whole:
            return None
        return SentenceGraph(self._packed, graph)

    @property
    def has_arc_attributes(self) -> bool:
        """Whether attributes of label pairs have weights."""
        return self.space.n_arc_rows > 0

    def node_cells(self) -> Cells:
        """Return the weights of attributes of labels by state."""
        topology, space = self.topology, self.space
        states = np.repeat(np.arange(topology.n_states), topology.node_slots.shape[1])
        return Cells.of(
            space.node_cells,
            space.width,
            space.parts(self.theta)[0],
            slots=topology.node_slots.ravel(),
            columns=states,
            width=topology.n_states,
        )

    def arc_cells(self) -> Cells:
        """Return the weights of attributes of label pairs by arc of the kernel."""
        topology, space = self.topology, self.space
        used = topology.arc_slot >= 0
        return Cells.of(
            space.arc_cells,
            space.arc_width,
            space.parts(self.theta)[2],
            slots=topology.arc_slot[used],
            columns=topology.kernel_arcs()[used],
            width=self.still_graph.n_arcs,
        )

    @made_once
    def _packed(self) -> kernel.PackedTable:
        space = self.space
        weights = space.parts(self.theta)[0]
        return kernel.PackedTable.from_cells(
            space.n_node_rows, space.width, space.node_cells, weights
        )

    @made_once
    def _packed_arcs(self) -> kernel.PackedTable:
        # Most attributes of label pairs see few of the pairs.
        space = self.space
        weights = space.parts(self.theta)[2]
        return kernel.PackedTable.from_cells(
            space.n_arc_rows, space.arc_width, space.arc_cells, weights
        )

    @made_once
    def _label_weights(self) -> Tables:
        """The weights of labels by themselves: of their successions, of beginning and ending."""
        space, none = self.space, self.space.node_cells[:0]
        rest = replace(space, n_node_rows=0, node_cells=none, n_arc_rows=0, arc_cells=none)
        _, transition, _, initial, final = space.parts(self.theta)
        return rest.tables(np.concatenate([transition, initial, final]))


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Weights of attributes by state or by arc.

    Parameters
    ----------
    row : int64 [n]
        Attribute.
    column : int64 [n]
        State or arc.
    weight : float64 [n]
    width : int
        Number of states or arcs.
    """

    row: Longs
    column: Longs
    weight: Floats
    width: int

    @classmethod
    def of(
        cls,
        cells: Longs,
        stride: int,
        weight: Floats,
        *,
        slots: NDArray[np.integer],
        columns: NDArray[np.integer],
        width: int,
    ) -> Self:
        """Give the weight of a slot to all states (arcs) that sum it.

        Parameters
        ----------
        cells : int64 [m]
            ``attribute * stride + slot``.
        stride : int
        weight : float64 [m]
        slots, columns : int [p]
            Which state or arc sums which slot.
        width : int
        """
        order = np.argsort(slots, kind="stable")
        first = np.searchsorted(slots[order], np.arange(stride + 1))
        row, slot = np.divmod(cells, stride)
        count = first[slot + 1] - first[slot]
        entry = np.repeat(np.arange(len(cells)), count)
        within = np.arange(len(entry)) - np.repeat(np.cumsum(count) - count, count)
        column = columns[order][first[slot][entry] + within].astype(np.int64)
        return cls(row[entry], column, weight[entry], width)


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A packed table for sums over rows; made by `of`.

    Parameters
    ----------
    table : PackedTable [rows, W]
    n_rows : int
    width : int
        Columns that mean something.
    """

    table: kernel.PackedTable
    n_rows: int
    width: int

    @classmethod
    def of(
        cls,
        row: Longs,
        column: Longs,
        weight: Floats,
        *,
        n_rows: int,
        width: int,
    ) -> Self:
        """Lay out weights at (row, column); those at one place are added."""
        stride = kernel.padded(width)
        cells = row * stride + column
        order = np.argsort(cells, kind="stable")
        cells, weight = cells[order], weight[order]
        new = np.ones(len(cells), dtype=np.bool)
        np.not_equal(cells[1:], cells[:-1], out=new[1:])
        if not new.all():
            weight = np.add.reduceat(weight, np.flatnonzero(new))
            cells = cells[new]
        table = kernel.PackedTable.from_cells(n_rows, stride, cells, weight)
        return cls(table, n_rows, width)

    def times(self, rows: kernel.SparseRows) -> Floats:
        """Return the sum of each token's rows, float64 [N, width]."""
        return self.table.gathered(rows, self.width)

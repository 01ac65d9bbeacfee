"""The weights of a CRF, laid out for tagging: from attributes to potentials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs, Ragged
from fstcrf.kernel.single import SentenceGraph
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology, best_alone_pays, rest_of
from fstcrf.training.problem import ParameterSpace, Tables

_LOOKED_UP = 64  # weights that are laid out in the time in which an entry is looked up
_ROWS = 1 << 24  # rows of attributes that may have a place each, however few have weights


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of a CRF."""

    topology: Topology
    space: ParameterSpace  # which weights exist
    theta: Floats  # [space.size]
    _served: ClassVar[int] = 0  # entries of rows that were looked up one by one

    def node(self, rows: kernel.SparseRows) -> Floats:
        """Return the potentials of states, float64 [N, S], of attributes of labels."""
        few, space = self._served + len(rows.index), self.space
        if not _worth_places(space.n_node_rows, space.node_cells):
            table, rows = self._packed_for(rows, space.node_cells, space.width, 0)
        elif "_packed" in self.__dict__ or _LOOKED_UP * few > len(space.node_cells):
            table = self._packed
        else:  # the first sentence need not wait for the layout of all weights
            object.__setattr__(self, "_served", few)
            table, rows = self._packed_for(rows, space.node_cells, space.width, 0)
        slots = table.sum_rows(rows, len(self.topology.node_slot_names))
        return self.topology.node_potentials(slots)

    def graph(self, rows: kernel.SparseRows | None) -> kernel.Graph:
        """Return the graph with the potentials of attributes of label pairs, if there are any."""
        weights = self._label_weights
        if not self.has_arc_attributes or rows is None:
            return self.static_graph
        space = self.space
        if _worth_places(space.n_arc_rows, space.arc_cells):
            table = self._packed_arcs
        else:
            table, rows = self._packed_for(rows, space.arc_cells, space.arc_width, 2)
        slots = table.sum_rows(rows, len(weights.transition))
        slots += weights.transition
        return self.topology.graph(slots, weights.initial, weights.final)

    @made_once
    def static_graph(self) -> kernel.Graph:
        """The graph without attributes of label pairs."""
        weights = self._label_weights
        return self.topology.graph(weights.transition, weights.initial, weights.final)

    @made_once
    def sparse_graph(self) -> kernel.Graph | None:
        """Arcs whose weight differs from that of most arcs; `None` if all arcs are faster."""
        graph = self.static_graph
        rest = None if graph.source is not None else rest_of(graph.score, graph.n_states)
        if rest is None or not len(rest.others):
            return None
        source, target = np.divmod(rest.others.astype(np.int32), np.int32(graph.n_states))
        score = graph.score[rest.others]
        ends = graph.initial, graph.final
        return kernel.Graph(*ends, score, source, target, rest=rest.score, empty=graph.empty)

    @made_once
    def sentence_graph(self) -> SentenceGraph | None:
        """The static graph for one sentence at a time.

        None if attributes of label pairs have weights, a state is more than a label, or a sentence
        with tokens may have no path.
        """
        graph = self.static_graph
        if self.has_arc_attributes or not self.topology.direct or not _has_loop(graph):
            return None
        if not _worth_places(self.space.n_node_rows, self.space.node_cells):
            return None
        few = self.sparse_graph
        if few is not None and best_alone_pays(few.n_states, few.n_arcs):
            graph = few
        return SentenceGraph(self._packed, graph)

    @made_once
    def dense_sentence_graph(self) -> SentenceGraph | None:
        """The static graph with all arcs, for several best paths."""
        return self.sentence_graph and SentenceGraph(self._packed, self.static_graph)

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
            width=self.static_graph.n_arcs,
        )

    def _packed_for(
        self, rows: kernel.SparseRows, cells: Longs, width: int, part: int
    ) -> tuple[kernel.PackedTable, kernel.SparseRows]:
        """Return the weights of a few attributes, and the same rows over them.

        `cells` have the weights, `width` in a row, that are this part of theta.
        """
        used, index = np.unique(rows.index, return_inverse=True)
        bounds = np.searchsorted(cells, np.stack([used, used + 1]) * np.int64(width))
        count = bounds[1] - bounds[0]
        # Added to the number of a cell, this moves its attribute from `used` to its place there.
        moved = np.repeat((np.arange(len(used)) - used) * np.int64(width), count)
        entry = Ragged.from_lengths(count).ranges(bounds[0])
        weights = self.space.parts(self.theta)[part]
        table = kernel.PackedTable.from_cells(
            len(used), width, cells[entry] + moved, weights[entry]
        )
        few = kernel.SparseRows(rows.indptr, index.astype(np.int32), rows.value, len(used))
        return table, few

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
        """The weights of features without attributes: transitions, first labels, last labels."""
        space, none = self.space, self.space.node_cells[:0]
        rest = replace(space, n_node_rows=0, node_cells=none, n_arc_rows=0, arc_cells=none)
        _, transition, _, initial, final = space.parts(self.theta)
        return rest.tables(np.concatenate([transition, initial, final]))


def _has_loop(graph: kernel.Graph) -> bool:
    """Return whether a label may begin, repeat and end a sentence: then no token has no path."""
    if graph.source is None:
        loop = graph.score[:: graph.n_states + 1]
    else:
        loop = np.full(graph.n_states, -np.inf)
        same = graph.source == graph.target
        loop[graph.source[same]] = graph.score[same]
    return bool(np.isfinite(loop + graph.initial + graph.final).any())


def _worth_places(rows: int, cells: Longs) -> bool:
    """Return whether a table may have a place for each row: hashed ones may be 2^30."""
    return rows <= _ROWS or rows <= _LOOKED_UP * len(cells)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Weights of attributes by state or by arc."""

    row: Longs  # [n] attribute
    column: Longs  # [n] state or arc
    weight: Floats  # [n]
    width: int  # number of states or arcs

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

        Cell m has the weight of ``attribute * stride + slot``; `slots` and `columns` are pairs of a
        slot and a state or arc that sums it.
        """
        order = np.argsort(slots, kind="stable")
        first = np.searchsorted(slots[order], np.arange(stride + 1))
        row, slot = np.divmod(cells, stride)
        columns_of = Ragged(first)
        entry = columns_of.select(slot).rows()
        column = columns[order][columns_of.entries(slot)].astype(np.int64)
        return cls(row[entry], column, weight[entry], width)


@dataclass(frozen=True, slots=True, eq=False)
class WeightTable:
    """A packed table for sums over rows; made by `of`."""

    table: kernel.PackedTable
    n_rows: int
    width: int  # columns that mean something

    @classmethod
    def of(cls, row: Longs, column: Longs, weight: Floats, *, n_rows: int, width: int) -> Self:
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
        return self.table.sum_rows(rows, self.width)

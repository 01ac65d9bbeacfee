"""Cutting a problem into shards that the fused kernel sweeps over.

A shard numbers its attributes for itself, by falling frequency: what is used most lies together.
Attributes with at most FEW weights become single entries, the others padded rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel import Graph, Layout, Shard, ShardAttributes, padded
from fstcrf.train.problem import ParameterSpace, Problem

__all__ = ["N_SHARDS", "compiled_shards", "fits", "shard_bounds"]

N_SHARDS = 16
N_BLOCKS = 16
FEW = 2


def fits(problem: Problem, space: ParameterSpace) -> bool:
    """Can the fused kernel train this problem: a dense graph, the same at every token."""
    return (
        problem.topology.dense
        and not space.n_arc_rows
        and not problem.partial.any()
        and space.size < np.iinfo(np.int32).max
        and len(problem.topology.node_slot_names) <= np.iinfo(np.uint16).max
    )


def shard_bounds(offsets: NDArray[np.int64]) -> list[int]:
    """Cut sentences into at most N_SHARDS runs of about equally many tokens."""
    cuts = np.searchsorted(offsets, np.linspace(0, int(offsets[-1]), N_SHARDS + 1)[1:-1])
    return sorted({0, *cuts.tolist(), len(offsets) - 1})


def compiled_shards(problem: Problem, space: ParameterSpace, graph: Graph) -> Iterator[Shard]:
    """Yield the shards of a problem.

    Parameters
    ----------
    problem, space
        Such that `fits`.
    graph : Graph
        The topology's graph with any potentials.
    """
    ptr = np.searchsorted(
        space.node_cells, np.arange(space.n_node_rows + 1, dtype=np.int64) * space.width
    )
    slot = (space.node_cells % space.width).astype(np.uint16)
    layout = Layout(ptr.astype(np.int64), slot, _blocks(ptr))
    direct = problem.topology.direct
    state_slots = None if direct else np.ascontiguousarray(problem.topology.node_slots)
    n_slots = len(problem.topology.node_slot_names)
    for first, last in pairwise(shard_bounds(problem.offsets)):
        a, b = int(problem.offsets[first]), int(problem.offsets[last])
        part = problem.node.slice(a, b)
        yield Shard(
            graph,
            layout,
            width=padded(n_slots),
            state_slots=state_slots,
            offsets=problem.offsets[first : last + 1] - a,
            weight=np.ascontiguousarray(problem.weight[first:last]),
            attributes=_attributes(part.indptr, part.index, part.value, layout),
        )


def _blocks(ptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cut attributes into at most N_BLOCKS runs of about equally many parameters."""
    cuts = np.searchsorted(ptr, np.linspace(0, int(ptr[-1]), N_BLOCKS + 1)[1:-1])
    return np.unique(np.concatenate([[0], cuts, [len(ptr) - 1]])).astype(np.int64)


def _attributes(
    indptr: NDArray[np.int64],
    index: NDArray[np.int32],
    value: NDArray[np.float32] | None,
    layout: Layout,
) -> ShardAttributes:
    """Split the attributes of a shard into rows and single entries."""
    weights = np.diff(layout.ptr)
    n = weights[index]
    token = np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
    as_row = n > FEW
    rows, row = _by_frequency(index[as_row])
    lone = (n > 0) & ~as_row
    attribute, times = index[lone], n[lone]
    start = np.repeat(layout.ptr[attribute] - (np.cumsum(times) - times), times)
    parameter = (start + np.arange(int(times.sum()))).astype(np.int32)
    owner = np.repeat(token[lone], times)
    order = np.lexsort((layout.slot[parameter], owner))  # the kernel sums runs of one slot
    parameter, owner = parameter[order], owner[order]
    singles, single = _by_frequency(parameter)
    return ShardAttributes(
        row_ptr=_pointers(token[as_row], len(indptr) - 1),
        row=row,
        row_value=None if value is None else value[as_row],
        single_ptr=_pointers(owner, len(indptr) - 1),
        single=single,
        single_slot=layout.slot[parameter],
        single_value=None if value is None else np.repeat(value[lone], times)[order],
        rows=rows,
        singles=singles,
    )


def _by_frequency(index: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the distinct numbers, most frequent first, and the place of each among them.

    Frequencies count as equal within a factor of two: then the order of the numbers is kept, in
    which parameters are read and written.
    """
    if not len(index):
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    counts = np.bincount(index)
    used: NDArray[np.int32] = np.flatnonzero(counts).astype(np.int32)
    octave = np.frexp(counts[used])[1]
    used = used[np.argsort(-octave, kind="stable")]
    place = np.empty(len(counts), dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return used, place[index]


def _pointers(token: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    out = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(token, minlength=n), out=out[1:])
    return out

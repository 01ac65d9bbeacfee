"""Work cut into parts: sentences into shards, vectors into spans, threads that take them in order.

NumPy and the kernel let other threads run while they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TypeVar

import numpy as np

from fstcrf.arrays import Bools, Ints, Longs, Singles
from fstcrf.kernel import Graph, Layout, Shard, ShardAttributes, SparseRows, padded
from fstcrf.train.problem import ParameterSpace, Problem

T = TypeVar("T")
R = TypeVar("R")
_SPAN = 1 << 15  # float64: a part of a few vectors stays in the cache of a core


class Workers:
    """Maps over parts, in order, on a fixed number of threads.

    Parameters
    ----------
    threads : int
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def map(self, function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Yield the function's value for each part, in order."""
        if self._pool is None:
            yield from map(function, parts)
            return
        futures = [self._pool.submit(function, part) for part in parts]
        try:
            for future in futures:
                yield future.result()
        finally:
            wait(futures)  # after an error, too: the next call would meet them at its parts

    def each(self, function: Callable[[T], None], parts: Iterable[T]) -> None:
        """Call the function for each part."""
        for _ in self.map(function, parts):
            pass


SERIAL = Workers()


def spans(size: int, parts: int | None = None) -> list[slice]:
    """Cut a vector into parts, the same for any number of threads.

    Parameters
    ----------
    size : int
    parts : int, optional
        How many; without it, so many that each stays in a cache.
    """
    step = _SPAN if parts is None else max(1, -(-size // parts))
    return [slice(a, b) for a, b in pairwise([*range(0, size, step), size])]


# --- Shards of a problem that the fused kernel sweeps over ----------------------------------------

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


def shard_bounds(offsets: Longs) -> list[int]:
    """Cut sentences into at most N_SHARDS runs of about equally many tokens."""
    cuts = np.searchsorted(offsets, np.linspace(0, int(offsets[-1]), N_SHARDS + 1)[1:-1])
    return sorted({0, *cuts.tolist(), len(offsets) - 1})


def attribute_layout(space: ParameterSpace) -> Layout:
    """Return where the weights of each attribute are."""
    ptr = np.searchsorted(
        space.node_cells, np.arange(space.n_node_rows + 1, dtype=np.int64) * space.width
    )
    slot = (space.node_cells % space.width).astype(np.uint16)
    return Layout(ptr.astype(np.int64), slot, _blocks(ptr))


def compiled_shards(problem: Problem, space: ParameterSpace, graph: Graph) -> Iterator[Shard]:
    """Yield the shards of a problem.

    Parameters
    ----------
    problem, space
        Such that `fits`.
    graph : Graph
        The topology's graph with any potentials.
    """
    layout = attribute_layout(space)
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


def _blocks(ptr: Longs) -> Longs:
    """Cut attributes into at most N_BLOCKS runs of about equally many parameters."""
    cuts = np.searchsorted(ptr, np.linspace(0, int(ptr[-1]), N_BLOCKS + 1)[1:-1])
    return np.unique(np.concatenate([[0], cuts, [len(ptr) - 1]])).astype(np.int64)


def whole_attributes(design: SparseRows, layout: Layout) -> ShardAttributes:
    """Return the attributes of all sentences: each of the layout has a row, or single entries."""
    return _attributes(design.indptr, design.index, design.value, layout, whole=True)


def _attributes(
    indptr: Longs,
    index: Ints,
    value: Singles | None,
    layout: Layout,
    *,
    whole: bool = False,
) -> ShardAttributes:
    """Split the attributes of a shard into rows and single entries.

    With `whole` those that do not occur are numbered, too.
    """
    weights = np.diff(layout.ptr).astype(np.int32)
    n = weights[index]
    as_row, lone = n > FEW, (n > 0) & (n <= FEW)
    rows, row = _by_frequency(
        index if as_row.all() else index[as_row], np.flatnonzero(weights > FEW) if whole else None
    )
    attribute, times = index[lone], n[lone]
    start = np.repeat(layout.ptr[attribute] - (np.cumsum(times) - times), times)
    parameter = (start + np.arange(int(times.sum()))).astype(np.int32)
    single_ptr = _pointers(np.where(lone, n, 0), indptr)
    single_value = None if value is None else np.repeat(value[lone], times)
    if not whole:  # the sweep sums runs of one slot
        owner = np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(single_ptr))
        order = np.lexsort((layout.slot[parameter], owner))
        parameter = parameter[order]
        single_value = None if single_value is None else single_value[order]
    few = np.flatnonzero(np.repeat(weights <= FEW, weights)) if whole else None
    singles, single = _by_frequency(parameter, few)
    return ShardAttributes(
        row_ptr=_pointers(as_row, indptr),
        row=row,
        row_value=None if value is None else value[as_row],
        single_ptr=single_ptr,
        single=single,
        single_slot=layout.slot[parameter],
        single_value=single_value,
        rows=rows,
        singles=singles,
    )


def _by_frequency(index: Ints, among: Longs | None = None) -> tuple[Ints, Ints]:
    """Return the distinct numbers, most frequent first, and the place of each among them.

    Frequencies count as equal within a factor of two: then the order of the numbers is kept, in
    which parameters are read and written. `among` are the numbers that there are, ascending, those
    that do not occur included.
    """
    last = int(among[-1]) if among is not None and len(among) else -1
    counts = np.bincount(index, minlength=last + 1)
    used: Ints = (np.flatnonzero(counts) if among is None else among).astype(np.int32)
    if not len(used):
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    octave = np.frexp(counts[used])[1]
    used = used[np.argsort(-octave, kind="stable")]
    place = np.empty(len(counts), dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return used, place[index]


def _pointers(amount: Ints | Bools, indptr: Longs) -> Longs:
    """Return where each token's share begins, of what each of its attributes has."""
    before = np.zeros(len(amount) + 1, dtype=np.int64)
    np.cumsum(amount, out=before[1:])
    out: Longs = before[indptr]
    return out

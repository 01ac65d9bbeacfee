"""Work cut into parts: a text into parts and shards, vectors into spans.

Parts. Each part is summed separately, and a binary tree adds the sums. The number of parts depends
only on the number of tokens, and their bounds only on the sentences, so that a sum has the same
bits for any number of threads, processes or machines.

Shards and determinism. The training text is cut into 16 shards, by its length and not by the number
of threads. A shard has its own numbering of attributes, with the frequent ones first, so that
weights used together are close in memory; attributes with many weights are padded rows, others with
one or two are single entries. Each shard has a separate gradient, to which its posteriors are added
while they are in cache: no two threads ever write to one place. Threads take shards; gradients are
added in the order of the shards, while later shards are swept, so that only a few exist at a time.
Hence the result has the same bits for any number of threads. The alternative, gathering the
gradient of each attribute through the transposed matrix, needs no gradient per shard but must store
posteriors of states; the general method does this, in blocks of 2 MB of posteriors, and only for
existing weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, Singles
from fstcrf.kernel import Graph, Layout, Shard, ShardAttributes, SparseRows, padded
from fstcrf.machines.topology import DefaultArcs
from fstcrf.training.memory import SweepCounts
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.support import cell_pointers, restricted

# --- Parts of a text, and of vectors --------------------------------------------------------------

PART_TOKENS = 1 << 20
"""Maximum number of tokens of a part, without its last sentence."""

START_TOKENS = 1 << 19
"""Approximate number of tokens of a text that initial stochastic epochs use."""


def part_count(tokens: int) -> int:
    """Return the number of parts of a text: a power of two."""
    return 1 << max(0, (tokens - 1) // PART_TOKENS).bit_length()


def part_bounds(offsets: Longs) -> list[int]:
    """Split sentences into runs of nearly equal numbers of tokens; a very long one reduces them."""
    return Ragged(offsets).cut(part_count(int(offsets[-1])))


def parts_of(problem: Problem) -> list[Problem]:
    """Return the parts of a problem; a single part is the problem."""
    bounds = part_bounds(problem.offsets)
    if len(bounds) == 2:
        return [problem]
    return [problem.part(first, end)[1] for first, end in pairwise(bounds)]


def added(one: Floats, other: Floats) -> Floats:
    """Add an array to another one, in place if that is writable."""
    return np.add(one, other, out=one if one.flags.writeable else None)


def start_step(tokens: int) -> int:
    """Return k, if initial stochastic epochs take every k-th sentence."""
    return max(1, -(-tokens // START_TOKENS))


def digest(problem: Problem) -> bytes:
    """Return a hash of the data of a part."""
    arrays: list[NDArray[np.generic]] = [problem.offsets, problem.weight]
    arrays.append(np.packbits(problem.allowed))
    for rows in (problem.node, problem.arc):
        if rows is not None:
            arrays += [rows.indptr, rows.index]
            arrays += [] if rows.value is None else [rows.value]
    state = hashlib.sha256()
    for array in arrays:
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).data if array.size else b"")
    return state.digest()


_SPAN = 1 << 15  # float64 numbers: a part of a few vectors fits into a core's cache


def spans(size: int, parts: int | None = None) -> list[slice]:
    """Split a vector into parts that do not depend on the number of threads.

    Parameters
    ----------
    size : int
    parts : int, optional
        Number of parts; if absent, parts fit into a cache.
    """
    step = _SPAN if parts is None else max(1, -(-size // parts))
    return [slice(a, b) for a, b in pairwise([*range(0, size, step), size])]


# --- Shards of a problem that the fused kernel sweeps over ----------------------------------------

N_SHARDS = 16
FEW = 2
_FEW_OF_MANY = 48  # labels: with more, rows are expensive to add
_LANES = 16  # sentences that the kernel processes side by side when it sweeps over exceptions
_CLEARLY = 1.5  # times less
_ROOM, _LEAST_ROOM = 64 << 20, 100  # bytes of rows side by side; minimum number of tokens
_NEAR = 1 << 18  # bytes of both matrices that fit into a near cache
BLOCK_CELLS = 1 << 18  # cells of rows in memory at a time without the fused kernel: 2 MB each
_BLOCK_ROWS = 8  # such rows: potentials and posteriors, for all labels and for the allowed ones


def fits(problem: Problem, space: ParameterSpace) -> bool:
    """Return whether the labels of some sentences are all known: the fused kernel sums these."""
    return sweepable(space) and not problem.partial.all()


def sweepable(space: ParameterSpace) -> bool:
    """Return whether the fused kernel supports the weights: graphs are the same at every token."""
    return (
        not space.n_arc_rows
        and space.size < np.iinfo(np.int32).max
        and len(space.topology.node_slot_names) <= np.iinfo(np.uint16).max
    )


def default_arcs_of(space: ParameterSpace, offsets: Longs) -> DefaultArcs | None:
    """Return the arcs with weights as exceptions, if a sweep is clearly cheaper with them.

    `offsets`, int64 [B + 1], are those of the sentences; the space is `sweepable`.
    """
    topology = space.topology
    if not topology.dense:  # only this method supports lists of arcs
        return topology.default_arcs(space.transitions)
    states, tokens = topology.n_states, int(offsets[-1])
    dense = dense_cost(states) * tokens
    if _CLEARLY * sparse_cost(states, len(space.transitions)) * tokens >= dense:
        return None
    default_arcs = topology.default_arcs(space.transitions)
    if default_arcs is None:
        return None
    abreast = sparse_cost(states, len(default_arcs.source)) * _lane_tokens(offsets)
    return None if _CLEARLY * abreast >= dense else default_arcs


def dense_cost(states: int) -> float:
    """Return the cost of a token in the sweep over all pairs, in nanoseconds when fitted."""
    cells = states * -(-states // 16) * 16
    return 60.0 + (0.05 if 8 * cells < _NEAR else 0.09) * cells


def sparse_cost(states: int, arcs: int) -> float:
    """Return the cost of a token in a lane of the sweep over exceptions; see `dense_cost`."""
    return 20.0 + 2.0 * states + 0.15 * arcs


def alone_cost(states: int, arcs: int) -> float:
    """Return the cost of a token of a single sentence over exceptions; see `dense_cost`."""
    return 2.5 * states + 1.2 * arcs


def _lane_tokens(offsets: Longs) -> int:
    """Count the tokens of the lanes of grouped sentences, including empty ends."""
    total = 0
    for a, b in pairwise(part_bounds(offsets)):
        part = offsets[a : b + 1] - offsets[a]
        for first, last in pairwise(shard_bounds(part)):
            lengths = np.sort(np.diff(part[first : last + 1]))[::-1]
            total += _LANES * int(lengths[::_LANES].sum())
    return total


def shard_bounds(offsets: Longs) -> list[int]:
    """Split sentences into at most N_SHARDS runs of about equally many tokens."""
    return Ragged(offsets).cut(N_SHARDS)


def attribute_layout(space: ParameterSpace) -> Layout:
    """Return the indices and slots of each attribute's weights."""
    slot = np.empty(len(space.node_cells), dtype=np.uint16)
    for part in spans(len(slot)):
        slot[part] = space.node_cells[part] % space.width
    return Layout(attribute_pointers(space), slot)


def attribute_pointers(space: ParameterSpace) -> Longs:
    """Return the start of each attribute's weights, and their end, int64 [R + 1]."""
    return cell_pointers(space.node_cells, space.n_node_rows, space.width)


def sweep_counts(problem: Problem, space: ParameterSpace) -> SweepCounts:
    """Return the sizes that determine the memory of a batch training.

    The estimate assumes that each occurrence of an attribute is in every shard with the same
    probability.
    """
    weights = np.diff(attribute_pointers(space))
    times = np.bincount(problem.node.index, minlength=space.n_node_rows)
    many = weights > _few(len(problem.topology.node_slot_names))
    fused = fits(problem, space)
    shards = N_SHARDS * part_count(int(problem.offsets[-1]))
    if not fused:
        shards = max(shards, int(problem.offsets[-1]) // block_tokens(space))
        many[:] = True
    partial = None
    if fused and problem.partial.any():
        others = problem.chosen(np.flatnonzero(problem.partial))
        partial = sweep_counts(*restricted(others, space)[:2])
        times -= np.bincount(others.node.index, minlength=space.n_node_rows)
    in_shards = shards * (1.0 - (1.0 - 1.0 / shards) ** times)
    return SweepCounts(
        weights=space.size,
        attributes=space.n_node_rows,
        tokens=int(problem.offsets[-1]),
        width=space.width,
        fused=fused,
        row_entries=int(times[many].sum()),
        single_entries=int((times * weights)[~many].sum()),
        shard_rows=int(in_shards[many].sum()),
        shard_singles=int((in_shards * weights)[~many].sum()),
        valued=problem.node.value is not None,
        scratch=_scratch(problem, space) if fused else 8 * _BLOCK_ROWS * BLOCK_CELLS,
        table=0 if fused else 8 * space.width * int((weights >= space.width // 16).sum()),
        partial=partial,
    )


def block_tokens(space: ParameterSpace, *, arcs: bool = False) -> int:
    """Return the number of tokens with posteriors in memory, without the fused kernel.

    With `arcs`, tokens have separate transitions.
    """
    return max(1, BLOCK_CELLS // max(space.width, space.arc_width if arcs else 0))


def _scratch(problem: Problem, space: ParameterSpace) -> int:
    """Return the bytes of a sweep's rows: sentences side by side, or matrices of all pairs."""
    default_arcs, states = default_arcs_of(space, problem.offsets), problem.topology.n_states
    longest = Ragged(problem.offsets).longest
    slots = 4 * space.width * longest
    if default_arcs is None:
        return slots + 17 * states * padded(states) + 8 * states * longest
    row = 4 * _LANES * states
    side_by_side = min(longest, max(_ROOM // row, _LEAST_ROOM))
    arcs = (4 * _LANES + 64) * len(default_arcs.source)
    return slots + 2 * row * side_by_side + 4 * row + 4 * _LANES * space.width + arcs


def _few(n_slots: int) -> int:
    """Return the largest number of weights for which an attribute is stored as single entries."""
    return max(FEW, n_slots // _FEW_OF_MANY)


def compiled_shards(
    problem: Problem,
    layout: Layout,
    graph: Graph,
    keep: Callable[[Iterable[ShardAttributes]], Iterable[ShardAttributes]] = iter,
    gold: Ints | None = None,
    swept: Bools | None = None,
) -> Iterator[Shard]:
    """Yield the shards of a problem.

    Parameters
    ----------
    problem : Problem
    layout : Layout
        Layout of its parameter space, from `attribute_layout`.
    graph : Graph
        The topology's graph with any potentials.
    keep : callable, optional
        Function that moves attributes of shards to another memory, and returns them from there.
    gold : int32 [N], optional
        Gold states, if sweeps must score them.
    swept : bool [B], optional
        The sentences of the shards; if absent, those whose labels are all known.
    """
    direct = problem.topology.direct
    state_slots = None if direct else np.ascontiguousarray(problem.topology.node_slots)
    n_slots = len(problem.topology.node_slot_names)
    runs = list(_runs(Ragged(problem.offsets), ~problem.partial if swept is None else swept))
    lengths = Ragged(problem.offsets).lengths

    def attributes() -> Iterator[ShardAttributes]:
        for _, tokens in runs:
            if isinstance(tokens, slice):
                part = problem.node.slice(tokens.start, tokens.stop)
            else:
                part = problem.node.taken(tokens)
            yield _attributes(part.indptr, part.index, part.value, layout, n_slots)

    for (sentences, tokens), part_attributes in zip(runs, keep(attributes()), strict=True):
        yield Shard(
            graph,
            layout,
            width=padded(n_slots),
            state_slots=state_slots,
            offsets=Ragged.from_lengths(lengths[sentences]).offsets,
            weight=np.ascontiguousarray(problem.weight[sentences]),
            attributes=part_attributes,
            gold=None if gold is None else gold[tokens],
        )


def _runs(rows: Ragged, swept: Bools) -> Iterator[tuple[slice | Longs, slice | Longs]]:
    """Yield the sentences and the tokens of each shard."""
    for first, last in pairwise(shard_bounds(rows.offsets)):
        numbers = first + np.flatnonzero(swept[first:last])
        if len(numbers) == last - first:  # views are cheaper than copies
            yield slice(first, last), slice(*rows.offsets[[first, last]].tolist())
        elif len(numbers):
            yield numbers, rows.entries(numbers)


def whole_attributes(design: SparseRows, layout: Layout, n_slots: int) -> ShardAttributes:
    """Return the attributes of all sentences: each in the layout has a row, or single entries."""
    return _attributes(design.indptr, design.index, design.value, layout, n_slots, whole=True)


def _attributes(
    indptr: Longs,
    index: Ints,
    value: Singles | None,
    layout: Layout,
    n_slots: int,
    *,
    whole: bool = False,
) -> ShardAttributes:
    """Split the attributes of a shard into rows and single entries.

    With `whole`, attributes that do not occur are also numbered.
    """
    weights = Ragged(layout.ptr).lengths.astype(np.int32)
    few = _few(n_slots)
    n = weights[index]
    as_row, lone = n > few, (n > 0) & (n <= few)
    rows, row = _by_frequency(
        index if as_row.all() else index[as_row], np.flatnonzero(weights > few) if whole else None
    )
    attribute, times = index[lone], n[lone]
    parameter = Ragged.from_lengths(times).ranges(layout.ptr[attribute]).astype(np.int32)
    single_ptr = _pointers(np.where(lone, n, 0), indptr)
    single_value = None if value is None else np.repeat(value[lone], times)
    if not whole:  # the sweep sums runs of one slot
        owner = Ragged(single_ptr).repeat(np.arange(len(indptr) - 1, dtype=np.int32))
        order = np.lexsort((layout.slot[parameter], owner))
        parameter = parameter[order]
        single_value = None if single_value is None else single_value[order]
    lone_ones = np.flatnonzero(np.repeat(weights <= few, weights)) if whole else None
    singles, entry = _by_frequency(parameter, lone_ones)
    return ShardAttributes(
        row_ptr=_pointers(as_row, indptr),
        row=row,
        row_value=None if value is None else value[as_row],
        single_ptr=single_ptr,
        single=entry,
        single_slot=layout.slot[parameter],
        single_value=single_value,
        rows=rows,
        singles=singles,
    )


def _by_frequency(index: Ints, among: Longs | None = None) -> tuple[Ints, Ints]:
    """Return the distinct numbers, most frequent first, and the position of each number among them.

    Frequencies within a factor of two count as equal: then the numerical order is kept, in which
    parameters are read and written. `among` are all valid numbers, ascending, including unused
    ones.
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
    """Return the start of each token's share, if its attributes have these amounts."""
    out = np.zeros(len(indptr), dtype=np.int64)
    for tokens in spans(len(indptr) - 1):
        first = int(indptr[tokens.start])
        part = amount[first : int(indptr[tokens.stop])]
        before = Ragged.from_lengths(part).offsets
        ends = slice(tokens.start + 1, tokens.stop + 1)
        out[ends] = out[tokens.start] + before[indptr[ends] - first]
    return out

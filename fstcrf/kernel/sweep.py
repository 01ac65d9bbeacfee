"""Training at full speed: one sweep over a shard gives log Z and gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints, Longs, Ragged, Singles
from fstcrf.errors import ShapeError
from fstcrf.kernel.graphs import Graph, graph_view
from fstcrf.kernel.native import array_in, array_out, check, ffi, freeze, frozen, lib

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData

ScalarT = TypeVar("ScalarT", bound=np.generic)

_CACHE_LINE = 64


def aligned(size: int, dtype: type[ScalarT]) -> NDArray[ScalarT]:
    """Return a zero array that begins on a cache line, so that padded rows share no line."""
    width = np.dtype(dtype).itemsize
    raw = np.zeros(size * width + _CACHE_LINE, dtype=np.uint8)
    shift = -raw.ctypes.data % _CACHE_LINE
    return raw[shift : shift + size * width].view(dtype)


@dataclass(frozen=True, slots=True)
class Layout:
    """The parameters of each attribute.

    The arrays become read-only; views are copied first.

    Parameters
    ----------
    ptr : int64 [attributes + 1]
        Attribute a has the parameters ``theta[ptr[a] : ptr[a + 1]]``.
    slot : uint16 [parameters]
        Their slots.
    """

    ptr: Longs
    slot: NDArray[np.uint16]

    def __post_init__(self) -> None:
        freeze(self, "ptr", "slot", owned=True)


@dataclass(frozen=True, slots=True)
class ShardAttributes:
    """The attributes of a shard's N tokens, with the shard's numbering.

    Index arrays become read-only; views are copied first.

    Parameters
    ----------
    row_ptr, row, row_value
        int64 [N + 1], int32, float32 or `None`: row attributes of the tokens.
    single_ptr, single, single_slot, single_value
        int64 [N + 1], int32, uint16, float32 or `None`: entries of single attributes.
    rows : int32 [R]
        Attribute of each row.
    singles : int32 [M]
        Parameter of each single entry.
    """

    row_ptr: Longs
    row: Ints
    row_value: Singles | None
    single_ptr: Longs
    single: Ints
    single_slot: NDArray[np.uint16]
    single_value: Singles | None
    rows: Ints
    singles: Ints

    def __post_init__(self) -> None:
        freeze(self, "row_ptr", "row", "rows", owned=True)
        freeze(self, "single_ptr", "single", "single_slot", "singles", owned=True)


class Sweep(NamedTuple):
    """Result of one sweep.

    loss : float; sum of weight * log Z, minus the potentials of gold states if the shard has them.
    arc : float64 [arcs]; expected arcs.
    begin, end : float64 [S]; expected first and last states.
    rescued : int; sentences that needed float64.
    """

    loss: float
    arc: Floats
    begin: Floats
    end: Floats
    rescued: int


class SweepWorkspace:
    """Scratch of one sweep; keeps the gradient until `Shard.collect`."""

    def __init__(self) -> None:
        self._weight: Singles = np.empty(0, dtype=np.float32)
        self._gradient: Singles = np.empty(0, dtype=np.float32)
        self._frequent: Floats = np.empty(0)
        self._work: Floats = np.empty(0)

    def weight(self, size: int) -> Singles:
        """Return float32 [size]."""
        if len(self._weight) < size:
            self._weight = aligned(size, np.float32)
        return self._weight[:size]

    def gradient(self, size: int) -> Singles:
        """Return float32 [size]."""
        if len(self._gradient) < size:
            self._gradient = aligned(size, np.float32)
        return self._gradient[:size]

    def frequent(self, size: int) -> Floats:
        """Return float64 [size]."""
        if len(self._frequent) < size:
            self._frequent = aligned(size, np.float64)
        return self._frequent[:size]

    def work(self, size: int) -> Floats:
        """Return float64 [at least size]."""
        if len(self._work) < size:
            self._work = aligned(size, np.float64)
        return self._work


class Shard:
    """A fixed run of sentences with its own numbering of attributes; checked once.

    Parameters
    ----------
    graph : Graph
        A graph with the structure of all sweeps: dense, not per-token.
    layout : Layout
    width : int
        Padded number of slots, P; a multiple of 8.
    state_slots : int32 [S, K] or None
        Slots that a state sums; `None` if states are slots.
    offsets : int64 [B + 1]
    weight : float64 [B]
    attributes : ShardAttributes
    gold : int32 [N], optional
        Gold states: the loss of a sweep subtracts their potentials, rounded like the potentials in
        log Z.

    Raises
    ------
    ShapeError
        Sizes or indices that disagree.
    """

    def __init__(
        self,
        graph: Graph,
        layout: Layout,
        *,
        width: int,
        state_slots: Ints | None,
        offsets: Longs,
        weight: Floats,
        attributes: ShardAttributes,
        gold: Ints | None = None,
    ) -> None:
        self.size = len(attributes.rows) * width + len(attributes.singles)
        self._values = attributes.row_value, attributes.single_value
        self._shard, self._layout, self._memory = shard_view(
            graph.n_states, layout, width, state_slots, offsets, weight, attributes
        )
        self._n_parameters, self._n_states = len(layout.slot), graph.n_states
        if gold is not None:
            gold = frozen(gold)
            self._shard.gold = array_in(gold, np.int32, (len(attributes.row_ptr) - 1,), "gold")
            self._memory.append(gold)
        handle, _keep = graph_view(graph, classed=True)
        self._check(handle)
        rows, singles = (frequent(a, lib.FC_RUN) for a in (attributes.row, attributes.single))
        self._shard.frequent_rows, self._shard.frequent_singles = rows, singles
        self._frequent = rows * width + singles
        self._plan_flushes(handle)

    def _check(self, handle: CData) -> None:
        where = ffi.new("int64_t *")
        status = lib.fc_check_shard(handle, self._shard, self._layout, where)
        if status != lib.FC_OK:
            raise ShapeError(f"shard: a size or index is out of range (at {where[0]})")

    def _plan_flushes(self, handle: CData) -> None:
        """Compute the schedule by which a sweep flushes sums of frequent attributes to float64."""
        count, s = ffi.new("int64_t *"), self._shard
        size = s.B + s.longest + 2 + 2 * (s.frequent_rows + s.frequent_singles)
        work = array_out(np.empty(size, dtype=np.int64))
        check(lib.fc_flushes(handle, self._shard, count, ffi.NULL, ffi.NULL, work), "flushes")
        after = array_out(np.empty(count[0], dtype=np.int64))
        what = array_out(np.empty(count[0], dtype=np.int32))
        check(lib.fc_flushes(handle, self._shard, count, after, what, work), "flushes")
        self._shard.flushes = count[0]
        self._shard.flush_after, self._shard.flush_what = after, what
        self._memory += [after, what]

    def sweep(self, graph: Graph, theta: Singles, space: SweepWorkspace) -> Sweep:
        """Compute log Z and the gradient, which the workspace keeps until `collect`.

        Parameters
        ----------
        graph : Graph
            Dense, not per-token.
        theta : float32 [parameters of attributes]
        space : SweepWorkspace
            Must not be shared with another thread.

        Raises
        ------
        ShapeError
            Another number of states or parameters than the shard's.
        """
        return self._swept(graph, theta, space, ffi.NULL)

    def curvature(self, graph: Graph, theta: Singles, space: SweepWorkspace) -> Sweep:
        """Compute the diagonal of the Hessian of log Z; arguments as in `sweep`.

        Returns
        -------
        Sweep
            Sums of variances instead of expectations, without a loss; the variances of attributes
            are kept until `collect`.

        Raises
        ------
        ShapeError
            Another number of states or parameters than the shard's.
        """
        squares = [
            ffi.NULL if one is None else array_in(one**2, np.float32, one.shape, "value")
            for one in self._values
        ]
        squared = ffi.new("fc_shard *", self._shard[0])
        squared.row_value, squared.single_value = squares
        return self._swept(graph, theta, space, squared)._replace(loss=0.0, rescued=0)

    def _swept(self, graph: Graph, theta: Singles, space: SweepWorkspace, squared: CData) -> Sweep:
        """Sweep over the shard; with its values squared, for the diagonal of the Hessian."""
        handle, _keep, weights = self._begun(graph, theta, space)
        states, curved = graph.n_states, squared != ffi.NULL
        work = space.work(lib.fc_sweep_work(handle, self._shard, curved))
        loss, rescued = ffi.new("double *"), ffi.new("int64_t *")
        arc, begin, end = np.empty(graph.n_arcs), np.empty(states), np.empty(states)
        status = lib.fc_sweep(
            handle,
            self._shard,
            squared,
            weights,
            array_out(space.gradient(self.size)),
            array_out(space.frequent(self._frequent)),
            loss,
            array_out(arc),
            array_out(begin),
            array_out(end),
            rescued,
            ffi.from_buffer("double[]", work, require_writable=True),
        )
        check(status, "curvature" if curved else "sweep")
        return Sweep(float(loss[0]), arc, begin, end, int(rescued[0]))

    def _begun(
        self, graph: Graph, theta: Singles, space: SweepWorkspace
    ) -> tuple[CData, object, CData]:
        """Return the C view of the graph, its memory, and the weights in the shard's layout."""
        states = graph.n_states
        full = graph.source is None or graph.rest is not None
        if states != self._n_states or not full or graph.per_token:
            raise ShapeError(f"a sweep needs a dense graph of {self._n_states} states")
        handle, keep = graph_view(graph, classed=True)
        weights = array_out(space.weight(self.size))
        parameters = array_in(theta, np.float32, (self._n_parameters,), "theta")
        check(lib.fc_spread(self._shard, self._layout, parameters, weights), "spread")
        space.gradient(self.size)[:] = 0.0
        space.frequent(self._frequent)[:] = 0.0
        return handle, keep, weights

    def collect(self, space: SweepWorkspace, out: Floats) -> None:
        """Add the gradient of the last sweep in a workspace.

        Parameters
        ----------
        space : SweepWorkspace
        out : float64 [parameters of attributes]
            Changed in place.
        """
        status = lib.fc_collect(
            self._shard,
            self._layout,
            array_in(space.gradient(self.size), np.float32, (self.size,), "gradient"),
            array_in(space.frequent(self._frequent), np.float64, (self._frequent,), "frequent"),
            array_in(out, np.float64, (self._n_parameters,), "out", writable=True),
        )
        check(status, "collect")


def shard_view(
    n_states: int,
    layout: Layout,
    width: int,
    state_slots: Ints | None,
    offsets: Longs,
    weight: Floats,
    data: ShardAttributes,
) -> tuple[CData, CData, list[object]]:
    """Return the C structures of a shard and its layout, and the memory they point into."""
    if not (len(offsets) and len(data.row_ptr) and len(data.single_ptr) and len(layout.ptr)):
        raise ShapeError("shard: offsets, row_ptr, single_ptr or ptr is empty, expected a 0")
    offsets = frozen(offsets)
    state_slots = None if state_slots is None else frozen(state_slots)
    pointers = _pointers(n_states, state_slots, offsets, weight, data)
    scalars = {
        "B": len(offsets) - 1,
        "N": len(data.row_ptr) - 1,
        "R": len(data.rows),
        "M": len(data.singles),
        "P": width,
        "longest": Ragged(offsets).longest,
        "K": 0 if state_slots is None else state_slots.shape[1],
    }
    layout_fields = {
        "ptr": array_in(layout.ptr, np.int64, layout.ptr.shape, "ptr"),
        "slot": array_in(layout.slot, np.uint16, layout.slot.shape, "slot"),
    }
    sizes = {"attributes": len(layout.ptr) - 1, "parameters": len(layout.slot)}
    return (
        ffi.new("fc_shard *", {**scalars, **pointers}),
        ffi.new("fc_layout *", {**sizes, **layout_fields}),
        [pointers, layout_fields],
    )


def frequent(index: Ints, times: int) -> int:
    """Return the smallest bound above all ids that occur more than `times` times."""
    often = np.flatnonzero(np.bincount(index) > times)
    return int(often[-1]) + 1 if len(often) else 0


def _pointers(
    n_states: int, state_slots: Ints | None, offsets: Longs, weight: Floats, data: ShardAttributes
) -> dict[str, object]:
    """Return the arrays of a shard, checked, by their names in C."""
    tokens, sentences = len(data.row_ptr) - 1, len(offsets) - 1
    slots = 0 if state_slots is None else state_slots.shape[1]
    arrays: dict[str, tuple[NDArray[np.generic] | None, type[np.generic], tuple[int, ...]]] = {
        "offsets": (offsets, np.int64, (sentences + 1,)),
        "weight": (weight, np.float64, (sentences,)),
        "row_ptr": (data.row_ptr, np.int64, (tokens + 1,)),
        "row": (data.row, np.int32, (int(data.row_ptr[-1]),)),
        "row_value": (data.row_value, np.float32, data.row.shape),
        "single_ptr": (data.single_ptr, np.int64, (tokens + 1,)),
        "single": (data.single, np.int32, (int(data.single_ptr[-1]),)),
        "single_slot": (data.single_slot, np.uint16, data.single.shape),
        "single_value": (data.single_value, np.float32, data.single.shape),
        "rows": (data.rows, np.int32, data.rows.shape),
        "singles": (data.singles, np.int32, data.singles.shape),
        "slot": (state_slots, np.int32, (n_states, slots)),
    }
    return {
        name: array_in(array, dtype, shape, name)
        for name, (array, dtype, shape) in arrays.items()
        if array is not None
    }


# --- Inner products with --------------------------------------------------------------------------

_ALL = slice(None)


class VectorStore:
    """Some vectors of one length, kept as float32 or in 16 bits.

    With 16 bits, 11 are digits; numbers below 2⁻²⁹ of a vector's largest become zero.

    Parameters
    ----------
    count : int
        Number of vectors, m.
    size : int
        Their length, n.
    half : bool
        16 bits a number.
    """

    def __init__(self, count: int, size: int, *, half: bool = False) -> None:
        self._size, self._stride, self._half = size, -(-size // 16) * 16, half
        self._memory = aligned(count * self._stride, np.uint16 if half else np.float32)
        self._rows: NDArray[Any] = self._memory.reshape(count, self._stride)
        self._unit = np.ones(count)  # factor of each row

    def put(self, row: int, x: Floats, largest: float, part: slice = _ALL) -> None:
        """Store a vector, or a part of it.

        Parameters
        ----------
        row : int
        x : float64
            With 16 bits, it is changed to the stored values.
        largest : float
            Upper bound of the whole vector's absolute values, at most 1e200.
        part : slice
        """
        first, last, _ = part.indices(self._size)
        if not self._half:
            self._rows[row, first:last] = x
            return
        power = ffi.new("int32_t *")
        status = lib.fc_narrow(
            last - first,
            largest,
            array_in(x, np.float64, (last - first,), "x", writable=True),
            array_out(self._rows[row, first:last]),
            power,
        )
        check(status, "narrow")
        self._unit[row] = math.ldexp(1.0, -power[0])

    def dots(self, vectors: Floats, part: slice = _ALL) -> Floats:
        """Return the inner products with k vectors: float64 [k, n] → [m, k].

        Parameters
        ----------
        vectors : float64 [k, n]
        part : slice
            The positions of `vectors`, if they are parts.
        """
        first, last, _ = part.indices(self._size)
        (m, n), k = (len(self._rows), last - first), len(vectors)
        out = np.empty((m, k))
        status = lib.fc_dots(
            m,
            k,
            n,
            self._stride,
            self._half,
            self._from(first),
            n,
            array_in(vectors, np.float64, (k, n), "vectors"),
            array_out(out),
        )
        check(status, "dots")
        out *= self._unit[:, None]
        return out

    def add_combination(self, coefficients: Floats, out: Floats, part: slice = _ALL) -> None:
        """Add ``coefficients @ rows`` to `out`, float64 [n], in place: at some or all positions."""
        first, last, _ = part.indices(self._size)
        m = len(self._rows)
        status = lib.fc_combine(
            m,
            last - first,
            self._stride,
            self._half,
            self._from(first),
            array_in(coefficients * self._unit, np.float64, (m,), "coefficients"),
            array_in(out, np.float64, (self._size,), "out", writable=True) + first,
        )
        check(status, "combine")

    def _from(self, first: int) -> CData:
        return ffi.from_buffer("uint16_t[]" if self._half else "float[]", self._memory) + first

    def state(self) -> Singles | Longs:
        """Return the vectors, float32 [m, n]; of 16 bits the bits, int64, and the units."""
        if not self._half:
            return self._rows[:, : self._size].copy()
        return np.concatenate([self._memory.view(np.int64), self._unit.view(np.int64)])

    def restore(self, state: NDArray[np.generic]) -> None:
        """Restore a result of `state`."""
        if not self._half:
            self._rows[:, : self._size] = state
            return
        count = len(self._rows)
        self._memory.view(np.int64)[:] = state[:-count]
        self._unit = state[-count:].view(np.float64).copy()


def dot(x: Floats, y: Floats) -> float:
    """Return the inner product of two float64 [n] vectors, with the same bits on any processor."""
    out = ffi.new("double *")
    status = lib.fc_inner(
        len(x), array_in(x, np.float64, x.shape, "x"), array_in(y, np.float64, x.shape, "y"), out
    )
    check(status, "dot")
    return float(out[0])


def norm(x: Floats) -> float:
    """Return the Euclidean norm of a float64 [n] vector."""
    return math.sqrt(dot(x, x))

"""Averaged stochastic gradient descent: epochs of one sentence a step, in float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Bytes, Floats, Ints, Longs, Singles
from fstcrf.errors import DataError, NumericError, OptionError, ShapeError
from fstcrf.kernel.graphs import Graph, graph_view
from fstcrf.kernel.native import array_in, array_out, check, ffi, freeze, frozen, lib
from fstcrf.kernel.sweep import Layout, ShardAttributes, aligned, frequent, shard_view
from fstcrf.ragged import Ragged

# Occurrences from which on an attribute's rounding errors are stored, which costs time. For rarer
# attributes, four epochs were measured to lose less than a thousandth of small posteriors.
_OFTEN = 1 << 15


@dataclass(frozen=True, slots=True)
class ArcWeights:
    """The weights of arcs and ends, as indices into D numbers.

    Parameters
    ----------
    size : int
        D.
    arc : int32 [arcs]
        Index of each arc's weight; −1: no weight.
    initial, final : int32 [S]
        The same for beginning and ending in a state.
    """

    size: int
    arc: Ints
    initial: Ints
    final: Ints

    def __post_init__(self) -> None:
        freeze(self, "arc", "initial", "final")


class StochasticEpoch(NamedTuple):
    """Result of one epoch.

    loss : float; weighted sum of negative log-likelihoods, each before its own step.
    rescued : int; sentences that were done in float64.
    """

    loss: float
    rescued: int


class StochasticLearner:
    """All sentences of a problem, their gold paths, and weights that epochs change.

    Parameters
    ----------
    graph : Graph
        Not per-token. Its potentials belong to arcs without a weight: 0, or −inf if forbidden.
    layout : Layout
    width : int
        Padded number of slots, P; a multiple of 8.
    state_slots : int32 [S, K] or None
        Slots that a state sums; `None` if states are slots.
    offsets : int64 [B + 1]
    weight : float64 [B]
    attributes : ShardAttributes
        With a row or single entries for every attribute of the layout.
    gold : int32 [N]
        Gold states.
    arcs : ArcWeights

    Raises
    ------
    ShapeError
        Sizes or indices that disagree.
    DataError
        A gold path along an arc that does not exist.
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
        gold: Ints,
        arcs: ArcWeights,
    ) -> None:
        if graph.per_token:
            raise ShapeError("arc potentials are shared, but score has a row for each token")
        self._graph = graph
        self._shard, self._layout, self._memory = shard_view(
            graph.n_states, layout, width, state_slots, offsets, weight, attributes
        )
        trained = np.flatnonzero(arcs.arc >= 0).astype(np.int32)
        if graph.source is None or graph.target is None:
            source, target = np.divmod(trained, np.int32(graph.n_states))
        else:
            source, target = graph.source[trained], graph.target[trained]
        mask = _slot_bits(layout, attributes.rows, width)
        sizes = (graph.n_arcs,), (graph.n_states,), trained.shape
        pointers = {
            "gold": array_in(frozen(gold), np.int32, (int(offsets[-1]),), "gold"),
            "arc_slot": array_in(arcs.arc, np.int32, sizes[0], "arc"),
            "initial": array_in(arcs.initial, np.int32, sizes[1], "initial"),
            "final": array_in(arcs.final, np.int32, sizes[1], "final"),
            "trained": array_in(trained, np.int32, sizes[2], "trained"),
            "source": array_in(np.ascontiguousarray(source), np.int32, sizes[2], "source"),
            "target": array_in(np.ascontiguousarray(target), np.int32, sizes[2], "target"),
        }
        if mask is not None:
            pointers["mask"] = array_in(mask, np.uint8, mask.shape, "mask")
        self._steps = ffi.new("fc_stochastic *", {"D": arcs.size, "n": len(trained), **pointers})
        self._pointers = pointers
        self._n_parameters, self._n_sentences = len(layout.slot), len(weight)
        self._check()
        rows, singles = frequent(attributes.row, _OFTEN), frequent(attributes.single, _OFTEN)
        self._shard.frequent_rows, self._shard.frequent_singles = rows, singles
        n_rows, n_singles = len(attributes.rows) + rows, len(attributes.singles) + singles
        self._table: Singles = aligned(2 * (n_rows * width + n_singles), np.float32)
        self._dense = np.zeros(2 * arcs.size)
        fields = {"table": array_out(self._table), "dense": array_out(self._dense), "scale": 1.0}
        self._weights = ffi.new("fc_averaged *", fields)
        handle, _keep = graph_view(graph, classed=True)
        self._work = np.empty(lib.fc_asgd_work(handle, self._shard, self._steps))

    def _check(self) -> None:
        where, (handle, _keep) = ffi.new("int64_t *"), graph_view(self._graph, classed=True)
        status = lib.fc_check_stochastic(handle, self._shard, self._layout, self._steps, where)
        if status != lib.FC_OK:
            raise DataError(
                "a size or index is out of range, or the gold path leaves the topology "
                f"(at {where[0]})"
            )

    def restart(self, theta: Floats) -> None:
        """Begin at theta, float64 [parameters of attributes + D], with an empty mean.

        Raises
        ------
        ShapeError
            Another number of weights.
        """
        n, size = self._n_parameters, len(self._dense) // 2
        if len(theta) != n + size:
            raise ShapeError(f"theta has {len(theta)} weights, expected {n + size}")
        node = array_in(theta[:n], np.float64, (n,), "theta")
        check(
            lib.fc_asgd_spread(self._shard, self._layout, node, self._weights.table), "asgd_spread"
        )
        self._dense[:size], self._dense[size:] = theta[n:], 0.0
        self._weights.scale, self._weights.mass, self._weights.steps = 1.0, 0.0, 0.0

    def epoch(
        self, order: Longs, rates: Floats, decay: float, *, averaging: bool
    ) -> StochasticEpoch:
        """Make a step for each sentence, in place.

        Parameters
        ----------
        order : int64 [n]
            Sentences, in the order of their steps.
        rates : float64 [n]
            Size of each step.
        decay : float
            Weight decay λ: a step of size η multiplies the weights by 1 − η λ.
        averaging : bool
            Whether the weights after each step enter the mean.

        Raises
        ------
        NumericError
            A step leaves the finite numbers; names the sentence.
        OptionError
            A number in `order` that is not a sentence.
        """
        order = frozen(order)
        if order.size and not 0 <= order.min() <= order.max() < self._n_sentences:
            raise OptionError(
                f"order names an unknown sentence, expected 0 to {self._n_sentences - 1}"
            )
        handle, _keep = graph_view(self._graph, classed=True)
        loss, rescued = ffi.new("double *"), ffi.new("int64_t *")
        where = ffi.new("int64_t *")
        status = lib.fc_asgd(
            handle,
            self._shard,
            self._steps,
            len(order),
            array_in(order, np.int64, (len(order),), "order"),
            array_in(rates, np.float64, (len(order),), "rates"),
            decay,
            int(averaging),
            self._weights,
            loss,
            rescued,
            ffi.from_buffer("double[]", self._work, require_writable=True),
            where,
        )
        if status == lib.FC_ENUMERIC:
            k = int(where[0])
            raise NumericError(
                f"the weights grow beyond all limits at sentence {int(order[k])} "
                f"(step {k + 1} of {len(order)}, of length {rates[k]:.3g})"
            )
        check(status, "asgd")
        return StochasticEpoch(float(loss[0]), int(rescued[0]))

    def theta(self, *, mean: bool) -> Floats:
        """Return the current weights, or their mean over the averaged steps.

        Returns
        -------
        float64 [parameters of attributes + D]
            If the mean is empty, the current weights.
        """
        state, size, n = self._weights, len(self._dense) // 2, self._n_parameters
        a, b = state.scale, 0.0
        if mean and state.steps > 0:
            a, b = state.mass / state.steps, 1.0 / state.steps
        out = np.zeros(n + size)
        node = array_in(out, np.float64, out.shape, "theta", writable=True)
        status = lib.fc_asgd_collect(self._shard, self._layout, a, b, state.table, node)
        check(status, "asgd_collect")
        out[n:] = a * self._dense[:size] + b * self._dense[size:]
        return out

    def state(self) -> dict[str, Floats | Singles]:
        """Return the weights and their mean so far, as arrays."""
        now = self._weights
        numbers = np.asarray([now.scale, now.mass, now.steps])
        return {"table": self._table.copy(), "dense": self._dense.copy(), "numbers": numbers}

    def restore(self, table: Singles, dense: Floats, numbers: Floats) -> None:
        """Restore a result of `state`."""
        self._table[:], self._dense[:] = table, dense
        self._weights.scale, self._weights.mass, self._weights.steps = numbers.tolist()


def _slot_bits(layout: Layout, rows: Ints, width: int) -> Bytes | None:
    """Return a bit for each slot of a row that has a weight, uint8 [R, P / 8].

    `None` if all rows have all slots.
    """
    count = layout.ptr[rows + 1] - layout.ptr[rows]
    n_slots = int(layout.slot.max(initial=0)) + 1 if len(layout.slot) else 0
    if not len(rows) or (count == n_slots).all():
        return None
    bits = np.zeros((len(rows), width // 8), dtype=np.uint8)
    row = Ragged.from_lengths(count).rows()
    slot = layout.slot[Ragged(layout.ptr).entries(rows)]
    for k in range(8):
        of_bit = slot % 8 == k
        bits[row[of_bit], slot[of_bit] // 8] |= np.uint8(1 << k)
    return bits

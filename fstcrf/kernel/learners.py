"""Epochs of learners that take a step after each sentence.

Stochastic gradient descent computes in float32. The others (perceptron, passive-aggressive, AROW)
compute in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fstcrf.arrays import Bytes, Floats, Ints, Longs, Ragged, Singles
from fstcrf.errors import DataError, NumericError, OptionError, ShapeError
from fstcrf.kernel.graphs import Graph, graph_view
from fstcrf.kernel.native import array_in, array_out, check, ffi, freeze, frozen, lib
from fstcrf.kernel.rows import SparseRows, padded
from fstcrf.kernel.sweep import Layout, ShardAttributes, aligned, frequent, shard_view

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData, View


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
        mask = _slot_bits(layout, attributes.rows, width)
        sizes = (graph.n_arcs,), (graph.n_states,)
        pointers = {
            "gold": array_in(frozen(gold), np.int32, (int(offsets[-1]),), "gold"),
            "arc_slot": array_in(arcs.arc, np.int32, sizes[0], "arc"),
            "initial": array_in(arcs.initial, np.int32, sizes[1], "initial"),
            "final": array_in(arcs.final, np.int32, sizes[1], "final"),
        }
        if mask is not None:
            pointers["mask"] = array_in(mask, np.uint8, mask.shape, "mask")
        self._steps = ffi.new("fc_stochastic *", {"D": arcs.size, **pointers})
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
        # For each parameter of an attribute the place of its u. Its v is a row, or 1, further on,
        # and rounding errors of frequent rows and entries follow in the same layout.
        by_row, base = Ragged(layout.ptr), 2 * len(attributes.rows) * width
        parameter = by_row.entries(attributes.rows)
        by_row = by_row.select(attributes.rows)
        place = 2 * width * by_row.rows() + layout.slot[parameter]
        cell = base + 2 * np.arange(len(attributes.singles))
        entry, errors = attributes.singles.astype(np.int64), base + 2 * len(cell)
        often = int(by_row.offsets[rows])
        self._places = (
            (parameter, place, width, often, errors),
            (entry, cell, 1, singles, errors - base + 2 * rows * width),
        )
        where = ffi.new("int64_t *")
        none = np.zeros(0, dtype=np.int64), np.zeros(0)
        check(self._call(*none, 0.0, 0, ffi.NULL, where)[0], "asgd", where[0])
        self._work = np.empty(where[0])

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
        array_in(theta[:n], np.float64, (n,), "theta")
        self._table[:] = 0.0
        for parameter, place, *_ in self._places:
            self._table[place] = np.take(theta, parameter, mode="clip")
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
        where = ffi.new("int64_t *")
        work = ffi.from_buffer("double[]", self._work, require_writable=True)
        status, loss, rescued = self._call(order, rates, decay, int(averaging), work, where)
        if status == lib.FC_ENUMERIC:
            k = int(where[0])
            raise NumericError(
                f"the weights grow beyond all limits at sentence {int(order[k])} "
                f"(step {k + 1} of {len(order)}, of length {rates[k]:.3g})"
            )
        check(status, "asgd")
        return StochasticEpoch(loss, rescued)

    def _call(
        self, order: Longs, rates: Floats, decay: float, averaging: int, work: CData, where: CData
    ) -> tuple[int, float, int]:
        """Return the status of a call, the loss, and the rescued sentences."""
        (handle, _keep), n = graph_view(self._graph, classed=True), len(order)
        loss, rescued = ffi.new("double *"), ffi.new("int64_t *")
        inputs = handle, self._shard, self._steps, n, array_in(order, np.int64, (n,), "order")
        options = array_in(rates, np.float64, (n,), "rates"), decay, averaging
        status = lib.fc_asgd(*inputs, *options, self._weights, loss, rescued, work, where)
        return status, float(loss[0]), int(rescued[0])

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

        def at(place: Longs) -> Floats:
            return np.take(self._table, place, mode="clip").astype(np.float64)  # in half the time

        for parameter, place, step, often, errors in self._places:
            values, error = a * at(place) + b * at(place + step), place[:often] + errors
            values[:often] += b * at(error + step) - a * at(error)
            out[parameter] = values
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


@dataclass(frozen=True, slots=True)
class Parameters:
    """The weights of a tagger, in four arrays.

    Parameters
    ----------
    table : float64 [R, W]
        Weight of each (attribute, slot); columns from the number of slots on are padding.
    arc : float64 [M]
        Potential of each arc slot; −inf forbids.
    initial, final : float64 [S]
        Potentials of starting and ending in a state; −inf forbids.
    """

    table: Floats
    arc: Floats
    initial: Floats
    final: Floats

    def zeros(self) -> Parameters:
        """Return zeros of the same shape."""
        return Parameters(*(np.zeros_like(a) for a in self.arrays()))

    def arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the four arrays."""
        return self.table, self.arc, self.initial, self.final


def _check(learner: Learner) -> None:
    """Raise an error for sizes or indices that would lead the kernel outside its tables."""
    slots, mask = learner.slots, learner.mask
    if learner.graph.per_token:
        raise ShapeError(
            "a learner's arc potentials are shared, but score has a row for each token"
        )
    if not learner.offsets.size:
        raise ShapeError("offsets is empty, expected [B + 1] numbers from 0")
    if learner.offsets.flat[0] != 0 or (np.diff(learner.offsets) < 1).any():
        raise ShapeError("offsets must begin with 0 and rise: sentences are not empty")
    if mask.ndim != 2 or mask.shape[1] != padded(mask.shape[1]):
        raise ShapeError(f"mask is {list(mask.shape)}, expected [R, a multiple of {padded(1)}]")
    if slots.ndim != 2 or not slots.size:
        raise ShapeError(f"slots is {list(slots.shape)}, expected [S, at least 1]")
    if slots.min() < 0 or slots.max() >= mask.shape[1]:
        raise ShapeError(f"slots holds numbers outside [0, {mask.shape[1]})")

    trained, arcs, arc_slot = len(learner.arc_mask), learner.graph.n_arcs, learner.arc_slots
    if learner.arc_slot is None and trained != arcs:
        raise ShapeError(f"arc_mask is {[trained]}, expected {[arcs]}")
    if arc_slot.size and not 0 <= arc_slot.min() <= arc_slot.max() < trained:
        raise ShapeError(f"arc_slot holds numbers outside [0, {trained})")


def parameters_view(p: Parameters, table: tuple[int, ...], slots: int, states: int) -> View:
    """Return the C structure of parameters, and the memory it points into."""
    shapes = {"table": table, "arc": (slots,), "initial": (states,), "final": (states,)}
    pointers = {
        name: array_in(getattr(p, name), np.float64, shape, name, writable=True)
        for name, shape in shapes.items()
    }
    return ffi.new("fc_parameters *", pointers), list(pointers.values())


class _Call:
    """The C structures of one call, with references that keep their memory alive."""

    def __init__(self, learner: Learner) -> None:
        graph, design, rows = learner.graph, learner.design, learner.mask.shape
        bounds = array_in(learner.offsets, np.int64, (learner.offsets.size,), "offsets")
        n, sentences = int(learner.offsets[-1]), len(learner.offsets) - 1
        self.graph, self._graph_memory = graph_view(graph)
        value = design.value
        fields = {
            "slot": array_in(
                learner.slots, np.int32, (graph.n_states, learner.slots.shape[1]), "slots"
            ),
            "indptr": array_in(design.indptr, np.int64, (n + 1,), "indptr"),
            "index": array_in(design.index, np.int32, design.index.shape, "index"),
            "mask": array_in(learner.mask, np.uint8, (design.n_columns, rows[1]), "mask"),
            "arc_slot": array_in(learner.arc_slots, np.int32, (graph.n_arcs,), "arc_slot"),
            "arc_mask": array_in(learner.arc_mask, np.uint8, (len(learner.arc_mask),), "arc_mask"),
            "label": array_in(learner.state_labels, np.int32, (graph.n_states,), "label"),
        }
        if value is not None:
            fields["value"] = array_in(value, np.float32, value.shape, "value")
        self._memory: list[object] = list(fields.values())
        scalars = {
            "R": rows[0],
            "W": rows[1],
            "K": learner.slots.shape[1],
            "M": len(learner.arc_mask),
            "ends": int(learner.ends),
        }
        self.learner = ffi.new("fc_learner *", {**scalars, **fields})
        self._memory.append(bounds)
        self.batch = ffi.new("fc_batch *", {"B": sentences, "offsets": bounds})
        self.gold = array_in(learner.gold, np.int32, (n,), "gold")
        self.weight = array_in(learner.weight, np.float64, (sentences,), "weight")
        self._shape = learner.mask.shape, len(learner.arc_mask), graph.n_states

    def epoch(
        self,
        order: Longs,
        rule: str,
        theta: Parameters,
        other: Parameters,
        step: int = 1,
        limit: float = 1.0,
        advice: str = "",
        *,
        errors_count: bool = False,
    ) -> tuple[int, int, float]:
        """Run an epoch; return the number of the next sentence, wrong labels, and the loss."""
        sentences, order, where = self.batch.B, frozen(order), ffi.new("int64_t *")
        if order.size and not 0 <= order.min() <= order.max() < sentences:
            raise OptionError(f"order names an unknown sentence, expected 0 to {sentences - 1}")
        turns = array_in(order, np.int64, (len(order),), "order")
        counter, errors = ffi.new("double *", float(step)), ffi.new("int64_t *")
        loss = ffi.new("double *")
        inputs = self.graph, self.batch, self.learner, len(order), turns, self.gold, self.weight
        options = _UPDATES[rule], limit, int(errors_count)
        (changed, _memory), (second, _more) = (
            parameters_view(p, *self._shape) for p in (theta, other)
        )
        outputs = changed, second, counter, errors, loss
        status = lib.fc_online(*inputs, *options, *outputs, ffi.NULL, where)
        if status == lib.FC_OK:
            work = ffi.from_buffer("double[]", np.empty(where[0]))
            status = lib.fc_online(*inputs, *options, *outputs, work, where)
        if status == lib.FC_ENUMERIC:
            raise NumericError(f"diverged at sentence {order[where[0]]}: {advice}")
        check(status, rule, where[0])
        return int(counter[0]), int(errors[0]), float(loss[0])


# --- One epoch of training a sentence at a time ---------------------------------------------------

PassiveAggressive = Literal["PA", "PA-I", "PA-II"]

_UPDATES = {
    "perceptron": lib.FC_PERCEPTRON,
    "PA": lib.FC_PA,
    "PA-I": lib.FC_PA_I,
    "PA-II": lib.FC_PA_II,
    "AROW": lib.FC_AROW,
}


@dataclass(frozen=True, slots=True)
class Learner:
    """A graph's structure over a design, with gold paths.

    Parameters
    ----------
    graph : Graph
        Structure; its potentials are not read.
    offsets : int64 [B + 1]
        Sentences.
    design : SparseRows
        [N, R] attributes of each token.
    slots : int32 [S, K]
        Slots whose potentials a state sums.
    mask : uint8 [R, W]
        1 if a weight is trained.
    arc_mask : uint8 [M]
        The same for the weights of arc slots.
    ends : bool
        Whether initial and final potentials are trained.
    gold : int32 [N]
        Gold states.
    weight : float64 [B]
        Weight of each sentence.
    arc_slot : int32 [arcs], optional
        Slot of each arc; the arc itself if absent.
    label : int32 [S], optional
        Label of each state, by which errors are counted; the state itself if absent.

    Raises
    ------
    ShapeError
        Sizes or dtypes that disagree, a graph with potentials per token, a slot out of range.
    DataError
        A gold path along an arc that does not exist.
    """

    graph: Graph
    offsets: Longs
    design: SparseRows
    slots: Ints
    mask: Bytes
    arc_mask: Bytes
    ends: bool
    gold: Ints
    weight: Floats
    arc_slot: Ints | None = None
    label: Ints | None = None

    def __post_init__(self) -> None:
        freeze(self, "offsets", "slots", "gold", "arc_slot", "label")
        _check(self)
        _Call(self)
        graph, gold = self.graph, self.gold.astype(np.int64)
        wrong = (gold < 0) | (gold >= graph.n_states)
        if graph.source is not None and graph.target is not None:
            arcs = graph.source.astype(np.int64) * graph.n_states + graph.target
            gone = ~np.isin(gold[:-1] * graph.n_states + gold[1:], arcs)
            gone[self.offsets[1:-1] - 1] = False  # no arc leads from one sentence to the next
            wrong[1:] |= gone
        if wrong.any():
            raise DataError(f"the gold path leaves the topology at token {wrong.argmax()}")

    @property
    def arc_slots(self) -> Ints:
        """Slot of each arc, int32 [arcs]."""
        if self.arc_slot is None:
            return np.arange(self.graph.n_arcs, dtype=np.int32)
        return self.arc_slot

    @property
    def state_labels(self) -> Ints:
        """Label of each state, int32 [S]."""
        if self.label is None:
            return np.arange(self.graph.n_states, dtype=np.int32)
        return self.label

    def perceptron_epoch(
        self, order: Longs, theta: Parameters, sums: Parameters, step: int
    ) -> tuple[int, int, float]:
        """Run one epoch of the averaged perceptron in place.

        Parameters
        ----------
        order : int64
            Sentences, in the order of their steps.
        theta, sums : Parameters
            Weights and the sum of updates × step; the average is theta − sums / step.
        step : int
            Number of the first sentence, from 1.

        Returns
        -------
        step : int
            Number of the sentence after the last.
        errors : int
            Tokens with a wrong label.
        loss : float
            Weighted sum over sentences of the share of wrong tokens.

        Raises
        ------
        ShapeError
            Sizes or dtypes that disagree.
        OptionError
            A number in `order` that is not a sentence.
        """
        return _Call(self).epoch(order, "perceptron", theta, sums, step)

    def passive_aggressive_epoch(
        self,
        order: Longs,
        theta: Parameters,
        sums: Parameters,
        step: int,
        *,
        variant: PassiveAggressive,
        aggressiveness: float,
        error_sensitive: bool,
    ) -> tuple[int, float]:
        """Run one epoch of the passive-aggressive algorithm in place.

        Parameters
        ----------
        order : int64
            Sentences, in the order of their steps.
        theta, sums : Parameters
            Weights and the sum of updates × step; the average is theta − sums / step.
        step : int
            Number of the first sentence, from 1.
        variant : {"PA", "PA-I", "PA-II"}
            Rule for the size of an update.
        aggressiveness : float
            Upper limit of a PA-I step, and the slack of PA-II; above 0.
        error_sensitive : bool
            The cost is the root of the number of wrong labels, not 1.

        Returns
        -------
        step : int
            Number of the sentence after the last.
        loss : float
            Weighted sum of the losses of wrong sentences, each before its update.

        Raises
        ------
        NumericError
            The scores of a sentence are not finite.
        ShapeError, OptionError
            As for `perceptron_epoch`.
        """
        call, advice = _Call(self), "the weights are too large: lower the aggressiveness"
        step, _, loss = call.epoch(
            order, variant, theta, sums, step, aggressiveness, advice, errors_count=error_sensitive
        )
        return step, loss

    def arow_epoch(
        self, order: Longs, theta: Parameters, variance: Parameters, *, gamma: float
    ) -> float:
        """Run one epoch of adaptive regularisation of weights (AROW) in place.

        Parameters
        ----------
        order : int64
            Sentences, in the order of their steps.
        theta, variance : Parameters
            Mean and variance of each weight.
        gamma : float
            Resistance of means and variances to changes; above 0.

        Returns
        -------
        loss : float
            Weighted sum of the losses of wrong sentences, each before its update.

        Raises
        ------
        NumericError
            The scores of a sentence are not finite.
        ShapeError, OptionError
            As for `perceptron_epoch`.
        """
        advice = "the weights are too large: lower the variance"
        return _Call(self).epoch(order, "AROW", theta, variance, 1, gamma, advice)[2]

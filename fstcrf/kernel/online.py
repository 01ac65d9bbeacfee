"""One epoch of training a sentence at a time, in the kernel.

===========  ==========================================================
Parameters   tables of weights: attributes, arcs, ends
Learner      a topology over a design: what an epoch needs to know
===========  ==========================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import DataError, NumericError, OptionError, ShapeError
from fstcrf.kernel.graphs import Graph, _graph
from fstcrf.kernel.native import array_in, check, ffi, lib
from fstcrf.kernel.rows import SparseRows, padded

__all__ = ["Learner", "Parameters"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Weights by where they live.

    Parameters
    ----------
    table : float64 [R, W]
        Weight of each (attribute, slot); columns from the number of slots on are padding.
    arc : float64 [arcs]
        Potential of each arc; −inf forbids.
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
        1 where a weight is trained.
    arc_mask : uint8 [arcs]
    ends : bool
        Are initial and final potentials trained.
    gold : int32 [N]
        Gold states.
    weight : float64 [B]
        Weight of each sentence.

    Raises
    ------
    ShapeError
        Sizes or dtypes that disagree, a graph that moves, a slot out of range.
    DataError
        A gold path along an arc that does not exist.
    """

    graph: Graph
    offsets: NDArray[np.int64]
    design: SparseRows
    slots: NDArray[np.int32]
    mask: NDArray[np.uint8]
    arc_mask: NDArray[np.uint8]
    ends: bool
    gold: NDArray[np.int32]
    weight: Floats

    def __post_init__(self) -> None:
        _check_learner(self)
        call = _LearnerCall(self)
        status = lib.fc_check_path(call.graph, call.batch, call.gold, call.where)
        if status != lib.FC_OK:
            raise DataError(f"the gold path leaves the topology at token {call.where[0]}")

    def perceptron_epoch(
        self, order: NDArray[np.int64], theta: Parameters, sums: Parameters, step: int
    ) -> tuple[int, int]:
        """Run one epoch of the averaged perceptron in place.

        Parameters
        ----------
        order : int64
            Sentences, in the order of their turn.
        theta, sums : Parameters
            Weights and the sum of updates × step; the average is theta − sums / step.
        step : int
            Number of the first sentence, from 1.

        Returns
        -------
        step : int
            Number of the sentence after the last.
        errors : int
            Tokens whose state was wrong.

        Raises
        ------
        ShapeError
            Sizes or dtypes that disagree.
        OptionError
            A number in `order` that is no sentence.
        """
        _check_order(self, order)
        call = _LearnerCall(self)
        theta_c, keep_theta = _parameters(theta, self.mask.shape, self.graph)
        sums_c, keep_sums = _parameters(sums, self.mask.shape, self.graph)
        counter, errors = ffi.new("double *", float(step)), ffi.new("int64_t *")
        status = lib.fc_perceptron(
            call.graph,
            call.batch,
            call.learner,
            len(order),
            array_in(order, np.int64, (len(order),), "order"),
            call.gold,
            call.weight,
            theta_c,
            sums_c,
            counter,
            errors,
            call.work,
        )
        del keep_theta, keep_sums
        check(status, "perceptron")
        return int(counter[0]), int(errors[0])

    def sgd_epoch(
        self,
        order: NDArray[np.int64],
        rate: Floats,
        decay: float,
        theta: Parameters,
        scale: float,
    ) -> tuple[float, float]:
        """Run one epoch of stochastic gradient descent in place.

        Parameters
        ----------
        order : int64
            Sentences, in the order of their turn.
        rate : float64, as long as `order`
            Step sizes.
        decay : float
            Each step multiplies the weights by ``1 - rate * decay``.
        theta : Parameters
            The weights are ``scale * theta``.
        scale : float

        Returns
        -------
        scale : float
        loss : float
            Sum of weighted negative log-likelihoods, each before its own step.

        Raises
        ------
        NumericError
            A step left the finite numbers: the rate is too large.
        ShapeError, OptionError
            As for `perceptron_epoch`.
        """
        _check_order(self, order)
        call = _LearnerCall(self)
        theta_c, keep = _parameters(theta, self.mask.shape, self.graph)
        factor, loss = ffi.new("double *", scale), ffi.new("double *")
        status = lib.fc_sgd(
            call.graph,
            call.batch,
            call.learner,
            len(order),
            array_in(order, np.int64, (len(order),), "order"),
            call.gold,
            call.weight,
            array_in(rate, np.float64, order.shape, "rate"),
            decay,
            theta_c,
            factor,
            loss,
            call.work,
            call.where,
        )
        del keep
        if status == lib.FC_ENUMERIC:
            raise NumericError(f"diverged at sentence {order[call.where[0]]}: lower the step size")
        check(status, "sgd", call.where[0])
        return float(factor[0]), float(loss[0])


def _check_learner(learner: Learner) -> None:
    """Refuse what would lead the kernel outside its tables."""
    slots, mask = learner.slots, learner.mask
    if learner.graph.moving:
        raise ShapeError("a learner's graph does not move, but its score has a row for each token")
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


def _check_order(learner: Learner, order: NDArray[np.int64]) -> None:
    sentences = len(learner.offsets) - 1
    if order.size and not 0 <= order.min() <= order.max() < sentences:
        raise OptionError(f"order names a sentence that is none of the {sentences}")


def _parameters(p: Parameters, table: tuple[int, ...], graph: Graph) -> tuple[Any, list[Any]]:
    shapes = {
        "table": table,
        "arc": (graph.n_arcs,),
        "initial": (graph.n_states,),
        "final": (graph.n_states,),
    }
    pointers = {
        name: array_in(getattr(p, name), np.float64, shape, name, writable=True)
        for name, shape in shapes.items()
    }
    return ffi.new("fc_parameters *", pointers), list(pointers.values())


class _LearnerCall:
    """The C structures of one call, and what keeps their memory alive."""

    def __init__(self, learner: Learner) -> None:
        graph, design, rows = learner.graph, learner.design, learner.mask.shape
        bounds = array_in(learner.offsets, np.int64, (learner.offsets.size,), "offsets")
        n, sentences = int(learner.offsets[-1]), len(learner.offsets) - 1
        self.graph, self._graph_memory = _graph(graph)
        value = design.value
        fields = {
            "slot": array_in(
                learner.slots, np.int32, (graph.n_states, learner.slots.shape[1]), "slots"
            ),
            "indptr": array_in(design.indptr, np.int64, (n + 1,), "indptr"),
            "index": array_in(design.index, np.int32, design.index.shape, "index"),
            "mask": array_in(learner.mask, np.uint8, (design.n_columns, rows[1]), "mask"),
            "arc_mask": array_in(learner.arc_mask, np.uint8, (graph.n_arcs,), "arc_mask"),
        }
        if value is not None:
            fields["value"] = array_in(value, np.float32, value.shape, "value")
        self._memory = list(fields.values())
        scalars = {
            "R": rows[0],
            "W": rows[1],
            "K": learner.slots.shape[1],
            "ends": int(learner.ends),
        }
        self.learner = ffi.new("fc_learner *", {**scalars, **fields})
        self._memory.append(bounds)
        self.batch = ffi.new("fc_batch *", {"B": sentences, "offsets": bounds})
        self.gold = array_in(learner.gold, np.int32, (n,), "gold")
        self.weight = array_in(learner.weight, np.float64, (sentences,), "weight")
        self.where = ffi.new("int64_t *")
        longest = int(np.diff(learner.offsets).max(initial=0))
        scratch = np.empty(lib.fc_learner_work(self.graph, self.learner, longest))
        self.work = ffi.from_buffer("double[]", scratch)

"""One epoch of training a sentence at a time, in the kernel: a topology over a design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import DataError, NumericError
from fstcrf.kernel.graphs import Graph
from fstcrf.kernel.learner_call import (
    LearnerCall,
    Parameters,
    check_learner,
    parameters,
)
from fstcrf.kernel.native import array_in, check, ffi, lib
from fstcrf.kernel.rows import SparseRows

__all__ = ["Learner", "PassiveAggressive"]

Floats = NDArray[np.float64]
PassiveAggressive = Literal["PA", "PA-I", "PA-II"]

_VARIANTS = {"PA": lib.FC_PA, "PA-I": lib.FC_PA_I, "PA-II": lib.FC_PA_II}


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
    arc_mask : uint8 [M]
        The same of the weights of arc slots.
    ends : bool
        Are initial and final potentials trained.
    gold : int32 [N]
        Gold states.
    weight : float64 [B]
        Weight of each sentence.
    arc_slot : int32 [arcs], optional
        Slot of each arc; each has its own when absent.
    label : int32 [S], optional
        Label of each state, which is what counts as right or wrong; the state itself when absent.

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
    arc_slot: NDArray[np.int32] | None = None
    label: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        check_learner(self)
        call = LearnerCall(self)
        status = lib.fc_check_path(call.graph, call.batch, call.gold, call.where)
        if status != lib.FC_OK:
            raise DataError(f"the gold path leaves the topology at token {call.where[0]}")

    @property
    def arc_slots(self) -> NDArray[np.int32]:
        """Slot of each arc, int32 [arcs]."""
        if self.arc_slot is None:
            return np.arange(self.graph.n_arcs, dtype=np.int32)
        return self.arc_slot

    @property
    def state_labels(self) -> NDArray[np.int32]:
        """Label of each state, int32 [S]."""
        if self.label is None:
            return np.arange(self.graph.n_states, dtype=np.int32)
        return self.label

    def perceptron_epoch(
        self, order: NDArray[np.int64], theta: Parameters, sums: Parameters, step: int
    ) -> tuple[int, int, float]:
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
            Tokens whose label was wrong.
        loss : float
            Weighted sum over sentences of the share of their tokens that was wrong.

        Raises
        ------
        ShapeError
            Sizes or dtypes that disagree.
        OptionError
            A number in `order` that is no sentence.
        """
        call = LearnerCall(self)
        theta_c, keep_theta = parameters(theta, self)
        sums_c, keep_sums = parameters(sums, self)
        counter, errors = ffi.new("double *", float(step)), ffi.new("int64_t *")
        loss = ffi.new("double *")
        status = lib.fc_perceptron(
            *call.inputs(order),
            theta_c,
            sums_c,
            counter,
            errors,
            loss,
            call.work(),
        )
        del keep_theta, keep_sums
        check(status, "perceptron")
        return int(counter[0]), int(errors[0]), float(loss[0])

    def passive_aggressive_epoch(
        self,
        order: NDArray[np.int64],
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
            Sentences, in the order of their turn.
        theta, sums : Parameters
            Weights and the sum of updates × step; the average is theta − sums / step.
        step : int
            Number of the first sentence, from 1.
        variant : {"PA", "PA-I", "PA-II"}
            How far an update goes.
        aggressiveness : float
            Most that PA-I does, and the slack of PA-II; above 0.
        error_sensitive : bool
            The cost is the root of the number of wrong labels, not 1.

        Returns
        -------
        step : int
            Number of the sentence after the last.
        loss : float
            Weighted sum of the losses of the sentences that were wrong, each before its update.

        Raises
        ------
        NumericError
            The scores of a sentence are not finite.
        ShapeError, OptionError
            As for `perceptron_epoch`.
        """
        call = LearnerCall(self)
        theta_c, keep_theta = parameters(theta, self)
        sums_c, keep_sums = parameters(sums, self)
        counter, loss = ffi.new("double *", float(step)), ffi.new("double *")
        status = lib.fc_passive_aggressive(
            *call.inputs(order),
            _VARIANTS[variant],
            aggressiveness,
            int(error_sensitive),
            theta_c,
            sums_c,
            counter,
            loss,
            call.difference_work(),
            call.where,
        )
        del keep_theta, keep_sums
        _finite(status, order, call, "the weights are too large: lower the aggressiveness")
        check(status, "passive-aggressive", call.where[0])
        return int(counter[0]), float(loss[0])

    def arow_epoch(
        self, order: NDArray[np.int64], theta: Parameters, variance: Parameters, *, gamma: float
    ) -> float:
        """Run one epoch of adaptive regularisation of weights (AROW) in place.

        Parameters
        ----------
        order : int64
            Sentences, in the order of their turn.
        theta, variance : Parameters
            Mean and variance of each weight.
        gamma : float
            How slowly means and variances move; above 0.

        Returns
        -------
        loss : float
            Weighted sum of the losses of the sentences that were wrong, each before its update.

        Raises
        ------
        NumericError
            The scores of a sentence are not finite.
        ShapeError, OptionError
            As for `perceptron_epoch`.
        """
        call = LearnerCall(self)
        theta_c, keep_theta = parameters(theta, self)
        variance_c, keep_variance = parameters(variance, self)
        loss = ffi.new("double *")
        status = lib.fc_arow(
            *call.inputs(order),
            gamma,
            theta_c,
            variance_c,
            loss,
            call.difference_work(),
            call.where,
        )
        del keep_theta, keep_variance
        _finite(status, order, call, "the weights are too large: lower the variance")
        check(status, "arow", call.where[0])
        return float(loss[0])

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
        call = LearnerCall(self)
        theta_c, keep = parameters(theta, self)
        factor, loss = ffi.new("double *", scale), ffi.new("double *")
        status = lib.fc_sgd(
            *call.inputs(order),
            array_in(rate, np.float64, order.shape, "rate"),
            decay,
            theta_c,
            factor,
            loss,
            call.work(),
            call.where,
        )
        del keep
        _finite(status, order, call, "lower the step size")
        check(status, "sgd", call.where[0])
        return float(factor[0]), float(loss[0])


def _finite(status: int, order: NDArray[np.int64], call: LearnerCall, advice: str) -> None:
    if status == lib.FC_ENUMERIC:
        raise NumericError(f"diverged at sentence {order[call.where[0]]}: {advice}")

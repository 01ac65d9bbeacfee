"""Stochastic gradient descent with L2, one sentence a step: ``l2sgd``, and ``asgd`` with averages.

With λ = 2 l2 / B and the first step size η₀, which is chosen on a sample, the step sizes of
``l2sgd`` are η₀ / (1 + λ η₀ t), as in Pegasos. Those of ``asgd`` are η₀ / (1 + λ η₀ t)^¾. They
decrease more slowly, so that the weights continue to move around the minimum, and their mean from
the second epoch on is closer to it than any of them. Source: Shalev-Shwartz et al. (2007); Bottou
(2010); Polyak and Juditsky (1992); Ruppert (1988); Xu (2011), whose sums update the mean at the
cost of one more number for each weight of a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, OptionError
from fstcrf.kernel import ArcWeights, Graph, StochasticLearner, dot, norm, padded
from fstcrf.training.online import (
    Orders,
    collect_parameters,
    masked_arcs,
    restored_parameters,
    shuffled,
)
from fstcrf.training.optimiser import State, Step
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.settings import Delta, MaxIterations, MethodSettings, Penalised, TrainingRun
from fstcrf.training.shards import (
    alone_cost,
    attribute_layout,
    dense_cost,
    fits,
    sweep_counts,
    whole_attributes,
)

_DIVERGED = 10.0  # times the loss of zero weights: far above the loss of converging steps


# --- The first step size of stochastic gradient descent -------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Calibrated(MethodSettings):
    """Settings of methods whose first step size is chosen on a sample."""

    calibration_rate: Annotated[
        float, Meta(gt=0, description="the first step size that is tried")
    ] = 0.1
    calibration_factor: Annotated[
        float, Meta(gt=1, description="from one step size tried to the next")
    ] = 2.0
    calibration_sentences: Annotated[
        int, Meta(ge=1, description="sentences to try step sizes on")
    ] = 1000
    calibration_candidates: Annotated[
        int, Meta(ge=1, description="step sizes in each direction")
    ] = 10
    calibration_trials: Annotated[int, Meta(ge=1, description="step sizes in all")] = 20


@dataclass(frozen=True, kw_only=True)
class L2SGD(Penalised, Calibrated):
    """The likelihood by stochastic gradients, one sentence a step."""

    name: ClassVar[str] = "l2sgd"

    delta: Delta = 1e-6

    def optimiser(self, run: TrainingRun) -> SGDOptimiser:
        """Return the optimiser of a run."""
        return SGDOptimiser(run.problem, run.space, run.theta, self, seed=run.seed)

    def memory_of(self, run: TrainingRun) -> int | None:
        """Return the peak memory of a run, in bytes: an epoch, and its result."""
        return sweep_counts(run.problem, run.space).stochastic() + 2 * 8 * run.space.size


@dataclass(frozen=True, kw_only=True)
class ASGD(L2SGD):
    """The likelihood by stochastic gradients; the result is a mean, from the second epoch on."""

    name: ClassVar[str] = "asgd"

    max_iterations: MaxIterations = 8


class _Search:
    """The candidates tried so far."""

    def __init__(self, trial: Callable[[float], float], before: float, trials: int) -> None:
        self._trial, self._before, self._left = trial, before, trials
        self.best, self.value, self.least = 0.0, np.inf, np.inf

    def walk(self, rate: float, factor: float, candidates: int, *, stubborn: bool) -> None:
        """Try rates from `rate` on while they help; a stubborn walk continues until one does."""
        good = 0
        while good < candidates and self._left:
            self._left -= 1
            value, self.least = self._trial(rate), min(self.least, rate)
            helps = value < self._before
            if np.isfinite(value) and value < self.value:
                self.best, self.value = rate, value
            elif not stubborn or self.value < self._before:
                return
            if not helps and not stubborn:
                return
            good += helps
            rate *= factor


REMEDY = "lower calibration_rate or l2, or scale the feature values"
"""Advice for too long steps, if the method has a setting for step sizes."""


def calibrated_rate(
    trial: Callable[[float], float], before: float, tried: Calibrated, remedy: str = REMEDY
) -> float:
    """Return the best of the tried step sizes.

    Parameters
    ----------
    trial : callable
        Step size → objective on the sample after one pass; infinite if it diverges.
    before : float
        Objective on the sample at the start.
    tried : Calibrated
    remedy : str
        Advice if no step size converges.

    Raises
    ------
    NumericError
        No candidate converges.
    """
    search = _Search(trial, before, tried.calibration_trials)
    rate, factor = tried.calibration_rate, tried.calibration_factor
    most = tried.calibration_candidates
    search.walk(rate, factor, most, stubborn=False)
    if search.best in (0.0, rate):
        search.walk(rate / factor, 1.0 / factor, most, stubborn=True)
    if not np.isfinite(search.value):
        raise NumericError(
            f"no step size from {tried.calibration_rate:.3g} down to {search.least:.3g} "
            f"converges: {remedy}"
        )
    return search.best


# --- Sentences in the form of the kernel ----------------------------------------------------------


def stochastic(space: ParameterSpace) -> bool:
    """Return whether stochastic epochs can train the weights if labels are known.

    `stochastic_learner` raises an error with the reason.
    """
    few = len(space.topology.node_slot_names) <= np.iinfo(np.uint16).max
    return few and not space.n_arc_rows


def stochastic_learner(problem: Problem, space: ParameterSpace) -> StochasticLearner:
    """Return a problem in the form of the kernel.

    Raises
    ------
    OptionError
        Unknown labels in the data, or weights of arc attributes: both need a batch objective. Or
        more slots than the kernel can number.
    """
    topology = problem.topology
    problem.require_known("train with method 'lbfgs'")
    if space.n_arc_rows:
        raise OptionError("the template has B features of the input: train with method 'lbfgs'")
    n_slots, most = len(topology.node_slot_names), np.iinfo(np.uint16).max
    if n_slots > most:
        raise OptionError(f"{n_slots:,} labels, expected at most {most:,}: use method 'lbfgs'")
    layout, (graph, places) = attribute_layout(space), stochastic_graph(problem, space)
    return StochasticLearner(
        graph,
        layout,
        width=padded(n_slots),
        state_slots=None if topology.direct else np.ascontiguousarray(topology.node_slots),
        offsets=problem.offsets,
        weight=problem.weight,
        attributes=whole_attributes(problem.node, layout, n_slots),
        gold=problem.states,
        arcs=_arc_weights(space, places),
    )


def stochastic_graph(problem: Problem, space: ParameterSpace) -> tuple[Graph, Ints]:
    """Return the graph without weights, and the index of each arc's weight; −1: no weight."""
    topology, n = problem.topology, len(space.transitions)
    states = topology.n_states
    if fits(problem, space) and (not topology.dense or alone_cost(states, n) < dense_cost(states)):
        default_arcs = topology.default_arcs(space.transitions)
        listed = 0 if default_arcs is None else len(default_arcs.source)
        pays = not topology.dense or alone_cost(states, listed) < dense_cost(states)
        if default_arcs is not None and pays:
            ends = np.zeros((2, states))
            return default_arcs.graph(np.zeros(n), *ends), default_arcs.place
    graph = topology.graph(np.zeros(topology.n_arc_slots))
    slot, mask = masked_arcs(space, graph)
    place = np.full(len(mask), -1, dtype=np.int32)
    place[space.transitions] = np.arange(n)
    return graph, place[slot]


def _arc_weights(space: ParameterSpace, places: Ints) -> ArcWeights:
    """Return the indices of the weights of arcs and ends, which follow the attributes' weights."""
    ends = np.full((2, space.topology.n_states), -1, dtype=np.int32)
    n = len(space.transitions)
    ends[0, space.initial] = n + np.arange(len(space.initial))
    ends[1, space.final] = n + len(space.initial) + np.arange(len(space.final))
    return ArcWeights(n + len(space.initial) + len(space.final), places, ends[0], ends[1])


# --- Stochastic gradient descent ------------------------------------------------------------------


class SGDOptimiser:
    """Stochastic gradient descent, averaged with `ASGD`; a step is an epoch.

    The sample for the choice of the first step size is the beginning of the first epoch. The value
    of an epoch is the penalised likelihood of its sentences, each before its own step.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Initial weights.
    settings : L2SGD or ASGD
    seed : int
        Random seed of the order of sentences, which is drawn for each epoch.
    first_rate : float, optional
        First step size; chosen on a sample if absent.
    orders : Orders, optional
        The order of sentences in each epoch, in place of `seed`.
    remedy : str
        Advice in errors about too long steps.

    Raises
    ------
    NumericError
        No candidate for the first step size converges.
    OptionError
        Labels that are not known, weights of arc attributes, or too many labels.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        settings: L2SGD = ASGD(),
        *,
        seed: int = 0,
        first_rate: float | None = None,
        orders: Orders | None = None,
        remedy: str = REMEDY,
    ) -> None:
        self.settings, self.rescued, self._remedy = settings, 0, remedy
        self._averaging, self._space = isinstance(settings, ASGD), space
        self._size, self._epoch = len(problem.weight), 0
        self._decay = 2.0 * settings.l2 / self._size
        self._orders = shuffled(seed, self._size) if orders is None else orders
        self._values: list[float] = []
        tokens = Ragged(problem.offsets).lengths.astype(np.float64)
        self._ignorance = dot(problem.weight, tokens * math.log(problem.topology.n_states))
        self._learner = stochastic_learner(problem, space)
        self.first_rate = self._calibrate(theta) if first_rate is None else first_rate
        self._learner.restart(theta)
        self._theta = theta

    def theta(self) -> Floats:
        """Return the current weights, or their mean since the second epoch."""
        return self._theta

    def snapshot(self) -> Callable[[], Floats]:
        """Return a function that returns the current weights later."""
        theta = self._theta  # safe: an epoch makes a new array
        return lambda: theta

    def step(self) -> Step:
        """Run one epoch."""
        order, rates = self._orders(self._epoch), self._rates(self.first_rate, self._epoch)
        self._epoch += 1
        try:
            loss, self.rescued = self._learner.epoch(
                order, rates, self._decay, averaging=self._averaging and self._epoch > 1
            )
        except NumericError as error:
            raise NumericError(f"epoch {self._epoch}: {error}; {self._remedy}") from None
        self._theta = self._learner.theta(mean=self._averaging)
        value = loss + self.settings.l2 * dot(self._theta, self._theta)
        if self._epoch > 1 and loss > _DIVERGED * self._ignorance:
            raise NumericError(
                f"epoch {self._epoch} with steps from {rates[0]:.3g} ended far above where all "
                f"labels are equally likely (at {loss:.4g}, not {self._ignorance:.4g}); "
                + self._remedy
            )
        self._values = [*self._values[-self.settings.period :], value]
        measures = {
            "norm": norm(self._theta),
            "rate": float(rates[-1]),
            "updates": float(self._epoch * self._size),
        }
        if len(self._values) > self.settings.period:
            measures["improvement"] = self._improvement()
        return Step(value, None, self._epoch, self._converged(), measures)

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""
        return {
            "scalars": np.asarray([self.first_rate]),
            "epoch": np.asarray([self._epoch]),
            "values": np.asarray(self._values),
            "theta": self._theta,
            **self._learner.state(),
        }

    def restore(self, state: State) -> None:
        """Restore a state; also of a version that trained ``l2sgd`` in float64."""
        self.first_rate, self._epoch = float(state["scalars"][-1]), int(state["epoch"][0])
        self._values = state["values"].tolist()
        if "theta.0" in state:
            weights = collect_parameters(self._space, restored_parameters("theta", state))
            self._theta = float(state["scalars"][0]) * weights
            self._learner.restart(self._theta)
            return
        self._theta = state["theta"].astype(np.float64)
        table = state["table"].astype(np.float32)
        self._learner.restore(table, *(state[n].astype(np.float64) for n in ("dense", "numbers")))

    def _rates(self, first: float, epoch: int, n: int | None = None) -> Floats:
        done = epoch * self._size + np.arange(self._size if n is None else n)
        fall = 1.0 + self._decay * first * done
        if not self._averaging:
            return np.asarray(first / fall)
        # To the power of 0.75, after Xu (2011). Roots have the same bits in every version of NumPy,
        # powers do not.
        root = np.sqrt(fall)
        return np.asarray(first / (root * np.sqrt(root)))

    def _converged(self) -> str | None:
        if len(self._values) > self.settings.period and self._improvement() < self.settings.delta:
            return f"less than {self.settings.delta:g} gained in {self.settings.period} epochs"
        return None

    def _improvement(self) -> float:
        """Return the gain of the last `period` epochs, relative to the last value."""
        old, new = self._values[-self.settings.period - 1], self._values[-1]
        return (old - new) / abs(new) if new else 0.0

    def _calibrate(self, theta: Floats) -> float:
        sample = self._orders(0)[: self.settings.calibration_sentences]

        def trial(rate: float) -> float:
            self._learner.restart(theta)
            try:
                rates = self._rates(rate, 0, len(sample))
                self._learner.epoch(sample, rates, self._decay, averaging=False)
            except NumericError:
                return np.inf
            return self._objective(sample)

        self._learner.restart(theta)
        return calibrated_rate(trial, self._objective(sample), self.settings, self._remedy)

    def _objective(self, sample: Longs) -> float:
        """Return the objective on the sample, or infinity if it is not finite."""
        no_rates = np.zeros(len(sample))
        try:
            loss, _ = self._learner.epoch(sample, no_rates, 0.0, averaging=False)
        except NumericError:
            return np.inf
        weights = self._learner.theta(mean=False)
        return loss + self.settings.l2 * len(sample) / self._size * dot(weights, weights)

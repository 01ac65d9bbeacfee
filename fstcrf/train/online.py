"""What learners share that go sentence by sentence: tables, orders, the first step size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NumericError, OptionError
from fstcrf.kernel import Learner, Parameters
from fstcrf.train.problem import ParameterSpace, Problem, Tables
from fstcrf.train.settings import MaxIterations, MethodSettings, Needs, check

__all__ = [
    "BEGINNING",
    "FROM_ZERO",
    "STEPS",
    "AveragedEpochs",
    "Calibrated",
    "Calibration",
    "MeanLoss",
    "OnlineEpochs",
    "Orders",
    "calibrated_rate",
    "collect_parameters",
    "named_parameters",
    "online_learner",
    "online_parameters",
    "restored_parameters",
    "shuffled",
]


Orders = Callable[[int], Longs]
"""Number of an epoch, from 0 → int64 [B], the sentences in the order of their turn."""


def online_learner(problem: Problem, space: ParameterSpace) -> Learner:
    """Return the learner of a problem.

    Raises
    ------
    OptionError
        Unknown labels in the data, or weights of arc attributes: both need a batch objective.
    """
    topology = problem.topology
    if problem.partial.any():
        first = int(np.flatnonzero(problem.partial)[0])
        raise OptionError(
            f"sentence {first} has labels that are not known: train with method 'lbfgs'"
        )
    if space.n_arc_rows:
        raise OptionError("the template has B features of the input: train with method 'lbfgs'")
    n_slots = topology.n_arc_slots
    graph = topology.graph(np.zeros(n_slots))
    mask = np.zeros(space.n_node_rows * space.width, dtype=np.uint8)
    mask[space.node_cells] = 1
    # Behind the slots: what arcs without one have, and what arcs that are not there have.
    arc_mask = np.zeros(n_slots + 2, dtype=np.uint8)
    arc_mask[space.transitions] = 1
    arc_slot = np.full(graph.n_arcs, n_slots + 1, dtype=np.int32)
    arc_slot[topology.kernel_arcs()] = np.where(topology.arc_slot < 0, n_slots, topology.arc_slot)
    return Learner(
        graph=graph,
        offsets=problem.offsets,
        design=problem.node,
        slots=np.ascontiguousarray(topology.node_slots),
        mask=mask.reshape(space.n_node_rows, space.width),
        arc_mask=arc_mask,
        ends=len(space.initial) > 0,
        gold=problem.states,
        weight=problem.weight,
        arc_slot=arc_slot,
        label=topology.state_label,
    )


def online_parameters(space: ParameterSpace, theta: Floats) -> Parameters:
    """Lay theta out for the learner; what is forbidden is −inf."""
    tables = space.tables(theta)
    graph = space.topology.graph(tables.transition, tables.initial, tables.final)
    arc = np.concatenate([tables.transition, [0.0, -np.inf]])
    return Parameters(tables.node, arc, graph.initial.copy(), graph.final.copy())


def collect_parameters(space: ParameterSpace, parameters: Parameters) -> Floats:
    """Return the theta of which `parameters` is the layout."""
    return space.collect(
        Tables(parameters.table, parameters.arc, None, parameters.initial, parameters.final)
    )


def shuffled(seed: int, sentences: int) -> Orders:
    """Return orders that are drawn anew for each epoch."""

    def order(epoch: int) -> Longs:
        return np.random.default_rng((seed, epoch)).permutation(sentences)

    return order


def named_parameters(name: str, parameters: Parameters) -> dict[str, Floats]:
    """Return parameters as arrays of a checkpoint."""
    return {f"{name}.{i}": array for i, array in enumerate(parameters.arrays())}


def restored_parameters(name: str, state: Mapping[str, NDArray[Any]]) -> Parameters:
    """Return the parameters that `named_parameters` named."""
    return Parameters(*(state[f"{name}.{i}"] for i in range(4)))


# --- The first step size of stochastic gradient descent -------------------------------------------


STEPS = Needs(
    lambda values: values.get("stochastic_epochs") != 0,
    "needs stochastic_epochs above 0, or method 'gpd': it is about their steps",
)
FROM_ZERO = "is for the stochastic epochs of a run that starts from zero, not from warm_start"
BEGINNING = Needs(
    lambda values: (
        not values.get("warm_start")
        or values.get("stochastic_epochs") is not None  # asked for, they are made there, too
        or values["method"] in ("l2sgd", "gpd")
    ),
    FROM_ZERO,
)
"""Both are of settings of stochastic steps, which batch methods may do without."""


@dataclass(frozen=True, kw_only=True)
class Calibrated(MethodSettings):
    """Methods whose first step size is chosen on a sample."""

    calibration_rate: Annotated[
        float, Meta(gt=0, description="the first step size that is tried"), STEPS, BEGINNING
    ] = 0.1
    calibration_factor: Annotated[
        float, Meta(gt=1, description="from one step size tried to the next"), STEPS, BEGINNING
    ] = 2.0
    calibration_sentences: Annotated[
        int, Meta(ge=1, description="sentences to try step sizes on"), STEPS, BEGINNING
    ] = 1000
    calibration_candidates: Annotated[
        int, Meta(ge=1, description="step sizes in each direction"), STEPS, BEGINNING
    ] = 10
    calibration_trials: Annotated[
        int, Meta(ge=1, description="step sizes in all"), STEPS, BEGINNING
    ] = 20

    @property
    def calibration(self) -> Calibration:
        """What is tried."""
        return Calibration(
            rate=self.calibration_rate,
            factor=self.calibration_factor,
            sentences=self.calibration_sentences,
            candidates=self.calibration_candidates,
            trials=self.calibration_trials,
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is tried.

    Parameters
    ----------
    rate : float
        The first candidate, above 0.
    factor : float
        From one candidate to the next, above 1.
    sentences : int
        Size of the sample.
    candidates : int
        Most candidates in each direction that lower the objective.
    trials : int
        Most candidates in all.

    Raises
    ------
    OptionError
        A number outside what it may be.
    """

    rate: float = 0.1
    factor: float = 2.0
    sentences: int = 1000
    candidates: int = 10
    trials: int = 20

    def __post_init__(self) -> None:
        check(Calibrated, **{f"calibration_{name}": v for name, v in asdict(self).items()})


class _Search:
    """Candidates tried so far."""

    def __init__(self, trial: Callable[[float], float], before: float, trials: int) -> None:
        self._trial, self._before, self._left = trial, before, trials
        self.best, self.value, self.least = 0.0, np.inf, np.inf

    def walk(self, rate: float, factor: float, candidates: int, *, stubborn: bool) -> None:
        """Go on from `rate` while it helps; a stubborn walk goes on until something does."""
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


def calibrated_rate(trial: Callable[[float], float], before: float, tried: Calibration) -> float:
    """Return the best step size of those tried.

    Parameters
    ----------
    trial : callable
        Step size → objective on the sample after one pass; infinite where it diverges.
    before : float
        Objective on the sample at the start.
    tried : Calibration

    Raises
    ------
    NumericError
        No candidate converges.
    """
    search = _Search(trial, before, tried.trials)
    search.walk(tried.rate, tried.factor, tried.candidates, stubborn=False)
    if search.best in (0.0, tried.rate):
        search.walk(tried.rate / tried.factor, 1.0 / tried.factor, tried.candidates, stubborn=True)
    if not np.isfinite(search.value):
        raise NumericError(
            f"no step size converges, of those tried from {tried.rate:g} down to "
            f"{search.least:.2g}: lower calibration_rate or l2, or scale the feature values"
        )
    return search.best


# --- What learners that go sentence by sentence have in common ------------------------------------


@dataclass(frozen=True, kw_only=True)
class MeanLoss(MethodSettings):
    """Learners that end when the mean loss is small."""

    max_iterations: MaxIterations = 100
    epsilon: Annotated[float, Meta(ge=0, description="stop when the mean loss is below X")] = 0.0


class OnlineEpochs:
    """One epoch a step.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Where to start.
    epsilon : float
        The least mean loss of a sentence with which to go on.
    seed : int
        Of the order of sentences, drawn anew for each epoch.
    orders : Orders, optional
        The order of sentences in each epoch, instead of `seed`.

    Raises
    ------
    OptionError
        A negative epsilon, labels that are not known, or weights of arc attributes.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        *,
        epsilon: float | None,
        seed: int,
        orders: Orders | None,
    ) -> None:
        if epsilon is not None:
            check(MeanLoss, epsilon=epsilon)
        self.space = space
        self._learner = online_learner(problem, space)
        self._size = len(problem.weight)
        self._orders = shuffled(seed, self._size) if orders is None else orders
        start = online_parameters(space, theta)
        self._tables = {"theta": start, **self._beside(start)}
        self._step, self._epoch = 1, 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is needed to go on with the same bits."""
        out: dict[str, NDArray[Any]] = {"counters": np.asarray([self._step, self._epoch])}
        for name, table in self._tables.items():
            out |= named_parameters(name, table)
        return out

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self._step, self._epoch = state["counters"].tolist()
        self._tables = {name: restored_parameters(name, state) for name in self._tables}

    def _beside(self, theta: Parameters) -> dict[str, Parameters]:  # noqa: ARG002 (for others)
        """Return what a learner keeps beside its weights."""
        return {}

    def _next_order(self) -> Longs:
        """Return the sentences of the next epoch in the order of their turn."""
        self._epoch += 1
        return self._orders(self._epoch - 1)

    def _collected(self, name: str = "theta") -> Floats:
        return collect_parameters(self.space, self._tables[name])


class AveragedEpochs(OnlineEpochs):
    """Epochs whose weights are the average over all steps; parameters as above."""

    def _beside(self, theta: Parameters) -> dict[str, Parameters]:
        return {"sums": theta.zeros()}

    def _average(self) -> Floats:
        return self._collected() - self._collected("sums") / self._step

    def _both(self) -> tuple[Parameters, Parameters]:
        """Return the weights of now, and what the average needs."""
        return self._tables["theta"], self._tables["sums"]

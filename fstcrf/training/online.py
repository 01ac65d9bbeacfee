"""Online learners, which update after each sentence, from the best path towards the gold one.

With d = features(gold) − features(best path), and l = score(best) − score(gold) + cost if the best
path is wrong,

    perceptron            theta += d
    passive-aggressive    theta += tau d,   tau = l / |d|²  or  min(C, l / |d|²)
                                            or  l / (|d|² + 1 / (2 C))
    AROW                  theta_i += l / (gamma + sum_j v_j d_j²) · v_i d_i,
                          then 1 / v_i += d_i² / gamma

The cost of passive-aggressive updates (PA, PA-I, PA-II) is the root of the number of wrong labels,
or 1; the cost of AROW is this number. Each weight of AROW has a variance v_i, which decreases with
each update: frequently updated weights change less. Sources: Collins (2002) for the perceptron and
its average; Crammer et al. (2006), sections 3 and 9 (the prediction-based update); Crammer, Kulesza
and Dredze (2009), with a diagonal covariance; errors and costs are counted as in CRFsuite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, TypeVar

import numpy as np
from msgspec import Meta

from fstcrf.arrays import Bytes, Floats, Ints, Longs
from fstcrf.errors import OptionError
from fstcrf.kernel import Graph, Learner, Parameters, norm
from fstcrf.kernel import PassiveAggressive as Variant
from fstcrf.training.optimiser import State, Step, floats
from fstcrf.training.problem import ParameterSpace, Problem, Tables
from fstcrf.training.settings import MaxIterations, MethodSettings, Needs, TrainingRun
from fstcrf.training.shards import sweep_counts

Orders = Callable[[int], Longs]
"""Number of an epoch, from 0 → int64 [B], the sentences in the order of their steps."""


def online_learner(problem: Problem, space: ParameterSpace) -> Learner:
    """Return the learner of a problem.

    Raises
    ------
    OptionError
        Unknown labels in the data, or weights of arc attributes: both need a batch objective.
    """
    topology = problem.topology
    problem.require_known("train with method 'lbfgs'")
    if space.n_arc_rows:
        raise OptionError("the template has B features of the input: train with method 'lbfgs'")
    n_slots = topology.n_arc_slots
    graph = topology.graph(np.zeros(n_slots))
    mask = np.zeros(space.n_node_rows * space.width, dtype=np.uint8)
    mask[space.node_cells] = 1
    arc_slot, arc_mask = masked_arcs(space, graph)
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


def masked_arcs(space: ParameterSpace, graph: Graph) -> tuple[Ints, Bytes]:
    """Return the slot of each arc of a graph, and a mask of slots with a weight.

    Two extra slots at the end are for arcs without a weight, and for arcs that do not exist.

    Returns
    -------
    slot : int32 [arcs]
    mask : uint8 [slots + 2]
    """
    topology, n_slots = space.topology, space.topology.n_arc_slots
    mask = np.zeros(n_slots + 2, dtype=np.uint8)
    mask[space.transitions] = 1
    slot = np.full(graph.n_arcs, n_slots + 1, dtype=np.int32)
    slot[topology.kernel_arcs()] = np.where(topology.arc_slot < 0, n_slots, topology.arc_slot)
    return slot, mask


def online_parameters(space: ParameterSpace, theta: Floats) -> Parameters:
    """Convert theta to the learner's tables; forbidden arcs and ends are −inf."""
    tables = space.tables(theta)
    graph = space.topology.graph(tables.transition, tables.initial, tables.final)
    arc = np.concatenate([tables.transition, [0.0, -np.inf]])
    return Parameters(tables.node, arc, graph.initial.copy(), graph.final.copy())


def collect_parameters(space: ParameterSpace, parameters: Parameters) -> Floats:
    """Return the theta of a learner's tables."""
    return space.collect(
        Tables(parameters.table, parameters.arc, None, parameters.initial, parameters.final)
    )


def shuffled(seed: int, sentences: int) -> Orders:
    """Return random orders, drawn for each epoch."""

    def order(epoch: int) -> Longs:
        return np.random.default_rng((seed, epoch)).permutation(sentences)

    return order


def named_parameters(name: str, parameters: Parameters) -> dict[str, Floats]:
    """Return parameters as arrays of a checkpoint."""
    return {f"{name}.{i}": array for i, array in enumerate(parameters.arrays())}


def restored_parameters(name: str, state: State) -> Parameters:
    """Return the parameters that `named_parameters` named."""
    return Parameters(*(floats(state[f"{name}.{i}"]) for i in range(4)))


# --- What learners that go sentence by sentence have in common ------------------------------------
@dataclass(frozen=True, kw_only=True)
class MeanLoss(MethodSettings):
    """Settings of learners that end when the mean loss is small."""

    max_iterations: MaxIterations = 100
    epsilon: Annotated[float, Meta(ge=0, description="stop when the mean loss is below X")] = 0.0

    def memory_of(self, run: TrainingRun) -> int:
        """Return the peak memory of a run, in bytes."""
        return online_bytes(run, 2)


def online_bytes(run: TrainingRun, tables: int) -> int:
    """Return the bytes of a learner with `tables` `Parameters`; see `SweepCounts.online`."""
    return sweep_counts(run.problem, run.space).online(tables)


S = TypeVar("S", bound=MethodSettings)


class OnlineEpochs(Generic[S]):
    """Base of online learners; a step is an epoch.

    Parameters
    ----------
    problem : Problem
    space : ParameterSpace
    theta : float64 [size]
        Initial weights.
    settings : MethodSettings
        Settings of the method.
    seed : int
        Random seed of the order of sentences, which is drawn for each epoch.
    orders : Orders, optional
        The order of sentences in each epoch, in place of `seed`.

    Raises
    ------
    OptionError
        Labels that are not known, or weights of arc attributes.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        settings: S,
        *,
        seed: int = 0,
        orders: Orders | None = None,
    ) -> None:
        self.space, self.settings = space, settings
        self._learner = online_learner(problem, space)
        self._size = len(problem.weight)
        self._orders = shuffled(seed, self._size) if orders is None else orders
        start = online_parameters(space, theta)
        self._tables = {"theta": start, **self._further_tables(start)}
        self._step, self._epoch = 1, 0

    def state(self) -> State:
        """Return the state that is needed to continue with the same bits."""
        out: State = {"counters": np.asarray([self._step, self._epoch])}
        for name, table in self._tables.items():
            out |= named_parameters(name, table)
        return out

    def restore(self, state: State) -> None:
        """Restore a state."""
        self._step, self._epoch = state["counters"].tolist()
        self._tables = {name: restored_parameters(name, state) for name in self._tables}

    def _further_tables(self, theta: Parameters) -> dict[str, Parameters]:  # noqa: ARG002 (for others)
        """Return the learner's tables besides its weights."""
        return {}

    def _next_order(self) -> Longs:
        """Return the sentences of the next epoch in the order of their steps."""
        self._epoch += 1
        return self._orders(self._epoch - 1)

    def _collected(self, name: str = "theta") -> Floats:
        return collect_parameters(self.space, self._tables[name])


class AveragedEpochs(OnlineEpochs[S]):
    """Base of learners whose result is the average of the weights over all steps."""

    def _further_tables(self, theta: Parameters) -> dict[str, Parameters]:
        return {"sums": theta.zeros()}

    def _average(self) -> Floats:
        return self._collected() - self._collected("sums") / self._step

    def _both(self) -> tuple[Parameters, Parameters]:
        """Return the current weights, and the sums for the average."""
        return self._tables["theta"], self._tables["sums"]


# --- The averaged perceptron ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Perceptron(MethodSettings):
    """The averaged perceptron, for a few epochs."""

    name: ClassVar[str] = "perceptron"

    max_iterations: MaxIterations = 10

    def optimiser(self, run: TrainingRun) -> AveragedPerceptron:
        """Return the learner of a run."""
        return AveragedPerceptron(run.problem, run.space, run.theta, self, seed=run.seed)

    def memory_of(self, run: TrainingRun) -> int:
        """Return the peak memory of a run, in bytes."""
        return online_bytes(run, 2)


@dataclass(frozen=True, kw_only=True)
class AP(Perceptron):
    """The averaged perceptron, as in CRFsuite."""

    name: ClassVar[str] = "ap"

    max_iterations: MaxIterations = 100
    epsilon: Annotated[
        float, Meta(ge=0, description="stop when the share of wrong labels is below X")
    ] = 0.0


class AveragedPerceptron(AveragedEpochs[Perceptron]):
    """Averaged perceptron: theta += features(gold) − features(best path), averaged over steps.

    A step is an epoch. With `AP`, as in CRFsuite, its value is the weighted sum over
    sentences of the share of wrong tokens, and training stops when it is below epsilon times the
    number of sentences. Otherwise the value is the number of wrong tokens, and training stops when
    it is 0. Parameters as for `OnlineEpochs`.
    """

    def theta(self) -> Floats:
        """Return the average of the weights over all steps so far."""
        return self._average()

    def step(self) -> Step:
        """Run one epoch."""
        self._step, errors, loss = self._learner.perceptron_epoch(
            self._next_order(), *self._both(), self._step
        )
        value = loss if isinstance(self.settings, AP) else float(errors)
        measures = {"norm": norm(self.theta())}
        return Step(value, None, self._epoch, self._done(errors, loss), measures)

    def _done(self, errors: int, loss: float) -> str | None:
        if not isinstance(self.settings, AP):
            return None if errors else "no error is left"
        if loss / self._size < self.settings.epsilon:
            return f"fewer than {self.settings.epsilon:g} of the labels are wrong"
        return None


# --- Passive-aggressive ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PA(MeanLoss):
    """Passive-aggressive updates, as in CRFsuite."""

    name: ClassVar[str] = "pa"

    pa_variant: Annotated[Variant, Meta(description="variant of the update")] = "PA-I"
    aggressiveness: Annotated[
        float,
        Meta(gt=0, description="the C of PA-I and PA-II"),
        Needs(
            lambda values: values["pa_variant"] != "PA",
            "needs pa_variant 'PA-I' or 'PA-II', not 'PA'",
        ),
    ] = 1.0
    error_sensitive: Annotated[
        bool, Meta(description="the margin is the root of the number of wrong labels, not 1")
    ] = True
    averaging: Annotated[bool, Meta(description="average the weights over all updates")] = True

    def optimiser(self, run: TrainingRun) -> PassiveAggressive:
        """Return the learner of a run."""
        return PassiveAggressive(run.problem, run.space, run.theta, self, seed=run.seed)


class PassiveAggressive(AveragedEpochs[PA]):
    """Passive-aggressive updates; an epoch's value is the weighted sum of losses before updates.

    Parameters as for `OnlineEpochs`.
    """

    def theta(self) -> Floats:
        """Return the current weights, or their average over all steps so far."""
        return self._average() if self.settings.averaging else self._collected()

    def step(self) -> Step:
        """Run one epoch."""
        self._step, loss = self._learner.passive_aggressive_epoch(
            self._next_order(),
            *self._both(),
            self._step,
            variant=self.settings.pa_variant,
            aggressiveness=self.settings.aggressiveness,
            error_sensitive=self.settings.error_sensitive,
        )
        measures = {"norm": norm(self._collected())}
        return Step(loss, None, self._epoch, self._done(loss), measures)

    def _done(self, loss: float) -> str | None:
        if loss / self._size < self.settings.epsilon:
            return f"the mean loss is below {self.settings.epsilon:g}"
        return None


# --- AROW -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AROW(MeanLoss):
    """Adaptive regularisation of weights, as in CRFsuite."""

    name: ClassVar[str] = "arow"

    variance: Annotated[float, Meta(gt=0, description="of every weight at first")] = 1.0
    gamma: Annotated[float, Meta(gt=0, description="how slowly means and variances move")] = 1.0

    def optimiser(self, run: TrainingRun) -> AROWOptimiser:
        """Return the learner of a run."""
        return AROWOptimiser(run.problem, run.space, run.theta, self, seed=run.seed)


class AROWOptimiser(OnlineEpochs[AROW]):
    """AROW; the value of an epoch is the weighted sum of losses before updates.

    Parameters as for `OnlineEpochs`; theta are the means. Initially all variances are equal.
    """

    def _further_tables(self, theta: Parameters) -> dict[str, Parameters]:
        variance = self.settings.variance
        return {"variance": Parameters(*(np.full_like(a, variance) for a in theta.arrays()))}

    def theta(self) -> Floats:
        """Return the current means."""
        return self._collected()

    def variance(self) -> Floats:
        """Return the variance of each weight, float64 [size]."""
        return self._collected("variance")

    def step(self) -> Step:
        """Run one epoch."""
        loss = self._learner.arow_epoch(
            self._next_order(),
            self._tables["theta"],
            self._tables["variance"],
            gamma=self.settings.gamma,
        )
        return Step(loss, None, self._epoch, self._done(loss), {"norm": norm(self.theta())})

    def _done(self, loss: float) -> str | None:
        if loss / self._size <= self.settings.epsilon:
            return f"the mean loss is no more than {self.settings.epsilon:g}"
        return None

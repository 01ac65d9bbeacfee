"""Generalised probabilistic descent: stochastic gradients of a smooth count of errors.

A few sentences at a time, with falling step sizes first_rate / (1 + t / (halving · B)), t the
sentences seen. No step is longer than loss / |gradient|² of its sentences, Polyak's step: beyond
it, the gradient is no guide, and the sigmoid has flat regions, in which wrong labels remain. No
step size is tried on a sample: at zero, ties count as half an error, so that no step size would
seem to help. The penalty shrinks all weights by a factor that is kept apart from them. Sources:
Katagiri, Lee and Juang (1991); Loizou, Vaswani, Laradji and Lacoste-Julien (2021) on the longest
step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, cast

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NumericError
from fstcrf.ext.papers.competitors import Gradient
from fstcrf.ext.papers.errors import SmoothErrors
from fstcrf.ext.papers.weightwise import QuickProp
from fstcrf.kernel import dot, norm
from fstcrf.training.descent import QuasiNewton
from fstcrf.training.lbfgs import LBFGSOptimiser
from fstcrf.training.memory import quasi_newton
from fstcrf.training.online import Orders, shuffled
from fstcrf.training.optimiser import Objective, Optimiser, Staged, State, Step, floats
from fstcrf.training.problem import ParameterSpace, Tables
from fstcrf.training.settings import (
    FROM_ZERO,
    Delta,
    MaxIterations,
    MethodSettings,
    Needs,
    Penalised,
    TrainingRun,
    gained_little,
)

_SMALLEST_SCALE = 1e-6  # below it the factor is multiplied into the weights


class Stochastic(Objective, Protocol):
    """An objective that is a sum over sentences, or is taken for one during an epoch."""

    l2: float

    @property
    def n_sentences(self) -> int:
        """Number of sentences, B."""

    def begin(self, tables: Tables, scale: float) -> None:
        """Take notice of the weights that an epoch begins with."""

    def stochastic(self, sentences: Longs, tables: Tables, scale: float) -> tuple[float, Gradient]:
        """Return the part of some sentences in the value, and its gradient, without the penalty.

        It is not below 0.
        """


class GPDOptimiser:
    """One epoch a step.

    Parameters
    ----------
    objective : Stochastic
    space : ParameterSpace
    theta : float64 [size]
        Where to start.
    settings : Descending
    seed : int
        Random seed of the order of sentences, which is drawn anew for each epoch.
    orders : Orders, optional
        The order of sentences in each epoch, instead of `seed`.

    Raises
    ------
    OptionError
        A setting outside its range.
    """

    def __init__(
        self,
        objective: Stochastic,
        space: ParameterSpace,
        theta: Floats,
        settings: Descending,
        *,
        seed: int = 0,
        orders: Orders | None = None,
    ) -> None:
        self.objective, self.settings = objective, settings
        self._space, self._size = space, objective.n_sentences
        self._weights = _Weights(space, theta)
        self._orders = shuffled(seed, self._size) if orders is None else orders
        self._epoch = 0
        self._values: list[float] = []

    def theta(self) -> Floats:
        """Return the parameters reached."""
        return self._weights.scale * self._weights.theta

    def step(self) -> Step:
        """Run one epoch.

        Raises
        ------
        NumericError
            The value is not finite any more.
        """
        self.objective.begin(self._weights.tables, self._weights.scale)
        order = self._orders(self._epoch)
        loss = self._pass(order)
        self._epoch += 1
        self.objective.evaluations += 1
        theta = self.theta()
        value = loss + self.objective.l2 * dot(theta, theta)
        if not np.isfinite(value):
            raise NumericError(
                f"the objective is {value} after epoch {self._epoch}: "
                "lower first_rate, or scale the feature values"
            )
        self._values = [*self._values[-self.settings.period :], value]
        measures = {
            "norm": norm(theta),
            "rate": self._rate(self._epoch * self._size),
            "updates": float(self._epoch * -(-self._size // self.settings.batch)),
        }
        return Step(value, None, self.objective.evaluations, self._converged(), measures)

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        return {
            "theta": self._weights.theta,
            "scalars": np.asarray([self._weights.scale]),
            "counts": np.asarray([self._epoch, self.objective.evaluations]),
            "values": np.asarray(self._values),
        }

    def restore(self, state: State) -> None:
        """Go back to a state."""
        self._weights = _Weights(self._space, floats(state["theta"]), float(state["scalars"][0]))
        self._epoch, self.objective.evaluations = state["counts"].tolist()
        self._values = state["values"].tolist()

    def _rate(self, seen: int) -> float:
        return self.settings.first_rate / (1.0 + seen / (self.settings.halving * self._size))

    def _pass(self, order: Longs) -> float:
        """Make one pass over sentences; return the loss of each before its step."""
        loss, size, seen = 0.0, self.settings.batch, self._epoch * self._size
        for begin in range(0, len(order), size):
            part, weights = order[begin : begin + size], self._weights
            value, gradient = self.objective.stochastic(part, weights.tables, weights.scale)
            loss += value
            if not np.isfinite(loss):
                return np.inf
            rate = min(self._rate(seen + begin), weights.reach(gradient, value))
            penalty = 2.0 * self.objective.l2 * len(part) / self._size
            weights.step(gradient, rate, 1.0 / (1.0 + rate * penalty))
        return loss

    def _converged(self) -> str | None:
        if gained_little(self._values, self.settings):
            return f"less than {self.settings.delta:g} gained in {self.settings.period} epochs"
        return None


class _Weights:
    """Weights as a vector and as tables, both to be multiplied by `scale`."""

    def __init__(self, space: ParameterSpace, theta: Floats, scale: float = 1.0) -> None:
        self._space, self.scale = space, scale
        self.theta = np.array(theta, dtype=np.float64)
        self.tables = space.tables(self.theta)
        self._sum = np.zeros(space.size)

    def reach(self, gradient: Gradient, loss: float) -> float:
        """Return the step size at which a loss is 0 as far as its gradient knows."""
        np.add.at(self._sum, gradient.index, gradient.value)  # a parameter may be there twice
        length = dot(gradient.value, self._sum[gradient.index])
        self._sum[gradient.index] = 0.0
        return loss / length if length > 0.0 else np.inf

    def step(self, gradient: Gradient, rate: float, shrink: float) -> None:
        """Move some weights, then shrink all: a proximal step, stable with any penalty."""
        np.subtract.at(self.theta, gradient.index, rate / self.scale * gradient.value)
        self._show(gradient.index)
        self.scale *= shrink
        if self.scale < _SMALLEST_SCALE:
            self.theta *= self.scale
            self.scale, self.tables = 1.0, self._space.tables(self.theta)

    def _show(self, index: Longs) -> None:
        """Copy weights into the tables."""
        space, tables = self._space, self.tables
        parts: list[tuple[NDArray[np.integer], Floats | None]] = [
            (space.node_cells, tables.node),
            (space.transitions, tables.transition),
            (space.arc_cells, tables.arc),
            (space.initial, tables.initial),
            (space.final, tables.final),
        ]
        for (cells, table), begin, end in zip(parts, space.bounds, space.bounds[1:], strict=False):
            inside = index[(index >= begin) & (index < end)]
            if table is not None and len(inside):
                table.reshape(-1)[cells[inside - begin]] = self.theta[inside]


# --- What smooth counts of errors are trained by --------------------------------------------------

# At zero, all competitors are as good as the gold path: a few stochastic epochs separate them.
_EPOCHS = 10


def _smooth(run: TrainingRun) -> SmoothErrors:
    return cast("SmoothErrors", run.objective)


_STEPS = Needs(
    lambda values: values.get("stochastic_epochs") != 0,
    "needs stochastic_epochs above 0, or method 'gpd': it is about their steps",
)
_BEGINNING = Needs(
    lambda values: (
        not values.get("start")
        or values.get("stochastic_epochs") is not None  # if requested, they are made there, too
        or values["method"] == "gpd"
    ),
    FROM_ZERO,
)


@dataclass(frozen=True, kw_only=True)
class Descending(Penalised, MethodSettings, ABC):
    """Methods that make, or begin with, epochs of `GPD`."""

    first_rate: Annotated[
        float, Meta(gt=0, description="the first step size"), _STEPS, _BEGINNING
    ] = 0.1
    batch: Annotated[int, Meta(ge=1, description="sentences a step"), _STEPS, _BEGINNING] = 8
    halving: Annotated[
        float,
        Meta(gt=0, description="epochs after which steps are half as long"),
        _STEPS,
        _BEGINNING,
    ] = 5.0

    def gpd(self, run: TrainingRun) -> GPDOptimiser:
        """Return the stochastic optimiser of a run."""
        objective = cast("Stochastic", run.objective.function(run, self.l2))
        return GPDOptimiser(objective, run.space, run.theta, self, seed=run.seed)

    def epochs_bytes(self, run: TrainingRun) -> int:
        """Return the bytes of such epochs."""
        objective, sentences = _smooth(run), len(run.problem.weight)
        entries = min(1.0, self.batch / max(1, sentences)) * len(run.problem.node.index)
        difference = 32 * objective.moved * entries  # numbers and values, in pieces and as one
        return int(objective.at_rest(run) + 32 * run.space.size + difference)


@dataclass(frozen=True, kw_only=True)
class GPD(Descending):
    """Counts of errors by stochastic gradients, a few sentences a step."""

    name: ClassVar[str] = "gpd"

    max_iterations: MaxIterations = 30
    delta: Delta = 1e-6

    def optimiser(self, run: TrainingRun) -> GPDOptimiser:
        """Return the optimiser of a run."""
        return self.gpd(run)

    def memory_of(self, run: TrainingRun) -> int | None:
        """Return the bytes that a run takes at its peak; `None` at a finite psi."""
        return self.epochs_bytes(run) if _smooth(run).compares_paths else None


@dataclass(frozen=True, kw_only=True)
class Beginning(Descending):
    """Batch methods that begin with epochs of `GPD`."""

    stochastic_epochs: Annotated[
        int | None, Meta(ge=0, description="epochs of gpd to begin with; 10 without a warm start")
    ] = None

    def optimiser(self, run: TrainingRun) -> Optimiser:
        """Return the optimiser of a run."""
        epochs = self._epochs(run)
        if not epochs:
            return self.minimiser(run.objective.function(run, self.l2), run.theta)
        first = self.gpd(run)
        objective = first.objective  # the tables of the epochs go with them
        return Staged(first, epochs, lambda start: self.minimiser(objective, start))

    def memory_of(self, run: TrainingRun) -> int | None:
        """Return the bytes of the epochs, or of the later optimiser; `None` at a finite psi."""
        objective, epochs = _smooth(run), self._epochs(run)
        if not objective.compares_paths:
            return None
        after = objective.at_rest(run) + objective.rows(run) + 8 * run.space.size
        after += self.vectors(run.space.size, max(0, self.max_iterations - epochs))
        return max(after, self.epochs_bytes(run) if epochs else 0)

    def _epochs(self, run: TrainingRun) -> int:
        if self.stochastic_epochs is not None:
            return self.stochastic_epochs
        return 0 if run.theta.any() else _EPOCHS

    @abstractmethod
    def minimiser(self, objective: Objective, theta: Floats) -> Optimiser:
        """Return the optimiser after the epochs."""

    @abstractmethod
    def vectors(self, weights: int, iterations: int) -> int:
        """Return the bytes of its vectors."""


@dataclass(frozen=True, kw_only=True)
class ErrorLBFGS(Beginning, QuasiNewton):
    """Counts of errors by L-BFGS."""

    name: ClassVar[str] = "lbfgs"

    def minimiser(self, objective: Objective, theta: Floats) -> Optimiser:
        """Return the optimiser after the epochs."""
        return LBFGSOptimiser(objective, theta, self)

    def vectors(self, weights: int, iterations: int) -> int:
        """Return the bytes of its vectors."""
        return quasi_newton(weights, min(self.memory, iterations), vectors=5)


@dataclass(frozen=True, kw_only=True)
class ErrorQuickProp(Beginning, QuickProp):
    """Counts of errors, minimised with one parabola for each weight."""

    name: ClassVar[str] = "quickprop"

    minimiser = QuickProp.minimiser

    def vectors(self, weights: int, iterations: int) -> int:
        """Return the bytes of its vectors."""
        del iterations
        return 8 * 8 * weights

"""Methods in which every weight moves by a separate equation.

Generalised iterative scaling moves each weight by the delta that solves

    observed = expected · exp(C · delta) + 2 l2 (theta + delta)

where C is the largest sum of features that any labelling of a sentence has. The difference between
a labelling and C is also a feature, with weight zero: this suffices for the bound that makes the
step safe. Sources: Darroch and Ratcliff (1972); Lafferty, McCallum and Pereira (2001), algorithm S;
Chen and Rosenfeld (1999) for the prior; Curran and Clark (2003) for the feature without a weight.

QuickProp (Fahlman 1988) is a Newton step for each weight, its curvature from two gradients:

    step = −g · step' / (g − g')      (step', g': of the iteration before)

if that is downhill; it may be at most `growth` times as long as the previous step. Otherwise that
bound is the step, and a weight that did not move follows its gradient. Every weight therefore moves
against its gradient, so that the whole step is a descent direction: a step that does not lower the
value is halved. Fahlman's method does not halve, and this makes the method converge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, OptionError
from fstcrf.ext.papers.batches import batch_bytes
from fstcrf.kernel import dot, norm
from fstcrf.training.descent import Iterative
from fstcrf.training.likelihood import Likelihood, LikelihoodSettings
from fstcrf.training.optimiser import Objective, Optimiser, State, Step, floats
from fstcrf.training.problem import ParameterSpace, Problem, arc_slots
from fstcrf.training.settings import Converging, MethodSettings, TrainingRun
from fstcrf.training.shards import spans, sweep_counts

# --- Generalised iterative scaling ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GIS(Converging, MethodSettings):
    """The likelihood by generalised iterative scaling."""

    name: ClassVar[str] = "gis"

    def optimiser(self, run: TrainingRun) -> GISOptimiser:
        """Return the optimiser of a run."""
        return GISOptimiser(
            Likelihood(run.problem, run.space, l2=self.l2, threads=run.threads),
            run.problem,
            run.space,
            run.theta,
            self,
        )

    def memory_of(self, run: TrainingRun) -> int:
        """Return the bytes that a run takes at its peak: vectors, or the table of its constant."""
        counts = sweep_counts(run.problem, run.space)
        table = 8 * counts.attributes * counts.width
        beside = max(0, table - 8 * 8 * counts.weights)
        return batch_bytes(run.problem, counts, run.threads, 8) + beside


class GISOptimiser(Iterative):
    """Generalised iterative scaling; one pass over the data a step.

    Parameters
    ----------
    likelihood : Likelihood
        Of `problem`, without a scale.
    problem : Problem
        All labels known, no value of an attribute below 0.
    space : ParameterSpace
    theta : float64 [size]
        Where to start.
    settings : Converging

    Raises
    ------
    OptionError
        A problem that iterative scaling is not for.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        settings: Converging = Converging(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(likelihood, theta, settings)
        self.likelihood, self.constant = likelihood, largest_count(problem, space)
        if likelihood.l2 == 0.0 and (never := np.flatnonzero(likelihood.observed <= 0.0)).size:
            raise OptionError(
                f"weight {never[0]} is of a feature that never occurs: without a penalty (l2) "
                "iterative scaling would take it to -inf"
            )

    def step(self) -> Step:
        """Scale every weight once."""
        if self._gradient is None:
            value, self._gradient = self.likelihood(self._theta)
            self._values = [value]
        if done := self._converged():
            return self._told(done)
        theta = self._theta + self._change(self._gradient)
        self._moved_to(theta, *self.likelihood(theta))
        return self._told(self._converged())

    def _change(self, gradient: Floats) -> Floats:
        """Solve for delta, in closed form: x + exp(x) = z at the Wright omega function of z."""
        from scipy.special import wrightomega  # noqa: PLC0415 (heavy)

        likelihood, pull = self.likelihood, 2.0 * self.likelihood.l2
        expected = gradient + likelihood.observed - pull * self._theta
        expected = np.maximum(expected, np.finfo(np.float64).tiny)  # rounding may leave less
        if pull == 0.0:
            change = np.log(likelihood.observed / expected) / self.constant
        else:
            # u = C delta:  u + (C expected / pull) exp(u) = C (observed - pull theta) / pull
            goal = self.constant * (likelihood.observed - pull * self._theta) / pull
            change = goal - wrightomega(goal + np.log(self.constant * expected / pull)).real
            change /= self.constant
        if not np.isfinite(change).all():
            first = int(np.flatnonzero(~np.isfinite(change))[0])
            raise NumericError(f"the change of weight {first} is {change[first]}")
        return np.asarray(change)

    def _told(self, done: str | None) -> Step:
        active = float(np.count_nonzero(self._theta))
        return self._report(done, active=active, constant=self.constant)


def largest_count(problem: Problem, space: ParameterSpace) -> float:
    """Return the largest sum of features that any labelling of a sentence has: a best path.

    Raises
    ------
    OptionError
        Values below 0, or labels that are not known.
    """
    problem.require_known("train with method 'lbfgs'")
    topology = space.topology
    ones = space.tables(np.ones(space.size))
    for rows in (problem.node, problem.arc):
        if rows is not None and rows.value is not None and (rows.value < 0.0).any():
            raise OptionError(
                "an attribute has a value below 0: iterative scaling needs values of at least 0"
            )
    graph = topology.graph(arc_slots(ones, problem.arc), ones.initial, ones.final)
    node = topology.node_potentials(problem.node.times(ones.node))
    _, counts = kernel.viterbi(graph, problem.offsets, node)
    return max(1.0, float(counts.max(initial=0.0)))


# --- QuickProp ------------------------------------------------------------------------------------

_SUFFICIENT = 1e-4  # of the decrease that the slope promises
_HALVINGS = 40


@dataclass(frozen=True, kw_only=True)
class QuickProp(Converging, MethodSettings):
    """One parabola for each weight."""

    name: ClassVar[str] = "quickprop"

    growth: Annotated[
        float, Meta(gt=1, description="how many times as long as the one before a step may be")
    ] = 1.75

    def optimiser(self, run: TrainingRun) -> Optimiser:
        """Return the optimiser of a run."""
        return self.minimiser(run.objective.function(run, self.l2), run.theta)

    def minimiser(self, objective: Objective, theta: Floats) -> QuickPropOptimiser:
        """Return the optimiser of an objective with separate weights, without ties."""
        return QuickPropOptimiser(objective, theta, self)

    def memory_of(self, run: TrainingRun) -> int | None:
        """Return the bytes that a run takes at its peak; `None` except for the likelihood."""
        if not isinstance(run.objective, LikelihoodSettings):
            return None
        counts = sweep_counts(run.problem, run.space)
        return batch_bytes(run.problem, counts, run.threads, 8)


class QuickPropOptimiser(Iterative):
    """One step an iteration.

    Parameters
    ----------
    objective : Objective
        A function of separate weights, without ties.
    theta : float64 [size]
        Where to start.
    settings : QuickProp
    rate : float, optional
        Step size along the gradient for weights that have not moved yet; halved until the first
        step lowers the value. 1 / |gradient| when absent.

    Raises
    ------
    OptionError
        A rate outside its range.
    """

    def __init__(
        self,
        objective: Objective,
        theta: Floats,
        settings: QuickProp = QuickProp(),
        *,
        rate: float | None = None,
    ) -> None:
        super().__init__(objective, theta, settings)
        if rate is not None and not 0.0 < rate < np.inf:
            raise OptionError(f"the rate is {rate}, expected a number above 0")
        self.growth, self._rate = settings.growth, 0.0 if rate is None else rate
        self._moved = np.zeros(len(self._theta))
        self._before = np.zeros(len(self._theta))

    def step(self) -> Step:
        """Make one iteration."""
        if self._gradient is None:
            value, self._gradient = self.objective(self._theta)
            self._values = [value]
            self._rate = self._rate or 1.0 / max(norm(self._gradient), 1e-300)
        if done := self._converged():
            return self._told(done)
        if not self._descend(self._gradient, self._direction(self._gradient)):
            # The parabolas misled: fall back to steepest descent.
            self._moved[:] = 0.0
            if not self._descend(self._gradient, -self._rate * self._gradient):
                return self._told("no descent: no step lowers the value")
        return self._told(self._converged())

    def state(self) -> State:
        """Return all that is needed to go on with the same bits."""
        own = {"moved": self._moved, "before": self._before, "rate": np.asarray([self._rate])}
        return {**super().state(), **own}

    def restore(self, state: State) -> None:
        """Go back to a state."""
        super().restore(state)
        self._moved, self._before = floats(state["moved"]), floats(state["before"])
        self._rate = float(state["rate"][0])

    def _direction(self, gradient: Floats) -> Floats:
        """Return the step that each weight would make for itself."""
        out = np.empty_like(gradient)
        for part in spans(len(out)):
            out[part] = self._steps(gradient[part], self._before[part], self._moved[part])
        return out

    def _steps(self, gradient: Floats, before: Floats, moved: Floats) -> Floats:
        change = gradient - before
        curved = change * moved > 0.0
        slope, moved = np.abs(gradient), np.abs(moved)
        length = self.growth * moved
        newton = np.divide(slope * moved, np.abs(change), out=length.copy(), where=curved)
        length = np.where(moved > 0.0, np.minimum(newton, length), self._rate * slope)
        return np.asarray(-np.sign(gradient) * length)

    def _descend(self, gradient: Floats, direction: Floats) -> bool:
        """Step along a direction, halved until the value falls; return whether it fell."""
        slope, value = dot(gradient, direction), self._values[-1]
        noise = getattr(self.objective, "noise", 0.0)
        for halving in range(_HALVINGS):
            length = 0.5**halving
            theta = self._theta + length * direction
            try:
                lower, after = self.objective(theta)
            except NumericError:
                continue
            if lower <= value + _SUFFICIENT * length * slope + noise:
                self._before, self._moved = gradient, length * direction
                self._moved_to(theta, lower, after)
                if len(self._values) == 2:
                    self._rate *= length
                return True
        return False

    def _told(self, done: str | None) -> Step:
        return self._report(done, length=norm(self._moved))

"""Generalised iterative scaling, with the correction for a Gaussian prior.

Every weight moves by the delta that solves

    observed = expected · exp(C · delta) + 2 l2 (theta + delta)

where C is the largest sum of features that any labelling of a sentence has. What a labelling lacks
of C is a feature too, whose weight stays zero: the bound that makes the step safe needs no more.
Sources: Darroch and Ratcliff (1972); Lafferty, McCallum and Pereira (2001), algorithm S; Chen and
Rosenfeld (1999) for the prior; Curran and Clark (2003) for the feature without a weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, OptionError
from fstcrf.train.descent import Iterative
from fstcrf.train.likelihood import Likelihood
from fstcrf.train.problem import ParameterSpace, Problem
from fstcrf.train.protocols import Step
from fstcrf.train.settings import Converging, Run

__all__ = ["GIS", "GISSettings", "largest_count"]


@dataclass(frozen=True, kw_only=True)
class GISSettings(Converging):
    """The likelihood by generalised iterative scaling."""

    name: ClassVar[str] = "gis"

    def optimiser(self, run: Run) -> GIS:
        """Return the optimiser of a run."""
        return GIS(
            Likelihood(run.problem, run.space, l2=self.l2, threads=run.threads),
            run.problem,
            run.space,
            run.theta,
            epsilon=self.epsilon,
            delta=self.delta,
            period=self.period,
        )


class GIS(Iterative):
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
    epsilon : float
        Stop when |gradient| < epsilon * max(1, |theta|).
    delta, period : float, int
        Stop when the last `period` iterations lowered the value by less than delta * value.

    Raises
    ------
    OptionError
        A problem that iterative scaling is not for; a number outside what it may be.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        problem: Problem,
        space: ParameterSpace,
        theta: Floats,
        *,
        epsilon: float = 1e-5,
        delta: float = 1e-5,
        period: int = 10,
    ) -> None:
        super().__init__(likelihood, theta, epsilon=epsilon, delta=delta, period=period)
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
    if problem.partial.any():
        first = int(np.flatnonzero(problem.partial)[0])
        raise OptionError(
            f"sentence {first} has labels that are not known: train with method 'lbfgs'"
        )
    topology = space.topology
    ones = space.tables(np.ones(space.size))
    slots = ones.transition
    for rows in (problem.node, problem.arc):
        if rows is not None and rows.value is not None and (rows.value < 0.0).any():
            raise OptionError(
                "an attribute has a value below 0: iterative scaling needs values of at least 0"
            )
    if problem.arc is not None and ones.arc is not None:
        slots = problem.arc.times(ones.arc)[:, : len(slots)] + slots
    graph = topology.graph(slots, ones.initial, ones.final)
    node = topology.node_potentials(problem.node.times(ones.node))
    _, counts = kernel.viterbi(graph, problem.offsets, node)
    return max(1.0, float(counts.max(initial=0.0)))

"""Batch optimisers of a run: L-BFGS, OWL-QN, conjugate gradients, iterative scaling.

What speeds them up is used where it is valid: attributes that fire on the same tokens are one
parameter; L-BFGS begins with stochastic epochs, and goes on in units that suit the curvature.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fstcrf.model.options import Options
from fstcrf.train import (
    AROW,
    GIS,
    GPD,
    L2SGD,
    LBFGS,
    OWLQN,
    AveragedPerceptron,
    Calibration,
    ClassificationError,
    ConjugateGradient,
    DiagonalHessian,
    InUnits,
    Likelihood,
    Logistic,
    Objective,
    Optimiser,
    ParameterSpace,
    PassiveAggressive,
    Problem,
    QuickProp,
    SegmentF,
    Sigmoid,
    Staged,
    Ties,
    Untied,
    Workers,
    tied,
)
from fstcrf.train.curvature import arc_cells

__all__ = [
    "BATCH",
    "chosen_optimiser",
    "error_optimiser",
]

Floats = NDArray[np.float64]

# L-BFGS starts with stochastic epochs where they are cheaper than what they save.
_STAGED_SENTENCES, _STAGED_EPOCHS = 1000, 6
_STAGED_CALIBRATION = Calibration(sentences=400)

# Units are curvature^-0.35: half of Newton's -0.5 is too little, all of it too much away from the
# point where curvature was measured.
_UNIT_POWER = -0.35
_MOST_CELLS = 100_000_000  # arcs at all tokens: with more, the curvature costs memory (and time)


def _scaling(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    return GIS(
        Likelihood(problem, space, l2=settings.l2, threads=threads),
        problem,
        space,
        theta,
        epsilon=settings.threshold,
        delta=settings.least_gain,
        period=settings.period,
    )


def _conjugate(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    def made(part: Problem, of: ParameterSpace, start: Floats, scale: Floats | None) -> Optimiser:
        return ConjugateGradient(
            Likelihood(part, of, l2=settings.l2, threads=threads, scale=scale),
            start,
            preconditioner=None
            if settings.method == "cg"
            else DiagonalHessian(part, of, l2=settings.l2, scale=scale),
            preconditioned=settings.preconditioned if settings.method == "mixed-cg" else None,
            epsilon=settings.threshold,
            delta=settings.least_gain,
            period=settings.period,
            max_line_search=settings.max_line_search,
        )

    if theta.any():  # a warm start: tied attributes may have parted
        return made(problem, space, theta, None)
    ties = tied(problem, space)
    return Untied(made(ties.problem, ties.space, ties.reduce(theta), ties.scale), ties)


def _quasi_newton(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    """Return L-BFGS, or OWL-QN where there is an L1 penalty."""
    run = _Run(settings, threads)
    if settings.l1 > 0:
        return run.owlqn(problem, space, theta)
    if theta.any():  # a warm start: tied attributes may have parted
        return run.lbfgs(Likelihood(problem, space, l2=settings.l2, threads=threads), theta)
    epochs = _stochastic_epochs(settings, problem, space)
    if not epochs:
        ties = tied(problem, space)
        return Untied(run.lbfgs(run.likelihood(ties), ties.reduce(theta)), ties)
    first = L2SGD(
        problem,
        space,
        theta,
        l2=settings.l2,
        seed=settings.seed,
        calibration=_STAGED_CALIBRATION,
    )
    return Staged(first, epochs, lambda start: run.in_units(problem, space, start))


class _Run:
    """L-BFGS and OWL-QN with the options of a run."""

    def __init__(self, settings: Options, threads: int) -> None:
        self.settings, self.threads, self.workers = settings, threads, Workers(threads)

    def likelihood(self, ties: Ties) -> Likelihood:
        return Likelihood(
            ties.problem, ties.space, l2=self.settings.l2, threads=self.threads, scale=ties.scale
        )

    def lbfgs(self, objective: Objective, start: Floats) -> LBFGS:
        settings = self.settings
        return LBFGS(
            objective,
            start,
            memory=settings.memory,
            epsilon=settings.threshold,
            delta=settings.least_gain,
            period=settings.period,
            line_search=settings.line_search,
            max_line_search=settings.max_line_search,
            workers=self.workers,
        )

    def owlqn(self, problem: Problem, space: ParameterSpace, theta: Floats) -> OWLQN:
        settings = self.settings
        return OWLQN(
            Likelihood(problem, space, l2=settings.l2, threads=self.threads),
            theta,
            l1=settings.l1,
            memory=settings.memory,
            epsilon=settings.threshold,
            delta=settings.least_gain,
            period=settings.period,
            max_line_search=settings.max_line_search,
        )

    def units(self, ties: Ties, u: Floats) -> Floats:
        """Return a power of the curvature at u; ones where it is not known, or costs too much."""
        problem, l2 = ties.problem, self.settings.l2
        if not l2 > 0 or problem.partial.any() or arc_cells(problem) > _MOST_CELLS:
            return np.ones(len(u))
        curvature = DiagonalHessian(problem, ties.space, l2=l2, scale=ties.scale)
        unit: Floats = curvature(u) ** _UNIT_POWER
        return unit

    def in_units(self, problem: Problem, space: ParameterSpace, start: Floats) -> Optimiser:
        """Go on in units that suit the curvature."""
        ties = tied(problem, space)
        u = ties.reduce(start)
        unit = self.units(ties, u)
        return Untied(InUnits(self.likelihood(ties), u, unit, self.lbfgs, self.workers), ties)


def _stochastic_epochs(settings: Options, problem: Problem, space: ParameterSpace) -> int:
    """Return with how many epochs of gradient descent L-BFGS begins."""
    if settings.stochastic_epochs is not None:
        return settings.stochastic_epochs
    able = settings.l2 > 0 and not problem.partial.any() and not space.n_arc_rows
    return _STAGED_EPOCHS if able and len(problem.weight) >= _STAGED_SENTENCES else 0


def _quickprop(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    # Each weight has a step of its own: no ties.
    return QuickProp(
        Likelihood(problem, space, l2=settings.l2, threads=threads),
        theta,
        growth=settings.growth,
        epsilon=settings.threshold,
        delta=settings.least_gain,
        period=settings.period,
    )


BATCH: dict[str, Callable[..., Optimiser]] = {
    "lbfgs": _quasi_newton,
    "cg": _conjugate,
    "preconditioned-cg": _conjugate,
    "mixed-cg": _conjugate,
    "gis": _scaling,
    "quickprop": _quickprop,
}
"""Name of the method → (settings, problem, space, theta, threads=) → its optimiser."""


# --- Training on a smooth count of errors ---------------------------------------------------------

# From zero, all competitors are as good as the gold path: a few stochastic epochs tell them apart.
_EPOCHS = 10


def error_optimiser(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    """Return the optimiser of a run whose objective counts errors.

    Parameters
    ----------
    settings : Options
    problem : Problem
    space : ParameterSpace
    theta : float64 [space.size]
        Where to start; from zero, batch methods begin with stochastic epochs.
    threads : int
    """
    objective = _objective(settings, problem, space, threads)
    if settings.method == "gpd":
        return _gpd(settings, objective, space, theta)
    epochs = settings.stochastic_epochs
    if epochs is None:
        epochs = 0 if theta.any() else _EPOCHS
    if not epochs:
        return _batch(settings, objective, theta)
    first = _gpd(settings, objective, space, theta)
    return Staged(first, epochs, lambda start: _batch(settings, objective, start))


def _objective(
    settings: Options, problem: Problem, space: ParameterSpace, threads: int
) -> ClassificationError | SegmentF:
    sigmoid = Sigmoid(settings.steepness, settings.offset)
    if settings.objective == "mce-f":
        return SegmentF(
            problem, space, l2=settings.l2, gamma=settings.f_gamma, loss=sigmoid, threads=threads
        )
    logistic = Logistic(settings.steepness, settings.offset)
    return ClassificationError(
        problem,
        space,
        l2=settings.l2,
        psi=np.inf if settings.psi is None else settings.psi,
        averaged=settings.competitors == "mean",
        loss=sigmoid if settings.smoothing == "sigmoid" else logistic,
        threads=threads,
    )


def _batch(
    settings: Options, objective: ClassificationError | SegmentF, theta: Floats
) -> Optimiser:
    if settings.method == "quickprop":
        return QuickProp(
            objective,
            theta,
            growth=settings.growth,
            period=settings.period,
            epsilon=settings.threshold,
            delta=settings.least_gain,
        )
    return LBFGS(
        objective,
        theta,
        memory=settings.memory,
        period=settings.period,
        line_search=settings.line_search,
        max_line_search=settings.max_line_search,
        epsilon=settings.threshold,
        delta=settings.least_gain,
    )


def _gpd(
    settings: Options,
    objective: ClassificationError | SegmentF,
    space: ParameterSpace,
    theta: Floats,
) -> GPD:
    return GPD(
        objective,
        space,
        theta,
        batch=settings.batch,
        halving=settings.halving,
        calibration=Calibration(
            rate=settings.calibration_rate,
            factor=settings.calibration_factor,
            sentences=settings.calibration_sentences,
            candidates=settings.calibration_candidates,
            trials=settings.calibration_trials,
        ),
        seed=settings.seed,
        delta=settings.least_gain,
        period=settings.period,
    )


# --- Which optimiser a run gets -------------------------------------------------------------------


def chosen_optimiser(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    """Return the optimiser of a run.

    Parameters
    ----------
    settings : Options
    problem : Problem
    space : ParameterSpace
    theta : float64 [space.size]
        Where to start.
    threads : int
    """
    if settings.objective != "likelihood":
        return error_optimiser(settings, problem, space, theta, threads=threads)
    if settings.method in BATCH:
        return BATCH[settings.method](settings, problem, space, theta, threads=threads)
    return _ONLINE[settings.method](settings, problem, space, theta)


def _perceptron(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats
) -> Optimiser:
    epsilon = settings.threshold if settings.method == "ap" else None
    return AveragedPerceptron(problem, space, theta, seed=settings.seed, epsilon=epsilon)


def _passive_aggressive(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats
) -> Optimiser:
    return PassiveAggressive(
        problem,
        space,
        theta,
        variant=settings.pa_variant,
        aggressiveness=settings.aggressiveness,
        error_sensitive=settings.error_sensitive,
        averaging=settings.averaging,
        epsilon=settings.threshold,
        seed=settings.seed,
    )


def _arow(settings: Options, problem: Problem, space: ParameterSpace, theta: Floats) -> Optimiser:
    return AROW(
        problem,
        space,
        theta,
        variance=settings.variance,
        gamma=settings.gamma,
        epsilon=settings.threshold,
        seed=settings.seed,
    )


def _sgd(settings: Options, problem: Problem, space: ParameterSpace, theta: Floats) -> Optimiser:
    return L2SGD(
        problem,
        space,
        theta,
        l2=settings.l2,
        seed=settings.seed,
        calibration=Calibration(
            rate=settings.calibration_rate,
            factor=settings.calibration_factor,
            sentences=settings.calibration_sentences,
            candidates=settings.calibration_candidates,
            trials=settings.calibration_trials,
        ),
        delta=settings.least_gain,
        period=settings.period,
    )


_ONLINE: dict[str, Callable[[Options, Problem, ParameterSpace, Floats], Optimiser]] = {
    "l2sgd": _sgd,
    "ap": _perceptron,
    "pa": _passive_aggressive,
    "arow": _arow,
    "perceptron": _perceptron,
}

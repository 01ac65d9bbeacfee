"""Which optimiser a run gets: its method, its penalty, and what speeds it up where it is valid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fstcrf.model.options import Options
from fstcrf.train import (
    AROW,
    L2SGD,
    LBFGS,
    OWLQN,
    AveragedPerceptron,
    Calibration,
    Likelihood,
    Optimiser,
    ParameterSpace,
    PassiveAggressive,
    Problem,
    Staged,
    Untied,
    tied,
)

__all__ = ["chosen_optimiser"]

Floats = NDArray[np.float64]

# L-BFGS starts with stochastic epochs where they are cheaper than what they save.
_STAGED_SENTENCES, _STAGED_EPOCHS = 1000, 6
_STAGED_CALIBRATION = Calibration(sentences=400)


def chosen_optimiser(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    """Return the optimiser of a run.

    L-BFGS from zero ties attributes that fire on the same tokens, and begins with stochastic
    epochs where there are enough sentences for that.

    Parameters
    ----------
    settings : Options
    problem : Problem
    space : ParameterSpace
    theta : float64 [space.size]
        Where to start.
    threads : int
    """
    if settings.method == "lbfgs":
        return _batch(settings, problem, space, theta, threads=threads)
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


def _batch(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, *, threads: int
) -> Optimiser:
    """Return L-BFGS, or OWL-QN where there is an L1 penalty."""

    def likelihood(part: Problem, of: ParameterSpace, scale: Floats | None = None) -> Likelihood:
        return Likelihood(part, of, l2=settings.l2, threads=threads, scale=scale)

    def newton(objective: Likelihood, start: Floats) -> LBFGS:
        return LBFGS(
            objective,
            start,
            memory=settings.memory,
            epsilon=settings.threshold,
            delta=settings.least_gain,
            period=settings.period,
            line_search=settings.line_search,
            max_line_search=settings.max_line_search,
        )

    def lbfgs(start: Floats) -> Optimiser:
        if start.any() and not epochs:  # a warm start: tied attributes may have parted
            return newton(likelihood(problem, space), start)
        ties = tied(problem, space)
        found = newton(likelihood(ties.problem, ties.space, ties.scale), ties.reduce(start))
        return Untied(found, ties)

    if settings.l1 > 0:
        return OWLQN(
            likelihood(problem, space),
            theta,
            l1=settings.l1,
            memory=settings.memory,
            epsilon=settings.threshold,
            delta=settings.least_gain,
            period=settings.period,
            max_line_search=settings.max_line_search,
        )
    epochs = 0 if theta.any() else _stochastic_epochs(settings, problem, space)
    if not epochs:
        return lbfgs(theta)
    first = L2SGD(
        problem,
        space,
        theta,
        l2=settings.l2,
        seed=settings.seed,
        calibration=_STAGED_CALIBRATION,
    )
    return Staged(first, epochs, lbfgs)


def _stochastic_epochs(settings: Options, problem: Problem, space: ParameterSpace) -> int:
    """Return with how many epochs of gradient descent L-BFGS begins."""
    if settings.stochastic_epochs is not None:
        return settings.stochastic_epochs
    able = settings.l2 > 0 and not problem.partial.any() and not space.n_arc_rows
    return _STAGED_EPOCHS if able and len(problem.weight) >= _STAGED_SENTENCES else 0

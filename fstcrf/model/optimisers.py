"""Which optimiser a run gets: its method, its penalty, and what speeds it up where it is valid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fstcrf.model.batch import BATCH
from fstcrf.model.errortraining import error_optimiser
from fstcrf.model.options import Options
from fstcrf.train import (
    AROW,
    L2SGD,
    AveragedPerceptron,
    Calibration,
    Optimiser,
    ParameterSpace,
    PassiveAggressive,
    Problem,
)

__all__ = ["chosen_optimiser"]

Floats = NDArray[np.float64]


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

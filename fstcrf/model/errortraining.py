"""Training on a smooth count of errors: the objective and optimiser of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.model.options import Options
from fstcrf.train import (
    GPD,
    LBFGS,
    Calibration,
    ClassificationError,
    Logistic,
    Optimiser,
    ParameterSpace,
    Problem,
    QuickProp,
    SegmentF,
    Sigmoid,
    Staged,
)

__all__ = ["error_optimiser"]

Floats = NDArray[np.float64]

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

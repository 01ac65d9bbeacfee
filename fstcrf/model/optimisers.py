"""Which optimiser a run gets: its method, its penalty, and what speeds it up where it is valid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.model.options import Options
from fstcrf.train import (
    L2SGD,
    LBFGS,
    OWLQN,
    AveragedPerceptron,
    Likelihood,
    Optimiser,
    ParameterSpace,
    Problem,
    Staged,
    Untied,
    tied,
)

__all__ = ["chosen_optimiser"]

Floats = NDArray[np.float64]

# L-BFGS starts with stochastic epochs where they are cheaper than what they save.
_STAGED_SENTENCES, _STAGED_EPOCHS = 1000, 6


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
    if settings.method == "perceptron":
        return AveragedPerceptron(problem, space, theta, seed=settings.seed)
    if settings.method == "l2sgd":
        return L2SGD(problem, space, theta, l2=settings.l2, seed=settings.seed)

    def likelihood(part: Problem, of: ParameterSpace, scale: Floats | None = None) -> Likelihood:
        return Likelihood(part, of, l2=settings.l2, threads=threads, scale=scale)

    def lbfgs(start: Floats) -> Optimiser:
        if start.any() and not stochastic:  # a warm start: tied attributes may have parted
            return LBFGS(likelihood(problem, space), start)
        ties = tied(problem, space)
        found = LBFGS(likelihood(ties.problem, ties.space, ties.scale), ties.reduce(start))
        return Untied(found, ties)

    if settings.l1 > 0:
        return OWLQN(likelihood(problem, space), theta, l1=settings.l1)
    stochastic = (
        settings.l2 > 0
        and len(problem.weight) >= _STAGED_SENTENCES
        and not problem.partial.any()
        and not space.n_arc_rows
        and not theta.any()
    )
    if not stochastic:
        return lbfgs(theta)
    first = L2SGD(problem, space, theta, l2=settings.l2, seed=settings.seed)
    return Staged(first, _STAGED_EPOCHS, lbfgs)

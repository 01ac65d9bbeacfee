"""Objective × optimiser over (design matrix, topology, targets). Knows no model class.

====================  =======================================================
Problem               what is trained
ParameterSpace        which weights exist
Likelihood            penalised log-likelihood, full or partial labels
LocalLikelihood       that of a chain whose factors are each normalised
LBFGS, OWLQN, L2SGD,  the optimisers
ConjugateGradient,
GIS,
AveragedPerceptron,
PassiveAggressive,
AROW
Bandit, Schedule      learning from rewards of samples
DiagonalHessian       preconditioner: curvature along each weight
InUnits               an optimiser whose parameters have other units
Calibration           how the first step size of L2SGD is chosen
frequent              weights whose feature occurs often enough
Staged                stochastic epochs, then another optimiser
tied, Ties, Untied    attributes of the same tokens as one parameter
fit                   the loop: held-out score, early stopping, checkpoints
====================  =======================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.train.arow import AROW
    from fstcrf.train.bandit import Bandit, Schedule
    from fstcrf.train.calibration import Calibration
    from fstcrf.train.checkpoint import Checkpoint
    from fstcrf.train.conjugate_gradient import ConjugateGradient
    from fstcrf.train.curvature import DiagonalHessian
    from fstcrf.train.gis import GIS
    from fstcrf.train.lbfgs import LBFGS
    from fstcrf.train.likelihood import Likelihood
    from fstcrf.train.local import LocalLikelihood, normalised
    from fstcrf.train.loop import Outcome, Progress, fit
    from fstcrf.train.observed import frequent
    from fstcrf.train.owlqn import OWLQN
    from fstcrf.train.passive_aggressive import PassiveAggressive
    from fstcrf.train.perceptron import AveragedPerceptron
    from fstcrf.train.problem import ParameterSpace, Problem, Tables, parameter_space
    from fstcrf.train.protocols import Objective, Optimiser, Step
    from fstcrf.train.rescaled import InUnits
    from fstcrf.train.sgd import L2SGD
    from fstcrf.train.staged import Staged
    from fstcrf.train.ties import Ties, Untied, tied

__all__ = [
    "AROW",
    "GIS",
    "L2SGD",
    "LBFGS",
    "OWLQN",
    "AveragedPerceptron",
    "Bandit",
    "Calibration",
    "Checkpoint",
    "ConjugateGradient",
    "DiagonalHessian",
    "InUnits",
    "Likelihood",
    "LocalLikelihood",
    "Objective",
    "Optimiser",
    "Outcome",
    "ParameterSpace",
    "PassiveAggressive",
    "Problem",
    "Progress",
    "Schedule",
    "Staged",
    "Step",
    "Tables",
    "Ties",
    "Untied",
    "fit",
    "frequent",
    "normalised",
    "parameter_space",
    "tied",
]

__getattr__ = importer(
    __name__,
    {
        "AROW": "arow",
        "AveragedPerceptron": "perceptron",
        "Bandit": "bandit",
        "Calibration": "calibration",
        "Checkpoint": "checkpoint",
        "ConjugateGradient": "conjugate_gradient",
        "DiagonalHessian": "curvature",
        "GIS": "gis",
        "InUnits": "rescaled",
        "L2SGD": "sgd",
        "LBFGS": "lbfgs",
        "Likelihood": "likelihood",
        "LocalLikelihood": "local",
        "OWLQN": "owlqn",
        "Objective": "protocols",
        "Optimiser": "protocols",
        "Outcome": "loop",
        "ParameterSpace": "problem",
        "PassiveAggressive": "passive_aggressive",
        "Problem": "problem",
        "Progress": "loop",
        "Schedule": "bandit",
        "Staged": "staged",
        "Step": "protocols",
        "Tables": "problem",
        "Ties": "ties",
        "Untied": "ties",
        "fit": "loop",
        "frequent": "observed",
        "normalised": "local",
        "parameter_space": "problem",
        "tied": "ties",
    },
)

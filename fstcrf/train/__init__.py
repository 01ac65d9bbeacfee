"""Objective × optimiser over (design matrix, topology, targets). Knows no model class.

====================  =======================================================
Problem               what is trained
ParameterSpace        which weights exist
Likelihood            penalised log-likelihood, full or partial labels
LocalLikelihood       that of a chain whose factors are each normalised
ClassificationError   a smooth count of wrong sentences
SegmentF              one of wrong segments: F
Sigmoid, Logistic     how they are made smooth
LBFGS, OWLQN          optimisers: limited-memory BFGS, without and with L1
ConjugateGradient     nonlinear conjugate gradients
GIS                   generalised iterative scaling
QuickProp, GPD        those for counts of errors
L2SGD                 stochastic gradients
AveragedPerceptron    online, as are the next two
PassiveAggressive     PA, PA-I, PA-II
AROW                  a variance for each weight
Bandit, Schedule      learning from rewards of samples
DiagonalHessian       preconditioner: curvature along each weight
InUnits               an optimiser whose parameters have other units
frequent              weights whose feature occurs often enough
Staged                stochastic epochs, then another optimiser
voted_paths           the voted perceptron's answers
Workers               threads for parts of the work
tied, Ties, Untied    attributes of the same tokens as one parameter
fit                   the loop: held-out score, early stopping, checkpoints
====================  =======================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.train.bandit import Bandit, Schedule
    from fstcrf.train.conjugate_gradient import ConjugateGradient
    from fstcrf.train.errors import ClassificationError, Logistic, SegmentF, Sigmoid
    from fstcrf.train.gpd import GPD
    from fstcrf.train.lbfgs import LBFGS, OWLQN
    from fstcrf.train.likelihood import Likelihood, LocalLikelihood, normalised
    from fstcrf.train.loop import Checkpoint, Outcome, Progress, fit
    from fstcrf.train.online import AROW, AveragedPerceptron, PassiveAggressive, voted_paths
    from fstcrf.train.optimiser import Objective, Optimiser, Staged, Step
    from fstcrf.train.preconditioning import DiagonalHessian, InUnits, Ties, Untied, tied
    from fstcrf.train.problem import ParameterSpace, Problem, Tables, frequent, parameter_space
    from fstcrf.train.sgd import L2SGD
    from fstcrf.train.shards import Workers
    from fstcrf.train.weightwise import GIS, QuickProp

__all__ = [
    "AROW",
    "GIS",
    "GPD",
    "L2SGD",
    "LBFGS",
    "OWLQN",
    "AveragedPerceptron",
    "Bandit",
    "Checkpoint",
    "ClassificationError",
    "ConjugateGradient",
    "DiagonalHessian",
    "InUnits",
    "Likelihood",
    "LocalLikelihood",
    "Logistic",
    "Objective",
    "Optimiser",
    "Outcome",
    "ParameterSpace",
    "PassiveAggressive",
    "Problem",
    "Progress",
    "QuickProp",
    "Schedule",
    "SegmentF",
    "Sigmoid",
    "Staged",
    "Step",
    "Tables",
    "Ties",
    "Untied",
    "Workers",
    "fit",
    "frequent",
    "normalised",
    "parameter_space",
    "tied",
    "voted_paths",
]

__getattr__ = importer(
    __name__,
    {
        "AROW": "online",
        "AveragedPerceptron": "online",
        "Bandit": "bandit",
        "Checkpoint": "loop",
        "ClassificationError": "errors",
        "ConjugateGradient": "conjugate_gradient",
        "DiagonalHessian": "preconditioning",
        "GIS": "weightwise",
        "GPD": "gpd",
        "InUnits": "preconditioning",
        "L2SGD": "sgd",
        "LBFGS": "lbfgs",
        "Likelihood": "likelihood",
        "LocalLikelihood": "likelihood",
        "Logistic": "errors",
        "OWLQN": "lbfgs",
        "Objective": "optimiser",
        "Optimiser": "optimiser",
        "Outcome": "loop",
        "ParameterSpace": "problem",
        "PassiveAggressive": "online",
        "Problem": "problem",
        "Progress": "loop",
        "QuickProp": "weightwise",
        "Schedule": "bandit",
        "SegmentF": "errors",
        "Sigmoid": "errors",
        "Staged": "optimiser",
        "Step": "optimiser",
        "Tables": "problem",
        "Ties": "preconditioning",
        "Untied": "preconditioning",
        "Workers": "shards",
        "fit": "loop",
        "frequent": "problem",
        "normalised": "likelihood",
        "parameter_space": "problem",
        "tied": "preconditioning",
        "voted_paths": "online",
    },
)

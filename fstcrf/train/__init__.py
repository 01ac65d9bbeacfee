"""Objective × optimiser over (design matrix, topology, targets). Knows no model class.

====================  =======================================================
Problem               what is trained
ParameterSpace        which weights exist
Likelihood            penalised log-likelihood, full or partial labels
LBFGS, L2SGD,         the optimisers
AveragedPerceptron
Staged                stochastic epochs, then another optimiser
fit                   the loop: held-out score, early stopping, checkpoints
====================  =======================================================
"""

from fstcrf.train.checkpoint import Checkpoint
from fstcrf.train.fit import Outcome, Progress, fit
from fstcrf.train.lbfgs import LBFGS
from fstcrf.train.likelihood import Likelihood
from fstcrf.train.perceptron import AveragedPerceptron
from fstcrf.train.problem import ParameterSpace, Problem, Tables, parameter_space
from fstcrf.train.protocols import Objective, Optimiser, Step
from fstcrf.train.sgd import L2SGD
from fstcrf.train.staged import Staged

__all__ = [
    "L2SGD",
    "LBFGS",
    "AveragedPerceptron",
    "Checkpoint",
    "Likelihood",
    "Objective",
    "Optimiser",
    "Outcome",
    "ParameterSpace",
    "Problem",
    "Progress",
    "Staged",
    "Step",
    "Tables",
    "fit",
    "parameter_space",
]

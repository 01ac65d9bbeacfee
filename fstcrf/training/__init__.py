"""Objective × optimiser over (design matrix, topology, targets). Knows no model class."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.training.asgd import ASGD
    from fstcrf.training.lbfgs import LBFGS, OWLQN
    from fstcrf.training.likelihood import Likelihood
    from fstcrf.training.local import LocalLikelihood, normalised
    from fstcrf.training.loop import Checkpoint, Outcome, Progress, fit
    from fstcrf.training.online import AROW, AveragedPerceptron, PassiveAggressive, voted_paths
    from fstcrf.training.optimiser import Objective, Optimiser, Staged, Step
    from fstcrf.training.preconditioning import DiagonalHessian, InUnits, Ties, Untied, tied
    from fstcrf.training.problem import ParameterSpace, Problem, Tables
    from fstcrf.training.sgd import L2SGD
    from fstcrf.training.support import frequent, parameter_space

__all__ = [
    "AROW",
    "ASGD",
    "L2SGD",
    "LBFGS",
    "OWLQN",
    "AveragedPerceptron",
    "Checkpoint",
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
    "voted_paths",
]

_HOMES = {
    "asgd": ("ASGD",),
    "lbfgs": ("LBFGS", "OWLQN"),
    "likelihood": ("Likelihood",),
    "local": ("LocalLikelihood", "normalised"),
    "loop": ("Checkpoint", "Outcome", "Progress", "fit"),
    "online": ("AROW", "AveragedPerceptron", "PassiveAggressive", "voted_paths"),
    "optimiser": ("Objective", "Optimiser", "Staged", "Step"),
    "preconditioning": ("DiagonalHessian", "InUnits", "Ties", "Untied", "tied"),
    "problem": ("ParameterSpace", "Problem", "Tables"),
    "sgd": ("L2SGD",),
    "support": ("frequent", "parameter_space"),
}

__getattr__ = importer(__name__, {name: home for home, names in _HOMES.items() for name in names})

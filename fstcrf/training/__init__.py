"""Training: objective × optimiser over (design matrix, topology, targets).

It knows no model class.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.papers.local import LocalLikelihood as LocalLikelihood
    from fstcrf.ext.papers.local import normalised as normalised
    from fstcrf.ext.papers.voted import voted_paths as voted_paths
    from fstcrf.training.arguments import Chain as Chain
    from fstcrf.training.arguments import Dev as Dev
    from fstcrf.training.arguments import Features as Features
    from fstcrf.training.arguments import Gold as Gold
    from fstcrf.training.arguments import Reads as Reads
    from fstcrf.training.arguments import Run as Run
    from fstcrf.training.lbfgs import LBFGS as LBFGS
    from fstcrf.training.lbfgs import LBFGSOptimiser as LBFGSOptimiser
    from fstcrf.training.lbfgs import OWLQNOptimiser as OWLQNOptimiser
    from fstcrf.training.likelihood import Likelihood as Likelihood
    from fstcrf.training.loop import Checkpoint as Checkpoint
    from fstcrf.training.loop import Outcome as Outcome
    from fstcrf.training.loop import Progress as Progress
    from fstcrf.training.loop import fit as fit
    from fstcrf.training.online import AP as AP
    from fstcrf.training.online import AROW as AROW
    from fstcrf.training.online import PA as PA
    from fstcrf.training.online import AROWOptimiser as AROWOptimiser
    from fstcrf.training.online import AveragedPerceptron as AveragedPerceptron
    from fstcrf.training.online import PassiveAggressive as PassiveAggressive
    from fstcrf.training.online import Perceptron as Perceptron
    from fstcrf.training.optimiser import Objective as Objective
    from fstcrf.training.optimiser import Optimiser as Optimiser
    from fstcrf.training.optimiser import Staged as Staged
    from fstcrf.training.optimiser import Step as Step
    from fstcrf.training.options import Options as Options
    from fstcrf.training.preconditioning import DiagonalHessian as DiagonalHessian
    from fstcrf.training.preconditioning import InUnits as InUnits
    from fstcrf.training.preconditioning import Untied as Untied
    from fstcrf.training.preconditioning import tied as tied
    from fstcrf.training.problem import ParameterSpace as ParameterSpace
    from fstcrf.training.problem import Problem as Problem
    from fstcrf.training.problem import Tables as Tables
    from fstcrf.training.record import TrainingRecord as TrainingRecord
    from fstcrf.training.sgd import ASGD as ASGD
    from fstcrf.training.sgd import L2SGD as L2SGD
    from fstcrf.training.sgd import SGDOptimiser as SGDOptimiser
    from fstcrf.training.support import frequent as frequent
    from fstcrf.training.support import parameter_space as parameter_space

__all__, __getattr__ = importer(
    __name__,
    {
        "arguments": "Chain Dev Features Gold Reads Run",
        "lbfgs": "LBFGS LBFGSOptimiser OWLQNOptimiser",
        "likelihood": "Likelihood",
        "loop": "Checkpoint Outcome Progress fit",
        "online": "AP AROW AROWOptimiser AveragedPerceptron PA PassiveAggressive Perceptron",
        "optimiser": "Objective Optimiser Staged Step",
        "options": "Options",
        "preconditioning": "DiagonalHessian InUnits Untied tied",
        "problem": "ParameterSpace Problem Tables",
        "record": "TrainingRecord",
        "sgd": "ASGD L2SGD SGDOptimiser",
        "support": "frequent parameter_space",
        "fstcrf.ext.papers.local": "LocalLikelihood normalised",
        "fstcrf.ext.papers.voted": "voted_paths",
    },
)

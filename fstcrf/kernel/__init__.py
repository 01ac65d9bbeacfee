"""The compiled kernel behind checked NumPy functions; nothing else touches ``ffi``.

==================  ===================================================
graphs              forward-backward, best paths, max-marginals
rows                sparse rows × table: potentials and gradients
online              perceptron and SGD epochs
native              the gate: checks, statuses, choice of variant
==================  ===================================================
"""

from fstcrf.kernel.graphs import (
    Domain,
    Graph,
    Posterior,
    forward_backward,
    log_partition,
    max_marginals,
    viterbi,
)
from fstcrf.kernel.native import use, variant, variants
from fstcrf.kernel.online import Learner, Parameters
from fstcrf.kernel.rows import SparseRows, padded

__all__ = [
    "Domain",
    "Graph",
    "Learner",
    "Parameters",
    "Posterior",
    "SparseRows",
    "forward_backward",
    "log_partition",
    "max_marginals",
    "padded",
    "use",
    "variant",
    "variants",
    "viterbi",
]

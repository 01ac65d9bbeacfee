"""The compiled kernel behind checked NumPy functions; nothing else touches ``ffi``.

==================  ===================================================
graphs              forward-backward, best paths, max-marginals
rows                sparse rows × table: potentials and gradients
packed              the same for a table that is mostly empty: tagging
lookup              string numbers → keys → rows of attributes
strings             column files: bytes → numbers, numbers → bytes
online              perceptron and SGD epochs
sweep               potentials, forward-backward and gradient of a shard at once
vectors             inner products and combinations, for L-BFGS
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
from fstcrf.kernel.packed import PackedTable
from fstcrf.kernel.rows import SparseRows, padded
from fstcrf.kernel.sweep import Layout, Shard, ShardAttributes, Sweep, SweepWorkspace
from fstcrf.kernel.vectors import VectorStore, dot, norm

__all__ = [
    "Domain",
    "Graph",
    "Layout",
    "Learner",
    "PackedTable",
    "Parameters",
    "Posterior",
    "Shard",
    "ShardAttributes",
    "SparseRows",
    "Sweep",
    "SweepWorkspace",
    "VectorStore",
    "dot",
    "forward_backward",
    "log_partition",
    "max_marginals",
    "norm",
    "padded",
    "use",
    "variant",
    "variants",
    "viterbi",
]

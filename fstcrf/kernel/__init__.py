"""The compiled kernel behind checked NumPy functions; nothing else touches ``ffi``.

==================  ===================================================
machines            compositions without and with the potentials of sentences
parts               what they are put together from: axes, factors, residual automaton
views               those parts as C reads them
alone               best paths of sentences that come one at a time
lazy                best paths under grammars that are not multiplied out
decoding            best paths, n best, sums, posteriors, samples of compositions
graphs              forward-backward, best paths, max-marginals
rows                sparse rows × table: potentials and gradients
packed              the same for a table that is mostly empty: tagging
lookup              string numbers → keys → rows of attributes
strings             column files: bytes → numbers, numbers → bytes
online              epochs of perceptron, passive-aggressive, AROW and SGD
learner_call        what the kernel is told of them, checked
feedback            samples, rewards, and steps along what was sampled
descent             what learning from rewards is told, and what it changes
sweep               potentials, forward-backward and gradient of a shard at once
vectors             inner products and combinations, for L-BFGS
native              the gate: checks, statuses, choice of variant
==================  ===================================================
"""

from fstcrf.kernel.decoding import (
    AxisPosterior,
    Ranked,
    Variants,
    axis_max_marginals,
    axis_posterior,
    best_paths,
    dead_tokens,
    log_partitions,
    nbest_paths,
    rescored,
    sample_paths,
)
from fstcrf.kernel.descent import Aim, Controls, Descent, Judge, Rule
from fstcrf.kernel.feedback import Batch, Feedback, Heard, Proposals
from fstcrf.kernel.graphs import (
    BestPaths,
    Domain,
    Graph,
    Posterior,
    forward_backward,
    log_partition,
    max_marginals,
    maxima,
    viterbi,
)
from fstcrf.kernel.lazy import Budget, Conjunction, Reader, Searched, lazy_paths
from fstcrf.kernel.machines import Axis, Bound, Factor, Machine, Residual
from fstcrf.kernel.native import use, variant, variants
from fstcrf.kernel.online import Learner, Parameters, PassiveAggressive
from fstcrf.kernel.rows import PackedTable, SparseRows, padded
from fstcrf.kernel.single import Alone, Found
from fstcrf.kernel.sweep import (
    Layout,
    Shard,
    ShardAttributes,
    Sweep,
    SweepWorkspace,
    VectorStore,
    dot,
    norm,
)

__all__ = [
    "Aim",
    "Alone",
    "Axis",
    "AxisPosterior",
    "Batch",
    "BestPaths",
    "Bound",
    "Budget",
    "Conjunction",
    "Controls",
    "Descent",
    "Domain",
    "Factor",
    "Feedback",
    "Found",
    "Graph",
    "Heard",
    "Judge",
    "Layout",
    "Learner",
    "Machine",
    "PackedTable",
    "Parameters",
    "PassiveAggressive",
    "Posterior",
    "Proposals",
    "Ranked",
    "Reader",
    "Residual",
    "Rule",
    "Searched",
    "Shard",
    "ShardAttributes",
    "SparseRows",
    "Sweep",
    "SweepWorkspace",
    "Variants",
    "VectorStore",
    "axis_max_marginals",
    "axis_posterior",
    "best_paths",
    "dead_tokens",
    "dot",
    "forward_backward",
    "lazy_paths",
    "log_partition",
    "log_partitions",
    "max_marginals",
    "maxima",
    "nbest_paths",
    "norm",
    "padded",
    "rescored",
    "sample_paths",
    "use",
    "variant",
    "variants",
    "viterbi",
]

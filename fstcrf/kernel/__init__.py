"""The compiled kernel behind checked NumPy functions; no other module uses ``ffi``."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.kernel.acyclic import columns as columns
    from fstcrf.kernel.acyclic import growing as growing
    from fstcrf.kernel.decoding import AxisPosterior as AxisPosterior
    from fstcrf.kernel.decoding import NBestPaths as NBestPaths
    from fstcrf.kernel.decoding import Variants as Variants
    from fstcrf.kernel.decoding import axis_max_marginals as axis_max_marginals
    from fstcrf.kernel.decoding import axis_posterior as axis_posterior
    from fstcrf.kernel.decoding import best_paths as best_paths
    from fstcrf.kernel.decoding import dead_tokens as dead_tokens
    from fstcrf.kernel.decoding import log_partitions as log_partitions
    from fstcrf.kernel.decoding import nbest_paths as nbest_paths
    from fstcrf.kernel.decoding import rescored as rescored
    from fstcrf.kernel.decoding import sample_paths as sample_paths
    from fstcrf.kernel.emissions import MOST_EMITTERS as MOST_EMITTERS
    from fstcrf.kernel.emissions import EmissionRows as EmissionRows
    from fstcrf.kernel.emissions import ExpandedChain as ExpandedChain
    from fstcrf.kernel.emissions import PathSpans as PathSpans
    from fstcrf.kernel.emissions import SpanRules as SpanRules
    from fstcrf.kernel.emissions import Sums as Sums
    from fstcrf.kernel.graphs import BestPaths as BestPaths
    from fstcrf.kernel.graphs import Classes as Classes
    from fstcrf.kernel.graphs import Domain as Domain
    from fstcrf.kernel.graphs import Graph as Graph
    from fstcrf.kernel.graphs import Posterior as Posterior
    from fstcrf.kernel.graphs import forward_backward as forward_backward
    from fstcrf.kernel.graphs import log_partition as log_partition
    from fstcrf.kernel.graphs import maxima as maxima
    from fstcrf.kernel.graphs import viterbi as viterbi
    from fstcrf.kernel.lazy import Allowance as Allowance
    from fstcrf.kernel.lazy import Budget as Budget
    from fstcrf.kernel.lazy import Conjunction as Conjunction
    from fstcrf.kernel.lazy import LazyAcceptor as LazyAcceptor
    from fstcrf.kernel.lazy import SearchResult as SearchResult
    from fstcrf.kernel.lazy import lazy_paths as lazy_paths
    from fstcrf.kernel.learners import ArcWeights as ArcWeights
    from fstcrf.kernel.learners import Learner as Learner
    from fstcrf.kernel.learners import Parameters as Parameters
    from fstcrf.kernel.learners import PassiveAggressive as PassiveAggressive
    from fstcrf.kernel.learners import StochasticLearner as StochasticLearner
    from fstcrf.kernel.machines import Axis as Axis
    from fstcrf.kernel.machines import Bound as Bound
    from fstcrf.kernel.machines import Factor as Factor
    from fstcrf.kernel.machines import JointChain as JointChain
    from fstcrf.kernel.machines import Residual as Residual
    from fstcrf.kernel.native import use as use
    from fstcrf.kernel.native import variant as variant
    from fstcrf.kernel.native import variants as variants
    from fstcrf.kernel.rows import PackedTable as PackedTable
    from fstcrf.kernel.rows import SparseRows as SparseRows
    from fstcrf.kernel.rows import padded as padded
    from fstcrf.kernel.single import MOST_ALONE as MOST_ALONE
    from fstcrf.kernel.single import SentenceMachine as SentenceMachine
    from fstcrf.kernel.single import SentencePath as SentencePath
    from fstcrf.kernel.spans import ARC_CARRIES as ARC_CARRIES
    from fstcrf.kernel.spans import ARC_OPENS as ARC_OPENS
    from fstcrf.kernel.spans import FoundSpans as FoundSpans
    from fstcrf.kernel.spans import SpanLabels as SpanLabels
    from fstcrf.kernel.spans import SpanQuery as SpanQuery
    from fstcrf.kernel.spans import probable_spans as probable_spans
    from fstcrf.kernel.spans import span_counts as span_counts
    from fstcrf.kernel.spans import span_probabilities as span_probabilities
    from fstcrf.kernel.sweep import Layout as Layout
    from fstcrf.kernel.sweep import Shard as Shard
    from fstcrf.kernel.sweep import ShardAttributes as ShardAttributes
    from fstcrf.kernel.sweep import Sweep as Sweep
    from fstcrf.kernel.sweep import SweepWorkspace as SweepWorkspace
    from fstcrf.kernel.sweep import VectorStore as VectorStore
    from fstcrf.kernel.sweep import dot as dot
    from fstcrf.kernel.sweep import norm as norm

__all__, __getattr__ = importer(
    __name__,
    {
        "acyclic": "columns growing",
        "decoding": "AxisPosterior NBestPaths Variants axis_max_marginals axis_posterior "
        "best_paths dead_tokens log_partitions nbest_paths rescored sample_paths",
        "emissions": "EmissionRows ExpandedChain MOST_EMITTERS PathSpans SpanRules Sums",
        "graphs": "BestPaths Classes Domain Graph Posterior forward_backward log_partition maxima "
        "viterbi",
        "lazy": "Allowance Budget Conjunction LazyAcceptor SearchResult lazy_paths",
        "machines": "Axis Bound Factor JointChain Residual",
        "native": "use variant variants",
        "learners": "Learner Parameters PassiveAggressive ArcWeights StochasticLearner",
        "rows": "PackedTable SparseRows padded",
        "single": "MOST_ALONE SentenceMachine SentencePath",
        "spans": "ARC_CARRIES ARC_OPENS SpanQuery FoundSpans SpanLabels span_probabilities "
        "probable_spans span_counts",
        "sweep": "Layout Shard ShardAttributes Sweep SweepWorkspace VectorStore dot norm",
    },
)

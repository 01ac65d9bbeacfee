"""Lattices: the weighted transducers of sentences, their best paths, sums and marginals."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.lattices.answer import Answer as Answer
    from fstcrf.lattices.answer import TapeAnswer as TapeAnswer
    from fstcrf.lattices.batch import Lattices as Lattices
    from fstcrf.lattices.batching import Paths as Paths
    from fstcrf.lattices.batching import Ranking as Ranking
    from fstcrf.lattices.batching import best as best
    from fstcrf.lattices.batching import log_partition as log_partition
    from fstcrf.lattices.batching import marginals as marginals
    from fstcrf.lattices.batching import nbest as nbest
    from fstcrf.lattices.batching import sample as sample
    from fstcrf.lattices.chainrow import ChainRow as ChainRow
    from fstcrf.lattices.composition import product as product
    from fstcrf.lattices.lattice import AnyLattice as AnyLattice
    from fstcrf.lattices.lattice import JointLattice as JointLattice
    from fstcrf.lattices.lattice import Lattice as Lattice
    from fstcrf.lattices.lattice import TapeLattice as TapeLattice
    from fstcrf.lattices.paths import Path as Path
    from fstcrf.lattices.results import ProbableSpans as ProbableSpans
    from fstcrf.lattices.results import SegmentCounts as SegmentCounts
    from fstcrf.lattices.spans import probable_spans as probable_spans
    from fstcrf.lattices.spans import span_probabilities as span_probabilities

__all__, __getattr__ = importer(
    __name__,
    {
        "answer": "Answer Path TapeAnswer",
        "batch": "Lattices",
        "composition": "product",
        "chainrow": "ChainRow",
        "results": "ProbableSpans SegmentCounts",
        "lattice": "AnyLattice JointLattice Lattice TapeLattice",
        "batching": "Paths Ranking best log_partition marginals nbest sample",
        "spans": "probable_spans span_probabilities",
    },
)

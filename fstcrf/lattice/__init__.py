"""Weighted transducers of sentences, and what can be asked of them."""

from fstcrf.lattice.answer import Answer, Path, TapeAnswer
from fstcrf.lattice.batch import log_partition, marginals, sample
from fstcrf.lattice.lattice import JointLattice, Lattice, TapeLattice, product
from fstcrf.lattice.paths import Paths, Ranking, best, nbest
from fstcrf.lattice.spans import ProbableSpans, probable_spans, span_probabilities

__all__ = [
    "Answer",
    "JointLattice",
    "Lattice",
    "Path",
    "Paths",
    "ProbableSpans",
    "Ranking",
    "TapeAnswer",
    "TapeLattice",
    "best",
    "log_partition",
    "marginals",
    "nbest",
    "probable_spans",
    "product",
    "sample",
    "span_probabilities",
]

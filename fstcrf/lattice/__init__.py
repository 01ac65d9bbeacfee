"""Weighted transducers of sentences, and what can be asked of them."""

from fstcrf.lattice.answer import Answer, Path, TapeAnswer
from fstcrf.lattice.batch import log_partition, marginals, sample
from fstcrf.lattice.lattice import JointLattice, Lattice, TapeLattice, product
from fstcrf.lattice.paths import Paths, Ranking, best, nbest

__all__ = [
    "Answer",
    "JointLattice",
    "Lattice",
    "Path",
    "Paths",
    "Ranking",
    "TapeAnswer",
    "TapeLattice",
    "best",
    "log_partition",
    "marginals",
    "nbest",
    "product",
    "sample",
]

"""Weighted transducers of sentences, and what can be asked of them.

=============  ===========================================================
Lattice        every label sequence of a sentence with its score
Path           one of them
best, ...      many lattices at once (`fstcrf.lattice.batch`)
MinimumRisk    labels with the least expected loss
=============  ===========================================================
"""

from fstcrf.lattice.answer import Answer, Path, TapeAnswer
from fstcrf.lattice.batch import best, log_partition, marginals, nbest, sample
from fstcrf.lattice.lattice import Lattice
from fstcrf.lattice.paths import Paths, Ranking
from fstcrf.lattice.product import product

__all__ = [
    "Answer",
    "Lattice",
    "Path",
    "Paths",
    "Ranking",
    "TapeAnswer",
    "best",
    "log_partition",
    "marginals",
    "nbest",
    "product",
    "sample",
]

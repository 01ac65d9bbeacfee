"""Weighted transducers of sentences, and what can be asked of them.

=============  ===========================================================
Lattice        every label sequence of a sentence with its score
Path           one of them
best, ...      many lattices at once (`fstcrf.lattice.batch`)
MinimumRisk    labels with the least expected loss
=============  ===========================================================
"""

from fstcrf.lattice.batch import best, log_partition, marginals, nbest, sample
from fstcrf.lattice.lattice import Lattice
from fstcrf.lattice.paths import Path, Paths, Ranking
from fstcrf.lattice.product import product

__all__ = [
    "Lattice",
    "Path",
    "Paths",
    "Ranking",
    "best",
    "log_partition",
    "marginals",
    "nbest",
    "product",
    "sample",
]

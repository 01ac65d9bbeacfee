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
from fstcrf.lattice.path import Path
from fstcrf.lattice.product import product
from fstcrf.lattice.results import Paths, Ranking

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

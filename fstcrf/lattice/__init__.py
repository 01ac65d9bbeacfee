"""Weighted transducers of sentences, and what can be asked of them."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
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

__getattr__ = importer(
    __name__,
    {
        "Answer": "answer",
        "JointLattice": "lattice",
        "Lattice": "lattice",
        "Path": "answer",
        "Paths": "paths",
        "Ranking": "paths",
        "TapeAnswer": "answer",
        "TapeLattice": "lattice",
        "best": "paths",
        "log_partition": "batch",
        "marginals": "batch",
        "nbest": "paths",
        "product": "lattice",
        "sample": "batch",
    },
)

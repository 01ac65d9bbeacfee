"""Weighted transducers of sentences, and what can be asked of them."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.lattices.answer import Answer, TapeAnswer
    from fstcrf.lattices.batch import Lattices
    from fstcrf.lattices.composition import product
    from fstcrf.lattices.denserow import DenseRow
    from fstcrf.lattices.findings import ProbableSpans, SegmentCounts
    from fstcrf.lattices.lattice import AnyLattice, JointLattice, Lattice, TapeLattice
    from fstcrf.lattices.many import (
        Paths,
        Ranking,
        best,
        log_partition,
        marginals,
        nbest,
        sample,
    )
    from fstcrf.lattices.paths import Path
    from fstcrf.lattices.spans import probable_spans, span_probabilities

__all__ = [
    "Answer",
    "AnyLattice",
    "DenseRow",
    "JointLattice",
    "Lattice",
    "Lattices",
    "Path",
    "Paths",
    "ProbableSpans",
    "Ranking",
    "SegmentCounts",
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

__getattr__ = importer(
    __name__,
    {
        "Answer": "answer",
        "AnyLattice": "lattice",
        "DenseRow": "denserow",
        "JointLattice": "lattice",
        "Lattice": "lattice",
        "Lattices": "batch",
        "Path": "answer",
        "ProbableSpans": "findings",
        "Paths": "many",
        "Ranking": "many",
        "SegmentCounts": "findings",
        "TapeAnswer": "answer",
        "TapeLattice": "lattice",
        "best": "many",
        "log_partition": "many",
        "marginals": "many",
        "nbest": "many",
        "probable_spans": "spans",
        "product": "composition",
        "sample": "many",
        "span_probabilities": "spans",
    },
)

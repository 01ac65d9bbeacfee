"""Weighted transducers of sentences, and what can be asked of them."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.lattices.answer import Answer, TapeAnswer
    from fstcrf.lattices.arcanswers import SegmentCounts
    from fstcrf.lattices.arclattice import ArcLattice
    from fstcrf.lattices.batch import Lattices
    from fstcrf.lattices.lattice import JointLattice, Lattice, TapeLattice, product
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
    from fstcrf.lattices.spans import ProbableSpans, probable_spans, span_probabilities

__all__ = [
    "Answer",
    "ArcLattice",
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
        "JointLattice": "lattice",
        "Lattice": "lattice",
        "Lattices": "batch",
        "Path": "answer",
        "ProbableSpans": "spans",
        "Paths": "many",
        "Ranking": "many",
        "ArcLattice": "arclattice",
        "SegmentCounts": "arcanswers",
        "TapeAnswer": "answer",
        "TapeLattice": "lattice",
        "best": "many",
        "log_partition": "many",
        "marginals": "many",
        "nbest": "many",
        "probable_spans": "spans",
        "product": "lattice",
        "sample": "many",
        "span_probabilities": "spans",
    },
)

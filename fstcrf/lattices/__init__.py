"""Weighted transducers of sentences, and what can be asked of them."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.lattices.answer import Answer, Path, TapeAnswer
    from fstcrf.lattices.batch import log_partition, marginals, sample
    from fstcrf.lattices.ctc import CTCLattice
    from fstcrf.lattices.lattice import JointLattice, Lattice, TapeLattice, product
    from fstcrf.lattices.paths import Paths, Ranking, best, nbest
    from fstcrf.lattices.segments import SegmentBatch, SegmentLattice
    from fstcrf.lattices.spans import ProbableSpans, probable_spans, span_probabilities
    from fstcrf.lattices.tilings import SegmentCounts, SegmentPath

__all__ = [
    "Answer",
    "CTCLattice",
    "JointLattice",
    "Lattice",
    "Path",
    "Paths",
    "ProbableSpans",
    "Ranking",
    "SegmentBatch",
    "SegmentCounts",
    "SegmentLattice",
    "SegmentPath",
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
        "CTCLattice": "ctc",
        "JointLattice": "lattice",
        "Lattice": "lattice",
        "Path": "answer",
        "ProbableSpans": "spans",
        "Paths": "paths",
        "Ranking": "paths",
        "SegmentBatch": "segments",
        "SegmentCounts": "tilings",
        "SegmentLattice": "segments",
        "SegmentPath": "tilings",
        "TapeAnswer": "answer",
        "TapeLattice": "lattice",
        "best": "paths",
        "log_partition": "batch",
        "marginals": "batch",
        "nbest": "paths",
        "probable_spans": "spans",
        "product": "lattice",
        "sample": "batch",
        "span_probabilities": "spans",
    },
)

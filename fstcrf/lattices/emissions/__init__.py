"""Scores of labels from anywhere, as arrays: a neural network's, or whatever else has an opinion.

A batch of sentences is a padded array, or a list of arrays; labels, transitions and a grammar make
it a batch of weighted transducers, of which everything can be asked that is asked of a lattice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.lattices.emissions.batch import Emissions, decode
    from fstcrf.lattices.emissions.reading import Scores, read_scores

__all__ = ["Emissions", "Scores", "decode", "read_scores"]

__getattr__ = importer(
    __name__,
    {
        "Emissions": "batch",
        "Scores": "reading",
        "decode": "batch",
        "read_scores": "reading",
    },
)

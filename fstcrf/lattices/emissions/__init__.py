"""Scores of labels from anywhere, as arrays: a neural network's, or whatever else has an opinion.

A batch of sentences is a padded array, or a list of arrays; labels and transitions make lattices of
it (`fstcrf.Lattices.from_arrays`), whose scores are read where they lie.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.lattices.emissions.batch import decode as decode
    from fstcrf.lattices.emissions.reading import Scores as Scores
    from fstcrf.lattices.emissions.reading import read_scores as read_scores

__all__, __getattr__ = importer(
    __name__,
    {
        "batch": "decode",
        "reading": "Scores read_scores",
    },
)

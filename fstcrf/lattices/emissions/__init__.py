"""Batches of label scores as arrays, for example the logits of a neural network.

A batch is a padded array or a list of arrays. `fstcrf.Lattices.from_arrays` combines it with labels
and transitions; the kernel reads the scores without a copy.
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

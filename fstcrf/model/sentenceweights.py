"""What each sentence of a corpus weighs in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.arguments import real_array
from fstcrf.errors import DataError
from fstcrf.model.source import Source

__all__ = ["sentence_weights"]

Floats = NDArray[np.float64]


def sentence_weights(
    source: Source,
    allowed: NDArray[np.bool_],
    labels: Sequence[str],
    weights: Sequence[float] | Floats | None,
    class_weights: Mapping[str, float] | None,
) -> Floats:
    """Return the weight of each sentence of the source, float64 [B].

    Parameters
    ----------
    source : Source
    allowed : bool [N, L]
        Labels that each token may have.
    labels : sequence of L str
    weights : sequence of float, optional
        Of the sentences that were given.
    class_weights : mapping of str to float, optional
        A sentence is multiplied by the mean of those of its labels, 1 for others.

    Raises
    ------
    DataError
        Weights that are no numbers, or not one for each sentence; labels that do not occur.
    """
    n = len(source.full)
    total = (
        np.ones(n)
        if weights is None
        else real_array(weights, "weights of sentences", error=DataError)
    )
    if total.shape != (n,):
        raise DataError(f"weights are {list(total.shape)}, expected {[n]}: one for each sentence")
    total = total[source.full][source.origin] * source.share
    if class_weights is not None:
        unknown = set(class_weights) - set(labels)
        if unknown:
            raise DataError(f"class weights of labels that do not occur: {sorted(unknown)}")
        given = [class_weights.get(label, 1.0) for label in labels]
        value = real_array(given, "class weights", error=DataError)
        token = allowed @ value / allowed.sum(axis=1)
        total *= np.add.reduceat(token, source.offsets[:-1]) / np.diff(source.offsets)
    return total

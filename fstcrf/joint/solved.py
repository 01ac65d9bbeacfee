"""What is known of the best labels of a batch of sentences.

======  =========================================================
Solved  labels of the tapes from one on, their score, how proven
======  =========================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.joint.stages import repeated

__all__ = ["Solved"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Solved:
    """The best labels of the tapes from one stage on, earlier tapes given.

    Parameters
    ----------
    labels : list of int32 [N]
        One for each of the tapes; −1 throughout a sentence without a legal labelling.
    total : float64 [B]
        Weighted log probability and grammar scores; −inf without a legal labelling.
    bound : float64 [B]
        No labelling is better; equal to `total` where that is proven.
    """

    labels: list[Ints]
    total: Floats
    bound: Floats

    def put(self, offsets: NDArray[np.int64], where: NDArray[np.int64], found: Solved) -> None:
        """Take over what was found for some of the sentences."""
        tokens = repeated(offsets, where)
        for mine, labels in zip(self.labels, found.labels, strict=True):
            mine[tokens] = labels
        self.total[where], self.bound[where] = found.total, found.bound

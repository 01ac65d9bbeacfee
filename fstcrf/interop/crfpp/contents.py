"""What a model of CRF++ holds, whichever way it is written.

========  ====================================================================
Contents  labels, templates, attributes and weights
========  ====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Contents"]


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """A model of CRF++.

    Parameters
    ----------
    labels : list of bytes
    templates : list of bytes
    attributes : list of A bytes
        Texts.
    first : int64 [A]
        Number of each attribute's first weight.
    weights : float64 [n]
        Natural-log scores once multiplied by the cost factor.
    cost_factor : float
    n_columns : int
        Columns that templates read.
    size : int
        Bytes of the file.
    """

    labels: list[bytes]
    templates: list[bytes]
    attributes: list[bytes]
    first: NDArray[np.int64]
    weights: NDArray[np.float64]
    cost_factor: float
    n_columns: int
    size: int

"""Names of the array types: what a signature says of numbers; docstrings say the shapes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Bools", "Bytes", "Floats", "Ints", "Longs", "Singles"]

Array: TypeAlias = NDArray[Any]
"""Of any type: what a file holds before it is checked."""

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]

"""Inner products with, and linear combinations of, many stored vectors.

===========  ================================================================
VectorStore  float32 vectors of one length, float64 sums
dot, norm    of float64 vectors
===========  ================================================================

NumPy's own products would start the threads of a BLAS, whose sums depend on how many there are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel.native import array_in, check, ffi, lib
from fstcrf.kernel.sweep import aligned

__all__ = ["VectorStore", "dot", "norm"]

Floats = NDArray[np.float64]

_ALL = slice(None)


class VectorStore:
    """Some vectors of one length, kept as float32.

    Parameters
    ----------
    count : int
        How many, m.
    size : int
        Their length, n.

    Attributes
    ----------
    rows : float32 [m, n]
        The vectors, to be written to.
    """

    def __init__(self, count: int, size: int) -> None:
        self._stride = -(-size // 16) * 16
        self._memory = aligned(count * self._stride, np.float32)
        self.rows: NDArray[np.float32] = self._memory.reshape(count, self._stride)[:, :size]

    def dots(self, vectors: Floats, part: slice = _ALL) -> Floats:
        """Return the inner products with k vectors: float64 [k, n] → [m, k].

        Parameters
        ----------
        vectors : float64 [k, n]
        part : slice
            Sum over these places alone.
        """
        (m, n), k = self.rows.shape, len(vectors)
        first, last, _ = part.indices(n)
        out = np.empty((m, k))
        status = lib.fc_dots(
            m,
            k,
            last - first,
            self._stride,
            ffi.from_buffer("float[]", self._memory) + first,
            n,
            array_in(vectors, np.float64, (k, n), "vectors") + first,
            array_in(out, np.float64, (m, k), "out", writable=True),
        )
        check(status, "dots")
        return out

    def add_combination(self, coefficients: Floats, out: Floats, part: slice = _ALL) -> None:
        """Add ``coefficients @ rows`` to `out`, float64 [n], in place: at some places, or all."""
        m, n = self.rows.shape
        first, last, _ = part.indices(n)
        status = lib.fc_combine(
            m,
            last - first,
            self._stride,
            ffi.from_buffer("float[]", self._memory) + first,
            array_in(coefficients, np.float64, (m,), "coefficients"),
            array_in(out, np.float64, (n,), "out", writable=True) + first,
        )
        check(status, "combine")


def dot(x: Floats, y: Floats) -> float:
    """Return the inner product of two float64 [n] vectors, the same bits on any machine's cores."""
    out = ffi.new("double *")
    status = lib.fc_inner(
        len(x), array_in(x, np.float64, x.shape, "x"), array_in(y, np.float64, x.shape, "y"), out
    )
    check(status, "dot")
    return float(out[0])


def norm(x: Floats) -> float:
    """Return the Euclidean norm of a float64 [n] vector."""
    return math.sqrt(dot(x, x))

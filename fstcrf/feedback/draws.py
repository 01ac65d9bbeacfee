"""Random numbers of proposals, which depend on the seed and the number of each alone.

=====  ==========================================
Draws  (number of a proposal, n) → n numbers
=====  ==========================================

Whether a learner was closed in between, or restored from a copy, makes no difference then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError

__all__ = ["Draws"]


class Draws:
    """Numbers in [0, 1) by Philox, a generator that counts: proposal k has counters of its own.

    Parameters
    ----------
    seed : int
        The key, in [0, 2^128).

    Raises
    ------
    OptionError
        Another seed.
    """

    def __init__(self, seed: int) -> None:
        if not 0 <= seed < 1 << 128:
            raise OptionError(f"seed is {seed}, expected a whole number from 0, below 2^128")
        self._source = np.random.Philox(key=seed)
        self._state = self._source.state
        self._generator = np.random.Generator(self._source)

    def __call__(self, number: int, n: int) -> NDArray[np.float64]:
        """Return the numbers of a proposal, float64 [n] in [0, 1)."""
        # A new generator would take ten times as long. The lowest word counts the blocks drawn.
        self._state["state"]["counter"][:] = 0, number, 0, 0
        self._source.state = self._state
        return self._generator.random(n)

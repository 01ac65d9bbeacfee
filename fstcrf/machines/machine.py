"""A weighted transducer as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fstcrf.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Machine:
    """A weighted transducer; a path begins in state 0.

    Parameters
    ----------
    source, input, output, target : int32 [A]
        States, and symbols between them; −1: none.
    score : float64 [A]
        Natural logs; −inf forbids.
    final : float64 [Q]
        −inf: no path ends there.
    input_symbols, output_symbols : tuple of str
    semiring : {"tropical", "log"}
        What several runs over the same strings are together.
    """

    source: Ints
    input: Ints
    output: Ints
    target: Ints
    score: Floats
    final: Floats
    input_symbols: tuple[str, ...]
    output_symbols: tuple[str, ...]
    semiring: Literal["tropical", "log"] = "tropical"

"""A weighted transducer as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass

from fstcrf.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Transducer:
    """A weighted transducer; a path begins in state 0.

    Several runs over the same strings add up, as in the log semiring; the best is the best run.

    Parameters
    ----------
    source, input, output, target : int32 [A]
        States, and symbols between them; −1: none.
    score : float64 [A]
        Natural logs; −inf forbids.
    final : float64 [Q]
        −inf: no path ends there.
    input_symbols, output_symbols : tuple of str
    """

    source: Ints
    input: Ints
    output: Ints
    target: Ints
    score: Floats
    final: Floats
    input_symbols: tuple[str, ...]
    output_symbols: tuple[str, ...]

"""A weighted transducer as flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fstcrf.arrays import Array, Floats, Ints
from fstcrf.errors import NumericError, ShapeError


@dataclass(frozen=True, eq=False)
class Transducer:
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
    semiring : {"log", "tropical"}
        What several runs over the same strings are together: their sum, or the best of them.
    tape : str
        The tape that it writes.

    Raises
    ------
    ShapeError
        Arrays of other types or sizes; a state or a symbol that there is not; no state.
    NumericError
        Scores with NaN or +inf.
    """

    source: Ints
    input: Ints
    output: Ints
    target: Ints
    score: Floats
    final: Floats
    input_symbols: tuple[str, ...]
    output_symbols: tuple[str, ...]
    semiring: Literal["log", "tropical"] = "log"
    tape: str = "output"

    def __post_init__(self) -> None:
        if not len(self.final):
            raise ShapeError("transducer: final is empty, expected the score of each state")
        for name in ("source", "input", "output", "target", "score"):
            dtype = np.float64 if name == "score" else np.int32
            check_array("transducer", name, getattr(self, name), dtype, len(self.source))
        check_array("transducer", "final", self.final, np.float64, len(self.final))
        for name, limit, least in (
            ("source", len(self.final), 0),
            ("target", len(self.final), 0),
            ("input", len(self.input_symbols), -1),
            ("output", len(self.output_symbols), -1),
        ):
            check_range("transducer", name, getattr(self, name), limit, least)
        for name in ("score", "final"):
            check_scores("transducer", name, getattr(self, name))


# --- What arrays of a machine must be -------------------------------------------------------------


def check_array(what: str, name: str, array: Array, dtype: type[np.generic], size: int) -> None:
    """Check the type and the size of an array."""
    if array.dtype != dtype or array.shape != (size,):
        actual = f"{array.dtype} {list(array.shape)}"
        raise ShapeError(f"{what}: {name} is {actual}, expected {np.dtype(dtype)} [{size}]")


def check_range(what: str, name: str, array: Ints, limit: int, least: int = 0) -> None:
    """Check that all numbers are from one up to below another."""
    if array.size and (int(array.min()) < least or int(array.max()) >= limit):
        raise ShapeError(f"{what}: {name} holds numbers outside [{least}, {limit})")


def check_scores(what: str, name: str, array: Floats) -> None:
    """Check that no score is NaN or +inf."""
    if not (array < np.inf).all():
        place = int(np.flatnonzero(~(array < np.inf))[0])
        raise NumericError(f"{what}: {name} has NaN or +inf at {place}; -inf forbids")

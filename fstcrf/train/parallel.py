"""The same work on parts of the data, on some threads, its results in the order of the parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ordered_map"]

T = TypeVar("T")
R = TypeVar("R")


def ordered_map(function: Callable[[T], R], parts: Sequence[T], threads: int) -> list[R]:
    """Return the function's value for each part, in order."""
    if threads == 1:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, parts))

"""The same work on parts, on some threads, its results in the order of the parts.

NumPy and the kernel let other threads run while they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TypeVar

__all__ = ["SERIAL", "Workers", "ordered_map", "spans"]

T = TypeVar("T")
R = TypeVar("R")

_SPAN = 1 << 15  # float64: a part of a few vectors stays in the cache of a core


class Workers:
    """Maps over parts, in order, on a fixed number of threads.

    Parameters
    ----------
    threads : int
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def map(self, function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Yield the function's value for each part, in order."""
        if self._pool is None:
            yield from map(function, parts)
            return
        futures = [self._pool.submit(function, part) for part in parts]
        try:
            for future in futures:
                yield future.result()
        finally:
            wait(futures)  # after an error, too: the next call would meet them at its parts

    def each(self, function: Callable[[T], None], parts: Iterable[T]) -> None:
        """Call the function for each part."""
        for _ in self.map(function, parts):
            pass


SERIAL = Workers()


def ordered_map(function: Callable[[T], R], parts: Sequence[T], threads: int) -> list[R]:
    """Return the function's value for each part, in order."""
    if threads == 1:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, parts))


def spans(size: int, parts: int | None = None) -> list[slice]:
    """Cut a vector into parts, the same for any number of threads.

    Parameters
    ----------
    size : int
    parts : int, optional
        How many; without it, so many that each stays in a cache.
    """
    step = _SPAN if parts is None else max(1, -(-size // parts))
    return [slice(a, b) for a, b in pairwise([*range(0, size, step), size])]

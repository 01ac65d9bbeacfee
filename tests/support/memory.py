"""The memory that some work takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def peak(work: Callable[..., object], *given: object) -> int:
    """Return the most bytes that some work holds at a time."""
    tracemalloc.start()
    try:
        work(*given)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

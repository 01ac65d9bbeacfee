"""What sklearn-crfsuite calls its utilities: one function."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

__all__ = ["flatten"]

T = TypeVar("T")


def flatten(y: Iterable[Iterable[T]]) -> list[T]:
    """Return the elements of sequences, one sequence after the other.

    Examples
    --------
    >>> flatten([[1, 2], [3, 4]])
    [1, 2, 3, 4]
    """
    return list(chain.from_iterable(y))

"""The utilities of sklearn-crfsuite: one function."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from types import ModuleType
from typing import TypeVar

from fstcrf.lazy import optional

__all__ = ["flatten", "sklearn"]


T = TypeVar("T")


def flatten(y: Iterable[Iterable[T]]) -> list[T]:
    """Return the elements of sequences, one sequence after the other.

    Examples
    --------
    >>> flatten([[1, 2], [3, 4]])
    [1, 2, 3, 4]
    """
    return list(chain.from_iterable(y))


def sklearn(part: str) -> ModuleType:
    """Return a module of scikit-learn."""
    return optional(
        f"sklearn.{part}",
        "fstcrf.ext.compat.sklearn_crfsuite needs scikit-learn: pip install 'fstcrf[sklearn]'",
    )

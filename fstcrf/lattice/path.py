"""One label sequence with its score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Labels", "Path", "labels_of_tapes"]

Labels: TypeAlias = tuple[Any, ...]
"""A tuple of str; of several tapes, a tuple of such tuples."""


def labels_of_tapes(labels: Sequence[tuple[str, ...]]) -> Labels:
    """Return the labels of some tapes as a path has them: those of an only tape as they are."""
    return tuple(labels) if len(labels) > 1 else labels[0]


@dataclass(frozen=True, slots=True)
class Path:
    """One label sequence through a lattice.

    Parameters
    ----------
    labels : tuple of str
        Of several tapes, a tuple of such tuples, one a tape.
    score : float
        Sum of its potentials (natural log).
    probability : float
        exp(score − log Z); NaN where that needs a grammar too large to multiply out
        (`Lattice.confidence` bounds it).
    exact : bool
        Nothing scores higher: proven, not searched until a budget ended.
    bound : float
        No label sequence scores higher than this (natural log).
    """

    labels: Labels
    score: float
    probability: float
    exact: bool
    bound: float

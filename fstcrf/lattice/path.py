"""One label sequence with its score."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Path"]


@dataclass(frozen=True, slots=True)
class Path:
    """One label sequence through a lattice.

    Parameters
    ----------
    labels : tuple of str
    score : float
        Sum of its potentials (natural log).
    probability : float
        exp(score − log Z).
    exact : bool
        Nothing scores higher: proven, not searched until a budget ended.
    bound : float
        No label sequence scores higher than this (natural log).
    """

    labels: tuple[str, ...]
    score: float
    probability: float
    exact: bool
    bound: float

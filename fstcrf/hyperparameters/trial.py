"""Options that were tried, and how they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Outcome", "Trial"]

Outcome = Literal["complete", "stopped", "diverged"]


@dataclass(frozen=True, slots=True)
class Trial:
    """Options that were tried, and how they did.

    Parameters
    ----------
    number : int
        From 1.
    options : mapping of str to value
        Options of `CRF.train` that were searched, or given one value where others were searched.
    template : str or None
        Name of the template.
    score : float or None
        On held-out data, in [0, 1]: of a trial that was stopped, the last one; None of one that
        diverged before there was any.
    outcome : {"complete", "stopped", "diverged"}
        A trial is stopped where others did better at the same point.
    steps : int
        Iterations of training; with folds, the folds that were trained.
    seconds : float
    """

    number: int
    options: Mapping[str, Any]
    template: str | None
    score: float | None
    outcome: Outcome
    steps: int
    seconds: float

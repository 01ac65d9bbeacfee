"""Which boundary and which penalty: every combination, on the dev part.

=========  ===========================================
CHOSEN_L2  the penalty that does best there
Tried      a combination, and what it reached
tried      train all combinations
=========  ===========================================
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fstcrf.recipes.shallow_parsing.data import TEMPLATE, Data
from fstcrf.recipes.shallow_parsing.systems import EPOCHS, trained
from fstcrf.train import Progress

__all__ = ["CHOSEN_L2", "Tried", "tried"]

CHOSEN_L2 = 0.25
_PENALTIES = (0.25, 0.5, 1.0)
_FEATURES = ("supported", "complete")


@dataclass(frozen=True, slots=True)
class Tried:
    """What a combination reached on the dev part.

    Parameters
    ----------
    features : {"supported", "complete"}
    boundary : {"pad", "skip"}
    l2 : float
    final, best : float
        F, in percent: when training had converged, and the best before.
    iteration, iterations : int
        Of the best; of all.
    """

    features: str
    boundary: str
    l2: float
    final: float
    best: float
    iteration: int
    iterations: int


def tried(data: Data, threads: int) -> Iterator[Tried]:
    """Train on all but the dev part, with every combination."""
    for features, boundary, l2 in itertools.product(_FEATURES, ("pad", "skip"), _PENALTIES):
        course: list[Progress] = []
        options: dict[str, Any] = {"features": features, "boundary": boundary, "l2": l2}
        template = TEMPLATE.replace("BOS\nEOS\n", "") if boundary == "pad" else TEMPLATE
        trained(
            data.part,
            report=course.append,
            template=template,
            dev=data.dev,
            patience=10**6,
            stochastic_epochs=EPOCHS,
            threads=threads,
            **options,
        )
        scores = [100.0 * (progress.dev or 0.0) for progress in course]
        best = max(scores)
        yield Tried(features, boundary, l2, scores[-1], best, 1 + scores.index(best), len(scores))

"""Raters as they are: errors, scales, slips, and people who differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.ext.feedback.descent import Aim, Noise


@dataclass(frozen=True, slots=True)
class Rater:
    """The people who give rewards in a simulation, and their accuracy.

    The reward of a sample is computed from gold labels. A rater adds a personal bias and an error.
    A single sample receives the nearest number of a scale in [0, 1]; a pair receives a preference,
    a difference, or a certainty. Both samples of a pair are rated by the same person; the bias
    therefore cancels.

    Parameters
    ----------
    deviation : float
        Standard deviation of the error, normal and independent for each sample, including both
        samples of a pair.
    steps : int
        Single samples: rewards are multiples of 1 / steps; 0 for any number.
    slips : float
        Share of random answers, in [0, 1]: any number of the scale, or either sample of a pair.
    people : int
        Raters; each answer is given by one drawn at random.
    bias : float
        Standard deviation, over people, of the personal bias in every rating.

    Raises
    ------
    OptionError
        A number outside its range.
    """

    deviation: float = 0.0
    steps: int = 0
    slips: float = 0.0
    people: int = 1
    bias: float = 0.0

    def __post_init__(self) -> None:
        for name in ("deviation", "bias"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise OptionError(f"{name} is {getattr(self, name)}, expected a number from 0")
        if not 0.0 <= self.slips <= 1.0:
            raise OptionError(f"slips is {self.slips}, expected a share in [0, 1]")
        if self.steps < 0 or self.people < 1:
            raise OptionError(
                f"{self.people} people, a scale of {self.steps} steps: expected at least 1 and 0"
            )

    def biases(self, generator: np.random.Generator) -> Floats:
        """Draw the bias of each person, float64 [people]."""
        return self.bias * generator.standard_normal(self.people)

    def noise(self, n: int, aim: Aim, biases: Floats, generator: np.random.Generator) -> Noise:
        """Draw the noise of ratings of n samples or pairs."""
        error = self.deviation * generator.standard_normal((n, 2))
        error += biases[generator.integers(self.people, size=n)][:, None]
        slips = generator.random(n) < self.slips
        if aim.pairs:
            chance = generator.integers(2, size=n).astype(np.float64)
        elif self.steps:
            chance = generator.integers(self.steps + 1, size=n) / self.steps
        else:
            chance = generator.random(n)
        return Noise(error, np.where(slips, chance, -1.0), self.steps)

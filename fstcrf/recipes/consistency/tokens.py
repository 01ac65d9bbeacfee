"""F of tokens: a token is right if it has the type that it should have, wherever its span begins.

============  ===========================================================
Counts        tokens of a type: right, found, there
token_counts  for each type
mean_f        the mean of the types' F, the paper's overall figure
============  ===========================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

__all__ = ["Counts", "mean_f", "token_counts"]


class Counts(msgspec.Struct, frozen=True):
    """How many tokens of a type are right, were found, are there."""

    right: int = 0
    found: int = 0
    there: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.right + other.right, self.found + other.found, self.there + other.there)

    @property
    def f(self) -> float:
        """The harmonic mean of precision and recall, in [0, 1]; 0 without any token."""
        return 2 * self.right / (self.found + self.there) if self.found + self.there else 0.0


def token_counts(
    gold: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], types: Sequence[str]
) -> dict[str, Counts]:
    """Return the counts of each type.

    Examples
    --------
    >>> token_counts([["B-a", "I-a", "O"]], [["O", "B-a", "B-a"]], ["a"])
    {'a': Counts(right=1, found=2, there=2)}
    """
    there, found, right = (Counter[str]() for _ in range(3))
    for true, guess in zip(gold, labels, strict=True):
        for a, b in zip(true, guess, strict=True):
            there[a[2:]] += 1
            found[b[2:]] += 1
            right[a[2:]] += a[2:] == b[2:]
    return {name: Counts(right[name], found[name], there[name]) for name in types}


def mean_f(counts: Mapping[str, Counts]) -> float:
    """Return the mean of F over the types, in [0, 1]."""
    return sum(each.f for each in counts.values()) / len(counts)

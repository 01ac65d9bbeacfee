"""How sure answers under a grammar are, and how much of the model's mass the grammar leaves.

========  ===============================================
Sureness  bounds for each address
sureness  ask every address
========  ===============================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.recipes.addresses.parser import AddressParser

__all__ = ["Sureness", "sureness"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sureness:
    """Bounds for each address.

    Parameters
    ----------
    probability : float64 [B, 2]
        Least and most that the probability of the answer among legal ones can be.
    legal : float64 [B, 2]
        The same of the probability, by the model alone, that labels are legal.
    sampled : bool [B]
        The bounds come from samples, and hold with the probability 0.95 each; others always do.
    """

    probability: Floats
    legal: Floats
    sampled: NDArray[np.bool_]

    def summary(self, where: str, numbers: Sequence[int]) -> Iterator[tuple[str, float]]:
        """Yield metrics of some addresses and their values."""
        chosen = np.asarray(numbers, dtype=np.int64)
        if not len(chosen):
            return
        for name, bounds in (
            ("probability of the answer among legal ones", self.probability[chosen]),
            ("share of the model's mass that is legal", self.legal[chosen]),
        ):
            yield f"{name}, {where}: mean", float(bounds.mean())
            yield f"{name}, {where}: ± of one, mean", float(np.diff(bounds).mean() / 2)


def sureness(parser: AddressParser, tokens: Sequence[Sequence[str]], seed: int) -> Sureness:
    """Return how sure the answers of a parser are.

    Parameters
    ----------
    parser : AddressParser
        With a grammar.
    tokens : sequence of sequence of str
        The tokens of each address.
    seed : int
        Of the labellings that are drawn where bounds would else be wide.
    """
    found = [lattice.confidence(seed=seed) for lattice in parser.lattices(tokens)]
    return Sureness(
        np.array([(c.probability.low, c.probability.high) for c in found]).reshape(-1, 2),
        np.array([(c.legal.low, c.legal.high) for c in found]).reshape(-1, 2),
        np.array([c.method == "sampling" for c in found], dtype=bool),
    )

"""Random potentials that both sides decode: the same seed, the same numbers. NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Floats, Longs

TOKENS = 24
TYPES = "ABCDEFGHIJK"
ONCE = "A"


def labels_22() -> list[str]:
    """Return O, a beginning of each type, and an inside of each but the last."""
    inside = [f"{letter}-{kind}" for kind in TYPES[:-1] for letter in "BI"]
    return ["O", *inside, f"B-{TYPES[-1]}"]


@dataclass(frozen=True, slots=True)
class Chain:
    """Potentials of one tagger."""

    node: Floats
    arc: Floats

    @classmethod
    def random(cls, sentences: int, labels: int, seed: int = 0) -> Chain:
        """Draw standard normal potentials."""
        rng = np.random.default_rng([seed, labels])
        arc = rng.normal(size=(labels, labels))  # first: it does not depend on the sentences
        return cls(rng.normal(size=(sentences, TOKENS, labels)), arc)

    def score(self, sentence: int, ids: Longs) -> float:
        node = self.node[sentence, np.arange(len(ids)), ids].sum()
        return float(node + self.arc[ids[:-1], ids[1:]].sum())


@dataclass(frozen=True, slots=True)
class Pair:
    """Potentials of two taggers, coupled by a table."""

    first: Chain
    second: Chain
    coupling: Floats  # potential of two labels of one token

    @classmethod
    def random(cls, sentences: int, labels: tuple[int, int]) -> Pair:
        """Draw standard normal potentials."""
        coupling = np.random.default_rng(labels).normal(size=labels)
        return cls(
            Chain.random(sentences, labels[0], 1), Chain.random(sentences, labels[1], 2), coupling
        )

    def score(self, sentence: int, first: Longs, second: Longs) -> float:
        """Return the score of two labellings."""
        own = self.first.score(sentence, first) + self.second.score(sentence, second)
        return own + float(self.coupling[first, second].sum())

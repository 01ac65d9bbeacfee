"""Two decoders compared: scores by sentence, and how likely their difference is by chance.

===========  ================================================================
Answers      the labels that a decoder gave for POS and chunks, judged
judged       compare with the gold columns
mcnemar      exact test of tokens that one side alone has right
randomised   approximate randomisation of F over sentences
===========  ================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fstcrf import Corpus
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.evaluate import significance
from fstcrf.evaluate.significance import SpanCounts
from fstcrf.text.corpus import Column

__all__ = ["SHUFFLES", "Answers", "judged", "mcnemar", "randomised", "span_counts"]

SHUFFLES = 9_999


@dataclass(frozen=True, eq=False)
class Answers:
    """The labels that a decoder gave, judged.

    Parameters
    ----------
    pos, chunk : bool [N]
        Where each tape is right.
    spans : int64 [3, S]
        Chunks of each sentence: right, found, wanted.
    """

    pos: Bools
    chunk: Bools
    spans: Longs

    @cached_property
    def both(self) -> Bools:
        """Where both tapes are right, bool [N]."""
        return self.pos & self.chunk

    @property
    def f(self) -> float:
        """F of the chunks, in [0, 1]."""
        return float(f_scores(self.spans.sum(axis=1)))

    def cells(self) -> list[str]:
        """Both right, F and POS accuracy, in percent."""
        return [f"{100 * x:.2f}" for x in (self.both.mean(), self.f, self.pos.mean())]


def f_scores(counts: Longs) -> Floats:
    """Return F of counts right, found, wanted along the first axis."""
    right, found, wanted = counts
    return np.asarray(2 * right / np.maximum(found + wanted, 1))


def judged(gold: Corpus, tapes: Sequence[Column]) -> Answers:
    """Compare POS and chunk labels with the gold columns."""
    pos, chunk = (
        _strings(gold.column(name)) == _strings(tape)
        for name, tape in zip(("pos", "chunk"), tapes, strict=True)
    )
    return Answers(pos, chunk, span_counts(gold.column("chunk"), tapes[1], gold.offsets))


def _strings(column: Column) -> NDArray[np.object_]:
    return np.asarray(column.values, dtype=object)[column.ids]


def span_counts(gold: Column, found: Column, offsets: Longs) -> Longs:
    """Return spans right, found and wanted of each sentence, int64 [3, S], as conlleval counts."""
    counts = significance.span_counts(gold, found, offsets)
    return np.stack([counts.right, counts.found, counts.wanted])


def mcnemar(ours: Bools, theirs: Bools) -> float:
    """Return the p-value of the exact test: are the tokens that one side alone has right even."""
    return significance.mcnemar(ours, theirs).exact


def randomised(ours: Answers, theirs: Answers, shuffles: int = SHUFFLES, seed: int = 0) -> float:
    """Return the p-value of the difference in F when sentences change sides by a coin."""
    sides = (SpanCounts(*side.spans) for side in (ours, theirs))
    return significance.randomised_f(*sides, shuffles=shuffles, seed=seed)

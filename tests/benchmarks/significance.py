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
from scipy.stats import binomtest

from fstcrf import Corpus
from fstcrf.corpus import Column
from fstcrf.corpus.span import span_arrays

__all__ = ["SHUFFLES", "Answers", "judged", "mcnemar", "randomised", "span_counts"]

SHUFFLES = 10_000

Bools = NDArray[np.bool_]


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
    spans: NDArray[np.int64]

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


def f_scores(counts: NDArray[np.int64]) -> NDArray[np.float64]:
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


def span_counts(gold: Column, found: Column, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return spans right, found and wanted of each sentence, int64 [3, S], as conlleval counts."""
    sentence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    number: dict[str, int] = {}
    rows = []
    for column in (gold, found):
        arrays = span_arrays(column, offsets, "conlleval", illegal="repair")
        kinds = np.asarray([number.setdefault(name, len(number)) for name in arrays.types])
        row = np.full((2, offsets[-1]), -1, dtype=np.int64)  # end and type of what starts here
        row[:, arrays.start] = arrays.end, kinds[arrays.type]
        rows.append(row)
    wanted, guessed = rows
    right = (wanted == guessed).all(axis=0) & (wanted[0] >= 0)
    starts = (right, guessed[0] >= 0, wanted[0] >= 0)
    return np.stack([np.bincount(sentence[at], minlength=len(offsets) - 1) for at in starts])


def mcnemar(ours: Bools, theirs: Bools) -> float:
    """Return the p-value of the exact test: are the tokens that one side alone has right even."""
    mine, others = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    return float(binomtest(mine, mine + others).pvalue) if mine + others else 1.0


def randomised(ours: Answers, theirs: Answers, shuffles: int = SHUFFLES, seed: int = 0) -> float:
    """Return the p-value of the difference in F when sentences change sides by a coin."""
    rng = np.random.default_rng(seed)
    change = (theirs.spans - ours.spans).astype(np.float64)
    totals = [side.spans.sum(axis=1)[:, None] for side in (ours, theirs)]
    seen, as_large = abs(ours.f - theirs.f), 0
    for _ in range(0, shuffles, 1000):
        moved = change @ rng.integers(2, size=(change.shape[1], 1000)).astype(np.float64)
        apart = f_scores(totals[0] + moved) - f_scores(totals[1] - moved)
        as_large += int((np.abs(apart) >= seen - 1e-12).sum())
    return (1 + as_large) / (1 + shuffles)

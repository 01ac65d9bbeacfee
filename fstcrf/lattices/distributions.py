"""The distributions that answers are from: what is asked of them beside their best paths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.kernel import Budget
from fstcrf.lattices.answer import TapeAnswer
from fstcrf.lattices.batching import Batch, marginals
from fstcrf.lattices.lattice import Lattice
from fstcrf.lattices.paths import Path
from fstcrf.lattices.results import Confidence, Interval
from fstcrf.lattices.spans import known_probabilities
from fstcrf.lazy import given_state, made_once


@dataclass(frozen=True, eq=False)
class Distributions:
    """The lattices of B sentences, with what was forced and added put in.

    Parameters
    ----------
    lattices : mapping of str to sequence of B (Lattice or None)
        For each tape; the same ones for tapes that were decided together. Of taggers one after the
        other each tape has its own, given the labels chosen before it. None: nothing is asked.
    budget : Budget, optional
        When a search gives up.
    threads : int
    asked : bool [B], optional
        The sentences that are asked; all when absent.
    """

    lattices: Mapping[str, Sequence[Lattice | None]]
    budget: Budget | None = None
    threads: int = 1
    asked: Bools | None = None

    __getstate__ = given_state

    @made_once
    def _rows(self) -> dict[str, list[Floats | None]]:
        found: dict[str, list[Floats | None]] = {}
        for tape, several in self.lattices.items():
            if tape in found:
                continue
            numbers, live = self.live(tape)
            parts = marginals(live, threads=self.threads)
            mine = tuple([one.name for one in live.on]) or (tape,)
            found |= {name: [None] * len(several) for name in mine}
            for b, part in zip(numbers, parts, strict=True):
                for name, rows in zip(mine, part if len(mine) > 1 else (part,), strict=True):
                    found[name][b] = rows
        return found

    def live(self, tape: str) -> tuple[list[int], Batch[Lattice]]:
        """Return the sentences that are asked, and their lattices of a tape."""
        several = self.lattices[tape]
        asked = np.ones(len(several), dtype=np.bool_) if self.asked is None else self.asked
        if isinstance(several, Batch):
            return np.flatnonzero(asked).tolist(), several if asked.all() else several.select(asked)
        pairs = zip(several, asked.tolist(), strict=True)
        kept = {b: one for b, (one, wanted) in enumerate(pairs) if wanted and one is not None}
        return [*kept], Batch([*kept.values()])

    def marginals(self, tape: str) -> list[Floats | None]:
        """Return the probability of each label at each token, float64 [T, L] a sentence.

        Raises
        ------
        TooLargeError
            A grammar too large to multiply out.
        """
        return self._rows[tape]

    def span_probabilities(self, answer: TapeAnswer, k: int) -> list[Floats]:
        """Return the probability of each span of the k-th best paths; 0 without a lattice."""
        several, spans = self.lattices[answer.name], answer.span_arrays(k=k)
        found = known_probabilities(
            several, spans, answer.offsets, tape=answer.name, threads=self.threads
        )
        ends = np.searchsorted(spans.start, answer.offsets).tolist()
        return [found[a:b] for a, b in pairwise(ends)]

    def confidence(self, sentence: int, path: Path) -> Confidence:
        """Return how sure the best path of a sentence is; see `Lattice.confidence`.

        Of taggers one after the other, the labels are legal where those of each are, given the
        labels before.
        """
        together = {id(several): several for several in self.lattices.values()}
        (several, *others) = together.values()
        lattice = several[sentence]
        if lattice is not None and not others and len(lattice.tapes) >= len(self.lattices):
            return lattice.confidence(budget=self.budget)
        unknown = math.isnan(path.probability)
        parts = [
            lattice.confidence(budget=self.budget)
            for lattice in (several[sentence] for several in together.values())
            if lattice is not None and (unknown or lattice.dense.program.conjuncts)
        ]
        known = Interval(path.probability, path.probability)
        return Confidence(
            path,
            _product([part.probability for part in parts]) if unknown else known,
            _product([part.legal for part in parts]),
            next((part.method for part in parts if part.method != "exact"), "exact"),
            math.prod(part.level for part in parts),
        )

    def only(self, asked: Bools) -> Distributions:
        """Return that of some sentences alone, bool [B]: nothing is asked of the others."""
        return self if asked.all() else replace(self, asked=asked)

    def with_part(self, where: Longs, part: Distributions) -> Distributions:
        """Return the same with others of some sentences, those that `part` has."""
        each: dict[int, list[Lattice | None]] = {}
        for tape, several in self.lattices.items():
            if id(several) not in each:
                found = list(several)
                for k, lattice in zip(*part.live(tape), strict=True):
                    found[int(where[k])] = lattice
                each[id(several)] = found
        lattices = {tape: each[id(several)] for tape, several in self.lattices.items()}
        return replace(self, lattices=lattices, asked=None)


def _product(several: Sequence[Interval]) -> Interval:
    low = math.prod((one.low for one in several), start=1.0)
    return Interval(low, math.prod((one.high for one in several), start=1.0))

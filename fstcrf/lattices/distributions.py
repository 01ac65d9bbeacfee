"""The distributions over labellings that an `Answer` reads its probabilities from."""

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
    """The lattices of B sentences, with forced labels and biases applied.

    Parameters
    ----------
    lattices : mapping of str to sequence of B (Lattice or ``None``)
        The lattices of each tape. Tapes that were decided together share them. In a chain of
        taggers, each tape has its own, given the labels that were chosen before it. A sentence
        whose entry is ``None`` has no probabilities.
    budget : Budget, optional
        Limit of a search.
    threads : int
    selected : bool [B], optional
        The sentences with probabilities; all if absent.
    """

    lattices: Mapping[str, Sequence[Lattice | None]]
    budget: Budget | None = None
    threads: int = 1
    selected: Bools | None = None

    __getstate__ = given_state

    @made_once
    def _tables(self) -> dict[str, list[Floats | None]]:
        tables: dict[str, list[Floats | None]] = {}
        for tape, lattices in self.lattices.items():
            if tape in tables:
                continue
            numbers, live = self.live(tape)
            parts = marginals(live, threads=self.threads)
            names = tuple([one.name for one in live.on]) or (tape,)
            tables |= {name: [None] * len(lattices) for name in names}
            for b, part in zip(numbers, parts, strict=True):
                for name, rows in zip(names, part if len(names) > 1 else (part,), strict=True):
                    tables[name][b] = rows
        return tables

    def live(self, tape: str) -> tuple[list[int], Batch[Lattice]]:
        """Return the numbers of the selected sentences, and their lattices of a tape."""
        lattices = self.lattices[tape]
        selected = (
            np.ones(len(lattices), dtype=np.bool_) if self.selected is None else self.selected
        )
        if isinstance(lattices, Batch):
            numbers = np.flatnonzero(selected).tolist()
            return numbers, lattices if selected.all() else lattices.select(selected)
        pairs = zip(lattices, selected.tolist(), strict=True)
        kept = {b: one for b, (one, wanted) in enumerate(pairs) if wanted and one is not None}
        return [*kept], Batch([*kept.values()])

    def marginals(self, tape: str) -> list[Floats | None]:
        """Return the probability of each label at each token, float64 [T, L] for each sentence.

        Raises
        ------
        TooLargeError
            The grammar is too large to multiply out.
        """
        return self._tables[tape]

    def span_probabilities(self, answer: TapeAnswer, k: int) -> list[Floats]:
        """Return the probability of each span of the k-th best paths; 0 without a lattice."""
        lattices, spans = self.lattices[answer.name], answer.span_arrays(k=k)
        probabilities = known_probabilities(
            lattices, spans, answer.offsets, tape=answer.name, threads=self.threads
        )
        ends = np.searchsorted(spans.start, answer.offsets).tolist()
        return [probabilities[a:b] for a, b in pairwise(ends)]

    def confidence(self, sentence: int, path: Path) -> Confidence:
        """Return the confidence in the best path of a sentence; see `Lattice.confidence`.

        In a chain of taggers, labels are legal if the labels of each tagger are legal, given the
        labels before them.
        """
        together = {id(lattices): lattices for lattices in self.lattices.values()}
        (lattices, *others) = together.values()
        lattice = lattices[sentence]
        if lattice is not None and not others and len(lattice.tapes) >= len(self.lattices):
            return lattice.confidence(budget=self.budget)
        unknown = math.isnan(path.probability)
        parts = [
            lattice.confidence(budget=self.budget)
            for lattice in (lattices[sentence] for lattices in together.values())
            if lattice is not None and (unknown or lattice.dense.program.conjuncts)
        ]
        exact = Interval(path.probability, path.probability)
        return Confidence(
            path,
            _product([part.probability for part in parts]) if unknown else exact,
            _product([part.legal for part in parts]),
            next((part.method for part in parts if part.method != "exact"), "exact"),
            math.prod(part.level for part in parts),
        )

    def only(self, selected: Bools) -> Distributions:
        """Return the distributions with probabilities for some sentences only, bool [B]."""
        return self if selected.all() else replace(self, selected=selected)

    def with_part(self, where: Longs, part: Distributions) -> Distributions:
        """Return the distributions with the sentences `where`, int64 [b], replaced by `part`."""
        each: dict[int, list[Lattice | None]] = {}
        for tape, lattices in self.lattices.items():
            if id(lattices) not in each:
                rows = list(lattices)
                for k, lattice in zip(*part.live(tape), strict=True):
                    rows[int(where[k])] = lattice
                each[id(lattices)] = rows
        replaced = {tape: each[id(lattices)] for tape, lattices in self.lattices.items()}
        return replace(self, lattices=replaced, selected=None)


def _product(intervals: Sequence[Interval]) -> Interval:
    low = math.prod((one.low for one in intervals), start=1.0)
    return Interval(low, math.prod((one.high for one in intervals), start=1.0))

"""What lattices of every kind are asked of: the protocol of engines.

An engine is a batch of rows, each a weighted set of paths; a path is a run of *elements*. A lattice
asks its engine few questions and reads everything else off their answers, so that a new kind of
lattice is a constructor, a new algorithm an engine or another way of one call.
`fstcrf.lattices.dense.Dense`: elements are joint states, one for each token.
`fstcrf.lattices.arcs.Arcs`: elements are arcs of an acyclic machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.ragged import Ragged

Over: TypeAlias = Literal["segments", "tokens"]
"""What a grammar reads: a label for each segment, or one for each token."""

Coupling: TypeAlias = Mapping[tuple[int, int], Floats]
"""Potentials of labels at a token, by the numbers of two tapes."""


class Runs(NamedTuple):
    """Paths as runs of elements, best first in each row, those of a row behind those before it.

    found : int64 [B]; paths of each row.
    score : float64 [R].
    bounds : int64 [R + 1]; elements of path r are ``elements[bounds[r] : bounds[r + 1]]``.
    proven : int64 [B]; the first so many paths of each row are the best ones; None: all.
    bound : float64 [B]; no path that is not among these scores more.
    popped : int64 [B]; states that a search took from its queue; None: nothing was searched.
    """

    found: Longs
    score: Floats
    bounds: Longs
    elements: Ints
    proven: Longs | None = None
    bound: Floats | None = None
    popped: Longs | None = None

    def of_row(self, row: int, first: int, end: int) -> Runs:
        """Return the paths of one row: from `first` on, before `end`."""
        cuts, one = self.bounds[first : end + 1], slice(row, row + 1)
        elements = self.elements[cuts[0] : cuts[-1]]
        proven = None if self.proven is None else self.proven[one]
        bound = None if self.bound is None else self.bound[one]
        return Runs(self.found[one], self.score[first:end], cuts - cuts[0], elements, proven, bound)


class Told(NamedTuple):
    """What stands on a tape along a path.

    label : int32 [k].
    at : int64 [k]; the place in the path where each begins; None: there is one for each element.
    start, end, origin : int64 [k]; of tapes with segments, where each lies in its row, and which of
        the given arcs it is.
    """

    label: Ints
    at: Longs | None = None
    start: Longs | None = None
    end: Longs | None = None
    origin: Longs | None = None


class Engine(Protocol):
    """B weighted sets of paths."""

    @property
    def rows(self) -> Ragged:
        """Tokens of each row."""

    def nbest(self, n: int, budget: Budget | None = None) -> Runs:
        """Return the n best paths of each row, or all where there are fewer."""

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> Runs:
        """Return n independent samples of each row."""

    def told(self, path: Ints, tape: int, *, placed: bool = False) -> Told:
        """Return what stands on a tape along a path of elements, or along several in a row."""

    @property
    def best_scores(self) -> Floats:
        """Score of the best path of each row, [B]; −inf: there is none."""

    @property
    def log_z(self) -> Floats:
        """Log of the sum over all paths of each row, [B]; −inf: there is none."""

    @property
    def usual_log_z(self) -> Floats:
        """The same, NaN where it costs too much to be found along with paths."""

    def entropies(self) -> Floats:
        """Return the entropy of each row in nats, [B]."""

    def marginals(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:
        """Return the probability of each label of some tapes at each token, [tokens, labels].

        `sizes` are the labels of every tape.
        """

    def highest(self, tapes: Sequence[int], sizes: Sequence[int], tokens: int) -> list[Floats]:
        """Return the score of the best path through each label at each token; −inf: none."""

    def successions(self, tapes: Sequence[int], sizes: Sequence[int]) -> list[Floats]:
        """Return the probability of each succession of labels, [tokens, labels, labels].

        Entry (t, i, j): label i at token t - 1 and label j at token t.
        """

    def forget(self) -> None:
        """Let go of what is as large as the lattices and is made again when somebody asks."""

"""What lattices of every kind are asked of: the protocol of engines.

An engine is a batch of rows, each a weighted set of paths; a path is a set of *elements*, and its
score a sum that the engine knows. A lattice asks its engine few questions (`nbest`, `sample`, sums,
maxima), has it changed in few ways, each of which gives an engine again, and reads everything else
off through a `Reading`. So a new kind of lattice is a constructor, a new algorithm an engine or an
override of one call. `fstcrf.lattices.arcs.Arcs`: elements are arcs of an acyclic machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs

if TYPE_CHECKING:
    from fstcrf.lattices.reading import Reading
    from fstcrf.machines.grammar import Acceptor
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

    first, last : int [k]; the elements with which each begins and ends.
    label : int32 [k].
    at : int64 [k]; the place in the path where each begins; None: there is one for each element.
    """

    first: Ints
    last: Ints
    label: Ints
    at: Longs | None


class Engine(Protocol):
    """B weighted sets of paths."""

    @property
    def rows(self) -> Ragged:
        """Tokens of each row."""

    @property
    def n_elements(self) -> int:
        """Elements of all rows."""

    # --- Questions

    def nbest(self, n: int) -> Runs:
        """Return the n best paths of each row, or all where there are fewer."""

    def sample(self, n: int, generators: Sequence[np.random.Generator]) -> Runs:
        """Return n independent samples of each row."""

    @property
    def log_z(self) -> Floats:
        """Log of the sum over all paths of each row, [B]; −inf: there is none."""

    @property
    def posterior(self) -> Floats:
        """Probability of each element: the gradient of log Z by its score."""

    def maxima(self) -> Floats:
        """Return the score of the best path through each element; −inf: there is none."""

    def entropies(self) -> Floats:
        """Return the entropy of each row in nats, [B]."""

    def furthest(self) -> int:
        """Return the last token boundary of the only row that a path reaches."""

    # --- What elements say

    def covers(self, tape: int) -> Reading:
        """Return the label that the tokens under each element have on a tape."""

    def begun(self, tape: int) -> Reading | None:
        """Return what begins on a tape with each element; None: its end is not known there."""

    def told(self, path: Ints, tape: int) -> Told:
        """Return what stands on a tape along a path of elements, or along several in a row."""

    def places(self, told: Told) -> tuple[Longs, Longs]:
        """Return the tokens where each begins, and behind its last, in its row."""

    def marginals(self, tape: int, labels: int) -> Floats:
        """Return the probability of each label at each token of all rows, [tokens, labels]."""

    # --- Changes

    def restrict(self, keep: Bools) -> Self:
        """Return the paths of some elements alone."""

    def exactly(self, tape: int, start: Longs, end: Longs, label: Longs) -> Self:
        """Return the paths of the only row on which these facts, and no others, are on a tape."""

    def bounded(self, wanted: Longs) -> Self:
        """Return the paths of the only row by boundaries: 1 must, −1 must not be one, [T + 1]."""

    def reweight(self, score: Floats) -> Self:
        """Return the same paths, each with the sum of its elements' new scores."""

    def scale(self, factor: float) -> Self:
        """Return the same paths with all scores times a factor."""

    def product(self, acceptor: Acceptor, tapes: Sequence[int], over: Over) -> Self:
        """Return the paths that an acceptor of some tapes accepts, its scores added."""

    def beside(self, other: Self, coupling: Coupling) -> Self:
        """Return the pairs of paths over the same tokens; the tapes of the other come behind."""

    def select(self, rows: Longs) -> Self:
        """Return some rows, each once, in the order given."""

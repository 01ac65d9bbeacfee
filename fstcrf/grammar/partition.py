"""Partitions of states: what leads to the same classes by every symbol, is one class.

Moore's refinement, in rounds, but only of states that lead to a class which is new. When a class
falls apart its largest part keeps the number, so that a state gets a new one at most log₂ Q times:
a machine of a hundred thousand states takes no more than seconds.

=============  ============================================
Predecessors   the states that lead to each state
coarsest       the coarsest such partition within another one
numbered       equal rows to equal numbers
=============  ============================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.grammar.acceptor import Ints

__all__ = ["Predecessors", "coarsest", "numbered"]

Numbers = NDArray[np.int64]

_FEW = 64
"""Fewer rows are numbered sooner one by one."""


class Predecessors:
    """The states that lead to each state.

    Parameters
    ----------
    target : int32 [Q, A]
        State after (state, symbol), −1 where there is none.
    """

    def __init__(self, target: Ints) -> None:
        source, symbol = np.nonzero(target >= 0)
        ends = target[source, symbol]
        self.source = source[np.argsort(ends, kind="stable")]
        self.row = np.zeros(len(target) + 1, dtype=np.int64)
        np.cumsum(np.bincount(ends, minlength=len(target)), out=self.row[1:])

    def of(self, states: NDArray[np.integer]) -> Numbers:
        """Return the states that lead to one of these, each once, in order."""
        first, size = self.row[states], self.row[states + 1] - self.row[states]
        shift = first - np.cumsum(size) + size
        return np.unique(self.source[np.arange(size.sum()) + np.repeat(shift, size)])


def coarsest(target: Ints, classes: Numbers) -> Numbers:
    """Return the coarsest partition within another in which classes lead to classes.

    Parameters
    ----------
    target : int32 [Q, A]
        State after (state, symbol), −1 where there is none.
    classes : int64 [Q]
        Class of each state, from 0 without gaps.

    Returns
    -------
    int64 [Q]
        Class of each state, from 0 without gaps.
    """
    parts, before = _Parts(classes), None
    asked = np.arange(len(target))
    while len(asked) and parts.n < len(target):
        ahead = target[asked]
        led = np.where(ahead >= 0, parts.classes[ahead], -1)
        fresh = parts.split(asked, led)
        before = before or Predecessors(target)
        asked = before.of(fresh)
    return parts.classes


def numbered(rows: NDArray[np.generic]) -> Numbers:
    """Return a number for each row, from 0 without gaps; rows of equal bytes have equal ones."""
    if len(rows) < _FEW:
        seen: dict[bytes, int] = {}
        return np.asarray([seen.setdefault(row.tobytes(), len(seen)) for row in rows])
    found: Numbers = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return found


class _Parts:
    """Classes of states, int64 [Q], and how many members each has."""

    def __init__(self, classes: Numbers) -> None:
        self.classes = classes.copy()
        self.size = np.bincount(classes, minlength=len(classes))
        self.n = int(classes.max()) + 1

    def split(self, asked: Numbers, led: Numbers) -> Numbers:
        """Split classes into members that lead to the same and the rest.

        Parameters
        ----------
        asked : int64 [K]
            Those that lead to a class that was new in the last round; no others belong to them.
        led : int64 [K, A]
            The classes that they lead to.

        Returns
        -------
        int64
            The states whose class has a new number.
        """
        old = self.classes[asked]
        rows = numbered(np.column_stack([old, led]))
        _, first, size = np.unique(rows, return_index=True, return_counts=True)
        of_class = old[first]
        known, n_asked = np.unique(old, return_counts=True)
        rest = self.size[known] - n_asked
        # The largest group of each class: the last one in this order.
        order = np.lexsort((size, of_class))
        largest = order[np.append(np.diff(of_class[order]) > 0, True)]
        wins = size[largest] > rest
        moved = np.ones(len(size), dtype=bool)
        moved[largest[wins]] = False
        number = of_class.copy()
        number[moved] = self._new(size[moved])
        left = wins & (rest > 0)
        others = self._members(known[left], asked)
        place = np.searchsorted(known[left], self.classes[others])
        self.classes[others] = self._new(rest[left])[place]
        self.classes[asked] = number[rows]
        self.size[known] = np.maximum(size[largest], rest)
        return np.concatenate([asked[moved[rows]], others])

    def _new(self, size: Numbers) -> Numbers:
        """Return numbers for classes of these sizes."""
        found = np.arange(self.n, self.n + len(size))
        self.size[found] = size
        self.n += len(size)
        return found

    def _members(self, classes: Numbers, asked: Numbers) -> Numbers:
        """Return the members of some classes that were not asked."""
        if not len(classes):
            return np.zeros(0, dtype=np.int64)
        inside = np.zeros(self.n, dtype=bool)
        inside[classes] = True
        found = inside[self.classes]
        found[asked] = False
        return np.flatnonzero(found)

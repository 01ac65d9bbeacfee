"""How a program finds its best paths: over one machine, or lazily beside what is too large for one.

=========  ======================================================================
Search     which of the two: "auto", "lazy" or "expanded"
Decoder    the machine that is expanded, and the acceptors that are read beside it
readers    acceptors as the search reads them
=========  ======================================================================
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.grammar import Acceptor
from fstcrf.once import made_once

__all__ = ["LAZY_FROM", "Decoder", "Search", "readers"]

Search = Literal["auto", "lazy", "expanded"]

_AT_FIRST = 1000
"""Paths that are asked for at once; more if there are so many."""

LAZY_FROM = 9
"""Residual states from which best paths are searched lazily: below, expanding costs less."""


@dataclass(frozen=True, eq=False)
class Decoder:
    """How best paths are found.

    Parameters
    ----------
    machine : kernel.Machine
        What is expanded.
    conjunction : kernel.Conjunction, optional
        Acceptors whose states are made as they are met.
    """

    machine: kernel.Machine
    conjunction: kernel.Conjunction | None = None

    @made_once
    def _threads(self) -> threading.local:
        return threading.local()

    def alone(self) -> kernel.Alone:
        """Return what finds best paths of single sentences quickly; each thread has its own.

        Raises
        ------
        ShapeError
            Sentences bring other potentials than those of one array of states.
        """
        found: kernel.Alone | None = getattr(self._threads, "alone", None)
        if found is None:
            found = self._threads.alone = kernel.Alone(self.machine, self.conjunction)
        return found

    @property
    def lazy(self) -> bool:
        """Whether some of the grammar is not expanded."""
        return self.conjunction is not None

    def paths(
        self, bound: kernel.Bound, n: int = 1, budget: kernel.Budget | None = None
    ) -> kernel.Searched:
        """Return the n best paths of each sentence; `bound` is of ``machine``.

        Memory is for the paths there are, not for all that are asked for.
        """
        some = min(n, _AT_FIRST)
        while True:
            found = self._paths(bound, some, budget)
            if some == n or (found.found < some).all():
                return found
            some = min(n, 4 * some)

    def _paths(self, bound: kernel.Bound, n: int, budget: kernel.Budget | None) -> kernel.Searched:
        if self.conjunction is not None:
            return kernel.lazy_paths(bound, self.conjunction, n, budget)
        if n == 1:
            path, score = kernel.best_paths(bound)
            found = (score > -np.inf).astype(np.int64)
            return _proven(kernel.Ranked(found, score[:, None], path[None]))
        return _proven(kernel.nbest_paths(bound, n))


def _proven(ranked: kernel.Ranked) -> kernel.Searched:
    size = len(ranked.found)
    return kernel.Searched(
        *(ranked.found, ranked.found, ranked.score, ranked.path),
        bound=np.full(size, -np.inf),
        popped=np.zeros(size, dtype=np.int64),
    )


def readers(
    acceptors: Sequence[Acceptor], labels: Mapping[str, NDArray[np.int64]]
) -> list[kernel.Reader]:
    """Return acceptors as a search reads them.

    Parameters
    ----------
    acceptors : sequence of Acceptor
    labels : mapping of str to int64 [joint states]
        Label of each tape in each joint state.
    """
    places: dict[tuple[str, ...], NDArray[np.int32]] = {}
    found = []
    for acceptor in acceptors:
        sizes = tuple(map(len, acceptor.labels))
        if acceptor.tapes not in places:
            parts = [labels[tape] for tape in acceptor.tapes]
            places[acceptor.tapes] = np.ravel_multi_index(parts, sizes).astype(np.int32)
        flat = acceptor.n_states, -1
        score = None if acceptor.score is None else acceptor.score.reshape(flat)
        found.append(
            kernel.Reader(
                place=places[acceptor.tapes],
                target=np.ascontiguousarray(acceptor.target.reshape(flat)),
                score=None if score is None else np.ascontiguousarray(score),
                final=acceptor.final,
            )
        )
    return found

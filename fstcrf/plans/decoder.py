"""How a program finds its best paths: over one machine, or lazily beside what is too large for one.

=========  ======================================================================
Search     which of the two: "auto", "lazy" or "expanded"
Decoder    the machine that is expanded, and the acceptors that are read beside it
readers    acceptors as the search reads them
=========  ======================================================================
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.grammar import Acceptor
from fstcrf.kernel import Budget
from fstcrf.kernel.lazy import BEAM
from fstcrf.once import made_once
from fstcrf.plans.expansion import TRIAL, Expansion

__all__ = ["LAZY_FROM", "Decoder", "Search", "readers"]

Search = Literal["auto", "lazy", "expanded"]

_AT_FIRST = 1000
"""Paths that are asked for at once; more if there are so many."""

_AT_ONCE = 1e-6
"""Seconds of a search for which no time is left: it gives up as soon as it looks at the clock."""

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
    expansion : Expansion, optional
        The whole product, for sentences whose search does not end soon.
    """

    machine: kernel.Machine
    conjunction: kernel.Conjunction | None = None
    expansion: Expansion | None = None

    @made_once
    def _threads(self) -> threading.local:
        return threading.local()

    def alone(self) -> kernel.Alone:
        """Return what finds best paths of single sentences quickly; each thread has its own.

        It searches lazily to the end of its budget: `paths` has more to offer where that comes.

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
        self, bound: kernel.Bound, n: int = 1, budget: Budget | None = None
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

    def _paths(self, bound: kernel.Bound, n: int, budget: Budget | None) -> kernel.Searched:
        if self.conjunction is not None:
            return self._searched(bound, self.conjunction, n, budget or Budget())
        if n == 1:
            path, score = kernel.best_paths(bound)
            found = (score > -np.inf).astype(np.int64)
            return _proven(kernel.Ranked(found, score[:, None], path[None]))
        return _proven(kernel.nbest_paths(bound, n))

    def _searched(
        self, bound: kernel.Bound, grammar: kernel.Conjunction, n: int, budget: Budget
    ) -> kernel.Searched:
        """Search lazily; answer from the product what does not end soon and is affordable."""
        if self.expansion is None:
            return kernel.lazy_paths(bound, grammar, n, budget)
        end = None if budget.seconds is None else time.monotonic() + budget.seconds
        trial = replace(budget, states=min(TRIAL, budget.states))
        # Where the trial may have the last word, what it falls back on counts.
        beam = BEAM if budget.states <= TRIAL or end is not None else 1
        found = kernel.lazy_paths(bound, grammar, n, trial, beam=beam)
        rest = []
        for sentence in np.flatnonzero(found.unproven(n)).tolist():
            if end is not None and time.monotonic() > end:
                return found
            ranked = self.expansion.paths(bound, sentence, n, budget)
            if ranked is None:
                rest.append(sentence)
            else:
                searched = _proven(ranked)._replace(popped=found.popped[[sentence]])
                found.put(bound.tokens([sentence]), [sentence], searched)
        if rest and budget.states > TRIAL:
            left = None if end is None else max(end - time.monotonic(), _AT_ONCE)
            longer = replace(budget, seconds=left)
            searched = kernel.lazy_paths(bound.select(rest), grammar, n, longer)
            found.put(bound.tokens(rest), rest, searched)
        return found


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

"""How a program finds its best paths: over the product, or lazily beside it.

A search that does not end soon is answered from the product, where that is affordable. An answer
that a budget cut short is not proven, and a warning says so (`warn_unproven`).
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Ints, Longs
from fstcrf.errors import InexactWarning
from fstcrf.grammar import Acceptor
from fstcrf.kernel import Bound, Budget, Machine, Ranked
from fstcrf.kernel.lazy import BEAM
from fstcrf.once import made_once

__all__ = [
    "TRIAL",
    "Decoder",
    "Expansion",
    "Search",
    "gathered",
    "most_cells",
    "readers",
    "warn_unproven",
]

Search = Literal["auto", "lazy", "expanded"]
"""How best paths are found; see `fstcrf.plans.Program`."""

TRIAL = 2_048
"""States that a search may look at before the product is thought of: 5 to 10 ms.

Sentences whose own best labels are legal, or nearly so, take a state or two a token."""

CELLS = 64
"""Joint states of the product, at a token, that count as one state of a search.

In memory: a state takes up to a kilobyte, a cell of the product 16 bytes. In time a cell is cheaper
still, 15 to 40 ns against 5 to 10 µs. The usual budget of 250,000 states affords 16 million cells:
256 MB and half a second at most."""


class Expansion:
    """The product of a composition, expanded when it is first needed.

    Parameters
    ----------
    make : callable
        Returns the product; None where it has too many states.
    """

    def __init__(self, make: Callable[[], Machine | None]) -> None:
        self._make = make

    @made_once
    def machine(self) -> Machine | None:
        """The product; None where it is too large for a sentence of one token."""
        return self._make()

    def paths(self, bound: Bound, sentence: int, n: int, budget: Budget) -> Ranked | None:
        """Return the n best paths of a sentence; None where the product is not affordable.

        Parameters
        ----------
        bound : Bound
            The batch that it is in, under the machine without the grammar.
        sentence, n : int
        budget : Budget
            Of the search that the product is to replace.
        """
        machine = self.machine
        if machine is None or _cost(machine, len(bound.tokens([sentence])), n) > most_cells(budget):
            return None
        single = bound.select([sentence], machine)
        if n > 1:
            return kernel.nbest_paths(single, n)
        path, score = kernel.best_paths(single)
        return Ranked((score > -np.inf).astype(np.int64), score[:, None], path[None])


def _cost(machine: Machine, tokens: int, n: int) -> int:
    """Return the cells that are looked at: of the product once, then along each path again."""
    return tokens * int(np.prod(machine.shape)) * (machine.n_residual + n - 1)


def most_cells(budget: Budget | None = None) -> int:
    """Return the cells that a budget affords; a larger budget than the usual affords no more."""
    usual = Budget().states
    return CELLS * (usual if budget is None else min(budget.states, usual))


# --- Best paths -----------------------------------------------------------------------------------

_AT_FIRST = 1000
"""Paths that are asked for at once; more if there are so many."""

_AT_ONCE = 1e-6
"""Seconds of a search for which no time is left: it gives up as soon as it looks at the clock."""


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
    budget : Budget
        When searches give up, where nothing else is said.
    """

    machine: kernel.Machine
    conjunction: kernel.Conjunction | None = None
    expansion: Expansion | None = None
    budget: Budget = field(default_factory=Budget)

    @made_once
    def _threads(self) -> threading.local:
        return threading.local()

    def sentence_machine(self) -> kernel.SentenceMachine:
        """Return what finds best paths of single sentences quickly; each thread has its own.

        It searches lazily to the end of its budget: `paths` has more to offer where that comes.

        Raises
        ------
        ShapeError
            Sentences bring other potentials than those of one array of states.
        """
        found: kernel.SentenceMachine | None = getattr(self._threads, "single", None)
        if found is None:
            found = self._threads.single = kernel.SentenceMachine(self.machine, self.conjunction)
        return found

    @property
    def lazy(self) -> bool:
        """Whether some of the grammar is not expanded."""
        return self.conjunction is not None

    def paths(
        self, bound: kernel.Bound, n: int = 1, budget: Budget | None = None
    ) -> kernel.SearchResult:
        """Return the n best paths of each sentence; `bound` is of ``machine``.

        Memory is for the paths there are, not for all that are asked for.
        """
        some = min(n, _AT_FIRST)
        while True:
            found = self._paths(bound, some, budget)
            if some == n or (found.found < some).all():
                return found
            some = min(n, 4 * some)

    def _paths(self, bound: kernel.Bound, n: int, budget: Budget | None) -> kernel.SearchResult:
        if self.conjunction is not None:
            return self._searched(bound, self.conjunction, n, budget or self.budget)
        if n == 1:
            path, score = kernel.best_paths(bound)
            found = (score > -np.inf).astype(np.int64)
            return _proven(kernel.Ranked(found, score[:, None], path[None]))
        return _proven(kernel.nbest_paths(bound, n))

    def _searched(
        self, bound: kernel.Bound, grammar: kernel.Conjunction, n: int, budget: Budget
    ) -> kernel.SearchResult:
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


def _proven(ranked: kernel.Ranked) -> kernel.SearchResult:
    size = len(ranked.found)
    return kernel.SearchResult(
        *(ranked.found, ranked.found, ranked.score, ranked.path),
        bound=np.full(size, -np.inf),
        popped=np.zeros(size, dtype=np.int64),
    )


def readers(
    acceptors: Sequence[Acceptor], labels: Mapping[str, Longs]
) -> list[kernel.LazyAcceptor]:
    """Return acceptors as a search reads them.

    Parameters
    ----------
    acceptors : sequence of Acceptor
    labels : mapping of str to int64 [joint states]
        Label of each tape in each joint state.
    """
    places: dict[tuple[str, ...], Ints] = {}
    found = []
    for acceptor in acceptors:
        sizes = tuple(map(len, acceptor.labels))
        if acceptor.tapes not in places:
            parts = [labels[tape] for tape in acceptor.tapes]
            places[acceptor.tapes] = np.ravel_multi_index(parts, sizes).astype(np.int32)
        flat = acceptor.n_states, -1
        score = None if acceptor.score is None else acceptor.score.reshape(flat)
        found.append(
            kernel.LazyAcceptor(
                place=places[acceptor.tapes],
                target=np.ascontiguousarray(acceptor.target.reshape(flat)),
                score=None if score is None else np.ascontiguousarray(score),
                final=acceptor.final,
            )
        )
    return found


# --- Answers that are not proven ------------------------------------------------------------------

_PACKAGE = __name__.partition(".")[0]

_gathering: ContextVar[list[tuple[int, int]] | None] = ContextVar("_gathering", default=None)


def warn_unproven(unproven: int, answers: int) -> None:
    """Warn of answers that a search gave before its proof; nothing where there are none.

    Parameters
    ----------
    unproven : int
        So many of the answers are not proven.
    answers : int
    """
    waiting = _gathering.get()
    if waiting is not None:
        waiting.append((unproven, answers))
    elif unproven:
        are = "are" if unproven > 1 else "is"
        warnings.warn(
            f"{unproven:,} of {answers:,} answers {are} the best found, not proven to be the best "
            "(Path.exact, Path.bound); a larger budget looks further",
            InexactWarning,
            stacklevel=_outside(),
        )


@contextmanager
def gathered() -> Iterator[None]:
    """Give one warning for all that the block would warn of."""
    counts: list[tuple[int, int]] = []
    token = _gathering.set(counts)
    try:
        yield
    finally:
        _gathering.reset(token)
    warn_unproven(sum(unproven for unproven, _ in counts), sum(answers for _, answers in counts))


def _outside() -> int:
    """Return the stack level, for `warn_unproven`, of the caller of the package."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 (inspect.stack reads source files)
    while frame.f_back is not None and _inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _inside(module: str) -> bool:
    return module.partition(".")[0] in {_PACKAGE, "contextlib"}

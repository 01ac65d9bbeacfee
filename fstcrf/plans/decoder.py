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
from fstcrf.kernel import Budget, Machine
from fstcrf.once import made_once
from fstcrf.plans.cost import Cost, allowance

__all__ = [
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

MOST_CELLS = 1 << 28
"""Joint states of a product that are kept for a sentence: 2 GB."""

CELLS = 64
"""Joint states of the product, at a token, that a state of a budget of one's own affords.

In memory: a state takes up to a kilobyte, a cell of the product 16 bytes."""

_RUN = 50_000_000
"""Operations between two looks at the clock, and at Ctrl-C."""


class Expansion:
    """The product of a composition, expanded when it is first needed.

    Parameters
    ----------
    free : kernel.Machine
        What it is without the grammar.
    least : Cost
        What it takes at least, known before anything is multiplied out.
    count : callable
        Returns what it takes; None where it has too many states.
    make : callable
        Returns it; None where it has too many edges.
    """

    def __init__(
        self,
        free: Machine,
        least: Cost,
        count: Callable[[], Cost | None],
        make: Callable[[], Machine | None],
    ) -> None:
        self._free, self._least, self._count, self._make = free, least, count, make

    @made_once
    def cost(self) -> Cost | None:
        """What it takes; None where it is too large for a sentence of one token."""
        return self._count()

    @made_once
    def machine(self) -> Machine | None:
        """The product; None where it is too large for a sentence of one token."""
        return self._make()

    def first(self, n: int) -> int:
        """Return the operations a token that a search may do first; 0: any number.

        Whether the product has been counted before changes no answer: a search that ends within an
        allowance ends in the same way within a larger one.
        """
        if "cost" in vars(self) and self.cost is None:
            return 0
        return self.worth(n) if "cost" in vars(self) else self._at_least(n)

    def worth(self, n: int) -> int:
        """Return the operations a token that a search may do once the product is counted."""
        first = self._at_least(n)
        whole = first if self.cost is None else allowance(self._free, self.cost, n)
        return whole if whole > 2 * first else first

    def _at_least(self, n: int) -> int:
        return allowance(self._free, self._least, n)


def most_cells(budget: Budget | None = None) -> int:
    """Return the joint states that a budget affords; without one of one's own, those that fit."""
    if budget is None or budget.usual:
        return MOST_CELLS
    return min(CELLS * budget.states, MOST_CELLS)


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
        return _proven(_over(bound, n))

    def _searched(
        self, bound: kernel.Bound, grammar: kernel.Conjunction, n: int, budget: Budget
    ) -> kernel.SearchResult:
        """Search lazily; answer from the product what that takes too long for, where it fits."""
        if self.expansion is None:
            return kernel.lazy_paths(bound, grammar, n, budget)
        first = self.expansion.first(n)
        search = _Search(bound, grammar, n, budget, first)
        if search.left and not search.late:
            search.expand(self.expansion, first)
        if search.left:
            search.complete()
        return search.found


class _Search:
    """The search for the n best paths of a batch, and what it has found.

    Parameters
    ----------
    bound, grammar, n, budget
        As for `kernel.lazy_paths`.
    allowed : int
        Operations a token, for the first attempt.
    """

    def __init__(
        self,
        bound: kernel.Bound,
        grammar: kernel.Conjunction,
        n: int,
        budget: Budget,
        allowed: int,
    ) -> None:
        self.bound, self.grammar, self.n, self.budget = bound, grammar, n, budget
        self._end = None if budget.seconds is None else time.monotonic() + budget.seconds
        self.found = kernel.lazy_paths(bound, grammar, n, budget, allowance=allowed)

    @property
    def late(self) -> bool:
        """Whether the seconds of the budget are over."""
        return self._end is not None and time.monotonic() > self._end

    @property
    def left(self) -> list[int]:
        """Sentences whose paths are not proven."""
        return np.flatnonzero(self.found.unproven(self.n)).tolist()

    def expand(self, expansion: Expansion, tried: int) -> None:
        """Answer from the product where it fits, but search for as long as that is worth.

        Parameters
        ----------
        expansion : Expansion
        tried : int
            The allowance with which no answer was found.
        """
        cost = expansion.cost
        if cost is None:
            return
        bounds, most = self.bound.bounds.tolist(), most_cells(self.budget)
        fits = [k for k in self.left if (bounds[k + 1] - bounds[k]) * cost.cells <= most]
        if (worth := expansion.worth(self.n)) > tried:
            self._again(fits, worth)
            left = set(self.left)
            fits = [k for k in fits if k in left]
        machine = expansion.machine if fits else None
        if machine is None:
            return
        for run in _runs(fits, bounds, cost.paths(self.n)):
            if not self.late:
                self._put(run, self._over(machine, run))

    def complete(self) -> None:
        """Search to the end of the budget what was left before and has no product."""
        found = self.found
        early = found.unproven(self.n) & (found.popped < self.budget.states)
        early &= found.found == found.proven  # else a beam has answered: the search was given up
        if self.late:
            early &= found.found == 0
        self._again(np.flatnonzero(early).tolist())

    def _again(self, sentences: list[int], allowed: int = 0) -> None:
        """Search once more, to the end of another allowance, or of the budget."""
        if not sentences:
            return
        left = None if self._end is None else max(self._end - time.monotonic(), _AT_ONCE)
        budget, some = replace(self.budget, seconds=left), self.bound.select(sentences)
        other = kernel.lazy_paths(some, self.grammar, self.n, budget, allowance=allowed)
        self._put(sentences, other)

    def _over(self, machine: Machine, sentences: list[int]) -> kernel.SearchResult:
        """Return the best paths over the product; they score what a search would say."""
        ranked = _over(self.bound.select(sentences, machine), self.n)
        whole = len(sentences) == self.bound.n_sentences
        some = self.bound if whole else self.bound.select(sentences)
        score = kernel.path_scores(some, self.grammar, ranked.path, ranked.found)
        if self.n > 1:  # rounding may put a path a last bit above the one before it
            score = np.minimum.accumulate(score, axis=1)
        proven = _proven(kernel.Ranked(ranked.found, score, ranked.path))
        return proven._replace(popped=self.found.popped[sentences])

    def _put(self, sentences: list[int], other: kernel.SearchResult) -> None:
        if len(sentences) == self.bound.n_sentences:
            self.found = other
        else:
            self.found.put(self.bound.tokens(sentences), sentences, other)


def _over(bound: kernel.Bound, n: int) -> kernel.Ranked:
    """Return the n best paths of the machine of a batch."""
    if n > 1:
        return kernel.nbest_paths(bound, n)
    path, score = kernel.best_paths(bound)
    return kernel.Ranked((score > -np.inf).astype(np.int64), score[:, None], path[None])


def _runs(sentences: list[int], bounds: list[int], operations: int) -> Iterator[list[int]]:
    """Split sentences into runs that take a while each; the answers do not depend on them."""
    run: list[int] = []
    work = 0
    for k in sentences:
        run.append(k)
        work += (bounds[k + 1] - bounds[k]) * operations
        if work > _RUN:
            yield run
            run, work = [], 0
    if run:
        yield run


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

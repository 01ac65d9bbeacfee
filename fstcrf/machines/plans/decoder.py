"""Strategies for a program's best paths: the product, or lazy search.

If a search does not end soon, it begins again with multipliers (`plans/multipliers.py`), where
labels are limited; else, or if that does not end soon, the product answers, if it is affordable.

A product that is too large is never expanded (`csrc/lazy.h`). Then best and n-best paths are
searched best first, over states of the product that are created when reached. Each is a joint state
and a state of every acceptor, packed into as few 64-bit words as possible. The bound of a state
adds the machine's backward maximum, which is exact for the expanded part, and the highest score
that each acceptor can still reach in the remaining tokens. Each is the exact best of a relaxed
problem, so the sum is admissible and never rises, and the first visit of a state is the best.
Siblings are taken one by one: the queue holds, for each expanded state, the best successor not yet
taken. On addresses, under 29 constraints that each label forms one run, the median is one state a
token, and the search costs about as much as Viterbi. The caller owns the arena and doubles it on
demand; the kernel stops when room, states or steps are used up, and continues in the next call.
When a budget ends, a beam answers, and the top of the queue bounds everything that was not visited.
Single sentences use memory and C structures that are laid out once (`kernel/single.py`): for six
tokens, the overhead would be ten times the C code's time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Ints, Longs
from fstcrf.errors import InexactWarning, warn
from fstcrf.kernel import Allowance, Budget, JointChain
from fstcrf.kernel.lazy import shared
from fstcrf.lazy import made_once
from fstcrf.machines.plans.cost import (
    FIRST_SEARCH,
    DecodingCost,
    allowance,
    search_cost,
)
from fstcrf.machines.plans.multipliers import Multipliers

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Acceptor

Search = Literal["auto", "lazy", "expanded"]
"""Strategies for best paths; see `fstcrf.machines.plans.Program`."""

MOST_CELLS = 1 << 28
"""Joint states of a product that are stored for a sentence: 2 GB."""

CELLS = 64
"""Joint states of the product, at a token, for each state of an explicit budget.

Based on memory: a state takes up to a kilobyte, a cell of the product 16 bytes."""


class Expansion:
    """The product of a composition, expanded on demand.

    Parameters
    ----------
    unconstrained : kernel.JointChain
        The composition without the grammar.
    least : DecodingCost
        Lower bound of its cost, known before the expansion.
    count : callable
        Returns its cost; `None` if it has too many states.
    make : callable
        Returns the product; `None` if it has too many edges.
    """

    def __init__(
        self,
        unconstrained: JointChain,
        least: DecodingCost,
        count: Callable[[], DecodingCost | None],
        make: Callable[[], JointChain | None],
    ) -> None:
        self._unconstrained, self._begun = unconstrained, search_cost(unconstrained).operations
        self._least, self._count, self._make = least, count, make
        self._worth: dict[int, Allowance] = {}  # never replaced: any thread computes the same

    @made_once
    def cost(self) -> DecodingCost | None:
        """Cost of the product; `None` if it is too large for a sentence of one token."""
        return self._count()

    @made_once
    def machine(self) -> JointChain | None:
        """The product; `None` if it is too large for a sentence of one token."""
        return self._make()

    def first(self, n: int) -> Allowance | None:
        """Return the operation limit of the first attempt; `None`: unlimited.

        Results do not depend on whether the cost of the product is known: a search that ends within
        a limit ends in the same way within a larger one.
        """
        if "cost" not in vars(self):
            return allowance(self._begun, self._least, n)
        return None if self.cost is None else self.worth(n, self.cost)

    def counted(self, n: int, budget: Budget) -> tuple[Allowance, int] | None:
        """Return the operation limit, and the tokens of the longest sentence that fits.

        `None` if the product is too large.
        """
        cost = self.cost
        return None if cost is None else (self.worth(n, cost), most_cells(budget) // cost.cells)

    def worth(self, n: int, cost: DecodingCost) -> Allowance:
        """Return the operation limit once the cost of the product is known."""
        allowed = self._worth.get(n)
        if allowed is None:
            allowed = self._worth[n] = allowance(self._begun, cost, n)
        return allowed


def most_cells(budget: Budget | None = None) -> int:
    """Return the joint states that a budget affords; with the default budget, those that fit."""
    if budget is None or budget.states is None:
        return MOST_CELLS
    return min(CELLS * budget.states, MOST_CELLS)


# --- Best paths -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Decoder:
    """The strategy for best paths.

    Parameters
    ----------
    machine : kernel.JointChain
        The expanded part.
    conjunction : kernel.Conjunction, optional
        Acceptors whose states are created on demand.
    expansion : Expansion, optional
        The whole product, for sentences whose search does not end soon.
    budget : Budget
        Default budget of searches.
    multipliers : Multipliers, optional
        Tighter bounds for the conjunction, if they usually cost less than the product.
    """

    machine: kernel.JointChain
    conjunction: kernel.Conjunction | None = None
    expansion: Expansion | None = None
    budget: Budget = field(default_factory=Budget)
    multipliers: Multipliers | None = None

    @made_once
    def _threads(self) -> threading.local:
        return threading.local()

    def sentence_machine(self) -> kernel.SentenceMachine:
        """Return a fast finder of best paths of single sentences; each thread has one.

        It searches lazily to the end of its budget: then `paths` has further strategies.

        Raises
        ------
        ShapeError
            Sentences bring potentials other than one array of node potentials.
        """
        finder: kernel.SentenceMachine | None = getattr(self._threads, "finder", None)
        if finder is None:
            finder = self._threads.finder = kernel.SentenceMachine(self.machine, self.conjunction)
        return finder

    @property
    def lazy(self) -> bool:
        """Whether part of the grammar is not expanded."""
        return self.conjunction is not None

    def paths(
        self, bound: kernel.Bound, n: int = 1, budget: Budget | None = None
    ) -> kernel.SearchResult:
        """Return the n best paths of each sentence; `bound` is a batch under ``machine``.

        Memory is allocated for existing paths, not for n.
        """
        share = shared(self.budget if budget is None else budget)
        for some in kernel.growing(n):
            searched = self._paths(bound, some, share(1))
            if (searched.n_paths < some).all():
                break
        return searched

    def _paths(self, bound: kernel.Bound, n: int, budget: Budget | None) -> kernel.SearchResult:
        if self.conjunction is not None:
            return self._searched(bound, self.conjunction, n, budget or self.budget)
        return _proven(_over(bound, n))

    def _searched(
        self, bound: kernel.Bound, grammar: kernel.Conjunction, n: int, budget: Budget
    ) -> kernel.SearchResult:
        """Search without multipliers, with them, and where these leave a doubt by the product."""
        product, multipliers = self.expansion, self.multipliers
        if multipliers is None or budget.seconds is not None:
            return kernel.lazy_paths(bound, grammar, n, budget, stand_in=product)
        worth = int(FIRST_SEARCH * search_cost(self.machine).operations)
        allowed = Allowance(worth, worth)
        result = kernel.lazy_paths(bound, grammar, n, budget, allowance=allowed)
        rest = np.flatnonzero(result.unproven(n)).tolist()
        if not rest:
            return result
        uncertain = []
        for b, (other, certain) in zip(
            rest, multipliers.paths(bound.select(rest), n, budget), strict=True
        ):
            result.replace([b], other, bound.bounds)
            uncertain += [] if certain else [b]
        if uncertain and product is not None and product.cost is not None:
            part = bound.select(uncertain)
            other = kernel.lazy_paths(part, grammar, n, budget, stand_in=product)
            result.replace(uncertain, other, bound.bounds)
        return result


def _over(bound: kernel.Bound, n: int) -> kernel.NBestPaths:
    """Return the n best paths of the machine of a batch."""
    if n > 1:
        return kernel.nbest_paths(bound, n)
    path, score = kernel.best_paths(bound)
    return kernel.NBestPaths((score > -np.inf).astype(np.int64), score[:, None], path[None])


def _proven(paths: kernel.NBestPaths) -> kernel.SearchResult:
    size = len(paths.n_paths)
    return kernel.SearchResult(
        *(paths.n_paths, paths.n_paths, paths.score, paths.path),
        bound=np.full(size, -np.inf),
        states_expanded=np.zeros(size, dtype=np.int64),
    )


def readers(
    acceptors: Sequence[Acceptor], labels: Mapping[str, Longs]
) -> list[kernel.LazyAcceptor]:
    """Return acceptors in the form that a search reads.

    Parameters
    ----------
    acceptors : sequence of Acceptor
    labels : mapping of str to int64 [joint states]
        Label of each tape in each joint state.
    """
    places: dict[tuple[str, ...], Ints] = {}
    several = []
    for acceptor in acceptors:
        sizes = tuple(map(len, acceptor.labels))
        if acceptor.tapes not in places:
            parts = [labels[tape] for tape in acceptor.tapes]
            places[acceptor.tapes] = np.ravel_multi_index(parts, sizes).astype(np.int32)
        flat = acceptor.n_states, -1
        score = None if acceptor.score is None else acceptor.score.reshape(flat)
        several.append(
            kernel.LazyAcceptor(
                place=places[acceptor.tapes],
                target=np.ascontiguousarray(acceptor.target.reshape(flat)),
                score=None if score is None else np.ascontiguousarray(score),
                final=acceptor.final,
            )
        )
    return several


# --- Answers that a budget cut short: they are not proven, and a warning says so ------------------


_gathering: ContextVar[list[tuple[int, int]] | None] = ContextVar("_gathering", default=None)


def warn_unproven(unproven: int, answers: int) -> None:
    """Warn of answers that are not proven; no warning for 0.

    Parameters
    ----------
    unproven : int
        Number of answers that are not proven.
    answers : int
    """
    waiting = _gathering.get()
    if waiting is not None:
        waiting.append((unproven, answers))
    elif unproven:
        are = "are" if unproven > 1 else "is"
        warn(
            f"{unproven:,} of {answers:,} answers {are} the best found, not proven to be the best "
            "(Path.exact, Path.bound); a larger budget looks further",
            InexactWarning,
        )


@contextmanager
def one_warning() -> Iterator[None]:
    """Combine all warnings of the block into one."""
    counts: list[tuple[int, int]] = []
    token = _gathering.set(counts)
    try:
        yield
    finally:
        _gathering.reset(token)
    warn_unproven(sum(unproven for unproven, _ in counts), sum(answers for _, answers in counts))

"""Answers that are not proven to be the best are said to be so, once a call.

=============  =====================================================
warn_unproven  warn of answers that a search gave before its proof
gathered       one warning for all that a block of calls would warn of
=============  =====================================================
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import ContradictionError, InexactWarning, OptionError, TooLargeError
from fstcrf.grammar import Acceptor
from fstcrf.kernel import Bound, Budget, Machine, Ranked
from fstcrf.kernel.lazy import BEAM
from fstcrf.once import made_once
from fstcrf.plans.chain import (
    Axes,
    Chain,
    Coupling,
    Input,
    scaled_acceptor,
    scaled_chain,
    scaled_coupling,
)
from fstcrf.plans.folding import (
    MAX_RESIDUAL,
    Folding,
    arc_values,
    coupling_factor,
    end_potentials,
    factor_values,
    fold,
    input_factor,
    kernel_axis,
    kernel_residual,
    multiplied,
    table_factor,
)

__all__ = [
    "LAZY_FROM",
    "MAX_CELLS",
    "TRIAL",
    "Decoder",
    "Expansion",
    "Program",
    "Search",
    "gathered",
    "readers",
    "warn_unproven",
]

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


# --- The whole product in place of a lazy search that does not ------------------------------------

TRIAL = 2_048
"""States that a search may look at before the product is thought of: 5 to 10 ms.

Sentences whose own best labels are legal, or nearly so, take a state or two a token."""

CELLS = 64
"""Joint states of the product, at a token, that count as one state of a search.

In memory: a state takes up to a kilobyte, a cell of the product 16 bytes. In time a cell is cheaper
still, 15 to 40 ns against 5 to 10 µs. The usual budget of 250,000 states affords 16 million cells:
256 MB and half a second at most."""


class Expansion:
    """The product of a program, expanded when it is first needed.

    Parameters
    ----------
    program : Program
        Whose grammar is searched lazily.
    """

    def __init__(self, program: Program) -> None:
        self._program, self._lock = program, threading.Lock()
        self._machine: Machine | None = None
        self._made = False

    @property
    def machine(self) -> Machine | None:
        """The product; None where it is too large for a sentence of one token."""
        with self._lock:
            if not self._made:
                self._machine, self._made = self._expanded(), True
            return self._machine

    def _expanded(self) -> Machine | None:
        program = self._program
        with suppress(TooLargeError):
            automaton = program.automaton
            if automaton is not None and automaton.target.size <= _most(Budget()):
                return program.machine
        return None

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
        if machine is None or _cost(machine, len(bound.tokens([sentence])), n) > _most(budget):
            return None
        alone = bound.select([sentence], machine)
        if n > 1:
            return kernel.nbest_paths(alone, n)
        path, score = kernel.best_paths(alone)
        return Ranked((score > -np.inf).astype(np.int64), score[:, None], path[None])


def _cost(machine: Machine, tokens: int, n: int) -> int:
    """Return the cells that are looked at: of the product once, then along each path again."""
    return tokens * int(np.prod(machine.shape)) * (machine.n_residual + n - 1)


def _most(budget: Budget) -> int:
    """Return the cells that a budget affords; a larger budget than the usual affords no more."""
    return CELLS * min(budget.states, Budget().states)


# --- How a program finds its best paths -----------------------------------------------------------

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

    def sentence_machine(self) -> kernel.SentenceMachine:
        """Return what finds best paths of single sentences quickly; each thread has its own.

        It searches lazily to the end of its budget: `paths` has more to offer where that comes.

        Raises
        ------
        ShapeError
            Sentences bring other potentials than those of one array of states.
        """
        found: kernel.SentenceMachine | None = getattr(self._threads, "sentence_machine", None)
        if found is None:
            found = self._threads.sentence_machine = kernel.SentenceMachine(
                self.machine, self.conjunction
            )
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
            return self._searched(bound, self.conjunction, n, budget or Budget())
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
    acceptors: Sequence[Acceptor], labels: Mapping[str, NDArray[np.int64]]
) -> list[kernel.LazyAcceptor]:
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
            kernel.LazyAcceptor(
                place=places[acceptor.tapes],
                target=np.ascontiguousarray(acceptor.target.reshape(flat)),
                score=None if score is None else np.ascontiguousarray(score),
                final=acceptor.final,
            )
        )
    return found


# --- A composition compiled -----------------------------------------------------------------------

MAX_CELLS = 1 << 20
"""Joint states, residual ones included, that may be expanded."""

_TRIED, _SUMMED = 64, 256
"""States up to which a grammar is multiplied out for best paths, and for their probabilities."""

Floats = NDArray[np.float64]


class Program:
    """A compiled composition.

    Parameters
    ----------
    chains : sequence of Chain
        One a tape, names distinct.
    couplings : sequence of Coupling
    conjuncts : sequence of Acceptor
        The grammar, bound to the labels of the tapes.
    search : {"auto", "lazy", "expanded"}
        Whether best paths are found over the whole product, or lazily beside what of the grammar
        cannot be folded; auto: lazily from `LAZY_FROM` residual states on, and over the product
        where a search does not end soon and `Expansion` can afford that. Sums (log Z, marginals,
        samples) always need the whole product.

    Raises
    ------
    OptionError
        Names that are not distinct; a tape that is read but not there; tapes that read each other
        in a circle; another search.
    LabelError
        A grammar over other tapes or labels.
    TooLargeError
        More joint states than can be expanded.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        couplings: Sequence[Coupling] = (),
        conjuncts: Sequence[Acceptor] = (),
        search: Search = "auto",
    ) -> None:
        if search not in ("auto", "lazy", "expanded"):
            raise OptionError(f"search is {search!r}, expected 'auto', 'lazy' or 'expanded'")
        self.chains, self.couplings, self.search = tuple(chains), tuple(couplings), search
        self.conjuncts = tuple(conjuncts)
        self.tapes = tuple(chain.name for chain in self.chains)
        self.chain = dict(zip(self.tapes, self.chains, strict=True))
        if len(self.chain) < len(self.chains):
            raise OptionError(f"tapes need distinct names, these are {', '.join(self.tapes)}")
        self.axes = Axes(self.chain)
        self.inputs = tuple(_inputs(self.chains, self.couplings))

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.chains, self.couplings, self.conjuncts, self.search)

    @made_once
    def folding(self) -> Folding:
        """Where the conjuncts of the grammar went."""
        return fold(self.chains, self.conjuncts)

    @made_once
    def automaton(self) -> Acceptor | None:
        """The residual automaton: what could not be folded, multiplied out.

        Raises
        ------
        TooLargeError
            It has more states than can be expanded.
        """
        return self._multiplied(MAX_RESIDUAL)

    def _multiplied(self, limit: int) -> Acceptor | None:
        if not self.folding.rest:
            return None
        try:
            return multiplied(self.folding.rest, self.order, limit)
        except ContradictionError:  # beside the topology they accept nothing; what do they alone?
            return multiplied(self.folding.full, self.order, limit)

    @made_once
    def machine(self) -> kernel.Machine:
        """The composition as the kernel runs it, its grammar multiplied out: for sums.

        Raises
        ------
        TooLargeError
            A product too large to expand.
        """
        if self.automaton is None or not self.decoder.lazy:
            return self.decoder.machine
        return self._machine(self.automaton)

    @made_once
    def summable(self) -> bool:
        """Whether the product is so small that a path's probability is found along with it."""
        if not self.decoder.lazy:
            return True
        try:
            small = self._multiplied(_SUMMED)
        except TooLargeError:
            return False
        return small is not None and int(np.prod(self.shape)) * small.n_states <= MAX_CELLS

    @made_once
    def decoder(self) -> Decoder:
        """How best paths are found.

        Raises
        ------
        TooLargeError
            More joint states than can be expanded, even without the grammar.
        """
        small = None if self.search == "lazy" else self._small_automaton()
        if small is not None or not self.folding.rest:
            return Decoder(self._machine(small))
        machine = self._machine(None)
        beside = readers(self.folding.rest, self.axes.joint_labels())
        expansion = Expansion(self) if self.search == "auto" else None
        return Decoder(machine, kernel.Conjunction(machine, beside), expansion)

    def _small_automaton(self) -> Acceptor | None:
        """Return the residual automaton where it is to be expanded for best paths."""
        if self.search == "expanded":
            return self.automaton
        try:
            small = self._multiplied(_TRIED)
        except TooLargeError:
            return None
        return small if small is None or small.n_states < LAZY_FROM else None

    def _machine(self, automaton: Acceptor | None) -> kernel.Machine:
        self._check_size(1 if automaton is None else automaton.n_states)
        axes, folded = self.axes, self.folding.chains
        per_token = [input_factor(axes, what) for what in self.inputs if what.kind != "arc"]
        tables = [
            table_factor(axes, context, chain.name, value)
            for chain in self.chains
            for context, value in chain.tables
        ]
        couplings = (*self.couplings, *self.folding.couplings)
        fixed = [coupling_factor(axes, coupling) for coupling in couplings]
        residual = None
        if automaton is not None:
            last = axes.last.topology.state_label
            residual = kernel_residual(automaton, self.order, axes.outer_labels, last)
        return kernel.Machine(
            tuple(kernel_axis(axes, k, folded.get(tape)) for k, tape in enumerate(self.order)),
            (*per_token, *tables, *(f for f in fixed if f is not None)),
            residual,
            end_potentials(axes, folded, "initial"),
            end_potentials(axes, folded, "final"),
        )

    @property
    def order(self) -> tuple[str, ...]:
        """The tapes in the order of the axes."""
        return self.axes.order

    @property
    def shape(self) -> tuple[int, ...]:
        """States of each axis, in the order of the axes."""
        return self.axes.shape

    @property
    def n_residual(self) -> int:
        """States of the residual automaton, at least 1."""
        return 1 if self.automaton is None else self.automaton.n_states

    def constrained(self, conjuncts: Sequence[Acceptor]) -> Program:
        """Return the program under more conjuncts of a grammar."""
        return Program(self.chains, self.couplings, (*self.conjuncts, *conjuncts), self.search)

    def scaled(self, factor: float, *, grammar: bool) -> Program:
        """Return the program whose potentials are multiplied by a factor; −inf stays.

        Parameters
        ----------
        factor : float
        grammar : bool
            Whether the scores of grammars are multiplied, too.
        """
        conjuncts: Iterable[Acceptor] = self.conjuncts
        if grammar:
            conjuncts = (scaled_acceptor(acceptor, factor) for acceptor in conjuncts)
        return Program(
            [scaled_chain(chain, factor) for chain in self.chains],
            [scaled_coupling(coupling, factor) for coupling in self.couplings],
            tuple(conjuncts),
            self.search,
        )

    def labels(self, tape: str) -> tuple[str, ...]:
        """Return the labels of a tape."""
        return self.chain[tape].labels

    def input_shapes(self) -> list[tuple[int, ...]]:
        """Return the shape that each input has at a token."""
        shapes = []
        for what in self.inputs:
            context = self.axes.sizes(what.context)
            own = self.chain[what.tape]
            if what.kind == "coupling":
                shapes.append((len(own.labels), *context))
            else:
                width = own.topology.n_states if what.kind == "node" else own.n_kernel_arcs
                shapes.append((*context, width))
        return shapes

    def per_token(self, values: Sequence[Floats]) -> tuple[Floats, ...]:
        """Return what sentences bring as the kernel wants it.

        Parameters
        ----------
        values : sequence of float64 arrays
            One for each of ``inputs``, shapes as `Input` says, T tokens each.
        """
        given = list(zip(self.inputs, values, strict=True))
        nodes = [factor_values(self.axes, what, v) for what, v in given if what.kind != "arc"]
        arcs = {what.tape: v for what, v in given if what.kind == "arc"}
        folded = self.folding.chains
        moved = [
            arc_values(self.chain[tape], folded.get(tape), arcs[tape])
            for tape in self.order
            if tape in arcs
        ]
        return (*nodes, *moved)

    def _check_size(self, residual: int) -> None:
        cells = int(np.prod(self.shape, dtype=np.float64)) * residual
        if cells <= MAX_CELLS:
            return
        parts = " × ".join(f"{n:,} ({t})" for t, n in zip(self.order, self.shape, strict=True))
        more = f" × {residual:,} (grammar)" if residual > 1 else ""
        raise TooLargeError(
            f"the product has {cells:,} joint states at every token, {parts}{more}, more than "
            f"{MAX_CELLS:,}: compose fewer tapes, use smaller label sets or a grammar with fewer "
            "states, or decode with normalize='chain'"
        )


def _inputs(chains: Sequence[Chain], couplings: Sequence[Coupling]) -> list[Input]:
    found: list[Input] = []
    for chain in chains:
        found += [Input("node", chain.name, context) for context in chain.node_contexts]
        if chain.arc is None:
            found.append(Input("arc", chain.name, chain.arc_context))
    return found + [
        Input("coupling", c.tapes[0], c.tapes[1:]) for c in couplings if c.value is None
    ]

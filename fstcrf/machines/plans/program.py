"""A composition compiled: chains, couplings and a grammar as one machine for the kernel.

Grammar scores of neighbouring labels are folded into the arcs; the rest is expanded, or searched
lazily. `plan_of` describes the decisions.

One axis at a time. The state of a machine is a cell of a tensor: residual states × the states of
each tape. Between two tokens it is advanced axis by axis. Arcs of a tape may depend on the
*present* labels of earlier tapes, never on their previous ones. So one axis can be eliminated at a
time, and a step of two tapes costs L₁²L₂ + L₁L₂² instead of L₁²L₂². Every such step is a matrix
product in a semiring (max-plus, sum-times, log-plus), and `csrc/semiring.h` is that product, in
tiles that stay in registers. Potentials that depend on several tapes are tables with a row for each
combination of labels; an index array maps a cell to its row, so that the kernel knows neither tapes
nor labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import ContradictionError, OptionError, TooLargeError
from fstcrf.kernel import Budget, JointChain
from fstcrf.kernel.lazy import STATE_SECONDS
from fstcrf.lazy import LazyModule, made_once, memoised
from fstcrf.machines.plans.chain import (
    Axes,
    Coupling,
    Input,
    TapeChain,
    scaled_acceptor,
    scaled_chain,
    scaled_coupling,
)
from fstcrf.machines.plans.cost import DecodingCost, edges_of, product_cost, search_cost, worst_cost
from fstcrf.machines.plans.decoder import Decoder, Expansion, Search, most_cells, readers
from fstcrf.machines.plans.folding import (
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
from fstcrf.machines.plans.multipliers import Multipliers

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Acceptor
    from fstcrf.machines.plans import folds
else:  # most programs have no automaton to fold
    folds = LazyModule("fstcrf.machines.plans.folds")

LAZY_FROM = 1.8
"""Best paths are searched if the product costs more than this many times the cheapest search."""

MAX_CELLS = 1 << 20
"""Largest number of joint states, including residual ones, that are expanded."""

_TRIED, _SUMMED = 64, 256
"""Largest grammars, in states, that are expanded for best paths, and for their probabilities."""


class Program:
    """A compiled composition.

    Parameters
    ----------
    chains : sequence of TapeChain
        One a tape, names distinct.
    couplings : sequence of Coupling
    conjuncts : sequence of Acceptor
        The grammar, bound to the labels of the tapes.
    search : {"auto", "lazy", "expanded"}
        Method for best paths: over the whole product, or by lazy search in the part of the grammar
        that cannot be folded. auto: over the product if it costs at most `LAZY_FROM` times the
        cheapest search, otherwise lazily, with the product as a fallback if `Expansion` can afford
        it. Sums (log Z, marginals, samples) always need the whole product.
    budget : Budget, optional
        Default budget of lazy searches.

    Raises
    ------
    OptionError
        Names that are not distinct; a tape that is read but does not exist; tapes that read each
        other in a circle; an unknown search.
    LabelError
        A grammar over other tapes or labels.
    TooLargeError
        More joint states than can be expanded.
    """

    def __init__(
        self,
        chains: Sequence[TapeChain],
        couplings: Sequence[Coupling] = (),
        conjuncts: Sequence[Acceptor] = (),
        search: Search = "auto",
        budget: Budget | None = None,
    ) -> None:
        if search not in ("auto", "lazy", "expanded"):
            raise OptionError(f"search is {search!r}, expected 'auto', 'lazy' or 'expanded'")
        self.chains, self.couplings, self.search = tuple(chains), tuple(couplings), search
        self.conjuncts, self.budget = tuple(conjuncts), budget
        self._empty: float | None = None
        self.tapes = tuple(chain.name for chain in self.chains)
        self.chain = dict(zip(self.tapes, self.chains, strict=True))
        if len(self.chain) < len(self.chains):
            raise OptionError(f"tapes need distinct names, got {', '.join(self.tapes)}")
        self.axes = Axes(self.chain)
        self.inputs = tuple(_inputs(self.chains, self.couplings))

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.chains, self.couplings, self.conjuncts, self.search, self.budget)

    @made_once
    def empty_score(self) -> float:
        """Score of a sentence without tokens; −inf if the grammar rejects it.

        Its only labelling is the empty one. Potentials belong to tokens and labels, so only the
        grammar, and the grammars that taggers were trained under, score it.
        """
        if self._empty is not None:
            return self._empty
        if not all(chain.topology.empty for chain in self.chains):
            return -np.inf
        return float(sum(acceptor.final[0] for acceptor in self.conjuncts))

    @made_once
    def order_zero(self) -> bool:
        """Whether no succession of labels is forbidden, or has a score."""
        return not self.conjuncts and all(
            chain.arc is not None
            and len(chain.topology.source) == chain.topology.n_states**2
            and not chain.arc.any()
            for chain in self.chains
        )

    @made_once
    def folding(self) -> Folding:
        """The result of folding the grammar's conjuncts."""
        return fold(self.chains, self.conjuncts)

    @made_once
    def pairs(self) -> tuple[Program, Longs] | None:
        """The chain and its grammar as one chain of pairs, and the chain's state in each pair.

        `None` if that is slower. It is used if the caller does not select a search.
        """
        if self.search != "auto" or len(self.chains) != 1 or self.couplings:
            return None
        if len(self.folding.rest) != 1 or self.folding.couplings:
            return None
        pairs = folds.chain_of_pairs(self.chains[0], self.folding)
        if pairs is None:
            return None
        chain, state = pairs
        program = Program([chain])
        program._empty = self.empty_score
        return program, state

    @made_once
    def automaton(self) -> Acceptor | None:
        """The residual automaton: the product of the conjuncts that could not be folded.

        Raises
        ------
        TooLargeError
            It has more states than can be expanded.
        """
        small = self._small_automaton if self.search == "auto" else None
        return self._multiplied(MAX_RESIDUAL) if small is None else small

    def _multiplied(self, limit: int) -> Acceptor | None:
        if not self.folding.rest:
            return None
        try:
            return multiplied(self.folding.rest, self.order, limit)
        # together with the topology they accept nothing; what do the full conjuncts accept?
        except ContradictionError:
            return multiplied(self.folding.full, self.order, limit)

    @made_once
    def machine(self) -> kernel.JointChain:
        """The composition in the form of the kernel, with its grammar expanded: for sums.

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
        """Whether the product is small enough to compute a path's probability with the path."""
        if not self.decoder.lazy or self.pairs is not None:
            return True
        try:
            small = self._multiplied(_SUMMED)
        except TooLargeError:
            return False
        return small is not None and int(np.prod(self.shape)) * small.n_states <= MAX_CELLS

    @made_once
    def decoder(self) -> Decoder:
        """The strategy for best paths.

        Raises
        ------
        TooLargeError
            More joint states than can be expanded, even without the grammar.
        """
        if self.search == "expanded" or not self.folding.rest:
            return Decoder(self._machine(self.automaton))
        machine, expansion, small = self._unconstrained, None, None
        if self.search == "auto":
            small = self._small_automaton
            cost = self.cost(small)
            if small and cost.operations <= LAZY_FROM * search_cost(machine).operations:
                return Decoder(self._machine(small))
            expansion = Expansion(machine, cost, self._expanded_cost, self._expanded)
        residual = readers(self.folding.rest, self.axes.joint_labels())
        conjunction = kernel.Conjunction(machine, residual)
        multipliers = None if small else Multipliers.of(conjunction)
        return Decoder(machine, conjunction, expansion, self.budget or Budget(), multipliers)

    def _expanded_cost(self) -> DecodingCost | None:
        """Return the cost of the product; `None` if its automaton is too large."""
        with suppress(TooLargeError):
            if self.automaton is not None:
                return self.cost(self.automaton)
        return None

    def _expanded(self) -> JointChain | None:
        """Return the product; `None` if it cannot be expanded."""
        with suppress(TooLargeError):
            return self.machine
        return None

    @made_once
    def _small_automaton(self) -> Acceptor | None:
        with suppress(TooLargeError):
            return self._multiplied(_TRIED)
        return None

    def _machine(self, automaton: Acceptor | None) -> kernel.JointChain:
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
        return kernel.JointChain(
            tuple(
                kernel_axis(axes, k, folded.get(tape), residual=bool(self.folding.rest))
                for k, tape in enumerate(self.order)
            ),
            (*per_token, *tables, *(f for f in fixed if f is not None)),
            residual,
            end_potentials(axes, folded, "initial"),
            end_potentials(axes, folded, "final"),
            empty=self.empty_score,
        )

    def cost(self, automaton: Acceptor | None) -> DecodingCost:
        """Return the cost of best paths with an automaton; `None`: one with too many states."""
        machine = self._unconstrained
        if automaton is None:
            return product_cost(machine, _TRIED + 1, _TRIED + 1)
        last = self.order[-1] in automaton.tapes
        return product_cost(machine, automaton.n_states, edges_of(automaton), reads_last=last)

    @made_once
    def _unconstrained(self) -> JointChain:
        """The composition without the residual part of the grammar."""
        return self._machine(None)

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

    def constrained(
        self,
        conjuncts: Sequence[Acceptor],
        *,
        search: Search | None = None,
        budget: Budget | None = None,
    ) -> Program:
        """Return the program under more conjuncts of a grammar.

        Parameters
        ----------
        conjuncts : sequence of Acceptor
        search, budget
            Strategy for its best paths; unchanged if absent.
        """
        return Program(
            *(self.chains, self.couplings, (*self.conjuncts, *conjuncts)),
            search=search or self.search,
            budget=budget or self.budget,
        )

    def scaled(self, factor: float, *, grammar: bool) -> Program:
        """Return the program with potentials multiplied by a factor; −inf is unchanged.

        Parameters
        ----------
        factor : float
        grammar : bool
            Whether the scores of grammars are also multiplied.
        """
        conjuncts: Iterable[Acceptor] = self.conjuncts
        if grammar:
            conjuncts = (scaled_acceptor(acceptor, factor) for acceptor in conjuncts)
        return Program(
            [scaled_chain(chain, factor) for chain in self.chains],
            [scaled_coupling(coupling, factor) for coupling in self.couplings],
            tuple(conjuncts),
            self.search,
            self.budget,
        )

    def labels(self, tape: str) -> tuple[str, ...]:
        """Return the labels of a tape."""
        return self.chain[tape].labels

    def input_shapes(self) -> list[tuple[int, ...]]:
        """Return the shape of each input at a token."""
        shapes = []
        for what in self.inputs:
            context = self.axes.sizes(what.context)
            chain = self.chain[what.tape]
            if what.kind == "coupling":
                shapes.append((len(chain.labels), *context))
            else:
                width = chain.topology.n_states if what.kind == "node" else chain.n_kernel_arcs
                shapes.append((*context, width))
        return shapes

    def per_token(self, values: Sequence[Floats]) -> tuple[Floats, ...]:
        """Return the inputs of sentences in the form of the kernel.

        Parameters
        ----------
        values : sequence of float64 arrays
            One for each of ``inputs``, with the shapes in `Input`, T tokens each.
        """
        pairs = list(zip(self.inputs, values, strict=True))
        nodes = [factor_values(self.axes, what, v) for what, v in pairs if what.kind != "arc"]
        arcs = {what.tape: v for what, v in pairs if what.kind == "arc"}
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
        cost = cells * sum(self.shape)
        raise TooLargeError(
            f"the product has {cells:,} joint states at every token, {parts}{more}, "
            f"more than {MAX_CELLS:,}, and needs about {cost:,} operations per token: "
            "compose fewer tapes, use smaller label sets or a grammar with fewer "
            "states, or decode with normalize='chain'"
        )


@memoised(64)
def searched(program: Program, search: Search) -> Program:
    """Return the program with another search strategy, compiled once."""
    return program.constrained((), search=search) if search != program.search else program


def _inputs(chains: Sequence[TapeChain], couplings: Sequence[Coupling]) -> list[Input]:
    inputs: list[Input] = []
    for chain in chains:
        inputs += [Input("node", chain.name, context) for context in chain.node_contexts]
        if chain.arc is None:
            inputs.append(Input("arc", chain.name, chain.arc_context))
    return inputs + [
        Input("coupling", c.tapes[0], c.tapes[1:]) for c in couplings if c.value is None
    ]


# --- What was decided and what it costs, for people -----------------------------------------------


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """One step of a plan: the axis of a tape.

    Parameters
    ----------
    tape : str
    n_labels, n_states, n_arcs : int
        Arcs: number of arcs that the structure allows.
    kind : {"dense", "sparse", "rest", "arcs"}
        Method of a step: a full matrix, arc by arc, or over the arcs that differ from the rest;
        arcs: all tokens have explicit arcs.
    tables : int
        Tables of arc potentials; several if they depend on other tapes' labels.
    reads : tuple of str
        Tapes whose labels its potentials depend on.
    operations : int
        Multiply-adds of its step at a token.
    """

    tape: str
    n_labels: int
    n_states: int
    n_arcs: int
    kind: str
    tables: int
    reads: tuple[str, ...]
    operations: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions about a composition, and their costs.

    Parameters
    ----------
    axes : tuple of AxisPlan
        In the order in which they are advanced.
    grammar : tuple of (str, str)
        Each conjunct and its destination.
    n_residual, n_edges : int
        States and edges of the residual automaton for best paths; 1 and 0 without one.
    n_lazy : int
        Conjuncts of the grammar whose states are created on demand in searches for best paths; sums
        need them expanded.
    n_expanded : int
        States of the residual automaton of the product that is the fallback of searches; 0: no
        product.
    longest : int
        Tokens of the longest sentence that the product can decode.
    least, most : int
        Estimated nanoseconds a token of a best path: if the best labels are legal, and at worst.
        Without a product, a search may take more than `most`, until its budget ends.
    states : int
        States of a sentence that a search without a product may expand.
    cells : int
        Joint states at a token, residual ones included.
    operations : int
        Multiply-adds a token, potentials included.
    dense_operations : int
        Multiply-adds of a product without factoring.
    notes : tuple of str
        Further remarks, a line each.
    """

    axes: tuple[AxisPlan, ...]
    grammar: tuple[tuple[str, str], ...]
    n_residual: int
    n_edges: int
    cells: int
    operations: int
    dense_operations: int
    n_lazy: int = 0
    notes: tuple[str, ...] = ()
    n_expanded: int = 0
    longest: int = 0
    least: int = 0
    most: int = 0
    states: int = 0

    def __str__(self) -> str:
        lines = [
            f"{'tape':<12} {'labels':>7} {'states':>7} {'arcs':>9}  {'step':<7} {'operations':>12}"
        ]
        for a in self.axes:
            step = f"{a.tape:<12} {a.n_labels:>7,} {a.n_states:>7,} {a.n_arcs:>9,}  {a.kind:<7} "
            reads = f"  reads {', '.join(a.reads)}" if a.reads else ""
            lines.append(f"{step}{a.operations:>12,}{reads}")
        lines += [f"grammar: {name}: {where}" for name, where in self.grammar]
        if self.n_residual > 1:
            lines.append(
                f"residual automaton: {self.n_residual:,} states, {self.n_edges:,} edges; "
                f"multiplies the cost by {self.n_residual:,}"
            )
        if self.n_lazy:
            lines += self._searched()
        lines.append(f"joint states a token: {self.cells:,}")
        factored = f" (not factored: {self.dense_operations:,})" if len(self.axes) > 1 else ""
        lines.append(f"operations a token: {self.operations:,}{factored}")
        return "\n".join([*lines, *self.notes])

    def _searched(self) -> list[str]:
        first = (
            f"searched lazily: {self.n_lazy} automata; best paths cost about what they cost "
            "without them"
        )
        worst = (
            f"{self.states:,} states a sentence, about {STATE_SECONDS * self.states:.2g} s, then "
            "the best labels found are given"
        )
        if self.n_expanded:
            worst = (
                f"{self.most:,} ns over the product of {self.n_expanded:,} states "
                f"(up to {self.longest:,} tokens)"
            )
        return [first, f"counted for a token: {self.least:,} ns; at worst {worst}"]


def plan_of(program: Program) -> Plan:
    """Return the plan of a program."""
    if program.pairs is not None:
        names = program.folding.names
        acceptor, *_ = program.folding.rest
        went = f"folded into pairs of a label and one of its {acceptor.n_states} states"
        grammar = tuple((n, went if n == acceptor.name else place) for n, place in names)
        return replace(plan_of(program.pairs[0]), grammar=grammar)
    decoder = program.decoder
    machine, residual = decoder.machine, decoder.machine.n_residual
    cells = int(np.prod(machine.shape)) * residual
    axes = []
    for tape, axis in zip(program.order, machine.axes, strict=True):
        chain = program.chain[tape]
        per_cell = axis.n_stepped / axis.n_states
        axes.append(
            AxisPlan(
                tape=tape,
                n_labels=len(chain.labels),
                n_states=axis.n_states,
                n_arcs=axis.n_arcs,
                kind=axis.kind,
                tables=axis.contexts,
                reads=chain.reads,
                operations=round(cells * per_cell),
            )
        )
    edges = 0 if machine.residual is None else len(machine.residual.source)
    plane = cells // residual
    operations = sum(a.operations for a in axes) + edges * plane + len(machine.factors) * plane
    arcs = int(np.prod([a.n_arcs for a in axes], dtype=np.float64)) * residual
    plan = Plan(tuple(axes), program.folding.names, residual, edges, cells, operations, arcs)
    return _with_search(plan, program)


def _with_search(plan: Plan, program: Program) -> Plan:
    """Return a plan with the strategy for best paths, and its cost."""
    decoder = program.decoder
    if decoder.conjunction is None:
        automaton = program.automaton
        product = product_cost(decoder.machine) if automaton is None else program.cost(automaton)
        return replace(plan, least=int(product.operations), most=int(product.operations))
    begun = search_cost(decoder.machine).operations
    least = int(begun)
    costed = replace(plan, n_lazy=len(decoder.conjunction.readers), least=least, most=least)
    cost = None if decoder.expansion is None else decoder.expansion.cost
    if cost is None:
        return replace(costed, states=decoder.budget.most_states)
    return replace(
        costed,
        n_expanded=program.n_residual,
        longest=most_cells(program.budget) // cost.cells,
        most=worst_cost(begun, cost),
    )

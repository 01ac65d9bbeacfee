"""A composition compiled: chains, couplings and a grammar as one machine for the kernel.

Axes are the tapes, in the order given as far as every tape comes after those it reads. Grammars are
folded into arcs where they can be (`folding`) and multiplied out to one residual automaton where
they cannot (`residual`). What a sentence brings is listed in ``inputs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import ContradictionError, OptionError, TooLargeError
from fstcrf.grammar import Acceptor
from fstcrf.plans.chain import Chain, Coupling, Input
from fstcrf.plans.decoder import LAZY_FROM, Decoder, Search, readers
from fstcrf.plans.folding import Folding, arc_ends, fold
from fstcrf.plans.residual import MAX_RESIDUAL, kernel_residual, multiplied

__all__ = ["MAX_CELLS", "Program", "scaled"]

MAX_CELLS = 1 << 20
"""Joint states, residual ones included, that may be expanded."""

_TRIED, _SUMMED = 64, 256
"""States up to which a grammar is multiplied out for best paths, and for their probabilities."""

# A dense step handles several arcs in the time of one sparse arc (measured: 4 to 9).
_DENSE_ADVANTAGE = 5

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


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
        cannot be folded; auto: lazily from `LAZY_FROM` residual states on. Sums (log Z, marginals,
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
        self.order = _sorted_tapes(self.chains)
        self.inputs = tuple(_inputs(self.chains, self.couplings))

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.chains, self.couplings, self.conjuncts, self.search)

    @cached_property
    def folding(self) -> Folding:
        """Where the conjuncts of the grammar went."""
        return fold(self.chains, self.conjuncts)

    @cached_property
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

    @cached_property
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

    @cached_property
    def summable(self) -> bool:
        """Whether the product is so small that a path's probability is found along with it."""
        if not self.decoder.lazy:
            return True
        try:
            small = self._multiplied(_SUMMED)
        except TooLargeError:
            return False
        return small is not None and int(np.prod(self.shape)) * small.n_states <= MAX_CELLS

    @cached_property
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
        states = np.indices(self.shape).reshape(len(self.order), -1)
        labels = {
            t: self.chain[t].topology.state_label[s].astype(np.int64)
            for t, s in zip(self.order, states, strict=True)
        }
        return Decoder(machine, kernel.Conjunction(machine, readers(self.folding.rest, labels)))

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
        axes = tuple(self._axis(k) for k in range(len(self.order)))
        moving = [self._node_factor(i) for i in self.inputs if i.kind != "arc"]
        tables = [
            self._factor(context, chain.name, value)
            for chain in self.chains
            for context, value in chain.tables
        ]
        fixed = [self._coupling_factor(c) for c in (*self.couplings, *self.folding.couplings)]
        residual = None
        if automaton is not None:
            last = self._axis_chain(-1).topology.state_label
            residual = kernel_residual(automaton, self.order, self._outer_labels, last)
        return kernel.Machine(
            axes,
            (*moving, *tables, *(f for f in fixed if f is not None)),
            residual,
            self._end_potentials("initial"),
            self._end_potentials("final"),
        )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """States of each axis, in the order of the axes."""
        return tuple(self.chain[t].topology.n_states for t in self.order)

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
        conjuncts = self.conjuncts
        if grammar:
            conjuncts = tuple(
                replace(
                    a,
                    score=None if a.score is None else scaled(a.score, factor),
                    final=scaled(a.final, factor),
                )
                for a in conjuncts
            )
        return Program(
            [
                replace(
                    c,
                    initial=scaled(c.initial, factor),
                    final=scaled(c.final, factor),
                    arc=None if c.arc is None else scaled(c.arc, factor),
                    tables=tuple((t, scaled(v, factor)) for t, v in c.tables),
                )
                for c in self.chains
            ],
            [
                replace(c, value=None if c.value is None else scaled(c.value, factor))
                for c in self.couplings
            ],
            conjuncts,
            self.search,
        )

    def labels(self, tape: str) -> tuple[str, ...]:
        """Return the labels of a tape."""
        return self.chain[tape].labels

    def input_shapes(self) -> list[tuple[int, ...]]:
        """Return the shape that each input has at a token."""
        shapes = []
        for what in self.inputs:
            context = tuple(len(self.labels(t)) for t in what.context)
            own = self.chain[what.tape]
            if what.kind == "coupling":
                shapes.append((len(own.labels), *context))
            else:
                width = own.topology.n_states if what.kind == "node" else own.n_kernel_arcs
                shapes.append((*context, width))
        return shapes

    def moving(self, values: Sequence[Floats]) -> tuple[Floats, ...]:
        """Return what sentences bring as the kernel wants it.

        Parameters
        ----------
        values : sequence of float64 arrays
            One for each of ``inputs``, shapes as `Input` says, T tokens each.
        """
        nodes = [
            self._node_values(i, v)
            for i, v in zip(self.inputs, values, strict=True)
            if i.kind != "arc"
        ]
        arcs = {i.tape: v for i, v in zip(self.inputs, values, strict=True) if i.kind == "arc"}
        return (*nodes, *(self._arc_values(t, arcs[t]) for t in self.order if t in arcs))

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

    # --- Axes ---------------------------------------------------------------------------------

    def _axis_chain(self, k: int) -> Chain:
        return self.chain[self.order[k]]

    def _axis(self, k: int) -> kernel.Axis:
        chain = self._axis_chain(k)
        topology = chain.topology
        contexts = int(np.prod([len(self.labels(t)) for t in chain.arc_context], dtype=np.int64))
        place = self._label_place(chain.arc_context, k)
        score = None
        if chain.arc is not None:
            score = self._with_folded(chain, chain.arc.reshape(contexts, -1))
        source = target = None
        kept = self._kept_arcs(chain)
        if kept is not None:
            ends = arc_ends(topology)
            source, target = (e[kept].astype(np.int32) for e in ends)
            score = None if score is None else np.ascontiguousarray(score[:, kept])
        return kernel.Axis(topology.n_states, source, target, score, place, contexts)

    def _kept_arcs(self, chain: Chain) -> NDArray[np.int64] | None:
        """Return the arcs of a sparse axis; None where a full matrix is faster."""
        topology = chain.topology
        folded = self.folding.chains.get(chain.name)
        legal = np.ones(chain.n_kernel_arcs, dtype=bool)
        if topology.dense:
            legal[:] = False
            legal[topology.kernel_arcs()] = True
        if folded is not None:
            legal &= folded.arc > -np.inf
        if not legal.any():
            return None if topology.dense else np.arange(1)
        if topology.dense and topology.n_states**2 <= _DENSE_ADVANTAGE * legal.sum():
            return None
        return np.flatnonzero(legal)

    def _with_folded(self, chain: Chain, arcs: Floats) -> Floats:
        folded = self.folding.chains.get(chain.name)
        return np.ascontiguousarray(arcs) if folded is None else arcs + folded.arc

    def _arc_values(self, tape: str, values: Floats) -> Floats:
        chain = self.chain[tape]
        flat = self._with_folded(chain, values.reshape(len(values), -1, chain.n_kernel_arcs))
        kept = self._kept_arcs(chain)
        return np.ascontiguousarray(flat if kept is None else flat[:, :, kept])

    # --- Places -------------------------------------------------------------------------------

    def _states_at(self, k: int) -> list[NDArray[np.int64]]:
        """Return the states of the first k axes at every outer index of axis k."""
        return [s.reshape(-1) for s in np.indices(self.shape[:k])] if k else []

    @cached_property
    def _outer_labels(self) -> dict[str, Ints]:
        """Label of every tape but the last at every outer index."""
        states = self._states_at(len(self.order) - 1)
        return {
            t: self.chain[t].topology.state_label[s]
            for t, s in zip(self.order, states, strict=False)
        }

    def _label_place(self, context: tuple[str, ...], k: int) -> Ints | None:
        """Return which combination of labels an outer index of axis k has."""
        if not context:
            return None
        states = dict(zip(self.order, self._states_at(k), strict=False))
        labels = [self.chain[t].topology.state_label[states[t]] for t in context]
        sizes = [len(self.labels(t)) for t in context]
        return np.ravel_multi_index(labels, sizes).astype(np.int32)

    def _owner(self, tapes: Sequence[str]) -> str:
        """Return the tape that comes last among the axes."""
        return max(tapes, key=self.order.index)

    # --- Factors ------------------------------------------------------------------------------

    def _factor(self, context: tuple[str, ...], owner: str, value: Floats | None) -> kernel.Factor:
        """Return node potentials [L of the context, ..., S of the owner]."""
        sizes = [len(self.labels(t)) for t in context]
        states = self.chain[owner].topology.n_states
        rows = int(np.prod(sizes, dtype=np.int64))
        last = len(self.order) - 1
        if owner == self.order[-1]:
            place = self._label_place(context, last)
            table = None if value is None else value.reshape(rows, states)
            return kernel.Factor(rows, states, place, _contiguous(table))
        own = self._states_at(last)[self.order.index(owner)]
        labels = [self._outer_labels[t] for t in context]
        place = np.ravel_multi_index([*labels, own], [*sizes, states]).astype(np.int32)
        table = None if value is None else value.reshape(rows * states, 1)
        return kernel.Factor(rows * states, 1, place, _contiguous(table))

    def _node_factor(self, what: Input) -> kernel.Factor:
        context, owner, _ = self._arranged(what)
        return self._factor(context, owner, None)

    def _arranged(self, what: Input) -> tuple[tuple[str, ...], str, tuple[int, ...]]:
        """Return context, owner and the order of the array's axes (behind the first)."""
        if what.kind == "node":
            n = len(what.context)
            return what.context, what.tape, tuple(range(n + 1))
        tapes = (what.tape, *what.context)
        owner = self._owner(tapes)
        context = tuple(t for t in tapes if t != owner)
        return context, owner, tuple(tapes.index(t) for t in (*context, owner))

    def _node_values(self, what: Input, values: Floats) -> Floats:
        _, owner, order = self._arranged(what)
        topology = self.chain[owner].topology
        if what.kind == "coupling":
            values = values.transpose(0, *(a + 1 for a in order))
            values = values[..., topology.state_label]
        flat = values.reshape(len(values), -1, topology.n_states)
        if owner != self.order[-1]:
            flat = flat.reshape(len(values), -1, 1)
        return np.ascontiguousarray(flat)

    def _coupling_factor(self, coupling: Coupling) -> kernel.Factor | None:
        if coupling.value is None:
            return None
        what = Input("coupling", coupling.tapes[0], coupling.tapes[1:])
        context, owner, order = self._arranged(what)
        value = coupling.value.transpose(order)[..., self.chain[owner].topology.state_label]
        return self._factor(context, owner, value)

    def _end_potentials(self, end: str) -> Floats:
        """Return the potentials of beginning (or ending) in every joint state, [outer, S]."""
        total = np.zeros(self.shape)
        for k, tape in enumerate(self.order):
            chain = self.chain[tape]
            value = getattr(chain, end)
            folded = self.folding.chains.get(tape)
            if folded is not None:
                value = value + getattr(folded, end)
            total = total + value.reshape([-1 if a == k else 1 for a in range(len(self.shape))])
        return np.ascontiguousarray(total.reshape(-1, self.shape[-1]))


def scaled(potentials: Floats, factor: float) -> Floats:
    """Return potentials times a factor; what is forbidden stays forbidden."""
    never = np.isneginf(potentials)
    return np.where(never, -np.inf, factor * np.where(never, 0.0, potentials))


def _contiguous(values: Floats | None) -> Floats | None:
    return None if values is None else np.ascontiguousarray(values)


def _inputs(chains: Sequence[Chain], couplings: Sequence[Coupling]) -> list[Input]:
    found: list[Input] = []
    for chain in chains:
        found += [Input("node", chain.name, context) for context in chain.node_contexts]
        if chain.arc is None:
            found.append(Input("arc", chain.name, chain.arc_context))
    return found + [
        Input("coupling", c.tapes[0], c.tapes[1:]) for c in couplings if c.value is None
    ]


def _sorted_tapes(chains: Sequence[Chain]) -> tuple[str, ...]:
    """Return the tapes in their order, but each after those it reads."""
    waiting = {chain.name: chain for chain in chains}
    for chain in chains:
        missing = set(chain.reads) - waiting.keys()
        if missing:
            raise OptionError(
                f"the tape {chain.name!r} reads {', '.join(map(repr, sorted(missing)))}, which is "
                "not part of the composition"
            )
    order: list[str] = []
    while waiting:
        ready = [t for t, c in waiting.items() if not set(c.reads) & waiting.keys()]
        if not ready:
            raise OptionError(f"tapes read each other in a circle: {', '.join(waiting)}")
        order.append(ready[0])
        del waiting[ready[0]]
    return tuple(order)

"""The parts of a composition: the chains of its tapes and the couplings between them.

=========  ====================================================================
TapeChain  one tape: a topology with the potentials that all sentences share
Coupling   potentials of the labels that several tapes have at one token
Input      an array of potentials that every sentence brings
=========  ====================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import OptionError
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Acceptor

Context = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TapeChain:
    """One tape of a composition.

    Parameters
    ----------
    name : str
        Name of the tape.
    topology : Topology
    initial, final : float64 [S]
        Potentials of beginning and ending in a state; −inf forbids.
    arc : float64 [L of the arc context, ..., kernel arcs], optional
        Potentials of the arcs, in the kernel's order; `None`: every sentence brings its own.
    arc_context : tuple of str
        Tapes whose labels at the same token select a table of arc potentials.
    node_contexts : tuple of tuple of str
        For each array of node potentials that a sentence brings, the tapes whose labels it depends
        on; the first is ().
    tables : tuple of (tuple of str, float64 [L, ..., S])
        Node potentials that all tokens share, with the tapes they depend on.
    """

    name: str
    topology: Topology
    initial: Floats
    final: Floats
    arc: Floats | None
    arc_context: Context = ()
    node_contexts: tuple[Context, ...] = ((),)
    tables: tuple[tuple[Context, Floats], ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the tape."""
        return self.topology.labels

    @property
    def reads(self) -> tuple[str, ...]:
        """Tapes that its potentials depend on."""
        contexts = (self.arc_context, *self.node_contexts, *(c for c, _ in self.tables))
        return tuple(dict.fromkeys(tape for context in contexts for tape in context))

    @property
    def n_kernel_arcs(self) -> int:
        """Number of arcs in the kernel's order."""
        return self.topology.n_states**2 if self.topology.dense else len(self.topology.source)


@dataclass(frozen=True, eq=False)
class Coupling:
    """Potentials of combinations of labels that tapes have at one token.

    Parameters
    ----------
    tapes : tuple of str
    value : float64 [L of each tape], optional
        `None`: every sentence brings its own.
    """

    tapes: tuple[str, ...]
    value: Floats | None


@dataclass(frozen=True, slots=True)
class Input:
    """An array of potentials that every sentence brings.

    Parameters
    ----------
    kind : {"node", "arc", "coupling"}
        node: [T, L of the context, ..., S]; arc: [T, L of the context, ..., kernel arcs], row t for
        the arcs into token t; coupling: [T, L of each tape].
    tape : str
        Tape of the potentials; the first tape of a coupling.
    context : tuple of str
        Tapes whose labels they depend on; the other tapes of a coupling.
    """

    kind: Literal["node", "arc", "coupling"]
    tape: str
    context: Context = ()


# --- Potentials times a factor --------------------------------------------------------------------


def scaled(potentials: Floats, factor: float) -> Floats:
    """Return potentials times a factor; −inf remains −inf."""
    never = np.isneginf(potentials)
    with np.errstate(over="ignore"):  # the kernel reports overflow
        return np.where(never, -np.inf, factor * np.where(never, 0.0, potentials))


def scaled_chain(chain: TapeChain, factor: float) -> TapeChain:
    """Return a chain with its potentials times a factor."""
    return replace(
        chain,
        initial=scaled(chain.initial, factor),
        final=scaled(chain.final, factor),
        arc=None if chain.arc is None else scaled(chain.arc, factor),
        tables=tuple((context, scaled(value, factor)) for context, value in chain.tables),
    )


def scaled_coupling(coupling: Coupling, factor: float) -> Coupling:
    """Return a coupling with its potentials times a factor."""
    value = coupling.value
    return replace(coupling, value=None if value is None else scaled(value, factor))


def scaled_acceptor(acceptor: Acceptor, factor: float) -> Acceptor:
    """Return an acceptor with its scores times a factor."""
    score = None if acceptor.score is None else scaled(acceptor.score, factor)
    return replace(acceptor, score=score, final=scaled(acceptor.final, factor))


# --- The tapes of a composition as axes of a machine ----------------------------------------------


def reading_order(reads: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return tapes in their order, but each after the tapes it reads.

    Parameters
    ----------
    reads : mapping of str to names
        The tapes that each tape reads.

    Raises
    ------
    OptionError
        Tapes that read each other in a circle, or a tape that does not exist.
    """
    order: list[str] = []
    while len(order) < len(reads):
        waiting = [tape for tape in reads if tape not in order]
        ready = next((tape for tape in waiting if set(reads[tape]) <= set(order)), None)
        if ready is None:
            raise OptionError(f"the tapes {', '.join(waiting)} read each other in a cycle")
        order.append(ready)
    return tuple(order)


class Axes:
    """The tapes of a composition, in the order of the machine's axes.

    Parameters
    ----------
    chain : mapping of str to TapeChain
        By tape; each tape follows the tapes it reads, otherwise in the order of the mapping.

    Raises
    ------
    OptionError
        A tape that is read but does not exist; tapes that read each other in a circle.
    """

    def __init__(self, chain: Mapping[str, TapeChain]) -> None:
        self.chain = chain
        for name, one in chain.items():
            missing = set(one.reads) - chain.keys()
            if missing:
                raise OptionError(
                    f"the tape {name!r} reads {', '.join(map(repr, sorted(missing)))}, which is "
                    "not part of the composition"
                )
        self.order = reading_order({name: one.reads for name, one in chain.items()})

    @made_once
    def shape(self) -> tuple[int, ...]:
        """States of each axis."""
        return tuple(self.chain[tape].topology.n_states for tape in self.order)

    @property
    def last(self) -> TapeChain:
        """The chain of the last axis."""
        return self.chain[self.order[-1]]

    def owner(self, tapes: Sequence[str]) -> str:
        """Return the tape with the last axis."""
        return max(tapes, key=self.order.index)

    def sizes(self, context: Sequence[str]) -> tuple[int, ...]:
        """Return the number of labels of each tape."""
        return tuple(len(self.chain[tape].labels) for tape in context)

    def states_before(self, k: int) -> list[Longs]:
        """Return the states of the first k axes at every outer index of axis k."""
        return [s.reshape(-1) for s in np.indices(self.shape[:k])] if k else []

    @made_once
    def outer_labels(self) -> dict[str, Ints]:
        """Label of every tape but the last at every outer index of the last."""
        states = self.states_before(len(self.order) - 1)
        return {
            tape: self.chain[tape].topology.state_label[s]
            for tape, s in zip(self.order, states, strict=False)
        }

    def joint_labels(self) -> dict[str, Longs]:
        """Return the label of every tape in every joint state."""
        states = np.indices(self.shape).reshape(len(self.order), -1)
        return {
            tape: self.chain[tape].topology.state_label[s].astype(np.int64)
            for tape, s in zip(self.order, states, strict=True)
        }

    def label_place(self, context: Sequence[str], k: int) -> Ints | None:
        """Return the combination of labels at each outer index of axis k; `None`: no context."""
        if not context:
            return None
        states = dict(zip(self.order, self.states_before(k), strict=False))
        labels = [self.chain[t].topology.state_label[states[t]] for t in context]
        return np.ravel_multi_index(labels, self.sizes(context)).astype(np.int32)

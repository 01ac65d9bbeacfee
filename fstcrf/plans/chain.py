"""What a composition is made of: the chains of its tapes and what couples them.

========  ====================================================================
Chain     one tape: a topology with the potentials that all sentences share
Coupling  potentials of the labels that several tapes have at one token
Input     an array of potentials that every sentence brings
========  ====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.topology import Topology

__all__ = ["Chain", "Coupling", "Input"]

Floats = NDArray[np.float64]
Context = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """One tape of a composition.

    Parameters
    ----------
    name : str
        Of the tape.
    topology : Topology
    initial, final : float64 [S]
        Potentials of beginning and ending in a state; −inf forbids.
    arc : float64 [L of the arc context, ..., kernel arcs], optional
        Potentials of the arcs, as the topology numbers them for the kernel; None: every sentence
        brings its own.
    arc_context : tuple of str
        Tapes whose labels at the same token choose among tables of arc potentials.
    node_contexts : tuple of tuple of str
        For each array of node potentials that a sentence brings, the tapes whose labels it depends
        on; the first is (), its own.
    tables : tuple of (tuple of str, float64 [L, ..., S])
        Node potentials that all tokens share, and the tapes they depend on.
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
        """Arcs as the kernel numbers them."""
        return self.topology.n_states**2 if self.topology.dense else len(self.topology.source)


@dataclass(frozen=True, eq=False)
class Coupling:
    """Potentials of the labels that tapes have at one token.

    Parameters
    ----------
    tapes : tuple of str
    value : float64 [L of each tape], optional
        None: every sentence brings its own.
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
        Whose potentials they are; the first tape of a coupling.
    context : tuple of str
        Tapes whose labels they depend on; the other tapes of a coupling.
    """

    kind: Literal["node", "arc", "coupling"]
    tape: str
    context: Context = ()

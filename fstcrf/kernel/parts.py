"""What a machine is put together from: arrays with their sizes, not checked.

========  ==========================================================
Axis      one tape's chain: its states, arcs and arc potentials
Factor    potentials that are added at every token
Residual  a deterministic automaton over the labels of a token
========  ==========================================================

Tables that depend on other tapes' labels have several rows; ``place`` says which row belongs to an
outer index. What is None here is *moving*: it comes with the batch, one table a token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Axis", "Factor", "Residual"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
    """One tape's chain.

    Parameters
    ----------
    n_states : int
    source, target : int32 [A], optional
        Ends of the arcs, sorted by source, then target. Without them every pair of states is an
        arc, number ``i * n_states + j`` from i to j.
    score : float64 [contexts, arcs], optional
        Potential of each arc; None: moving, [N, contexts, arcs], row n for the arcs into token n.
    place : int32 [product of the earlier axes' states], optional
        Context of an outer index; None: the first.
    contexts : int
        Tables of arc potentials.
    """

    n_states: int
    source: Ints | None = None
    target: Ints | None = None
    score: Floats | None = None
    place: Ints | None = None
    contexts: int = 1

    @property
    def n_arcs(self) -> int:
        """Number of arcs."""
        return self.n_states**2 if self.source is None else len(self.source)


@dataclass(frozen=True, eq=False, slots=True)
class Factor:
    """Potentials that are added at every token.

    Parameters
    ----------
    rows : int
    width : int
        States of the last axis, or 1 where they are the same for all of them.
    place : int32 [outer], optional
        Row of an outer index; None: the first.
    value : float64 [rows, width], optional
        None: moving, [N, rows, width].
    """

    rows: int
    width: int
    place: Ints | None = None
    value: Floats | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Residual:
    """A deterministic automaton that reads the labels of every token.

    Parameters
    ----------
    n_states : int
        Q.
    source, target : int32 [E]
        Ends of the edges, sorted by source.
    rows, width, place
        As in `Factor`.
    value : float64 [E, rows, width]
        Score of taking the edge with these labels; −inf: another edge, or none.
    initial, final : float64 [Q]
        Before the first token, after the last.
    """

    n_states: int
    source: Ints
    target: Ints
    rows: int
    width: int
    value: Floats
    initial: Floats
    final: Floats
    place: Ints | None = None

"""A chain lattice as a machine: one copy of its states for each token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ShapeError
from fstcrf.openfst.machine import Machine, connect

__all__ = ["sausage_machine"]

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


def sausage_machine(
    node: Floats,
    arcs: Floats,
    initial: Floats,
    final: Floats,
    *,
    source: Ints | None = None,
    target: Ints | None = None,
    state_label: Ints | None = None,
    symbols: tuple[str, ...] | None = None,
) -> Machine:
    """Return the machine of one sentence's lattice, without what lies on no path.

    Its states are the start and, token by token, those of the chain; an arc carries the label of
    the state that it leads to, and the potentials of both.

    Parameters
    ----------
    node : float64 [T, S]
        Potentials of the states.
    arcs : float64 [A] or [T, A]
        Potentials of the arcs, the same for all tokens or those of the arcs into each token (the
        first row is not read).
    initial, final : float64 [S]
        Potentials of the first and the last state.
    source, target : int32 [A], optional
        Ends of the arcs; arc ``i * S + j`` leads from i to j when absent.
    state_label : int32 [S], optional
        Label of each state, its own number when absent. Label k is the symbol k + 1.
    symbols : tuple of str, optional
        Attached to both sides.

    Raises
    ------
    ShapeError
        Sizes that disagree.
    NumericError
        NaN or +inf.
    """
    tokens, states = node.shape
    ends = _ends(states, source, target)
    n_arcs = len(ends[0])
    if arcs.shape not in ((n_arcs,), (tokens, n_arcs)) or {initial.shape, final.shape} != {
        (states,)
    }:
        found = [list(array.shape) for array in (node, arcs, initial, final)]
        raise ShapeError(f"node, arcs, initial and final are {found}: they do not fit together")
    if not tokens:
        nothing = np.empty(0, dtype=np.int32)
        empty = (nothing, nothing, nothing, nothing, np.empty(0), np.zeros(1))
        return Machine(0, *empty, symbols, symbols)
    label = np.arange(states, dtype=np.int32) if state_label is None else state_label
    into = np.arange(1, tokens, dtype=np.int32)[:, None]  # tokens that arcs lead into
    score = arcs[1:] if arcs.ndim == 2 else arcs
    read = np.concatenate([label, np.tile(label[ends[1]], tokens - 1)]) + np.int32(1)
    first = np.arange(states, dtype=np.int32)
    last = np.full(1 + tokens * states, -np.inf)
    last[-states:] = final
    machine = Machine(
        start=0,
        source=np.concatenate([0 * first, ((into - 1) * states + ends[0] + 1).reshape(-1)]),
        target=np.concatenate([first + 1, (into * states + ends[1] + 1).reshape(-1)]),
        ilabel=read,
        olabel=read,
        score=np.concatenate([initial + node[0], (score + node[1:, ends[1]]).reshape(-1)]),
        final=last,
        isymbols=symbols,
        osymbols=symbols,
    )
    return connect(machine)


def _ends(states: int, source: Ints | None, target: Ints | None) -> tuple[Ints, Ints]:
    if (source is None) != (target is None):
        raise ShapeError("source and target go together: one of them is missing")
    if source is not None and target is not None:
        return source, target
    every = np.arange(states, dtype=np.int32)
    return np.repeat(every, states), np.tile(every, states)

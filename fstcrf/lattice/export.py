"""Lattices as machines of OpenFst: every joint state of every token written out.

A lattice of several tapes becomes an acceptor whose symbols name one label of each tape, as in
``NN|B-NP``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import MissingDependencyError, TooLargeError
from fstcrf.lattice.lattice import Lattice
from fstcrf.lattice.table import lattice_table
from fstcrf.openfst import Machine, att_text, sausage_machine, svg, symbols, to_fst

if TYPE_CHECKING:
    import pynini

__all__ = [
    "JointArrays",
    "drawn",
    "joint_arrays",
    "joint_nodes",
    "lattice_att",
    "lattice_fst",
    "lattice_machine",
]

Floats = NDArray[np.float64]

_MAX_ARCS = 30_000_000


def lattice_fst(lattice: Lattice, arc_type: str) -> pynini.Fst:
    """Return a lattice as a pynini machine; see `Lattice.to_fst`."""
    found: pynini.Fst = to_fst(lattice_machine(lattice), arc_type)  # type: ignore[arg-type]
    return found


def lattice_att(lattice: Lattice) -> str:
    """Return a lattice as AT&T text; see `Lattice.to_att`."""
    return att_text(lattice_machine(lattice), acceptor=True)


def drawn(lattice: Lattice) -> str:
    """Return SVG where graphviz is installed, else a table; see `Lattice.draw`."""
    try:
        return svg(lattice_machine(lattice))
    except MissingDependencyError:
        return lattice_table(lattice)


def lattice_machine(lattice: Lattice) -> Machine:
    """Return a lattice as flat arrays: states, arcs, scores.

    Raises
    ------
    TooLargeError
        More arcs than memory should be asked for.
    """
    _check_size(lattice, max(len(lattice) - 1, 0))
    joint = joint_arrays(lattice)
    flat = joint.step.reshape(len(joint.step), -1)
    return sausage_machine(
        np.ascontiguousarray(joint.node),
        np.ascontiguousarray(flat if joint.moving else flat[0]),
        np.ascontiguousarray(joint.initial),
        np.ascontiguousarray(joint.final),
        state_label=joint.label.astype(np.int32),
        symbols=symbols(["|".join(parts) for parts in joint.names]),
    )


@dataclass(frozen=True, slots=True)
class JointArrays:
    """A lattice multiplied out: S joint states, each of a legal history of all tapes.

    Parameters
    ----------
    node : float64 [T, S]
    step : float64 [1 or T, S, S]
        Potentials of arcs, from row to column, into each token where they move.
    initial, final : float64 [S]
    label : int64 [S]
        Joint label of each state.
    names : list of tuple of str
        The labels of the tapes, in their order, for each joint label.
    moving : bool
    """

    node: Floats
    step: Floats
    initial: Floats
    final: Floats
    label: NDArray[np.int64]
    names: list[tuple[str, ...]]
    moving: bool


def joint_arrays(lattice: Lattice) -> JointArrays:
    """Return a lattice multiplied out.

    Raises
    ------
    TooLargeError
        More arcs than memory should be asked for.
    """
    machine = lattice.program.machine
    moving = any(axis.score is None for axis in machine.axes)
    _check_size(lattice, len(lattice) if moving else 1)
    factors, axes = _values(lattice)
    node = _node(machine, factors, len(lattice))
    step = _joint_arcs(machine, axes)
    initial, final = machine.initial.reshape(-1), machine.final.reshape(-1)
    label, names = _joint_labels(lattice)
    if machine.residual is not None:
        node, step, initial, final = _with_residual(machine, node, step, initial, final)
        label = np.tile(label, machine.n_residual)
    return JointArrays(node, step, initial, final, label, names, moving)


def joint_nodes(lattice: Lattice) -> Floats:
    """Return the potentials of joint states alone, float64 [T, S], as in `JointArrays`."""
    machine = lattice.program.machine
    node = _node(machine, _values(lattice)[0], len(lattice))
    return node if machine.residual is None else np.tile(node, machine.residual.n_states)


def _check_size(lattice: Lattice, times: int) -> None:
    """Refuse to write out all arcs between two tokens so many times."""
    machine = lattice.program.machine
    states = int(np.prod(machine.shape)) * machine.n_residual
    if states**2 * times > _MAX_ARCS:
        raise TooLargeError(
            f"the lattice has {states:,} joint states at every token, {states**2:,} arcs between "
            "two tokens: too many to write out; restrict it, or take its parts"
        )


def _values(lattice: Lattice) -> tuple[list[Floats], list[Floats]]:
    """Return the potentials of factors and of axes; those that do not move as [1, ...]."""
    machine = lattice.program.machine
    moving = iter(lattice.program.moving(lattice.values))
    factors = [f.value[None] if f.value is not None else next(moving) for f in machine.factors]
    axes = [a.score[None] if a.score is not None else next(moving) for a in machine.axes]
    return factors, axes


def _joint_labels(lattice: Lattice) -> tuple[NDArray[np.int64], list[tuple[str, ...]]]:
    """Return the number of each joint state's labels, and their names, in the order of tapes."""
    program = lattice.program
    states = dict(
        zip(program.order, (s.reshape(-1) for s in np.indices(program.shape)), strict=True)
    )
    labels = [program.chain[t].topology.state_label[states[t]] for t in program.tapes]
    sizes = [len(program.labels(t)) for t in program.tapes]
    names = list(product(*(program.labels(t) for t in program.tapes)))
    return np.ravel_multi_index(labels, sizes), names


def _node(machine: kernel.Machine, factors: list[Floats], length: int) -> Floats:
    total = np.zeros((length, machine.outer, machine.width))
    for factor, value in zip(machine.factors, factors, strict=True):
        rows = np.zeros(machine.outer, np.int32) if factor.place is None else factor.place
        total = total + value[:, rows]
    return total.reshape(length, -1)


def _joint_arcs(machine: kernel.Machine, axes: list[Floats]) -> Floats:
    """Return the scores of all arcs between joint states, [1 or T, N, N]."""
    states = [s.reshape(-1) for s in np.indices(machine.shape)]
    size = len(states[0])
    total: Floats = np.zeros((1, size, size))
    before = np.zeros(size, dtype=np.int64)  # outer index of the axis at each joint state
    for axis, score, state in zip(machine.axes, axes, states, strict=True):
        n = axis.n_states
        table = score
        if axis.source is not None and axis.target is not None:
            table = np.full((*score.shape[:2], n * n), -np.inf)
            table[:, :, axis.source.astype(np.int64) * n + axis.target] = score
        table = table.reshape(*table.shape[:2], n, n)
        context = np.zeros(size, np.int64) if axis.place is None else axis.place[before]
        total = total + table[:, context[None, :], state[:, None], state[None, :]]
        before = before * n + state
    return total


def _with_residual(
    machine: kernel.Machine, node: Floats, step: Floats, initial: Floats, final: Floats
) -> tuple[Any, ...]:
    """Multiply joint states with those of the residual automaton, read at their token."""
    residual = machine.residual
    assert residual is not None  # noqa: S101 (the caller has looked)
    n, size = residual.n_states, node.shape[1]
    outer = np.repeat(np.arange(machine.outer), machine.width)
    last = np.tile(np.arange(machine.width), machine.outer)
    rows = np.zeros(size, np.int32) if residual.place is None else residual.place[outer]
    columns = last if residual.width > 1 or machine.width == 1 else np.zeros_like(last)
    edge = np.full((n, n, size), -np.inf)
    for e, (q, r) in enumerate(zip(residual.source, residual.target, strict=True)):
        edge[q, r] = np.maximum(edge[q, r], residual.value[e, rows, columns])
    wide = step[:, None, :, None, :] + edge[None, :, None, :, :]
    begin = (residual.initial[:, None, None] + edge).max(axis=0) + initial
    end = residual.final[:, None] + final
    return (
        np.tile(node, n),
        wide.reshape(len(step), n * size, n * size),
        begin.reshape(-1),
        end.reshape(-1),
    )

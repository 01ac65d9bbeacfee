"""Lattices as machines of OpenFst and as flat arrays; acceptors as lattices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import LabelSet
from fstcrf.arrays import Floats, Ints, Longs, distinct
from fstcrf.errors import DataError, TooLargeError
from fstcrf.kernel import acyclic
from fstcrf.lattices.tapes import Taped
from fstcrf.machines.openfst import (
    EPSILON,
    FstArrays,
    connect,
    sausage_machine,
    symbols,
    without_gaps,
)
from fstcrf.ragged import Ragged

# --- A machine as a lattice -----------------------------------------------------------------------


def acyclic_acceptor(whole: FstArrays) -> tuple[FstArrays, Ints]:
    """Return what lies on a path, states in topological order, arcs by label; and given numbers.

    These are of its arcs, int32 [A].
    """
    numbers = np.arange(len(whole.source), dtype=np.int32)
    machine = connect(replace(whole, olabel=numbers, osymbols=None))
    different = np.flatnonzero(machine.ilabel != whole.olabel[machine.olabel])
    if len(different):
        arc = int(different[0])
        read, written = int(machine.ilabel[arc]), int(whole.olabel[machine.olabel[arc]])
        raise DataError(
            f"the Fst is not an acceptor: an arc of state {machine.source[arc]} reads "
            f"{_shown(read, machine.isymbols)} and writes "
            f"{_shown(written, whole.osymbols)}; project the Fst on its output first"
        )
    if (machine.target <= machine.source).any():
        machine = _numbered(machine)
    key = machine.source.astype(np.int64) * (int(machine.ilabel.max(initial=0)) + 1)
    key += machine.ilabel
    if (np.diff(key) < 0).any():
        machine = _permuted(machine, np.argsort(key, kind="stable"))
    return replace(machine, olabel=machine.ilabel, osymbols=whole.osymbols), machine.olabel


def _numbered(machine: FstArrays) -> FstArrays:
    number, cycle = acyclic.topological(machine.row, machine.target)
    if cycle >= 0:
        free = machine.ilabel == 0
        row = Ragged.from_rows(machine.source[free], machine.n_states).offsets
        _, loop = acyclic.topological(row, machine.target[free])
        what = "a cycle" if loop < 0 else "an epsilon loop"
        raise DataError(
            f"the Fst is cyclic, there is {what} through state "
            f"{cycle if loop < 0 else loop} (numbered after removing states that are on "
            "no path); a lattice must be acyclic: compose the Fst with a sentence first"
        )
    final = np.empty_like(machine.final)
    final[number] = machine.final
    source = number[machine.source]
    arcs = np.argsort(source, kind="stable")
    return replace(
        machine,
        start=int(number[machine.start]),
        source=source[arcs],
        target=number[machine.target][arcs],
        ilabel=machine.ilabel[arcs],
        olabel=machine.olabel[arcs],
        score=machine.score[arcs],
        final=final,
    )


def _permuted(machine: FstArrays, arcs: np.ndarray[tuple[int], np.dtype[np.intp]]) -> FstArrays:
    names = ("source", "target", "ilabel", "olabel", "score")
    return replace(machine, **{name: getattr(machine, name)[arcs] for name in names})


def _shown(number: int, table: tuple[str, ...] | None) -> str:
    return str(number) if table is None else repr(table[number])


def machine_labels(machine: FstArrays, labels: LabelSet | None) -> tuple[tuple[str, ...], Ints]:
    """Return the labels of an acceptor and the label of each of its arcs, int32 [A]; -1: epsilon.

    The labels are given, or the names in its symbol table, in the order of their ids.
    """
    tables = [table for table in (machine.isymbols, machine.osymbols) if table is not None]
    if len(tables) == 2 and tables[0] != tables[1]:
        raise DataError(f"input and output symbols differ: {_difference(*tables)}")
    if labels is None:
        if not tables:
            raise DataError(
                "the Fst has no symbol table: pass labels=..., where label k names symbol k + 1"
            )
        table = tables[0]
    else:
        table = symbols(labels)
        if tables and tables[0][1:] != table[1:]:
            raise DataError(
                f"the symbols of the Fst are not these labels: {_difference(tables[0], table)}"
            )
    used = distinct(machine.ilabel)
    for number in used[used > 0].tolist():
        if number >= len(table) or not table[number]:
            raise DataError(f"an arc has the label id {number}, which is not in the labels")
    if labels is not None:
        return table[1:], machine.ilabel - np.int32(1)
    names, place = without_gaps(table)
    odd = machine.ilabel[place[machine.ilabel] < -1]
    if len(odd):
        raise DataError(f"an arc has the label id {odd[0]}, named {EPSILON}: epsilon has the id 0")
    return names, place[machine.ilabel]


def _difference(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    for number in range(max(len(one), len(other))):
        pair = [repr(t[number]) if number < len(t) else "missing" for t in (one, other)]
        if pair[0] != pair[1] and number > 0:
            return f"symbol {number} is {pair[0]} in one and {pair[1]} in the other"
    return f"symbol 0, {EPSILON}, has two names"


# --- Lattices as machines of OpenFst --------------------------------------------------------------

_MAX_ARCS = 30_000_000


def lattice_machine(lattice: Taped) -> FstArrays:
    """Return a lattice as flat arrays: states, arcs, scores."""
    _check_size(lattice, max(len(lattice) - 1, 0))
    joint = joint_arrays(lattice)
    flat = joint.step.reshape(len(joint.step), len(joint.label) ** 2)
    machine = sausage_machine(
        np.ascontiguousarray(joint.node),
        np.ascontiguousarray(flat if joint.per_token else flat[0]),
        np.ascontiguousarray(joint.initial),
        np.ascontiguousarray(joint.final),
        state_label=joint.label.astype(np.int32),
        symbols=symbols([joint_symbol(parts) for parts in joint.names]),
    )
    if len(lattice):
        return machine
    return connect(replace(machine, final=np.full(1, joint.empty)))


def joint_symbol(labels: Sequence[str]) -> str:
    r"""Return one symbol for the labels of tapes; of one tape the label as it is.

    ``|`` stands between them. Within a label, it and a backslash have a backslash before them, so
    that no two tuples of labels have one symbol.

    Examples
    --------
    >>> print(joint_symbol(["N", "B-NP"]), joint_symbol(["a|b", "c"]), joint_symbol(["a|b"]))
    N|B-NP a\|b|c a|b
    """
    if len(labels) == 1:
        return labels[0]
    return "|".join(label.replace("\\", "\\\\").replace("|", "\\|") for label in labels)


@dataclass(frozen=True, slots=True)
class JointArrays:
    """A lattice multiplied out: S joint states, each of a legal history of all tapes."""

    node: Floats  # [T, S]
    step: Floats  # [1 or T, S, S] potentials of arcs, from row to column, into each token
    initial: Floats  # [S]
    final: Floats  # [S]
    label: Longs  # [S] joint label of each state
    names: list[tuple[str, ...]]  # labels of the tapes, for each joint label
    per_token: bool  # tokens have arc potentials of their own
    empty: float  # score of the path of no tokens


def joint_arrays(lattice: Taped) -> JointArrays:
    """Return a lattice multiplied out."""
    machine = lattice.program.machine
    per_token = any(axis.score is None for axis in machine.axes)
    _check_size(lattice, len(lattice) if per_token else 1)
    factors, axes = _values(lattice)
    node = _node(machine, factors, len(lattice))
    step = _joint_arcs(machine, axes)
    initial, final = machine.initial.reshape(-1), machine.final.reshape(-1)
    label, names = _joint_labels(lattice)
    if machine.residual is not None:
        node, step, initial, final = _with_residual(machine, node, step, initial, final)
        label = np.tile(label, machine.n_residual)
    empty = lattice.program.empty_score
    return JointArrays(node, step, initial, final, label, names, per_token, empty)


def joint_nodes(lattice: Taped) -> Floats:
    """Return the potentials of joint states, without arcs, float64 [T, S], as in `JointArrays`."""
    machine = lattice.program.machine
    node = _node(machine, _values(lattice)[0], len(lattice))
    return node if machine.residual is None else np.tile(node, machine.residual.n_states)


def _check_size(lattice: Taped, times: int) -> None:
    """Refuse to write out all arcs between two tokens so many times."""
    machine = lattice.program.machine
    states = int(np.prod(machine.shape)) * machine.n_residual
    if states**2 * times > _MAX_ARCS:
        raise TooLargeError(
            f"the lattice has {states:,} joint states at every token, {states**2:,} arcs between "
            "two tokens: too many to write out; restrict it, or take its parts"
        )


def _values(lattice: Taped) -> tuple[list[Floats], list[Floats]]:
    """Return the potentials of factors and of axes; those that all tokens share as [1, ...]."""
    machine = lattice.program.machine
    brought = iter(lattice.program.per_token(lattice.values))
    factors = [f.value[None] if f.value is not None else next(brought) for f in machine.factors]
    axes = [a.score[None] if a.score is not None else next(brought) for a in machine.axes]
    return factors, axes


def _joint_labels(lattice: Taped) -> tuple[Longs, list[tuple[str, ...]]]:
    """Return the number of each joint state's labels, and their names, in the order of tapes."""
    program = lattice.program
    states = dict(
        zip(program.order, (s.reshape(-1) for s in np.indices(program.shape)), strict=True)
    )
    labels = [program.chain[t].topology.state_label[states[t]] for t in program.tapes]
    sizes = [len(program.labels(t)) for t in program.tapes]
    names = list(product(*(program.labels(t) for t in program.tapes)))
    return np.ravel_multi_index(labels, sizes), names


def _node(machine: kernel.JointChain, factors: list[Floats], length: int) -> Floats:
    total = np.zeros((length, machine.outer, machine.width))
    for factor, value in zip(machine.factors, factors, strict=True):
        rows = np.zeros(machine.outer, np.int32) if factor.place is None else factor.place
        total = total + value[:, rows]
    return total.reshape(length, machine.outer * machine.width)


def _joint_arcs(machine: kernel.JointChain, axes: list[Floats]) -> Floats:
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
    machine: kernel.JointChain, node: Floats, step: Floats, initial: Floats, final: Floats
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

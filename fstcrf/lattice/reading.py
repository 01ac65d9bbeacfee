"""A machine as a lattice: what it must be, its labels, and its states in order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fstcrf.arguments import LabelSet
from fstcrf.errors import DataError
from fstcrf.kernel import order
from fstcrf.openfst import EPSILON, Machine, connect, symbols

__all__ = ["acyclic_acceptor", "machine_labels"]


def acyclic_acceptor(machine: Machine) -> Machine:
    """Return what lies on a path, states in topological order, arcs by label.

    Raises
    ------
    DataError
        An arc writes something else than it reads, or there is a cycle.
    """
    machine = connect(machine)
    different = np.flatnonzero(machine.ilabel != machine.olabel)
    if len(different):
        arc = int(different[0])
        read, written = int(machine.ilabel[arc]), int(machine.olabel[arc])
        raise DataError(
            f"no acceptor: an arc of state {machine.source[arc]} reads "
            f"{_shown(read, machine.isymbols)} and writes {_shown(written, machine.osymbols)}; "
            "project the Fst on its output first"
        )
    if (machine.target <= machine.source).any():
        machine = _numbered(machine)
    key = machine.source.astype(np.int64) * (int(machine.ilabel.max(initial=0)) + 1)
    key += machine.ilabel
    if (np.diff(key) >= 0).all():
        return machine
    return _permuted(machine, np.argsort(key, kind="stable"))


def _numbered(machine: Machine) -> Machine:
    number, cycle = order.topological(machine.row, machine.target)
    if cycle >= 0:
        free = machine.ilabel == 0
        row = order.rows(machine.source[free], machine.n_states)
        _, loop = order.topological(row, machine.target[free])
        what = "a cycle" if loop < 0 else "an epsilon loop"
        raise DataError(
            f"the Fst is cyclic, there is {what} through state {cycle if loop < 0 else loop} of "
            f"those on a path; a lattice is acyclic: compose it with a sentence first"
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


def _permuted(machine: Machine, arcs: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Machine:
    names = ("source", "target", "ilabel", "olabel", "score")
    return replace(machine, **{name: getattr(machine, name)[arcs] for name in names})


def _shown(number: int, table: tuple[str, ...] | None) -> str:
    return str(number) if table is None else repr(table[number])


def machine_labels(machine: Machine, labels: LabelSet | None) -> tuple[str, ...]:
    """Return the labels of an acceptor: those of its symbol table, or given ones.

    Raises
    ------
    DataError
        Neither is there, they disagree, or an arc has a label that is none of them.
    LabelError
        A label that is there twice, or empty.
    """
    tables = [table for table in (machine.isymbols, machine.osymbols) if table is not None]
    if len(tables) == 2 and tables[0] != tables[1]:
        raise DataError(f"input and output symbols differ: {_difference(*tables)}")
    if labels is None:
        if not tables:
            raise DataError(
                "the Fst has no symbol table: pass labels=..., of which label k is the symbol k + 1"
            )
        table = tables[0]
    else:
        table = symbols(labels)
        if tables and tables[0][1:] != table[1:]:
            raise DataError(
                f"the symbols of the Fst are not these labels: {_difference(tables[0], table)}"
            )
    used = np.unique(machine.ilabel)
    for number in used[used > 0].tolist():
        if number >= len(table) or not table[number]:
            raise DataError(f"an arc has the label id {number}, which is none of the labels")
    return table[1:]


def _difference(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    for number in range(max(len(one), len(other))):
        pair = [repr(t[number]) if number < len(t) else "missing" for t in (one, other)]
        if pair[0] != pair[1] and number > 0:
            return f"symbol {number} is {pair[0]} in one and {pair[1]} in the other"
    return f"symbol 0, {EPSILON}, has two names"

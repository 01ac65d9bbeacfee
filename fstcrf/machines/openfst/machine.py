"""Machines with the numbers of OpenFst: ids of symbols, and a start of any number.

In OpenFst symbol 0 is epsilon, symbols may have no names, and a path begins in any state. Symbol k
of a `Machine` is written as id k + 1, and its paths begin in state 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fstcrf.arguments import LabelSet, check_strings, label_tuple
from fstcrf.arrays import Floats, Ints, distinct
from fstcrf.errors import LabelError
from fstcrf.machines.algebra import merged
from fstcrf.machines.machine import Machine, Semiring

EPSILON = "<eps>"
"""Symbol 0: an arc with it reads or writes nothing."""


def symbols(labels: LabelSet) -> tuple[str, ...]:
    """Return the symbol table of labels: epsilon, then label k as symbol k + 1.

    Raises
    ------
    LabelError
        A label that is there twice, that is empty, or that is epsilon's own name; no labels.
    """
    table = (EPSILON, *label_tuple(labels, error=LabelError))
    check_strings(table, "a label")
    if EPSILON in table[1:]:
        raise LabelError(f"label {table.index(EPSILON, 1) - 1} is {EPSILON}, which is no label")
    if "" in table:
        raise LabelError(f"label {table.index('') - 1} is empty: symbol tables cannot hold that")
    return table


Arcs: TypeAlias = tuple[Ints, Ints, Ints, Ints, Floats]
"""Source, id that is read, id that is written, target and score of each arc."""

Table: TypeAlias = tuple[str, ...] | None
"""The name of each id, empty for an id without one; `None` if no id has a name."""


def arcs_by_source(machine: Machine) -> Arcs:
    """Return the arcs of a machine with ids of symbols, sorted by source."""
    columns = machine.source, machine.input + 1, machine.output + 1, machine.target, machine.score
    if (np.diff(machine.source) >= 0).all():
        return columns
    order = np.argsort(machine.source, kind="stable")
    source, read, written, target, score = columns
    return source[order], read[order], written[order], target[order], score[order]


@dataclass(frozen=True)
class Naming:
    """The options for converting a machine with ids of symbols into a `Machine`.

    Parameters
    ----------
    symbols : pair of sequences of str, optional
        The names of each side, symbol i + 1 at i, for a side without a table.
    semiring : {"log", "tropical"}, optional
        By default, the reader determines the semiring.
    tape : str, optional
        As for `Transducer`; `None` for an acceptor.
    numbered : bool
        Call symbols without a name by their ids, instead of refusing them.
    """

    symbols: tuple[LabelSet | None, LabelSet | None] = (None, None)
    semiring: Semiring | None = None
    tape: str | None = "output"
    numbered: bool = False

    def machine(
        self,
        start: int,
        arcs: Arcs,
        final: Floats,
        tables: tuple[Table, Table],
        semiring: Semiring = "log",
    ) -> Machine:
        """Return the machine of arcs and ends; with a start below 0 it accepts no string.

        Raises
        ------
        LabelError
            A symbol without a name, or with two of them.
        OptionError
            The tape is `None`, and the output of an arc differs from its input.
        """
        source, ilabel, olabel, target, score = arcs
        if start < 0:
            start, final = 0, np.full(1, -np.inf)
            source, ilabel, olabel, target = (x[:0] for x in (source, ilabel, olabel, target))
            score = score[:0]
        if None in tables and self.symbols == (None, None) and np.array_equal(ilabel, olabel):
            tables = (tables[1] if tables[0] is None else tables[0],) * 2
        number = np.arange(len(final), dtype=np.int32)
        number[[0, start]] = start, 0
        read, names = self._named(0, ilabel, tables[0])
        written, outputs = self._named(1, olabel, tables[1])
        if self.tape is None:
            names, place = merged(names, outputs)
            written, outputs = place[written], names
        return Machine(
            source=number[source],
            input=read,
            output=written,
            target=number[target],
            score=score,
            final=final[number],
            input_symbols=names,
            output_symbols=outputs,
            semiring=self.semiring or semiring,
            tape=self.tape,
        )

    def _named(self, side: int, label: Ints, table: Table) -> tuple[Ints, tuple[str, ...]]:
        """Return symbols, −1 for epsilon, and their names; ids without names are left out.

        No arc may have the id of a symbol that is called like epsilon, which is id 0.
        """
        names, does = self.symbols[side], ("reads", "writes")[side]
        if table is None and names is not None:
            table = symbols(names)
        elif table is None and self.numbered:
            used = distinct(np.append(label, 0))  # numbers of ids may be large
            return np.searchsorted(used, label).astype(np.int32) - 1, (*map(str, used[1:]),)
        elif table is None and label.any():
            raise LabelError(
                f"the machine {does} symbols without a name: give labels=, or input_symbols= and "
                "output_symbols=, where entry i names symbol i + 1"
            )
        table = table or ("",)
        named = [k for k, name in enumerate(table) if k and name not in ("", EPSILON)]
        place = np.full(len(table), -2, dtype=np.int32)
        place[0], place[named] = -1, np.arange(len(named))
        beyond = label[label >= len(table)]
        if len(beyond):
            raise LabelError(
                f"the machine {does} symbol {beyond[0]}, but there are {len(named)} labels; label "
                "i is symbol i + 1"
            )
        odd = label[place[label] < -1]
        if len(odd):
            name = table[odd[0]]
            why = f"is named {name!r}: nothing has the id 0" if name else "its table does not have"
            raise LabelError(f"the machine {does} symbol {odd[0]}, which {why}")
        return place[label], tuple(table[k] for k in named)


AS_WRITTEN = Naming()
"""Symbols have the names of the machine's own tables."""

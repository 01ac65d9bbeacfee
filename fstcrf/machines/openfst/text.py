"""AT&T text, as ``fstprint`` writes machines and ``fstcompile`` reads them; numbers of OpenFst.

In OpenFst symbol 0 is epsilon, symbols may have no names, and a path begins in any state. Symbol k
of a `Machine` is written as id k + 1, and its paths begin in state 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fstcrf.arguments import LabelSet, check_strings, label_tuple
from fstcrf.arrays import Floats, Ints, Ragged, distinct
from fstcrf.errors import DataError, LabelError, LabelWarning, OptionError, warn
from fstcrf.machines.algebra import merged
from fstcrf.machines.machine import Machine, Semiring
from fstcrf.text.lines import text_fields, text_lines

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


# --- Writing -----------------------------------------------------------------------------------


def att_text(machine: Machine, *, numeric: bool = False) -> str:
    """Return a machine as text; costs have all their digits.

    An acceptor (a machine whose tape is `None`) has one column for both symbols, as in
    ``fstprint --acceptor``.

    Parameters
    ----------
    machine : Machine or Transducer
    numeric : bool
        Ids of symbols, k + 1 for symbol k, instead of their names.

    Raises
    ------
    LabelError
        A symbol that holds white space, or that is empty.
    """
    source, ilabel, olabel, target, score = arcs_by_source(machine)
    sides = [(ilabel, machine.input_symbols), (olabel, machine.output_symbols)]
    columns = [
        label.tolist() if numeric else _names(label, (EPSILON, *names))
        for label, names in (sides if machine.tape is not None else sides[:1])
    ]
    row = Ragged.from_rows(source, len(machine.final)).offsets.tolist()
    arcs = list(zip(source.tolist(), target.tolist(), *columns, score.tolist(), strict=True))
    lines: list[str] = []
    for state, final in enumerate(machine.final.tolist()):
        for *fields, cost in arcs[row[state] : row[state + 1]]:
            lines.append("\t".join([*map(str, fields), _cost(cost)]))
        # Without a line for the start, another state would become the start.
        if final > -np.inf or not lines:
            lines.append(f"{state}\t{_cost(final)}")
    return "".join(f"{line}\n" for line in lines)


def _cost(score: float) -> str:
    return "Infinity" if score == -np.inf else repr(0.0 - score)


def _names(label: Ints, table: tuple[str, ...]) -> list[str]:
    for number in distinct(label).tolist():
        if set(table[number]) & set(" \t\r\n"):
            raise LabelError(
                f"symbol {table[number]!r} has a character that separates columns or lines: "
                "write numbers, with numeric=True"
            )
    return [table[number] for number in label.tolist()]


# --- Reading -----------------------------------------------------------------------------------


def from_att(
    text: str, naming: Naming = AS_WRITTEN, *, numeric: bool = False, epsilon: str | None = None
) -> Machine:
    """Read a machine from text; see `Transducer.from_text`.

    Parameters
    ----------
    text : str
    naming : Naming, optional
        Names of symbols, the semiring, and the tape. An acceptor (its tape is `None`) has one
        column for both symbols. By default, the symbols are the symbols of the text, in order of
        appearance.
    numeric : bool
        Symbols are ids: i + 1 is the given symbol i, 0 is epsilon.
    epsilon : str, optional
        Another name of epsilon, besides ``<eps>``. When absent, there is a warning of symbols that
        other programs write for it.

    Returns
    -------
    Machine
        States keep their order, but that the first line's state and the first one change places.

    Raises
    ------
    DataError
        A line with other columns, or that is no machine; names the line. A text without a state.
    LabelError
        An unknown label.
    OptionError
        Ids without symbols.
    """
    if not isinstance(epsilon, str | None):
        raise OptionError(f"epsilon is {epsilon!r}, expected a str, or None")
    acceptor = naming.tape is None
    tables = naming.symbols[:1] if acceptor else naming.symbols
    if numeric and any(symbols is None for symbols in tables):
        raise OptionError("numeric=True needs input_symbols= and output_symbols=")
    arcs: list[tuple[int, int, float]] = []
    ends: list[tuple[int, float]] = []
    read: list[tuple[str, ...]] = []
    first = -1
    for number, fields in _lines(text):
        first = _state(fields[0], number) if first < 0 else first
        if len(fields) <= 2:
            ends.append((_state(fields[0], number), _score(fields[1:], number)))
            continue
        labels, costs = (fields[2:3], fields[3:]) if acceptor else (fields[2:4], fields[4:])
        if len(labels) + acceptor != 2 or len(costs) > 1:
            wanted, tape = ("3 or 4", '"NAME"') if acceptor else ("4 or 5", "None")
            hint = f"; is it tape={tape}?" if len(fields) == (5 if acceptor else 3) else ""
            columns = f"{len(fields)} columns, expected 1 or 2 or {wanted}{hint}"
            raise DataError(columns, line=number)
        arcs.append((_state(fields[0], number), _state(fields[1], number), _score(costs, number)))
        read.append(tuple(labels))
    if first < 0:
        raise DataError("the text has no start state, so it accepts no string")
    sides = []
    for labels_, column in zip(tables, zip(*read, strict=True) if read else [()] * 2, strict=False):
        there = [EPSILON if label == epsilon else label for label in column]
        table = None if labels_ is None else symbols(labels_)
        sides.append(_ids(there, table) if numeric and table else _numbered(there, table))
    if epsilon is None and not numeric:
        _warn_of_epsilon({name for _, table in sides for name in table})
    return _assembled(naming, first, arcs, ends, (sides[0], sides[-1]))


_EPSILONS = ("@0@", "@_EPSILON_SYMBOL_@", "<epsilon>")
"""Names of epsilon in other programs."""


def _warn_of_epsilon(symbols: set[str]) -> None:
    """Warn of symbols that are names of epsilon in other programs."""
    names = [name for name in _EPSILONS if name in symbols]
    numbers = symbols - {EPSILON}
    if names:
        what = f"{names[0]!r} is a symbol like others, and other programs write it for none: "
        advice = f"give epsilon={names[0]!r} where it means that, else epsilon='<eps>'"
    elif numbers and all(name.isascii() and name.isdigit() for name in numbers):
        what = f"all symbols are numbers, such as {min(numbers)}, and are taken for their names: "
        advice = "give numeric=True where they number symbols, else epsilon='<eps>'"
    else:
        return
    warn(what + advice, LabelWarning)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text_lines(text), 1):
        if fields := text_fields(line):
            yield number, fields


_LONGEST = 1000
"""Digits of a number, of which Python reads a few thousand at most."""


def _state(field: str, line: int) -> int:
    if not field.isascii() or not field.isdigit() or len(field) > _LONGEST:
        raise DataError(f"{field[:40]!r} is not a state, expected a whole number from 0", line=line)
    return int(field)


def _score(costs: list[str], line: int) -> float:
    try:
        cost = float(costs[0]) if costs else 0.0
    except ValueError:
        raise DataError(f"{costs[0]!r} is not a cost, expected a number", line=line) from None
    if math.isnan(cost) or cost == -np.inf:
        raise DataError(f"cost {costs[0]}, expected a number or Infinity", line=line)
    return 0.0 - cost


_Side: TypeAlias = tuple[list[int], tuple[str, ...]]


def _ids(labels: Sequence[str], table: tuple[str, ...]) -> _Side:
    """Return labels that are ids of symbols."""
    for label in labels:
        if not label.isascii() or not label.isdigit():
            raise DataError(f"label {label[:40]!r} is not a whole number")
        if len(label) > _LONGEST or int(label) >= len(table):
            raise DataError(
                f"label {label[:40]} is too large, expected a number below {len(table)}"
            )
    return [int(label) for label in labels], table


def _numbered(labels: Sequence[str], table: tuple[str, ...] | None) -> _Side:
    names = tuple(dict.fromkeys([EPSILON, *labels])) if table is None else table
    ids = {name: number for number, name in enumerate(names)}
    try:
        return [ids[label] for label in labels], names
    except KeyError as error:
        raise LabelError(
            f"label {error.args[0]!r} is not in the symbol table of {len(names)} symbols"
        ) from None


def _assembled(
    naming: Naming,
    start: int,
    arcs: list[tuple[int, int, float]],
    ends: list[tuple[int, float]],
    sides: tuple[_Side, _Side],
) -> Machine:
    names = sorted({start, *(s for s, *_ in arcs), *(t for _, t, _ in arcs), *(s for s, _ in ends)})
    state = {name: number for number, name in enumerate(names)}
    final = np.full(len(state), -np.inf)
    for name, score in ends:
        final[state[name]] = score
    source = np.asarray([state[s] for s, _, _ in arcs], dtype=np.int32)
    order = np.argsort(source, kind="stable")
    target = [state[t] for _, t, _ in arcs]
    read, written, target_ = (
        np.asarray(column, dtype=np.int32)[order] for column in (sides[0][0], sides[1][0], target)
    )
    scores = np.asarray([score for *_, score in arcs], dtype=np.float64)[order]
    columns = source[order], read, written, target_, scores
    return naming.machine(state[start], columns, final, (sides[0][1], sides[1][1]))

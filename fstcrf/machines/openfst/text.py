"""AT&T text, as ``fstprint`` writes machines and ``fstcompile`` reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias
from warnings import warn

import numpy as np

from fstcrf.arrays import Ints, distinct
from fstcrf.errors import DataError, LabelError, LabelWarning, OptionError
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst.machine import (
    AS_WRITTEN,
    EPSILON,
    Naming,
    arcs_by_source,
    symbols,
)
from fstcrf.ragged import Ragged
from fstcrf.text.lines import text_fields, text_lines

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
            wanted = "3 or 4" if acceptor else "4 or 5"
            raise DataError(f"{len(fields)} columns, expected 1 or 2 or {wanted}", line=number)
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
    warn(what + advice, LabelWarning, stacklevel=4)


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

"""AT&T text, as ``fstprint`` writes machines and ``fstcompile`` reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from warnings import warn

import numpy as np

from fstcrf.arguments import LabelSet
from fstcrf.arrays import Ints, distinct
from fstcrf.errors import DataError, LabelError, LabelWarning, OptionError
from fstcrf.machines.openfst.machine import EPSILON, FstArrays, symbols
from fstcrf.text.lines import text_fields, text_lines

# --- Writing -----------------------------------------------------------------------------------


def att_text(machine: FstArrays, *, numeric: bool = False, acceptor: bool = False) -> str:
    """Return a machine as text; costs have all their digits.

    Parameters
    ----------
    machine : FstArrays
    numeric : bool
        Label ids, even where there are symbols.
    acceptor : bool
        One column for both labels, as ``fstprint --acceptor`` writes.

    Raises
    ------
    LabelError
        A symbol that holds white space, or none at all.
    DataError
        `acceptor`, but an arc writes something else than it reads.
    """
    if acceptor and not machine.is_acceptor:
        raise DataError(
            "the machine is not an acceptor: an arc writes another symbol than it reads"
        )
    sides = [(machine.ilabel, machine.isymbols), (machine.olabel, machine.osymbols)]
    columns = [
        _names(label, None if numeric else table) for label, table in sides[: 1 if acceptor else 2]
    ]
    row = machine.row.tolist()
    ends = machine.target.tolist(), *columns, machine.score.tolist()
    arcs = list(zip(machine.source.tolist(), *ends, strict=True))
    order = [machine.start, *(s for s in range(machine.n_states) if s != machine.start)]
    lines: list[str] = []
    for state in order if machine.start >= 0 else ():
        for *fields, score in arcs[row[state] : row[state + 1]]:
            lines.append("\t".join([*map(str, fields), _cost(score)]))
        final = float(machine.final[state])
        # A start without a line of its own would leave that to another state.
        if final > -np.inf or not lines:
            lines.append(f"{state}\t{_cost(final)}")
    return "".join(f"{line}\n" for line in lines)


def _cost(score: float) -> str:
    return "Infinity" if score == -np.inf else repr(0.0 - score)


def _names(label: Ints, table: tuple[str, ...] | None) -> Sequence[object]:
    numbers: list[int] = label.tolist()
    if table is None:
        return numbers
    for number in distinct(label).tolist():
        if set(table[number]) & set(" \t\r\n"):
            raise LabelError(
                f"symbol {table[number]!r} has a character that separates columns or lines: "
                "write numbers, with numeric=True"
            )
    return [table[number] for number in numbers]


# --- Reading -----------------------------------------------------------------------------------


def from_att(
    text: str,
    *,
    isymbols: Sequence[str] | None = None,
    osymbols: Sequence[str] | None = None,
    acceptor: bool = False,
    numeric: bool | None = None,
    epsilon: str = EPSILON,
) -> FstArrays:
    """Read a machine from text.

    Parameters
    ----------
    text : str
    isymbols, osymbols : sequence of str, optional
        Symbol of label id k at k. Labels are numbered as they come, after epsilon, when absent.
    acceptor : bool
        There is one column for both labels; `osymbols` is not needed.
    numeric : bool, optional
        Labels are label ids. When absent, they are where there are no symbols and all of them
        are numbers.
    epsilon : str
        Another name of epsilon, beside ``<eps>``.

    Returns
    -------
    FstArrays
        States keep their order; their numbers, too, where none is left out.

    Raises
    ------
    DataError
        A line with other columns, or that is no machine; names the line.
    LabelError
        A label that is none of the symbols.
    """
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
    tables = [isymbols] if acceptor else [isymbols, osymbols]
    sides = []
    for table, column in zip(tables, zip(*read, strict=True) if read else [(), ()], strict=False):
        there = [EPSILON if label == epsilon else label for label in column]
        numbers = table is None and all(map(_is_number, there)) if numeric is None else numeric
        sides.append(_ids(there, table) if numbers else _numbered(there, table))
    inputs, outputs = sides[0], sides[-1]
    return _assembled(first, arcs, ends, inputs, outputs)


def from_names(
    text: str,
    symbols_: tuple[LabelSet | None, LabelSet | None],
    epsilon: str | None,
    *,
    acceptor: bool,
    numeric: bool,
) -> FstArrays:
    """Read a machine whose symbols have names; see `Transducer.from_text`."""
    if not isinstance(epsilon, str | None):
        raise OptionError(f"epsilon is {epsilon!r}, expected a str, or None")
    if numeric and None in symbols_:
        raise OptionError("numeric=True needs input_symbols= and output_symbols=")
    isymbols, osymbols = (None if one is None else symbols(one) for one in symbols_)
    machine = from_att(
        text,
        isymbols=isymbols,
        osymbols=osymbols,
        acceptor=acceptor,
        numeric=numeric,
        epsilon=EPSILON if epsilon is None else epsilon,
    )
    if epsilon is None and not numeric:
        _warn_of_epsilon({*(machine.isymbols or ()), *(machine.osymbols or ())})
    return machine


_EPSILONS = ("@0@", "@_EPSILON_SYMBOL_@", "<epsilon>")
"""What other programs write where nothing is read or written."""


def _warn_of_epsilon(symbols: set[str]) -> None:
    """Warn of symbols that other programs write for none."""
    found = [name for name in _EPSILONS if name in symbols]
    numbers = symbols - {EPSILON}
    if found:
        what = f"{found[0]!r} is a symbol like others, and other programs write it for none: "
        advice = f"give epsilon={found[0]!r} where it means that, else epsilon='<eps>'"
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


_Side = tuple[list[int], tuple[str, ...] | None]


def _is_number(label: str) -> bool:
    return label.isascii() and label.isdigit()


def _ids(labels: list[str], table: Sequence[str] | None) -> _Side:
    """Return labels that are label ids."""
    limit, what = (2**31, "2^31") if table is None else (len(table), str(len(table)))
    for label in labels:
        if not _is_number(label):
            raise DataError(f"label {label[:40]!r} is not a whole number")
        if len(label) > _LONGEST or int(label) >= limit:
            raise DataError(f"label {label[:40]} is too large, expected a number below {what}")
    return [int(label) for label in labels], None if table is None else tuple(table)


def _numbered(labels: list[str], table: Sequence[str] | None) -> _Side:
    names = tuple(table) if table is not None else tuple(dict.fromkeys([EPSILON, *labels]))
    ids = {name: number for number, name in reversed(list(enumerate(names)))}
    try:
        return [ids[label] for label in labels], names
    except KeyError as error:
        raise LabelError(
            f"label {error.args[0]!r} is not in the symbol table of {len(names)} symbols"
        ) from None


def _assembled(
    start: int,
    arcs: list[tuple[int, int, float]],
    ends: list[tuple[int, float]],
    inputs: _Side,
    outputs: _Side,
) -> FstArrays:
    named = {start, *(s for s, *_ in arcs), *(t for _, t, _ in arcs), *(s for s, _ in ends)} - {-1}
    state = {name: number for number, name in enumerate(sorted(named))}
    final = np.full(len(state), -np.inf)
    for name, score in ends:
        final[state[name]] = score
    source = np.asarray([state[s] for s, _, _ in arcs], dtype=np.int32)
    order = np.argsort(source, kind="stable")

    def column(values: list[int]) -> Ints:
        return np.asarray(values, dtype=np.int32)[order]

    return FstArrays(
        start=state.get(start, -1),
        source=source[order],
        target=column([state[t] for _, t, _ in arcs]),
        ilabel=column(inputs[0]),
        olabel=column(outputs[0]),
        score=np.asarray([score for *_, score in arcs], dtype=np.float64)[order],
        final=final,
        isymbols=inputs[1],
        osymbols=outputs[1],
    )

"""Machines as text: fstprint and fstcompile's, named after AT&T's FSM library, and graphviz's.

An arc is a line ``source target input output cost``, an end ``state cost``; the first line names
the start. Columns are separated by tabs (or spaces, when reading), a cost that is missing is 0.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator, Sequence
from shutil import which

import numpy as np

from fstcrf.arrays import Ints
from fstcrf.errors import DataError, LabelError, MissingDependencyError, OptionError, TooLargeError
from fstcrf.openfst.machine import EPSILON, Machine

__all__ = [
    "att_text",
    "dot_text",
    "from_att",
    "svg",
]


# --- Writing -----------------------------------------------------------------------------------


def att_text(machine: Machine, *, numeric: bool = False, acceptor: bool = False) -> str:
    """Return a machine as text; costs have all their digits.

    Parameters
    ----------
    machine : Machine
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
        raise DataError("the machine is no acceptor: an arc writes something else than it reads")
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
    for number in np.unique(label).tolist():
        if table[number].split() != [table[number]]:
            raise LabelError(
                f"symbol {table[number]!r} has white space, which separates columns: "
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
) -> Machine:
    """Read a machine from text.

    Parameters
    ----------
    text : str
    isymbols, osymbols : sequence of str, optional
        Symbol of label id k at k. Without them, labels are numbers where all of them are; else they
        are numbered as they come, after epsilon.
    acceptor : bool
        There is one column for both labels; `osymbols` is not needed.

    Returns
    -------
    Machine
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
    inputs = _numbered([labels[0] for labels in read], isymbols)
    outputs = inputs
    if not acceptor:
        outputs = _numbered([labels[1] for labels in read], osymbols)
    return _assembled(first, arcs, ends, inputs, outputs)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if fields:
            yield number, fields


def _state(field: str, line: int) -> int:
    if not field.isascii() or not field.isdigit():
        raise DataError(f"{field!r} is no state, expected a number from 0", line=line)
    return int(field)


def _score(costs: list[str], line: int) -> float:
    try:
        cost = float(costs[0]) if costs else 0.0
    except ValueError:
        raise DataError(f"{costs[0]!r} is no cost, expected a number", line=line) from None
    if math.isnan(cost) or cost == -np.inf:
        raise DataError(f"cost {costs[0]}, expected a number or Infinity", line=line)
    return 0.0 - cost


_Side = tuple[list[int], tuple[str, ...] | None]


def _numbered(labels: list[str], table: Sequence[str] | None) -> _Side:
    if table is None and all(label.isascii() and label.isdigit() for label in labels):
        return [int(label) for label in labels], None
    names = tuple(table) if table is not None else tuple(dict.fromkeys([EPSILON, *labels]))
    ids = {name: number for number, name in reversed(list(enumerate(names)))}
    try:
        return [ids[label] for label in labels], names
    except KeyError as error:
        raise LabelError(f"label {error.args[0]!r} is none of the {len(names)} symbols") from None


def _assembled(
    start: int,
    arcs: list[tuple[int, int, float]],
    ends: list[tuple[int, float]],
    inputs: _Side,
    outputs: _Side,
) -> Machine:
    named = {start, *(s for s, *_ in arcs), *(t for _, t, _ in arcs), *(s for s, _ in ends)} - {-1}
    state = {name: number for number, name in enumerate(sorted(named))}
    final = np.full(len(state), -np.inf)
    for name, score in ends:
        final[state[name]] = score
    source = np.asarray([state[s] for s, _, _ in arcs], dtype=np.int32)
    order = np.argsort(source, kind="stable")

    def column(values: list[int]) -> Ints:
        return np.asarray(values, dtype=np.int32)[order]

    return Machine(
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


# --- Drawings by graphviz -------------------------------------------------------------------------
# From left to right, the start in bold, ends with two rings.

_MOST_ARCS = 2000


def dot_text(machine: Machine, *, digits: int = 3) -> str:
    """Return a machine in graphviz's language.

    Arcs show ``input:output/score``, or ``label/score`` where both are the same; ends show
    ``state/score``. Scores are natural logs, more is better; zeros are left out.

    Parameters
    ----------
    machine : Machine
    digits : int
        Significant digits of scores.

    Raises
    ------
    OptionError
        `digits` is below 1.
    """
    if digits < 1:
        raise OptionError(f"digits is {digits}, expected 1 or more")
    lines = ["digraph machine {", "  rankdir=LR;", "  node [shape=circle];"]
    for state, final in enumerate(machine.final.tolist()):
        ends = final > -np.inf
        name = str(state) + (_shown(final, digits) if ends else "")
        looks = ["shape=doublecircle"] if ends else []
        looks += ["style=bold"] if state == machine.start else []
        lines.append(f"  {state} [{', '.join([f'label={_quoted(name)}', *looks])}];")
    columns = (machine.source, machine.target, machine.ilabel, machine.olabel, machine.score)
    for source, target, read, written, score in zip(*(c.tolist() for c in columns), strict=True):
        label = _symbol(read, machine.isymbols)
        if read != written or machine.isymbols != machine.osymbols:
            label += ":" + _symbol(written, machine.osymbols)
        lines.append(f"  {source} -> {target} [label={_quoted(label + _shown(score, digits))}];")
    return "\n".join([*lines, "}\n"])


def _symbol(number: int, table: tuple[str, ...] | None) -> str:
    return str(number) if table is None else table[number]


def _shown(score: float, digits: int) -> str:
    return f"/{score:.{digits}g}" if score else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def svg(machine: Machine, *, digits: int = 3) -> str:
    """Return a drawing of a machine as SVG.

    Parameters
    ----------
    machine, digits
        As for `dot_text`.

    Raises
    ------
    MissingDependencyError
        graphviz's program ``dot`` is not on the PATH.
    TooLargeError
        More arcs than anyone can look at.
    OSError
        ``dot`` fails.
    """
    program = which("dot")
    if program is None:
        raise MissingDependencyError(
            "graphviz's program `dot` is not on the PATH: `apt-get install graphviz`"
        )
    if machine.n_arcs > _MOST_ARCS:
        raise TooLargeError(
            f"{machine.n_arcs:,} arcs are too many for a drawing (at most {_MOST_ARCS:,}): "
            "restrict the machine first, or give dot_text to another program"
        )
    done = subprocess.run(  # noqa: S603 (no shell; the text comes through a pipe)
        [program, "-Tsvg"],
        input=dot_text(machine, digits=digits).encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise OSError(f"dot failed with status {done.returncode}: {words}")
    return done.stdout.decode()

"""Machines of OpenFst and of AT&T text as transducers; see `Transducer.from_fst`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, integer_array, real_array
from fstcrf.arrays import Ints
from fstcrf.errors import DataError, LabelError, TooLargeError
from fstcrf.files import read_file
from fstcrf.machines import algebra, openfst
from fstcrf.machines.transducer import Semiring, Transducer

if TYPE_CHECKING:
    import pynini


def columns(
    given: Mapping[str, ArrayLike],
    score: ArrayLike | None,
    final: ArrayLike | None,
    named: Mapping[str, ArrayLike],
) -> dict[str, Any]:
    """Return the arrays of `Transducer.from_arrays` as the fields of a `Transducer`."""
    found: dict[str, Any] = {
        name: integer_array(values, f"transducer: {name}", np.int32, unit="arcs")
        for name, values in given.items()
    }
    count = len(found["source"])
    states = int(max(found[name].max(initial=0) for name in ("source", "target"))) + 1
    if final is None and states > 1_000_000 + 16 * count:
        raise TooLargeError(
            f"transducer: {states:,} states for {count:,} arcs: number them without gaps"
        )
    scores = np.zeros(count) if score is None else real_array(score, "transducer: score")
    ends = np.zeros(states) if final is None else real_array(final, "transducer: final")
    uses = {name: real_array(of, f"transducer: named[{name!r}]") for name, of in named.items()}
    return {**found, "score": scores, "final": ends, "named": uses}


def to_arrays(machine: Transducer) -> openfst.FstArrays:
    """Return a transducer as OpenFst's arrays, its arcs sorted by source."""
    order = np.argsort(machine.source, kind="stable")
    return openfst.FstArrays(
        start=0,
        source=machine.source[order],
        target=machine.target[order],
        ilabel=machine.input[order] + np.int32(1),
        olabel=machine.output[order] + np.int32(1),
        score=machine.score[order],
        final=machine.final,
        isymbols=openfst.symbols(machine.input_symbols),
        osymbols=openfst.symbols(machine.output_symbols),
        semiring=machine.semiring,
    )


def from_text(
    text: str,
    symbols: tuple[LabelSet | None, LabelSet | None],
    epsilon: str | None,
    semiring: Semiring,
    tape: str | None,
    *,
    numeric: bool,
) -> Transducer:
    """Return the transducer of AT&T text; see `Transducer.from_text`."""
    machine = openfst.from_names(text, symbols, epsilon, acceptor=tape is None, numeric=numeric)
    return of_arrays(replace(machine, semiring=semiring), tape)


def from_fst(
    fst: pynini.Fst | str | Path,
    input_symbols: LabelSet | None,
    output_symbols: LabelSet | None,
    semiring: Semiring | None,
    tape: str | None,
) -> Transducer:
    """Return the transducer that a machine of OpenFst is; see `Transducer.from_fst`."""
    if isinstance(fst, str | Path):
        try:
            machine = openfst.from_bytes(read_file(fst))
        except DataError as error:
            raise DataError(error.message, path=str(fst)) from None
    else:
        machine = openfst.from_fst(fst)
    tables = [
        table if labels is None or table is not None else openfst.symbols(labels)
        for table, labels in (
            (machine.isymbols, input_symbols),
            (machine.osymbols, output_symbols),
        )
    ]
    machine = replace(machine, isymbols=tables[0], osymbols=tables[1])
    return of_arrays(machine if semiring is None else replace(machine, semiring=semiring), tape)


def of_arrays(machine: openfst.FstArrays, tape: str | None) -> Transducer:
    """Return OpenFst's arrays as a transducer; its start becomes state 0."""
    if machine.start < 0:
        raise DataError("the machine has no start state, so it accepts no string")
    number = np.arange(machine.n_states, dtype=np.int32)
    number[[0, machine.start]] = machine.start, 0
    read = _named("reads", machine.ilabel, machine.isymbols)
    written = read
    if tape is not None or machine.osymbols != machine.isymbols:
        written = _named("writes", machine.olabel, machine.osymbols)
    if tape is None:
        names, outputs = algebra.merged(read[1], written[1])
        read, written = (read[0], names), (outputs[written[0]], names)
    return Transducer(
        source=number[machine.source],
        input=read[0],
        output=written[0],
        target=number[machine.target],
        score=machine.score,
        final=machine.final[number],
        input_symbols=read[1],
        output_symbols=written[1],
        semiring=machine.semiring,
        tape=tape,
    )


def _named(does: str, label: Ints, table: tuple[str, ...] | None) -> tuple[Ints, tuple[str, ...]]:
    """Return symbol ids with −1 for epsilon, and their names.

    An arc whose id has no name, or the name of epsilon, which is id 0, raises LabelError.
    """
    if table is None:
        if label.any():
            raise LabelError(
                f"the machine {does} symbols without a name: give input_symbols= and "
                "output_symbols=, where entry i names symbol i + 1"
            )
        table = ("",)
    names, place = openfst.without_gaps(table)
    odd = label[place[label] < -1]
    if len(odd):
        name = table[odd[0]]
        why = f"is named {name!r}: nothing has the id 0" if name else "its table does not have"
        raise LabelError(f"the machine {does} symbol {odd[0]}, which {why}")
    return place[label], names

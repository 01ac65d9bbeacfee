"""Machines of OpenFst and of AT&T text as transducers; see `Transducer.from_fst`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.arguments import LabelSet
from fstcrf.arrays import Ints
from fstcrf.errors import DataError, LabelError
from fstcrf.files import read_file
from fstcrf.machines import algebra, openfst
from fstcrf.machines.transducer import Semiring, Transducer

if TYPE_CHECKING:
    import pynini


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
        raise DataError("the machine has no state to start in: it accepts nothing")
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
    """Return symbols without a number for none, and their names.

    Ids without a name are left out, and ids named like epsilon, which is id 0: no arc may have one.
    """
    if table is None:
        if label.any():
            raise LabelError(
                f"the machine {does} symbols without a name: give input_symbols= and "
                "output_symbols=, symbol i + 1 at i"
            )
        table = ("",)
    names, place = openfst.without_gaps(table)
    odd = label[place[label] < -1]
    if len(odd):
        name = table[odd[0]]
        why = f"is named {name!r}: nothing has the id 0" if name else "its table does not have"
        raise LabelError(f"the machine {does} symbol {odd[0]}, which {why}")
    return place[label], names

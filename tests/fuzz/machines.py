"""Machines of OpenFst, its bytes and AT&T text, and dictionaries as MeCab has them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fstcrf import Lattice, Lexicon
from fstcrf.errors import FstcrfError
from fstcrf.ext.lexicon import Characters, Entry, Kind
from fstcrf.machines import openfst
from fstcrf.machines.machine import Machine
from tests.fuzz.target import Target, folder

__all__ = ["MACHINES"]

ATT = (
    b"0\t1\ta\ta\t0.5\n0\t2\tb\tb\t1\n1\t3\tc\tc\t0.25\n2\t3\ta\ta\n3\t0.5\n",
    b"0 1 1 1 .5\n1 2 0 0 3\n2 0\n",
    b"0 1 x <eps> Infinity\n1 2 y z -2\n1\n2\n",
)
TEXTS = ["ab", "a  b!", "ア😀d", "cab"]


def binaries() -> list[bytes]:
    machine = openfst.from_att(ATT[0].decode())
    return [
        openfst.to_bytes(machine, arc, fst_type=kind)
        for arc in ("standard", "log64")
        for kind in ("vector", "const")
    ]


def ask(machine: Machine) -> None:
    openfst.to_bytes(machine)
    openfst.att_text(machine)
    lattice = Lattice.from_machine(machine)
    lattice.best()
    lattice.nbest(5)
    lattice.sample(3)
    lattice.marginals()
    lattice.entropy()


# --- Dictionaries ---------------------------------------------------------------------------------


@cache
def dictionary(*, compiled: bool) -> dict[str, bytes]:
    """Return the files of a dictionary."""
    kinds = {
        "DEFAULT": Kind(always=False, runs=True, length=0),
        "SPACE": Kind(always=False, runs=True, length=0),
        "LETTER": Kind(always=True, runs=True, length=2),
    }
    ranges = [(0x20, 0x20, ["SPACE"]), (ord("a"), ord("c"), ["LETTER"])]
    words = [
        Entry(word, k % 2, k % 3, k - 2, f"{word}/{k}") for k, word in enumerate(["a", "ab", "ア"])
    ]
    unknown = [Entry(name, 0, 1, 3, name) for name in kinds]
    matrix = np.arange(9, dtype=np.int16).reshape(3, 3)
    made = Lexicon.from_entries(
        words, matrix, Characters.of_kinds(kinds, ranges), unknown, unit=2.0
    )
    place = folder() / "dictionary"
    shutil.rmtree(place, ignore_errors=True)
    made.write(place, compiled=compiled)
    return {path.name: path.read_bytes() for path in place.iterdir()}


def with_file(name: str, *, compiled: bool) -> Callable[[bytes], Lexicon]:
    def read(data: bytes) -> Lexicon:
        place = folder() / f"with-{name}"
        if not place.exists():
            place.mkdir()
            for other, content in dictionary(compiled=compiled).items():
                (place / other).write_bytes(content)
        (place / name).unlink(missing_ok=True)  # what is mapped stays as it is
        (place / name).write_bytes(data)
        return Lexicon.load(place)

    return read


def cut(lexicon: Lexicon) -> None:
    lexicon.tag_all(TEXTS)
    for text in TEXTS:
        lattice = lexicon.lattice(text)
        lattice.nbest(3)
        lattice.log_partition()


def part(name: str, *, compiled: bool) -> Target:
    def seeds() -> list[bytes]:
        return [dictionary(compiled=compiled)[name]]

    return Target(name, seeds, with_file(name, compiled=compiled), cut, refuses=FstcrfError)


def named(name: str, seeds: Any, read: Any) -> Target:
    return Target(name, seeds, read, ask, refuses=FstcrfError)


MACHINES = (
    named("openfst", binaries, openfst.from_bytes),
    named("att", lambda: list(ATT), lambda data: openfst.from_att(data.decode("utf-8", "replace"))),
    *(part(name, compiled=True) for name in ("sys.dic", "unk.dic", "char.bin", "matrix.bin")),
    *(part(name, compiled=False) for name in ("lex.csv", "unk.def", "char.def", "matrix.def")),
)

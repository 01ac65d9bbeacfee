"""Random machines for hypothesis, the same ones made by pynini arc by arc, and all their paths.

Scores are multiples of 1/8: exact in float32, exact in nine digits, and ties are ties.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp

from fstcrf.arrays import Floats
from fstcrf.machines.machine import Machine, Semiring
from fstcrf.machines.openfst import Naming

ARC_TYPES = ("standard", "log", "log64")


class Found(NamedTuple):
    """One path: its labels without epsilons, its arcs, its score."""

    labels: tuple[int, ...]
    arcs: tuple[int, ...]
    score: float


@st.composite
def scores(draw: st.DrawFn, size: int, *, forbid: bool) -> Floats:
    """Scores, some of them −inf."""
    high = 17 if forbid else 16
    steps = draw(hnp.arrays(np.int8, size, elements=st.integers(-16, high), fill=st.nothing()))
    return np.where(steps == 17, -np.inf, steps / 8.0)


def from_ids(
    start: int,
    source: Any,
    target: Any,
    ilabel: Any,
    olabel: Any,
    score: Floats,
    final: Floats,
    isymbols: tuple[str, ...] | None = None,
    osymbols: tuple[str, ...] | None = None,
    semiring: Semiring = "log",
    tape: str | None = "output",
) -> Machine:
    """Return the machine of OpenFst's ids; symbols without a name are called by their ids."""
    naming = Naming(tape=tape, numbered=True)
    arcs = source, ilabel, olabel, target, score
    return naming.machine(start, arcs, final, (isymbols, osymbols), semiring)


def bytes_of_ids(
    start: int,
    source: Any,
    target: Any,
    ilabel: Any,
    olabel: Any,
    score: Floats,
    final: Floats,
    isymbols: tuple[str, ...] | None = None,
    osymbols: tuple[str, ...] | None = None,
    arc_type: str = "log64",
) -> bytes:
    """Return a machine of OpenFst's ids in its binary format, with any symbol tables, or none."""

    def text(value: str) -> bytes:
        return struct.pack("<i", len(value.encode())) + value.encode()

    weight = "f" if arc_type != "log64" else "d"
    flags = (isymbols is not None) | (osymbols is not None) << 1
    sizes = start, len(final), len(source)
    parts = [struct.pack("<i", 2125659606), text("vector"), text(arc_type)]
    parts.append(struct.pack("<iiQqqq", 2, flags, 0, *sizes))
    for table in (isymbols, osymbols):
        if table is not None:
            there = [(name, k) for k, name in enumerate(table) if name]
            parts += [struct.pack("<i", 2125658996), text("table")]
            parts.append(struct.pack("<qq", len(table), len(there)))
            parts += [text(name) + struct.pack("<q", k) for name, k in there]
    for state, end in enumerate(final.tolist()):
        arcs = np.flatnonzero(source == state)
        parts.append(struct.pack(f"<{weight}q", 0.0 - end, len(arcs)))
        for arc in arcs.tolist():
            labels = int(ilabel[arc]), int(olabel[arc])
            parts.append(struct.pack(f"<ii{weight}i", *labels, 0.0 - score[arc], int(target[arc])))
    return b"".join(parts)


@st.composite
def machines(
    draw: st.DrawFn,
    *,
    acyclic: bool = False,
    acceptor: bool = False,
    max_states: int = 5,
    max_arcs: int = 10,
    tables: bool = False,
) -> Machine:
    """Machines with epsilons, parallel arcs, forbidden arcs, dead states."""
    states = draw(st.integers(1, max_states))
    pair = st.tuples(st.integers(0, states - 1), st.integers(0, states - 1))
    if acyclic:
        pair = pair.filter(lambda ends: ends[0] < ends[1])
    ends = draw(st.lists(pair, max_size=max_arcs)) if states > acyclic else []
    ends.sort(key=lambda pair: pair[0])
    columns = np.asarray(ends, dtype=np.int32).reshape(-1, 2)
    labels = hnp.arrays(np.int32, len(ends), elements=st.integers(-1, 2), fill=st.nothing())
    read = draw(labels)
    names = ("a", "b c", 'ü"') if tables else ("1", "2", "3")
    return Machine(
        source=columns[:, 0].copy(),
        input=read,
        output=read if acceptor else draw(labels),
        target=columns[:, 1].copy(),
        score=draw(scores(len(ends), forbid=True)),
        final=draw(scores(states, forbid=True)),
        input_symbols=names,
        output_symbols=names if acceptor or draw(st.booleans()) else names[::-1],
        tape=None if acceptor else "output",
    )


def pynini_or_skip() -> Any:
    """Import pynini, or skip the test."""
    return pytest.importorskip("pynini", reason="pynini is not installed")


def log_sum(fst: Any) -> float:
    """Log of the sum of all paths; weights pass through text of nine digits."""
    if fst.start() < 0:
        return -np.inf
    # delta = 0, or the sum stops early
    distance = pynini_or_skip().shortestdistance(fst, delta=0.0, reverse=True)
    return -float(str(distance[fst.start()]))


def one_of(*symbols: int) -> Any:
    """Return pynini's machine of one token that is any of these symbols."""
    pynini = pynini_or_skip()
    fst = pynini.Fst()
    fst.add_states(2)
    fst.set_start(0)
    fst.set_final(1)
    for symbol in symbols:
        fst.add_arc(0, pynini.Arc(symbol, symbol, 0, 1))
    return fst


def made_by_pynini(machine: Machine, arc_type: str) -> Any:
    """Make the same machine arc by arc, without symbol tables."""
    pynini = pynini_or_skip()
    fst = pynini.Fst(arc_type=arc_type)

    def weight(score: float) -> Any:
        text = "Infinity" if score == -np.inf else repr(-score)
        return pynini.Weight("tropical" if arc_type == "standard" else arc_type, text)

    fst.add_states(len(machine.final))
    fst.set_start(0)
    columns = (machine.source, machine.input, machine.output, machine.score, machine.target)
    for source, read, written, score, target in zip(*(c.tolist() for c in columns), strict=True):
        fst.add_arc(source, pynini.Arc(read + 1, written + 1, weight(score), target))
    for state, score in enumerate(machine.final.tolist()):
        if score > -np.inf:
            fst.set_final(state, weight(score))
    return fst


def all_paths(machine: Machine) -> list[Found]:
    """Every path of an acyclic acceptor that is not forbidden, best first, ties by arc."""
    arcs = [np.flatnonzero(machine.source == state).tolist() for state in range(len(machine.final))]
    found: list[Found] = []

    def walk(state: int, taken: tuple[int, ...], score: float) -> None:
        if machine.final[state] > -np.inf:
            labels = tuple(int(machine.input[a]) for a in taken if machine.input[a] >= 0)
            found.append(Found(labels, taken, score + float(machine.final[state])))
        for a in arcs[state]:
            if machine.score[a] > -np.inf:
                walk(int(machine.target[a]), (*taken, a), score + float(machine.score[a]))

    walk(0, (), 0.0)
    return sorted(found, key=lambda path: (-path.score, path.arcs))

"""Random machines for hypothesis, the same ones made by pynini arc by arc, and all their paths.

Scores are multiples of 1/8: exact in float32, exact in nine digits, and ties are ties.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp

from fstcrf.arrays import Floats
from fstcrf.machines.openfst import FstArrays

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


@st.composite
def machines(
    draw: st.DrawFn,
    *,
    acyclic: bool = False,
    acceptor: bool = False,
    max_states: int = 5,
    max_arcs: int = 10,
    tables: bool = False,
) -> FstArrays:
    """Machines with epsilons, parallel arcs, forbidden arcs, dead states, perhaps no state."""
    states = draw(st.integers(1 if acyclic else 0, max_states))
    pair = st.tuples(st.integers(0, max(states - 1, 0)), st.integers(0, max(states - 1, 0)))
    if acyclic:
        pair = pair.filter(lambda ends: ends[0] < ends[1])
    possible = states > 1 if acyclic else states > 0
    ends = draw(st.lists(pair, max_size=max_arcs)) if possible else []
    ends.sort(key=lambda pair: pair[0])
    columns = np.asarray(ends, dtype=np.int32).reshape(-1, 2)
    labels = hnp.arrays(np.int32, len(ends), elements=st.integers(0, 3), fill=st.nothing())
    read = draw(labels)
    table = ("<eps>", "a", "b c", 'ü"') if tables and draw(st.booleans()) else None
    return FstArrays(
        start=0 if acyclic else draw(st.integers(min(states, 1) - 1, states - 1)),
        source=columns[:, 0].copy(),
        target=columns[:, 1].copy(),
        ilabel=read,
        olabel=read if acceptor else draw(labels),
        score=draw(scores(len(ends), forbid=True)),
        final=draw(scores(states, forbid=True)),
        isymbols=table,
        osymbols=table if acceptor or not tables or draw(st.booleans()) else None,
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


def made_by_pynini(machine: FstArrays, arc_type: str) -> Any:
    """Make the same machine arc by arc."""
    pynini = pynini_or_skip()
    fst = pynini.Fst(arc_type=arc_type)

    def weight(score: float) -> Any:
        text = "Infinity" if score == -np.inf else repr(-score)
        return pynini.Weight("tropical" if arc_type == "standard" else arc_type, text)

    fst.add_states(machine.n_states)
    if machine.start >= 0:
        fst.set_start(machine.start)
    columns = (machine.source, machine.ilabel, machine.olabel, machine.score, machine.target)
    for source, read, written, score, target in zip(*(c.tolist() for c in columns), strict=True):
        fst.add_arc(source, pynini.Arc(read, written, weight(score), target))
    for state, score in enumerate(machine.final.tolist()):
        if score > -np.inf:
            fst.set_final(state, weight(score))
    return fst


def all_paths(machine: FstArrays) -> list[Found]:
    """Every path of an acyclic acceptor that is not forbidden, best first, ties by arc."""
    row = machine.row.tolist()
    found: list[Found] = []

    def walk(state: int, arcs: tuple[int, ...], score: float) -> None:
        if machine.final[state] > -np.inf:
            labels = tuple(int(machine.ilabel[a]) - 1 for a in arcs if machine.ilabel[a])
            found.append(Found(labels, arcs, score + float(machine.final[state])))
        for a in range(row[state], row[state + 1]):
            if machine.score[a] > -np.inf:
                walk(int(machine.target[a]), (*arcs, a), score + float(machine.score[a]))

    if machine.start >= 0:
        walk(machine.start, (), 0.0)
    return sorted(found, key=lambda path: (-path.score, path.arcs))

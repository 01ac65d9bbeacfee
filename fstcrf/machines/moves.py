"""A transducer as it reads a tape: its moves, by state and label, without what lies on no path."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Bools, Ints, Longs
from fstcrf.errors import EpsilonCycleError, LabelError, TooLargeError
from fstcrf.kernel.acyclic import connected, topological
from fstcrf.kernel.transduced import Moves
from fstcrf.lazy import memoised
from fstcrf.machines.transducer import Transducer
from fstcrf.ragged import Ragged

_MOST_CELLS = 100_000_000  # states times labels


@dataclass(frozen=True, eq=False)
class Compiled:
    """A transducer over the labels of a tape, without what lies on no path.

    Parameters
    ----------
    moves : Moves
    origin : int64 [E + Q]
        The arc of the machine that each move is, and the number of its arcs + state for each end.
    output : int32 [E + Q]
        Label that is written; −1: none.
    """

    moves: Moves
    origin: Longs
    output: Ints


@memoised(64)
def compiled(machine: Transducer, labels: tuple[str, ...]) -> Compiled:
    """Return a transducer as it reads a tape with these labels.

    Raises
    ------
    EpsilonCycleError
        It moves in a circle without input, on a way to an end.
    LabelError
        It reads labels, none of which the tape has.
    """
    return numbered(machine, _numbers(machine.input_symbols, labels)[machine.input], len(labels))


def numbered(machine: Transducer, reads: Ints, size: int) -> Compiled:
    """Return a transducer whose arcs read labels below a number; −2: one that there is not."""
    there = (machine.score > -np.inf) & (reads > -2)
    row, order = _by_source(machine.source, there, len(machine.final))
    useful = connected(row, machine.target[order], 0, machine.final > -np.inf)
    useful[0] = True
    there &= useful[machine.source] & useful[machine.target]
    alone = there & (reads < 0)
    row, order = _by_source(machine.source, alone, len(useful))
    number, cycle = topological(row, machine.target[order])
    if cycle >= 0:
        raise EpsilonCycleError(_circle(row, machine.target[order], cycle))
    states = np.flatnonzero(useful)
    states = states[np.argsort(number[states], kind="stable")]
    place = np.empty(len(useful), dtype=np.int32)
    place[states] = np.arange(len(states))
    width = size + 1
    if len(states) * width > _MOST_CELLS:
        raise TooLargeError(
            f"a transducer of {len(states):,} states over {size:,} labels is too large to compose"
        )
    arcs = np.flatnonzero(there)
    cell = place[machine.source[arcs]].astype(np.int64) * width + reads[arcs] + 1
    order = np.argsort(cell, kind="stable")
    arcs = arcs[order]
    moves = Moves(
        labels=size,
        start=int(place[0]),
        index=Ragged.from_rows(cell, len(states) * width).offsets.astype(np.int32),
        reads=reads[arcs],
        target=place[machine.target[arcs]],
        gain=np.concatenate([machine.score[arcs], machine.final[states]]),
    )
    origin = np.concatenate([arcs, len(machine.source) + states])
    nothing = np.full(len(states), -1, dtype=np.int32)
    return Compiled(moves, origin, np.concatenate([machine.output[arcs], nothing]))


def _by_source(source: Ints, there: Bools, states: int) -> tuple[Longs, Longs]:
    """Return rows of states, and the arcs that are there in their order."""
    arcs = np.flatnonzero(there)
    order = arcs[np.argsort(source[arcs], kind="stable")]
    return Ragged.from_rows(source[order], states).offsets, order


def _numbers(symbols: tuple[str, ...], labels: tuple[str, ...]) -> Ints:
    """Return the label of each symbol, −2: the tape has none; last, −1 for what reads nothing."""
    index = {label: k for k, label in enumerate(labels)}
    numbers = [index.get(symbol, -2) for symbol in symbols]
    if symbols and max(numbers) < 0:
        near = difflib.get_close_matches(symbols[0], labels, 1, 0.0)
        nearest = f", the nearest is {near[0]!r}" if near else ""
        raise LabelError(
            f"the transducer reads {symbols[0]!r}, and nothing that the tape has{nearest}"
        )
    return np.asarray([*numbers, -1], dtype=np.int32)


def _circle(row: Longs, target: Ints, state: int) -> str:
    """Return the message about the states of a circle, of which one is known."""
    came, line = {state: -1}, [state]
    for s in line:
        for t in target[row[s] : row[s + 1]].tolist():
            if t == state:
                way = [s]
                while came[way[-1]] >= 0:
                    way.append(came[way[-1]])
                names = " → ".join(map(str, [*reversed(way), state]))
                return (
                    f"the transducer may go in a circle without reading: {names}; a path would "
                    "have no end: bound the repetition"
                )
            if t not in came:
                came[t] = s
                line.append(t)
    raise AssertionError(f"state {state} is on no circle")

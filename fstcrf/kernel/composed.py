"""Two machines composed: the first one writes the labels that the second one reads.

The machines may have cycles. Each arc of the composition has the number of its arc of either
machine. For each pair of states, the labels of the state with fewer arcs are searched among the
labels of the other state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf.arrays import Array, Bools, Ints
from fstcrf.errors import TooLargeError
from fstcrf.kernel.acyclic import connected
from fstcrf.kernel.native import View, array_in, array_out, check, ffi, lib
from fstcrf.lazy import made_once

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData

MOST_ARCS = 50_000_000
"""Largest number of arcs before trimming; each takes 12 bytes."""

_ROOM, _GROWTH = 1024, 4
_UNCOUNTED = 1 << 22  # arcs that are made without counting them first
_STEPS = 20_000_000  # between two checks for Ctrl-C


@dataclass(frozen=True, eq=False)
class Operand:
    """A machine with the labels by which it is matched; a path begins in state 0.

    Parameters
    ----------
    labels : int
        The labels are below this number.
    source : int32 [A]
        Rising.
    label : int32 [A]
        −1: no label; −2: a label that the other machine does not have.
    target : int32 [A]
    ends : bool [S]
        States in which a path may end.
    """

    labels: int
    source: Ints
    label: Ints
    target: Ints
    ends: Bools

    @made_once
    def view(self) -> View:
        """The machine as a C structure, with its arcs sorted by label."""
        states, arcs = len(self.ends), len(self.source)
        row, loud = np.empty(states + 1, dtype=np.int64), np.empty(states, dtype=np.int64)
        order, ordered = np.empty((2, arcs), dtype=np.int32)
        work = np.empty(arcs + max(self.labels, states) + 3, dtype=np.int64)
        label, target, where = _read(self.label), _read(self.target), ffi.new("int64_t *")
        made = {
            name: array_out(array)
            for name, array in (
                ("row", row),
                ("order", order),
                ("ordered", ordered),
                ("loud", loud),
            )
        }
        inputs = states, arcs, self.labels, _read(self.source), label, target
        outputs = made["row"], made["order"], made["ordered"], made["loud"]
        status = lib.fc_sort_arcs(*inputs, *outputs, array_out(work), where)
        check(status, "arcs of a composition", where[0])
        sizes = {"S": states, "A": arcs, "label": label, "target": target}
        return ffi.new("fc_operand *", sizes | made), [*made.values(), label, target]


class Composed(NamedTuple):
    """The arcs of a composition that are on paths, sorted by source; state 0 is the start."""

    first: Ints  # [S] state of the first machine
    second: Ints  # [S] state of the second machine
    source: Ints  # [A]
    target: Ints  # [A]
    of: Ints  # [A] arc of the first machine; −1: it stays
    by: Ints  # [A] arc of the second machine; −1: it stays


class _Room:
    """The arrays that the kernel writes to, enlarged when they are full."""

    def __init__(self) -> None:
        self.made = ffi.new("fc_composition *")
        self.arrays: dict[str, Array] = {}
        self._more_states(_ROOM)
        self.more_arcs(4 * _ROOM)

    def _put(self, name: str, size: int, used: int, dtype: type[np.integer] = np.int32) -> None:
        array = np.empty(size, dtype=dtype)
        if used:
            array[:used] = self.arrays[name][:used]
        self.arrays[name] = array
        setattr(self.made, name, array_out(array))

    def _more_states(self, size: int) -> None:
        made = self.made
        for name in ("first", "second"):
            self._put(name, size, made.states)
        self._put("row", size + 1, made.next, np.int64)
        self._put("slot", 2 * size, 0)
        self.arrays["slot"].fill(-1)
        made.state_room, made.slots, made.hashed = size, 2 * size, 0

    def more_arcs(self, size: int) -> None:
        """Enlarge the arrays of arcs."""
        for name in ("target", "of", "by"):
            self._put(name, size, self.made.arcs)
        self.made.arc_room = size

    def grow(self, most: int) -> bool:
        """Enlarge what is full; return False if this would be more than `most` arcs."""
        made = self.made
        if made.wanted <= made.arc_room:
            self._more_states(_GROWTH * made.state_room)
        elif made.wanted <= most:
            self.more_arcs(min(most, max(_GROWTH * made.arc_room, made.wanted)))
        else:
            return False
        return True


def composed(first: Operand, second: Operand, most: int = MOST_ARCS) -> Composed:
    """Return the composition of two machines: the arcs that are on paths.

    States are sorted by the state of the first machine, then of the second. A large composition is
    counted before there is room for it.

    Raises
    ------
    TooLargeError
        There are more than `most` arcs before trimming.
    """
    room = _Room()
    if not _expanded(first, second, room, min(most, _UNCOUNTED)):
        arcs = _count(first, second, most)
        room = _Room()
        room.more_arcs(arcs)
        _expanded(first, second, room, arcs)
    return _trimmed(room, first.ends, second.ends)


def _expanded(first: Operand, second: Operand, room: _Room, most: int) -> bool:
    """Make all arcs; return False if there are more than `most`."""
    while (status := _compose(first, second, room)) != lib.FC_OK:
        if status == lib.FC_EFULL and not room.grow(most):
            return False
    return True


def _count(first: Operand, second: Operand, most: int) -> int:
    """Return the number of arcs before trimming; keep only some of them at a time."""
    room, total = _Room(), 0
    made = room.made
    while total <= most and (status := _compose(first, second, room)) != lib.FC_OK:
        if status == lib.FC_EFULL and made.arcs and made.wanted > _UNCOUNTED:
            total += int(made.arcs)
            made.arcs = 0
        elif status == lib.FC_EFULL and made.wanted > most:
            total = most + 1
        elif status == lib.FC_EFULL:
            room.grow(max(_UNCOUNTED, int(made.wanted)))
    if total + made.arcs > most:
        raise TooLargeError(
            f"the composition of machines with {len(first.source):,} and "
            f"{len(second.source):,} arcs has more than {most:,} arcs: determinize one of them"
        )
    return total + int(made.arcs)


def _compose(first: Operand, second: Operand, room: _Room) -> int:
    status: int = lib.fc_compose(first.view[0], second.view[0], _STEPS, room.made)
    if status not in (lib.FC_OK, lib.FC_EFULL, lib.FC_EPAUSED):
        check(status, "composition")
    return status


def _trimmed(room: _Room, first: Bools, second: Bools) -> Composed:
    """Return the start, and the states and arcs that are on paths; the bools are ends."""
    states, arcs = int(room.made.states), int(room.made.arcs)
    p, code = (room.arrays[name][:states] for name in ("first", "second"))
    row, target = room.arrays["row"][: states + 1], room.arrays["target"][:arcs]
    keep = connected(row, target, 0, first[p] & second[code // 2])
    place = np.flatnonzero(keep)
    key = p[place] * np.int64(2 * len(second)) + code[place]
    place = place[np.argsort(key)].astype(np.int32)
    number = np.full(states, -1, dtype=np.int32)
    number[place] = np.arange(len(place), dtype=np.int32)
    if len(place) < states:
        arcs = int(np.count_nonzero(np.repeat(keep, np.diff(row)) & keep[target]))
    if not len(place):  # the start remains
        place = np.zeros(1, dtype=np.int32)
    columns = [np.empty(arcs, dtype=np.int32) for _ in range(4)]
    inputs = array_out(number), array_out(place), len(place)
    status = lib.fc_composed_arcs(room.made, *inputs, *map(array_out, columns))
    check(status, "composition")
    return Composed(p[place], code[place] // 2, *columns)


def _read(array: Ints) -> CData:
    return array_in(array, np.int32, array.shape, "arcs of a composition")

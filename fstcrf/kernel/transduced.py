"""Acyclic machines composed with a transducer: the arcs of the composition.

Each arc has the index of its lattice arc and of its transducer arc, so that posteriors of the
composition can be summed to posteriors of either. The cost is linear in the arcs that are built.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf.arrays import Bools, Bytes, Floats, Ints, Longs
from fstcrf.errors import TooLargeError
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.kernel.native import array_in, array_out, check, ffi, freeze, lib
from fstcrf.lazy import given_state, made_once

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData


MOST_ARCS = 50_000_000
"""Largest number of arcs before trimming; each takes 16 bytes."""

_ROOM, _GROWTH = 4096, 3
_OF_STATES, _OF_ARCS = ("key", "next", "number", "place"), ("source", "target", "of", "by")


@dataclass(frozen=True, eq=False)
class IndexedTransducer:
    """A transducer over the labels of a tape, in the form of the kernel.

    All its states and arcs are on paths. Its arcs are sorted by state and input.

    Parameters
    ----------
    labels : int
        Number of input labels, L.
    start : int
    index : int32 [Q (L + 1) + 1]
        The first arc of each state with each input; no input precedes all labels.
    reads, target : int32 [E]
        Label, −1: no input; and target, which is higher than the source of an arc without input.
    gain : float64 [E + Q]
        Scores of arcs, and of ending at states; −inf: no path ends there.
    origin : int64 [E + Q]
        The number of each arc in the machine; for ends, the number of arcs plus the state.
    output : int32 [E + Q]
        Label that is written, or −1.
    """

    labels: int
    start: int
    index: Ints
    reads: Ints
    target: Ints
    gain: Floats
    origin: Longs
    output: Ints

    def __post_init__(self) -> None:
        freeze(self, "index", "reads", "target")
        where = ffi.new("int64_t *")
        check(lib.fc_check_transducer(self.handle, where), "transducer", where[0])

    __getstate__ = given_state

    def with_scores(self, score: Floats, final: Floats) -> IndexedTransducer:
        """Return it with new scores of all arcs and ends; −inf must be at the same places."""
        return replace(self, gain=np.concatenate([score, final])[self.origin])

    @property
    def states(self) -> int:
        """Number of states, Q."""
        return len(self.gain) - len(self.target)

    @made_once
    def successions(self) -> int:
        """Number of arcs of a fold of free labels; a pair is a label and the state after it."""
        reads = np.flatnonzero(self.reads >= 0)
        pairs = np.unique(self.target[reads].astype(np.int64) * self.labels + self.reads[reads])
        into = np.bincount(pairs // self.labels, minlength=self.states)
        width, bounds = self.labels + 1, self.index.astype(np.int64)
        return int(into @ (bounds[width::width] - bounds[1::width]))

    @made_once
    def ends(self) -> Bytes:
        """1 for each state in which a path may end, uint8 [Q]."""
        return (self.gain[len(self.target) :] > -np.inf).astype(np.uint8)

    @made_once
    def handle(self) -> CData:
        """The transducer as a C structure, valid as long as this object lives."""
        states, n_arcs = self.states, len(self.target)
        fields = {
            "index": array_in(self.index, np.int32, (states * (self.labels + 1) + 1,), "index"),
            "input": array_in(self.reads, np.int32, (n_arcs,), "reads"),
            "target": array_in(self.target, np.int32, (n_arcs,), "target"),
            "ends": array_in(self.ends, np.uint8, (states,), "ends"),
        }
        sizes = {"Q": states, "E": n_arcs, "L": self.labels, "start": self.start}
        return ffi.new("fc_transducer *", sizes | fields)


class Transduced(NamedTuple):
    """The arcs of a composition, sorted by source, states in topological order."""

    place: Ints  # [S] state of the lattice
    begins: Longs  # [B]
    source: Ints  # [A]
    target: Ints  # [A]
    before: Ints  # [A] plain arc of the lattice that was joined with it; −1: no such arc
    of: Ints  # [A] arc of the lattice; −1: no arc
    by: Ints  # [A] arc of the transducer, E + q for ending at q; −1: neither
    score: Floats  # [A]


class _Room:
    """The arrays that the kernel writes to, enlarged when they are full."""

    def __init__(self, lattice: Acyclic, transducer: IndexedTransducer) -> None:
        states, self.width = len(lattice.final), 2 * (transducer.states + 1)
        self.made = ffi.new("fc_transduced *")
        self.arrays: dict[str, Ints] = {}
        none = np.full(states, -1, dtype=np.int32)
        self._put(slot=none, head=none.copy())
        self._put(
            here=np.empty(self.width, np.int32), first=np.empty(len(lattice.begins), np.int32)
        )
        self._more("arc_room", _OF_ARCS, _ROOM)
        self._more("state_room", _OF_STATES, _ROOM)
        self._more_tables(max(2, min(states, _ROOM // self.width)))

    def _put(self, **arrays: Ints) -> None:
        self.arrays |= arrays
        for name, array in arrays.items():
            setattr(self.made, name, array_out(array))

    def _more(self, room: str, names: tuple[str, ...], size: int) -> None:
        old = getattr(self.made, room)
        for name in names:
            array = np.empty(size, dtype=np.int32)
            if old:
                array[:old] = self.arrays[name]
            self._put(**{name: array})
        setattr(self.made, room, size)

    def _more_tables(self, size: int) -> None:
        old = self.made.tables
        table = np.full(size * self.width, -1, dtype=np.int32)
        spares = np.empty(size, dtype=np.int32)
        if old:
            table[: old * self.width] = self.arrays["table"]
            spares[:old] = self.arrays["spares"]
        spares[self.made.spare : self.made.spare + size - old] = np.arange(old, size)
        self._put(table=table, spares=spares)
        self.made.spare += size - old
        self.made.tables = size

    def build(
        self, given: tuple[CData, CData, CData, CData, CData], most: int, *, counted: bool = False
    ) -> None:
        """Compose; `counted`: without keeping arcs. TooLargeError if there are more than `most`."""
        made, before = self.made, 0
        while (status := lib.fc_transduce(*given, made)) == lib.FC_EFULL:
            if made.spare == 0:
                self._more_tables(_GROWTH * made.tables)
            elif made.states == made.state_room:
                self._more("state_room", _OF_STATES, _GROWTH * made.state_room)
            elif before + made.arc_room >= most:
                break
            elif counted and made.arcs:  # the arcs of a state of the lattice fit at least
                before, made.arcs = before + made.arcs, 0
            else:
                self._more("arc_room", _OF_ARCS, min(most, _GROWTH * made.arc_room))
        if status == lib.FC_EFULL or before + made.arcs > most:
            raise TooLargeError(self._too_many(most))
        check(status, "composition")

    def _too_many(self, most: int) -> str:
        states = len(self.arrays["slot"])
        each = self.made.numbered / max(self.made.node, 1)
        factor = "the transducer" if each > states else "the lattice"
        return (
            f"the composition has more than {most:,} arcs at state {self.made.node:,} of "
            f"{states:,} of the lattice: {factor} is large, {each:,.0f} of the transducer's "
            "states are met with each; restrict the lattice, or bound the transducer"
        )


def _arcs_at_most(lattice: Acyclic, label: Ints, machine: IndexedTransducer) -> int:
    """Return an upper bound on the arcs: all states meet."""
    of_label = np.bincount(machine.reads + 1, minlength=machine.labels + 1)
    read = np.where(label < 0, 2 * machine.states, of_label[label + 1])
    return int(read.sum()) + len(lattice.final) * (int(of_label[0]) + machine.states)


def transduced(
    lattice: Acyclic, label: Ints, plain: Bools, machine: IndexedTransducer, most: int = MOST_ARCS
) -> Transduced:
    """Return the composition of a lattice and a transducer: the arcs that are on paths.

    Parameters
    ----------
    lattice : Acyclic
    label : int32 [A]
        Label that the transducer reads on each arc; −1: no label.
    plain : bool [A]
        Arcs without labels: they are joined with the arc before or after, if that makes no more
        arcs.
    machine : IndexedTransducer
    most : int
        Largest number of arcs before trimming.

    Raises
    ------
    TooLargeError
        There are more arcs.
    """
    states, arcs, room = len(lattice.final), len(lattice.target), _Room(lattice, machine)
    ahead, only = np.empty(arcs, dtype=np.int32), np.empty(states, dtype=np.int32)
    rises, read = np.empty(states, dtype=np.uint8), array_in(label, np.int32, (arcs,), "label")
    look = array_out(ahead), array_out(only), array_out(rises)
    check(lib.fc_look_ahead(lattice.handle, read, *look), "look ahead")
    made, views = room.made, (lattice.handle, read, look[0], look[2], machine.handle)
    if most < _arcs_at_most(lattice, label, machine):
        _Room(lattice, machine).build(views, most, counted=True)
    room.build(views, most)
    work, count = np.empty(4 * made.numbered + 1, dtype=np.int32), np.empty(2, dtype=np.int64)
    silent = array_in(plain.astype(np.uint8), np.uint8, (arcs,), "plain")
    trimmed = array_out(work), array_out(count)
    check(lib.fc_trim_transduced(machine.handle, silent, made, *trimmed), "composition")
    size, left = count.tolist()
    place, row = np.empty(size, dtype=np.int32), np.empty(size + 1, dtype=np.int64)
    begins = np.empty(len(lattice.begins), dtype=np.int64)
    source, target, before, of, by = np.empty((5, left), dtype=np.int32)
    columns, score = (source, target, before, of, by), np.empty(left)
    gain = array_in(machine.gain, np.float64, machine.gain.shape, "gain")
    out = [array_out(part) for part in (place, begins, row, *columns, score)]
    check(lib.fc_transduced_arcs(lattice.handle, gain, made, trimmed[0], *out), "composition")
    return Transduced(place, begins, source, target, before, of, by, score)

"""A topology: the label histories of a tagger, and the potentials that each of them sums.

States
    Label histories; every state has one label, the label of its token.
Start / Final
    The states in which a sentence may begin and end.
Arcs
    The histories that may follow each history. Forbidden histories and arcs do not exist.
Slots
    Groups of states or arcs that share weights. A state sums the potentials of its *node slots*
    (its label; for order 2 also the pair of labels); an arc has at most one *arc slot*. Several
    states may share a slot.

A topology is deterministic: a label sequence has at most one path.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arguments import label_tuple, real_array, string_list
from fstcrf.arrays import Bools, Bytes, Floats, Ints, Longs, Ragged
from fstcrf.errors import LabelError, ShapeError
from fstcrf.lazy import LazyModule, made_once

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from fstcrf import files
else:  # only pictures need them
    files = LazyModule("fstcrf.files")
pictures = LazyModule("fstcrf.ext.pictures.svg")

START = "<s>"
"""Name of the history before the first token."""

# A dense step handles several arcs in the time of one sparse arc (measured: 4 to 9).
_DENSE_ADVANTAGE = 5
_SMALL_BLOCK = 2  # smaller than this many times its states, a block is listed instead
_MOST_DRAWN, _MOST_SIDE = 12, 100
"""Largest number of states that are drawn with their arcs; states on a side of a table."""


@dataclass(frozen=True)
class Topology:
    """States, arcs and slots.

    Parameters
    ----------
    labels : tuple of str
        The L output labels.
    state_names : tuple of str
        Meaning of each state: its label, or a pair of labels.
    state_label : int32 [S]
        Label of each state.
    node_slots : int32 [S, K]
        Node slots whose potentials a state sums.
    node_slot_names : tuple of str
        Meaning of each node slot.
    source, target : int32 [A]
        Ends of the arcs, sorted by source, then target.
    arc_slot : int32 [A]
        Slot of each arc; −1 for an arc without a potential.
    n_arc_slots : int
    initial, final : bool [S]
        States in which a sentence may begin and end.
    empty : bool
        Whether a sentence without tokens is legal.

    Raises
    ------
    OptionError
        Labels that are not a list of distinct strings.
    ShapeError
        Arrays that disagree; two arcs for one (state, label), or two beginnings for one label.
    """

    labels: tuple[str, ...]
    state_names: tuple[str, ...]
    state_label: Ints
    node_slots: Ints
    node_slot_names: tuple[str, ...]
    source: Ints
    target: Ints
    arc_slot: Ints
    n_arc_slots: int
    initial: Bools
    final: Bools
    empty: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", label_tuple(self.labels))
        states, arcs = len(self.state_label), len(self.source)
        shapes = {
            "state_names": ((len(self.state_names),), (states,)),
            "state_label": (self.state_label.shape, (states,)),
            "source": (self.source.shape, (arcs,)),
            "node_slots": (self.node_slots.shape, (states, *self.node_slots.shape[-1:])),
            "target": (self.target.shape, (arcs,)),
            "arc_slot": (self.arc_slot.shape, (arcs,)),
            "initial": (self.initial.shape, (states,)),
            "final": (self.final.shape, (states,)),
        }
        for name, (actual, wanted) in shapes.items():
            if actual != wanted:
                raise ShapeError(f"topology: {name} is {list(actual)}, expected {list(wanted)}")
        limits = {
            "state_label": (self.state_label, 0, len(self.labels)),
            "node_slots": (self.node_slots, 0, len(self.node_slot_names)),
            "source": (self.source, 0, states),
            "target": (self.target, 0, states),
            "arc_slot": (self.arc_slot, -1, self.n_arc_slots),
        }
        for name, (array, low, high) in limits.items():
            if array.size and (array.min() < low or array.max() >= high):
                raise ShapeError(f"topology: {name} holds numbers outside [{low}, {high})")
        label = self.state_label[self.target]
        if not _rise(self.source, label) and _repeats(
            self.source.astype(np.int64) * len(self.labels) + label
        ):
            raise ShapeError("topology: two arcs leave one state with the same label")
        begins = self.state_label[self.initial]
        if _repeats(begins):
            raise ShapeError("topology: two states begin a sentence with the same label")

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return len(self.state_label)

    @property
    def n_labels(self) -> int:
        """Number of labels, L."""
        return len(self.labels)

    @made_once
    def dense(self) -> bool:
        """Whether it runs as a full matrix: all arcs exist, or enough that this is faster."""
        arcs = len(self.source)
        return arcs == 0 or self.n_states**2 <= _DENSE_ADVANTAGE * arcs

    @made_once
    def direct(self) -> bool:
        """Whether state, label and node slot have the same number (orders 0 and 1)."""
        return self.node_slots.shape[1] == 1 and bool(
            np.array_equal(self.node_slots[:, 0], np.arange(len(self.node_slot_names)))
            and np.array_equal(self.state_label, np.arange(self.n_labels))
        )

    @made_once
    def label_index(self) -> dict[str, int]:
        """Index of each label."""
        return {label: i for i, label in enumerate(self.labels)}

    @made_once
    def successor(self) -> Ints:
        """int32 [S + 1, L]: state after (state, label), −1: no such arc; row S is the start."""
        table = np.full((self.n_states + 1, self.n_labels), -1, dtype=np.int32)
        table[self.source, self.state_label[self.target]] = self.target
        start = np.flatnonzero(self.initial)
        table[self.n_states, self.state_label[start]] = start
        return table

    def label_ids(self, labels: Iterable[str]) -> Ints:
        """Return the index of each label.

        Raises
        ------
        LabelError
            A label that the topology does not have; or an argument that is not a list of labels.
        """
        index = self.label_index
        try:
            rows = [index[label] for label in string_list(labels, "label")]
            return np.asarray(rows, dtype=np.int32)
        except KeyError as error:
            names = ", ".join(self.labels[:12]) + (", …" if self.n_labels > 12 else "")
            raise LabelError(f"unknown label {error.args[0]!r}; the labels are {names}") from None

    def paths(self, label_ids: Ints, offsets: Longs) -> Ints:
        """Return the state of each token, −1 from the first illegal label of a sentence on.

        Parameters
        ----------
        label_ids : int32 [N]
        offsets : int64 [B + 1]

        Returns
        -------
        int32 [N]
        """
        if self.direct and self.initial.all() and self.final.all() and self._complete:
            return label_ids.copy()
        table = np.vstack([self.successor, np.full((1, self.n_labels), -1, dtype=np.int32)])
        states = np.full(len(label_ids), -1, dtype=np.int32)
        starts, lengths = offsets[:-1], Ragged(offsets).lengths
        now = np.full(len(starts), self.n_states, dtype=np.int32)
        for t in range(int(lengths.max(initial=0))):
            live = np.flatnonzero(lengths > t)
            tokens = starts[live] + t
            now[live] = table[now[live], label_ids[tokens]]
            last = lengths[live] == t + 1
            dead = last & (now[live] >= 0) & ~self.final[now[live]]
            states[tokens] = np.where(dead, -1, now[live])
        return states

    @made_once
    def _complete(self) -> bool:
        return len(self.source) == self.n_states**2

    def node_potentials(self, slots: Floats) -> Floats:
        """Sum slot potentials into states: [N, node slots (or more)] → [N, S]."""
        if self.direct:
            width = self.n_states
            return slots if slots.shape[1] == width else np.ascontiguousarray(slots[:, :width])
        total = slots[:, self.node_slots[:, 0]]
        for k in range(1, self.node_slots.shape[1]):
            total = total + slots[:, self.node_slots[:, k]]
        return np.ascontiguousarray(total)

    def slot_sums(self, states: Floats, width: int) -> Floats:
        """Add up state posteriors over the slots they sum: [N, S] → [N, width]."""
        if not self.direct:
            return _summed(states, self.node_slots, width)
        out = np.zeros((len(states), width))
        out[:, : self.n_states] = states
        return out

    def graph(
        self, arc_slots: Floats, initial: Floats | None = None, final: Floats | None = None
    ) -> kernel.Graph:
        """Return the topology with these potentials in the form of the kernel.

        Parameters
        ----------
        arc_slots : float64 [arc slots] or [N, arc slots]
            Potential of each arc slot, shared by all tokens or separate for the arcs into each
            token.
        initial, final : float64 [S], optional
            Potentials of beginning and ending in a state, zero if absent.
        """
        padded = np.concatenate([arc_slots, np.zeros((*arc_slots.shape[:-1], 1))], axis=-1)
        score = padded[..., self.arc_slot]  # slot −1 is the appended zero
        first, last = (
            np.where(allowed, 0.0 if value is None else value, -np.inf)
            for allowed, value in ((self.initial, initial), (self.final, final))
        )
        empty = 0.0 if self.empty else -np.inf
        if not self.dense:
            score = np.ascontiguousarray(score)
            return kernel.Graph(first, last, score, self.source, self.target, empty=empty)
        if not self._complete:
            full = np.full((*score.shape[:-1], self.n_states**2), -np.inf)
            full[..., self._dense_arc] = score
            score = full
        return kernel.Graph(first, last, np.ascontiguousarray(score), empty=empty)

    def default_arcs(self, slots: Ints) -> DefaultArcs | None:
        """Return the arcs of some slots as exceptions among all pairs of states, or of classes.

        Parameters
        ----------
        slots : int32, sorted
            Arc slots with different potentials; all other arcs share one number.

        Returns
        -------
        DefaultArcs or None
            `None` if there are no arcs to list.
        """
        place = np.full(self.n_arc_slots + 1, -1, dtype=np.int32)  # the last entry is for slot −1
        place[slots] = np.arange(len(slots), dtype=np.int32)
        arc_blocks = None if self._complete else self.arc_blocks
        listed = place[self.arc_slot] >= 0
        if arc_blocks is not None:
            listed |= (arc_blocks.leave[self.source] < 0) | (
                arc_blocks.leave[self.source] != arc_blocks.enter[self.target]
            )
        arcs = np.flatnonzero(listed)
        if not len(arcs) and not (arc_blocks is None or self.dense):
            # an arbitrary arc, because the list must not be empty
            arcs = np.zeros(1, dtype=np.int64)
        if not len(arcs):
            return None
        numbers = place[self.arc_slot[arcs]]
        return DefaultArcs(self, self.source[arcs], self.target[arcs], numbers, arc_blocks)

    @made_once
    def arc_blocks(self) -> ArcBlocks:
        """Most arcs as complete blocks: every state of a class leads to every state of another.

        States with the same predecessors are grouped; the largest groups without common states are
        the blocks. A tagging scheme has one block, from labels that may end a span to labels that
        may begin one; at order 2 each label has a block, from its pairs with the previous label to
        its pairs with the next.
        """
        order = np.argsort(self.target, kind="stable")
        source = self.source[order]
        starts = np.searchsorted(self.target[order], np.arange(self.n_states + 1))
        groups: dict[bytes, list[int]] = {}
        for state in range(self.n_states):
            before = source[starts[state] : starts[state + 1]]
            if len(before):
                groups.setdefault(before.tobytes(), []).append(state)
        leave, enter = (np.full(self.n_states, -1, dtype=np.int32) for _ in range(2))
        blocks = [(np.frombuffer(ends, dtype=np.int32), after) for ends, after in groups.items()]
        blocks.sort(key=lambda block: -len(block[0]) * len(block[1]))  # stable sort
        count = 0
        for before, after in blocks:
            small = len(before) * len(after) <= _SMALL_BLOCK * (len(before) + len(after))
            if small or (leave[before] >= 0).any():
                continue
            leave[before], enter[after] = count, count
            count += 1
        return ArcBlocks(leave, enter, count)

    @made_once
    def _dense_arc(self) -> Longs:
        return self.source.astype(np.int64) * self.n_states + self.target

    def kernel_arcs(self) -> Longs:
        """Return the kernel's arc number of each arc."""
        return self._dense_arc if self.dense else np.arange(len(self.source), dtype=np.int64)

    def arc_slot_sums(self, arcs: Floats) -> Floats:
        """Add up kernel arcs over their slots: [..., kernel arcs] → [..., arc slots]."""
        values = arcs[..., self.kernel_arcs()]
        n, slots = self.n_arc_slots, self.arc_slot
        if np.array_equal(slots, np.arange(n)):
            return values
        used = slots >= 0
        if values.ndim == 1:
            return np.bincount(slots[used], weights=values[used], minlength=n).astype(np.float64)
        out = np.zeros((*values.shape[:-1], n))
        for arc in np.flatnonzero(used).tolist():
            out[..., slots[arc]] += values[..., arc]
        return out

    def label_sums(self, states: Floats) -> Floats:
        """Add up state posteriors over their labels: [N, S] → [N, L]."""
        return states if self.direct else _summed(states, self.state_label[:, None], self.n_labels)

    def label_max(self, states: Floats) -> Floats:
        """Return the largest state score of each label: [N, S] → [N, L], −inf without a state."""
        if self.direct:
            return states
        out = np.full((len(states), self.n_labels), -np.inf)
        for state, label in enumerate(self.state_label.tolist()):
            np.maximum(out[:, label], states[:, state], out=out[:, label])
        return out

    @made_once
    def arc_slot_names(self) -> tuple[str, ...]:
        """Meaning of each arc slot: the ends of its first arc."""
        names = [""] * self.n_arc_slots
        for arc in np.flatnonzero(self.arc_slot >= 0).tolist()[::-1]:
            ends = self.state_names[self.source[arc]], self.state_names[self.target[arc]]
            names[self.arc_slot[arc]] = " → ".join(ends)
        return tuple(names)

    def draw(
        self, path: str | os.PathLike[str] | None = None, *, arc_slots: ArrayLike | None = None
    ) -> str:
        """Return a picture as SVG of the states that may follow each state.

        A few states are drawn with their arcs, from one token to the next; more states, or
        potentials, as a table with a row for each state and a column for each successor.

        Parameters
        ----------
        path : str or Path, optional
            A file ``*.svg`` to which the picture is also written.
        arc_slots : float64 [arc slots], optional
            Potentials to write into the table, such as a tagger's transitions.

        Raises
        ------
        ShapeError
            Potentials of another number of slots.
        OptionError
            A file of another kind.
        OSError
            The file cannot be written.
        """
        title = f"Topology of {self.n_states} states over {self.n_labels} labels"
        if arc_slots is None and self.n_states <= _MOST_DRAWN:
            arcs = list(zip(self.source.tolist(), self.target.tolist(), strict=True))
            ends = self.initial.tolist(), self.final.tolist()
            return files.write_picture(pictures.step(self.state_names, arcs, *ends, title), path)
        slots = given_potentials(arc_slots, self.n_arc_slots, "arc_slots")
        shown = min(self.n_states, _MOST_SIDE)
        value = np.full((self.n_states + 1, self.n_states), -np.inf)
        value[0, self.initial] = 0.0
        value[self.source + 1, self.target] = np.append(slots, 0.0)[self.arc_slot]
        note = "a row: what may come after it; –: never"
        if shown < self.n_states:
            note += f"; {self.n_states - shown:,} of {self.n_states:,} states are not drawn"
        names = self.state_names[:shown]
        rows = (START, *names)
        table = pictures.scores(title, names, rows, value[: shown + 1, :shown].tolist(), note=note)
        return files.write_picture(pictures.tables([table], title), path)

    def arrays(self) -> dict[str, Ints | Bytes]:
        """Return the arrays that a model file stores."""
        return {
            "state_label": self.state_label,
            "node_slots": self.node_slots,
            "source": self.source,
            "target": self.target,
            "arc_slot": self.arc_slot,
            "initial": self.initial.astype(np.uint8),
            "final": self.final.astype(np.uint8),
        }


class ArcBlocks(NamedTuple):
    """Complete blocks of arcs: each state with leave = k has an arc to every state with enter = k.

    Parameters
    ----------
    leave, enter : int32 [S]
        −1: no class.
    n_blocks : int
        Number of classes.
    """

    leave: Ints
    enter: Ints
    n_blocks: int


@dataclass(frozen=True, eq=False)
class DefaultArcs:
    """Arcs with separate potentials; all other pairs of states share one number.

    Parameters
    ----------
    topology : Topology
    source, target : int32 [E]
        Ends of the arcs, sorted by source, then target.
    place : int32 [E]
        Position of each arc's slot among the given slots; −1: it has the shared number.
    arc_blocks : ArcBlocks, optional
        The other pairs are restricted to the pairs of its classes; all pairs if absent.
    """

    topology: Topology
    source: Ints
    target: Ints
    place: Ints
    arc_blocks: ArcBlocks | None = None

    @made_once
    def classes(self) -> tuple[kernel.Classes, kernel.Classes] | None:
        """The blocks in the form of the kernel."""
        if self.arc_blocks is None:
            return None
        leave, enter, count = self.arc_blocks
        return kernel.Classes.made(leave, count), kernel.Classes.made(enter, count)

    def graph(
        self, potentials: Floats, initial: Floats, final: Floats, *, rest: float = 0.0
    ) -> kernel.Graph:
        """Return the topology with these potentials in the form of the kernel.

        Parameters
        ----------
        potentials : float64 [slots]
            Potentials of the given slots.
        initial, final : float64 [S]
            Potentials of beginning and ending in a state.
        rest : float
            Potential of all other pairs.
        """
        first = np.where(self.topology.initial, initial, -np.inf)
        last = np.where(self.topology.final, final, -np.inf)
        score = np.append(potentials, rest)[self.place]
        return kernel.Graph(
            first, last, score, self.source, self.target, rest=rest, classes=self.classes
        )

    def slot_sums(self, arcs: Floats, n_slots: int) -> Floats:
        """Add up arcs over the slots: [E] → [slots]."""
        sums = np.bincount(self.place + 1, weights=arcs, minlength=n_slots + 1)
        return sums[1:].astype(np.float64)


def _summed(states: Floats, places: Ints, width: int) -> Floats:
    """Add up columns [N, S] over their places [S, K]: [N, width]."""
    out = np.zeros((len(states), width))
    # One state after the other: a fixed order of additions, so that bits never differ.
    for state, slots in enumerate(places.tolist()):
        for place in slots:
            out[:, place] += states[:, state]
    return out


def _repeats(numbers: NDArray[np.integer]) -> bool:
    """Return whether a number occurs twice; `np.unique` would import numpy.ma, in 20 ms."""
    return not np.diff(np.sort(numbers)).all()


def _rise(first: Ints, second: Ints) -> bool:
    """Return whether pairs are sorted and distinct."""
    same = first[1:] == first[:-1]
    return bool(((first[1:] > first[:-1]) | same & (second[1:] > second[:-1])).all())


def given_potentials(values: ArrayLike | None, size: int, name: str) -> Floats:
    """Return given potentials, zeros if absent; raise ShapeError for a wrong size."""
    array = np.zeros(size) if values is None else real_array(values, name)
    if array.shape != (size,):
        raise ShapeError(f"{name} is {list(array.shape)}, expected [{size}]")
    return array

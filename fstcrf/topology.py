"""A topology: which label histories there are and which potentials each of them sums.

States
    Label histories; every state has one label, the label of its token.
Start / Final
    The states in which a sentence may begin and end.
Arcs
    Which history follows which. What is forbidden is not there.
Slots
    Where weights attach. A state sums the potentials of its *node slots* (its label; for order 2
    also the pair of labels); an arc has at most one *arc slot*. Several states may share a slot.

A topology is deterministic: a label sequence has at most one path.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from itertools import count, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arguments import LabelSet, label_tuple, real_array
from fstcrf.arrays import Bools, Bytes, Floats, Ints, Longs
from fstcrf.errors import LabelError, OptionError, ShapeError
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from fstcrf import openfst, pictures
    from fstcrf.corpus import files
else:
    openfst, pictures = LazyModule("fstcrf.openfst"), LazyModule("fstcrf.pictures")
    files = LazyModule("fstcrf.corpus.files")

__all__ = [
    "START",
    "Background",
    "Cover",
    "Rest",
    "Topology",
    "all_pairs_cost",
    "arc_classes",
    "best_alone_pays",
    "chain_topology",
    "check_pairs",
    "rest_cost",
    "rest_of",
    "sparse_pays",
    "topology_machine",
]

START = "<s>"
"""The history before the first token, in names of states."""

# A dense step handles several arcs in the time of one sparse arc (measured: 4 to 9).
_DENSE_ADVANTAGE = 5

_PAIR_BYTES = 29  # of a pair of labels: whether it is legal, its ends, its slot
_FEW = 4_096  # labels whose pairs fit in any machine
_SMALL_BLOCK = 2  # times the states of a block, and fewer pairs: they are listed instead
_NARROW, _NARROW_STATE = "base", 24.0  # the variant of narrow registers; see `best_alone_pays`
_NEAR = 4_096  # scores of pairs that stay in the first cache


_MOST_DRAWN, _MOST_SIDE = 12, 100
"""States that are drawn with their arcs; states on a side of a table."""


@dataclass(frozen=True)
class Topology:
    """States, arcs and slots.

    Parameters
    ----------
    labels : tuple of str
        The L output labels.
    state_names : tuple of str
        What each state stands for: its label, or a pair of labels.
    state_label : int32 [S]
        Label of each state.
    node_slots : int32 [S, K]
        Node slots that a state sums.
    node_slot_names : tuple of str
        For each node slot, what it stands for.
    source, target : int32 [A]
        Ends of the arcs, sorted by source, then target.
    arc_slot : int32 [A]
        Slot of each arc; −1 for an arc without a potential.
    n_arc_slots : int
    initial, final : bool [S]
        States in which a sentence may begin and end.

    Raises
    ------
    OptionError
        Labels that are none.
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
        for name, (found, wanted) in shapes.items():
            if found != wanted:
                raise ShapeError(f"topology: {name} is {list(found)}, expected {list(wanted)}")
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
        pair = self.source.astype(np.int64) * len(self.labels) + self.state_label[self.target]
        if _repeats(pair):
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

    @cached_property
    def dense(self) -> bool:
        """Run as a full matrix: all arcs are there, or enough of them that this is faster."""
        arcs = len(self.source)
        return arcs == 0 or self.n_states**2 <= _DENSE_ADVANTAGE * arcs

    @cached_property
    def direct(self) -> bool:
        """State, label and node slot are one and the same number (orders 0 and 1)."""
        return self.node_slots.shape[1] == 1 and bool(
            np.array_equal(self.node_slots[:, 0], np.arange(len(self.node_slot_names)))
            and np.array_equal(self.state_label, np.arange(self.n_labels))
        )

    @cached_property
    def label_index(self) -> dict[str, int]:
        """Index of each label."""
        return {label: i for i, label in enumerate(self.labels)}

    @cached_property
    def successor(self) -> Ints:
        """int32 [S + 1, L]: state after (state, label), −1 where there is none; row S starts."""
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
            A label that the topology does not have.
        """
        index = self.label_index
        try:
            return np.asarray([index[label] for label in labels], dtype=np.int32)
        except KeyError as error:
            known = ", ".join(self.labels[:12]) + (", …" if self.n_labels > 12 else "")
            raise LabelError(f"unknown label {error.args[0]!r}; the labels are {known}") from None

    def paths(self, label_ids: Ints, offsets: Longs) -> Ints:
        """Return the state of each token, −1 from where a sentence's labels leave the topology.

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
        starts, lengths = offsets[:-1], np.diff(offsets)
        now = np.full(len(starts), self.n_states, dtype=np.int32)
        for t in range(int(lengths.max(initial=0))):
            live = np.flatnonzero(lengths > t)
            tokens = starts[live] + t
            now[live] = table[now[live], label_ids[tokens]]
            last = lengths[live] == t + 1
            dead = last & (now[live] >= 0) & ~self.final[now[live]]
            states[tokens] = np.where(dead, -1, now[live])
        return states

    @cached_property
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
        """Return the kernel's view of the topology with these potentials.

        Parameters
        ----------
        arc_slots : float64 [arc slots] or [N, arc slots]
            Potential of each arc slot, the same for all tokens or for the arcs into each token.
        initial, final : float64 [S], optional
            Potentials of beginning and ending in a state, zero when absent.
        """
        padded = np.concatenate([arc_slots, np.zeros((*arc_slots.shape[:-1], 1))], axis=-1)
        score = padded[..., self.arc_slot]  # slot −1 is the appended zero
        first, last = (
            np.where(allowed, 0.0 if value is None else value, -np.inf)
            for allowed, value in ((self.initial, initial), (self.final, final))
        )
        if not self.dense:
            score = np.ascontiguousarray(score)
            return kernel.Graph(first, last, score, self.source, self.target)
        if not self._complete:
            full = np.full((*score.shape[:-1], self.n_states**2), -np.inf)
            full[..., self._dense_arc] = score
            score = full
        return kernel.Graph(first, last, np.ascontiguousarray(score))

    def background(self, slots: Ints) -> Background | None:
        """Return the arcs of some slots as exceptions among all pairs of states, or of classes.

        Parameters
        ----------
        slots : int32, sorted
            Arc slots whose potentials differ; those of other arcs are one number.

        Returns
        -------
        Background or None
            None without arcs to list.
        """
        place = np.full(self.n_arc_slots + 1, -1, dtype=np.int32)  # of slot −1: the last
        place[slots] = np.arange(len(slots), dtype=np.int32)
        cover = None if self._complete else self.cover
        listed = place[self.arc_slot] >= 0
        if cover is not None:
            listed |= (cover.leave[self.source] < 0) | (
                cover.leave[self.source] != cover.enter[self.target]
            )
        arcs = np.flatnonzero(listed)
        if not len(arcs) and not (cover is None or self.dense):
            arcs = np.zeros(1, dtype=np.int64)  # any one: a list is never empty
        if not len(arcs):
            return None
        own = place[self.arc_slot[arcs]]
        return Background(self, self.source[arcs], self.target[arcs], own, cover)

    @cached_property
    def cover(self) -> Cover:
        """Most arcs as whole blocks: every state of a class leads to every one of another.

        States that the same states lead to are grouped; of the groups, the largest that share no
        state are the blocks. Under a tagging scheme one block has what may end a span and what may
        begin one; at order 2 there is one for each label, its pairs with those before and behind.
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
        blocks.sort(key=lambda block: -len(block[0]) * len(block[1]))  # stable
        count = 0
        for before, after in blocks:
            small = len(before) * len(after) <= _SMALL_BLOCK * (len(before) + len(after))
            if small or (leave[before] >= 0).any():
                continue
            leave[before], enter[after] = count, count
            count += 1
        return Cover(leave, enter, count)

    @cached_property
    def _dense_arc(self) -> Longs:
        return self.source.astype(np.int64) * self.n_states + self.target

    def kernel_arcs(self) -> Longs:
        """Return the kernel's arc number of each arc."""
        return self._dense_arc if self.dense else np.arange(len(self.source), dtype=np.int64)

    def arc_slot_sums(self, arcs: Floats) -> Floats:
        """Add up kernel arcs over their slots: [..., kernel arcs] → [..., arc slots]."""
        mine = arcs[..., self.kernel_arcs()]
        n, slots = self.n_arc_slots, self.arc_slot
        if np.array_equal(slots, np.arange(n)):
            return mine
        used = slots >= 0
        if mine.ndim == 1:
            return np.bincount(slots[used], weights=mine[used], minlength=n).astype(np.float64)
        out = np.zeros((*mine.shape[:-1], n))
        for arc in np.flatnonzero(used).tolist():
            out[..., slots[arc]] += mine[..., arc]
        return out

    def label_sums(self, states: Floats) -> Floats:
        """Add up state posteriors over their labels: [N, S] → [N, L]."""
        return states if self.direct else _summed(states, self.state_label[:, None], self.n_labels)

    def label_max(self, states: Floats) -> Floats:
        """Take the largest state score of each label: [N, S] → [N, L], −inf where there is none."""
        if self.direct:
            return states
        out = np.full((len(states), self.n_labels), -np.inf)
        for state, label in enumerate(self.state_label.tolist()):
            np.maximum(out[:, label], states[:, state], out=out[:, label])
        return out

    @cached_property
    def arc_slot_names(self) -> tuple[str, ...]:
        """What each arc slot stands for: the ends of its first arc."""
        names = [""] * self.n_arc_slots
        for arc in np.flatnonzero(self.arc_slot >= 0).tolist()[::-1]:
            ends = self.state_names[self.source[arc]], self.state_names[self.target[arc]]
            names[self.arc_slot[arc]] = " → ".join(ends)
        return tuple(names)

    def draw(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        arc_slots: ArrayLike | None = None,
    ) -> str:
        """Return a picture as SVG: which state may follow which.

        Few states are drawn with their arcs, from one token to the next; more of them, and
        potentials, as a table with a row for each state and what comes after it.

        Parameters
        ----------
        path : str or Path, optional
            A file ``*.svg`` to write it to, too.
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
        slots = _potentials(arc_slots, self.n_arc_slots, "arc_slots")
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


class Cover(NamedTuple):
    """Classes of states: those of a class among `leave` lead to all of the same among `enter`.

    Parameters
    ----------
    leave, enter : int32 [S]
        −1: no class.
    blocks : int
        How many classes.
    """

    leave: Ints
    enter: Ints
    blocks: int


@dataclass(frozen=True, eq=False)
class Background:
    """Arcs with potentials of their own, where other pairs of states share one number.

    Parameters
    ----------
    topology : Topology
    source, target : int32 [E]
        Ends of the arcs, sorted by source, then target.
    place : int32 [E]
        Place of each arc's slot among those that it was made of; −1: its number is that of others.
    cover : Cover, optional
        The others are the pairs of its classes alone; all that there are when absent.
    """

    topology: Topology
    source: Ints
    target: Ints
    place: Ints
    cover: Cover | None = None

    @cached_property
    def classes(self) -> tuple[kernel.Classes, kernel.Classes] | None:
        """The cover as the kernel sees it."""
        if self.cover is None:
            return None
        leave, enter, count = self.cover
        return kernel.Classes.made(leave, count), kernel.Classes.made(enter, count)

    def graph(
        self, potentials: Floats, initial: Floats, final: Floats, *, rest: float = 0.0
    ) -> kernel.Graph:
        """Return the kernel's view of the topology with these potentials.

        Parameters
        ----------
        potentials : float64 [slots]
            Of the slots that the background was made of.
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


def rest_cost(states: int, arcs: int, rows: int = 1, *, turned: bool = False) -> float:
    """Return what a step costs over some arcs, and one number for the rest; see `all_pairs_cost`.

    Parameters
    ----------
    states, arcs : int
    rows : int
        Vectors of states that are stepped; eight go together.
    turned : bool
        Whether each vector lies by itself, so that they are turned first.
    """
    return -(-rows // 8) * (0.8 * arcs + (10.0 if turned else 6.0) * states)


def all_pairs_cost(states: int, rows: int = 1) -> float:
    """Return what a step costs over all pairs of states, in nanoseconds where it was fitted."""
    if rows == 1:
        return 0.083 * states * states
    far = 0.03 * -(-rows // 4) if states * states > _NEAR else 0.0
    return (0.03 * rows + far) * states * states


def sparse_pays(states: int, arcs: int, rows: int = 1, *, turned: bool = False) -> bool:
    """Tell whether steps go faster over some arcs, and one number for the rest, than over all.

    The costs are those of one sentence, which takes as long as eight of a batch.
    """
    return rest_cost(states, arcs, rows, turned=turned) < 0.95 * all_pairs_cost(states, rows)


def best_alone_pays(states: int, arcs: int) -> bool:
    """Tell whether the best path of one sentence goes faster over some arcs than over all pairs.

    A sentence by itself takes all lanes. A processor without AVX takes them in four parts, and
    maxima over all pairs as fast as others do. Either way gives the same path.
    """
    own = _NARROW_STATE * states if kernel.variant() == _NARROW else 0.0
    return max(own + 0.8 * arcs, rest_cost(states, arcs)) < 0.95 * all_pairs_cost(states)


class Rest(NamedTuple):
    """The score of most pairs of states, and the others.

    Parameters
    ----------
    score : float
    others : int64 [E]
        Numbers ``i * S + j`` of the pairs with another score, rising.
    """

    score: float
    others: Longs


def rest_of(scores: Floats, states: int, rows: int = 1, *, turned: bool = False) -> Rest | None:
    """Return the score of most pairs of states, float64 [S * S], where going without them pays.

    None where the scores of more pairs differ, or are −inf, than `sparse_pays` allows.
    """
    if not sparse_pays(states, 0, rows, turned=turned):
        return None
    middle = len(scores) // 2  # what more than half of them are is the middle one
    score = float(np.partition(scores, middle)[middle])
    if not np.isfinite(score):
        return None
    others = np.flatnonzero(scores != score)
    pays = sparse_pays(states, len(others), rows, turned=turned)
    return Rest(score, others) if pays else None


def _summed(states: Floats, places: Ints, width: int) -> Floats:
    """Add up columns [N, S] over their places [S, K]: [N, width]."""
    out = np.zeros((len(states), width))
    # One state after the other: a fixed order of additions, hence the same bits always.
    for state, mine in enumerate(places.tolist()):
        for place in mine:
            out[:, place] += states[:, state]
    return out


def _repeats(numbers: NDArray[np.integer]) -> bool:
    """Tell whether a number is there twice; `np.unique` would import numpy.ma for 20 ms."""
    return not np.diff(np.sort(numbers)).all()


# --- Chains of order 0, 1 and 2 -------------------------------------------------------------------
#
# Order 1
#     A state is a label; an arc y' → y has the slot (y', y).
# Order 2
#     The label-pair encoding of Sha and Pereira (2003): a state is a pair y = (c', c), with the
#     node slots c and y; an arc y' → y has the slot (y', y). What is forbidden is absent.

MAX_ARCS = 4_000_000


def chain_topology(
    labels: LabelSet,
    order: int = 1,
    *,
    allowed: Callable[[str | None, str | None], bool] | None = None,
    start_label: str | None = None,
) -> Topology:
    """Return the topology of an order-k chain over labels.

    Parameters
    ----------
    labels : sequence of str, or mapping of int to str
        The labels, of a text its letters; their order is the order of ties.
    order : {0, 1, 2}
        How many earlier labels a potential sees.
    allowed : callable, optional
        Says of a label and its successor whether that succession is legal; None stands for the
        start (as first argument) and the end (as second). Everything is legal when absent.
    start_label : str, optional
        Order 2 only: the label that is taken to precede the first token (Sha and Pereira: ``O``).
        Without it, the start is a history of its own.

    Raises
    ------
    OptionError
        Another order, no or repeated labels, no legal pair, or more arcs than can be handled.
    """
    names = tuple(labels) if isinstance(labels, str) else label_tuple(labels)
    if not names or len(set(names)) != len(names):
        raise OptionError("labels must be distinct, and at least one")
    legal = allowed if allowed is not None else (lambda _a, _b: True)
    if order == 2:
        return _second_order(names, legal, start_label)
    if order not in (0, 1):
        raise OptionError(f"order is {order}, expected 0, 1 or 2")
    check_pairs(len(names))
    table = np.ones((len(names), len(names)), dtype=bool)
    if allowed is not None:
        table[:] = [[legal(a, b) for b in names] for a in names]
    source, target = np.nonzero(table)
    slots = np.arange(len(source), dtype=np.int32)
    return Topology(
        labels=names,
        state_names=names,
        state_label=np.arange(len(names), dtype=np.int32),
        node_slots=np.arange(len(names), dtype=np.int32)[:, None],
        node_slot_names=names,
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        arc_slot=slots if order == 1 else np.full_like(slots, -1),
        n_arc_slots=len(slots) if order == 1 else 0,
        initial=np.asarray([legal(None, label) for label in names]),
        final=np.asarray([legal(label, None) for label in names]),
    )


def check_pairs(n_labels: int) -> None:
    """Refuse labels of whose pairs there are more than memory holds: OptionError."""
    if n_labels <= _FEW:  # whatever the machine: this is asked for every lattice
        return
    needed = _PAIR_BYTES * n_labels * n_labels
    if needed > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise OptionError(
            f"{n_labels:,} labels: all pairs of them take {needed / 1e9:,.0f} GB of memory, more "
            "than there is; are they labels, or words?"
        )


def _second_order(
    names: tuple[str, ...],
    legal: Callable[[str | None, str | None], bool],
    start_label: str | None,
) -> Topology:
    rank = {name: i for i, name in enumerate((*names, START))}
    pairs = _histories(names, legal, start_label, rank)
    ends = _pair_arcs(pairs, len(names))
    shown = [f"{a} {b}" for a, b in pairs]
    begin = START if start_label is None else start_label
    return Topology(
        labels=names,
        state_names=tuple(shown),
        state_label=np.asarray([rank[b] for _, b in pairs], dtype=np.int32),
        node_slots=np.asarray(
            [(rank[b], len(names) + i) for i, (_, b) in enumerate(pairs)], dtype=np.int32
        ).reshape(-1, 2),
        node_slot_names=(*names, *shown),
        source=ends[:, 0].copy(),
        target=ends[:, 1].copy(),
        arc_slot=np.arange(len(ends), dtype=np.int32),
        n_arc_slots=len(ends),
        initial=np.asarray([a == begin and legal(None, b) for a, b in pairs]),
        final=np.asarray([legal(b, None) for _, b in pairs]),
    )


def _histories(
    names: tuple[str, ...],
    legal: Callable[[str | None, str | None], bool],
    start_label: str | None,
    rank: Mapping[str, int],
) -> list[tuple[str, str]]:
    """Return the legal pairs of a label and the one before it."""
    if start_label is not None and start_label not in names:
        raise OptionError(f"start label {start_label!r} is not a label")
    if START in names:
        raise OptionError(f"order 2 keeps the label {START!r} for the start of a sentence")
    pairs: list[tuple[str, str]] = []
    if start_label is None:
        pairs += [(START, c) for c in names if legal(None, c)]
    pairs += [(a, b) for a, b in product(names, repeat=2) if legal(a, b)]
    if not pairs:
        raise OptionError("every label is forbidden at the start and behind every other")
    # Among states of one label ties go by state: sort by label first, then by history.
    return sorted(pairs, key=lambda pair: (rank[pair[1]], rank[pair[0]]))


def _pair_arcs(pairs: Sequence[tuple[str, str]], n_labels: int) -> Ints:
    """Return the ends of the arcs, int32 [A, 2]: (c'', c') → (c', c), by source, then target."""
    by_first: dict[str, list[int]] = {}
    for number, (a, _) in enumerate(pairs):
        by_first.setdefault(a, []).append(number)
    n_arcs = sum(len(by_first.get(b, ())) for _, b in pairs)
    if n_arcs > MAX_ARCS:
        raise OptionError(
            f"order 2 over {n_labels} labels has {n_arcs} arcs, more than {MAX_ARCS}; "
            "use order 1 or a scheme that forbids successions"
        )
    arcs = [(s, t) for s, (_, b) in enumerate(pairs) for t in by_first.get(b, ())]
    return np.asarray(arcs, dtype=np.int32).reshape(-1, 2)


# --- As a position-independent transducer ---------------------------------------------------------


def topology_machine(
    topology: Topology,
    arc_slots: Floats | None = None,
    initial: Floats | None = None,
    final: Floats | None = None,
) -> openfst.Machine:
    """Return a topology as a transducer from arc classes to labels.

    Parameters
    ----------
    topology : Topology
    arc_slots : float64 [arc slots], optional
        Potential of each arc slot; zero when absent, as the others.
    initial, final : float64 [S], optional
        Potentials of beginning and ending in a state.

    Returns
    -------
    fstcrf.openfst.Machine
        Without what lies on no path. Input symbol k + 1 is class k of `arc_classes`.

    Raises
    ------
    ShapeError
        Sizes that disagree.
    NumericError
        NaN or +inf.
    """
    states = topology.n_states
    slots = _potentials(arc_slots, topology.n_arc_slots, "arc_slots")
    first, last = (
        np.where(allowed, _potentials(values, states, name), -np.inf)
        for values, allowed, name in (
            (initial, topology.initial, "initial"),
            (final, topology.final, "final"),
        )
    )
    classes, begin, inner = _classes(topology)
    begins = np.flatnonzero(topology.initial).astype(np.int32)
    target = np.concatenate([begins, topology.target])
    machine = openfst.Machine(
        start=0,
        source=np.concatenate([np.zeros_like(begins), topology.source + np.int32(1)]),
        target=target + np.int32(1),
        ilabel=np.concatenate([begin[begins], inner]) + np.int32(1),
        olabel=topology.state_label[target] + np.int32(1),
        score=np.concatenate([first[begins], np.append(slots, 0.0)[topology.arc_slot]]),
        final=np.concatenate([[-np.inf], last]),
        isymbols=openfst.symbols(_names(topology, classes)),
        osymbols=openfst.symbols(topology.labels),
    )
    return openfst.connect(machine)


def arc_classes(topology: Topology) -> tuple[Ints, Ints]:
    """Return the slots that each arc class sums.

    Returns
    -------
    node : int32 [C, K]
        Node slots.
    arc : int32 [C]
        Arc slot, −1: none.
    """
    classes, _, _ = _classes(topology)
    return classes[:, :-1].astype(np.int32), classes[:, -1].astype(np.int32)


def _classes(topology: Topology) -> tuple[Ints, Ints, Ints]:
    """Distinct (node slots, arc slot), and the class of each beginning and of each arc."""
    nodes = topology.node_slots
    none = np.full((len(nodes), 1), -1, dtype=np.int32)
    begins = np.hstack([nodes, none])
    arcs = np.hstack([nodes[topology.target], topology.arc_slot[:, None]])
    # Beginnings come first, in the order of the states; only those that there are.
    used = np.vstack([begins[topology.initial], arcs])
    classes, where, number = np.unique(used, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(where)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    of_used = rank[number.reshape(-1)]
    begin = np.full(len(nodes), -1, dtype=np.int32)
    n_begins = int(topology.initial.sum())
    begin[topology.initial] = of_used[:n_begins]
    return classes[order].astype(np.int32), begin, of_used[n_begins:]


def _names(topology: Topology, classes: Ints) -> list[str]:
    """One readable name for each class, without white space, so that texts can hold it."""
    node = [_solid(name) for name in topology.node_slot_names]
    arc = [_solid(name.replace(" → ", "→")) for name in topology.arc_slot_names]
    names: list[str] = []
    for *slots, into in classes.tolist():
        parts = [node[slot] for slot in slots] + ([arc[into]] if into >= 0 else [])
        names.append(",".join(parts))
    taken: set[str] = set()
    for number, name in enumerate(names):
        copies = (f"{name}#{k}" for k in count(2))
        names[number] = name if name not in taken else next(n for n in copies if n not in taken)
        taken.add(names[number])
    return names


def _solid(name: str) -> str:
    return "_".join(name.split())


def _potentials(values: ArrayLike | None, size: int, name: str) -> Floats:
    array = np.zeros(size) if values is None else real_array(values, name)
    if array.shape != (size,):
        raise ShapeError(f"{name} is {list(array.shape)}, expected [{size}]")
    return array

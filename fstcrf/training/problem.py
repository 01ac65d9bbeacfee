"""The training problem: sentences, their attributes, a topology, and the allowed labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, OptionError, ShapeError
from fstcrf.kernel import SparseRows, padded
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology


@dataclass(frozen=True)
class Problem:
    """Sentences for training.

    Parameters
    ----------
    topology : Topology
    offsets : int64 [B + 1]
        Sentence b has the tokens ``offsets[b] : offsets[b + 1]``.
    node : SparseRows [N, R]
        Attributes of each token.
    arc : SparseRows [N, Ra], optional
        Attributes of the arcs into each token.
    allowed : bool [N, L]
        Allowed labels of each token: exactly one if the label is known.
    weight : float64 [B]
        Weight of each sentence.
    first, first_token : int
        Numbers of the first sentence and token in the text, if this is a part of it.

    Raises
    ------
    ShapeError
        Arrays that disagree.
    DataError
        A sentence whose labels have no path through the topology.
    """

    topology: Topology
    offsets: Longs
    node: SparseRows
    arc: SparseRows | None
    allowed: Bools
    weight: Floats
    first: int = 0
    first_token: int = 0

    def __post_init__(self) -> None:
        n, sentences = int(self.offsets[-1]), len(self.offsets) - 1
        if self.allowed.shape != (n, self.topology.n_labels):
            raise ShapeError(
                f"allowed is {list(self.allowed.shape)}, "
                f"expected {[n, self.topology.n_labels]} (tokens, labels)"
            )
        if self.weight.shape != (sentences,):
            raise ShapeError(f"weight is {list(self.weight.shape)}, expected {[sentences]}")
        if not (np.isfinite(self.weight).all() and (self.weight >= 0).all()):
            wrong = int(np.argmin(np.isfinite(self.weight) & (self.weight >= 0)))
            raise DataError(
                f"the sentence has weight {self.weight[wrong]:g}, expected a finite number of at "
                "least 0",
                sentence=wrong,
            )
        broken = np.flatnonzero(np.minimum.reduceat(self.states, self.offsets[:-1]) < 0)
        broken = broken[~self.partial[broken]] if len(broken) else broken
        if len(broken):
            raise self._forbidden(int(broken[0]))

    def _forbidden(self, sentence: int) -> DataError:
        """Return an error for the first succession of labels that the topology does not have."""
        first, last = self.offsets[sentence : sentence + 2].tolist()
        token = int(np.flatnonzero(self.states[first:last] < 0)[0])
        names = [self.topology.labels[i] for i in self.allowed[first:last].argmax(axis=1)]
        before = repr(names[token - 1]) if token else "the start"
        return DataError(
            f"label {names[token]!r} after {before} is not part of the model (or not as the last "
            "label): its scheme, order or grammar forbids it",
            sentence=sentence,
            token=token,
        )

    @made_once
    def partial(self) -> Bools:
        """Sentences, bool [B], with a token whose label is not known."""
        several = self.allowed.sum(axis=1) != 1
        return np.logical_or.reduceat(several, self.offsets[:-1])

    def require_known(self, why: str) -> None:
        """Raise an error unless all labels are known.

        Raises
        ------
        OptionError
            Names the first sentence with an unknown label, and the reason.
        """
        if self.partial.any():
            first = int(np.flatnonzero(self.partial)[0])
            raise OptionError(f"sentence {first} has labels that are not known: {why}")

    def part(self, first: int, last: int) -> tuple[slice, Problem]:
        """Return a run of sentences as a problem, with its slice of tokens."""
        a, b = self.offsets[[first, last]].tolist()
        part = Problem(
            self.topology,
            self.offsets[first : last + 1] - a,
            self.node.slice(a, b),
            None if self.arc is None else self.arc.slice(a, b),
            self.allowed[a:b],
            self.weight[first:last],
            self.first + first,
            self.first_token + a,
        )
        return slice(a, b), part

    def chosen(self, sentences: Longs) -> Problem:
        """Return some of the sentences, ascending numbers, as a problem."""
        rows = Ragged(self.offsets)
        tokens = rows.entries(sentences)
        return Problem(
            self.topology,
            rows.select(sentences).offsets,
            self.node.taken(tokens),
            None if self.arc is None else self.arc.taken(tokens),
            self.allowed[tokens],
            self.weight[sentences],
        )

    @made_once
    def states(self) -> Ints:
        """int32 [N]: gold state of each token; meaningless in partial sentences."""
        labels = self.allowed.argmax(axis=1).astype(np.int32)
        return self.topology.paths(labels, self.offsets)

    @made_once
    def sentence_of(self) -> Longs:
        """int64 [N]: sentence of each token."""
        return Ragged(self.offsets).rows()


@dataclass(frozen=True)
class Tables:
    """Weights in the tables that the kernel uses.

    Parameters
    ----------
    node : float64 [R, W]
        Weight of each (attribute, node slot); W is padded.
    transition : float64 [arc slots]
        Weight of each arc slot at every token.
    arc : float64 [Ra, Wa], optional
        Weight of each (arc attribute, arc slot); Wa is padded.
    initial, final : float64 [S]
    """

    node: Floats
    transition: Floats
    arc: Floats | None
    initial: Floats
    final: Floats


class Blocks(ABC):
    """The weights that exist, in blocks; theta lists them block after block."""

    @property
    @abstractmethod
    def blocks(self) -> tuple[int, ...]:
        """Number of weights of each block."""

    @made_once
    def bounds(self) -> list[int]:
        """Start of each block of theta, and its end."""
        bounds: list[int] = Ragged.from_lengths(self.blocks).offsets.tolist()
        return bounds

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.bounds[-1]

    def parts(self, theta: Floats) -> list[Floats]:
        """Return views of the blocks of theta."""
        return [theta[i:j] for i, j in pairwise(self.bounds)]


@dataclass(frozen=True)
class ParameterSpace(Blocks):
    """The weights of a chain, in the blocks node, transition, arc, initial, final.

    Parameters
    ----------
    topology : Topology
    n_node_rows, n_arc_rows : int
        Number of attributes, R, and of arc attributes, Ra.
    node_cells : int64, sorted
        ``attribute * W + slot`` of each node weight, W the padded number of node slots.
    transitions : int32, sorted
        Arc slots with a weight at every token.
    arc_cells : int64, sorted
        ``attribute * Wa + slot`` of each arc weight.
    initial, final : int32
        States with a separate weight for beginning and ending.
    """

    topology: Topology
    n_node_rows: int
    n_arc_rows: int = 0
    node_cells: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    transitions: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    arc_cells: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    initial: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    final: Ints = field(default_factory=lambda: np.empty(0, np.int32))

    @made_once
    def width(self) -> int:
        """Padded number of node slots, W."""
        return padded(len(self.topology.node_slot_names))

    @made_once
    def arc_width(self) -> int:
        """Padded number of arc slots, Wa."""
        return padded(self.topology.n_arc_slots)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Number of weights of each block."""
        parts = (self.node_cells, self.transitions, self.arc_cells, self.initial, self.final)
        return tuple(len(part) for part in parts)

    def tables(self, theta: Floats) -> Tables:
        """Convert theta to tables; weights that do not exist are zero."""
        node, transition, arc, initial, final = self.parts(theta)
        states = self.topology.n_states
        return Tables(
            _filled(node, self.node_cells, (self.n_node_rows, self.width)),
            _filled(transition, self.transitions, (self.topology.n_arc_slots,)),
            _filled(arc, self.arc_cells, (self.n_arc_rows, self.arc_width))
            if self.n_arc_rows
            else None,
            _filled(initial, self.initial, (states,)),
            _filled(final, self.final, (states,)),
        )

    def collect(self, tables: Tables) -> Floats:
        """Return the theta of tables (for sums, the transpose of `tables`)."""
        arc = np.empty(0) if tables.arc is None else tables.arc.ravel()[self.arc_cells]
        return np.concatenate(
            [
                tables.node.ravel()[self.node_cells],
                tables.transition[self.transitions],
                arc,
                tables.initial[self.initial],
                tables.final[self.final],
            ]
        )


def arc_slots(tables: Tables, arc: SparseRows | None) -> Floats:
    """Return the potentials of arc slots: float64 [slots], or [N, slots] with arc attributes."""
    slots = tables.transition
    if arc is None or tables.arc is None:
        return slots
    return arc.times(tables.arc)[:, : len(slots)] + slots


def _filled(values: Floats, cells: NDArray[np.integer], shape: tuple[int, ...]) -> Floats:
    table = np.zeros(int(np.prod(shape)))
    table[cells] = values
    return table.reshape(shape)


def slot_table(topology: Topology) -> Longs:
    """Return the slot of the arc from row to column, int64 [S, S]; −1 without an arc."""
    table = np.full((topology.n_states, topology.n_states), -1, dtype=np.int64)
    table[topology.source, topology.target] = topology.arc_slot
    return table

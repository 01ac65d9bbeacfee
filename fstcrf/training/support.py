"""The weights that exist, given co-occurrences and feature frequencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import RUN_TOKENS, Bools, Floats, Longs, Ragged, distinct
from fstcrf.kernel import SparseRows, padded
from fstcrf.machines.topology import Topology
from fstcrf.training.problem import ParameterSpace, Problem, slot_table

Extent = Literal["supported", "complete"]
Pairs: TypeAlias = tuple[Longs, Longs]
"""Tokens, and a slot or an arc of each."""

_CELLS = 1 << 22  # cells processed together
_BITS = 64
_FEW_ARCS = 1 << 14  # arc slots, for which all may have weights: 128 labels


def parameter_space(
    problem: Problem,
    *,
    features: Extent = "supported",
    transitions: Literal["observed", "all", "none"] = "observed",
    ends: bool = False,
) -> ParameterSpace:
    """Choose the weights of a tagger.

    Parameters
    ----------
    problem : Problem
    features : {"supported", "complete"}
        Weights of the (attribute, slot) pairs that occur together, or of all pairs. A token with
        several allowed labels supports all of them; a token with all labels allowed supports no
        weight.
    transitions : {"observed", "all", "none"}
        Weights of the arc slots on gold paths, of all arc slots, or no such weights. Every
        succession of allowed labels of two tokens counts as observed. If all labels are allowed, it
        does so only if there are few arc slots (up to 16,384, for 128 labels).
    ends : bool
        Weights for beginning and ending in a state.
    """
    supported = support(problem, features=features)
    return supported_space(
        problem.topology,
        problem.node.n_columns,
        None if problem.arc is None else problem.arc.n_columns,
        supported,
        transitions=transitions,
        ends=ends,
    )


@dataclass(frozen=True, eq=False)
class Support:
    """The weights that some sentences support; sets of slots are bits, in the format of `SlotSets`.

    Parameters
    ----------
    observed : bool [arc slots]
        Arc slots on gold paths.
    node, arc : uint64, optional
        Slots of each attribute, if only co-occurring ones get weights.
    """

    observed: Bools
    node: NDArray[np.uint64] | None = None
    arc: NDArray[np.uint64] | None = None

    def joined(self, other: Support) -> Support:
        """Return the union of both."""
        return Support(
            self.observed | other.observed,
            None if self.node is None or other.node is None else self.node | other.node,
            None if self.arc is None or other.arc is None else self.arc | other.arc,
        )


def support(problem: Problem, features: Extent = "supported") -> Support:
    """Return the weights that the sentences of a problem support."""
    topology, node, arc = problem.topology, None, None
    observed = _observed_arc_slots(problem)
    if features == "supported":
        slots = len(topology.node_slot_names)
        node = _slot_sets(problem.node, _node_support(problem), slots).bits
        if problem.arc is not None and topology.n_arc_slots:
            pairs = _arc_support(problem, observed)
            arc = _slot_sets(problem.arc, pairs, topology.n_arc_slots).bits
    return Support(observed, node, arc)


def supported_space(
    topology: Topology,
    n_node_rows: int,
    n_arc_rows: int | None,
    found: Support,
    *,
    transitions: Literal["observed", "all", "none"] = "observed",
    ends: bool = False,
) -> ParameterSpace:
    """Choose the weights of a tagger, given the support of all sentences.

    Parameters
    ----------
    topology : Topology
    n_node_rows, n_arc_rows : int
        Number of attributes; `None`: no attributes of arcs.
    found : Support
    transitions, ends
        As for `parameter_space`.
    """
    n_node, n_arc = len(topology.node_slot_names), topology.n_arc_slots
    observed = found.observed
    chosen = {"observed": np.flatnonzero(observed), "all": np.arange(n_arc), "none": np.empty(0)}[
        transitions
    ]
    arc_cells = np.empty(0, dtype=np.int64)
    n_arc_rows = (n_arc_rows or 0) if n_arc else 0
    if n_arc_rows:
        arc_cells = _cells(n_arc_rows, n_arc, padded(n_arc), found.arc)
    live = [np.flatnonzero(e & ends) for e in (topology.initial, topology.final)]
    return ParameterSpace(
        topology=topology,
        n_node_rows=n_node_rows,
        n_arc_rows=n_arc_rows,
        node_cells=_cells(n_node_rows, n_node, padded(n_node), found.node),
        transitions=chosen.astype(np.int32),
        arc_cells=arc_cells,
        initial=live[0].astype(np.int32),
        final=live[1].astype(np.int32),
    )


def _known_support(problem: Problem) -> Iterator[Pairs]:
    """Yield the pairs (token, node slot) on the paths of sentences whose labels are all known."""
    tokens = np.flatnonzero(~problem.partial[problem.sentence_of])
    slots = problem.topology.node_slots[problem.states[tokens]].astype(np.int64)
    yield np.repeat(tokens, slots.shape[1]), slots.ravel()


def _known_arcs(problem: Problem) -> Pairs:
    """Return the pairs (token, arc into it) on the paths of the same sentences."""
    topology, states = problem.topology, problem.states
    inner = ~problem.partial[problem.sentence_of]
    inner[problem.offsets[:-1]] = False
    tokens = np.flatnonzero(inner)
    table = np.full((topology.n_states, topology.n_states), -1, dtype=np.int64)
    table[topology.source, topology.target] = np.arange(len(topology.source))
    return tokens, table[states[tokens - 1], states[tokens]]


class _Window(NamedTuple):
    """Tokens with the same allowed labels, also at the tokens before.

    tokens : int64 [n]
    node : int64; the node slots of these labels.
    arcs : int64; the arcs into the tokens between these labels.
    """

    tokens: Longs
    node: Longs
    arcs: Longs


_START = -1  # before a sentence


class _Windows:
    """The windows of the sentences with labels that are not known.

    An unknown label, if any label is allowed, supports neither its token's attributes nor the
    neighbouring successions. With `guessed` it counts like a set of all labels.
    """

    def __init__(self, problem: Problem, *, guessed: bool) -> None:
        self._topology, self._reach = problem.topology, problem.topology.node_slots.shape[1]
        self._tokens = np.flatnonzero(problem.partial[problem.sentence_of])
        self._sets, self._number = _distinct_rows(problem.allowed, self._tokens)
        self._told = guessed | _informative(self._sets)
        self._position = self._tokens - problem.offsets[problem.sentence_of[self._tokens]]
        arcs = np.arange(self._topology.n_states + 1)
        self._first = np.searchsorted(self._topology.source, arcs)

    def __iter__(self) -> Iterator[_Window]:
        code, before = np.zeros(len(self._tokens), dtype=np.int64), []
        for back in range(self._reach + 1):
            shifted = np.full(len(self._tokens), _START, dtype=np.int64)
            shifted[back:] = self._number[: len(self._number) - back]
            shifted[self._position < back] = _START
            before.append(shifted)
            code = code * (len(self._sets) + 1) + shifted + 1
        order = np.argsort(code, kind="stable")
        starts = np.flatnonzero(np.diff(code[order], prepend=-1))
        for a, b in pairwise([*starts.tolist(), len(order)]):
            here, *history = (int(sets[order[a]]) for sets in before)
            if self._told[here]:
                yield _Window(self._tokens[order[a:b]], *self._shown(here, history))

    def _shown(self, here: int, history: Sequence[int]) -> tuple[Longs, Longs]:
        """Return the node slots of a token's labels, and the arcs into them."""
        topology, now = self._topology, self._sets[here]
        slots = topology.node_slots[np.flatnonzero(now[topology.state_label])]
        arcs = self._into(self._sources(history), now)
        if self._reach == 1:
            return distinct(slots.ravel()).astype(np.int64), arcs
        pairs = self._ends(history[0], now)
        slot = distinct(slots[:, 0], topology.node_slots[pairs, 1:].ravel())
        return slot.astype(np.int64), arcs

    def _sources(self, history: Sequence[int]) -> Longs:
        """Return the states before a token that its history supports."""
        previous, *earlier = history
        if previous == _START or not self._told[previous]:
            return np.empty(0, dtype=np.int64)
        if earlier:
            return self._ends(earlier[0], self._sets[previous])
        return np.flatnonzero(self._sets[previous][self._topology.state_label])

    def _ends(self, previous: int, now: Bools) -> Longs:
        """Return the states of labels after others; an empty array after an unknown label."""
        topology = self._topology
        if previous == _START:
            return np.flatnonzero(topology.initial & now[topology.state_label])
        if not self._told[previous]:
            return np.empty(0, dtype=np.int64)
        sources = np.flatnonzero(self._sets[previous][topology.state_label])
        return distinct(topology.target[self._into(sources, now)]).astype(np.int64)

    def _into(self, sources: Longs, now: Bools) -> Longs:
        """Return the arcs from some states to the states of labels."""
        arcs = Ragged(self._first).entries(sources)
        return arcs[now[self._topology.state_label[self._topology.target[arcs]]]]


def _informative(sets: Bools) -> Bools:
    """Return which sets of labels, bool [n, L], carry information: not the set of all labels."""
    count = sets.sum(axis=1)
    return np.asarray((count == 1) | (count < sets.shape[1]))


def _distinct_rows(allowed: Bools, tokens: Longs) -> tuple[Bools, Longs]:
    """Return the distinct sets of labels of some tokens, bool [U, L], and each token's set."""
    numbers: dict[bytes, int] = {}
    number = np.empty(len(tokens), dtype=np.int64)
    for begin in range(0, len(tokens), RUN_TOKENS):
        rows = np.packbits(allowed[tokens[begin : begin + RUN_TOKENS]], axis=1)
        width, data = rows.shape[1], rows.tobytes()
        places = range(0, len(data), width)
        number[begin : begin + RUN_TOKENS] = [
            numbers.setdefault(data[k : k + width], len(numbers)) for k in places
        ]
    packed = np.frombuffer(b"".join(numbers), dtype=np.uint8).reshape(len(numbers), -1)
    labels = allowed.shape[1]
    return np.unpackbits(packed, axis=1, count=labels).astype(bool), number


def _spread_out(windows: Iterable[tuple[Longs, Longs]]) -> Iterator[Pairs]:
    """Yield the pairs of windows' tokens and slots, many at a time."""
    tokens, slots, size = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for window, several in windows:
        step = max(1, _CELLS // max(1, len(several)))
        for begin in range(0, len(window), step):
            part = window[begin : begin + step]
            tokens.append(np.repeat(part, len(several)))
            slots.append(np.tile(several, len(part)))
            size += len(slots[-1])
            if size >= _CELLS:
                yield np.concatenate(tokens), np.concatenate(slots)
                tokens, slots, size = [], [], 0
    if tokens:
        yield np.concatenate(tokens), np.concatenate(slots)


def _node_support(problem: Problem) -> Iterator[Pairs]:
    """Yield the pairs (token, node slot) that the labels support."""
    yield from _known_support(problem)
    if problem.partial.any():
        shown = _Windows(problem, guessed=False)
        yield from _spread_out((window.tokens, window.node) for window in shown)


def _observed_arc_slots(problem: Problem) -> Bools:
    """Return the arc slots that the labels support, bool [arc slots]."""
    topology = problem.topology
    observed = np.zeros(topology.n_arc_slots + 1, dtype=bool)
    if len(observed) > 1:
        observed[topology.arc_slot[distinct(_known_arcs(problem)[1])]] = True
        if problem.partial.any():
            for window in _Windows(problem, guessed=topology.n_arc_slots <= _FEW_ARCS):
                observed[topology.arc_slot[window.arcs]] = True
    return observed[:-1]


def _arc_support(problem: Problem, observed: Bools) -> Iterator[Pairs]:
    """Yield the pairs (token, arc slot) that the labels support, for observed slots."""
    topology = problem.topology

    def kept(tokens: Longs, slots: Longs) -> Pairs:
        there = (slots >= 0) & observed[slots]
        return tokens[there], slots[there]

    tokens, arcs = _known_arcs(problem)
    yield kept(tokens, topology.arc_slot[arcs].astype(np.int64))
    if problem.partial.any():
        shown = _Windows(problem, guessed=False)
        slots = ((w.tokens, distinct(topology.arc_slot[w.arcs]).astype(np.int64)) for w in shown)
        yield from (kept(*pairs) for pairs in _spread_out(slots))


def _cells(n_rows: int, n_slots: int, width: int, bits: NDArray[np.uint64] | None) -> Longs:
    """Return flat indices of (attribute, slot) pairs with a weight; all pairs without bits."""
    if bits is None:
        rows = np.arange(n_rows, dtype=np.int64)[:, None] * width
        return (rows + np.arange(n_slots)).ravel()
    return SlotSets(n_rows, n_slots, bits).cells(width)


def _slot_sets(design: SparseRows, pairs: Iterable[Pairs], n_slots: int) -> SlotSets:
    """Return the slots of each attribute, given pairs (token, slot)."""
    seen = SlotSets(design.n_columns, n_slots)
    for tokens, slots in pairs:
        # In blocks: the list of (attribute, slot) occurrences is far longer than the list of pairs.
        for begin in range(0, len(tokens), RUN_TOKENS):
            part = slice(begin, begin + RUN_TOKENS)
            entry, n = entries(design, tokens[part])
            seen.add(design.index[entry], np.repeat(slots[part], n))
    return seen


class SlotSets:
    """A set of slots for each attribute, as bits: a table [rows, slots] may be far too large.

    Parameters
    ----------
    n_rows, n_slots : int
    bits : uint64, optional
        Contents of the sets; without them they are empty.
    """

    def __init__(self, n_rows: int, n_slots: int, bits: NDArray[np.uint64] | None = None) -> None:
        self._words = max(1, -(-n_slots // _BITS))
        self._sets = np.zeros(n_rows * self._words, dtype=np.uint64) if bits is None else bits

    @property
    def bits(self) -> NDArray[np.uint64]:
        """The sets, uint64: words of 64 slots, row by row."""
        return self._sets

    @classmethod
    def of(cls, cells: Longs, n_rows: int, n_slots: int, width: int) -> SlotSets:
        """Return the sets of ``attribute * width + slot``."""
        made = cls(n_rows, n_slots)
        for begin in range(0, len(cells), _CELLS):
            made.add(*np.divmod(cells[begin : begin + _CELLS], width))
        return made

    def add(self, rows: NDArray[np.integer], slots: Longs) -> None:
        """Add slots [n] to the sets of rows [n]."""
        np.bitwise_or.at(self._sets, *self._places(rows, slots))

    def cells(self, width: int) -> Longs:
        """Return ``attribute * width + slot`` of all, ascending, int64."""
        words = _CELLS // _BITS // self._words * self._words
        parts = [np.empty(0, dtype=np.int64)]
        for first in range(0, len(self._sets), words):
            little = self._sets[first : first + words].astype("<u8").view(np.uint8)
            bit = np.flatnonzero(np.unpackbits(little, bitorder="little"))
            row, slot = np.divmod(bit, self._words * _BITS)
            parts.append((row + first // self._words) * width + slot)
        return np.concatenate(parts)

    def ranks(self, rows: NDArray[np.integer], slots: Longs) -> tuple[Longs, Bools]:
        """Return the number of smaller slots in the row, int64 [n], and a mask of known pairs."""
        place, bit = self._places(rows, slots)
        words = self._sets[place]
        rank = np.bitwise_count(words & (bit - np.uint64(1))).astype(np.int64)
        for back in range(1, self._words):
            before = slots // _BITS >= back
            rank[before] += np.bitwise_count(self._sets[place[before] - back])
        return rank, (words & bit) > 0

    def _places(self, rows: NDArray[np.integer], slots: Longs) -> tuple[Longs, NDArray[np.uint64]]:
        """Return the word of each pair, and its bit there."""
        place = rows.astype(np.int64) * self._words
        place += slots // _BITS
        return place, np.uint64(1) << (slots % _BITS).astype(np.uint64)


def entries(rows: SparseRows, tokens: Longs) -> tuple[Longs, Longs]:
    """Return the positions of the tokens' attributes, concatenated, and the number of each token.

    Parameters
    ----------
    rows : SparseRows [N, R]
    tokens : int64 [n]

    Returns
    -------
    entry : int64 [K]
    count : int64 [n]
    """
    of = Ragged(rows.indptr)
    return of.entries(tokens), of.select(tokens).lengths


def restricted(problem: Problem, space: ParameterSpace) -> tuple[Problem, ParameterSpace, Longs]:
    """Return a problem without the attributes that no token has, its space, and its weights.

    The weights are int64: each one's place in the vector of the given space, which has no weights
    for attributes of arcs.
    """
    node = problem.node
    used = distinct(node.index)
    weights = Ragged(cell_pointers(space.node_cells, space.n_node_rows, space.width))
    place = weights.entries(used)
    row = weights.select(used).repeat(np.arange(len(used)))
    cells = row * space.width + space.node_cells[place] % space.width
    index = np.searchsorted(used, node.index).astype(np.int32)
    rows = SparseRows(node.indptr, index, node.value, len(used))
    others = np.arange(len(space.node_cells), space.size)
    return (
        replace(problem, node=rows),
        replace(space, n_node_rows=len(used), node_cells=cells),
        np.concatenate([place, others]),
    )


# --- Feature counts of the gold paths -------------------------------------------------------------


def observed_counts(problem: Problem, space: ParameterSpace) -> Floats:
    """Return the feature counts of the sentences whose labels are all known, times their weight.

    Returns
    -------
    float64 [space.size]
    """
    topology, first, last = problem.topology, problem.offsets[:-1], problem.offsets[1:] - 1
    weight = np.where(problem.partial, 0.0, problem.weight)
    mass = weight[problem.sentence_of]
    labelled = np.flatnonzero(mass > 0)
    out = np.zeros(space.size)
    node, transition, arc, initial, final = space.parts(out)
    slots = topology.node_slots[problem.states[labelled]].astype(np.int64)
    for k in range(slots.shape[1]):
        _count(
            problem.node, labelled, slots[:, k], mass[labelled], space.node_cells, space.width, node
        )
    inner = labelled[~np.isin(labelled, first)]
    # Gold arc into each token, −1 without one.
    slot = slot_table(problem.topology)[problem.states[inner - 1], problem.states[inner]]
    inner, slot = inner[slot >= 0], slot[slot >= 0]
    transition += np.bincount(slot, mass[inner], minlength=topology.n_arc_slots)[space.transitions]
    if problem.arc is not None and space.n_arc_rows:
        _count(problem.arc, inner, slot, mass[inner], space.arc_cells, space.arc_width, arc)
    for part, chosen, tokens in ((initial, space.initial, first), (final, space.final, last)):
        used = tokens[weight > 0]
        counts = np.bincount(problem.states[used], mass[used], minlength=topology.n_states)
        np.add(part, counts[chosen], out=part)
    return out


def frequent(problem: Problem, space: ParameterSpace, min_frequency: float) -> ParameterSpace:
    """Keep the weights whose feature has at least this count on gold paths.

    A feature is an attribute with a label (or pair of labels), a transition or an end. It counts
    with its value times the weight of the sentence, like CRFsuite's ``feature.minfreq``.

    Raises
    ------
    OptionError
        Labels that are not known: their features cannot be counted.
    """
    problem.require_known("min_frequency cannot count them")
    return counted_often(space, observed_counts(problem, space), min_frequency)


def counted_often(space: ParameterSpace, counts: Floats, min_frequency: float) -> ParameterSpace:
    """Keep the weights whose feature has at least this count in `counts`, float64 [size]."""
    enough = counts >= min_frequency
    node, transitions, arc, initial, final = (enough[i:j] for i, j in pairwise(space.bounds))
    return replace(
        space,
        node_cells=space.node_cells[node],
        transitions=space.transitions[transitions],
        arc_cells=space.arc_cells[arc],
        initial=space.initial[initial],
        final=space.final[final],
    )


def _count(
    design: SparseRows,
    tokens: Longs,
    slots: Longs,
    mass: Floats,
    cells: Longs,
    width: int,
    out: Floats,
) -> None:
    """Add up mass x value over the (attribute, slot) pairs of tokens that are cells.

    In blocks, because the list of occurrences is far longer than the list of pairs.
    """
    there = SlotSets.of(cells, design.n_columns, width, width)
    first = cell_pointers(cells, design.n_columns, width)
    for begin in range(0, len(tokens), RUN_TOKENS):
        part = slice(begin, begin + RUN_TOKENS)
        entry, n = entries(design, tokens[part])
        row = design.index[entry]
        rank, kept = there.ranks(row, np.repeat(slots[part], n))
        weight = np.repeat(mass[part], n)
        if design.value is not None:
            weight = weight * design.value[entry]
        np.add.at(out, (first[row] + rank)[kept], weight[kept])


def cell_pointers(cells: Longs, n_rows: int, width: int) -> Longs:
    """Return the start of each attribute's cells, and their end, int64 [n_rows + 1]."""
    ptr = np.empty(n_rows + 1, dtype=np.int64)
    for begin in range(0, n_rows + 1, _CELLS):
        part = slice(begin, min(begin + _CELLS, n_rows + 1))
        ptr[part] = np.searchsorted(cells, np.arange(part.start, part.stop) * np.int64(width))
    return ptr

"""Feature counts of paths minus those of the best path, and the gradients that these make.

Every path that a misclassification measure needs differs from the best path near some tokens only.
It is traced from there to the left and to the right until it meets the best path: all the paths of
a batch together, a token at a time.

===========  ================================================================
Mass         weights of states and arcs: a sum of feature counts, not yet looked up
traced       the mass of best paths through given states, minus that of the best path
Occurrences  mass → parameters
===========  ================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fstcrf.kernel import SparseRows
from fstcrf.topology import Topology
from fstcrf.train.batches import Batch
from fstcrf.train.maxima import Maxima
from fstcrf.train.problem import ParameterSpace

__all__ = ["Gradient", "Mass", "Occurrences", "Starts", "traced"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

_BLOCK = 20_000  # pairs of token and state whose attributes are looked up together


@dataclass(slots=True)
class Mass:
    """Weights of what paths consist of.

    Parameters
    ----------
    node : float64 [n, S]
        Of each state of each token.
    arcs : list of (int64 [A], int64 [A], int64 [A], float64 [A])
        Tokens, the states before them, their states, and the weights.
    begin, end : float64 [S]
        Of beginning and ending in a state.
    """

    node: Floats
    begin: Floats
    end: Floats
    arcs: list[tuple[Longs, Longs, Longs, Floats]] = field(default_factory=list)

    @classmethod
    def empty(cls, tokens: int, states: int) -> Mass:
        """Return no mass."""
        return cls(np.zeros((tokens, states)), np.zeros(states), np.zeros(states))

    def add_states(self, token: Longs, state: Longs, mass: Floats) -> None:
        """Add weights of states."""
        flat = self.node.ravel()
        if len(token) * 8 > len(flat):
            flat += np.bincount(token * self.node.shape[1] + state, mass, minlength=len(flat))
        else:
            np.add.at(flat, token * self.node.shape[1] + state, mass)

    def add_arcs(
        self,
        token: Longs,
        before: NDArray[np.integer],
        state: NDArray[np.integer],
        mass: Floats,
    ) -> None:
        """Add weights of the arcs into tokens."""
        self.arcs.append((token, before.astype(np.int64), state.astype(np.int64), mass))


@dataclass(frozen=True, slots=True)
class Starts:
    """Where paths are traced from: states of single tokens, of runs of tokens.

    Parameters
    ----------
    token, state : int64 [M]
        Where the trace begins, and in which state.
    mass : float64 [M]
        Weight of the path.
    """

    token: Longs
    state: Longs
    mass: Floats


def traced(maxima: Maxima, left: Starts, right: Starts, mass: Mass) -> tuple[Longs, Longs, Longs]:
    """Add the mass of paths, minus the best path's, to the left and right of where they start.

    The states that the traces start in are not added; the arcs out of and into them are.

    Parameters
    ----------
    maxima : Maxima
    left : Starts
        To be traced to the left; states that are the best path's own need no tracing.
    right : Starts
        The same to the right.
    mass : Mass
        What is added to.

    Returns
    -------
    path, token, state : int64 [K]
        The states passed: numbers of `left`, then of `right`, their tokens and states.
    """
    passed = [*_to_left(maxima, left, mass), *_to_right(maxima, right, mass)]
    if not passed:
        none = np.empty(0, dtype=np.int64)
        return none, none, none
    return (
        np.concatenate([walk.number for walk in passed]),
        np.concatenate([walk.token for walk in passed]),
        np.concatenate([walk.state for walk in passed]),
    )


def _to_left(maxima: Maxima, starts: Starts, mass: Mass) -> list[_Walk]:
    best, first = maxima.best, maxima.batch.first
    walk, passed = _Walk.parted(maxima, starts), []
    while len(walk.token):
        ends = first[walk.token]
        _add_ends(mass.begin, walk.kept(ends), best)
        walk = walk.kept(~ends)
        token, state = walk.token, walk.state
        into = maxima.arcs_into[state] if maxima.arcs.ndim == 2 else maxima.arcs[token, :, state]
        before = (maxima.forward[token - 1] + into).argmax(axis=1)
        mass.add_arcs(token, before, state, walk.mass)
        mass.add_arcs(token, best[token - 1], best[token], -walk.mass)
        walk = walk.moved(token - 1, before, best)
        walk.add_states(best, mass)
        passed.append(walk)
    return passed


def _to_right(maxima: Maxima, starts: Starts, mass: Mass) -> list[_Walk]:
    best, last = maxima.best, maxima.batch.last
    walk, passed = _Walk.parted(maxima, starts), []
    while len(walk.token):
        ends = last[walk.token]
        _add_ends(mass.end, walk.kept(ends), best)
        walk = walk.kept(~ends)
        token, state = walk.token + 1, walk.state
        out = maxima.arcs[state] if maxima.arcs.ndim == 2 else maxima.arcs[token, state]
        after = (maxima.ahead[token] + out).argmax(axis=1)
        mass.add_arcs(token, state, after, walk.mass)
        mass.add_arcs(token, best[token - 1], best[token], -walk.mass)
        walk = walk.moved(token, after, best)
        walk.add_states(best, mass)
        passed.append(walk)
    return passed


@dataclass(frozen=True, slots=True)
class _Walk:
    """Paths at one token each, all of them off the best path."""

    number: Longs
    token: Longs
    state: Longs
    mass: Floats

    @classmethod
    def parted(cls, maxima: Maxima, starts: Starts) -> _Walk:
        off = np.flatnonzero(starts.state != maxima.best[starts.token])
        return cls(off, starts.token[off], starts.state[off], starts.mass[off])

    def kept(self, which: NDArray[np.bool_]) -> _Walk:
        return _Walk(self.number[which], self.token[which], self.state[which], self.mass[which])

    def moved(self, token: Longs, state: Longs, best: NDArray[np.int32]) -> _Walk:
        """Go on to other tokens; paths that meet the best one end there."""
        return _Walk(self.number, token, state, self.mass).kept(state != best[token])

    def add_states(self, best: NDArray[np.int32], mass: Mass) -> None:
        mass.add_states(self.token, self.state, self.mass)
        mass.add_states(self.token, best[self.token].astype(np.int64), -self.mass)


def _add_ends(out: Floats, walk: _Walk, best: NDArray[np.int32]) -> None:
    n = len(out)
    out += np.bincount(walk.state, walk.mass, minlength=n)
    out -= np.bincount(best[walk.token], walk.mass, minlength=n)


@dataclass(frozen=True, slots=True)
class Gradient:
    """A sum over parameters; a parameter may be there several times.

    Parameters
    ----------
    index : int64 [K]
        Parameters.
    value : float64 [K]
    """

    index: Longs
    value: Floats

    def dense(self, size: int) -> Floats:
        """Return it as float64 [size]."""
        return np.asarray(np.bincount(self.index, self.value, minlength=size), dtype=np.float64)


class Occurrences:
    """Looks up the parameters of states and arcs.

    Parameters
    ----------
    space : ParameterSpace
    """

    def __init__(self, space: ParameterSpace) -> None:
        self._space = space
        topology = space.topology
        node = _places(space.node_cells, space.n_node_rows * space.width, 0)
        self._node = node.reshape(space.n_node_rows, space.width)
        b = space.bounds
        self._arc = _places(space.arc_cells, space.n_arc_rows * space.arc_width, b[2])
        self._transition = _places(space.transitions, topology.n_arc_slots, b[1])
        self._initial = _places(space.initial, topology.n_states, b[3])
        self._final = _places(space.final, topology.n_states, b[4])
        self._slot = _slot_table(topology)

    def gradient(self, batch: Batch, mass: Mass) -> Gradient:
        """Return the feature counts of a mass."""
        parts = [*self._of_states(batch.node, mass.node), *self._of_paths(batch, mass)]
        index, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Gradient(index, value)

    def add(self, batch: Batch, mass: Mass, out: Floats) -> None:
        """Add the feature counts of a mass to float64 [size]."""
        at = np.flatnonzero(mass.node)
        token, state = np.divmod(at, mass.node.shape[1])
        value = mass.node.ravel()[at]
        for slot in np.ascontiguousarray(self._space.topology.node_slots[state].T, dtype=np.int64):
            batch.node.scatter(token, slot, value, self._node, out)
        for index, mine in self._of_paths(batch, mass):
            np.add.at(out, index, mine)

    def _of_paths(self, batch: Batch, mass: Mass) -> list[tuple[Longs, Floats]]:
        """Feature counts of arcs, beginnings and ends."""
        parts: list[tuple[Longs, Floats]] = []
        if mass.arcs:
            token, before, state, weight = (
                np.concatenate(part) for part in zip(*mass.arcs, strict=True)
            )
            slot = self._slot[before, state]
            kept = (slot >= 0) & (weight != 0.0)
            parts += self._of_arcs(batch, token[kept], slot[kept], weight[kept])
        for places, ends in ((self._initial, mass.begin), (self._final, mass.end)):
            state = np.flatnonzero((places >= 0) & (ends != 0.0))
            parts.append((places[state].astype(np.int64), np.asarray(ends[state])))
        return parts

    def _of_states(self, rows: SparseRows, mass: Floats) -> list[tuple[Longs, Floats]]:
        parts: list[tuple[Longs, Floats]] = []
        token, state = np.nonzero(mass)
        slots, width = self._space.topology.node_slots, self._space.width
        for begin in range(0, len(token), _BLOCK):
            t, s = token[begin : begin + _BLOCK], state[begin : begin + _BLOCK]
            parts += [
                _looked_up(rows, t, slot, mass[t, s], self._node.ravel(), width)
                for slot in slots[s].T
            ]
        return parts

    def _of_arcs(
        self, batch: Batch, token: Longs, slot: Longs, weight: Floats
    ) -> list[tuple[Longs, Floats]]:
        total = np.bincount(slot, weight, minlength=len(self._transition))
        used = np.flatnonzero((self._transition >= 0) & (total != 0.0))
        parts: list[tuple[Longs, Floats]] = []
        parts.append((self._transition[used].astype(np.int64), np.asarray(total[used])))
        if batch.arc is not None and self._space.n_arc_rows:
            width = self._space.arc_width
            parts.append(_looked_up(batch.arc, token, slot, weight, self._arc, width))
        return parts


def _looked_up(
    rows: SparseRows,
    token: Longs,
    slot: NDArray[np.integer],
    mass: Floats,
    places: Ints,
    width: int,
) -> tuple[Longs, Floats]:
    """Return the parameters of (attribute of token, slot), each with mass x value."""
    n = np.diff(rows.indptr)[token]
    start = np.repeat(rows.indptr[token] - (np.cumsum(n) - n), n)
    entry = start + np.arange(int(n.sum()))
    place = places[rows.index[entry] * np.int64(width) + np.repeat(slot, n)]
    value = np.repeat(mass, n)
    if rows.value is not None:
        value = value * rows.value[entry]
    kept = place >= 0
    return place[kept].astype(np.int64), value[kept]


def _places(cells: NDArray[np.integer], size: int, begin: int) -> Ints:
    places = np.full(size, -1, dtype=np.int32)
    places[cells] = np.arange(begin, begin + len(cells), dtype=np.int32)
    return places


def _slot_table(topology: Topology) -> Longs:
    table = np.full((topology.n_states, topology.n_states), -1, dtype=np.int64)
    table[topology.source, topology.target] = topology.arc_slot
    return table

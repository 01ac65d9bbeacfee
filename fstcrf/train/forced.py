"""Best paths that have the gold labels on a segment, where the best path of all has others.

===========  =====================================================
Forced       scores of such paths, and their mass
forced       of any segments
===========  =====================================================
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fstcrf.topology import Topology
from fstcrf.train.differences import Mass, Starts, traced
from fstcrf.train.maxima import Maxima
from fstcrf.train.segments import Segments

__all__ = ["Forced", "forced"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


class Forced(Protocol):
    """Best paths with the gold labels on each of M segments."""

    score: Floats

    def add_mass(self, weight: Floats, mass: Mass) -> None:
        """Add weight x (features of the path − features of the best path), float64 [M]."""


def forced(maxima: Maxima, segments: Segments, *, whole: bool) -> Forced:
    """Return the best paths with the gold labels on segments.

    Parameters
    ----------
    maxima : Maxima
    segments : Segments
    whole : bool
        The segments are whole sentences.
    """
    # The gold labels say which states: of whole sentences, and where a label has one state.
    topology = maxima.batch.problem.topology
    if whole or len(np.unique(topology.state_label)) == topology.n_states:
        return _Known(maxima, segments)
    return _Searched(maxima, segments)


class _Known:
    """The states on the segments are the gold ones."""

    def __init__(self, maxima: Maxima, segments: Segments) -> None:
        self._maxima, self._segments = maxima, segments
        batch, arcs = maxima.batch, maxima.arcs
        state, node = batch.state, maxima.potentials.node
        before = np.concatenate([[0], state[:-1]])
        token = np.arange(len(state))
        into = arcs[before, state] if arcs.ndim == 2 else arcs[token, before, state]
        step = np.where(batch.first, 0.0, into + node[token, state])
        total = np.cumsum(np.where(batch.first, 0.0, step))
        first, last = segments.start, segments.end - 1
        ahead = maxima.ahead[last, state[last]] - node[last, state[last]]
        self.score = maxima.forward[first, state[first]] + total[last] - total[first] + ahead

    def add_mass(self, weight: Floats, mass: Mass) -> None:
        maxima, segments, batch = self._maxima, self._segments, self._maxima.batch
        length = segments.end - segments.start
        owner = np.repeat(np.arange(len(length)), length)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
        token, share = segments.start[owner] + within, weight[owner]
        for states, sign in ((batch.state, 1.0), (maxima.best, -1.0)):
            mass.add_states(token, states[token].astype(np.int64), sign * share)
            inner, part = token[within > 0], share[within > 0]
            mass.add_arcs(inner, states[inner - 1], states[inner], sign * part)
        first, last = segments.start, segments.end - 1
        traced(
            maxima,
            Starts(first, batch.state[first].astype(np.int64), weight),
            Starts(last, batch.state[last].astype(np.int64), weight),
            mass,
        )


class _Searched:
    """Several states have a gold label: the best succession of them is looked for."""

    def __init__(self, maxima: Maxima, segments: Segments) -> None:
        self._maxima, self._segments = maxima, segments
        self.score = np.empty(len(segments))
        choices = _choices(maxima.batch.problem.topology)
        length = segments.end - segments.start
        # Segments of one length are decoded together.
        self._states: list[tuple[Longs, Longs]] = []
        for n in np.unique(length).tolist():
            which = np.flatnonzero(length == n)
            self.score[which], states = self._decode(segments.start[which], n, choices)
            self._states.append((which, states))

    def _decode(self, start: Longs, n: int, choices: Longs) -> tuple[Floats, Longs]:
        """Return scores and states, int64 [m, n], of segments of n tokens."""
        maxima, label = self._maxima, self._maxima.batch.label
        node, row = maxima.potentials.node, np.arange(len(start))
        states = [choices[label[start]]]
        top = _shut(maxima.forward[start[:, None], states[0]], states[0])
        back = []
        for t in range(1, n):
            token, now = start + t, choices[label[start + t]]
            place = states[-1][:, :, None], now[:, None, :]
            moving = maxima.arcs.ndim == 3
            arcs = maxima.arcs[(token[:, None, None], *place) if moving else place]
            total = top[:, :, None] + arcs
            source = total.argmax(axis=1)
            top = np.take_along_axis(total, source[:, None, :], axis=1)[:, 0]
            top = _shut(top + node[token[:, None], now], now)
            back.append(source)
            states.append(now)
        last = (start + n - 1)[:, None], states[-1]
        with np.errstate(invalid="ignore"):
            total = top - node[last] + maxima.ahead[last]
        total = np.where(np.isneginf(top), -np.inf, total)
        place_now = total.argmax(axis=1)
        score = total[row, place_now]
        path = np.empty((len(start), n), dtype=np.int64)
        for t in range(n - 1, -1, -1):
            path[:, t] = states[t][row, place_now]
            if t:
                place_now = back[t - 1][row, place_now]
        return score, path

    def add_mass(self, weight: Floats, mass: Mass) -> None:
        maxima = self._maxima
        for which, path in self._states:
            tokens = self._segments.start[which][:, None] + np.arange(path.shape[1])
            best = maxima.best[tokens].astype(np.int64)
            share = np.broadcast_to(weight[which][:, None], tokens.shape)
            for states, sign in ((path, 1.0), (best, -1.0)):
                mass.add_states(tokens.ravel(), states.ravel(), sign * share.ravel())
                inner = tokens[:, 1:].ravel(), states[:, :-1].ravel(), states[:, 1:].ravel()
                mass.add_arcs(*inner, sign * share[:, 1:].ravel())
            left, right = (Starts(tokens[:, k], path[:, k], weight[which]) for k in (0, -1))
            traced(maxima, left, right, mass)


def _shut(score: Floats, states: Longs) -> Floats:
    """Shut the repetitions that fill a row of choices up."""
    repeated = np.zeros(states.shape, dtype=bool)
    repeated[:, 1:] = states[:, 1:] == states[:, :1]
    return np.where(repeated, -np.inf, score)


def _choices(topology: Topology) -> Longs:
    """States of each label, int64 [L, K]; the first one fills the row up."""
    counts = np.bincount(topology.state_label, minlength=topology.n_labels)
    table = np.zeros((topology.n_labels, int(counts.max())), dtype=np.int64)
    for label in np.flatnonzero(counts).tolist():
        mine = np.flatnonzero(topology.state_label == label)
        table[label] = mine[0]
        table[label, : len(mine)] = mine
    return table

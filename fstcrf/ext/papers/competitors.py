"""Best paths that compete with the gold path, on sentences and on segments, and their scores.

The score of the best path through a state of a token (its max-marginal) is the forward maximum,
which includes the token, plus the best score after the token. Both together trace the best path
through any state, token by token.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, distinct
from fstcrf.ext.papers.batches import Batch, BatchPotentials, Segments
from fstcrf.ext.papers.kernel import scatter
from fstcrf.kernel import SparseRows
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology
from fstcrf.training.problem import ParameterSpace, slot_table
from fstcrf.training.support import entries


@dataclass(frozen=True)
class Maxima:
    """The maxima of a batch at one theta; made by `of`.

    Parameters
    ----------
    batch : Batch
    potentials : BatchPotentials
    arcs : float64 [S, S] or [n, S, S]
        Arc potentials, from row to column; −inf without an arc.
    best : int32 [n]
        States of the best path of each sentence.
    score : float64 [B]
        Its score.
    marginal : float64 [n, S]
        Score of the best path through each state.
    forward : float64 [n, S]
        Score of the best beginning that ends in each state of each token.
    ahead : float64 [n, S]
        Score of a token's state plus the best score of its continuations.
    """

    batch: Batch
    potentials: BatchPotentials
    arcs: Floats
    best: Ints
    score: Floats
    marginal: Floats
    forward: Floats
    ahead: Floats

    @classmethod
    def of(cls, batch: Batch, potentials: BatchPotentials) -> Maxima:
        """Decode a batch."""
        graph = potentials.graph
        maxima = kernel.maxima(graph, batch.offsets, potentials.node)
        return cls(batch, potentials, _full(graph), *maxima)

    @made_once
    def arcs_into(self) -> Floats:
        """float64 [S, S]: arc potentials, from column to row."""
        return np.ascontiguousarray(self.arcs.T)

    @made_once
    def rival(self) -> tuple[Longs, Floats]:
        """int64 [n], float64 [n]: the best state of another label than gold, and its score."""
        batch = self.batch
        gold = batch.problem.topology.state_label[None, :] == batch.label[:, None]
        others = np.where(gold, -np.inf, self.marginal)
        state = others.argmax(axis=1)
        return state, others[np.arange(len(state)), state]


def _full(graph: kernel.Graph) -> Floats:
    """Lay arc potentials out from state to state."""
    states = graph.n_states
    if graph.source is None or graph.target is None:
        return graph.score.reshape(*graph.score.shape[:-1], states, states)
    full = np.full((*graph.score.shape[:-1], states, states), -np.inf)
    full[..., graph.source, graph.target] = graph.score
    return full


# --- Feature counts of paths minus those of the best path -----------------------------------------

_BLOCK = 20_000  # pairs of token and state whose attributes are looked up together


@dataclass(slots=True)
class Mass:
    """Weights of the parts of paths.

    Parameters
    ----------
    node : float64 [n, S]
        For each state of each token.
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
        self, token: Longs, before: NDArray[np.integer], state: NDArray[np.integer], mass: Floats
    ) -> None:
        """Add weights of the arcs into tokens."""
        self.arcs.append((token, before.astype(np.int64), state.astype(np.int64), mass))


@dataclass(frozen=True, slots=True)
class Starts:
    """The starting points of traced paths: states of single tokens, of runs of tokens.

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
    """Add the mass of paths, minus the best path's, to the left and right of their starting points.

    The states that the traces start in are not added; the arcs out of and into them are.

    Parameters
    ----------
    maxima : Maxima
    left : Starts
        To be traced to the left; states that are the best path's own need no tracing.
    right : Starts
        The same to the right.
    mass : Mass
        Array to which the mass is added.

    Returns
    -------
    path, token, state : int64 [K]
        The states passed: numbers of `left`, then of `right`, their tokens and states.
    """
    passed = [*_passed(maxima, left, mass, left=True), *_passed(maxima, right, mass, left=False)]
    if not passed:
        none = np.empty(0, dtype=np.int64)
        return none, none, none
    return (
        np.concatenate([walk.number for walk in passed]),
        np.concatenate([walk.token for walk in passed]),
        np.concatenate([walk.state for walk in passed]),
    )


def _passed(maxima: Maxima, starts: Starts, mass: Mass, *, left: bool) -> list[_Walk]:
    """Trace paths to one side, until they meet the best one or the end of the sentence."""
    best, batch = maxima.best, maxima.batch
    at_end, ends = (batch.first, mass.begin) if left else (batch.last, mass.end)
    walk, passed = _Walk.parted(maxima, starts), []
    while len(walk.token):
        done = at_end[walk.token]
        _add_ends(ends, walk.kept(done), best)
        walk = walk.kept(~done)
        state, token = walk.state, walk.token if left else walk.token + 1  # of the arc
        if left:
            into = (
                maxima.arcs_into[state] if maxima.arcs.ndim == 2 else maxima.arcs[token, :, state]
            )
            other = (maxima.forward[token - 1] + into).argmax(axis=1)
            mass.add_arcs(token, other, state, walk.mass)
        else:
            out = maxima.arcs[state] if maxima.arcs.ndim == 2 else maxima.arcs[token, state]
            other = (maxima.ahead[token] + out).argmax(axis=1)
            mass.add_arcs(token, state, other, walk.mass)
        mass.add_arcs(token, best[token - 1], best[token], -walk.mass)
        walk = walk.moved(token - 1 if left else token, other, best)
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

    def kept(self, which: Bools) -> _Walk:
        return _Walk(self.number[which], self.token[which], self.state[which], self.mass[which])

    def moved(self, token: Longs, state: Longs, best: Ints) -> _Walk:
        """Go on to other tokens; paths that meet the best one end there."""
        return _Walk(self.number, token, state, self.mass).kept(state != best[token])

    def add_states(self, best: Ints, mass: Mass) -> None:
        mass.add_states(self.token, self.state, self.mass)
        mass.add_states(self.token, best[self.token].astype(np.int64), -self.mass)


def _add_ends(out: Floats, walk: _Walk, best: Ints) -> None:
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
        """Return the mass as float64 [size]."""
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
        self._slot = slot_table(topology)

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
            scatter(batch.node, token, slot, value, self._node, out)
        for index, masses in self._of_paths(batch, mass):
            np.add.at(out, index, masses)

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
    entry, n = entries(rows, token)
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


# --- Best paths that have the gold labels on a segment --------------------------------------------


def forced(maxima: Maxima, segments: Segments, *, whole: bool) -> _Known | _Searched:
    """Return the best paths with the gold labels on segments.

    Parameters
    ----------
    maxima : Maxima
    segments : Segments
    whole : bool
        The segments are whole sentences.
    """
    # The gold labels determine the states: for whole sentences, and if each label has one state.
    topology = maxima.batch.problem.topology
    if whole or len(distinct(topology.state_label)) == topology.n_states:
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
        """Add weight x (features of the path − features of the best path), float64 [M]."""
        maxima, segments, batch = self._maxima, self._segments, self._maxima.batch
        tokens = Ragged.from_lengths(segments.end - segments.start)
        within = tokens.ranges()
        token, share = tokens.ranges(segments.start), tokens.repeat(weight)
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
        for n in distinct(length).tolist():
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
            per_token = maxima.arcs.ndim == 3
            arcs = maxima.arcs[(token[:, None, None], *place) if per_token else place]
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
        states = np.flatnonzero(topology.state_label == label)
        table[label] = states[0]
        table[label, : len(states)] = states
    return table


# --- The misclassification measure by best competitors --------------------------------------------

_NEGLIGIBLE = 1e-12  # of the largest slope: those paths are not looked for


class Rivalry:
    """The measure of each segment, and the competing paths.

    Parameters
    ----------
    maxima : Maxima
    segments : Segments
    whole : bool
        The segments are whole sentences.

    Attributes
    ----------
    measure : float64 [M]
        d: negative if the gold labels win; −inf without a competitor.
    right : bool [M]
        Whether the best path has the gold labels.
    """

    def __init__(self, maxima: Maxima, segments: Segments, *, whole: bool = False) -> None:
        self.maxima, self.segments = maxima, segments
        batch = maxima.batch
        self._sentence = batch.sentence_of[segments.start]
        self._score = maxima.score[self._sentence]
        wrong = Ragged.from_lengths(_state_label(maxima)[maxima.best] != batch.label).offsets
        self.right = wrong[segments.end] == wrong[segments.start]
        self.measure = np.empty(len(segments))
        self._token, self._state = self._rival()
        self.measure[self.right] -= self._score[self.right]
        self._forced = forced(maxima, segments.chosen(~self.right), whole=whole)
        self.measure[~self.right] = self._score[~self.right] - self._forced.score

    def _rival(self) -> tuple[Longs, Longs]:
        """Return the places at which right segments' competitors differ, and write their scores."""
        maxima, segments = self.maxima, self.segments.chosen(self.right)
        state, best = maxima.rival
        score = np.append(best, -np.inf)
        if not len(segments):
            none = np.empty(0, dtype=np.int64)
            return none, none
        bounds = np.stack([segments.start, segments.end], axis=1).ravel()
        top = np.maximum.reduceat(score, bounds)[::2]
        self.measure[self.right] = top
        # The first token of each segment that reaches the maximum.
        length = segments.end - segments.start
        tokens = Ragged.from_lengths(length)
        owner, token = tokens.rows(), tokens.ranges(segments.start)
        hit = np.flatnonzero(score[token] == top[owner])
        token = token[hit[np.searchsorted(owner[hit], np.arange(len(segments)))]]
        return token, state[token]

    def add_mass(self, slope: Floats, mass: Mass) -> None:
        """Add the derivative of sum of slope x d.

        Parameters
        ----------
        slope : float64 [M]
        mass : Mass
        """
        weight = np.where(self.right, slope, -slope)
        competes = np.isfinite(self.measure) & (
            np.abs(slope) > _NEGLIGIBLE * np.abs(slope).max(initial=0.0)
        )
        self._trace(weight[self.right], competes[self.right], mass)
        self._forced.add_mass(weight[~self.right], mass)

    def rivals(self) -> Ints:
        """Return the best competitor of each sentence; the segments must be whole sentences.

        Returns
        -------
        int32 [n]
            States of the best path of all, or, if that is the gold path, of its best competitor.
            The gold states if there is no other path.
        """
        states = self.maxima.best.copy()
        possible = np.isfinite(self.measure[self.right])
        nothing = Mass.empty(*self.maxima.marginal.shape)
        _, token, state = self._trace(np.zeros(len(possible)), possible, nothing)
        states[token] = state
        states[self._token[possible]] = self._state[possible]
        return states

    def _trace(self, weight: Floats, chosen: Bools, mass: Mass) -> tuple[Longs, Longs, Longs]:
        """Trace the competitors of the chosen ones of the right segments."""
        kept = np.flatnonzero(chosen)
        starts = Starts(self._token[kept], self._state[kept], weight[kept])
        best = self.maxima.best[starts.token].astype(np.int64)
        mass.add_states(starts.token, starts.state, starts.mass)
        mass.add_states(starts.token, best, -starts.mass)
        return traced(self.maxima, starts, starts, mass)


def _state_label(maxima: Maxima) -> Ints:
    return maxima.batch.problem.topology.state_label

"""Machines by brute force: every joint path of a sentence, written down and added up.

===============  ======================================================================
Case             a machine and the sentences to run it on
enumerate_paths  all paths of a sentence, with their scores
answers          most questions about a batch
arc_marginals    shares of the arcs of an axis
dead_token       where a sentence dies
inverse_sample   the path that uniform numbers stand for
===============  ======================================================================

A joint state is the number ``o * S + s``: all axes at once, the first one slowest. Nothing here
advances one axis at a time, which is what the kernel does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.kernel.machines import Bound, JointChain
from tests.support.oracles import largest, log_sum

TOLERANCE = 1e-9


class Case(NamedTuple):
    """A machine, sentences, and the potentials that belong to their tokens."""

    machine: JointChain
    offsets: Longs
    per_token: tuple[Floats, ...]

    @property
    def bound(self) -> Bound:
        """What the kernel is called with."""
        return Bound(self.machine, self.offsets, self.per_token)

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First token and the one behind the last, of each sentence."""
        return list(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True))

    @property
    def tokens(self) -> int:
        return int(self.offsets[-1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """States of each axis."""
        return tuple(axis.n_states for axis in self.machine.axes)

    @property
    def states(self) -> int:
        return int(np.prod(self.sizes))

    @property
    def scale(self) -> float:
        """Largest potential, at least 1: what rounding errors are measured against."""
        machine, residual = self.machine, self.machine.residual
        arrays = [machine.initial, machine.final, *self.per_token]
        arrays += [part.value for part in machine.factors if part.value is not None]
        arrays += [axis.score for axis in machine.axes if axis.score is not None]
        if residual is not None:
            arrays += [residual.value, residual.initial, residual.final]
        return largest(*arrays)

    def sentence(self, first: int, last: int) -> Case:
        """Return one sentence alone."""
        own = tuple(values[first:last].copy() for values in self.per_token)
        return Case(self.machine, np.asarray([0, last - first]), own)

    def each(self) -> list[Case]:
        """Return every sentence alone."""
        return [self.sentence(first, last) for first, last in self.bounds]


class Answers(NamedTuple):
    """What there is to know about a batch.

    log_z [B]; path [N] and score [B] of the best; marginals and best scores of [N, S_c] per axis.
    """

    log_z: Floats
    path: Longs
    score: Floats
    marginals: tuple[Floats, ...]
    max_marginals: tuple[Floats, ...]


def assert_near(found: object, expected: object, *, scale: float = 1.0) -> None:
    """Demand equality to 1e-9, relative, or absolute in units of `scale`."""
    one, other = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    np.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * scale)


# --- Potentials of joint states and of pairs of them ---------------------------------------------


def axis_states(case: Case) -> tuple[Longs, ...]:
    """For each axis, its state in every joint state [J]."""
    return np.unravel_index(np.arange(case.states), case.sizes)


def cells(case: Case, width: int, place: Ints | None) -> tuple[Longs, Longs]:
    """Row and column of every joint state [J] in a table of `width` columns."""
    outer, state = np.divmod(np.arange(case.states), case.sizes[-1])
    row = np.zeros_like(outer) if place is None else place[outer].astype(np.int64)
    return row, np.zeros_like(state) if width == 1 else state


def node_scores(case: Case, token: int) -> Floats:
    """Potentials of the joint states at a token, [J]."""
    total, per_token = np.zeros(case.states), iter(case.per_token)
    for factor in case.machine.factors:
        table = next(per_token)[token] if factor.value is None else factor.value
        total += table[cells(case, factor.width, factor.place)]
    return total


def arc_scores(case: Case, token: int) -> Floats:
    """Potentials of all successions of joint states into a token, [J, J]."""
    per_token = iter(case.per_token[sum(factor.value is None for factor in case.machine.factors) :])
    total, before = np.zeros((case.states, case.states)), 1
    for axis, state in zip(case.machine.axes, axis_states(case), strict=True):
        size = axis.n_states
        score = next(per_token)[token] if axis.score is None else axis.score
        square = np.full((axis.contexts, size, size), -np.inf)
        if axis.source is None or axis.target is None:
            square[:] = score.reshape(-1, size, size)
        else:
            square[:, axis.source, axis.target] = score
        outer = np.arange(case.states) // (case.states // before)
        context = np.zeros_like(outer) if axis.place is None else axis.place[outer]
        total += square[context[None, :], state[:, None], state[None, :]]
        before *= size
    return total


class Reader(NamedTuple):
    """The residual automaton as tables: next state (−1: none) and score [Q, J], start, ends."""

    following: Longs
    score: Floats
    start: int
    begin: float
    final: Floats


def reader(case: Case) -> Reader:
    """Return the tables of the residual; without one, of the automaton that reads everything."""
    residual = case.machine.residual
    if residual is None:
        free = np.zeros((1, case.states))
        return Reader(free.astype(np.int64), free, 0, 0.0, np.zeros(1))
    shape = (residual.n_states, case.states)
    following, score = np.full(shape, -1), np.full(shape, -np.inf)
    row, column = cells(case, residual.width, residual.place)
    for source, target, value in zip(
        residual.source.tolist(), residual.target.tolist(), residual.value, strict=True
    ):
        taken = np.isfinite(value[row, column])
        assert (following[source, taken] == -1).all(), "the residual is not deterministic"
        following[source, taken] = target
        score[source, taken] = value[row, column][taken]
    starts = np.flatnonzero(np.isfinite(residual.initial))
    assert len(starts) <= 1, "the residual starts in several states"
    start = int(starts[0]) if len(starts) else 0
    return Reader(following, score, start, float(residual.initial[start]), residual.final)


# --- All paths -----------------------------------------------------------------------------------


def enumerate_paths(case: Case) -> tuple[Longs, Floats]:
    """All joint paths of the only sentence [K, T], smaller states first, with their scores [K]."""
    machine, own, tokens = case.machine, reader(case), case.tokens
    numbers = np.arange(case.states**tokens)
    paths = np.stack(np.unravel_index(numbers, (case.states,) * tokens), axis=1)
    scores = machine.initial.reshape(-1)[paths[:, 0]] + machine.final.reshape(-1)[paths[:, -1]]
    where = np.full(len(paths), own.start)  # state of the residual
    scores = scores + own.begin
    for t in range(tokens):
        scores = scores + node_scores(case, t)[paths[:, t]]
        if t > 0:
            scores = scores + arc_scores(case, t)[paths[:, t - 1], paths[:, t]]
        scores = scores + own.score[where, paths[:, t]]
        where = own.following[where, paths[:, t]]  # from −1 on, the score is −inf already
    return paths, scores + own.final[where]


def ranked_paths(case: Case) -> tuple[Longs, Floats]:
    """Paths of the only sentence that are not forbidden, best first, then smaller states first."""
    paths, scores = enumerate_paths(case)
    order = np.argsort(-scores, kind="stable")[: int(np.isfinite(scores).sum())]
    return paths[order], scores[order]


def answers(case: Case) -> Answers:
    """Answer every question about a batch by looking at all paths."""
    return together([_enumerated(one) for one in case.each()])


def _enumerated(case: Case) -> Answers:
    paths, scores = enumerate_paths(case)
    log_z, winner = log_sum(scores), int(scores.argmax())  # the first of the best
    alive = log_z > -np.inf
    share = np.exp(scores - log_z) if alive else np.zeros_like(scores)
    sums = tuple(np.zeros((case.tokens, size)) for size in case.sizes)
    tops = tuple(np.full((case.tokens, size), -np.inf) for size in case.sizes)
    for c, state in enumerate(axis_states(case)):
        for t in range(case.tokens):
            np.add.at(sums[c][t], state[paths[:, t]], share)
            np.maximum.at(tops[c][t], state[paths[:, t]], scores)
    path = paths[winner] if alive else np.full(case.tokens, -1)
    return Answers(np.asarray([log_z]), path, scores[[winner]], sums, tops)


def together(parts: list[Answers]) -> Answers:
    """Put the answers of sentences one after the other."""
    log_z, path, score, sums, tops = zip(*parts, strict=True)
    return Answers(
        np.concatenate(log_z),
        np.concatenate(path),
        np.concatenate(score),
        tuple(np.concatenate(axis) for axis in zip(*sums, strict=True)),
        tuple(np.concatenate(axis) for axis in zip(*tops, strict=True)),
    )


# --- The rarer questions, about one sentence -----------------------------------------------------


def arc_marginals(case: Case, number: int) -> Floats:
    """Probabilities of the arcs of an axis into each token, [T, arcs]."""
    axis, states = case.machine.axes[number], axis_states(case)[number]
    paths, scores = enumerate_paths(case)
    share = np.exp(scores - log_sum(scores)) if np.isfinite(scores).any() else np.zeros(len(scores))
    pairs = np.zeros((case.tokens, axis.n_states, axis.n_states))
    for t in range(1, case.tokens):
        np.add.at(pairs[t], (states[paths[:, t - 1]], states[paths[:, t]]), share)
    if axis.source is None or axis.target is None:
        return pairs.reshape(case.tokens, -1)
    return pairs[:, axis.source, axis.target]


def dead_token(case: Case) -> int:
    """First token that no path gets past; the last one where only the end is shut."""
    machine, residual = case.machine, case.machine.residual
    open_end = np.zeros_like(machine.final)
    if residual is not None:
        residual = replace(residual, final=np.zeros(residual.n_states))
    for last in range(1, case.tokens):
        machine = replace(machine, final=open_end, residual=residual)
        part = case.sentence(0, last)._replace(machine=machine)
        if not np.isfinite(enumerate_paths(part)[1]).any():
            return last - 1
    return case.tokens - 1


def inverse_sample(case: Case, uniform: Floats) -> tuple[Longs, float]:
    """Invert the distribution of each token's joint state, given those before it.

    Returns the path and how near a uniform number [T] came to the border between two states.
    """
    paths, scores = enumerate_paths(case)
    share, near = np.exp(scores - scores.max()), 1.0
    path = np.zeros(case.tokens, dtype=np.int64)
    for t, u in enumerate(uniform.tolist()):
        sums = np.zeros(case.states)
        np.add.at(sums, paths[:, t], share)
        borders = np.cumsum(sums) / sums.sum()
        path[t] = int(np.searchsorted(borders, u, side="right"))
        near = min(near, float(np.abs(borders[:-1] - u).min(initial=1.0)))
        share = np.where(paths[:, t] == path[t], share, 0.0)
    return path, near

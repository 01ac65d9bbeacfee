"""Labellings of a sentence that satisfy some constraints: found, or proven not to be there.

========  ==================================================================
Sentence  what a sentence allows before any constraint, and under some
========  ==================================================================

First by counting, then by a short search beside the constraints, last in their product. The work
that goes into all questions about a sentence is limited, in states, not by the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import ContradictionError, TooLargeError
from fstcrf.grammar import (
    Acceptor,
    Word,
    hardened,
    intersect,
    is_empty,
    minimise,
    overfull,
    wanted,
)
from fstcrf.plans.decoder import readers
from fstcrf.plans.program import Program

__all__ = ["Sentence"]

MAX_STATES = 4_096
"""States of a product of constraints that is looked at."""

MAX_SEARCHED = 100_000
"""States that all searches about a sentence may take from their queues."""

_SEARCHED = 5_000
"""The same of one search."""

_NEVER = 1 << 20

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Sentence:
    """What a sentence allows.

    Parameters
    ----------
    program : Program
        Without a grammar and without scores: what is possible has 0, the rest −inf.
    values : sequence of float64 arrays
        What the sentence brings, one array for each of ``program.inputs``; 0 or −inf.
    """

    def __init__(self, program: Program, values: Sequence[Floats]) -> None:
        self.program, self.values = program, tuple(values)
        self.tokens = len(self.values[0])
        best = kernel.axis_max_marginals(self._bound(program, self.values))
        self.allowed: dict[str, Flags] = {
            tape: program.chain[tape].topology.label_max(score) > -np.inf
            for tape, score in zip(program.order, best, strict=True)
        }
        self._within: dict[Acceptor, Acceptor | None] = {}
        self._left = MAX_SEARCHED

    def too_many(self, constraints: Sequence[Acceptor]) -> tuple[Acceptor, ...] | None:
        """Return constraints that a sentence has no room for, None where counting shows none.

        One that rejects everything alone is an answer, too. They need not be as few as can be.
        """
        small = {self.within(acceptor): acceptor for acceptor in constraints}
        alone = [acceptor for acceptor in constraints if self.within(acceptor) is None]
        if alone:
            return (min(alone, key=lambda acceptor: acceptor.n_states),)
        found = overfull([a for a in small if a is not None], self.allowed)
        return None if found is None else tuple(small[acceptor] for acceptor in found)

    def witness(self, constraints: Sequence[Acceptor]) -> Word | None:
        """Return a labelling that satisfies constraints, None where there is none.

        Raises
        ------
        TooLargeError
            That cannot be told with the work that is allowed for.
        """
        if self.too_many(constraints) is not None:
            return None
        small = [a for a in map(self.within, constraints) if a is not None]
        values = self._guided(small)
        if not small:
            path, score = kernel.best_paths(self._bound(self.program, values))
            return None if score[0] == -np.inf else self._word(path)
        found = self._search(small, values)
        if found.found[0]:
            return self._word(found.path[0])
        return self._expanded(small, values) if found.bound[0] > -np.inf else None

    def _expanded(self, constraints: Sequence[Acceptor], values: Sequence[Floats]) -> Word | None:
        whole = reduce(_product, constraints)
        if is_empty(whole):
            return None
        free = self.program
        program = Program(free.chains, free.couplings, [whole], search="expanded")
        try:
            path, score = kernel.best_paths(self._bound(program, values))
        except ContradictionError:  # beside the structure
            return None
        return None if score[0] == -np.inf else self._word(path)

    def _search(self, constraints: Sequence[Acceptor], values: Sequence[Floats]) -> kernel.Searched:
        if self._left <= 0:
            raise TooLargeError("too many states to explain an error")
        conjunction = kernel.Conjunction(self._machine, readers(constraints, self._labels))
        bound = self._bound(self.program, values)
        found = kernel.lazy_paths(bound, conjunction, 1, kernel.Budget(states=_SEARCHED))
        self._left -= int(found.popped[0])
        return found

    def within(self, acceptor: Acceptor) -> Acceptor | None:
        """Return what an acceptor can say of this sentence, None where it rejects all of it.

        A large one may be small here: only states count that a labelling of so many tokens meets.
        """
        if acceptor not in self._within:
            allowed = [self.allowed[tape] for tape in acceptor.tapes]
            self._within[acceptor] = _within(acceptor, allowed)
        return self._within[acceptor]

    def _guided(self, constraints: Sequence[Acceptor]) -> tuple[Floats, ...]:
        """Return values that prefer labels which bring constraints forward, token by token."""
        changed = list(self.values)
        for k, what in enumerate(self.program.inputs):
            if what.kind != "node" or what.context:
                continue
            own = [a for a in constraints if a.tapes == (what.tape,)]
            if own:
                guide = _guide(own, self.allowed[what.tape])
                label = self.program.chain[what.tape].topology.state_label
                changed[k] = changed[k] + (label == guide[:, None])
        return tuple(changed)

    def _word(self, path: NDArray[np.int32]) -> Word:
        found = {}
        states = self._machine.axis_states(path)
        for tape, of_tape in zip(self.program.order, states, strict=True):
            topology = self.program.chain[tape].topology
            found[tape] = [topology.labels[i] for i in topology.state_label[of_tape].tolist()]
        return found

    @property
    def _machine(self) -> kernel.Machine:
        return self.program.decoder.machine

    @cached_property
    def _labels(self) -> dict[str, NDArray[np.int64]]:
        """Label of each tape in each joint state."""
        return self.program.axes.joint_labels()

    def _bound(self, program: Program, values: Sequence[Floats]) -> kernel.Bound:
        offsets = np.asarray([0, len(self.values[0])])
        return kernel.Bound(program.machine, offsets, program.moving(values))


def _product(a: Acceptor, b: Acceptor) -> Acceptor:
    return minimise(intersect(a, b, limit=MAX_STATES))


def _guide(acceptors: Sequence[Acceptor], allowed: Flags) -> NDArray[np.int64]:
    """Return a label for each token, int64 [T]: one of those after which the least is wanted.

    Parameters
    ----------
    acceptors : sequence of Acceptor
        Of one tape.
    allowed : bool [T, L]
        The labels that each token may have.
    """
    ends = np.cumsum([a.n_states for a in acceptors])
    first = ends - [a.n_states for a in acceptors]
    dead = int(ends[-1])
    target = [
        np.where(a.target >= 0, a.target + n, dead) for a, n in zip(acceptors, first, strict=True)
    ]
    table = np.concatenate([*target, np.full_like(target[0][:1], dead)])
    need = np.concatenate([*map(wanted, acceptors), [_NEVER]]).astype(np.int64)
    state, guide = first, np.zeros(len(allowed), dtype=np.int64)
    for t, mask in enumerate(allowed):
        reached = table[state]
        cost = 2 * need[reached].sum(axis=0) + np.where(mask, 1, _NEVER * (len(acceptors) + 1))
        cost[guide[t - 1]] -= 1  # the label before goes on, where nothing is better
        guide[t] = cost.argmin()
        state = reached[:, guide[t]]
    return guide


def _within(acceptor: Acceptor, allowed: Sequence[Flags]) -> Acceptor | None:
    """Return an acceptor of its states on labellings whose tokens have allowed labels.

    Parameters
    ----------
    acceptor : Acceptor
    allowed : sequence of bool [T, L], one a tape
        The labels that each token may have.
    """
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    tokens = len(allowed[0])
    ahead = np.zeros((tokens + 1, acceptor.n_states), dtype=bool)
    ahead[0, 0] = True
    tuples = [_tuples([mask[t] for mask in allowed]) for t in range(tokens)]
    for t, symbols in enumerate(tuples):
        reached = np.unique(flat[np.ix_(np.flatnonzero(ahead[t]), symbols)])
        ahead[t + 1, reached[reached >= 0]] = True
    ahead[tokens] &= acceptor.final > -np.inf
    for t in range(tokens - 1, -1, -1):
        states = np.flatnonzero(ahead[t])
        reached = flat[np.ix_(states, tuples[t])]
        ahead[t, states] = ((reached >= 0) & ahead[t + 1][reached]).any(axis=1)
    if not ahead[0, 0]:
        return None
    used = np.logical_or.reduce(ahead)
    target = np.where((flat >= 0) & used[flat] & used[:, None], flat, -1)
    return hardened(replace(acceptor, target=target.reshape(acceptor.target.shape)))


def _tuples(allowed: Sequence[Flags]) -> NDArray[np.intp]:
    return np.flatnonzero(reduce(np.logical_and.outer, allowed))

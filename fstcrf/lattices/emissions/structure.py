"""The legal states of batches of arrays: a grammar over one or several tapes as a single chain.

Batches of arrays have separate recursions (`csrc/emissions.c`, `kernel/emissions.py`). They read
scores in float32 without a copy, under one chain whose arcs are all stored. A state of the
chain is a joint label with a state of the grammar; states that are on no path are removed. This
module compiles the chain once for labels and grammar. Transition scores, which may change at every
training step, are added later.

This is faster up to 2,048 states if a grammar does not multiply the labels, up to 256 states if it
does, and up to a number of operations. Larger grammars use the machine of a lattice, in float64.

Rounding: the best path is found backward, and each row is reduced by the largest score of the next
row, so that errors do not grow with the length. If scores on the path are too large for float32,
the path is found again in float64. Sums are scaled one token late, so that no token waits for a
division. Underflow is bounded after the backward pass; a sentence in which it could matter is
computed again in float64, and then in the log domain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import TooLargeError
from fstcrf.kernel import ExpandedChain
from fstcrf.kernel.emissions import MOST_EMITTERS
from fstcrf.lattices.inputs import SentenceInputs, constrained, free_topology
from fstcrf.lattices.machines import joint_arrays
from fstcrf.lazy import made_once, memoised
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.plans import Program, TapeChain, plan_of
from fstcrf.machines.ways import on_paths

_MANY = 256  # states, from which a grammar that multiplies the labels is faster as a machine
_SHARED = 4
"""Operations of a chain with stored arcs that take the time of one operation of a machine."""

_WRITTEN_OUT = 2048
"""Largest number of joint states for which the useful states are computed."""


@dataclass(frozen=True, eq=False)
class LegalStates:
    """The states of a chain, and their scores under a grammar.

    Parameters
    ----------
    sizes : tuple of int
        Number of labels of each tape.
    label : int64 [tapes, S]
        Label of each tape in each state.
    arc : float64 [S, S]
        Grammar score of each arc; −inf if it is illegal.
    initial, final : float64 [S]
        Grammar score of the first and of the last state.
    operations : int
        Operations per token of the machine of a lattice with this grammar.
    empty : float
        Score of a sentence without tokens; −inf if the grammar rejects it.
    """

    sizes: tuple[int, ...]
    label: Longs
    arc: Floats
    initial: Floats
    final: Floats
    operations: int
    empty: float

    @property
    def pays(self) -> bool:
        """Whether the chain with stored arcs is faster than the machine of a lattice."""
        return len(self.initial) ** 2 <= _SHARED * self.operations

    @made_once
    def plain(self) -> bool:
        """Whether there is one tape, and its labels are the states."""
        return len(self.sizes) == 1 and np.array_equal(self.label[0], np.arange(self.sizes[0]))

    @made_once
    def joint(self) -> Ints:
        """The joint label of each state, int32 [S]; the label of the first tape varies slowest."""
        labels: Ints = np.ravel_multi_index(tuple(self.label), self.sizes).astype(np.int32)
        return labels

    def emitter(self, chains: Sequence[ChainParameters]) -> ExpandedChain:
        """Return the chain with the transition, initial and final scores of each tape added."""
        arc, first, last = self.arc, self.initial, self.final
        for label, chain in zip(self.label, chains, strict=True):
            if self.plain:
                arc = arc + chain.transitions
                first, last = first + chain.initial, last + chain.final
            else:
                arc = arc + chain.transitions[label[:, None], label]
                first, last = first + chain.initial[label], last + chain.final[label]
        return ExpandedChain(math.prod(self.sizes), self.joint, arc, first, last, self.empty)


class ChainParameters(NamedTuple):
    """The transition, initial and final scores of one tape.

    transitions : float64 [L, L]
    initial, final : float64 [L]
    """

    transitions: Floats
    initial: Floats
    final: Floats


def structure(tape: tuple[str, tuple[str, ...]], grammar: Grammar | None) -> LegalStates | None:
    """Return the legal states of one tape, given its name and labels; None if they do not pay.

    Raises
    ------
    GrammarError
        The grammar has other labels.
    """
    states = joint_structure((tape,), grammar)
    return states if states is not None and states.pays else None


def joint_structure(
    tapes: tuple[tuple[str, tuple[str, ...]], ...], grammar: Grammar | None
) -> LegalStates | None:
    """Return the legal states of several tapes; None if there are too many.

    Parameters
    ----------
    tapes : tuple of (str, tuple of str)
        Name and labels of each tape.
    grammar : Grammar, optional

    Raises
    ------
    GrammarError
        The grammar has other tapes or labels.
    """
    return _structure(tapes, None if grammar is None else grammar.constraints)


@memoised(64)
def _structure(
    tapes: tuple[tuple[str, tuple[str, ...]], ...], constraints: tuple[Constraint, ...] | None
) -> LegalStates | None:
    sizes = tuple(len(labels) for _, labels in tapes)
    unconstrained = Program(
        [
            TapeChain(name, free_topology(labels), np.zeros(n), np.zeros(n), np.zeros(n * n))
            for (name, labels), n in zip(tapes, sizes, strict=True)
        ]
    )
    program = unconstrained if constraints is None else constrained(unconstrained, constraints)
    try:
        states = int(np.prod(program.shape)) * program.machine.n_residual
    except TooLargeError:
        return None
    if states > _WRITTEN_OUT:
        return None
    arrays = joint_arrays(SentenceInputs(program, tuple(np.zeros((1, n)) for n in sizes)))
    node = arrays.node[0]  # grammar scores of single tokens, added to the arcs into them
    step, initial = arrays.step[0] + node, arrays.initial + node
    begins, ends = np.flatnonzero(initial > -np.inf), arrays.final > -np.inf
    source, target = np.nonzero(step > -np.inf)
    _, useful = on_paths(source, target, ends, starts=begins)
    kept = np.flatnonzero(useful if useful.any() else ~useful)  # keep all if no path is legal
    kept = kept[np.argsort(arrays.label[kept], kind="stable")]  # ties: the smaller label
    many = _MANY if len(kept) > math.prod(sizes) else MOST_EMITTERS
    if len(kept) > many:
        return None
    label = np.stack(np.unravel_index(arrays.label[kept], sizes)).astype(np.int64)
    return LegalStates(
        sizes,
        label,
        np.ascontiguousarray(step[np.ix_(kept, kept)]),
        initial[kept],
        arrays.final[kept],
        plan_of(program).operations,
        arrays.empty,
    )

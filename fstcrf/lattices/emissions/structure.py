"""What is legal of one tape's labels, or of several tapes', as one chain with all arcs written out.

States are labels with what a grammar has to remember of those before. The structure is compiled
once for labels and grammar; scores of transitions are added to it whenever they change.

Batches of arrays take a way of their own (`csrc/emissions.c`, `kernel/emissions.py`): scores in
float32 are read where they lie, under one chain whose arcs are written out. Its states are those
of the product of labels and grammar that lie on a path (`lattices/emissions/structure.py`),
compiled once for labels and grammar; transitions that change at every step of a training are
added to them. That pays up to 256 states and a count of operations; beyond, the machine of a
lattice takes over, in float64. Best labels are found backward, each row less the largest score of
the one behind it, so that rounding does not grow with the length; where the path meets scores so
large that float32 rounds them, float64 finds it again. Sums are scaled a token late, so that no
token waits for a division. What underflows is bounded when the backward rows are known: in a
sentence where it could count, float64 takes over, then the log domain.
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
from fstcrf.machines.plans import Chain, Program, plan_of
from fstcrf.machines.ways import on_paths

_SHARED = 4
"""Operations of a chain with all arcs written out that take the time of one of a machine."""

_WRITTEN_OUT = 2048
"""Joint states of a product that is written out to see which of them are of use."""


@dataclass(frozen=True, eq=False)
class LegalStates:
    """The states of a chain and the scores that a grammar gives them.

    Parameters
    ----------
    sizes : tuple of int
        Labels of each tape.
    label : int64 [tapes, S]
        Label of each tape in each state.
    arc : float64 [S, S]
        The grammar's score of each succession of states; −inf: illegal.
    initial, final : float64 [S]
    operations : int
        What a step costs of the machine that does not write all arcs out.
    empty : float
        Score of a sentence without tokens; −inf: the grammar refuses it.
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
        """Whether all arcs written out cost less than the steps of a machine that shares them."""
        return len(self.initial) ** 2 <= _SHARED * self.operations

    @made_once
    def plain(self) -> bool:
        """Whether the states are the labels of an only tape."""
        return len(self.sizes) == 1 and np.array_equal(self.label[0], np.arange(self.sizes[0]))

    @made_once
    def joint(self) -> Ints:
        """The joint label of each state, int32 [S]: labels of the first tape slowest."""
        found: Ints = np.ravel_multi_index(tuple(self.label), self.sizes).astype(np.int32)
        return found

    def emitter(self, chains: Sequence[ChainParameters]) -> ExpandedChain:
        """Return the chain with the scores of each tape's transitions and ends added."""
        arc, first, last = self.arc, self.initial, self.final
        for label, chain in zip(self.label, chains, strict=True):
            if self.plain:
                arc, first, last = (
                    arc + chain.transitions,
                    first + chain.initial,
                    last + chain.final,
                )
                continue
            arc = arc + chain.transitions[label[:, None], label]
            first, last = first + chain.initial[label], last + chain.final[label]
        return ExpandedChain(math.prod(self.sizes), self.joint, arc, first, last, self.empty)


class ChainParameters(NamedTuple):
    """Scores of one tape's successions and ends.

    transitions : float64 [L, L]
    initial, final : float64 [L]
    """

    transitions: Floats
    initial: Floats
    final: Floats


def structure(tape: tuple[str, tuple[str, ...]], grammar: Grammar | None) -> LegalStates | None:
    """Return the structure of one tape's labels; None where arcs are not to be written out.

    Raises
    ------
    GrammarError
        A grammar of other labels.
    """
    found = joint_structure((tape,), grammar)
    return found if found is not None and found.pays else None


def joint_structure(
    tapes: tuple[tuple[str, tuple[str, ...]], ...], grammar: Grammar | None
) -> LegalStates | None:
    """Return the structure of several tapes; None where it has too many states.

    Parameters
    ----------
    tapes : tuple of (str, tuple of str)
        Name and labels of each tape.
    grammar : Grammar, optional

    Raises
    ------
    GrammarError
        A grammar of other tapes or labels.
    """
    return _structure(tapes, None if grammar is None else grammar.constraints)


@memoised(64)
def _structure(
    tapes: tuple[tuple[str, tuple[str, ...]], ...], constraints: tuple[Constraint, ...] | None
) -> LegalStates | None:
    sizes = tuple(len(labels) for _, labels in tapes)
    free = Program(
        [
            Chain(name, free_topology(labels), np.zeros(n), np.zeros(n), np.zeros(n * n))
            for (name, labels), n in zip(tapes, sizes, strict=True)
        ]
    )
    program = free if constraints is None else constrained(free, constraints)
    try:
        states = int(np.prod(program.shape)) * program.machine.n_residual
    except TooLargeError:
        return None
    if states > _WRITTEN_OUT:
        return None
    taped = SentenceInputs(program, tuple(np.zeros((1, n)) for n in sizes))
    arrays = joint_arrays(taped)
    node = arrays.node[0]  # what the grammar says of single tokens: goes into what leads to them
    step, initial = arrays.step[0] + node, arrays.initial + node
    begins, ends = np.flatnonzero(initial > -np.inf), arrays.final > -np.inf
    source, target = np.nonzero(step > -np.inf)
    _, useful = on_paths(source, target, ends, starts=begins)
    kept = np.flatnonzero(useful if useful.any() else ~useful)  # all where nothing is legal
    kept = kept[np.argsort(arrays.label[kept], kind="stable")]  # ties: the smaller label
    if len(kept) > MOST_EMITTERS:
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

"""Why a sentence has no path: which constraints contradict each other there.

==================  ==============================================================
conflict            constraints without a path in common, as few as can be
no_path_error       the error that says so
check_consistent    raise where no sentence of any length has a path
==================  ==============================================================

The constraints are looked at as they were given, a few at a time: see `fstcrf.grammar.irreducible`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.errors import ContradictionError, GrammarError, NoPathError, TooLargeError
from fstcrf.grammar import (
    Acceptor,
    Word,
    contradictory,
    hardened,
    irreducible,
    listed_names,
    minimise,
    trim,
)
from fstcrf.plans.chain import Chain, Coupling
from fstcrf.plans.folding import arc_ends
from fstcrf.plans.program import Program, scaled

__all__ = ["check_consistent", "conflict", "no_path_error"]

MAX_STATES = 1024
"""States of a product of constraints that is looked at to explain an error."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def conflict(program: Program, values: Sequence[Floats]) -> tuple[str, ...] | None:
    """Return the names of constraints that have no path together, any one fewer of which has one.

    Parameters
    ----------
    program : Program
        Its grammar need not be small enough to be expanded.
    values : sequence of float64 arrays
        What a sentence of a token or more brings, one array for each of ``program.inputs``.

    Returns
    -------
    tuple of str or None
        (): there is no path without any constraint either. None: that cannot be told, because
        the constraints that were looked at have too many states together; or there is a path.
    """
    # Without scores, ties are broken towards few different labels: that breaks few constraints.
    free = Program(program.chains, program.couplings, search="expanded").scaled(0.0, grammar=False)
    sentence = _Sentence(free, tuple(scaled(v, 0.0) for v in values))
    try:
        found = irreducible(program.conjuncts, sentence.witness)
    except TooLargeError:
        return None
    return None if found is None else tuple(acceptor.name for acceptor in found)


def no_path_error(
    program: Program,
    values: Sequence[Floats],
    *,
    position: int | None = None,
    sentence: int | None = None,
) -> NoPathError:
    """Return the error that says why a sentence has no path.

    Parameters
    ----------
    program, values
        As for `conflict`.
    position : int, optional
        First token at which every labelling has died.
    sentence : int, optional
        Its index in a batch.
    """
    names = conflict(program, values)
    if names is None:
        message = "every label sequence is forbidden from here on"
    elif names:
        end = " together; without any one of them one is" if len(names) > 1 else ""
        message = f"no labelling is legal under {listed_names(names)}{end}"
    else:
        message = (
            "every label sequence is forbidden, by structure, potentials of -inf or forced labels "
            "alone"
        )
    return NoPathError(message, position=position, sentence=sentence, constraints=names or ())


class _Sentence:
    """What a sentence allows before any constraint."""

    def __init__(self, program: Program, values: tuple[Floats, ...]) -> None:
        self.program, self.values = program, values
        best = kernel.axis_max_marginals(self._bound(program))
        self.allowed: dict[str, Flags] = {
            tape: program.chain[tape].topology.label_max(score) > -np.inf
            for tape, score in zip(program.order, best, strict=True)
        }
        self._within: dict[Acceptor, Acceptor | None] = {}

    def witness(self, constraints: Sequence[Acceptor]) -> Word | None:
        """Return a labelling that satisfies constraints, None where there is none."""
        small = [self.within(acceptor) for acceptor in constraints]
        kept = [acceptor for acceptor in small if acceptor is not None]
        if len(kept) < len(small):
            return None
        program = self.program.constrained(kept)
        try:
            residual = program.n_residual
        except GrammarError:  # they have nothing in common
            return None
        if residual > MAX_STATES:
            raise TooLargeError(f"{residual} states are too many to explain an error")
        path, score = kernel.best_paths(self._bound(program))
        if score[0] == -np.inf:
            return None
        states = program.machine.axis_states(path)
        found = {}
        for tape, of_tape in zip(program.order, states, strict=True):
            topology = program.chain[tape].topology
            found[tape] = [topology.labels[i] for i in topology.state_label[of_tape].tolist()]
        return found

    def within(self, acceptor: Acceptor) -> Acceptor | None:
        """Return what an acceptor can say of this sentence, None where it rejects all of it.

        A large one may be small here: only states count that a labelling of so many tokens meets.
        """
        if acceptor not in self._within:
            allowed = [self.allowed[tape] for tape in acceptor.tapes]
            self._within[acceptor] = _within(acceptor, allowed)
        return self._within[acceptor]

    def _bound(self, program: Program) -> kernel.Bound:
        offsets = np.asarray([0, len(self.values[0])])
        return kernel.Bound(program.machine, offsets, program.moving(self.values))


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


# --- Sentences of any length ----------------------------------------------------------------------


def check_consistent(program: Program) -> None:
    """Raise where no sentence of any length can have a path, whatever its potentials.

    Nothing is raised where that would take too many states to tell.

    Raises
    ------
    ContradictionError
        With an irreducible set of constraints: empty where the taggers alone have no path.
    """
    given = [_structure(chain) for chain in program.chains]
    given += [_table(c, program) for c in program.couplings if c.value is not None]
    try:
        found = contradictory(program.conjuncts, given)
    except TooLargeError:
        return
    if found is None:
        return
    names = tuple(acceptor.name for acceptor in found)
    if len(names) > 1:
        message = (
            f"{listed_names(names)} accept nothing together that the taggers can say: they "
            "contradict each other, but no fewer of them do"
        )
    elif names:
        message = f"{names[0]} accepts nothing that the taggers can say"
    else:
        message = "the taggers can say nothing: their own structure forbids every label sequence"
    raise ContradictionError(message, constraints=names)


def _structure(chain: Chain) -> Acceptor:
    """Return the label sequences of a chain; its states follow the start, which is state 0."""
    topology = chain.topology
    there = np.zeros(chain.n_kernel_arcs, dtype=bool)
    there[topology.kernel_arcs()] = True
    if chain.arc is not None:
        there &= (chain.arc > -np.inf).reshape(-1, chain.n_kernel_arcs).any(axis=0)
    source, target = (ends[there] for ends in arc_ends(topology))
    first = np.flatnonzero(topology.initial & (chain.initial > -np.inf))
    step = np.full((topology.n_states + 1, len(chain.labels)), -1, dtype=np.int32)
    step[0, topology.state_label[first]] = first + 1
    step[source + 1, topology.state_label[target]] = target + 1
    final = np.where(topology.final & (chain.final > -np.inf), 0.0, -np.inf)
    name = f"the structure of {chain.name}"
    ends = np.append(-np.inf, final)
    return minimise(trim(Acceptor((chain.name,), (chain.labels,), step, None, ends, name)))


def _table(coupling: Coupling, program: Program) -> Acceptor:
    value = np.asarray(coupling.value)
    return Acceptor(
        tapes=coupling.tapes,
        labels=tuple(program.labels(tape) for tape in coupling.tapes),
        target=np.where(value > -np.inf, 0, -1)[None].astype(np.int32),
        score=None,
        final=np.zeros(1),
        name="the coupling of " + " and ".join(coupling.tapes),
    )

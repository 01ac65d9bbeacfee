"""Finds labellings of a sentence that satisfy constraints, or proves that none exist.

========  ==================================================================
Sentence the labels a sentence allows before any constraint, and under some
========  ==================================================================

It counts first, then makes a short search, and last computes the product. The work for all
questions about a sentence is limited in states, not in time.

Contradictions. It finds the constraints that leave no path without the product of all: a labelling
that satisfies a set of them breaks some other one, which is added, until no labelling satisfies the
set; then constraints that are not needed are dropped (`machines/grammar/contradiction.py`). For a
sentence the labellings come from the kernel, without scores. Each constraint keeps only the states
that a labelling of this length can reach. The constraint that was broken most often is added first:
if one of 29 constraints is to blame, it is found at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, distinct
from fstcrf.errors import ContradictionError, NoPathError, TooLargeError
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import (
    ANY_ONE,
    TOGETHER,
    Acceptor,
    Word,
    contradictory,
    intersect,
    irreducible,
    is_empty,
    listed_names,
    minimise,
    overfull,
    trim,
    wanted,
)
from fstcrf.machines.grammar.acceptor import only_empty
from fstcrf.machines.plans.chain import Coupling, TapeChain, scaled
from fstcrf.machines.plans.decoder import readers
from fstcrf.machines.plans.folding import arc_ends
from fstcrf.machines.plans.program import Program

MAX_STATES = 4_096
"""Largest number of states of a product of constraints."""

MAX_SEARCHED = 100_000
"""States that all searches about a sentence may take from their queues together."""

_SEARCHED = 5_000
"""The same for one search."""

_NEVER = 1 << 20


class AllowedLabels:
    """The labels that a sentence allows.

    Parameters
    ----------
    program : Program
        Without a grammar and without scores: allowed potentials are 0, others −inf.
    values : sequence of float64 arrays
        Potentials of the sentence, one array for each of ``program.inputs``; 0 or −inf.
    """

    def __init__(self, program: Program, values: Sequence[Floats]) -> None:
        self.program, self.values = program, tuple(values)
        self.tokens = len(self.values[0])
        best = kernel.axis_max_marginals(self._bound(program, self.values))
        self.allowed: dict[str, Bools] = {
            tape: program.chain[tape].topology.label_max(score) > -np.inf
            for tape, score in zip(program.order, best, strict=True)
        }
        self._restricted: dict[Acceptor, Acceptor | None] = {}
        self._left = MAX_SEARCHED

    def too_many(self, constraints: Sequence[Acceptor]) -> tuple[Acceptor, ...] | None:
        """Return constraints that do not fit into the sentence, `None` if counting finds no proof.

        A single constraint that rejects everything is also returned. The set may not be minimal.
        """
        small = {self.restricted_to(acceptor): acceptor for acceptor in constraints}
        rejecting = [acceptor for acceptor in constraints if self.restricted_to(acceptor) is None]
        if rejecting:
            return (min(rejecting, key=lambda acceptor: acceptor.n_states),)
        conflicting = overfull([a for a in small if a is not None], self.allowed)
        return None if conflicting is None else tuple(small[acceptor] for acceptor in conflicting)

    def witness(self, constraints: Sequence[Acceptor]) -> Word | None:
        """Return a labelling that satisfies constraints, or `None`.

        Raises
        ------
        TooLargeError
            The answer needs more than the allowed work.
        """
        if self.too_many(constraints) is not None:
            return None
        small = [a for a in map(self.restricted_to, constraints) if a is not None]
        values = self._guided(small)
        if not small:
            path, score = kernel.best_paths(self._bound(self.program, values))
            return None if score[0] == -np.inf else self._word(path)
        searched = self._search(small, values)
        if searched.n_paths[0]:
            return self._word(searched.path[0])
        return self._expanded(small, values) if searched.bound[0] > -np.inf else None

    def _expanded(self, constraints: Sequence[Acceptor], values: Sequence[Floats]) -> Word | None:
        product = reduce(_product, constraints)
        if is_empty(product):
            return None
        chains, couplings = self.program.chains, self.program.couplings
        program = Program(chains, couplings, [product], search="expanded")
        try:
            path, score = kernel.best_paths(self._bound(program, values))
        except ContradictionError:  # together with the structure
            return None
        return None if score[0] == -np.inf else self._word(path)

    def _search(
        self, constraints: Sequence[Acceptor], values: Sequence[Floats]
    ) -> kernel.SearchResult:
        if self._left <= 0:
            raise TooLargeError("too many states to explain the contradiction")
        conjunction = kernel.Conjunction(self._machine, readers(constraints, self._labels))
        bound = self._bound(self.program, values)
        searched = kernel.lazy_paths(bound, conjunction, 1, kernel.Budget(states=_SEARCHED))
        self._left -= int(searched.states_expanded[0])
        return searched

    def restricted_to(self, acceptor: Acceptor) -> Acceptor | None:
        """Return an acceptor restricted to this sentence, `None` if it rejects every labelling.

        A large acceptor may become small: only states that a labelling of this length reaches
        count.
        """
        if acceptor not in self._restricted:
            allowed = [self.allowed[tape] for tape in acceptor.tapes]
            self._restricted[acceptor] = _restricted(acceptor, allowed)
        return self._restricted[acceptor]

    def _guided(self, constraints: Sequence[Acceptor]) -> tuple[Floats, ...]:
        """Bias the search towards labels that satisfy open constraints."""
        changed = list(self.values)
        for k, what in enumerate(self.program.inputs):
            if what.kind != "node" or what.context:
                continue
            tape_constraints = [a for a in constraints if a.tapes == (what.tape,)]
            if tape_constraints:
                guide = _guide(tape_constraints, self.allowed[what.tape])
                label = self.program.chain[what.tape].topology.state_label
                changed[k] = changed[k] + (label == guide[:, None])
        return tuple(changed)

    def _word(self, path: Ints) -> Word:
        word = {}
        states = self._machine.axis_states(path)
        for tape, of_tape in zip(self.program.order, states, strict=True):
            topology = self.program.chain[tape].topology
            word[tape] = [topology.labels[i] for i in topology.state_label[of_tape].tolist()]
        return word

    @property
    def _machine(self) -> kernel.JointChain:
        return self.program.decoder.machine

    @made_once
    def _labels(self) -> dict[str, Longs]:
        return self.program.axes.joint_labels()

    def _bound(self, program: Program, values: Sequence[Floats]) -> kernel.Bound:
        offsets = np.asarray([0, len(self.values[0])])
        return kernel.Bound(program.machine, offsets, program.per_token(values))


def _product(a: Acceptor, b: Acceptor) -> Acceptor:
    return minimise(intersect(a, b, limit=MAX_STATES))


def _guide(acceptors: Sequence[Acceptor], allowed: Bools) -> Longs:
    """Return a label for each token, int64 [T], after which the least is still required.

    Parameters
    ----------
    acceptors : sequence of Acceptor
        Of one tape.
    allowed : bool [T, L]
        The allowed labels of each token.
    """
    *first, dead = Ragged.from_lengths(a.n_states for a in acceptors).offsets.tolist()
    target = [
        np.where(a.target >= 0, a.target + n, dead) for a, n in zip(acceptors, first, strict=True)
    ]
    table = np.concatenate([*target, np.full_like(target[0][:1], dead)])
    need = np.concatenate([*map(wanted, acceptors), [_NEVER]]).astype(np.int64)
    state, guide = np.asarray(first), np.zeros(len(allowed), dtype=np.int64)
    for t, mask in enumerate(allowed):
        reached = table[state]
        cost = 2 * need[reached].sum(axis=0) + np.where(mask, 1, _NEVER * (len(acceptors) + 1))
        cost[guide[t - 1]] -= 1  # ties: continue the previous label
        guide[t] = cost.argmin()
        state = reached[:, guide[t]]
    return guide


def _restricted(acceptor: Acceptor, allowed: Sequence[Bools]) -> Acceptor | None:
    """Return an acceptor restricted to states on labellings with allowed labels.

    Parameters
    ----------
    acceptor : Acceptor
    allowed : sequence of bool [T, L], one a tape
        The allowed labels of each token.
    """
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    tokens = len(allowed[0])
    ahead = np.zeros((tokens + 1, acceptor.n_states), dtype=bool)
    ahead[0, 0] = True
    tuples = [_tuples([mask[t] for mask in allowed]) for t in range(tokens)]
    for t, symbols in enumerate(tuples):
        reached = distinct(flat[np.ix_(np.flatnonzero(ahead[t]), symbols)])
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
    made = replace(acceptor, target=target.reshape(acceptor.target.shape))
    return minimise(trim(made.support()))


def _tuples(allowed: Sequence[Bools]) -> NDArray[np.intp]:
    return np.flatnonzero(reduce(np.logical_and.outer, allowed))


# --- Why a sentence has no path -------------------------------------------------------------------

UNSETTLED = (
    "no legal label sequence was found among {states:,} states, nor proven not to exist: "
    "give a larger budget"
)


def conflict(program: Program, values: Sequence[Floats]) -> tuple[str, ...] | None:
    """Return the names of a minimal set of constraints that have no path together.

    Parameters
    ----------
    program : Program
        Its grammar may be too large to be expanded.
    values : sequence of float64 arrays
        Potentials of a sentence, one array for each of ``program.inputs``.

    Returns
    -------
    tuple of str or None
        (): even without constraints there is no path. `None`: the answer is unknown, because the
        constraints have too many states together; or there is a path.
    """
    if not len(values[0]):
        return next(((a.name,) for a in program.conjuncts if a.final[0] == -np.inf), ())
    # Without scores, ties prefer few different labels, which break few constraints.
    flat = Program(program.chains, program.couplings, search="expanded").scaled(0.0, grammar=False)
    try:
        sentence = AllowedLabels(flat, [scaled(v, 0.0) for v in values])
        if any(not mask.any() for mask in sentence.allowed.values()):
            return ()
        first = sentence.too_many(program.conjuncts) or ()
        conflicting = irreducible(program.conjuncts, sentence.witness, first)
    except TooLargeError:
        return None
    return None if conflicting is None else tuple(acceptor.name for acceptor in conflicting)


def no_path_error(
    program: Program,
    values: Sequence[Floats],
    *,
    position: int | None = None,
    sentence: int | None = None,
    given_up: int | None = None,
) -> NoPathError:
    """Return the error that explains why a sentence has no path, or why no path was found.

    Parameters
    ----------
    program, values
        As for `conflict`.
    position : int, optional
        First token at which every labelling has died.
    sentence : int, optional
        Its index in a batch.
    given_up : int, optional
        States after which a search gave up: then a path may exist.
    """
    names = conflict(program, values)
    if names is None and given_up is not None:
        message, position = UNSETTLED.format(states=given_up), None
    elif names is None:
        message = "every label sequence is forbidden" + " from here on" * (position is not None)
    elif not len(values[0]):
        refuses = names[0] if names else "the grammar that a tagger was trained under"
        message = f"the sentence has no tokens, and {refuses} does not accept the empty labelling"
    elif names:
        end = " together; without any one of them one is" if len(names) > 1 else ""
        message = f"no labelling is legal under {listed_names(names)}{end}"
    else:
        message = (
            "every label sequence is forbidden, by structure, potentials of -inf or forced labels "
            "alone"
        )
    return NoPathError(message, position=position, sentence=sentence, constraints=names or ())


# --- Sentences of any length ----------------------------------------------------------------------


def check_consistent(program: Program) -> None:
    """Raise an error if no sentence of any length can have a path, whatever its potentials.

    No error is raised if the proof would take too many states.

    Raises
    ------
    ContradictionError
        With an irreducible set of constraints: empty if the taggers without a grammar have no path.
    """
    others = [_structure(chain) for chain in program.chains]
    others += [_table(c, program) for c in program.couplings if c.value is not None]
    try:
        conflicting = contradictory(program.conjuncts, others)
    except TooLargeError:
        return
    if conflicting is None or (program.empty_score > -np.inf and any(map(only_empty, conflicting))):
        return
    names = tuple(acceptor.name for acceptor in conflicting)
    if len(names) > 1:
        message = (
            f"{listed_names(names)} contradict each other: {TOGETHER} that the taggers can say; "
            f"{ANY_ONE}"
        )
    elif names:
        message = f"{names[0]} accepts nothing that the taggers can say"
    else:
        message = "the taggers can say nothing: their own structure forbids every label sequence"
    raise ContradictionError(message, constraints=names)


def _structure(chain: TapeChain) -> Acceptor:
    """Return the label sequences of a chain as an acceptor; state 0 is the start."""
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

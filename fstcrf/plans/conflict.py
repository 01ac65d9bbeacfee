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

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ContradictionError, NoPathError, TooLargeError
from fstcrf.grammar import (
    ANY_ONE,
    TOGETHER,
    Acceptor,
    contradictory,
    irreducible,
    listed_names,
    minimise,
    trim,
)
from fstcrf.plans.chain import Chain, Coupling
from fstcrf.plans.folding import arc_ends
from fstcrf.plans.program import Program
from fstcrf.plans.scaling import scaled
from fstcrf.plans.witness import Sentence

__all__ = ["check_consistent", "conflict", "no_path_error"]

Floats = NDArray[np.float64]

UNSETTLED = (
    "no legal label sequence was found among {states:,} states, nor proven not to exist: "
    "give a larger budget"
)


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
    try:
        sentence = Sentence(free, [scaled(v, 0.0) for v in values])
        if any(not mask.any() for mask in sentence.allowed.values()):
            return ()
        first = sentence.too_many(program.conjuncts) or ()
        found = irreducible(program.conjuncts, sentence.witness, first)
    except TooLargeError:
        return None
    return None if found is None else tuple(acceptor.name for acceptor in found)


def no_path_error(
    program: Program,
    values: Sequence[Floats],
    *,
    position: int | None = None,
    sentence: int | None = None,
    given_up: int | None = None,
) -> NoPathError:
    """Return the error that says why a sentence has no path, or why none was found.

    Parameters
    ----------
    program, values
        As for `conflict`.
    position : int, optional
        First token at which every labelling has died.
    sentence : int, optional
        Its index in a batch.
    given_up : int, optional
        States after which a search has given up: it is not known then that there is no path.
    """
    names = conflict(program, values)
    if names is None and given_up is not None:
        message, position = UNSETTLED.format(states=given_up), None
    elif names is None:
        message = "every label sequence is forbidden" + " from here on" * (position is not None)
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
            f"{listed_names(names)} contradict each other: {TOGETHER} that the taggers can say; "
            f"{ANY_ONE}"
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

"""Machines that were made elsewhere as parts of a grammar.

=======================  ==================================================================
machine_of               a machine of pynini, or of a file, as flat arrays
constraint_from_machine  an acceptor over label symbols
constraint_from_arrays   arrays of next states and scores
=======================  ==================================================================

A machine with one path for each labelling may have any number of states. Others are made so, within
the limit of `determinise`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, real_array
from fstcrf.errors import DataError, GrammarError, ShapeError, TooLargeError
from fstcrf.grammar.acceptor import Acceptor, Floats, Ints
from fstcrf.grammar.algebra import trim
from fstcrf.grammar.constraint import Constraint
from fstcrf.grammar.conversion import automaton
from fstcrf.grammar.determinise import determinise
from fstcrf.grammar.labels import LabelSets, label_sets, nearest, only_tape
from fstcrf.grammar.minimise import minimise
from fstcrf.openfst import Machine, connect, from_bytes, from_fst

__all__ = ["constraint_from_arrays", "constraint_from_machine", "machine_of"]


def machine_of(fst: Any) -> Machine:
    """Return a machine as flat arrays.

    Parameters
    ----------
    fst : pynini.Fst, or str or Path
        A path is that of a file in OpenFst's binary format.

    Raises
    ------
    DataError
        A file of something else.
    OSError
        A file that cannot be read.
    """
    if not isinstance(fst, str | Path):
        return from_fst(fst)
    try:
        return from_bytes(Path(fst).read_bytes())
    except DataError as error:
        raise DataError(str(error), path=str(fst)) from None


def constraint_from_machine(machine: Machine, tape: str | None, name: str) -> Constraint:
    """Return an acceptor over label symbols as a part of a grammar.

    Raises
    ------
    GrammarError
        It writes something else than it reads.
    """
    machine = connect(machine)
    if not machine.is_acceptor:
        raise GrammarError(f"{name} writes something else than it reads; expected an acceptor")
    return Constraint(name, partial(_bound, machine, tape, name))


def _bound(machine: Machine, tape: str | None, name: str, sets: LabelSets) -> tuple[Acceptor, ...]:
    chosen = only_tape(sets, tape)
    labels = sets[chosen]
    numbered = _numbered(machine, labels)
    found = _deterministic(numbered, len(labels))
    if found is None:
        try:
            found = determinise(automaton(numbered, len(labels)))
        except TooLargeError as error:
            raise GrammarError(f"as a deterministic machine: {error}") from None
    target, score, final = found
    return (minimise(trim(Acceptor((chosen,), (labels,), target, score, final, name))),)


def _deterministic(machine: Machine, n_labels: int) -> tuple[Ints, Floats, Floats] | None:
    """Return the arrays of an acceptor whose machine has one path for a labelling at most.

    Such a machine may be of any size. None for others, and for one without states.
    """
    place = machine.source.astype(np.int64) * n_labels + machine.ilabel - 1
    if machine.start < 0 or not machine.ilabel.all() or len(np.unique(place)) < len(place):
        return None
    # The start becomes state 0.
    number = np.arange(machine.n_states, dtype=np.int32)
    number[[0, machine.start]] = machine.start, 0
    target = np.full((machine.n_states, n_labels), -1, dtype=np.int32)
    score = np.zeros(target.shape)
    target.reshape(-1)[place] = number[machine.target]
    score.reshape(-1)[place] = machine.score
    return target[number], score[number], machine.final[number]


def _numbered(machine: Machine, labels: tuple[str, ...]) -> Machine:
    """Return the machine with label i as symbol i + 1, whatever its own symbols are."""
    used = np.unique(machine.ilabel).tolist()
    if machine.isymbols is None:
        if used and used[-1] > len(labels):
            raise GrammarError(
                f"symbol {used[-1]}, but there are {len(labels)} labels; label i is symbol i + 1"
            )
        return machine
    place = {label: i + 1 for i, label in enumerate(labels)}
    number = np.zeros(len(machine.isymbols), dtype=np.int32)
    for symbol in used:
        text = machine.isymbols[symbol]
        if symbol and text not in place:
            raise GrammarError(f"symbol {text!r} is no label{nearest(text, labels)}")
        number[symbol] = place[text] if symbol else 0
    numbered = number[machine.ilabel]
    return Machine(
        machine.start,
        machine.source,
        machine.target,
        numbered,
        numbered,
        machine.score,
        machine.final,
    )


def constraint_from_arrays(
    labels: LabelSet,
    target: ArrayLike,
    score: ArrayLike | None,
    final: ArrayLike | None,
    tape: str | None,
    name: str,
) -> Constraint:
    """Return arrays as a part of a grammar; see `Grammar.from_arrays`.

    Raises
    ------
    GrammarError
        No label set.
    ShapeError, NumericError
        Arrays that disagree, or hold what is no state or no score.
    """
    known = label_sets(labels)[""]
    step = np.asarray(target)
    if step.ndim != 2 or not np.issubdtype(step.dtype, np.integer):
        raise ShapeError(
            f"{name}: target is {step.dtype} {list(step.shape)}, expected integers [states, labels]"
        )
    states = len(step)
    if step.size and (step.min() < -1 or step.max() >= states):
        raise ShapeError(f"{name}: target holds numbers outside [-1, {states})")
    ends = np.zeros(states) if final is None else real_array(final, f"{name}: final")
    scores = None
    if score is not None:
        given = real_array(score, f"{name}: score")
        if given.shape != step.shape:
            raise ShapeError(f"{name}: score is {list(given.shape)}, expected {list(step.shape)}")
        scores = np.where(step >= 0, given, 0.0)
    whole = Acceptor(("",), (known,), step.astype(np.int32), scores, ends, name)
    return Constraint(name, partial(_arranged, trim(whole), tape))


def _arranged(acceptor: Acceptor, tape: str | None, sets: LabelSets) -> tuple[Acceptor, ...]:
    """Return an acceptor over the labels of a tape, in their order; it rejects those new to it."""
    chosen = only_tape(sets, tape)
    labels, known = sets[chosen], acceptor.labels[0]
    unknown = next((label for label in known if label not in labels), None)
    if unknown is not None:
        raise GrammarError(f"no label {unknown!r}{nearest(unknown, labels)}")
    place = [labels.index(label) for label in known]
    target = np.full((acceptor.n_states, len(labels)), -1, dtype=np.int32)
    target[:, place] = acceptor.target
    score = None
    if acceptor.score is not None:
        score = np.zeros(target.shape)
        score[:, place] = acceptor.score
    return (Acceptor((chosen,), (labels,), target, score, acceptor.final, acceptor.name),)

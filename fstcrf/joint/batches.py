"""Sentences through the product machine of a composition, run by run.

============  ====================================================================
runs          answer runs of sentences, on threads
columns       the best labels, a column for each tape
best_paths    the best paths with their probabilities
marginals     the probability of each label at each token
lattices      the weighted transducers themselves
============  ====================================================================
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.corpus import Column
from fstcrf.errors import OptionError
from fstcrf.joint.sentences import as_corpus
from fstcrf.lattice import Lattice, Path
from fstcrf.lattice.results import share
from fstcrf.model.reading import Data, Run, runs_of
from fstcrf.plans import Program, no_path_error

if TYPE_CHECKING:
    from fstcrf.joint.composition import Composition

__all__ = [
    "best_paths",
    "check_paths",
    "check_scores",
    "columns",
    "lattices",
    "marginals",
    "path_labels",
    "runs",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Values = tuple[Floats, ...]

_RUN_NUMBERS = 500_000
"""Node potentials that a run of sentences may bring."""


def runs(
    composition: Composition,
    sentences: Data,
    answer: Callable[[Run, Values], Any],
    threads: int,
) -> tuple[list[int], list[Any]]:
    """Answer run by run; the runs do not depend on the threads.

    Parameters
    ----------
    composition : Composition
    sentences : Corpus or sequence of sentences
    answer : callable
        (run, values of the program's inputs) → anything.
    threads : int

    Returns
    -------
    list of int
        Length of each sentence.
    list
        The answers; empty sentences are in no run.
    """
    if threads < 1:
        raise OptionError(f"threads is {threads}, expected at least 1")
    lengths: list[int] = []
    if not composition.literal:  # read once for all
        lengths, sentences = as_corpus(composition, sentences)
    prepared = [component.prepare(sentences) for component in composition.components]
    lengths = lengths or prepared[0][0]

    def answered(run: Run) -> Any:
        values = [v for _, make in prepared for v in make(run.first, run.end)]
        values += [tape_map.values(int(run.offsets[-1])) for tape_map in composition.maps]
        return answer(run, tuple(values))

    cells = int(np.prod(composition.program.shape))
    several = runs_of(lengths, max(1, min(20_000, _RUN_NUMBERS // cells)))
    if threads == 1:
        return lengths, list(map(answered, several))
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (it imports logging)

    with ThreadPoolExecutor(threads) as pool:
        return lengths, list(pool.map(answered, several))


def columns(
    composition: Composition, sentences: Data, threads: int, budget: kernel.Budget | None = None
) -> tuple[list[int], tuple[Column, ...], int]:
    """Return lengths, a column of the best labels for each tape, and how many are not proven.

    Raises
    ------
    NoPathError
        No labelling of a sentence is legal.
    """
    tame = _tame(composition)
    decoder = composition.program.decoder

    def best(run: Run, values: Values) -> tuple[int, list[Ints]]:
        bound = _bound(composition, decoder.machine, run, values, checked=tame)
        searched = decoder.paths(bound, 1, budget)
        check_paths(searched, run, bound, composition.program, values)
        return int((searched.proven < 1).sum()), path_labels(composition, searched.path[0])

    lengths, found = runs(composition, sentences, best, threads)
    nothing = [np.empty(0, dtype=np.int32) for _ in composition.tapes]
    parts = zip(nothing, *(ids for _, ids in found), strict=True)
    labels = tuple(
        Column(np.concatenate(list(part)), composition.label_sets[tape])
        for tape, part in zip(composition.tapes, parts, strict=True)
    )
    return lengths, labels, sum(inexact for inexact, _ in found)


def best_paths(
    composition: Composition, sentences: Data, threads: int, budget: kernel.Budget | None = None
) -> list[Path | None]:
    """Return the best path of each sentence; None where no legal one was found."""
    program = composition.program

    def answer(run: Run, values: Values) -> list[Path | None]:
        bound = _bound(composition, program.decoder.machine, run, values)
        searched = program.decoder.paths(bound, 1, budget)
        scores, proven = searched.score[:, 0].tolist(), (searched.proven > 0).tolist()
        log_z = np.full(len(scores), np.nan)
        if program.summable:
            whole = bound
            if program.decoder.lazy:
                whole = _bound(composition, program.machine, run, values)
            log_z = kernel.log_partitions(whole)
        tapes = path_labels(composition, searched.path[0])
        reach = np.maximum(searched.bound, searched.score[:, 0]).tolist()
        pairs = itertools.pairwise(run.offsets.tolist())
        return [
            Path(_labels_at(composition, tapes, a, b), s, share(s, z), exact=exact, bound=r)
            if s > -np.inf
            else None
            for (a, b), s, z, exact, r in zip(
                pairs, scores, log_z.tolist(), proven, reach, strict=True
            )
        ]

    lengths, found = runs(composition, sentences, answer, threads)
    full = iter([path for run in found for path in run])
    nothing = Path(composition.per_tape(lambda _: ()), 0.0, 1.0, exact=True, bound=0.0)
    return [next(full) if n else nothing for n in lengths]


def marginals(composition: Composition, sentences: Data, threads: int) -> list[Any]:
    """Return the probability of each label at each token, of each sentence.

    Raises
    ------
    NoPathError
        No labelling of a sentence is legal.
    """
    program = composition.program

    def answer(run: Run, values: Values) -> list[Any]:
        bound = _bound(composition, program.machine, run, values)
        found = kernel.axis_posterior(bound)
        check_scores(found.log_z, run, bound, program, values)
        states = dict(zip(program.order, found.node, strict=True))
        tapes = {t: program.chain[t].topology.label_sums(states[t]) for t in composition.tapes}
        parts = [
            {tape: rows[a:b] for tape, rows in tapes.items()}
            for a, b in itertools.pairwise(run.offsets.tolist())
        ]
        return [composition.per_tape(part.__getitem__) for part in parts]

    lengths, found = runs(composition, sentences, answer, threads)
    full = iter([one for run in found for one in run])
    return [
        next(full)
        if n
        else composition.per_tape(lambda tape: np.empty((0, len(composition.label_sets[tape]))))
        for n in lengths
    ]


def lattices(composition: Composition, sentences: Data) -> list[Lattice]:
    """Return the weighted transducer of each sentence."""
    program = composition.program

    def cut(run: Run, values: Values) -> list[Lattice]:
        return [
            Lattice(program, tuple(v[a:b] for v in values))
            for a, b in itertools.pairwise(run.offsets.tolist())
        ]

    lengths, found = runs(composition, sentences, cut, 1)
    full = iter([lattice for run in found for lattice in run])
    nothing = tuple(np.empty((0, *shape)) for shape in program.input_shapes())
    return [next(full) if n else Lattice(program, nothing) for n in lengths]


def check_paths(
    searched: kernel.Searched, run: Run, bound: kernel.Bound, program: Program, values: Values
) -> None:
    """Raise NoPathError where a sentence has no path, or none was found."""
    unsettled = np.flatnonzero((searched.found < 1) & (searched.bound > -np.inf))
    if len(unsettled):
        k = int(unsettled[0])
        first, end = run.offsets[k : k + 2].tolist()
        raise no_path_error(
            program,
            tuple(v[first:end] for v in values),
            sentence=int(run.numbers[k]),
            given_up=int(searched.popped[k]),
        )
    check_scores(searched.score[:, 0], run, bound, program, values)


def check_scores(
    scores: Floats, run: Run, bound: kernel.Bound, program: Program, values: Values
) -> None:
    """Raise NoPathError where the score of a sentence is −inf."""
    dead = np.flatnonzero(np.isneginf(scores))
    if len(dead):
        k = int(dead[0])
        first, end = run.offsets[k : k + 2].tolist()
        raise no_path_error(
            program,
            tuple(v[first:end] for v in values),
            position=int(kernel.dead_tokens(bound)[k]),
            sentence=int(run.numbers[k]),
        )


def path_labels(composition: Composition, path: Ints) -> list[Ints]:
    """Return the labels of each tape along joint states, int32 [N] each."""
    program = composition.program
    states = dict(zip(program.order, program.decoder.machine.axis_states(path), strict=True))
    return [program.chain[t].topology.state_label[states[t]] for t in composition.tapes]


def _bound(
    composition: Composition,
    machine: kernel.Machine,
    run: Run,
    values: Values,
    *,
    checked: bool = False,
) -> kernel.Bound:
    moving = composition.program.moving(values)
    return kernel.Bound(machine, run.offsets, moving, checked=checked)


def _tame(composition: Composition) -> bool:
    """Whether no sum of weights can overflow, whatever the (float32) values of attributes."""
    largest = max(float(np.abs(t.theta).max(initial=0.0)) for t in composition.taggers)
    return largest * max(composition.weights) < 1e200


def _labels_at(composition: Composition, tapes: Sequence[Ints], a: int, b: int) -> Any:
    parts = {
        name: tuple([composition.label_sets[name][i] for i in ids[a:b].tolist()])
        for name, ids in zip(composition.tapes, tapes, strict=True)
    }
    return composition.per_tape(parts.__getitem__)

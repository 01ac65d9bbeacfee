"""Corpora decoded by the chain rule, run by run: the runs do not depend on the threads.

=================  ==========================================================
decide             the best labels of each sentence
paths              the same with scores and probabilities
solved_runs        what both are made from
log_probabilities  of labellings, whatever weights and grammar are
no_path            the error of a sentence for which nothing legal was found
=================  ==========================================================
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Column, Corpus
from fstcrf.errors import NoPathError, OptionError
from fstcrf.joint.chain import Solver
from fstcrf.joint.composition import Composition
from fstcrf.joint.sentences import as_corpus
from fstcrf.joint.solved import Solved
from fstcrf.joint.stages import repeated
from fstcrf.kernel import Budget
from fstcrf.lattice import Path
from fstcrf.model.reading import Data, Run, runs_of

__all__ = ["decide", "log_probabilities", "no_path", "paths", "solved_runs"]

Floats = NDArray[np.float64]

_RUN_TOKENS = 100_000


def decide(
    composition: Composition, sentences: Data, *, threads: int = 1, budget: Budget | None = None
) -> tuple[list[int], tuple[Column, ...], int]:
    """Return lengths, a column of labels for each tape, and the number of answers not proven.

    Raises
    ------
    NoPathError
        No labelling of a sentence is legal.
    """
    lengths, solver, runs = solved_runs(composition, sentences, threads, budget)
    inexact = 0
    for run, _, solved in runs:
        dead = np.flatnonzero(np.isneginf(solved.total))
        if len(dead):
            raise no_path(solver, solved.bound[dead[0]], int(run.numbers[dead[0]]))
        inexact += int((solved.bound > solved.total).sum())
    columns = []
    for tagger in composition.taggers:
        k = solver.order.index(tagger.tape)
        parts = [solved.labels[k] for _, _, solved in runs]
        ids = np.concatenate([np.empty(0, dtype=np.int32), *parts])
        columns.append(Column(ids.astype(np.int32), tagger.labels))
    return lengths, tuple(columns), inexact


def no_path(solver: Solver, bound: float, sentence: int | None) -> NoPathError:
    """Return the error of a sentence for which nothing legal was found."""
    if bound == -np.inf:
        return NoPathError("no labelling is legal", sentence=sentence)
    return NoPathError(
        f"none of the {solver.budget} best labellings of tape {solver.order[0]!r} has a legal "
        "completion; give a larger budget",
        sentence=sentence,
    )


def solved_runs(
    composition: Composition, sentences: Data, threads: int, budget: Budget | None
) -> tuple[list[int], Solver, list[tuple[Run, Corpus, Solved]]]:
    """Decode run by run; the runs do not depend on the threads."""
    if threads < 1:
        raise OptionError(f"threads is {threads}, expected at least 1")
    solver = Solver(composition, budget)
    lengths, corpus = as_corpus(composition, sentences)

    def answered(run: Run) -> tuple[Run, Corpus, Solved]:
        mine = corpus.select(np.arange(run.first, run.end))
        return run, mine, solver.best(mine)

    runs = list(runs_of(lengths, _RUN_TOKENS))
    if threads == 1:
        return lengths, solver, list(map(answered, runs))
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (it imports logging)

    with ThreadPoolExecutor(threads) as pool:
        return lengths, solver, list(pool.map(answered, runs))


def paths(
    composition: Composition, sentences: Data, *, threads: int = 1, budget: Budget | None = None
) -> list[Path | None]:
    """Return the best labelling of each sentence; None without a legal one."""
    lengths, solver, runs = solved_runs(composition, sentences, threads, budget)
    found: list[Path | None] = []
    for run, corpus, solved in runs:
        log_p = log_probabilities(solver, corpus, solved)
        for b, (first, end) in enumerate(itertools.pairwise(run.offsets.tolist())):
            total, bound = float(solved.total[b]), float(solved.bound[b])
            if total == -np.inf:
                found.append(None)
                continue
            ids = [solved.labels[solver.order.index(t.tape)] for t in composition.taggers]
            labels = tuple(
                tuple([tagger.labels[i] for i in mine[first:end].tolist()])
                for tagger, mine in zip(composition.taggers, ids, strict=True)
            )
            probability = float(min(1.0, np.exp(log_p[b])))
            found.append(Path(labels, total, probability, bound <= total, bound))
    full = iter(found)
    nothing = tuple(() for _ in composition.taggers)
    return [next(full) if n else Path(nothing, 0.0, 1.0, exact=True, bound=0.0) for n in lengths]


def log_probabilities(solver: Solver, corpus: Corpus, solved: Solved) -> Floats:
    """Return the log probability of labellings, whatever weights and grammar are, float64 [B]."""
    plain = all(weight == 1.0 for weight in solver.composition.weights)
    if plain and not any(acceptor.weighted for acceptor in solver.composition.conjuncts):
        return solved.total
    legal = np.flatnonzero(solved.total > -np.inf)
    found = np.full(len(corpus), -np.inf)
    if len(legal):
        tokens = repeated(corpus.offsets, legal)
        ids = {t: mine[tokens] for t, mine in zip(solver.order, solved.labels, strict=True)}
        found[legal] = solver.score(corpus.select(legal), ids, plain=True)
    return found

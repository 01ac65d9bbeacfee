"""The chain rule, decoded exactly: p(first tape | x) · p(second tape | first, x) · ...

The normaliser of a later tagger depends on what the earlier ones said, so this is no product of
transducers. But every factor is at most one. Enumerate the first tape's labellings best first; the
best completion of each is known by decoding the other taggers with the first tape given; as soon as

    w log p(next labelling) + (the most that grammars can add)  <=  best total found

no later one can win, and the best found is proven. The same idea recurses over more than two
taggers. Rounds look at 1, 4, 16, ... labellings of the sentences that are still open,
all of them in one batch; the last tagger is asked about what changed only (`variations`).

A hard grammar takes labellings away and leaves probabilities as they are: they are normalised
without it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.corpus import Column, Corpus
from fstcrf.errors import NoPathError, OptionError
from fstcrf.joint.cascade import as_corpus
from fstcrf.joint.stages import (
    Given,
    bounds_of,
    largest_gain,
    repeated,
    stages_of,
    with_tape,
)
from fstcrf.joint.variations import Variations, varies
from fstcrf.lattice import Path
from fstcrf.model.reading import Data, runs_of

if TYPE_CHECKING:
    from fstcrf.joint.composition import Composition

__all__ = ["BUDGET", "Solved", "Solver", "decide", "paths"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

BUDGET = 1024
"""Labellings of a tape that are looked at before a sentence is given up as not proven."""

_RUN_TOKENS = 100_000


@dataclass(frozen=True, eq=False)
class Solved:
    """The best labels of the tapes from one stage on, earlier tapes given.

    Parameters
    ----------
    labels : list of int32 [N]
        One for each of the tapes; −1 throughout a sentence without a legal labelling.
    total : float64 [B]
        Weighted log probability and grammar scores; −inf without a legal labelling.
    bound : float64 [B]
        No labelling is better; equal to `total` where that is proven.
    """

    labels: list[Ints]
    total: Floats
    bound: Floats


class Solver:
    """Decodes the stages of a composition.

    Parameters
    ----------
    composition : Composition
    budget : int
        Labellings of a tape to look at.
    """

    def __init__(self, composition: Composition, budget: int = BUDGET) -> None:
        self.stages = stages_of(composition)
        self.budget = budget

    def solve(self, corpus: Corpus, k: int = 0) -> Solved:
        """Return the best labels of the tapes from stage k on.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences; the tapes before stage k as columns.
        k : int
        """
        stage = self.stages[k]
        given = stage.given(corpus)
        normaliser = stage.weight * stage.log_z(given)
        bound = stage.legal_bound(given)
        if k == len(self.stages) - 1:
            path, score = kernel.best_paths(bound)
            total = score - normaliser
            return Solved([stage.labels(path)], total, total)
        return _Search(self, k, corpus, given, normaliser).run()

    def gain(self, k: int, lengths: NDArray[np.int64]) -> Floats:
        """Return the most that the grammars of the stages behind k can add, for each length."""
        later = [a for stage in self.stages[k + 1 :] for a in stage.conjuncts]
        known = {n: largest_gain(later, n) for n in np.unique(lengths).tolist()}
        return np.asarray([known[n] for n in lengths.tolist()])


class _Search:
    """The labellings of one tape, best first, for a batch of sentences."""

    def __init__(
        self, solver: Solver, k: int, corpus: Corpus, given: Given, normaliser: Floats
    ) -> None:
        self.solver, self.k, self.corpus = solver, k, corpus
        self.stage, self.given, self.normaliser = solver.stages[k], given, normaliser
        size = len(corpus)
        self.labels = np.full(corpus.n_tokens, -1, dtype=np.int32)
        self.total, self.bound = np.full(size, -np.inf), np.full(size, -np.inf)
        self.gain = solver.gain(k, np.diff(corpus.offsets))
        self.open = np.arange(size)  # sentences that are not proven yet
        self.variants: Variations | None = None

    def run(self) -> Solved:
        """Look at 1, 4, 16, ... labellings until every sentence is proven."""
        seen, wanted = 0, 1
        while len(self.open):
            self._round(seen, wanted)
            if wanted >= self.solver.budget:
                break
            seen, wanted = wanted, min(4 * wanted, self.solver.budget)
        dead = np.repeat(np.isneginf(self.total), np.diff(self.corpus.offsets))
        labels = [np.where(dead, np.int32(-1), ids) for ids in (self.labels, *self._later())]
        return Solved(labels, self.total, np.maximum(self.bound, self.total))

    def _later(self) -> list[Ints]:
        """Return the best labels of the later tapes for the labelling that was chosen here."""
        if self.variants is None:
            return self._solved(np.arange(len(self.corpus)), self.labels).labels
        whole = self.variants.labels.copy()
        changed = np.add.reduceat(self.labels != self.variants.around, self.corpus.offsets[:-1])
        other = np.flatnonzero(changed)
        if len(other):
            tokens = repeated(self.corpus.offsets, other)
            whole[tokens] = self._solved(other, self.labels[tokens]).labels[0]
        return [whole]

    def _round(self, seen: int, wanted: int) -> None:
        """Look at the labellings seen .. wanted of the open sentences."""
        bounds = bounds_of(self.given.offsets, self.open)
        tokens = repeated(self.given.offsets, self.open)
        ranked = kernel.nbest_paths(
            self.stage.legal_bound(_taken(self.given, bounds, tokens)), wanted + 1
        )
        score = ranked.score - self.normaliser[self.open, None]
        reach = score + self.gain[self.open, None]  # what a labelling can become at most
        place, number = np.nonzero(reach[:, seen:wanted] > self.total[self.open, None])
        number += seen
        if len(place):
            ids = _picked(self.stage.labels(ranked.path), bounds, place, number)
            self._look(self.open[place], ids, score[place, number])
        self.bound[self.open] = reach[:, wanted]
        self.open = self.open[reach[:, wanted] > self.total[self.open]]

    def _look(self, sentences: NDArray[np.int64], ids: Ints, score: Floats) -> None:
        """Complete some labellings of this tape, sentence by sentence; keep what is better."""
        total = score + self._completed(sentences, ids)
        best = np.lexsort((-total, sentences))  # stable: of equals the first
        best = best[np.append(True, np.diff(sentences[best]) > 0)]
        best = best[total[best] > self.total[sentences[best]]]
        self.total[sentences[best]] = total[best]
        to = repeated(self.corpus.offsets, sentences[best])
        self.labels[to] = ids[repeated(bounds_of(self.corpus.offsets, sentences), best)]

    def _completed(self, sentences: NDArray[np.int64], ids: Ints) -> Floats:
        """Return the best totals of the later tapes for some labellings of this one."""
        if self.variants is not None:
            return self.variants.totals(sentences, ids)
        later = self.solver.stages[self.k + 1]
        last = self.k + 2 == len(self.solver.stages)
        if last and len(ids) == self.corpus.n_tokens and varies(later, self.stage.tagger.tape):
            corpus = with_tape(self.corpus, self.stage.tagger, ids)
            self.variants = Variations(later, self.stage.tagger.tape, corpus, ids)
            return self.variants.total
        return self._solved(sentences, ids).total

    def _solved(self, sentences: NDArray[np.int64], ids: Ints) -> Solved:
        whole = len(sentences) == len(self.corpus)
        corpus = self.corpus if whole else self.corpus.select(sentences)
        corpus = with_tape(corpus, self.stage.tagger, np.maximum(ids, 0))
        return self.solver.solve(corpus, self.k + 1)


def _taken(given: Given, bounds: NDArray[np.int64], tokens: NDArray[np.int64]) -> Given:
    if len(tokens) == len(given.node):
        return given
    return Given(
        bounds,
        np.ascontiguousarray(given.node[tokens]),
        None if given.arc is None else np.ascontiguousarray(given.arc[tokens]),
        tuple(f[tokens] for f in given.fixed),
    )


def _picked(
    paths: Ints, bounds: NDArray[np.int64], place: NDArray[np.int64], number: NDArray[np.int64]
) -> Ints:
    """Return path `number` of sentence `place`, for many of them, one after the other."""
    tokens = repeated(bounds, place)
    rows = np.repeat(number, np.diff(bounds)[place])
    return paths[rows, tokens]


def decide(
    composition: Composition, sentences: Data, *, threads: int = 1, budget: int = BUDGET
) -> tuple[list[int], tuple[Column, ...], int]:
    """Return lengths, a column of labels for each tape, and the number of answers not proven.

    Raises
    ------
    NoPathError
        No labelling of a sentence is legal.
    """
    lengths, runs = solved_runs(composition, sentences, threads, budget)
    solver = Solver(composition, budget)
    order = [stage.tagger.tape for stage in solver.stages]
    inexact = 0
    for numbers, solved in runs:
        dead = np.flatnonzero(np.isneginf(solved.total))
        if len(dead):
            raise NoPathError("no labelling is legal", sentence=int(numbers[dead[0]]))
        inexact += int((solved.bound > solved.total).sum())
    columns = []
    for tagger in composition.taggers:
        k = order.index(tagger.tape)
        parts = [solved.labels[k] for _, solved in runs]
        ids = np.concatenate([np.empty(0, dtype=np.int32), *parts])
        columns.append(Column(ids.astype(np.int32), tagger.labels))
    return lengths, tuple(columns), inexact


def solved_runs(
    composition: Composition, sentences: Data, threads: int, budget: int
) -> tuple[list[int], list[tuple[NDArray[np.int64], Solved]]]:
    """Decode run by run; the runs do not depend on the threads."""
    if threads < 1:
        raise OptionError(f"threads is {threads}, expected at least 1")
    lengths, corpus = as_corpus(composition, sentences)
    solver = Solver(composition, budget)
    check_legal(composition, corpus)

    def answered(run: Any) -> tuple[NDArray[np.int64], Solved]:
        return run.numbers, solver.solve(corpus.select(np.arange(run.first, run.end)))

    runs = list(runs_of(lengths, _RUN_TOKENS))
    if threads == 1:
        return lengths, list(map(answered, runs))
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (it imports logging)

    with ThreadPoolExecutor(threads) as pool:
        return lengths, list(pool.map(answered, runs))


def check_legal(composition: Composition, corpus: Corpus) -> None:
    """Check that every sentence has a legal labelling, where several tapes are constrained.

    Without one the enumeration would go on to the end.

    Raises
    ------
    NoPathError
        The first sentence that has none.
    """
    if not any(len(acceptor.tapes) > 1 for acceptor in composition.conjuncts):
        return
    program = composition.program.scaled(0.0, grammar=True)
    for length in np.unique(np.diff(corpus.offsets)).tolist():
        values = tuple(np.zeros((length, *shape)) for shape in program.input_shapes())
        bound = kernel.Bound(program.machine, np.asarray([0, length]), program.moving(values))
        _, score = kernel.best_paths(bound)
        if score[0] == -np.inf:
            number = int(np.flatnonzero(np.diff(corpus.offsets) == length)[0])
            raise NoPathError("the grammar accepts no labelling of this length", sentence=number)


def paths(
    composition: Composition, sentences: Data, *, threads: int = 1, budget: int = BUDGET
) -> list[Path | None]:
    """Return the best labelling of each sentence; None without a legal one."""
    lengths, runs = solved_runs(composition, sentences, threads, budget)
    solver = Solver(composition, budget)
    order = [stage.tagger.tape for stage in solver.stages]
    found: list[Path | None] = []
    for numbers, solved in runs:
        sizes = [lengths[i] for i in numbers.tolist()]
        bounds = list(itertools.accumulate(sizes, initial=0))
        for b, (first, end) in enumerate(itertools.pairwise(bounds)):
            total, bound = float(solved.total[b]), float(solved.bound[b])
            if total == -np.inf:
                found.append(None)
                continue
            labels = tuple(
                tuple(t.labels[i] for i in solved.labels[order.index(t.tape)][first:end].tolist())
                for t in composition.taggers
            )
            found.append(Path(labels, total, min(1.0, float(np.exp(total))), bound <= total, bound))
    full = iter(found)
    nothing = tuple(() for _ in composition.taggers)
    return [next(full) if n else Path(nothing, 0.0, 1.0, exact=True, bound=0.0) for n in lengths]

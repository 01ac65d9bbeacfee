"""The chain rule, decoded exactly: p(first tape | x) · p(second tape | first, x) · ...

The normaliser of a later tagger depends on what the earlier ones said, so this is no product of
transducers. But every factor is at most one. Enumerate the first tape's labellings best first; the
best completion of each is known by decoding the other taggers with the first tape given; as soon as

    w log p(next labelling) + (the most that grammars can add)  <=  best total found

no later one can win, and the best found is proven. The same idea recurses over more than two
taggers. A round doubles the number of labellings looked at, for the sentences that are still open,
all of them in one batch; where the last tagger is asked again, its potentials at every label of the
tape before it are at hand.

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
    Stage,
    bounds_of,
    largest_gain,
    repeated,
    stages_of,
    with_tape,
)
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
        n, size = corpus.n_tokens, len(corpus)
        self.labels = [np.full(n, -1, dtype=np.int32) for _ in solver.stages[k:]]
        self.total, self.bound = np.full(size, -np.inf), np.full(size, -np.inf)
        self.gain = solver.gain(k, np.diff(corpus.offsets))
        self.open = np.arange(size)  # sentences that are not proven yet
        self.last: _Last | None = None

    def run(self) -> Solved:
        """Look at 1, 2, 4, ... labellings until every sentence is proven."""
        seen, wanted = 0, 1
        while len(self.open):
            self._round(seen, wanted)
            if wanted >= self.solver.budget:
                break
            seen, wanted = wanted, min(2 * wanted, self.solver.budget)
        bound = np.maximum(self.bound, self.total)
        return Solved(self.labels, self.total, bound)

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
        order = np.lexsort((place, number))  # earlier labellings first
        place, number = place[order], number[order] + seen
        if len(place):
            ids = _picked(self.stage.labels(ranked.path), bounds, place, number)
            self._look(self.open[place], ids, score[place, number])
        self.bound[self.open] = reach[:, wanted]
        self.open = self.open[reach[:, wanted] > self.total[self.open]]

    def _look(self, sentences: NDArray[np.int64], ids: Ints, score: Floats) -> None:
        """Decode the later tapes for some labellings of this one; keep what is better."""
        solved = self._completed(sentences, ids)
        total = score + solved.total
        bounds = bounds_of(self.corpus.offsets, sentences)
        for number in np.flatnonzero(total > self.total[sentences]).tolist():
            sentence = int(sentences[number])
            if total[number] <= self.total[sentence]:
                continue  # an earlier labelling of this round is as good
            self.total[sentence] = total[number]
            to = slice(*self.corpus.offsets[sentence : sentence + 2].tolist())
            rows = slice(*bounds[number : number + 2].tolist())
            for mine, found in zip(self.labels, [ids, *solved.labels], strict=True):
                mine[to] = found[rows]

    def _completed(self, sentences: NDArray[np.int64], ids: Ints) -> Solved:
        later = self.solver.stages[self.k + 1]
        again = bool((self.total[sentences] > -np.inf).any())
        last = self.k + 2 == len(self.solver.stages) and later.reads(self.stage.tagger.tape)
        if last and again:
            if self.last is None:
                self.last = _Last(self, later)
            return self.last.solve(sentences, ids)
        corpus = with_tape(self.corpus.select(sentences), self.stage.tagger, ids)
        return self.solver.solve(corpus, self.k + 1)


class _Last:
    """The last tagger, asked again and again: its potentials at every label are kept."""

    def __init__(self, search: _Search, stage: Stage) -> None:
        self.stage, self.search = stage, search
        kept = search.corpus.select(search.open)
        tape = search.stage.tagger.tape
        self.closed = stage.opened(tape, kept)
        self.offsets = kept.offsets
        self.place = np.full(len(search.corpus), -1, dtype=np.int64)
        self.place[search.open] = np.arange(len(search.open))
        blank = with_tape(kept, search.stage.tagger, np.zeros(kept.n_tokens, dtype=np.int32))
        self.fixed = tuple(
            None if t.tape == tape else ids
            for t, ids in zip(stage.fixed, stage.fixed_ids(blank), strict=True)
        )

    def solve(self, sentences: NDArray[np.int64], ids: Ints) -> Solved:
        """Return the best labels of the last tape for some labellings of the one before it."""
        place = self.place[sentences]
        tokens = repeated(self.offsets, place).astype(np.int32)
        node, arc = self.closed(tokens, ids)
        fixed = tuple(ids if f is None else f[tokens] for f in self.fixed)
        given = Given(bounds_of(self.offsets, place), node, arc, fixed)
        path, score = kernel.best_paths(self.stage.legal_bound(given))
        total = score - self.stage.weight * self.stage.log_z(given)
        return Solved([self.stage.labels(path)], total, total)


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

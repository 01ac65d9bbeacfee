"""The chain rule, decoded exactly: p(first tape | x) · p(second tape | first, x) · ...

The normaliser of a later tagger depends on what the earlier ones said, so this is no product of
transducers. But every factor is at most one. Enumerate the first tape's labellings best first; the
best completion of each is known by decoding the other taggers with the first tape given; as soon as

    w log p(next labelling) + (the most that grammars can add)  <=  best total found

no later one can win, and the best found is proven. The same idea recurses over more than two
taggers. Rounds look at 1, 8, 64, ... labellings of the sentences that are still open,
all of them in one batch; the last tagger is asked about what changed only (`variations`).

A hard grammar takes labellings away and leaves probabilities as they are: they are normalised
without it. A grammar over several tapes may leave none of the labellings that the budget allows
to look at; then something legal is taken, the best of the product.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.corpus import Column, Corpus
from fstcrf.errors import NoPathError, OptionError, TooLargeError
from fstcrf.joint.composition import BUDGET, Composition
from fstcrf.joint.legality import possible_lengths
from fstcrf.joint.sentences import as_corpus
from fstcrf.joint.stages import (
    Given,
    Stage,
    bounds_of,
    largest_gains,
    repeated,
    with_tape,
)
from fstcrf.joint.variations import Variations, varies
from fstcrf.lattice import Path
from fstcrf.model.reading import Data, Run, runs_of

__all__ = ["Solved", "Solver", "decide", "paths"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

_RUN_TOKENS = 100_000
_PATH_TOKENS = 4_000_000  # labels in the labellings that are ranked at once
_LOOK_TOKENS = 400_000  # tokens that later taggers are asked about at once


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

    def put(self, offsets: NDArray[np.int64], where: NDArray[np.int64], found: Solved) -> None:
        """Take over what was found for some of the sentences."""
        tokens = repeated(offsets, where)
        for mine, labels in zip(self.labels, found.labels, strict=True):
            mine[tokens] = labels
        self.total[where], self.bound[where] = found.total, found.bound


class Solver:
    """Decodes the stages of a composition.

    Parameters
    ----------
    composition : Composition
    budget : int
        Labellings of a tape to look at.
    """

    def __init__(self, composition: Composition, budget: int = BUDGET) -> None:
        if budget < 1:
            raise OptionError(f"budget is {budget}, expected at least 1")
        self.composition, self.budget = composition, budget
        self.stages = composition.stages
        self.order = [stage.tagger.tape for stage in self.stages]
        self._gains: dict[int, Floats] = {}  # by stage, for each length

    def best(self, corpus: Corpus) -> Solved:
        """Return the best labels of all tapes; what is legal where there is anything legal.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences.
        """
        lengths = np.diff(corpus.offsets)
        possible = possible_lengths(self.composition.skeleton, lengths)
        found = self.solve(corpus) if possible.all() else self._solved_part(corpus, possible, 0)
        lost = np.flatnonzero(np.isneginf(found.total) & (found.bound > -np.inf))
        if len(lost):
            found.put(corpus.offsets, lost, self._legal(corpus.select(lost), found.bound[lost]))
        return found

    def _solved_part(self, corpus: Corpus, alive: NDArray[np.bool_], k: int) -> Solved:
        """Solve some of the sentences; the others have no legal labelling."""
        nothing = np.full(len(corpus), -np.inf)
        blank = [np.full(corpus.n_tokens, -1, dtype=np.int32) for _ in self.stages[k:]]
        found, where = Solved(blank, nothing, nothing.copy()), np.flatnonzero(alive)
        if len(where):
            found.put(corpus.offsets, where, self.solve(corpus.select(where), k))
        return found

    def _legal(self, corpus: Corpus, bound: Floats) -> Solved:
        """Return the best labels of the product: they are legal, and seldom far off."""
        tapes = [stage.tagger for stage in self.stages]
        labels = [np.full(corpus.n_tokens, -1, dtype=np.int32) for _ in tapes]
        found = Solved(labels, np.full(len(corpus), -np.inf), bound.copy())
        try:
            paths = replace(self.composition, normalize="product").paths_all(corpus)
        except TooLargeError:
            return found
        places = [self.composition.tapes.index(tagger.tape) for tagger in tapes]
        legal = np.asarray([i for i, path in enumerate(paths) if path is not None], dtype=np.int64)
        found.bound[[i for i, path in enumerate(paths) if path is None]] = -np.inf
        if len(legal):
            strings = [
                [label for path in paths if path is not None for label in path.labels[place]]
                for place in places
            ]
            ids = [t.topology.label_ids(s) for t, s in zip(tapes, strings, strict=True)]
            total = self.score(corpus.select(legal), dict(zip(self.order, ids, strict=True)))
            best = Solved(ids, total, np.maximum(bound[legal], total))
            found.put(corpus.offsets, legal, best)
        return found

    def score(self, corpus: Corpus, ids: Mapping[str, Ints], *, plain: bool = False) -> Floats:
        """Return the score of a labelling of each sentence, float64 [B]; −inf where illegal.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences.
        ids : mapping of str to int32 [N]
            Labels of each tape.
        plain : bool
            The log probability, without weights and grammar.
        """
        total = np.zeros(len(corpus))
        for stage in self.stages:
            mine = ids[stage.tagger.tape]
            total += _score(stage, stage.given(corpus), mine, plain=plain)
            corpus = with_tape(corpus, stage.tagger, mine)
        return total

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
        if any(later.conjuncts for later in self.stages[k:]):
            alive = kernel.best_paths(bound)[1] + self.gain(k, np.diff(corpus.offsets)) > -np.inf
            if not alive.all():  # those that stay are answered as they would be alone
                return self._solved_part(corpus, alive, k)
        return _Search(self, k, corpus, given, normaliser).run()

    def gain(self, k: int, lengths: NDArray[np.int64]) -> Floats:
        """Return the most that the grammars of the stages behind k can add, for each length."""
        later = [a for stage in self.stages[k + 1 :] for a in stage.conjuncts]
        longest = int(lengths.max(initial=0))
        known = self._gains.get(k)
        if known is None or len(known) <= longest:
            known = self._gains[k] = largest_gains(later, longest)
        return known[lengths]


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
        self.missed = np.full(size, -np.inf)  # what later tapes have left unproven
        self.gain = solver.gain(k, np.diff(corpus.offsets))
        self.open = np.arange(size)  # sentences that are not proven yet
        self.variants: Variations | None = None

    def run(self) -> Solved:
        """Look at 1, 8, 64, ... labellings until every sentence is proven."""
        seen, wanted = 0, 1
        while len(self.open):
            self._round(seen, wanted)
            if wanted >= self.solver.budget:
                break
            seen, wanted = wanted, min(8 * wanted, self.solver.budget)
        dead = np.repeat(np.isneginf(self.total), np.diff(self.corpus.offsets))
        labels = [np.where(dead, np.int32(-1), ids) for ids in (self.labels, *self._later())]
        bound = np.maximum(np.maximum(self.bound, self.missed), self.total)
        return Solved(labels, self.total, bound)

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
        lengths = np.diff(self.given.offsets)[self.open].tolist()
        for part in runs_of(lengths, max(1, _PATH_TOKENS // (wanted + 1))):
            self._rank(self.open[part.first : part.end], seen, wanted)
        self.open = self.open[self.bound[self.open] > self.total[self.open]]

    def _rank(self, sentences: NDArray[np.int64], seen: int, wanted: int) -> None:
        """Look at the labellings seen .. wanted of some sentences."""
        bounds = bounds_of(self.given.offsets, sentences)
        tokens = repeated(self.given.offsets, sentences)
        ranked = kernel.nbest_paths(
            self.stage.legal_bound(_taken(self.given, bounds, tokens)), wanted + 1
        )
        score = ranked.score - self.normaliser[sentences, None]
        reach = score + self.gain[sentences, None]  # what a labelling can become at most
        labels = self.stage.labels(ranked.path)
        step = max(1, _LOOK_TOKENS // len(tokens))
        for first in range(seen, wanted, step):
            block = reach[:, first : min(first + step, wanted)]
            place, number = np.nonzero(block > self.total[sentences, None])
            if len(place):
                ids = _picked(labels, bounds, place, number + first)
                self._look(sentences[place], ids, score[place, number + first])
        self.bound[sentences] = reach[:, wanted]

    def _look(self, sentences: NDArray[np.int64], ids: Ints, score: Floats) -> None:
        """Complete some labellings of this tape, sentence by sentence; keep what is better."""
        total, bound = self._completed(sentences, ids)
        unproven = np.where(bound > total, score + bound, -np.inf)
        np.maximum.at(self.missed, sentences, unproven)
        total = score + total
        best = np.lexsort((-total, sentences))  # stable: of equals the first
        best = best[np.append(True, np.diff(sentences[best]) > 0)]
        best = best[total[best] > self.total[sentences[best]]]
        self.total[sentences[best]] = total[best]
        to = repeated(self.corpus.offsets, sentences[best])
        self.labels[to] = ids[repeated(bounds_of(self.corpus.offsets, sentences), best)]

    def _completed(self, sentences: NDArray[np.int64], ids: Ints) -> tuple[Floats, Floats]:
        """Return the best totals of the later tapes for some labellings of this one; bounds."""
        if self.variants is not None:
            total = self.variants.totals(sentences, ids)
            return total, total
        later = self.solver.stages[self.k + 1]
        last = self.k + 2 == len(self.solver.stages)
        if last and self._is_all(sentences) and varies(later, self.stage.tagger.tape):
            corpus = with_tape(self.corpus, self.stage.tagger, ids)
            self.variants = Variations(later, self.stage.tagger.tape, corpus, ids)
            return self.variants.total, self.variants.total
        solved = self._solved(sentences, ids)
        return solved.total, solved.bound

    def _solved(self, sentences: NDArray[np.int64], ids: Ints) -> Solved:
        corpus = self.corpus if self._is_all(sentences) else self.corpus.select(sentences)
        corpus = with_tape(corpus, self.stage.tagger, np.maximum(ids, 0))
        return self.solver.solve(corpus, self.k + 1)

    def _is_all(self, sentences: NDArray[np.int64]) -> bool:
        """Whether these are all sentences, once each and in order."""
        return np.array_equal(sentences, np.arange(len(self.corpus)))


def _score(stage: Stage, given: Given, mine: Ints, *, plain: bool) -> Floats:
    """Return the score that labels of its tape have at one stage, float64 [B]."""
    node = np.where(stage.tagger.topology.state_label == mine[:, None], given.node, -np.inf)
    forced = replace(given, node=node)
    bound = stage.free_bound(forced) if plain else stage.legal_bound(forced)
    weight = 1.0 if plain else stage.weight
    return kernel.best_paths(bound)[1] - weight * stage.log_z(given)


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
    composition: Composition, sentences: Data, threads: int, budget: int
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
    composition: Composition, sentences: Data, *, threads: int = 1, budget: int = BUDGET
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

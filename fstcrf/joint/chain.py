"""The labellings of one tape of a chain, best first, each with the best that can follow it.

======  ================================================================
Search  rounds of labellings, until the best completion of one is proven
======  ================================================================

Rounds look at 1, 8, 64, ... labellings of the sentences that are still open, all of them in one
batch; the last tagger is asked about what changed only (`variations`). Where the time has an
end, the clock is looked at often; the first labelling of every sentence is always completed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.corpus import Corpus
from fstcrf.errors import TooLargeError
from fstcrf.joint.batches import decode
from fstcrf.joint.jointmodel import BUDGET, JointModel
from fstcrf.joint.stages import (
    Given,
    Solved,
    Stage,
    Variations,
    bounds_of,
    largest_gains,
    possible_lengths,
    repeated,
    varies,
    with_tape,
)
from fstcrf.kernel import Budget
from fstcrf.model.reading import runs_of

__all__ = [
    "Search",
    "Solver",
]


_PATH_TOKENS = 4_000_000  # labels in the labellings that are ranked at once
_LOOK_TOKENS = 400_000  # tokens that later taggers are asked about at once
_TIMED_TOKENS = 20_000  # the same where the time has an end: some hundredths of a second


class Search:
    """The labellings of one tape, best first, for a batch of sentences.

    Parameters
    ----------
    solver : Solver
        Decodes the later tapes.
    k : int
        The stage of this tape.
    corpus : Corpus
        No empty sentences; the tapes before stage k as columns.
    given : Given
        Potentials of stage k there.
    normaliser : float64 [B]
        Weighted log Z of stage k.
    budget : int
        Labellings to look at.
    """

    def __init__(
        self,
        solver: Solver,
        k: int,
        corpus: Corpus,
        given: Given,
        normaliser: Floats,
        budget: int,
    ) -> None:
        self.solver, self.k, self.corpus, self.budget = solver, k, corpus, budget
        self.stage, self.given, self.normaliser = solver.stages[k], given, normaliser
        size = len(corpus)
        self.labels = np.full(corpus.n_tokens, -1, dtype=np.int32)
        self.later = [self.labels.copy() for _ in solver.stages[k + 1 :]]
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
            if wanted >= self.budget or self.solver.late:
                break
            seen, wanted = wanted, min(8 * wanted, self.budget)
        dead = np.repeat(np.isneginf(self.total), np.diff(self.corpus.offsets))
        labels = [np.where(dead, np.int32(-1), ids) for ids in (self.labels, *self._later())]
        bound = np.maximum(np.maximum(self.bound, self.missed), self.total)
        return Solved(labels, self.total, bound)

    def _later(self) -> list[Ints]:
        """Return the best labels of the later tapes for the labelling that was chosen here."""
        if self.variants is None:
            return self.later
        whole = self.variants.labels.copy()
        changed = np.add.reduceat(self.labels != self.variants.around, self.corpus.offsets[:-1])
        other = np.flatnonzero(changed)
        if len(other):
            tokens = repeated(self.corpus.offsets, other)
            whole[tokens] = self._solved(other, self.labels[tokens], 1).labels[0]
        return [whole]

    def _round(self, seen: int, wanted: int) -> None:
        """Look at the labellings seen .. wanted of the open sentences."""
        lengths = np.diff(self.given.offsets)[self.open].tolist()
        for part in runs_of(lengths, max(1, _PATH_TOKENS // (wanted + 1))):
            if seen and self.solver.late:
                break
            self._rank(self.open[part.first : part.end], seen, wanted)
        self.open = self.open[self.bound[self.open] > self.total[self.open]]

    def _rank(self, sentences: Longs, seen: int, wanted: int) -> None:
        """Look at the labellings seen .. wanted of some sentences."""
        bounds = bounds_of(self.given.offsets, sentences)
        tokens = repeated(self.given.offsets, sentences)
        ranked = kernel.nbest_paths(
            self.stage.legal_bound(_taken(self.given, bounds, tokens)), wanted + 1
        )
        score = ranked.score - self.normaliser[sentences, None]
        reach = score + self.gain[sentences, None]  # what a labelling can become at most
        labels = self.stage.labels(ranked.path)
        step = max(1, (_TIMED_TOKENS if self.solver.timed else _LOOK_TOKENS) // len(tokens))
        left, end = max(1, self.budget // wanted), wanted
        for first in range(seen, wanted, step):
            if first and self.solver.late:
                end = first
                break
            block = reach[:, first : min(first + step, wanted)]
            place, number = np.nonzero(block > self.total[sentences, None])
            if len(place):
                ids = _picked(labels, bounds, place, number + first)
                self._look(sentences[place], ids, score[place, number + first], left)
        self.bound[sentences] = reach[:, end]

    def _look(self, sentences: Longs, ids: Ints, score: Floats, budget: int) -> None:
        """Complete some labellings of this tape, sentence by sentence; keep what is better."""
        solved = self._completed(sentences, ids, budget)
        unproven = np.where(solved.bound > solved.total, score + solved.bound, -np.inf)
        np.maximum.at(self.missed, sentences, unproven)
        total = score + solved.total
        best = np.lexsort((-total, sentences))  # stable: of equals the first
        best = best[np.append(True, np.diff(sentences[best]) > 0)]
        best = best[total[best] > self.total[sentences[best]]]
        self.total[sentences[best]] = total[best]
        to = repeated(self.corpus.offsets, sentences[best])
        chosen = repeated(bounds_of(self.corpus.offsets, sentences), best)
        self.labels[to] = ids[chosen]
        for mine, found in zip(self.later, solved.labels, strict=False):
            mine[to] = found[chosen]

    def _completed(self, sentences: Longs, ids: Ints, budget: int) -> Solved:
        """Return what is best of the later tapes for some labellings of this one.

        Without labels where variants know them.
        """
        if self.variants is not None:
            total = self.variants.totals(sentences, ids)
            return Solved([], total, total)
        later = self.solver.stages[self.k + 1]
        last = self.k + 2 == len(self.solver.stages)
        if last and self._is_all(sentences) and varies(later, self.stage.tagger.tape):
            corpus = with_tape(self.corpus, self.stage.tagger, ids)
            self.variants = Variations(later, self.stage.tagger.tape, corpus, ids)
            return Solved([], self.variants.total, self.variants.total)
        return self._solved(sentences, ids, budget)

    def _solved(self, sentences: Longs, ids: Ints, budget: int) -> Solved:
        corpus = self.corpus if self._is_all(sentences) else self.corpus.select(sentences)
        corpus = with_tape(corpus, self.stage.tagger, np.maximum(ids, 0))
        return self.solver.solve(corpus, self.k + 1, budget)

    def _is_all(self, sentences: Longs) -> bool:
        """Whether these are all sentences, once each and in order."""
        return np.array_equal(sentences, np.arange(len(self.corpus)))


def _taken(given: Given, bounds: Longs, tokens: Longs) -> Given:
    if len(tokens) == len(given.node):
        return given
    return Given(
        bounds,
        np.ascontiguousarray(given.node[tokens]),
        None if given.arc is None else np.ascontiguousarray(given.arc[tokens]),
        tuple(f[tokens] for f in given.fixed),
    )


def _picked(paths: Ints, bounds: Longs, place: Longs, number: Longs) -> Ints:
    """Return path `number` of sentence `place`, for many of them, one after the other."""
    tokens = repeated(bounds, place)
    rows = np.repeat(number, np.diff(bounds)[place])
    return paths[rows, tokens]


# --- The chain rule -------------------------------------------------------------------------------


class Solver:
    """Decodes the stages of a composition; made for one call, whose time begins with it.

    Parameters
    ----------
    composition : JointModel
    budget : Budget, optional
        Its states are labellings of a tape to look at, `BUDGET` where they are the usual ones.
    """

    def __init__(self, composition: JointModel, budget: Budget | None = None) -> None:
        limit = budget or composition.budget or Budget()
        self.composition = composition
        self.budget = BUDGET if limit.usual else limit.states
        self._end = None if limit.seconds is None else time.monotonic() + limit.seconds
        self.stages = composition.stages
        self.order = [stage.tagger.tape for stage in self.stages]
        self._gains: dict[int, Floats] = {}  # by stage, for each length

    @property
    def timed(self) -> bool:
        """Whether there is an end to the time."""
        return self._end is not None

    @property
    def late(self) -> bool:
        """Whether the time is over: the best found so far is the answer."""
        return self._end is not None and time.monotonic() > self._end

    def best(self, corpus: Corpus) -> Solved:
        """Return the best labels of all tapes; what is legal where there is anything legal.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences.
        """
        lengths = np.diff(corpus.offsets)
        possible = possible_lengths(self.composition.skeleton, lengths)
        if possible.all():
            found = self.solve(corpus)
        else:
            found = self._solved_part(corpus, possible, 0, self.budget)
        lost = np.flatnonzero(np.isneginf(found.total) & (found.bound > -np.inf))
        if len(lost):
            found.put(corpus.offsets, lost, self._legal(corpus.select(lost), found.bound[lost]))
        return found

    def _solved_part(self, corpus: Corpus, alive: Bools, k: int, budget: int) -> Solved:
        """Solve some of the sentences; the others have no legal labelling."""
        nothing = np.full(len(corpus), -np.inf)
        blank = [np.full(corpus.n_tokens, -1, dtype=np.int32) for _ in self.stages[k:]]
        found, where = Solved(blank, nothing, nothing.copy()), np.flatnonzero(alive)
        if len(where):
            found.put(corpus.offsets, where, self.solve(corpus.select(where), k, budget))
        return found

    def _legal(self, corpus: Corpus, bound: Floats) -> Solved:
        """Return the best labels of the product: they are legal, and seldom far off."""
        tapes = [stage.tagger for stage in self.stages]
        labels = [np.full(corpus.n_tokens, -1, dtype=np.int32) for _ in tapes]
        found = Solved(labels, np.full(len(corpus), -np.inf), bound.copy())
        try:
            product = replace(self.composition, normalize="product")
            answer = decode(product, corpus, strict=False)
        except TooLargeError:
            return found
        legal = np.flatnonzero(~answer.dead)
        found.bound[answer.dead] = -np.inf
        if len(legal):
            there = np.repeat(~answer.dead, np.diff(corpus.offsets))
            ids = [answer[tagger.tape].flat[0][there] for tagger in tapes]
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
            Labels of each tape, or of the first ones alone, which have a probability of their own.
        plain : bool
            The log probability, without weights and grammar.
        """
        total = np.zeros(len(corpus))
        for stage in self.stages:
            if stage.tagger.tape not in ids:
                break
            mine = ids[stage.tagger.tape]
            total += _score(stage, stage.given(corpus), mine, plain=plain)
            corpus = with_tape(corpus, stage.tagger, mine)
        return total

    def solve(self, corpus: Corpus, k: int = 0, budget: int | None = None) -> Solved:
        """Return the best labels of the tapes from stage k on.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences; the tapes before stage k as columns.
        k : int
        budget : int, optional
            Labellings of a tape to look at: the whole budget when absent.
        """
        budget = self.budget if budget is None else budget
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
                return self._solved_part(corpus, alive, k, budget)
        return Search(self, k, corpus, given, normaliser, budget).run()

    def gain(self, k: int, lengths: Longs) -> Floats:
        """Return the most that the grammars of the stages behind k can add, for each length."""
        later = [a for stage in self.stages[k + 1 :] for a in stage.conjuncts]
        longest = int(lengths.max(initial=0))
        known = self._gains.get(k)
        if known is None or len(known) <= longest:
            known = self._gains[k] = largest_gains(later, longest)
        return known[lengths]


def _score(stage: Stage, given: Given, mine: Ints, *, plain: bool) -> Floats:
    """Return the score that labels of its tape have at one stage, float64 [B]."""
    node = np.where(stage.tagger.topology.state_label == mine[:, None], given.node, -np.inf)
    forced = replace(given, node=node)
    bound = stage.free_bound(forced) if plain else stage.legal_bound(forced)
    weight = 1.0 if plain else stage.weight
    return kernel.best_paths(bound)[1] - weight * stage.log_z(given)

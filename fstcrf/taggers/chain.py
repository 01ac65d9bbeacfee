"""The best labels of a chain of taggers: the cascade's first, then whatever could be better.

What could be better starts with another labelling of the first tapes. Such prefixes are looked at
best first: 16 labellings of the first tape, then 128, 1024, ... within the budget, those of all
open sentences in one batch. A prefix whose own probability is not above the best total found cannot
win, as no later factor is above 1. Where the time has an end, the clock is looked at often; the
cascade's labels are always looked at.

The chain rule is no product of machines, since each tagger is normalised given what the earlier
ones said. `taggers/chain.py` looks at the cascade's labels first, then at prefixes, labellings of
the first tapes, best first and those of all sentences in one batch, and stops when no later one
can win. The first ranking finds the cascade's labels and those within two nats of them, so that
few sentences are ranked twice. A prefix (`taggers/prefixes.py`) costs the tokens in which it
differs from the cascade's labels: potentials of these are looked up again under its labels
(`TokenRows.at`), and the recursion is taken up there (`kernel.rescored`). Known labels and biases
add to the potentials by which labels are chosen, never to those of a normaliser. log Z of the
first tape is the same for all labellings, and is left out where labels alone are asked for. Two
bounds were tried and left out: the tangent of the second tagger's log Z as a function of the
first's labels is a product lattice and an upper bound, but it proposed the same labelling of the
first tape again and again with different labels of the second, and proved fewer sentences than
the plain enumeration in the same time; label pruning by max-marginals saves little where most
labels are out of the question anyway. How soon it stops is in the page on [joint
decoding](../measurements/joint-accuracy.md), what it costs in [speed of
composition](../measurements/benchmarks-composition.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, distinct
from fstcrf.errors import TooLargeError
from fstcrf.kernel import Budget
from fstcrf.taggers.batches import decode
from fstcrf.taggers.jointmodel import BUDGET, WIDE_BUDGET, JointModel
from fstcrf.taggers.known import Known, Request
from fstcrf.taggers.model.reading import runs_of
from fstcrf.taggers.prefixes import Around, Prefixes
from fstcrf.taggers.stages import (
    Given,
    Solved,
    Stage,
    largest_gains,
    possible_lengths,
    repeated,
    with_tape,
)
from fstcrf.text.corpus import Corpus

__all__ = [
    "Search",
    "Solver",
]


_FIRST = 16  # labellings of the first tape that are ranked at first; then 8 times as many
_WITHIN = 2.0  # nats below the best: at first, no others are ranked
_INNER = 4  # times as many labellings of a later tape, for all prefixes of a sentence together
_ROUNDING = 1e-9  # relative
_PATH_TOKENS = 4_000_000  # labels in the labellings that are ranked at once
_LOOK_TOKENS = 400_000  # tokens that later taggers are asked about at once
_PART_TOKENS = 20_000  # the same of one sentence, and where the time has an end


class Search:
    """The best labels of all tapes, for a batch of sentences.

    Parameters
    ----------
    solver : Solver
    corpus : Corpus
        No empty sentences, each with a legal labelling of the first tape.
    budget : int
        Labellings to look at.
    """

    def __init__(self, solver: Solver, corpus: Corpus, budget: int) -> None:
        self.solver, self.corpus, self.budget = solver, corpus, budget
        self.stages, self.offsets = solver.stages, corpus.offsets
        lengths = np.diff(corpus.offsets)
        self.gain = [solver.gain(k, lengths) for k in range(len(self.stages))]
        self.missed = np.full(len(corpus), -np.inf)  # what shares of the budget left out
        self._cascade()

    def _cascade(self) -> None:
        """Look at each tagger's best labels, given those of the taggers before it."""
        corpus, size = self.corpus, len(self.corpus)
        self.around: list[Around] = []
        self.first: _Ranking  # of the first tape
        self.total, second = np.zeros(size), []
        labels: tuple[Ints, ...] = ()
        for k, stage in enumerate(self.stages):
            around = Around(stage, corpus, labels, partial(self.solver.given, k))
            self.around.append(around)
            normaliser: Floats = np.zeros(size)
            if k or self.solver.scored:  # the first one is the same for all labellings
                normaliser = stage.weight * kernel.log_partitions(around.free)
            if k == 0:
                self.normaliser = normaliser
            if k + 1 == len(self.stages):
                path, score = kernel.best_paths(around.legal)
            else:
                ranking = self._ranking(around, wide=k == 0)
                path, score = ranking.path[0], ranking.score[:, 0]
                second.append(self.total + ranking.second - normaliser)
                self.first = ranking if k == 0 else self.first
            if not stage.asks:
                self._sure(k, score - normaliser)
            self.total += score - normaliser
            labels = (*labels, np.maximum(stage.labels(path), 0))  # of a dead sentence, any
            if k + 1 < len(self.stages):
                corpus = with_tape(corpus, stage.tagger, labels[k])
        self.found = [mine.copy() for mine in labels[:-1]]
        self.last = labels[-1]
        self.bound = np.max([s + gain for s, gain in zip(second, self.gain, strict=False)], axis=0)
        self.open = np.flatnonzero(self.bound > self.total)

    def _ranking(self, around: Around, *, wide: bool) -> _Ranking:
        """Rank the two best labellings of a tape, or all that the first round may look at."""
        n, longest = min(_FIRST, self.budget) + 1, around.legal.longest
        within = np.inf
        if wide and n > 2 and not self.solver.timed and longest * n <= _PART_TOKENS:
            within = _WITHIN
        found = kernel.nbest_paths(around.legal, n if within < np.inf else 2, within=within)
        return _Ranking(found.path, found.score, within, self.offsets)

    def _sure(self, k: int, own: Floats) -> None:
        """Note what stage k adds whatever the earlier tapes are, as it does not ask them."""
        lengths = np.diff(self.offsets)
        for j in range(k):
            more = own - (self.solver.gain(k - 1, lengths) - self.solver.gain(k, lengths))
            self.gain[j] = self.gain[j] + np.where(np.isfinite(more), more, 0.0)

    def run(self) -> Solved:
        """Look at more labellings until every sentence is proven."""
        again = len(self.stages) > 2  # prefixes of the first tape are completed by shares
        seen, wanted = (0 if again else 1), min(_FIRST, self.budget)
        while len(self.open) and self.budget > 1 and not self.solver.late:
            self._round(seen, wanted)
            if wanted >= self.budget:
                break
            seen, wanted = (0 if again else wanted), min(8 * wanted, self.budget)
        labels = [*self.found, self._last()]
        dead = np.repeat(np.isneginf(self.total), np.diff(self.offsets))
        labels = [np.where(dead, np.int32(-1), mine) for mine in labels]
        return Solved(labels, self.total, np.maximum(self.bound, self.total))

    def _last(self) -> Ints:
        """Return the best labels of the last tape."""
        around, starts = self.around[-1], self.offsets[:-1]
        changed = np.zeros(len(starts), dtype=bool)
        for mine, old in zip(self.found, around.labels, strict=True):
            changed |= np.logical_or.reduceat(mine != old, starts)
        other = np.flatnonzero(changed)
        if not len(other):
            return self.last
        tokens = repeated(self.offsets, other)
        labels = tuple(mine[tokens] for mine in self.found)
        prefixes = Prefixes(self.offsets, other, self.total[other], labels)
        given = around.under(prefixes)
        path, _ = kernel.best_paths(around.stage.legal_bound(given))
        whole = self.last.copy()
        whole[tokens] = around.stage.labels(path)
        return whole

    def _round(self, seen: int, wanted: int) -> None:
        """Look at the labellings seen .. wanted of the first tape of the open sentences."""
        lengths = np.diff(self.offsets)[self.open]
        size = _LOOK_TOKENS if not self.solver.timed else _PART_TOKENS
        whole = lengths * (wanted + 1) <= _PART_TOKENS  # says a sentence alone, not its batch
        together = self.open[whole]
        for part in runs_of(lengths[whole].tolist(), max(1, size // (wanted + 1))):
            if self.solver.late:
                break
            self._rank(together[part.first : part.end], seen, wanted, wanted)
        for number, length in zip(self.open[~whole], lengths[~whole].tolist(), strict=True):
            if self.solver.late:
                break
            self._rank(np.asarray([number]), seen, wanted, max(1, _PART_TOKENS // length))
        self.open = self.open[self.bound[self.open] > self.total[self.open]]

    def _rank(self, sentences: Longs, seen: int, wanted: int, step: int) -> None:
        """Look at the labellings seen .. wanted of the first tape, `step` of a sentence at once."""
        gain = self.gain[0][sentences] - self.normaliser[sentences]
        floor = _floor(self.total[sentences], gain)
        first, around = self.first, self.around[0]
        again = first.score.shape[1] <= wanted
        other = np.flatnonzero(again | (first.least[sentences] > floor))
        if len(other):
            given = around.given.of(sentences[other])
            bound = around.stage.legal_bound(given)
            found = kernel.nbest_paths(bound, wanted + 1, above=floor[other])
            if again:
                ranking = _Ranking(found.path, found.score, np.inf, given.offsets)
                self._look(ranking, np.arange(len(sentences)), sentences, seen, wanted, step)
                return
            first.score[sentences[other]] = found.score
            first.path[:, repeated(self.offsets, sentences[other])] = found.path
        self._look(first, sentences, sentences, seen, wanted, step)

    def _look(
        self, ranking: _Ranking, rows: Longs, sentences: Longs, seen: int, wanted: int, step: int
    ) -> None:
        """Look at labellings of sentences that have these rows in a ranking; as `_rank`."""
        gain = self.gain[0][sentences]
        score = ranking.score[rows] - self.normaliser[sentences, None]
        reach = score + gain[:, None]  # what a labelling can become at most
        better = (reach[:, seen:wanted] > self.total[sentences, None]).sum(axis=1)
        steps = -(-int(better.max(initial=0)) // step)
        share = max(1, _INNER * wanted // max(1, steps))
        self.missed[sentences] = -np.inf
        end = wanted
        for first in range(seen, wanted, step):
            if first > seen and self.solver.late:
                end = first
                break
            block = reach[:, first : min(first + step, wanted)]
            place, number = np.nonzero(block > self.total[sentences, None])
            if len(place):
                number += first
                path = _picked(ranking.path, ranking.offsets, rows[place], number)
                labels = (self.stages[0].labels(path),)
                prefixes = Prefixes(self.offsets, sentences[place], score[place, number], labels)
                self._complete(1, prefixes, share)
        self.bound[sentences] = np.maximum(reach[:, end], self.missed[sentences])

    def _complete(self, k: int, prefixes: Prefixes, share: int) -> None:
        """Ask stage k about prefixes, and the stages behind it; keep what is better.

        `share` is how many labellings of tape k a sentence may have, of all its prefixes together.
        """
        around = self.around[k]
        best, normaliser = around.best(prefixes)
        reach = prefixes.score + best - normaliser
        if k + 1 == len(self.stages):
            self._keep(prefixes, reach)
            return
        sentence = prefixes.sentence
        alive = np.flatnonzero(reach + self.gain[k][sentence] > self.total[sentence])
        for n, some in _shares(sentence, alive, share, self.budget):
            lengths = np.diff(self.offsets)[sentence[some]].tolist()
            for part in runs_of(lengths, max(1, _PATH_TOKENS // (n + 1))):
                mine = some[part.first : part.end]
                self._extend(k, prefixes.picked(mine), normaliser[mine], n)

    def _extend(self, k: int, prefixes: Prefixes, normaliser: Floats, n: int) -> None:
        """Look at the n best labellings of tape k under each prefix."""
        around, sentence = self.around[k], prefixes.sentence
        given = around.under(prefixes)
        gain = self.gain[k][sentence]
        floor = _floor(self.total[sentence], prefixes.score + gain - normaliser)
        ranked = kernel.nbest_paths(around.stage.legal_bound(given), n + 1, above=floor)
        score = prefixes.score[:, None] + ranked.score - normaliser[:, None]
        reach = score + gain[:, None]
        np.maximum.at(self.missed, sentence, reach[:, n])
        place, number = np.nonzero(reach[:, :n] > self.total[sentence, None])
        if len(place):
            base = prefixes.picked(place)
            mine = around.stage.labels(_picked(ranked.path, given.offsets, place, number))
            longer = replace(base, score=score[place, number], labels=(*base.labels, mine))
            self._complete(k + 1, longer, n)

    def _keep(self, prefixes: Prefixes, total: Floats) -> None:
        """Keep the best prefix of each sentence, of equals the first, where it is better."""
        sentence = prefixes.sentence
        best = np.lexsort((-total, sentence))
        best = best[np.append(True, np.diff(sentence[best]) > 0)]
        best = best[total[best] > self.total[sentence[best]]]
        self.total[sentence[best]] = total[best]
        to, at = repeated(self.offsets, sentence[best]), repeated(prefixes.bounds, best)
        for mine, labels in zip(self.found, prefixes.labels, strict=True):
            mine[to] = labels[at]


@dataclass(frozen=True, eq=False)
class _Ranking:
    """The best labellings of a tape, of some sentences.

    Parameters
    ----------
    path : int32 [n, N]
        Joint states.
    score : float64 [B, n]
        −inf beyond the labellings there are.
    within : float
        Those that are so much below the best one are left out.
    offsets : int64 [B + 1]
    """

    path: Ints
    score: Floats
    within: float
    offsets: Longs

    @property
    def second(self) -> Floats:
        """What no labelling but the best scores more than, float64 [B]."""
        return np.maximum(self.score[:, 1], self.least)

    @property
    def least(self) -> Floats:
        """What none that is left out scores more than, were there room for all, float64 [B]."""
        return self.score[:, 0] - self.within


def _shares(sentence: Longs, alive: Longs, share: int, most: int) -> Iterator[tuple[int, Longs]]:
    """Yield how many labellings each of some prefixes may have, and which prefixes.

    A sentence shares among its prefixes; shares are rounded down to powers of two.
    """
    _, place, count = np.unique(sentence[alive], return_inverse=True, return_counts=True)
    each = np.clip(share // count[place], 1, most)
    power = np.floor(np.log2(each)).astype(np.int64)
    for p in distinct(power).tolist():
        yield 1 << p, alive[power == p]


def _floor(total: Floats, added: Floats) -> Floats:
    """Return a score below which no path passes a total once so much is added, for each sentence.

    It leaves room for rounding: what it lets through is compared again.
    """
    floor = total - added
    floor -= _ROUNDING * (np.abs(total) + np.abs(added))
    return np.where(np.isfinite(floor), floor, -np.inf)


def _picked(paths: Ints, bounds: Longs, place: Longs, number: Longs) -> Ints:
    """Return path `number` of sentence `place`, for many of them, one after the other."""
    tokens = repeated(bounds, place)
    rows = np.repeat(number, np.diff(bounds)[place])
    picked: Ints = paths.ravel().take(rows * paths.shape[1] + tokens)
    return picked


# --- The chain rule -------------------------------------------------------------------------------


class Solver:
    """Decodes the stages of a composition; made for one call, whose time begins with it.

    Parameters
    ----------
    composition : JointModel
    budget : Budget, optional
        Its states are labellings of a tape to look at; where they are the usual ones, `BUDGET`, or
        `WIDE_BUDGET` under a grammar, known labels or biases.
    known : Known, optional
        Biases; known labels are columns of the corpora (`Known.written`).
    scored : bool
        Without it, totals and bounds are of no scale: they can be compared, of one sentence.
    """

    def __init__(
        self,
        composition: JointModel,
        budget: Budget | None = None,
        known: Known | None = None,
        *,
        scored: bool = True,
    ) -> None:
        self.scored = scored
        limit = self._limit = budget or composition.budget or Budget()
        self.composition = composition
        self._end = None if limit.seconds is None else time.monotonic() + limit.seconds
        self.stages = composition.stages
        self.known = known or Known({}, {})
        free = not (composition.conjuncts or self.known.forced or self.known.bias)
        self.usual = limit.usual
        self.budget = (BUDGET if free else WIDE_BUDGET) if limit.usual else limit.states
        self.order = [stage.tagger.tape for stage in self.stages]
        self._gains: dict[int, Floats] = {}  # by stage, for each length
        self._bias = [self.known.state_biases(stage.tagger) for stage in self.stages]

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
        found = self.solve(corpus) if possible.all() else self._solved_part(corpus, possible)
        lost = np.flatnonzero(np.isneginf(found.total) & (found.bound > -np.inf))
        if len(lost) and not self.scored:  # totals of the product's answers are of another scale
            whole = Solver(self.composition, self._limit, self.known)
            found.put(corpus.offsets, lost, whole.best(corpus.select(lost)))
        elif len(lost):
            found.put(corpus.offsets, lost, self._legal(corpus.select(lost), found.bound[lost]))
        return found

    def _solved_part(self, corpus: Corpus, alive: Bools) -> Solved:
        """Solve some of the sentences; the others have no legal labelling."""
        nothing = np.full(len(corpus), -np.inf)
        blank = [np.full(corpus.n_tokens, -1, dtype=np.int32) for _ in self.stages]
        found, where = Solved(blank, nothing, nothing.copy()), np.flatnonzero(alive)
        if len(where):
            found.put(corpus.offsets, where, self.solve(corpus.select(where)))
        return found

    def _legal(self, corpus: Corpus, bound: Floats) -> Solved:
        """Return the best labels of the product: they are legal, and seldom far off."""
        tapes = [stage.tagger for stage in self.stages]
        labels = [np.full(corpus.n_tokens, -1, dtype=np.int32) for _ in tapes]
        found = Solved(labels, np.full(len(corpus), -np.inf), bound.copy())
        whole = replace(self.composition, normalize="product")
        try:
            answer = decode(whole, Request(corpus, strict=False), self.known.read(corpus))
        except TooLargeError:
            return found
        legal = np.flatnonzero(~answer.dead)
        found.bound[answer.dead] = -np.inf
        if len(legal):
            tokens = repeated(corpus.offsets, legal)
            ids = [answer[tagger.tape].flat[0, tokens] for tagger in tapes]
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
        for k, stage in enumerate(self.stages):
            if stage.tagger.tape not in ids:
                break
            mine = ids[stage.tagger.tape]
            total += _score(stage, self.given(k, corpus), mine, plain=plain)
            corpus = with_tape(corpus, stage.tagger, mine)
        return total

    def solve(self, corpus: Corpus) -> Solved:
        """Return the best labels of sentences of which some labelling of any tape may be legal.

        Parameters
        ----------
        corpus : Corpus
            No empty sentences.
        """
        return Search(self, corpus, self.budget).run()

    def gain(self, k: int, lengths: Longs) -> Floats:
        """Return the most that grammars and biases behind stage k can add, for each length."""
        later = [a for stage in self.stages[k + 1 :] for a in stage.conjuncts]
        longest = int(lengths.max(initial=0))
        known = self._gains.get(k)
        if known is None or len(known) <= longest:
            each = sum(float(bias.max()) for bias in self._bias[k + 1 :] if bias is not None)
            known = largest_gains(later, longest) + each * np.arange(longest + 1)
            self._gains[k] = known
        return known[lengths]

    def given(self, k: int, corpus: Corpus) -> Given:
        """Return the potentials of stage k, and what is known there of its labels."""
        stage = self.stages[k]
        given, told = stage.given(corpus), self.known.told(stage.tagger, corpus, self._bias[k])
        return given if told is None else replace(given, told=told)


def _score(stage: Stage, given: Given, mine: Ints, *, plain: bool) -> Floats:
    """Return the score that labels of its tape have at one stage, float64 [B]."""
    node = np.where(stage.tagger.topology.state_label == mine[:, None], given.node, -np.inf)
    forced = replace(given, node=node)
    bound = stage.free_bound(forced) if plain else stage.legal_bound(forced)
    weight = 1.0 if plain else stage.weight
    return kernel.best_paths(bound)[1] - weight * stage.log_z(given)

"""Branch and bound: the n best labellings of a chain of taggers, for a batch of sentences.

The cascade's labels come first, and the n best labels of the last tape under them: they are the
first incumbents (`taggers/incumbents.py`). Whatever else is among the n best starts with another
prefix, a labelling of the first tapes. No factor of a later tagger is above 1, so a prefix bounds
all that begins with it: by its own score, and a heuristic, the most that grammars and biases of
later tapes can add. A sentence is open while an upper bound exceeds its threshold, the score of the
n-th incumbent.

Prefixes are expanded best first: 16 labellings of the first tape, then 128, 1024, ... within the
budget, those of all open sentences in one batch. A prefix of several tapes waits in the frontier
with a cursor: how many labellings of the next tape were looked at under it, and what no other one
exceeds. What a later tagger says under a prefix costs the tokens in which that differs from the
cascade's labels (`taggers/prefixes.py`). The best completion of a prefix of all tapes but the last
is such a total; prefixes that are among the n best by it alone have the n best labels of the last
tape looked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, distinct
from fstcrf.kernel import Budget
from fstcrf.ragged import Ragged
from fstcrf.taggers.evidence import Evidence
from fstcrf.taggers.incumbents import Incumbents
from fstcrf.taggers.prefixes import Prefixes, RescoringContext
from fstcrf.taggers.stages import Stage, StagePotentials, largest_gains, repeated, with_tape
from fstcrf.text.corpus import Corpus

if TYPE_CHECKING:
    from fstcrf.taggers.joint import JointCRF

BUDGET = 16
"""Labellings of a tape that are looked at before the best one found is given as not proven.

Chosen on held-out sentences: docs/guides/joint-score.md."""

WIDE_BUDGET = 64
"""The same under a grammar, known labels or biases, where the best labels are less probable, and
for n best labellings."""

_FIRST = 16  # labellings of the first tape that are ranked at first; then 8 times as many
_WITHIN = 2.0  # nats below the best: at first, no others are ranked
_INNER = 4  # times as many labellings of a later tape, for all prefixes of a sentence together
_ROUNDING = 1e-9  # relative
_PATH_TOKENS = 4_000_000  # labels in the labellings that are ranked at once
_LOOK_TOKENS = 400_000  # tokens that later taggers are asked about at once
_PART_TOKENS = 20_000  # the same of one sentence, and where the time has an end


class ChainRule:
    """How the taggers of a composition decide; made for one call, whose time begins with it.

    Parameters
    ----------
    composition : JointCRF
    budget : Budget, optional
        Its states limit the labellings of each tape that are scored. The default is `BUDGET`, or
        `WIDE_BUDGET` for several labellings, and under a grammar or evidence.
    evidence : Evidence, optional
        Observed labels and biases; observed labels are columns of the corpora.
    n : int
        Labellings of a sentence.
    tapes : sequence of str, optional
        Those in which labellings differ; all when absent.
    scored : bool
        Without it, scores and bounds are of no scale: they can be compared, of one sentence.
    """

    def __init__(
        self,
        composition: JointCRF,
        budget: Budget | None = None,
        evidence: Evidence | None = None,
        n: int = 1,
        tapes: Sequence[str] | None = None,
        *,
        scored: bool = True,
    ) -> None:
        self.composition, self.n, self.tapes, self.scored = composition, n, tapes, scored
        limit = self.limit = budget or composition.budget or Budget()
        self._end = None if limit.seconds is None else time.monotonic() + limit.seconds
        self.stages = composition._stages
        self.order = [stage.tagger.tape for stage in self.stages]
        self.shown = [k for k, tape in enumerate(self.order) if tapes is None or tape in tapes]
        self.evidence = evidence or Evidence({}, {})
        free = not (composition.conjuncts or self.evidence.forced or self.evidence.bias)
        only = n == 1 and len(self.shown) == len(self.order)
        self.budget = limit.states or (BUDGET if free and only else WIDE_BUDGET)
        self._heuristics: dict[int, Floats] = {}  # by stage, for each length
        self._bias = [
            self.evidence.state_biases(s.tagger.tape, s.tagger.topology) for s in self.stages
        ]

    @property
    def has_deadline(self) -> bool:
        """Whether there is an end to the time."""
        return self._end is not None

    @property
    def expired(self) -> bool:
        """Whether the time is over: the incumbents are the answer."""
        return self._end is not None and time.monotonic() > self._end

    def score(self, corpus: Corpus, ids: Mapping[str, Ints], *, plain: bool = False) -> Floats:
        """Return the score of a labelling of each sentence, float64 [B]; −inf where illegal.

        Parameters
        ----------
        corpus : Corpus
            Sentences that each tagger has a path for.
        ids : mapping of str to int32 [N]
            Labels of each tape, or of the first ones alone, which have a probability of their own.
        plain : bool
            The log probability, without weights, grammar and evidence.
        """
        total = np.zeros(len(corpus))
        for k, stage in enumerate(self.stages):
            if stage.tagger.tape not in ids:
                break
            mine = ids[stage.tagger.tape]
            total += _score(stage, self.given(k, corpus), mine, plain=plain)
            corpus = with_tape(corpus, stage.tagger, mine)
        return total

    def probabilities(self, corpus: Corpus, found: Incumbents, n: int) -> Floats:
        """Return the probabilities of best paths, without weights, grammar and biases, [B, n].

        With weights, scores of a grammar or biases, they need the labels of all tapes: NaN if some
        tapes are not shown.
        """
        score = found.columns(n)
        chances = np.zeros(score.shape)
        row, rank = np.nonzero(score > -np.inf)
        weights, conjuncts = self.composition.weights, self.composition.conjuncts
        plain = all(weight == 1.0 for weight in weights) and not self.evidence.bias
        if plain and not any(acceptor.weighted for acceptor in conjuncts):
            chances[row, rank] = np.exp(score[row, rank])
        elif len(self.shown) < len(self.order):
            chances[row, rank] = np.where(np.diff(corpus.offsets)[row], np.nan, 1.0)
        else:
            several = Ragged(corpus.offsets).select(row)
            for part in several.runs(_LOOK_TOKENS):
                mine, at = row[slice(*part)], rank[slice(*part)]
                labels = found.labellings(mine, at)
                ids = {self.order[k]: own for k, own in zip(self.shown, labels, strict=True)}
                chances[mine, at] = np.exp(self.score(corpus.select(mine), ids, plain=True))
        return np.minimum(1.0, chances)

    def heuristic(self, k: int, lengths: Longs) -> Floats:
        """Return the most that grammars and biases behind stage k can add, for each length."""
        later = [a for stage in self.stages[k + 1 :] for a in stage.conjuncts]
        longest = int(lengths.max(initial=0))
        held = self._heuristics.get(k)
        if held is None or len(held) <= longest:
            each = sum(float(bias.max()) for bias in self._bias[k + 1 :] if bias is not None)
            held = largest_gains(later, longest) + each * np.arange(longest + 1)
            self._heuristics[k] = held
        return held[lengths]

    def given(self, k: int, corpus: Corpus) -> StagePotentials:
        """Return the potentials of stage k, and the evidence of its labels there."""
        stage = self.stages[k]
        given = stage.given(corpus)
        tagger = stage.tagger
        evidence = self.evidence.evidence_scores(
            tagger.tape, tagger.topology, corpus, self._bias[k]
        )
        return given if evidence is None else replace(given, evidence_scores=evidence)


def _score(stage: Stage, given: StagePotentials, mine: Ints, *, plain: bool) -> Floats:
    """Return the score that labels of its tape have at one stage, float64 [B]."""
    node = np.where(stage.tagger.topology.state_label == mine[:, None], given.node, -np.inf)
    forced = replace(given, node=node)
    bound = stage.free_bound(forced) if plain else stage.legal_bound(forced)
    weight = 1.0 if plain else stage.weight
    return kernel.best_paths(bound)[1] - weight * stage.log_z(given)


# --- One run of sentences -------------------------------------------------------------------------


class Search:
    """The n best labellings of the tapes shown.

    Parameters
    ----------
    rule : ChainRule
    corpus : Corpus
        Sentences that each have a legal labelling of the first tape.
    """

    def __init__(self, rule: ChainRule, corpus: Corpus) -> None:
        self.rule, self.corpus, self.n, self.budget = rule, corpus, rule.n, rule.budget
        self.stages, self.offsets = rule.stages, corpus.offsets
        self.lengths = np.diff(corpus.offsets)
        self.last = len(self.stages) - 1
        self.shown = rule.shown
        self.whole = len(self.shown) == len(self.stages)
        self.heuristic = [rule.heuristic(k, self.lengths) for k in range(len(self.stages))]
        self.found = Incumbents(self.offsets, self.n, len(self.shown), repeated=not self.whole)
        self.frontier: list[list[_Frontier]] = []  # by the tape whose labels come next
        self._cascade()

    def run(self) -> Incumbents:
        """Expand prefixes until every sentence is proven, or its budget ends."""
        wanted = min(_FIRST, self.budget)
        while self.budget > 1 and not self.rule.expired and any(map(self._open, range(self.last))):
            for k in range(self.last):
                self._deepen(k, wanted)
            if wanted >= self.budget:
                break
            wanted = min(8 * wanted, self.budget)
        for k in range(self.last):
            nodes = self._open(k)
            np.maximum.at(self.found.bound, nodes.prefixes.sentence, nodes.upper)
        return self.found

    # --- The cascade --------------------------------------------------------------------------

    def _cascade(self) -> None:
        """Look at each tagger's best labels, given those of the taggers before it."""
        corpus, every = self.corpus, np.arange(len(self.corpus))
        self.around: list[RescoringContext] = []
        self.first: kernel.Ranked  # labellings of the first tape
        self.least: Floats  # what others score at most
        prefixes = Prefixes(self.offsets, every, np.zeros(len(every)), ())
        for k, stage in enumerate(self.stages):
            around = RescoringContext(stage, corpus, prefixes.labels, partial(self.rule.given, k))
            self.around.append(around)
            normaliser: Floats = np.zeros(len(every))
            if k or self.rule.scored:  # the first one is the same for all labellings
                log_z = kernel.log_partitions(around.free)
                normaliser = stage.weight * np.where(np.isneginf(log_z), 0.0, log_z)
            if k == self.last:
                own = self._finish(prefixes, around.legal, normaliser) - normaliser
                around.dead = np.isneginf(own)
                if not stage.depends_on_earlier:
                    self._raise_heuristic(k, own)
                break
            ranked, within = self._ranking(around, wide=k == 0)
            least = ranked.score[:, 0] - within
            if k == 0:
                self.first, self.least = ranked, least
            own = ranked.score[:, 0] - normaliser
            around.dead = np.isneginf(own)
            if not stage.depends_on_earlier:
                self._raise_heuristic(k, own)
            upper = prefixes.score + np.maximum(ranked.score[:, 1], least) - normaliser
            nodes = _Frontier(prefixes, normaliser, np.ones(len(every), np.int64), upper)
            self.frontier.append([nodes])
            mine = np.maximum(stage.labels(ranked.path[0]), 0)  # of a dead sentence, any
            corpus = with_tape(corpus, stage.tagger, mine)
            prefixes = replace(
                prefixes, score=prefixes.score + own, labels=(*prefixes.labels, mine)
            )
        for k, (nodes,) in enumerate(self.frontier):
            nodes.upper = nodes.upper + self.heuristic[k]

    def _ranking(self, around: RescoringContext, *, wide: bool) -> tuple[kernel.Ranked, float]:
        """Rank the two best labellings of a tape, or all that the first round may look at.

        Returned is also by how much those that are left out are below the best.
        """
        n, longest = min(_FIRST, self.budget) + 1, around.legal.longest
        within = np.inf
        if wide and n > 2 and not self.rule.has_deadline and longest * n <= _PART_TOKENS:
            within = _WITHIN + np.log(self.n)
        n = n if within < np.inf else 2
        return kernel.nbest_paths(around.legal, n, within=within), within

    def _raise_heuristic(self, k: int, own: Floats) -> None:
        """Note what stage k adds whatever the earlier tapes are, as it does not ask them."""
        for j in range(k):
            between = self.rule.heuristic(k - 1, self.lengths)
            more = own - (between - self.rule.heuristic(k, self.lengths))
            self.heuristic[j] = self.heuristic[j] + np.where(np.isfinite(more), more, 0.0)

    # --- Prefixes -----------------------------------------------------------------------------

    def _complete(self, k: int, prefixes: Prefixes) -> None:
        """Ask stage k about prefixes, which wait to be expanded, or are complete by it."""
        around, sentence = self.around[k], prefixes.sentence
        best, normaliser = around.best(prefixes)
        total = prefixes.score + best - normaliser
        if k < self.last:
            upper = total + self.heuristic[k][sentence]
            some = np.flatnonzero(upper > self._threshold(prefixes))
            kept, cursor = prefixes.picked(some), np.zeros(len(some), np.int64)
            self.frontier[k].append(_Frontier(kept, normaliser[some], cursor, upper[some]))
        elif self.last not in self.shown:
            some = np.flatnonzero(total > self._threshold(prefixes))
            self._put(prefixes.picked(some), total[some])
        elif self.whole:
            some, raised = self.found.promising(sentence, total)
            self._finish_some(prefixes, normaliser, some, raised)
        else:  # prefixes that differ may show the same labels
            for some in _best_first(sentence, total):
                alive = some[total[some] > self.found.threshold[sentence[some]]]
                self._finish_some(prefixes, normaliser, alive, self.found.threshold)

    def _threshold(self, prefixes: Prefixes) -> Floats:
        """Return what a labelling must exceed to count that begins with a prefix, [P]."""
        threshold = self.found.threshold[prefixes.sentence]
        if self.shown[-1] >= len(prefixes.labels):
            return threshold
        shown = [prefixes.labels[k] for k in self.shown]  # its own best labelling so far, too
        return np.maximum(threshold, self.found.own(prefixes.sentence, shown))

    def _finish_some(
        self, prefixes: Prefixes, normaliser: Floats, some: Longs, threshold: Floats
    ) -> None:
        """Finish some of the prefixes; their labellings are to exceed a threshold, [B]."""
        around, lengths = self.around[-1], self.lengths[prefixes.sentence[some]]
        for part in Ragged.from_lengths(lengths).runs(max(1, _PATH_TOKENS // self.n)):
            where = some[slice(*part)]
            mine = prefixes.picked(where)
            bound = around.stage.legal_bound(around.under(mine))
            self._finish(mine, bound, normaliser[where], threshold)

    def _finish(
        self,
        prefixes: Prefixes,
        bound: kernel.Bound,
        normaliser: Floats,
        threshold: Floats | None = None,
    ) -> Floats:
        """Take over the n best labellings of the last tape under each prefix; return the best."""
        base, sentence = prefixes.score - normaliser, prefixes.sentence
        n = self.n if self.last in self.shown else 1
        above = None if threshold is None else _score_above(threshold[sentence], base)
        ranked = _nbest(bound, n, above)
        total = base[:, None] + ranked.score
        place, number = np.nonzero(total > self.found.threshold[sentence, None])
        path = _picked(ranked.path, prefixes.bounds, place, number)
        some, mine = prefixes.picked(place), self.stages[-1].labels(path)
        self._put(replace(some, labels=(*some.labels, mine)), total[place, number])
        return ranked.score[:, 0]

    def _put(self, prefixes: Prefixes, total: Floats) -> None:
        if len(total):
            shown = [prefixes.labels[k] for k in self.shown]
            self.found.put(prefixes.sentence, total, shown)

    def _open(self, k: int) -> _Frontier:
        """Return the prefixes that labels of tape k may still make one of the n best."""
        nodes = _Frontier.joined(self.frontier[k])
        self.frontier[k] = [nodes.kept(nodes.upper > self._threshold(nodes.prefixes))]
        return self.frontier[k][0]

    def _deepen(self, k: int, wanted: int) -> None:
        """Look at `wanted` labellings of the first tape, of tape k at `_INNER` times as many."""
        nodes = self._open(k)
        sentence = nodes.prefixes.sentence
        shares = (
            [(wanted, np.arange(len(sentence)))]
            if k == 0
            else _shares(sentence, _INNER * wanted, self.budget)
        )
        size = _LOOK_TOKENS if not self.rule.has_deadline else _PART_TOKENS
        for n, sharing in shares:
            some = sharing[nodes.cursor[sharing] < n]
            for part, step in _parts(sentence[some], self.lengths, n, size):
                if not self.rule.expired:
                    self._expand(k, nodes, some[part], n, step)

    def _expand(self, k: int, nodes: _Frontier, where: Longs, n: int, step: int) -> None:
        """Look at the n best labellings of tape k under some prefixes, `step` of each at once."""
        prefixes, normaliser = nodes.prefixes.picked(where), nodes.normaliser[where]
        gain, threshold = self.heuristic[k][prefixes.sentence], self._threshold(prefixes)
        above = _score_above(threshold, prefixes.score + gain - normaliser)
        ranked, bounds, rows = self._ranked(k, prefixes, n, above)
        score = prefixes.score[:, None] + ranked.score[rows] - normaliser[:, None]
        upper = score + gain[:, None]
        new = np.arange(n + 1) >= nodes.cursor[where, None]
        first = int(nodes.cursor[where].min())
        for start in range(first, n, step):
            if start > first and self.rule.expired:
                n = start
                break
            block = slice(start, min(start + step, n))
            threshold = self._threshold(prefixes)[:, None]
            place, number = np.nonzero(new[:, block] & (upper[:, block] > threshold))
            if len(place):
                number += start
                base = prefixes.picked(place)
                path = _picked(ranked.path, bounds, rows[place], number)
                labels = (*base.labels, self.stages[k].labels(path))
                self._complete(k + 1, replace(base, score=score[place, number], labels=labels))
        nodes.cursor[where], nodes.upper[where] = n, upper[:, n]

    def _ranked(
        self, k: int, prefixes: Prefixes, n: int, above: Floats
    ) -> tuple[kernel.Ranked, Longs, Longs]:
        """Rank n + 1 labellings of tape k under each prefix.

        Returned are also the bounds of the sentences there, and which of them each prefix is.
        """
        sentence, first = prefixes.sentence, self.first
        held = k == 0 and n < first.score.shape[1]
        some = np.flatnonzero(self.least[sentence] > above) if held else np.arange(len(sentence))
        if len(some):
            other = prefixes.picked(some)
            bound = self.stages[k].legal_bound(self.around[k].under(other))
            ranked = kernel.nbest_paths(bound, n + 1, above=above[some])
            if not held:
                return ranked, other.bounds, some
            first.score[other.sentence], first.path[:, other.tokens] = ranked.score, ranked.path
        return first, self.offsets, sentence


@dataclass(eq=False)
class _Frontier:
    """Prefixes under which labellings of the next tape are not all looked at."""

    prefixes: Prefixes
    normaliser: Floats  # [P] weighted log Z of the next tagger under each
    cursor: Longs  # [P] how many labellings of the next tape were looked at, best first
    upper: Floats  # [P] what no other labelling that begins so scores more than

    def __len__(self) -> int:
        return len(self.upper)

    @classmethod
    def joined(cls, parts: Sequence[_Frontier]) -> _Frontier:
        """Return several as one, sentence by sentence."""
        if len(parts) == 1:
            return parts[0]
        several = [part.prefixes for part in parts]
        labels = tuple(map(np.concatenate, zip(*(p.labels for p in several), strict=True)))
        sentence, score = (
            np.concatenate([getattr(p, name) for p in several]) for name in ("sentence", "score")
        )
        order = np.argsort(sentence, kind="stable")
        normaliser, cursor, upper = (
            np.concatenate([getattr(part, name) for part in parts])[order]
            for name in ("normaliser", "cursor", "upper")
        )
        both = Prefixes(several[0].offsets, sentence, score, labels)
        return cls(both.picked(order), normaliser, cursor, upper)

    def kept(self, which: Bools) -> _Frontier:
        """Drop the others."""
        if which.all():
            return self
        where = np.flatnonzero(which)
        arrays = self.normaliser[where], self.cursor[where], self.upper[where]
        return _Frontier(self.prefixes.picked(where), *arrays)


def _shares(sentence: Longs, share: int, most: int) -> list[tuple[int, Longs]]:
    """Return how many labellings each of some prefixes may have, and which prefixes.

    A sentence shares among its prefixes; shares are rounded down to powers of two.
    """
    _, place, count = np.unique(sentence, return_inverse=True, return_counts=True)
    each = np.clip(share // count[place], 1, most)
    power = np.floor(np.log2(each)).astype(np.int64)
    return [(1 << p, np.flatnonzero(power == p)) for p in distinct(power).tolist()]


def _parts(sentence: Longs, lengths: Longs, n: int, tokens: int) -> Iterator[tuple[slice, int]]:
    """Yield runs of prefixes, and how many of n labellings of each are looked at at once.

    Those of a sentence are cut alike whatever the batch, where they are too many.
    """
    rows, count = np.unique(sentence, return_counts=True)
    bounds = Ragged.from_lengths(count).offsets
    cost = count * lengths[rows] * (n + 1)
    for first, end in Ragged.from_lengths(np.where(cost > _PART_TOKENS, tokens, cost)).runs(tokens):
        start, stop = bounds[[first, end]].tolist()
        length = int(lengths[rows[first]])
        if int(cost[first]) <= _PART_TOKENS:
            yield slice(start, stop), n
            continue
        step = max(1, _PART_TOKENS // (length * (n + 1)))
        for place in range(start, stop, step):
            yield slice(place, min(place + step, stop)), max(1, _PART_TOKENS // length)


def _best_first(sentence: Longs, total: Floats) -> tuple[Longs, Longs]:
    """Return which prefix of each sentence is the best, and the others."""
    order = np.lexsort((-total, sentence))
    best = np.append(True, np.diff(sentence[order]) > 0)
    return order[best], np.sort(order[~best])


def _nbest(bound: kernel.Bound, n: int, above: Floats | None) -> kernel.Ranked:
    """Return the n best paths, room being made for as many as there are."""
    if n == 1:
        path, score = kernel.best_paths(bound)
        return kernel.Ranked(np.ones(len(score), np.int64), score[:, None], path[None])
    for some in kernel.growing(n):
        ranked = kernel.nbest_paths(bound, some, above=above)
        if int(ranked.found.max(initial=0)) < some:
            break
    return ranked


def _score_above(threshold: Floats, added: Floats) -> Floats:
    """Return a score below which no path passes a threshold once so much is added.

    It leaves room for rounding: what it lets through is compared again.
    """
    score = threshold - added
    score -= _ROUNDING * (np.abs(threshold) + np.abs(added))
    return np.where(np.isfinite(score), score, -np.inf)


def _picked(paths: Ints, bounds: Longs, place: Longs, number: Longs) -> Ints:
    """Return path `number` of sentence `place`, for many of them, one after the other."""
    picked: Ints = paths[0]
    if len(paths) > 1 or len(place) < len(bounds) - 1:  # else of each sentence its only one
        rows = np.repeat(number, np.diff(bounds)[place])
        picked = paths.ravel().take(rows * paths.shape[1] + repeated(bounds, place))
    return picked

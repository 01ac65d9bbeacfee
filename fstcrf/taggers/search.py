"""Branch and bound over the chain rule: the n best labellings, for a batch of sentences.

A *prefix* is a labelling of the first tapes. Its score is an upper bound of all labellings that
begin with it, up to a heuristic as in A*: the most that grammars and biases of later tapes can add.
This holds because the factor of each later tagger is a probability, so its log is at most 0.

The *cascade* labels each tape given the best labels of the earlier tapes. Its labels, and the n
best labels of the last tape after them, are the first *incumbents* (`taggers/incumbents.py`). A
sentence is open while the upper bound of some prefix exceeds its threshold, the score of its n-th
incumbent. Once no sentence is open, the incumbents are exact; if the budget ends first, the largest
open upper bound limits the score of all labellings that were not found.

Unlike a beam search, the search drops a prefix only if its upper bound shows that it is not needed.
Unlike A*, it expands many prefixes at once: the best 16 labellings of the first tape of all open
sentences, then 128, 1024, ... within the budget. A prefix of several tapes is a node of the
*frontier*, with the number of labellings of the next tape already expanded, and the upper bound of
the others. The next tagger rescores the tokens at which a prefix differs from the cascade
(`taggers/prefixes.py`). A prefix of all tapes but the last is first scored with its best labels of
the last tape. The search computes n of them only if this score is among the n best.
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
from fstcrf.taggers.stages import Stage, StagePotentials, largest_gains, with_tape
from fstcrf.text.corpus import Corpus

if TYPE_CHECKING:
    from fstcrf.taggers.joint import JointCRF

BUDGET = 16
"""Maximum number of labellings of a tape that are expanded.

Chosen on held-out sentences: docs/guides/joint-score.md."""

WIDE_BUDGET = 64
"""The maximum under a grammar or evidence, which make the best labels less probable, and for the n
best labellings."""

_FIRST = 16  # labellings of the first tape in the first round; eight times more in each later round
_WITHIN = 2.0  # nats: the first ranking omits labellings further below the best
_INNER = 4  # labellings of a later tape for each of the first, shared by all prefixes of a sentence
_ROUNDING = 1e-9  # relative
_PATH_TOKENS = 4_000_000  # tokens in a batch of completions
_LOOK_TOKENS = 400_000  # tokens in a batch of prefixes
_PART_TOKENS = 20_000  # tokens in a batch of prefixes of one sentence, or before a deadline


class ChainRule:
    """A composition with ``normalize="chain"``, and the options of one call; the clock starts here.

    Parameters
    ----------
    composition : JointCRF
    budget : Budget, optional
        Its states limit the labellings of each tape that are expanded. The default is `BUDGET`, or
        `WIDE_BUDGET` for several labellings, and under a grammar or evidence.
    evidence : Evidence, optional
        Biases, and observed labels, which are columns of the corpora.
    n : int
        Number of labellings of each sentence.
    tapes : sequence of str, optional
        Visible tapes: the labellings in the answer differ on these. The default is all tapes.
    scored : bool
        False: omit log Z of the first tape, so that scores only rank labellings of one sentence.
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
        self.visible = [k for k, tape in enumerate(self.order) if tapes is None or tape in tapes]
        self.evidence = evidence or Evidence({}, {})
        free = not (composition.conjuncts or self.evidence.forced or self.evidence.bias)
        best_of_all = n == 1 and len(self.visible) == len(self.order)
        self.budget = limit.states or (BUDGET if free and best_of_all else WIDE_BUDGET)
        self._heuristics: dict[int, Floats] = {}  # by stage, for each length
        self._bias = [
            self.evidence.state_biases(s.tagger.tape, s.tagger.topology) for s in self.stages
        ]

    @property
    def has_deadline(self) -> bool:
        """Whether the budget limits the time."""
        return self._end is not None

    @property
    def expired(self) -> bool:
        """Whether the time is over."""
        return self._end is not None and time.monotonic() > self._end

    def score(self, corpus: Corpus, ids: Mapping[str, Ints], *, plain: bool = False) -> Floats:
        """Return the score of one labelling of each sentence, float64 [B]; −inf if illegal.

        Parameters
        ----------
        corpus : Corpus
            Sentences for which each tagger has a path.
        ids : mapping of str to int32 [N]
            Label numbers of each tape, or of the first tapes of the chain.
        plain : bool
            Return the log probability, without weights, grammar and evidence.
        """
        total = np.zeros(len(corpus))
        for k, stage in enumerate(self.stages):
            if stage.tagger.tape not in ids:
                break
            labels = ids[stage.tagger.tape]
            total += _score(stage, self.potentials(k, corpus), labels, plain=plain)
            corpus = with_tape(corpus, stage.tagger, labels)
        return total

    def probabilities(self, corpus: Corpus, incumbents: Incumbents, n: int) -> Floats:
        """Return the probabilities of incumbents, without weights, grammar and biases, [B, n].

        NaN if scores include one of these and some tapes are not visible, since the probability
        then needs the labels of all tapes.
        """
        score = incumbents.columns(n)
        chances = np.zeros(score.shape)
        row, rank = np.nonzero(score > -np.inf)
        weights, conjuncts = self.composition.weights, self.composition.conjuncts
        plain = all(weight == 1.0 for weight in weights) and not self.evidence.bias
        if plain and not any(acceptor.weighted for acceptor in conjuncts):
            chances[row, rank] = np.exp(score[row, rank])
        elif len(self.visible) < len(self.order):
            chances[row, rank] = np.where(np.diff(corpus.offsets)[row], np.nan, 1.0)
        else:
            for part in Ragged(corpus.offsets).select(row).runs(_LOOK_TOKENS):
                rows, ranks = row[slice(*part)], rank[slice(*part)]
                labels = incumbents.labellings(rows, ranks)
                ids = {self.order[k]: own for k, own in zip(self.visible, labels, strict=True)}
                chances[rows, ranks] = np.exp(self.score(corpus.select(rows), ids, plain=True))
        return np.minimum(1.0, chances)

    def heuristic(self, k: int, lengths: Longs) -> Floats:
        """Return the most that grammars and biases of stages after k add, for sentence lengths."""
        later = [a for stage in self.stages[k + 1 :] for a in stage.conjuncts]
        longest = int(lengths.max(initial=0))
        gains = self._heuristics.get(k)
        if gains is None or len(gains) <= longest:
            each = sum(float(bias.max()) for bias in self._bias[k + 1 :] if bias is not None)
            gains = largest_gains(later, longest) + each * np.arange(longest + 1)
            self._heuristics[k] = gains
        return gains[lengths]

    def potentials(self, k: int, corpus: Corpus) -> StagePotentials:
        """Return the potentials and the evidence of stage k."""
        stage, tagger = self.stages[k], self.stages[k].tagger
        evidence = self.evidence.evidence_scores(
            tagger.tape, tagger.topology, corpus, self._bias[k]
        )
        return replace(stage.potentials(corpus), evidence_scores=evidence)


def _score(stage: Stage, potentials: StagePotentials, labels: Ints, *, plain: bool) -> Floats:
    """Return the log of the factor of one stage, float64 [B], for labels of its tape."""
    allowed = stage.tagger.topology.state_label == labels[:, None]
    clamped = replace(potentials, node=np.where(allowed, potentials.node, -np.inf))
    batch = stage.free_batch(clamped) if plain else stage.legal_batch(clamped)
    exponent = 1.0 if plain else stage.exponent
    return kernel.best_paths(batch)[1] - exponent * stage.log_z(potentials)


# --- One run of sentences -------------------------------------------------------------------------


class Search:
    """The search for the n best labellings of the visible tapes.

    Parameters
    ----------
    rule : ChainRule
    corpus : Corpus
        Sentences that have a legal labelling of the first tape.
    """

    def __init__(self, rule: ChainRule, corpus: Corpus) -> None:
        self.rule, self.corpus, self.n, self.budget = rule, corpus, rule.n, rule.budget
        self.stages, self.offsets = rule.stages, corpus.offsets
        self.lengths = np.diff(corpus.offsets)
        self.last = len(self.stages) - 1
        self.visible = rule.visible
        self.all_visible = len(self.visible) == len(self.stages)
        self.heuristic = [rule.heuristic(k, self.lengths) for k in range(len(self.stages))]
        self.incumbents = Incumbents(
            self.offsets, self.n, len(self.visible), repeated=not self.all_visible
        )
        self.contexts: list[RescoringContext] = []  # one for each stage
        self.frontier: list[list[_Nodes]] = []  # prefixes, by their next tape
        self._cascade()

    def run(self) -> Incumbents:
        """Expand prefixes until all incumbents are exact or the budget ends."""
        wanted, tapes = min(_FIRST, self.budget), range(self.last)
        while self.budget > 1 and not self.rule.expired and any(map(self._open_nodes, tapes)):
            for k in tapes:
                self._expand_tape(k, wanted)
            if wanted >= self.budget:
                break
            wanted = min(8 * wanted, self.budget)
        for k in tapes:
            nodes = self._open_nodes(k)
            np.maximum.at(self.incumbents.bound, nodes.prefixes.sentence, nodes.upper)
        return self.incumbents

    # --- The cascade --------------------------------------------------------------------------

    def _cascade(self) -> None:
        """Decode the tapes one after the other: the first incumbents, and the first frontier."""
        corpus, every = self.corpus, np.arange(len(self.corpus))
        prefixes = Prefixes(self.offsets, every, np.zeros(len(every)), ())
        for k, stage in enumerate(self.stages):
            potentials = partial(self.rule.potentials, k)
            context = RescoringContext(stage, corpus, prefixes.labels, potentials)
            self.contexts.append(context)
            normaliser: Floats = np.zeros(len(every))
            if k or self.rule.scored:  # the first log Z is the same for all labellings
                log_z = kernel.log_partitions(context.free)
                normaliser = stage.exponent * np.where(np.isneginf(log_z), 0.0, log_z)
            if k < self.last:
                ranked, others = self._first_ranking(k, context)
                score = ranked.score[:, 0] - normaliser
                upper = prefixes.score + np.maximum(ranked.score[:, 1], others) - normaliser
                cursor = np.ones(len(every), np.int64)
                self.frontier.append([_Nodes(prefixes, normaliser, cursor, upper)])
                labels = np.maximum(stage.labels(ranked.path[0]), 0)  # −1 without a legal path
                corpus = with_tape(corpus, stage.tagger, labels)
                prefixes = replace(
                    prefixes, score=prefixes.score + score, labels=(*prefixes.labels, labels)
                )
            else:
                score = self._complete(prefixes, context.legal, normaliser) - normaliser
            context.dead = np.isneginf(score)
            if not stage.depends_on_earlier:
                self._tighten_heuristic(k, score)
        for k, (nodes,) in enumerate(self.frontier):
            nodes.upper = nodes.upper + self.heuristic[k]

    def _first_ranking(self, k: int, context: RescoringContext) -> tuple[kernel.Ranked, Floats]:
        """Rank the two best labellings of a tape; of the first tape enough for the first round.

        Also returned is an upper bound of the scores of labellings that are left out, [B].
        """
        n, longest, within = min(_FIRST, self.budget) + 1, context.legal.longest, np.inf
        if k == 0 and n > 2 and not self.rule.has_deadline and longest * n <= _PART_TOKENS:
            within = _WITHIN + np.log(self.n)
        ranked = kernel.nbest_paths(context.legal, n if within < np.inf else 2, within=within)
        others = ranked.score[:, 0] - within
        if k == 0:
            self.first_ranked, self.first_others = ranked, others
        return ranked, others

    def _tighten_heuristic(self, k: int, score: Floats) -> None:
        """Tighten the bounds: stage k does not depend on earlier tapes, so its score is known."""
        for j in range(k):
            assumed = self.rule.heuristic(k - 1, self.lengths)
            more = score - (assumed - self.rule.heuristic(k, self.lengths))
            self.heuristic[j] = self.heuristic[j] + np.where(np.isfinite(more), more, 0.0)

    # --- Prefixes -----------------------------------------------------------------------------

    def _evaluate(self, k: int, prefixes: Prefixes) -> None:
        """Score prefixes with stage k; add them to the frontier, or complete them at the last."""
        sentence, incumbents = prefixes.sentence, self.incumbents
        best, normaliser = self.contexts[k].best(prefixes)
        total = prefixes.score + best - normaliser
        if k < self.last:
            upper = total + self.heuristic[k][sentence]
            where = np.flatnonzero(upper > self._threshold(prefixes))
            cursor = np.zeros(len(where), np.int64)
            nodes = _Nodes(prefixes.select(where), normaliser[where], cursor, upper[where])
            self.frontier[k].append(nodes)
        elif self.last not in self.visible:
            where = np.flatnonzero(total > self._threshold(prefixes))
            self._put(prefixes.select(where), total[where])
        elif self.all_visible:
            where, raised = incumbents.promising(sentence, total)
            self._complete_batches(prefixes, normaliser, where, raised)
        else:  # several prefixes may have the same visible labels
            for part in _best_and_others(sentence, total):
                where = part[total[part] > incumbents.threshold[sentence[part]]]
                self._complete_batches(prefixes, normaliser, where, incumbents.threshold)

    def _threshold(self, prefixes: Prefixes) -> Floats:
        """Return the score that a labelling with each prefix must exceed to be added, [P]."""
        threshold = self.incumbents.threshold[prefixes.sentence]
        if self.visible[-1] >= len(prefixes.labels):
            return threshold
        visible = [prefixes.labels[k] for k in self.visible]  # may be incumbents already
        return np.maximum(threshold, self.incumbents.scores_of(prefixes.sentence, visible))

    def _complete_batches(
        self, prefixes: Prefixes, normaliser: Floats, where: Longs, threshold: Floats
    ) -> None:
        """Complete the prefixes `where`; keep labellings above a threshold, [B]."""
        stage, context = self.stages[-1], self.contexts[-1]
        for part in prefixes.rows.select(where).runs(max(1, _PATH_TOKENS // self.n)):
            some = where[slice(*part)]
            selected = prefixes.select(some)
            batch = stage.legal_batch(context.under(selected))
            self._complete(selected, batch, normaliser[some], threshold)

    def _complete(
        self,
        prefixes: Prefixes,
        batch: kernel.Bound,
        normaliser: Floats,
        threshold: Floats | None = None,
    ) -> Floats:
        """Add labellings with the n best labels of the last tape; return the best scores, [P]."""
        base, sentence = prefixes.score - normaliser, prefixes.sentence
        n = self.n if self.last in self.visible else 1
        above = None if threshold is None else _least_score(threshold[sentence], base)
        ranked = _nbest(batch, n, above)
        total = base[:, None] + ranked.score
        place, rank = np.nonzero(total > self.incumbents.threshold[sentence, None])
        path = _select_paths(ranked.path, prefixes.rows, place, rank)
        labels = self.stages[-1].labels(path)
        selected = prefixes.select(place)
        self._put(replace(selected, labels=(*selected.labels, labels)), total[place, rank])
        return ranked.score[:, 0]

    def _put(self, prefixes: Prefixes, total: Floats) -> None:
        if len(total):
            visible = [prefixes.labels[k] for k in self.visible]
            self.incumbents.put(prefixes.sentence, total, visible)

    def _open_nodes(self, k: int) -> _Nodes:
        """Return, and keep in the frontier, the nodes whose upper bound exceeds the threshold."""
        nodes = _Nodes.joined(self.frontier[k])
        self.frontier[k] = [nodes.filtered(nodes.upper > self._threshold(nodes.prefixes))]
        return self.frontier[k][0]

    def _expand_tape(self, k: int, wanted: int) -> None:
        """Expand open nodes: `wanted` labellings of tape 0, `_INNER * wanted` of another tape."""
        nodes = self._open_nodes(k)
        sentence = nodes.prefixes.sentence
        shares = (
            [(wanted, np.arange(len(sentence)))]
            if k == 0
            else _shares(sentence, _INNER * wanted, self.budget)
        )
        size = _LOOK_TOKENS if not self.rule.has_deadline else _PART_TOKENS
        for n, sharing in shares:
            where = sharing[nodes.cursor[sharing] < n]
            for part, step in _batches(sentence[where], self.lengths, n, size):
                if not self.rule.expired:
                    self._expand(k, nodes, where[part], n, step)

    def _expand(self, k: int, nodes: _Nodes, where: Longs, n: int, step: int) -> None:
        """Expand the n best labellings of tape k under some nodes, `step` of each node at once."""
        prefixes, normaliser = nodes.prefixes.select(where), nodes.normaliser[where]
        gain, threshold = self.heuristic[k][prefixes.sentence], self._threshold(prefixes)
        above = _least_score(threshold, prefixes.score + gain - normaliser)
        ranked, paths, row = self._ranking(k, prefixes, n, above)
        score = prefixes.score[:, None] + ranked.score[row] - normaliser[:, None]
        upper = score + gain[:, None]
        new = np.arange(n + 1) >= nodes.cursor[where, None]
        first = int(nodes.cursor[where].min())
        for start in range(first, n, step):
            if start > first and self.rule.expired:
                n = start
                break
            block = slice(start, min(start + step, n))
            threshold = self._threshold(prefixes)[:, None]
            place, rank = np.nonzero(new[:, block] & (upper[:, block] > threshold))
            if len(place):
                rank += start
                base = prefixes.select(place)
                path = _select_paths(ranked.path, paths, row[place], rank)
                labels = (*base.labels, self.stages[k].labels(path))
                self._evaluate(k + 1, replace(base, score=score[place, rank], labels=labels))
        nodes.cursor[where], nodes.upper[where] = n, upper[:, n]

    def _ranking(
        self, k: int, prefixes: Prefixes, n: int, above: Floats
    ) -> tuple[kernel.Ranked, Ragged, Longs]:
        """Rank n + 1 labellings of tape k under each prefix.

        Also returned are the bounds of the rows in the paths, and the row of each prefix, [P].
        """
        sentence, first = prefixes.sentence, self.first_ranked
        cached = k == 0 and n < first.score.shape[1]
        incomplete = self.first_others[sentence] > above
        some = np.flatnonzero(incomplete) if cached else np.arange(len(sentence))
        if len(some):
            selected = prefixes.select(some)
            batch = self.stages[k].legal_batch(self.contexts[k].under(selected))
            ranked = kernel.nbest_paths(batch, n + 1, above=above[some])
            if not cached:
                return ranked, selected.rows, some
            first.score[selected.sentence] = ranked.score
            first.path[:, selected.tokens] = ranked.path
        return first, Ragged(self.offsets), sentence


@dataclass(eq=False)
class _Nodes:
    """Nodes of the search: prefixes whose labellings of the next tape are not all expanded."""

    prefixes: Prefixes
    normaliser: Floats  # [P] weighted log Z of the next stage under each prefix
    cursor: Longs  # [P] number of labellings of the next tape already expanded, best first
    upper: Floats  # [P] upper bound of the scores of all other labellings with this prefix

    def __len__(self) -> int:
        return len(self.upper)

    @classmethod
    def joined(cls, parts: Sequence[_Nodes]) -> _Nodes:
        """Concatenate nodes, in the order of their sentences."""
        if len(parts) == 1:
            return parts[0]
        several = [part.prefixes for part in parts]
        labels = tuple(map(np.concatenate, zip(*(p.labels for p in several), strict=True)))
        sentence = np.concatenate([p.sentence for p in several])
        score = np.concatenate([p.score for p in several])
        order = np.argsort(sentence, kind="stable")
        normaliser, cursor, upper = (
            np.concatenate([getattr(part, name) for part in parts])[order]
            for name in ("normaliser", "cursor", "upper")
        )
        prefixes = Prefixes(several[0].offsets, sentence, score, labels)
        return cls(prefixes.select(order), normaliser, cursor, upper)

    def filtered(self, kept: Bools) -> _Nodes:
        """Return the kept nodes, bool [P]."""
        if kept.all():
            return self
        where = np.flatnonzero(kept)
        arrays = self.normaliser[where], self.cursor[where], self.upper[where]
        return _Nodes(self.prefixes.select(where), *arrays)


def _shares(sentence: Longs, share: int, most: int) -> list[tuple[int, Longs]]:
    """Share a number of labellings among the prefixes of each sentence.

    Returns the number for each prefix, rounded down to a power of two, and the prefixes with it.
    """
    _, place, count = np.unique(sentence, return_inverse=True, return_counts=True)
    each = np.clip(share // count[place], 1, most)
    power = np.floor(np.log2(each)).astype(np.int64)
    return [(1 << p, np.flatnonzero(power == p)) for p in distinct(power).tolist()]


def _batches(sentence: Longs, lengths: Longs, n: int, tokens: int) -> Iterator[tuple[slice, int]]:
    """Yield batches of prefixes, and how many of n labellings of each are expanded at once.

    The prefixes of one large sentence are cut in the same way in every batch.
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


def _best_and_others(sentence: Longs, total: Floats) -> tuple[Longs, Longs]:
    """Return the best prefix of each sentence, and all other prefixes."""
    order = np.lexsort((-total, sentence))
    best = np.append(True, np.diff(sentence[order]) > 0)
    return order[best], np.sort(order[~best])


def _nbest(batch: kernel.Bound, n: int, above: Floats | None) -> kernel.Ranked:
    """Return the n best paths; memory grows with the number of paths that exist."""
    if n == 1:
        path, score = kernel.best_paths(batch)
        return kernel.Ranked(np.ones(len(score), np.int64), score[:, None], path[None])
    for size in kernel.growing(n):
        ranked = kernel.nbest_paths(batch, size, above=above)
        if int(ranked.found.max(initial=0)) < size:
            break
    return ranked


def _least_score(threshold: Floats, added: Floats) -> Floats:
    """Return a lower bound of the path scores that exceed a threshold once `added` is added.

    It leaves room for rounding; callers compare the sums again.
    """
    score = threshold - added
    score -= _ROUNDING * (np.abs(threshold) + np.abs(added))
    return np.where(np.isfinite(score), score, -np.inf)


def _select_paths(paths: Ints, rows: Ragged, place: Longs, rank: Longs) -> Ints:
    """Return, concatenated, the paths of these ranks and rows."""
    selected: Ints = paths[0]
    if len(paths) > 1 or len(place) < len(rows):
        chosen = rows.select(place)
        cells = chosen.repeat(rank) * paths.shape[1] + chosen.ranges(rows.offsets[place])
        selected = paths.ravel().take(cells)
    return selected

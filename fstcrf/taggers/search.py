"""Branch and bound over the chain rule: the n best labellings, for a batch of sentences.

A *prefix* is a labelling of the first tapes. Its score is an upper bound of all labellings that
begin with it, up to a heuristic as in A*: the most that grammars and biases of later tapes can add.
This holds because the factor of each later tagger is a probability, so its log is at most 0.

The *cascade* labels each tape given the best labels of the earlier tapes. Its labels, and the n
best labels of the last tape after them, are the first *incumbents* (`taggers/prefixes.py`). A
sentence is open while the upper bound of some prefix exceeds its threshold, the score of its n-th
incumbent. Once no sentence is open, the incumbents are exact; if the budget ends first, the largest
open upper bound limits the score of all labellings that were not found.

Unlike a beam search, the search drops a prefix only if its upper bound shows that it is not needed.
Unlike A*, it expands many prefixes at once: the best 16 labellings of the first tape of all open
sentences, then 128, 1024, ... within the budget, and fewer of a later tape for each prefix. A
prefix of several tapes is a node of the *frontier*, with the number of labellings of the next tape
already expanded, and the upper bound of the others. The next tagger rescores the tokens at which a
prefix differs from the cascade (`taggers/prefixes.py`). A prefix of all tapes but the last is first
scored with its best labels of the last tape. The search computes n of them only if this score is
among the n best.

Hard rules over several tapes (`Stage.hard`) make a stage slow, since its machine is then a product.
So the search first runs without them. If all n best labellings of a sentence obey the rules, they
are its answer, with the same bound. The other sentences get *candidates*: the best labellings of
the product of all taggers under the rules, which is one machine. Their scores in the chain follow
from their scores in the product and from log Z of each tagger given the labels of earlier tapes.
Then the search runs again. It drops prefixes that cannot exceed the candidates even without the
rules, and completes the others under the rules.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.lattices import Answer
from fstcrf.taggers.chainrule import LATER, ChainRule, product_answer
from fstcrf.taggers.prefixes import Incumbents, Prefixes, RescoringContext, keys_of, ranks
from fstcrf.taggers.stages import with_tape
from fstcrf.text.corpus import Corpus

if TYPE_CHECKING:
    pass

_FIRST = 16  # labellings of the first tape in the first round; eight times more in each later round
_WITHIN = 2.0  # nats: the first ranking omits labellings further below the best
_ROUNDING = 1e-9  # relative
_PATH_TOKENS = 4_000_000  # tokens in a batch of completions
_LOOK_TOKENS = 400_000  # tokens in a batch of prefixes
_FEW_TOKENS = 1_000  # tokens in a batch of prefixes under hard rules, before a deadline
_CANDIDATES = 16  # labellings of the product for each sentence, at least
_LISTED = 8  # labellings without hard rules, for each that is wanted under them
_COMPLETED = 12  # prefixes of a sentence in a round, at least, that are completed under hard rules
_AGAIN = 64  # labellings of the first tape in the first round under hard rules
_PART_TOKENS = 20_000  # tokens in a batch of prefixes of one sentence, or before a deadline


_Key = tuple[int, tuple[bytes, ...]]
"""A sentence, and labels of all tapes but the last."""


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
        self.ruled = self.stages  # until the search obeys hard rules over several tapes
        self.lengths = np.diff(corpus.offsets)
        self.last = len(self.stages) - 1
        self.visible = rule.visible
        self.all_visible = len(self.visible) == len(self.stages)
        self.heuristic = [rule.heuristic(k, self.lengths) for k in range(len(self.stages))]
        self.incumbents = self._no_incumbents()
        self.floor: Floats = np.full(
            len(corpus), -np.inf
        )  # scores that the n best labellings exceed
        self.listed: dict[_Key, float] = {}  # best score in the product, by labels of other tapes
        self.unlisted = np.full(len(corpus), np.inf)  # largest score of all others in the product
        hard = any(stage.hard for stage in rule.ruled)
        self.until = rule.until(0.5 if hard else 1.0)  # candidates are found in any case
        self.contexts: list[RescoringContext] = []  # one for each stage
        self.frontier: list[list[_Nodes]] = []  # prefixes, by their next tape
        self._cascade()

    def run(self) -> Incumbents:
        """Expand prefixes until all incumbents are exact or the budget ends."""
        self._expand_all()
        if any(stage.hard for stage in self.rule.ruled):
            self._obey()
        return self.incumbents

    @property
    def _expired(self) -> bool:
        return self.rule.has_deadline and time.monotonic() > self.until

    def _no_incumbents(self) -> Incumbents:
        return Incumbents(self.offsets, self.n, len(self.visible), repeated=not self.all_visible)

    def _expand_all(self) -> None:
        first = _FIRST if self.ruled is self.stages else _AGAIN
        wanted, tapes = min(first, self.budget), range(len(self.frontier))
        while self.budget > 1 and not self._expired and any(map(self._open_nodes, tapes)):
            for k in range(self.last):
                self._expand_tape(k, wanted)
            if self.last in tapes:
                self._complete_open(max(_COMPLETED, wanted // 8))
            if wanted >= self.budget:
                break
            wanted = min(8 * wanted, self.budget)
        for k in tapes:
            nodes = self._open_nodes(k)
            np.maximum.at(self.incumbents.bound, nodes.prefixes.sentence, nodes.upper)

    # --- The cascade --------------------------------------------------------------------------

    def _cascade(self) -> None:
        """Decode the tapes one after the other: the first incumbents, and the first frontier."""
        corpus, sentences = self.corpus, np.arange(len(self.corpus))
        prefixes = Prefixes.empty(self.offsets, sentences)
        for k, stage in enumerate(self.stages):
            potentials = partial(self.rule.potentials, k)
            context = RescoringContext(stage, corpus, prefixes.labels, potentials)
            self.contexts.append(context)
            normaliser: Floats = np.zeros(len(sentences))
            if k or self.rule.scored:  # the first log Z is the same for all labellings
                log_z = kernel.log_partitions(context.plain)
                normaliser = stage.exponent * np.where(np.isneginf(log_z), 0.0, log_z)
            if k == 0:
                self.first_normaliser = normaliser
            if k < self.last:
                nbest, others = self._first_ranking(k, context)
                score = nbest.score[:, 0] - normaliser
                upper = prefixes.score + np.maximum(nbest.score[:, 1], others) - normaliser
                cursor = np.ones(len(sentences), np.int64)
                self.frontier.append([_Nodes(prefixes, normaliser, cursor, upper)])
                labels = np.maximum(stage.labels(nbest.path[0]), 0)  # −1 without a legal path
                corpus = with_tape(corpus, stage.tagger, labels)
                prefixes = prefixes.longer(score, normaliser, labels)
            else:
                nbest = self._labellings(context.legal, None)
                self._complete(prefixes, nbest, normaliser)
                score = nbest.score[:, 0] - normaliser
            context.dead = np.isneginf(score)
            if not stage.depends_on_earlier:
                self._tighten_heuristic(k, score)
        for k, (nodes,) in enumerate(self.frontier):
            nodes.upper = nodes.upper + self.heuristic[k]

    def _first_ranking(self, k: int, context: RescoringContext) -> tuple[kernel.NBestPaths, Floats]:
        """Rank the two best labellings of a tape; of the first tape enough for the first round.

        Also returned is an upper bound of the scores of labellings that are left out, [B].
        """
        n, longest, within = min(_FIRST, self.budget) + 1, context.legal.longest, np.inf
        if k == 0 and n > 2 and not self.rule.has_deadline and longest * n <= _PART_TOKENS:
            within = _WITHIN + np.log(self.n)
        nbest = kernel.nbest_paths(context.legal, n if within < np.inf else 2, within=within)
        others = nbest.score[:, 0] - within
        if k == 0:
            self.first_ranked, self.first_others = nbest, others
        return nbest, others

    def _tighten_heuristic(self, k: int, score: Floats) -> None:
        """Tighten the bounds: stage k does not depend on earlier tapes, so its score is known."""
        for j in range(k):
            assumed = self.rule.heuristic(k - 1, self.lengths)
            more = score - (assumed - self.rule.heuristic(k, self.lengths))
            self.heuristic[j] = self.heuristic[j] + np.where(np.isfinite(more), more, 0.0)

    @property
    def _n_last(self) -> int:
        """Number of labellings of the last tape for each prefix."""
        return self.n if self.last in self.visible else 1

    def _labellings(self, batch: kernel.Bound, above: Floats | None) -> kernel.NBestPaths:
        """Return the best labellings of the last tape; paths are labels."""
        nbest = _nbest(batch, self._n_last, above)
        return nbest._replace(path=self.stages[-1].labels(nbest.path))

    # --- Hard rules over several tapes --------------------------------------------------------

    def _obey(self) -> None:
        """Replace incumbents that break hard rules by the best that obey them."""
        relaxed = self.incumbents
        missing = np.isneginf(relaxed.score)
        legal = (self._obeying(relaxed) | missing).all(axis=1) & ~missing[:, 0]
        if legal.all():
            return
        illegal = np.flatnonzero(~legal)
        candidates, impossible = self._candidates(illegal)
        self.incumbents, self.ruled = self._no_incumbents(), self.rule.ruled
        self.until = self.rule.until(1.0)
        self._restart(illegal[~impossible], candidates)
        self._expand_all()
        obeying = self.incumbents
        obeying.bound = np.minimum(obeying.bound, np.maximum(relaxed.bound, relaxed.score[:, 0]))
        self._put_better(candidates)
        self._put_all(relaxed, np.flatnonzero(legal))
        obeying.bound[legal] = relaxed.bound[legal]

    def _obeying(self, incumbents: Incumbents) -> Bools:
        """Return which incumbents obey the hard rules, bool [B, W]; none if tapes are hidden."""
        obeys = np.zeros(incumbents.score.shape, dtype=bool)
        if not self.all_visible:
            return obeys
        sentence, rank = np.nonzero(incumbents.score > -np.inf)
        labels = incumbents.labellings(sentence, rank)
        none = np.zeros(len(sentence))
        prefixes = Prefixes(self.offsets, sentence, none, none, tuple(labels))
        legal = np.ones(len(sentence), dtype=bool)
        for k, stage in enumerate(self.rule.ruled):
            if stage.hard:
                before = replace(prefixes, labels=prefixes.labels[:k])
                ids = self.contexts[k].ids(before) | {stage.tagger.tape: labels[k]}
                legal &= stage.obeys(ids, prefixes.rows.offsets)
        obeys[sentence, rank] = legal
        return obeys

    def _restart(self, sentences: Longs, candidates: Incumbents) -> None:
        """Begin the search of some sentences again, for labellings as good as the candidates."""
        least = candidates.threshold
        self.floor = least - _rounding(least)
        self.budget = self.rule.wide_budget
        normaliser, count = self.first_normaliser[sentences], np.zeros(len(sentences), np.int64)
        upper = self.first_ranked.score[sentences, 0] - normaliser + self.heuristic[0][sentences]
        prefixes = Prefixes.empty(self.offsets, sentences)
        self.frontier = [[_Nodes(prefixes, normaliser, count, upper)]]
        for k in range(1, self.last + bool(self.ruled[-1].hard)):
            prefixes, none = Prefixes.empty(self.offsets, sentences[:0], k), normaliser[:0]
            self.frontier.append([_Nodes(prefixes, none, count[:0], none)])

    def _candidates(self, sentences: Longs) -> tuple[Incumbents, Bools]:
        """Return the best labellings of the product under the rules, with scores in the chain.

        Also returned is whether a sentence has no legal labelling, bool [P].
        """
        candidates, impossible = self._no_incumbents(), np.zeros(len(sentences), dtype=bool)
        corpus = self.corpus.select(sentences)
        count = max(_CANDIDATES, 4 * self.n)
        answer = product_answer(self.rule, corpus, count)
        if answer is not None:
            self._put_candidates(candidates, sentences, answer)
            self.unlisted[sentences] = _rest(answer, count)
            bounds = answer.bounds.reshape(len(sentences), -1)[:, 0]
            impossible = answer.dead & np.isneginf(bounds)
        return candidates, impossible

    def _put_candidates(self, candidates: Incumbents, sentences: Longs, answer: Answer) -> None:
        """Add labellings of the product; their scores lack log Z of each tagger."""
        score, rows = answer.scores.reshape(len(sentences), -1), Ragged(answer.offsets)
        row, rank = np.nonzero(score > -np.inf)
        cells = rows.select(row).repeat(rank), rows.entries(row)
        labels = tuple(answer[tape].flat[cells] for tape in self.rule.order)
        none = np.zeros(len(row))
        labelled = Prefixes(self.offsets, sentences[row], score[row, rank], none, labels[:-1])
        number: dict[_Key, int] = {}
        keys = zip(labelled.sentence.tolist(), keys_of(labelled.rows, labelled.labels), strict=True)
        place = np.fromiter((number.setdefault(key, len(number)) for key in keys), np.int64)
        _, first = np.unique(place, return_index=True)
        prefixes = labelled.select(first)
        total = self.first_normaliser[prefixes.sentence]
        for k in range(1, self.last + 1):
            total = total + self.contexts[k].log_z(replace(prefixes, labels=prefixes.labels[:k]))
        candidates.put(
            labelled.sentence, labelled.score - total[place], [labels[k] for k in self.visible]
        )
        self.listed = dict(zip(number, prefixes.score.tolist(), strict=True))

    def _limited(self, prefixes: Prefixes, normaliser: Floats, upper: Floats) -> Floats:
        """Lower the bounds of prefixes of the last tape to those that the product proves, [P].

        The product lists its best labellings. With a prefix that the list has, no labelling exceeds
        the first one with it; with other prefixes, none exceeds the last one of the list.
        """
        keys = zip(prefixes.sentence.tolist(), keys_of(prefixes.rows, prefixes.labels), strict=True)
        best = np.asarray([self.listed.get(key, -np.inf) for key in keys])
        best = np.maximum(best, self.unlisted[prefixes.sentence])
        lower: Floats = np.minimum(upper, best + _rounding(best) - prefixes.log_z - normaliser)
        return lower

    def _put_all(self, incumbents: Incumbents, sentences: Longs) -> None:
        """Add the incumbents of some sentences that another search has found."""
        place, rank = np.nonzero(incumbents.score[sentences] > -np.inf)
        rows = sentences[place]
        labels = incumbents.labellings(rows, rank)
        self.incumbents.put(rows, incumbents.score[rows, rank], labels)

    def _put_better(self, candidates: Incumbents) -> None:
        """Add candidates that exceed the incumbents by more than rounding."""
        sentence, rank = np.nonzero(candidates.score > -np.inf)
        score, labels = candidates.score[sentence, rank], candidates.labellings(sentence, rank)
        same = self.incumbents.scores_of(sentence, labels)
        least = np.maximum(self.incumbents.threshold[sentence], same)
        better = np.flatnonzero(score - _rounding(score) > least)
        entries = Ragged(self.offsets).select(sentence).entries(better)
        labels = [ids[entries] for ids in labels]
        self.incumbents.put(sentence[better], score[better], labels)

    # --- Prefixes -----------------------------------------------------------------------------

    def _evaluate(self, k: int, prefixes: Prefixes) -> None:
        """Score prefixes with stage k; add them to the frontier, or complete them at the last."""
        sentence, incumbents = prefixes.sentence, self.incumbents
        best, normaliser = self.contexts[k].best(prefixes)
        total = prefixes.score + best - normaliser
        if k < len(self.frontier):
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
            for part in _in_turns(sentence, total, 1, 4, len(total)):
                where = part[total[part] > incumbents.threshold[sentence[part]]]
                self._complete_batches(prefixes, normaliser, where, incumbents.threshold)

    def _threshold(self, prefixes: Prefixes) -> Floats:
        """Return the score that a labelling with each prefix must exceed to be added, [P]."""
        sentence, threshold = prefixes.sentence, self.incumbents.threshold
        threshold = np.maximum(threshold, self.floor)[sentence]
        if self.visible[-1] >= len(prefixes.labels):
            return threshold
        visible = [prefixes.labels[k] for k in self.visible]  # may be incumbents already
        raised: Floats = np.maximum(threshold, self.incumbents.scores_of(sentence, visible))
        return raised

    def _complete_batches(
        self, prefixes: Prefixes, normaliser: Floats, where: Longs, threshold: Floats
    ) -> None:
        """Complete the prefixes `where`; keep labellings above a threshold, [B]."""
        stage, context = self.stages[-1], self.contexts[-1]
        for part in prefixes.rows.select(where).runs(max(1, _PATH_TOKENS // self.n)):
            some = where[slice(*part)]
            selected = prefixes.select(some)
            batch = stage.legal_batch(context.under(selected))
            base = selected.score - normaliser[some]
            above = _least_score(threshold[selected.sentence], base)
            nbest = self._labellings(batch, above)
            self._complete(selected, nbest, normaliser[some])

    def _complete_open(self, most: int) -> None:
        """Complete the most promising prefixes of each sentence under hard rules."""
        nodes = self._open_nodes(self.last)
        prefixes, open_ = nodes.prefixes, np.ones(len(nodes), dtype=bool)
        nodes.upper = self._limited(prefixes, nodes.normaliser, nodes.upper)
        size = _FEW_TOKENS if self.rule.has_deadline else _PATH_TOKENS
        for turn in _in_turns(prefixes.sentence, nodes.upper, 2, most):
            promising = turn[nodes.upper[turn] > self._threshold(prefixes.select(turn))]
            for part in prefixes.rows.select(promising).runs(max(1, size // self.n)):
                if self._expired:
                    break
                where = promising[slice(*part)]
                self._complete_ruled(prefixes.select(where), nodes.normaliser[where])
                open_[where] = False
        self.frontier[self.last] = [nodes.filtered(open_)]

    def _complete_ruled(self, prefixes: Prefixes, normaliser: Floats) -> None:
        """Complete prefixes under hard rules."""
        nbest, others = self._ranked_under_rules(self.last, prefixes, self._n_last)
        others = others + prefixes.score - normaliser
        np.maximum.at(self.incumbents.bound, prefixes.sentence, others)
        self._complete(prefixes, nbest, normaliser)

    def _ranked_under_rules(
        self, k: int, prefixes: Prefixes, n: int
    ) -> tuple[kernel.NBestPaths, Floats]:
        """Rank n labellings of tape k under hard rules; also an upper bound of unproven ones.

        Paths are labels. If the rules accept n of the best labellings without the rules, these are
        the n best. Other prefixes need the machine with the rules, whose states are pairs of labels
        of this tape and of the tapes that the rules read.
        """
        size, tokens = len(prefixes.sentence), int(prefixes.rows.offsets[-1])
        score, bound = np.full((size, n), -np.inf), np.full(size, -np.inf)
        path, rest = np.full((n, tokens), -1, np.int32), np.arange(size)
        if not self.stages[k].observed:
            runs = prefixes.rows.runs(max(1, _PATH_TOKENS // (_LISTED * n)))
            left = [
                self._list_under_rules(k, prefixes, rest[slice(*run)], _LISTED * n, score, path)
                for run in runs
            ]
            rest = np.concatenate([rest[:0], *left])
        if len(rest):
            stage, context, selected = self.ruled[k], self.contexts[k], prefixes.select(rest)
            observed = stage.observed_labels(context.ids(selected))
            batch = stage.legal_batch(replace(context.under(selected), observed=observed))
            result = stage.legal.decoder.paths(batch, n, self.rule.rest)
            width = result.score.shape[1]
            score[rest, :width], bound[rest] = result.score, result.bound
            path[:width, prefixes.rows.entries(rest)] = stage.labels(result.path)
        return kernel.NBestPaths((score > -np.inf).sum(axis=1), score, path), bound

    def _list_under_rules(
        self, k: int, prefixes: Prefixes, some: Longs, count: int, score: Floats, path: Ints
    ) -> Longs:
        """Rank labellings of some prefixes among the `count` best without hard rules.

        Scores and labels of the ranked ones are written to the rows of their prefixes. Returns the
        prefixes that need a longer list.
        """
        n, stage, context, selected = (
            len(path),
            self.ruled[k],
            self.contexts[k],
            prefixes.select(some),
        )
        listed = _nbest(self.stages[k].legal_batch(context.under(selected)), count, None)
        row, rank = np.nonzero(listed.score > -np.inf)
        labels = self.stages[k].labels(_select_paths(listed.path, selected.rows, row, rank))
        labelled = selected.select(row)
        ids = context.ids(labelled) | {stage.tagger.tape: labels}
        obeys = np.zeros(listed.score.shape, dtype=bool)
        obeys[row, rank] = stage.obeys(ids, labelled.rows.offsets)
        place = np.cumsum(obeys, axis=1)[row, rank] - 1
        kept = np.flatnonzero(obeys[row, rank] & (place < n))
        where, place = some[row[kept]], place[kept]
        score[where, place] = listed.score[row[kept], rank[kept]]
        cells = prefixes.rows.select(where).repeat(place), prefixes.rows.entries(where)
        path[cells] = labels[labelled.rows.entries(kept)]
        incomplete = (obeys.sum(axis=1) < n) & (listed.n_paths == listed.score.shape[1])
        longer: Longs = some[incomplete]
        return longer

    def _complete(self, prefixes: Prefixes, nbest: kernel.NBestPaths, normaliser: Floats) -> None:
        """Add labellings with ranked labels of the last tape."""
        base, sentence = prefixes.score - normaliser, prefixes.sentence
        total = base[:, None] + nbest.score
        place, rank = np.nonzero(total > self.incumbents.threshold[sentence, None])
        labels = _select_paths(nbest.path, prefixes.rows, place, rank)
        selected = prefixes.select(place)
        self._put(replace(selected, labels=(*selected.labels, labels)), total[place, rank])

    def _put(self, prefixes: Prefixes, total: Floats) -> None:
        visible = [prefixes.labels[k] for k in self.visible]
        self.incumbents.put(prefixes.sentence, total, visible)

    def _open_nodes(self, k: int) -> _Nodes:
        """Return, and keep in the frontier, the nodes whose upper bound exceeds the threshold."""
        nodes = _Nodes.joined(self.frontier[k])
        self.frontier[k] = [nodes.filtered(nodes.upper > self._threshold(nodes.prefixes))]
        return self.frontier[k][0]

    def _expand_tape(self, k: int, wanted: int) -> None:
        """Expand open nodes: `wanted` labellings of tape 0, `LATER` or more of another tape."""
        nodes = self._open_nodes(k)
        sentence, chosen = nodes.prefixes.sentence, np.arange(len(nodes))
        if self.ruled[k].hard and k:  # each ranking under the rule takes long
            order = np.lexsort((-nodes.upper, sentence))
            chosen = np.sort(order[ranks(sentence[order]) < max(_COMPLETED, wanted // 8)])
        size = _LOOK_TOKENS
        if self.rule.has_deadline:
            size = _FEW_TOKENS if self.ruled[k].hard else _PART_TOKENS
        n = min(max(LATER, wanted // 8, self.n // 4), self.budget) if k else wanted
        where = chosen[nodes.cursor[chosen] < n]
        for part, step in _batches(sentence[where], self.lengths, n, size):
            if not self._expired:
                self._expand(k, nodes, where[part], n, step)

    def _expand(self, k: int, nodes: _Nodes, where: Longs, n: int, step: int) -> None:
        """Expand the n best labellings of tape k under some nodes, `step` of each node at once."""
        prefixes, normaliser = nodes.prefixes.select(where), nodes.normaliser[where]
        gain, threshold = self.heuristic[k][prefixes.sentence], self._threshold(prefixes)
        above = _least_score(threshold, prefixes.score + gain - normaliser)
        hard = bool(self.ruled[k].hard)
        if hard:
            nbest, others = self._ranked_under_rules(k, prefixes, n + 1)
            others = others + prefixes.score + gain - normaliser
            np.maximum.at(self.incumbents.bound, prefixes.sentence, others)
            paths, row = prefixes.rows, np.arange(len(where))
        else:
            nbest, paths, row = self._ranking(k, prefixes, n, above)
        score = prefixes.score[:, None] + nbest.score[row] - normaliser[:, None]
        upper = score + gain[:, None]
        new = np.arange(n + 1) >= nodes.cursor[where, None]
        first = int(nodes.cursor[where].min())
        for start in range(first, n, step):
            if start > first and self._expired:
                n = start
                break
            block = slice(start, min(start + step, n))
            threshold = self._threshold(prefixes)[:, None]
            place, rank = np.nonzero(new[:, block] & (upper[:, block] > threshold))
            if len(place):
                rank += start
                base = prefixes.select(place)
                path = _select_paths(nbest.path, paths, row[place], rank)
                labels = (*base.labels, path if hard else self.stages[k].labels(path))
                log_z = base.log_z + normaliser[place]
                longer = Prefixes(*(base.offsets, base.sentence, score[place, rank], log_z), labels)
                self._evaluate(k + 1, longer)
        nodes.cursor[where], nodes.upper[where] = n, upper[:, n]

    def _ranking(
        self, k: int, prefixes: Prefixes, n: int, above: Floats
    ) -> tuple[kernel.NBestPaths, Ragged, Longs]:
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
            nbest = kernel.nbest_paths(batch, n + 1, above=above[some])
            if not cached:
                return nbest, selected.rows, some
            first.score[selected.sentence] = nbest.score
            first.path[:, selected.tokens] = nbest.path
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
        sentence, score, log_z = (
            np.concatenate([getattr(p, name) for p in several])
            for name in ("sentence", "score", "log_z")
        )
        order = np.argsort(sentence, kind="stable")
        normaliser, cursor, upper = (
            np.concatenate([getattr(part, name) for part in parts])[order]
            for name in ("normaliser", "cursor", "upper")
        )
        prefixes = Prefixes(several[0].offsets, sentence, score, log_z, labels)
        return cls(prefixes.select(order), normaliser, cursor, upper)

    def filtered(self, kept: Bools) -> _Nodes:
        """Return the kept nodes, bool [P]."""
        if kept.all():
            return self
        where = np.flatnonzero(kept)
        arrays = self.normaliser[where], self.cursor[where], self.upper[where]
        return _Nodes(self.prefixes.select(where), *arrays)


def _rest(answer: Answer, n: int) -> Floats:
    """Return an upper bound of the scores of labellings that are not among the n best, [B]."""
    size = len(answer)
    score, bounds = answer.scores.reshape(size, -1), answer.bounds.reshape(size, -1)
    last = score[:, -1] if score.shape[1] == n else np.full(size, -np.inf)
    unproven = np.where(answer.exact.reshape(size, -1), -np.inf, bounds)
    rest: Floats = np.maximum(last, unproven.max(axis=1))
    return rest


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


def _in_turns(sentence: Longs, total: Floats, *ends: int) -> Iterator[Longs]:
    """Yield the best prefixes of each sentence, up to each of these ranks, which rise."""
    order = np.lexsort((-total, sentence))
    rank = ranks(sentence[order])
    for first, end in pairwise((0, *ends)):
        part = order[(rank >= first) & (rank < end)]
        if len(part):
            yield np.sort(part)


def _nbest(batch: kernel.Bound, n: int, above: Floats | None) -> kernel.NBestPaths:
    """Return the n best paths; memory grows with the number of paths that exist."""
    if n == 1:
        path, score = kernel.best_paths(batch)
        return kernel.NBestPaths(np.ones(len(score), np.int64), score[:, None], path[None])
    for size in kernel.growing(n):
        nbest = kernel.nbest_paths(batch, size, above=above)
        if int(nbest.n_paths.max(initial=0)) < size:
            break
    return nbest


def _rounding(score: Floats) -> Floats:
    """Return how much rounding may change scores; 0 for infinite ones."""
    rounding: Floats = _ROUNDING * np.maximum(1.0, np.abs(score))
    rounding[~np.isfinite(score)] = 0.0
    return rounding


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

"""Prefixes of a search over a chain, and its incumbents: the best labellings found so far.

A prefix is a labelling of the first tapes, scored by the next tagger. Most prefixes differ from the
labels of the cascade at a few tokens. If the next tagger reads them in node potentials only, the
kernel recomputes its recursions from those tokens on.

Incumbents are the n best distinct labellings of each sentence. Two labellings are distinct if their
labels differ on some visible tape. Equal labellings are found by a hash of their labels, and
compared if the hashes agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.lazy import made_once
from fstcrf.taggers.stages import Stage, StagePotentials, with_tape
from fstcrf.text.corpus import Corpus

_WIDE = 1024  # initial capacity: labellings of a sentence

_Hashes = NDArray[np.uint64]


class Incumbents:
    """The n best labellings of the visible tapes, for each sentence of a corpus, best first.

    Parameters
    ----------
    offsets : int64 [B + 1]
    n : int
    tapes : int
        Number of visible tapes.
    repeated : bool
        Whether the search may find one labelling repeatedly.

    Attributes
    ----------
    labels : list of int32 [W, N]
        One array for each visible tape; −1 in unused rows. W is the capacity, at most n.
    score : float64 [B, W]
        Descending; −inf in unused columns.
    bound : float64 [B]
        Upper bound of the scores of all other labellings.
    """

    def __init__(self, offsets: Longs, n: int, tapes: int, *, repeated: bool) -> None:
        size, width = len(offsets) - 1, min(n, _WIDE)
        self.offsets, self.n, self.repeated = offsets, n, repeated
        self.score = np.full((size, width), -np.inf)
        self.labels = [np.full((width, int(offsets[-1])), -1, np.int32) for _ in range(tapes)]
        self.bound = np.full(size, -np.inf)
        self._rows = Ragged(offsets)

    @property
    def threshold(self) -> Floats:
        """Score of the n-th incumbent, [B], which new ones must exceed; −inf if there are fewer."""
        full = self.score.shape[1] == self.n
        return self.score[:, -1] if full else np.full(len(self._rows), -np.inf)

    @property
    def count(self) -> int:
        """Maximum number of incumbents of a sentence."""
        return int((self.score > -np.inf).sum(axis=1).max(initial=0))

    def columns(self, n: int) -> Floats:
        """Return the scores, padded to [B, n] with −inf."""
        score, more = self.score[:, :n], max(0, n - self.score.shape[1])
        return np.pad(score, ((0, 0), (0, more)), constant_values=-np.inf) if more else score

    def rows(self, tape: int, n: int) -> Ints:
        """Return the labels of a visible tape, padded to [n, N] with −1."""
        labels, more = self.labels[tape][:n], max(0, n - self.score.shape[1])
        return np.pad(labels, ((0, more), (0, 0)), constant_values=-1) if more else labels

    def labellings(self, sentence: Longs, rank: Longs) -> list[Ints]:
        """Return the labels of the incumbents of these ranks, concatenated, for each tape."""
        tokens = self._rows.entries(sentence)
        row = self._rows.select(sentence).repeat(rank)
        return [labels[row, tokens] for labels in self.labels]

    def put(self, sentence: Longs, score: Floats, labels: Sequence[Ints]) -> None:
        """Add labellings, and keep the n best; of equal scores the earlier labelling is kept.

        Parameters
        ----------
        sentence : int64 [P]
            In ascending order.
        score : float64 [P]
        labels : sequence of int32
            For each tape the labels of all P labellings, concatenated.
        """
        if not len(sentence):
            return
        if self.n == 1:
            self._put_best(sentence, score, labels)
            return
        rows, place = np.unique(sentence, return_inverse=True)
        width, n_tokens = self.score.shape[1], self.labels[0].shape[1]
        starts = self.offsets[rows, None] + n_tokens * np.arange(width)  # of incumbents in `labels`
        row = np.concatenate([np.repeat(np.arange(len(rows)), width), place])
        pool = Ragged.from_lengths(self._rows.lengths[rows[row]])  # incumbents, then new labellings
        cells = pool.part(0, starts.size).ranges(starts.ravel())
        pooled = [
            np.concatenate([kept.reshape(-1).take(cells), new])
            for kept, new in zip(self.labels, labels, strict=True)
        ]
        scores = np.concatenate([self.score[rows].ravel(), score])
        order = np.lexsort((-scores, row))
        order = order[scores[order] > -np.inf]
        if self.repeated:
            order = order[_first_of_equals(row[order], pool, order, pooled)]
        rank = ranks(row[order])
        order, rank = order[rank < self.n], rank[rank < self.n]
        if len(rank) and rank.max() >= width:
            self._widen(int(rank.max()) + 1)
        row = row[order]
        block = np.full((len(rows), self.score.shape[1]), -np.inf)
        block[row, rank] = scores[order]
        self.score[rows] = block
        cells = pool.select(order).ranges(rank * n_tokens + self.offsets[rows[row]])
        entries = pool.entries(order)
        for kept, new in zip(self.labels, pooled, strict=True):
            kept.reshape(-1)[cells] = new.take(entries)

    def _put_best(self, sentence: Longs, score: Floats, labels: Sequence[Ints]) -> None:
        best = np.lexsort((-score, sentence))
        best = best[np.append(True, sentence[best[1:]] != sentence[best[:-1]])]
        best = best[score[best] > self.score[sentence[best], 0]]
        rows = sentence[best]
        self.score[rows, 0] = score[best]
        entries, tokens = self._rows.select(sentence).entries(best), self._rows.entries(rows)
        for kept, new in zip(self.labels, labels, strict=True):
            kept[0, tokens] = new.take(entries)

    def _widen(self, width: int) -> None:
        more = min(self.n, max(width, 2 * self.score.shape[1])) - self.score.shape[1]
        self.score = np.pad(self.score, ((0, 0), (0, more)), constant_values=-np.inf)
        self.labels = [np.pad(ids, ((0, more), (0, 0)), constant_values=-1) for ids in self.labels]

    def promising(self, sentence: Longs, score: Floats) -> tuple[Longs, Floats]:
        """Return the new labellings that may be among the n best, and the raised thresholds, [B].

        The labellings are distinct from each other and from the incumbents.

        Parameters
        ----------
        sentence : int64 [P]
            In ascending order.
        score : float64 [P]
            Lower bounds of the scores.
        """
        better = np.flatnonzero(score > self.threshold[sentence])
        rows, place = np.unique(sentence[better], return_inverse=True)
        kept = self.score[rows]
        row = np.concatenate([np.repeat(np.arange(len(rows)), kept.shape[1]), place])
        scores = np.concatenate([kept.ravel(), score[better]])
        order = np.lexsort((-scores, row))
        order = order[scores[order] > -np.inf]
        rank = ranks(row[order])
        raised = self.threshold.copy()
        last = order[rank == self.n - 1]
        raised[rows[row[last]]] = scores[last]
        chosen = order[rank < self.n] - kept.size
        return better[np.sort(chosen[chosen >= 0])], raised

    def scores_of(self, sentence: Longs, labels: Sequence[Ints]) -> Floats:
        """Return the scores of labellings that are incumbents, [P]; −inf for all others."""
        rows, tokens = self._rows.select(sentence), self._rows.entries(sentence)
        score = np.full(len(sentence), -np.inf)
        for rank in range(self.count):
            differs = np.zeros(len(tokens), dtype=bool)
            for kept, other in zip(self.labels, labels, strict=True):
                differs |= kept[rank].take(tokens) != other
            same = _sums(differs, rows) == 0
            score[same] = self.score[sentence[same], rank]
        return score

    def replace(self, sentences: Longs, other: Incumbents) -> None:
        """Replace the incumbents of some sentences by the result of a search for these."""
        if other.score.shape[1] > self.score.shape[1]:
            self._widen(other.score.shape[1])
        width, tokens = other.score.shape[1], self._rows.entries(sentences)
        self.score[sentences], self.score[sentences, :width] = -np.inf, other.score
        for kept, new in zip(self.labels, other.labels, strict=True):
            kept[:, tokens] = -1
            kept[:width, tokens] = new
        self.bound[sentences] = other.bound


def ranks(row: Longs) -> Longs:
    """Return the place of each entry among the entries of its row; rows ascend."""
    return np.arange(len(row)) - np.searchsorted(row, row)


# --- Equal labellings -----------------------------------------------------------------------------


def _first_of_equals(row: Longs, pool: Ragged, order: Longs, labels: Sequence[Ints]) -> Longs:
    """Return the places in `order` of labellings that differ from all earlier ones of their row."""
    key = _hashes(pool, labels)[order]
    for _ in range(2):
        group = np.lexsort((key, row))
        again = (row[group[1:]] == row[group[:-1]]) & (key[group[1:]] == key[group[:-1]])
        first, second = group[:-1][again], group[1:][again]
        if _equal(pool, order[first], order[second], labels).all():
            break
        key = _numbers(pool, order, labels)  # since two different labellings have the same hash
    return np.delete(np.arange(len(order)), second)


def _hashes(pool: Ragged, labels: Sequence[Ints]) -> _Hashes:
    """Return a hash of each labelling, uint64 [P]."""
    total: _Hashes = np.zeros(len(pool), np.uint64)
    place = pool.ranges().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for tape, ids in enumerate(labels):
        mixed = (ids.astype(np.uint64) + np.uint64(tape << 32)) * np.uint64(0xD6E8FEB86659FD93)
        mixed = (mixed ^ place) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        total += _sums(mixed ^ (mixed >> np.uint64(32)), pool)
    return total


def _equal(pool: Ragged, first: Longs, second: Longs, labels: Sequence[Ints]) -> Bools:
    """Return whether labellings of equal length are the same, pair by pair."""
    left, right = pool.entries(first), pool.entries(second)
    differs = np.zeros(len(left), dtype=bool)
    for ids in labels:
        differs |= ids.take(left) != ids.take(right)
    return np.equal(_sums(differs, pool.select(first)), 0)


def _sums(values: Bools | _Hashes, rows: Ragged) -> _Hashes:
    """Return the sum of each row, modulo 2^64."""
    total = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, dtype=np.uint64, out=total[1:])
    return total[rows.offsets[1:]] - total[rows.offsets[:-1]]


def _numbers(pool: Ragged, order: Longs, labels: Sequence[Ints]) -> _Hashes:
    """Return a number for each labelling in `order`, uint64; equal labellings have the same."""
    numbers: dict[tuple[bytes, ...], int] = {}
    keys = keys_of(pool, labels)
    each = [numbers.setdefault(keys[i], len(numbers)) for i in order.tolist()]
    return np.asarray(each, dtype=np.uint64)


def keys_of(pool: Ragged, labels: Sequence[Ints]) -> list[tuple[bytes, ...]]:
    """Return a key for each labelling; equal labellings have equal keys."""
    rows = [np.asarray(ids, np.int32) for ids in labels]
    return [tuple(ids[part].tobytes() for ids in rows) for part in pool.slices()]


@dataclass(frozen=True, eq=False)
class Prefixes:
    """P labellings of the first tapes, for sentences of a corpus.

    Parameters
    ----------
    offsets : int64 [B + 1]
        Offsets of the corpus.
    sentence : int64 [P]
        Sentence of each prefix, in ascending order.
    score : float64 [P]
        Weighted log probabilities, plus scores of the grammar and biases.
    log_z : float64 [P]
        Sum of the weighted log Z of the stages, which `score` lacks.
    labels : tuple of int32
        For each tape the labels of all prefixes, concatenated.
    """

    offsets: Longs
    sentence: Longs
    score: Floats
    log_z: Floats
    labels: tuple[Ints, ...]

    @classmethod
    def empty(cls, offsets: Longs, sentence: Longs, tapes: int = 0) -> Prefixes:
        """Return the empty labelling for each sentence; with tapes, `sentence` is empty."""
        none = np.zeros(len(sentence))
        return cls(offsets, sentence, none, none, (np.zeros(0, np.int32),) * tapes)

    def longer(self, score: Floats, log_z: Floats, labels: Ints) -> Prefixes:
        """Return the prefixes with labels of the next tape, given its scores and log Z, [P]."""
        total = self.score + score, self.log_z + log_z
        return Prefixes(self.offsets, self.sentence, *total, (*self.labels, labels))

    @made_once
    def rows(self) -> Ragged:
        """Bounds of the prefixes in `labels`."""
        return Ragged(self.offsets).select(self.sentence)

    @made_once
    def tokens(self) -> Longs:
        """Token of the corpus for each label, int64."""
        return Ragged(self.offsets).entries(self.sentence)

    def select(self, prefixes: Longs) -> Prefixes:
        """Return some prefixes, in ascending order; a prefix may occur repeatedly."""
        size = len(self.sentence)
        if len(prefixes) == size and np.array_equal(prefixes, np.arange(size)):
            return self
        tokens = self.rows.entries(prefixes)
        labels = tuple(ids.take(tokens) for ids in self.labels)
        score, log_z = self.score[prefixes], self.log_z[prefixes]
        return Prefixes(self.offsets, self.sentence[prefixes], score, log_z, labels)


@dataclass(frozen=True, eq=False)
class _ChangedTokens:
    """The M tokens at which prefixes differ from the reference labelling.

    U of them differ in token or labels, and have potentials of their own.
    """

    entries: Longs  # [M] places in the labels of the prefixes
    tokens: Longs  # [M] tokens of the corpus
    place: Longs  # [M] rows of the potentials
    first: Longs  # [U] a place in `tokens` for each row
    node: Floats  # [U, S] potentials for the labels of the prefixes
    mask: Floats | None  # [U, S] mask for these labels


class RescoringContext:
    """Keeps a stage's recursion for one reference labelling; other labellings are rescored from it.

    Parameters
    ----------
    stage : Stage
    corpus : Corpus
        Sentences with the reference labels of the earlier tapes as columns.
    labels : tuple of int32 [N]
        The reference labels.
    potentials : callable
        Function from such a corpus to StagePotentials.

    Attributes
    ----------
    dead : bool [B]
        Sentences without a legal path under the reference labels.
    """

    def __init__(
        self,
        stage: Stage,
        corpus: Corpus,
        labels: tuple[Ints, ...],
        potentials: Callable[[Corpus], StagePotentials],
    ) -> None:
        self.stage, self.corpus, self.labels = stage, corpus, labels
        self.potentials, self._compute = potentials(corpus), potentials
        self._relabelled = self.potentials.relabelled if stage.rescorable else None
        self.dead: Bools = np.zeros(len(corpus), dtype=bool)
        self._cached: tuple[Longs, Floats] | None = None  # keys, and node potentials for each

    @made_once
    def plain(self) -> kernel.Bound:
        """The tagger under the reference labels."""
        return self.stage.plain_batch(self.potentials)

    @made_once
    def legal(self) -> kernel.Bound:
        """The weighted tagger under its grammar and the reference labels."""
        added = self.potentials.evidence_scores, self.potentials.mask
        same = self.stage.legal is self.stage.plain and all(scores is None for scores in added)
        return self.plain if same else self.stage.legal_batch(self.potentials)

    @made_once
    def _observed(self) -> dict[str, Ints]:
        return self.stage.observed_ids(self.corpus)

    def ids(self, prefixes: Prefixes) -> dict[str, Ints]:
        """Return the labels of columns and earlier tapes under each prefix, int32 [N] each."""
        columns = {tape: ids[prefixes.tokens] for tape, ids in self._observed.items()}
        earlier = zip(self.stage.earlier, prefixes.labels, strict=True)
        return columns | {tagger.tape: labels for tagger, labels in earlier}

    def log_z(self, prefixes: Prefixes) -> Floats:
        """Return the weighted log Z of the stage under each prefix, [P]."""
        if self._relabelled is None:
            return self.stage.exponent * self.stage.log_z(self._recomputed(prefixes))
        variants = _variants(prefixes, self._changed(self._relabelled, prefixes))
        return self.stage.exponent * kernel.rescored(self.plain, variants, best=False)

    def best(self, prefixes: Prefixes) -> tuple[Floats, Floats]:
        """Return the best score of the stage under each prefix, and the weighted log Z, [P]."""
        stage = self.stage
        if self._relabelled is None:
            potentials = self._recomputed(prefixes)
            best = kernel.best_paths(stage.legal_batch(potentials))[1]
            return best, stage.exponent * stage.log_z(potentials)
        changed = self._changed(self._relabelled, prefixes)
        variants = _variants(prefixes, changed)
        log_z = kernel.rescored(self.plain, variants, best=False)
        if self.legal is not self.plain:
            evidence = self.potentials.evidence_scores
            evidence = None if evidence is None else evidence[changed.tokens[changed.first]]
            scored = stage.scored(changed.node, evidence, changed.mask)
            variants = replace(variants, node=scored)
        best = kernel.rescored(self.legal, variants, best=True)
        dead = np.flatnonzero(self.dead[prefixes.sentence])
        if len(dead):  # the reference labelling has no recursion to start from
            batch = stage.legal_batch(self.under(prefixes.select(dead)))
            best[dead] = kernel.best_paths(batch)[1]
        return best, stage.exponent * log_z

    def under(self, prefixes: Prefixes) -> StagePotentials:
        """Return the potentials of the stage under each prefix."""
        if self.labels and self._relabelled is None:
            return self._recomputed(prefixes)
        selected = self.potentials.select(prefixes.sentence)
        if self._relabelled is None or not self.labels:
            return selected
        changed = self._changed(self._relabelled, prefixes)
        if selected is self.potentials:
            mask = None if selected.mask is None else selected.mask.copy()
            selected = replace(selected, node=selected.node.copy(), mask=mask)
        selected.node[changed.entries] = changed.node.take(changed.place, axis=0)
        if selected.mask is not None and changed.mask is not None:
            selected.mask[changed.entries] = changed.mask.take(changed.place, axis=0)
        return selected

    def _recomputed(self, prefixes: Prefixes) -> StagePotentials:
        corpus = self.corpus.select(prefixes.sentence)
        for tagger, labels in zip(self.stage.earlier, prefixes.labels, strict=True):
            corpus = with_tape(corpus, tagger, labels)
        return self._compute(corpus)

    def _changed(
        self, relabelled: Callable[[Longs, Ints], Floats], prefixes: Prefixes
    ) -> _ChangedTokens:
        stage, tokens = self.stage, prefixes.tokens
        differs = np.zeros(len(tokens), dtype=bool)
        for tagger, chosen, other in zip(stage.earlier, prefixes.labels, self.labels, strict=True):
            if stage.reads_tape(tagger.tape):
                differs |= chosen != other.take(tokens)
        entries = np.flatnonzero(differs)
        tokens = tokens.take(entries)
        labels = [ids.take(entries) for ids in prefixes.labels]
        key = tokens
        for tagger, ids in zip(stage.earlier, labels, strict=True):
            key = key * len(tagger.labels) + ids
        keys, first, place = np.unique(key, return_index=True, return_inverse=True)
        labels = [ids[first] for ids in labels]
        node = self._node(relabelled, keys, tokens[first], labels)
        mask = None
        if stage.local:
            columns = {tape: column[tokens[first]] for tape, column in self._observed.items()}
            earlier = {t.tape: ids for t, ids in zip(stage.earlier, labels, strict=True)}
            mask = stage.mask(columns | earlier)
        return _ChangedTokens(entries, tokens, place, first, node, mask)

    def _node(
        self,
        relabelled: Callable[[Longs, Ints], Floats],
        keys: Longs,
        tokens: Longs,
        labels: list[Ints],
    ) -> Floats:
        """Return node potentials, [U, S], of tokens under labels of the earlier tapes.

        Potentials of the previous call are cached, by ascending keys of tokens and labels.
        """

        def computed(entries: Longs) -> Floats:
            seen = self.stage.seen([ids[entries] for ids in labels])
            shape = len(seen), len(entries)
            return relabelled(tokens[entries], np.asarray(seen, dtype=np.int32).reshape(shape))

        if self._cached is None or not len(self._cached[0]):
            node = computed(np.arange(len(keys)))
        else:
            cached, rows = self._cached
            near = np.minimum(np.searchsorted(cached, keys), len(cached) - 1)
            node = rows[near]
            new = np.flatnonzero(cached[near] != keys)
            if len(new):
                node[new] = computed(new)
        self._cached = keys, node
        return node


def _variants(prefixes: Prefixes, changed: _ChangedTokens) -> kernel.Variants:
    ends = np.searchsorted(changed.entries, prefixes.rows.offsets)
    first = prefixes.offsets[Ragged(ends).repeat(prefixes.sentence)]
    return kernel.Variants(
        prefixes.sentence,
        ends.astype(np.int64, copy=False),
        (changed.tokens - first).astype(np.int32),
        changed.place.astype(np.int32),
        changed.node,
    )

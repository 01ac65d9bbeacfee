"""Prefixes: labellings of the first tapes of a chain, scored by the next tagger.

Most prefixes differ from the labels of the cascade at a few tokens. If the next tagger reads them
in node potentials only, the kernel recomputes its recursions from those tokens on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.lazy import made_once
from fstcrf.ragged import Ragged
from fstcrf.taggers.stages import Stage, StagePotentials, with_tape
from fstcrf.text.corpus import Corpus


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
    """The M tokens at which prefixes differ from the reference labelling."""

    entries: Longs  # [M] places in the labels of the prefixes
    tokens: Longs  # [M] tokens of the corpus
    node: Floats  # [M, S] potentials for the labels of the prefixes
    mask: Floats | None  # [M, S] mask for these labels


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
            evidence = None if evidence is None else evidence[changed.tokens]
            variants = variants._replace(node=stage.scored(changed.node, evidence, changed.mask))
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
        selected.node[changed.entries] = changed.node
        if selected.mask is not None:
            selected.mask[changed.entries] = changed.mask
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
        node = self._node(relabelled, tokens, labels)
        mask = None
        if stage.local:
            ids = {tape: column[tokens] for tape, column in self._observed.items()}
            mask = stage.mask(ids | {t.tape: i for t, i in zip(stage.earlier, labels, strict=True)})
        return _ChangedTokens(entries, tokens, node, mask)

    def _node(
        self, relabelled: Callable[[Longs, Ints], Floats], tokens: Longs, labels: list[Ints]
    ) -> Floats:
        """Return node potentials, [M, S], of tokens under labels of the earlier tapes.

        Potentials of the previous call are cached.
        """
        key = tokens
        for tagger, ids in zip(self.stage.earlier, labels, strict=True):
            key = key * len(tagger.labels) + ids
        keys, first, place = np.unique(key, return_index=True, return_inverse=True)

        def computed(entries: Longs) -> Floats:
            seen = self.stage.seen([ids[entries] for ids in labels])
            shape = len(seen), len(entries)
            return relabelled(tokens[entries], np.asarray(seen, dtype=np.int32).reshape(shape))

        if self._cached is None or not len(self._cached[0]):
            node = computed(first)
        else:
            cached, rows = self._cached
            near = np.minimum(np.searchsorted(cached, keys), len(cached) - 1)
            node = rows[near]
            new = np.flatnonzero(cached[near] != keys)
            if len(new):
                node[new] = computed(first[new])
        self._cached = keys, node
        return node.take(place, axis=0)


def _variants(prefixes: Prefixes, changed: _ChangedTokens) -> kernel.Variants:
    ends = np.searchsorted(changed.entries, prefixes.rows.offsets)
    first = prefixes.offsets[Ragged(ends).repeat(prefixes.sentence)]
    return kernel.Variants(
        prefixes.sentence,
        ends.astype(np.int64, copy=False),
        (changed.tokens - first).astype(np.int32),
        changed.node,
    )

"""Labellings of the first tapes of a chain, and a later tagger asked about them.

Most prefixes differ from the cascade's labels at a few tokens. Where the later tagger reads them in
node potentials alone, its answer is found by taking up the recursion there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.lazy import made_once
from fstcrf.ragged import Ragged
from fstcrf.taggers.stages import Stage, StagePotentials, bounds_of, repeated, with_tape
from fstcrf.text.corpus import Corpus


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Labellings of the first tapes, of some sentences of a corpus.

    Parameters
    ----------
    offsets : int64 [B + 1]
        Of the corpus.
    sentence : int64 [P]
        Not falling.
    score : float64 [P]
        Weighted log probabilities, grammar and biases included.
    labels : tuple of int32
        For each tape the labels of all prefixes, one after the other.
    """

    offsets: Longs
    sentence: Longs
    score: Floats
    labels: tuple[Ints, ...]

    @made_once
    def bounds(self) -> Longs:
        """Where each begins among the labels, int64 [P + 1]."""
        return bounds_of(self.offsets, self.sentence)

    @made_once
    def tokens(self) -> Longs:
        """The token of the corpus that each label is of."""
        return repeated(self.offsets, self.sentence)

    def picked(self, where: Longs) -> Prefixes:
        """Return some of them, in rising order, perhaps several times."""
        if len(where) == len(self.sentence) and np.array_equal(where, np.arange(len(where))):
            return self
        at = repeated(self.bounds, where)
        labels = tuple(mine.take(at) for mine in self.labels)
        return Prefixes(self.offsets, self.sentence[where], self.score[where], labels)


@dataclass(frozen=True, eq=False)
class _ChangedTokens:
    """Where potentials of a stage differ from those around the cascade's labels."""

    at: Longs  # [M] places among the labels of the prefixes
    where: Longs  # [M] tokens of the corpus
    node: Floats  # [M, S] potentials there
    mask: Floats | None  # [M, S] what grammars of one token say there


class RescoringContext:
    """A stage around one labelling of the earlier tapes.

    Parameters
    ----------
    stage : Stage
    corpus : Corpus
        The earlier tapes as columns.
    labels : tuple of int32 [N]
        Labels of the earlier tapes there.
    potentials : callable
        A corpus with the earlier tapes → StagePotentials.

    Attributes
    ----------
    dead : bool [B]
        Sentences that have no legal path around that labelling.
    """

    def __init__(
        self,
        stage: Stage,
        corpus: Corpus,
        labels: tuple[Ints, ...],
        potentials: Callable[[Corpus], StagePotentials],
    ) -> None:
        self.stage, self.corpus, self.labels = stage, corpus, labels
        self.given, self._potentials = potentials(corpus), potentials
        self.dead: Bools = np.zeros(len(corpus), dtype=bool)
        self._known: tuple[Longs, Floats] | None = None  # node potentials by token and labels

    @made_once
    def free(self) -> kernel.Bound:
        """The tagger alone, around that labelling."""
        return self.stage.free_bound(self.given)

    @made_once
    def legal(self) -> kernel.Bound:
        """The tagger, weighted and under its grammar, around that labelling."""
        given = self.given
        same = (
            self.stage.legal is self.stage.free
            and given.evidence_scores is None
            and given.mask is None
        )
        return self.free if same else self.stage.legal_bound(given)

    @made_once
    def _observed(self) -> dict[str, Ints]:
        return self.stage.observed(self.corpus)

    def best(self, prefixes: Prefixes) -> tuple[Floats, Floats]:
        """Return the score of the best labels under each prefix, and the weighted log Z, [P]."""
        stage = self.stage
        if not stage.rescorable:
            given = self._anew(prefixes)
            best = kernel.best_paths(stage.legal_bound(given))[1]
            return best, stage.weight * stage.log_z(given)
        changes = self._changes(prefixes)
        ends = np.searchsorted(changes.at, prefixes.bounds)
        which = Ragged(ends).repeat(prefixes.sentence)
        variants = kernel.Variants(
            prefixes.sentence,
            ends.astype(np.int64, copy=False),
            (changes.where - prefixes.offsets[which]).astype(np.int32),
            changes.node,
        )
        log_z = kernel.rescored(self.free, variants, best=False)
        if self.legal is not self.free:
            told = (
                None
                if self.given.evidence_scores is None
                else self.given.evidence_scores[changes.where]
            )
            variants = variants._replace(node=stage.chosen(changes.node, told, changes.mask))
        best = kernel.rescored(self.legal, variants, best=True)
        alone = np.flatnonzero(self.dead[prefixes.sentence])
        if len(alone):  # there is no recursion to take up
            bound = stage.legal_bound(self.under(prefixes.picked(alone)))
            best[alone] = kernel.best_paths(bound)[1]
        return best, stage.weight * log_z

    def under(self, prefixes: Prefixes) -> StagePotentials:
        """Return the potentials under each prefix."""
        if not self.labels:
            return self.given.of(prefixes.sentence)
        if not self.stage.rescorable:
            return self._anew(prefixes)
        given, changes = self.given.of(prefixes.sentence), self._changes(prefixes)
        if given is self.given:
            mask = None if given.mask is None else given.mask.copy()
            given = replace(given, node=given.node.copy(), mask=mask)
        given.node[changes.at] = changes.node
        if given.mask is not None:
            given.mask[changes.at] = changes.mask
        return given

    def _anew(self, prefixes: Prefixes) -> StagePotentials:
        corpus = self.corpus.select(prefixes.sentence)
        for tagger, mine in zip(self.stage.earlier, prefixes.labels, strict=True):
            corpus = with_tape(corpus, tagger, mine)
        return self._potentials(corpus)

    def _changes(self, prefixes: Prefixes) -> _ChangedTokens:
        """Return what is different under other labels of the earlier tapes."""
        tokens = prefixes.tokens
        stage = self.stage
        read = [i for i, t in enumerate(stage.earlier) if stage.reads_tape(t.tape)]
        differs = np.zeros(len(tokens), dtype=bool)
        for i in read:
            differs |= prefixes.labels[i] != self.labels[i].take(tokens)
        at = np.flatnonzero(differs)
        where = tokens.take(at)
        labels = [mine.take(at) for mine in prefixes.labels]
        key = where
        for tagger, mine in zip(self.stage.earlier, labels, strict=True):
            key = key * len(tagger.labels) + mine
        keys, first, place = np.unique(key, return_index=True, return_inverse=True)
        node = self._relabelled(keys, where, labels, first)
        mask = None
        if self.stage.local:
            mask = self.stage.mask(labels, {t: ids[where] for t, ids in self._observed.items()})
        return _ChangedTokens(at, where, node.take(place, axis=0), mask)

    def _relabelled(self, keys: Longs, where: Longs, labels: list[Ints], first: Longs) -> Floats:
        """Return node potentials under the labels at `first`; what was asked last is remembered.

        `keys` are the numbers of tokens and labels there, rising.
        """
        if self._known is None or not len(self._known[0]):
            node = self.stage.relabelled(self.given, where[first], [m[first] for m in labels])
        else:
            known, rows = self._known
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            node = rows[place]
            new = np.flatnonzero(known[place] != keys)
            if len(new):
                some = first[new]
                node[new] = self.stage.relabelled(
                    self.given, where[some], [m[some] for m in labels]
                )
        self._known = keys, node
        return node

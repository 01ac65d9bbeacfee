"""The chain rule of a composition: its stages, its budget, and the scores of labellings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import TooLargeError
from fstcrf.kernel import Budget
from fstcrf.lattices import Answer
from fstcrf.taggers.batches import lattices_of
from fstcrf.taggers.evidence import Evidence
from fstcrf.taggers.prefixes import Incumbents
from fstcrf.taggers.stages import Stage, StagePotentials, largest_gains, with_tape
from fstcrf.text.corpus import Corpus

if TYPE_CHECKING:
    from fstcrf.taggers.joint import JointCRF

BUDGET = 16
"""Maximum number of labellings of a tape that are expanded.

Chosen on held-out sentences: docs/guides/cascades.md."""

LATER = 16
"""Minimum number of labellings of a later tape that are expanded for each of the earlier tapes."""

WIDE_BUDGET = 64
"""The maximum under a grammar or evidence, which make the best labels less probable, and for the n
best labellings."""

_LOOK_TOKENS = 400_000  # tokens in a batch of prefixes


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
        self.ruled = composition._stages
        self.stages = tuple(stage.relaxed for stage in self.ruled)
        self.order = [stage.tagger.tape for stage in self.stages]
        self.visible = [k for k, tape in enumerate(self.order) if tapes is None or tape in tapes]
        self.evidence = evidence or Evidence({}, {})
        under_grammar = any(stage.conjuncts for stage in self.stages)
        unconstrained = not (under_grammar or self.evidence.forced or self.evidence.bias)
        best_of_all = n == 1 and len(self.visible) == len(self.order)
        self.wide_budget = limit.states or WIDE_BUDGET
        self.budget = limit.states or (BUDGET if unconstrained and best_of_all else WIDE_BUDGET)
        self._heuristics: dict[int, Floats] = {}  # by stage, for each length
        self._bias = [
            self.evidence.state_biases(s.tagger.tape, s.tagger.topology) for s in self.stages
        ]

    @property
    def has_deadline(self) -> bool:
        """Whether the budget limits the time."""
        return self._end is not None

    def until(self, share: float) -> float:
        """Return the time, of the monotonic clock, when a share of the rest is over."""
        if self._end is None:
            return np.inf
        now = time.monotonic()
        return now + share * (self._end - now)

    @property
    def rest(self) -> Budget:
        """Budget of a search for candidates: a third of the time that is left."""
        if self._end is None:
            return Budget()
        return Budget(seconds=max(1e-3, (self._end - time.monotonic()) / 3))

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
            if self.ruled[k].hard and not plain:
                tape_ids = self.ruled[k].observed_ids(corpus) | {stage.tagger.tape: labels}
                total[~self.ruled[k].obeys(tape_ids, corpus.offsets)] = -np.inf
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
                ids = {self.order[k]: row for k, row in zip(self.visible, labels, strict=True)}
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
    batch = stage.plain_batch(clamped) if plain else stage.legal_batch(clamped)
    exponent = 1.0 if plain else stage.exponent
    return kernel.best_paths(batch)[1] - exponent * stage.log_z(potentials)


def product_answer(rule: ChainRule, corpus: Corpus, n: int) -> Answer | None:
    """Return the n best labellings of the product; `None` if it is too large."""
    evidence = rule.evidence.from_columns(corpus)
    some = evidence if evidence.forced or evidence.bias else None
    try:
        lattices = lattices_of(rule.composition, corpus, some, streamed=True)
        return lattices.answer(n, lattices.on[: len(rule.order)], rule.rest, 1)
    except TooLargeError:
        return None

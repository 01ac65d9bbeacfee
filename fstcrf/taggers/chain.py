"""The chain rule: taggers one after the other, each normalised given what the earlier ones said.

That is no product of machines. `taggers/search.py` finds the best labellings by branch and bound,
for runs of sentences that do not depend on the threads. Observed labels and biases are *evidence*:
they add to the potentials by which labels are chosen, never to those of a normaliser. log Z of the
first tape is the same for all labellings, and is left out where labels alone are asked for.

Two bounds were tried and left out: the tangent of the second tagger's log Z as a function of the
first's labels is a product lattice and an upper bound, but it proposed the same labelling of the
first tape again and again with different labels of the second, and proved fewer sentences than
the plain enumeration in the same time; label pruning by max-marginals saves little where most
labels are out of the question anyway. How soon the search stops is in the page on [joint
decoding](../measurements/joint-accuracy.md), what it costs in [speed of
composition](../measurements/benchmarks.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arguments import items_of, string_list, whole_number
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import NoPathError, OptionError, ShapeError, TooLargeError
from fstcrf.lattices import Answer
from fstcrf.machines.plans import warn_unproven
from fstcrf.ragged import Ragged
from fstcrf.taggers.batches import as_corpus, check_empty, lattices_of
from fstcrf.taggers.evidence import Evidence, Request
from fstcrf.taggers.incumbents import Incumbents
from fstcrf.taggers.search import BUDGET, ChainRule, Search
from fstcrf.taggers.stages import Stage, possible_lengths, repeated, with_tape
from fstcrf.text.corpus import Corpus, Sentence
from fstcrf.text.sentences import (
    Data,
    Run,
    SentenceLike,
    answered,
    as_sentences,
    is_short,
    runs_of,
)

if TYPE_CHECKING:
    from fstcrf.taggers.joint import JointCRF

_T = TypeVar("_T", bound=np.generic)

_RUN_TOKENS = 100_000
_RUN_LABELS = 2_000_000  # in all labellings of a run


# --- Corpora --------------------------------------------------------------------------------------


def decode(composition: JointCRF, asked: Request, evidence: Evidence | None = None) -> Answer:
    """Return the n best labellings of each sentence; those that are not proven are not warned of.

    Without `asked.scores`, scores and bounds are of no scale. A labelling of some tapes has the
    score and the probability of the best labelling of all tapes that contains it.

    Raises
    ------
    NoPathError
        A sentence has none, where that is `asked.strict`.
    """
    tapes = asked.tapes or composition.tapes
    rule = ChainRule(composition, asked.budget, evidence, asked.n, tapes, scored=asked.scores)
    corpus = _with_evidence(composition, asked.sentences, evidence)

    def solved(run: Run) -> tuple[Corpus, Incumbents]:
        whole = run.end - run.first == len(corpus)
        mine = corpus if whole else corpus.select(np.arange(run.first, run.end))
        return mine, best(rule, mine)

    tokens = max(1, min(_RUN_TOKENS, _RUN_LABELS // asked.n))
    rows = Ragged(corpus.offsets)
    lengths = rows.lengths.tolist()
    found = answered(runs_of(rows, tokens), solved, asked.threads)
    answer = _joined(rule, corpus.offsets, found, tapes)
    if asked.strict and answer.dead.any():
        dead = int(np.flatnonzero(answer.dead)[0])
        if not lengths[dead]:
            check_empty(composition, lengths)
        raise no_path(rule, answer.bounds.reshape(len(answer), -1)[dead, 0], dead)
    return answer


def _joined(
    rule: ChainRule,
    offsets: Longs,
    found: Sequence[tuple[Corpus, Incumbents]],
    tapes: Sequence[str],
) -> Answer:
    several = [incumbents for _, incumbents in found]
    n = kernel.columns(rule.n, max([some.count for some in several], default=0))
    scores = np.concatenate([np.empty((0, n)), *(some.columns(n) for some in several)])
    left = np.concatenate([np.empty(0), *(some.bound for some in several)])
    bounds = np.maximum(scores, left[:, None])

    def probabilities() -> Floats:
        parts = [rule.probabilities(corpus, some, n) for corpus, some in found]
        return _one(np.concatenate([np.empty((0, n)), *parts]))

    order = [rule.order[k] for k in rule.shown]
    flat = {}
    for tape in tapes:
        parts = [some.rows(order.index(tape), n) for some in several]
        flat[tape] = np.concatenate([np.empty((n, 0), np.int32), *parts], axis=1)
    sets = rule.composition.label_sets
    return Answer(
        flat,
        {tape: sets[tape] for tape in tapes},
        offsets,
        scores=_one(scores),
        probabilities=probabilities,
        exact=_one(bounds <= scores),
        bounds=_one(bounds),
    )


def no_path(rule: ChainRule, bound: float, sentence: int | None) -> NoPathError:
    """Return the error of a sentence for which nothing legal was found."""
    if bound == -np.inf:
        return NoPathError("no labelling is legal", sentence=sentence)
    return NoPathError(
        f"none of the {rule.budget} best labellings of tape {rule.order[0]!r} has a legal "
        "completion; give a larger budget",
        sentence=sentence,
    )


def _with_evidence(composition: JointCRF, sentences: Data, evidence: Evidence | None) -> Corpus:
    """Return sentences as a corpus, observed labels being columns."""
    corpus = as_corpus(composition, sentences)
    if evidence is None or not evidence.forced:
        return corpus
    topologies = {tagger.tape: tagger.topology for tagger in composition.taggers}
    return evidence.to_columns(topologies, corpus, np.arange(len(corpus)))


def _one(array: NDArray[_T]) -> NDArray[_T]:
    """Return [B] for [B, 1]."""
    return array[:, 0] if array.shape[1] == 1 else array


# --- One run of sentences -------------------------------------------------------------------------


def best(rule: ChainRule, corpus: Corpus) -> Incumbents:
    """Return the n best labellings; what is legal where there is anything legal.

    Parameters
    ----------
    corpus : Corpus
    """
    alive = possible_lengths(rule.composition.skeleton, np.diff(corpus.offsets))
    if alive.all():
        found = Search(rule, corpus).run()
    else:  # the others have no legal labelling
        found, where = _nothing(rule, corpus), np.flatnonzero(alive)
        if len(where):
            found.replace(where, Search(rule, corpus.select(where)).run())
    lost = np.flatnonzero(np.isneginf(found.score[:, 0]) & (found.bound > -np.inf))
    if len(lost) and not rule.scored:  # scores of the product's answers are of another scale
        whole = ChainRule(rule.composition, rule.limit, rule.evidence, rule.n, rule.tapes)
        found.replace(lost, best(whole, corpus.select(lost)))
    elif len(lost):
        found.replace(lost, _legal(rule, corpus.select(lost), found.bound[lost]))
    return found


def _nothing(rule: ChainRule, corpus: Corpus) -> Incumbents:
    return Incumbents(corpus.offsets, rule.n, len(rule.shown), repeated=False)


def _legal(rule: ChainRule, corpus: Corpus, bound: Floats) -> Incumbents:
    """Return the best labels of the product: they are legal, and seldom far off."""
    found = _nothing(rule, corpus)
    found.bound[:] = bound
    whole = replace(rule.composition, normalize="product")
    try:
        product = lattices_of(whole, corpus, rule.evidence.from_columns(corpus), streamed=True)
        answer = product.answer(1, product.on[: len(whole.tapes)], None, 1)
    except TooLargeError:
        return found
    legal = np.flatnonzero(~answer.dead)
    found.bound[answer.dead] = -np.inf
    if len(legal):
        tokens = repeated(corpus.offsets, legal)
        ids = {tape: answer[tape].flat[0, tokens] for tape in rule.order}
        score = rule.score(corpus.select(legal), ids)
        found.put(legal, score, [ids[rule.order[k]] for k in rule.shown])
    return found


# --- The best labels of one sentence --------------------------------------------------------------

_WITHIN = 2.0  # labellings of the first tape that are so many nats below its best are ranked late
_LATER = 4  # of a later tape: no more than `Search` looks at


def tag_one(composition: JointCRF, sentence: SentenceLike) -> tuple[list[str], ...] | None:
    """Return the best labels of a sentence, with less to do around the kernel than a `Search` has.

    It goes from tagger to tagger, depth first, by the bound of a search. None where few
    labellings do not settle what a search would answer, or the sentence or the taggers need more.
    """
    stages = composition.stages if composition.budget is None else ()
    if not stages or any(stage.single is None for stage in stages):
        return None
    columns = max((tagger.columns for tagger in composition.taggers), key=len)
    if any(tagger.columns != columns[: len(tagger.columns)] for tagger in composition.taggers):
        return None
    (one,) = as_sentences([sentence], columns)
    if not all(is_short(stage.tagger.index, one) for stage in stages):
        return None
    _, paths = _best_after(stages, one, (), 0.0, -np.inf)
    if paths is None:
        return None
    labels = {
        stage.tagger.tape: [stage.tagger.labels[i] for i in path.tolist()]
        for stage, path in zip(stages, paths, strict=True)
    }
    return tuple(labels[tape] for tape in composition.tapes)


def _best_after(
    stages: Sequence[Stage], sentence: Sentence, before: tuple[Ints, ...], base: float, least: float
) -> tuple[float, tuple[Ints, ...] | None]:
    """Return the score and paths of the best labelling after a prefix that scores `base`.

    Without paths where none exceeds `least`, and +inf where that would take a search to know.
    """
    stage, graph = stages[len(before)], stages[len(before)].single
    assert graph is not None  # noqa: S101 (the caller has looked)
    node = stage.of_one(sentence, before)
    if len(before) == len(stages) - 1:
        path, score, log_z = graph.best(node)
        total = base + score - log_z
        return (total, (*before, path)) if total > least else (least, None)
    n, within = (_LATER, np.inf) if before else (BUDGET, _WITHIN)
    scores, ranked = graph.nbest(node, n + 1, within)
    base -= graph.best(node)[2] if before else 0.0  # the first log Z is the same for all
    best, found, rank = least, None, 0
    while True:
        bound = scores[rank] if rank < len(scores) else scores[0] - within
        if base + bound <= best:
            return best, found
        if rank == n:
            if before or len(stages) > 2:
                return np.inf, None
            warn_unproven(1, 1)  # a search would not look further
            return best, found
        if rank == len(scores):  # what is so far below the best counts, too
            within = np.inf
            scores, ranked = graph.nbest(node, n + 1, within)
            continue
        path = ranked[rank]
        best, paths = _best_after(stages, sentence, (*before, path), base + bound, best)
        if best == np.inf:
            return best, None
        found, rank = paths or found, rank + 1


# --- Other questions about one sentence -----------------------------------------------------------


@dataclass(frozen=True)
class ChainSentence:
    """A sentence under the chain rule: samples, scores and probabilities of its labellings."""

    composition: JointCRF
    sentence: SentenceLike
    evidence: Evidence | None

    def score(self, labels: Sequence[Sequence[str]]) -> float:
        """Return the log probability of a labelling, times weights, plus scores of the grammar."""
        corpus = _with_evidence(self.composition, [self.sentence], self.evidence)
        ids = self._numbered(labels, corpus.n_tokens)
        if not corpus.n_tokens:
            return self.composition.program.empty_score
        return float(ChainRule(self.composition, evidence=self.evidence).score(corpus, ids)[0])

    def probability(self, labels: Sequence[Sequence[str]]) -> float:
        """Return the probability of a labelling, without weights and grammar."""
        corpus = as_corpus(self.composition, [self.sentence])
        ids = self._numbered(labels, corpus.n_tokens)
        if not corpus.n_tokens:
            return float(all(tagger.topology.empty for tagger in self.composition.taggers))
        log_p = ChainRule(self.composition).score(corpus, ids, plain=True)[0]
        return float(min(1.0, np.exp(log_p)))

    def sample(self, n: int, *, seed: int = 0) -> list[Sequence[Sequence[str]]]:
        """Return n exact samples: labels of the first tape, of the second given it, and so on."""
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        whole = self.composition
        if self.evidence is not None or whole.conjuncts or any(w != 1.0 for w in whole.weights):
            raise OptionError(
                "samples with normalize='chain' need weights of 1, no grammar, no known "
                "labels and no biases, since otherwise the probabilities of labellings do "
                "not sum to one: use normalize='product', or the n best labellings, "
                "lattice(sentence, n=50)"
            )
        corpus, ids = as_corpus(whole, [self.sentence]), {}
        size, rng = corpus.n_tokens, np.random.default_rng(seed)
        if not n or not size:
            return [((),) * len(whole.taggers)] * n
        corpus = corpus.select([0] * n)
        for stage in whole.stages:
            bound = stage.free_bound(stage.given(corpus))
            path = kernel.sample_paths(bound, rng.random((1, n * size)))[0]
            ids[stage.tagger.tape] = stage.tagger.topology.state_label[path]
            corpus = with_tape(corpus, stage.tagger, ids[stage.tagger.tape])
        rows = [
            np.asarray(tagger.labels, dtype=object)[ids[tagger.tape]].reshape(n, size).tolist()
            for tagger in whole.taggers
        ]
        return [tuple(map(tuple, row)) for row in zip(*rows, strict=True)]

    def _numbered(self, labels: Sequence[Sequence[str]], length: int) -> dict[str, Ints]:
        tapes = self.composition.tapes
        rows = items_of(labels, "the labels are", "those of each tape")
        labels = [string_list(row, "label") for row in rows]
        if len(labels) != len(tapes) or any(len(part) != length for part in labels):
            raise ShapeError(
                f"labels of {len(labels)} tapes, {[len(p) for p in labels]} long; expected "
                f"{len(tapes)} of {length} tokens"
            )
        return {
            tagger.tape: tagger.topology.label_ids(part)
            for tagger, part in zip(self.composition.taggers, labels, strict=True)
        }

"""Decoding under the chain rule: p(tape 1) · p(tape 2 | tape 1) · ...

Each tagger is normalised given the labels of the earlier tapes. No product of machines has these
scores, so `taggers/search.py` finds the best labellings by branch and bound, in runs of sentences
that do not depend on the number of threads. Observed labels and biases are evidence: they change
which labels are chosen, but no normaliser. log Z of the first tape is the same for all labellings
of a sentence, and is omitted if the caller wants labels only.

Two other upper bounds were tried. The tangent of the second tagger's log Z, as a function of the
labels of the first, is a product lattice. It proposed one labelling of the first tape repeatedly,
with different labels of the second, and proved fewer sentences in the same time. Pruning labels by
max-marginals saves little, since most labels are improbable anyway. The page on [joint
decoding](../measurements/joint-accuracy.md) shows how soon the search ends, and [speed of
composition](../measurements/benchmarks.md) how fast it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arguments import items_of, string_list, whole_number
from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import CostWarning, NoPathError, OptionError, ShapeError, warn
from fstcrf.kernel.rows import SentenceRows
from fstcrf.kernel.single import SentenceGraph
from fstcrf.lattices import Answer
from fstcrf.machines.plans import Plan, plan_of, warn_unproven
from fstcrf.taggers.batches import as_corpus, check_empty
from fstcrf.taggers.chainrule import BUDGET, LATER, ChainRule, product_answer
from fstcrf.taggers.evidence import Evidence, Request
from fstcrf.taggers.prefixes import Incumbents
from fstcrf.taggers.search import Search
from fstcrf.taggers.stages import (
    Stage,
    possible_lengths,
    usual_cost,
    with_tape,
    worst_cost_under_rules,
)
from fstcrf.text.corpus import Corpus
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
_RUN_LABELS = 2_000_000  # tokens of all labellings of a run

_MANY_TIMES, _SLOW = 10, 100_000
"""A chain is costly if it takes more than ten products, and more than 0.1 ms a token."""


# --- Corpora --------------------------------------------------------------------------------------


def decode(composition: JointCRF, request: Request, evidence: Evidence | None = None) -> Answer:
    """Return the n best labellings of each sentence, without a warning if they are not exact.

    With ``request.scores`` false, scores and bounds omit log Z of the first tape. A labelling of
    some of the tapes has the score and probability of the best labelling of all tapes with it.

    Raises
    ------
    NoPathError
        A sentence has no legal labelling, and `request.strict` is set.
    """
    tapes = request.tapes or composition.tapes
    rule = ChainRule(composition, request.budget, evidence, request.n, tapes, scored=request.scores)
    corpus = _with_evidence(composition, request.sentences, evidence)

    def decoded(run: Run) -> tuple[Corpus, Incumbents]:
        all_sentences = run.end - run.first == len(corpus)
        part = corpus if all_sentences else corpus.select(np.arange(run.first, run.end))
        return part, best(rule, part)

    tokens = max(1, min(_RUN_TOKENS, _RUN_LABELS // request.n))
    rows = Ragged(corpus.offsets)
    runs = answered(runs_of(rows, tokens), decoded, request.threads)
    answer = _joined(rule, corpus.offsets, runs, tapes)
    if request.strict and answer.dead.any():
        dead = int(np.flatnonzero(answer.dead)[0])
        if not rows.lengths[dead]:
            check_empty(composition, rows.lengths.tolist())
        raise no_path(rule, answer.bounds.reshape(len(answer), -1)[dead, 0], dead)
    return answer


def _joined(
    rule: ChainRule,
    offsets: Longs,
    runs: Sequence[tuple[Corpus, Incumbents]],
    tapes: Sequence[str],
) -> Answer:
    parts = [incumbents for _, incumbents in runs]
    n = kernel.columns(rule.n, max([part.count for part in parts], default=0))
    scores = np.concatenate([np.empty((0, n)), *(part.columns(n) for part in parts)])
    others = np.concatenate([np.empty(0), *(part.bound for part in parts)])
    bounds = np.maximum(scores, others[:, None])

    def probabilities() -> Floats:
        each = [rule.probabilities(corpus, part, n) for corpus, part in runs]
        return _squeezed(np.concatenate([np.empty((0, n)), *each]))

    order = [rule.order[k] for k in rule.visible]
    flat = {}
    for tape in tapes:
        rows = [part.rows(order.index(tape), n) for part in parts]
        flat[tape] = np.concatenate([np.empty((n, 0), np.int32), *rows], axis=1)
    sets = rule.composition.label_sets
    return Answer(
        flat,
        {tape: sets[tape] for tape in tapes},
        offsets,
        scores=_squeezed(scores),
        probabilities=probabilities,
        exact=_squeezed(bounds <= scores),
        bounds=_squeezed(bounds),
    )


def cost_note(composition: JointCRF, product: Plan) -> str:
    """Return the estimated cost of the search, for the plan of a chain.

    Parameters
    ----------
    composition : JointCRF
    product : Plan
        The plan of the product of the same taggers.
    """
    rule = ChainRule(composition)
    least, cost = usual_cost(rule.ruled, rule.budget)
    worst = worst_cost_under_rules(rule.ruled, rule.wide_budget)
    most = cost + (worst and worst + product.most)
    return (
        f"chain rule: {least:,} ns a token if the first labels are proven to be the best, "
        f"{cost:,} ns to score {rule.budget} labellings of tape {rule.order[0]!r}, at worst "
        f"{most:,} ns; the product of the same taggers takes at most {product.most:,} ns"
    )


def warn_of_cost(composition: JointCRF) -> None:
    """Warn if the search under a grammar costs more than ten times the product of the taggers."""
    rule = ChainRule(composition)
    _, cost = usual_cost(rule.ruled, rule.budget)
    if cost <= _SLOW:
        return
    product = plan_of(composition._program).most
    if cost > _MANY_TIMES * product:
        warn(
            f"normalize='chain' under this grammar takes about {cost:,} ns a token, "
            f"{cost // product} times the product of the same taggers: use normalize='product', "
            "or a smaller budget, budget=4",
            CostWarning,
        )


def no_path(rule: ChainRule, bound: float, sentence: int | None) -> NoPathError:
    """Return the error for a sentence without a legal labelling within the budget."""
    if bound == -np.inf:
        return NoPathError("no labelling is legal", sentence=sentence)
    return NoPathError(
        f"none of the {rule.budget} best labellings of tape {rule.order[0]!r} has a legal "
        "completion; give a larger budget",
        sentence=sentence,
    )


def _with_evidence(composition: JointCRF, sentences: Data, evidence: Evidence | None) -> Corpus:
    """Return sentences as a corpus, with observed labels as columns."""
    corpus = as_corpus(composition, sentences)
    if evidence is None or not evidence.forced:
        return corpus
    topologies = {tagger.tape: tagger.topology for tagger in composition.taggers}
    return evidence.to_columns(topologies, corpus, np.arange(len(corpus)))


def _squeezed(array: NDArray[_T]) -> NDArray[_T]:
    """Return [B] for [B, 1]."""
    return array[:, 0] if array.shape[1] == 1 else array


# --- One run of sentences -------------------------------------------------------------------------


def best(rule: ChainRule, corpus: Corpus) -> Incumbents:
    """Return the n best labellings of a run of sentences.

    If the budget ends before the search finds a legal labelling, the best of the product is used.
    """
    hard = any(stage.hard for stage in rule.ruled)  # `Search` then asks the product for paths
    program = None if hard else rule.composition._grammar_program
    possible = possible_lengths(program, np.diff(corpus.offsets))
    if possible.all():
        incumbents = Search(rule, corpus).run()
    else:
        incumbents, where = _no_incumbents(rule, corpus), np.flatnonzero(possible)
        if len(where):
            incumbents.replace(where, Search(rule, corpus.select(where)).run())
    missing = np.flatnonzero(np.isneginf(incumbents.score[:, 0]) & (incumbents.bound > -np.inf))
    if len(missing) and not rule.scored:  # labellings of the product have scores with log Z
        scored = ChainRule(rule.composition, rule.limit, rule.evidence, rule.n, rule.tapes)
        incumbents.replace(missing, best(scored, corpus.select(missing)))
    elif len(missing):
        incumbents.replace(missing, _legal(rule, corpus.select(missing), incumbents.bound[missing]))
    return incumbents


def _no_incumbents(rule: ChainRule, corpus: Corpus) -> Incumbents:
    return Incumbents(corpus.offsets, rule.n, len(rule.visible), repeated=False)


def _legal(rule: ChainRule, corpus: Corpus, bound: Floats) -> Incumbents:
    """Return the best labels of the product, which are legal, with their scores in the chain."""
    incumbents = _no_incumbents(rule, corpus)
    incumbents.bound[:] = bound
    answer = product_answer(rule, corpus, 1)
    if answer is None:
        return incumbents
    legal = np.flatnonzero(~answer.dead)
    incumbents.bound[answer.dead] = -np.inf
    if len(legal):
        tokens = Ragged(corpus.offsets).entries(legal)
        ids = {tape: answer[tape].flat[0, tokens] for tape in rule.order}
        score = rule.score(corpus.select(legal), ids)
        incumbents.put(legal, score, [ids[rule.order[k]] for k in rule.visible])
    return incumbents


# --- The best labels of one sentence --------------------------------------------------------------

_WITHIN = 2.0  # nats: labellings of the first tape further below the best are ranked late


def tag_one(composition: JointCRF, sentence: SentenceLike) -> tuple[list[str], ...] | None:
    """Return the best labels of one sentence, depth first with the bounds of `Search`.

    It exists because a `Search` of one short sentence takes several times as long, mostly to
    assemble batches. Both look at the same labellings, and return the same labels. Returns None if
    the sentence or the taggers need a batch, if a few labellings do not prove the best one under
    hard rules, or it breaks these, or if scores are tied: there rounding decides, and a `Search`
    adds the same numbers in another order.
    """
    stages = composition._stages if composition.budget is None else ()
    relaxed = [stage.relaxed for stage in stages]
    graphs = [graph for stage in relaxed if (graph := stage.sentence_graph) is not None]
    if not graphs or len(graphs) < len(stages):
        return None
    columns = max((tagger.columns for tagger in composition.taggers), key=len)
    if any(tagger.columns != columns[: len(tagger.columns)] for tagger in composition.taggers):
        return None
    (read,) = as_sentences([sentence], columns)
    if not all(is_short(stage.tagger.index, read) for stage in stages):
        return None
    hard = any(stage.hard for stage in stages)
    rows = [stage.sentence_rows(read) for stage in relaxed]
    paths = _best_labels([*zip(rows, graphs, strict=True)], proven=hard)
    if not paths or (hard and not _obeys(stages, paths)):
        return None
    labels = {
        stage.tagger.tape: [stage.tagger.labels[i] for i in path]
        for stage, path in zip(stages, paths, strict=True)
    }
    return tuple(labels[tape] for tape in composition.tapes)


def _obeys(stages: Sequence[Stage], paths: Sequence[Sequence[int]]) -> bool:
    """Return whether the labels of one sentence obey the hard rules."""
    ids = {
        stage.tagger.tape: np.asarray(path, dtype=np.int32)
        for stage, path in zip(stages, paths, strict=True)
    }
    ends = np.array([0, len(paths[0])], dtype=np.int64)
    return all(not stage.columns and stage.obeys(ids, ends).all() for stage in stages)


def _best_labels(
    levels: Sequence[tuple[Callable[[Sequence[Ints]], SentenceRows], SentenceGraph]],
    *,
    proven: bool,
) -> list[list[int]] | None:
    """Return the best labelling of a sentence, a level for each tape; `None` if scores are tied.

    `proven`: also `None` if a few labellings do not prove it, since a search then decides.
    """
    best, paths, open_ = -np.inf, list[list[int]](), -np.inf  # open_: of labellings not looked at

    def search(prefix: tuple[Ints, ...], base: float) -> bool:
        """Find the best labelling with a prefix that scores `base`; false if scores are tied."""
        nonlocal best, paths, open_
        rows_of, graph = levels[len(prefix)]
        rows = rows_of(prefix)
        if len(prefix) == len(levels) - 1:
            path, score, log_z = graph.best(rows)
            total = base + score - log_z
            if total > best and not _tied(total, best):
                best, paths = total, [*(labels.tolist() for labels in prefix), path]
                return True
            return not _tied(total, best)
        n, within = (LATER, np.inf) if prefix else (LATER if proven else BUDGET, _WITHIN)
        scores, labellings, log_z = graph.nbest(rows, n + 1, within)
        base -= log_z if prefix else 0.0  # the first log Z is the same for all labellings
        rank = 0
        while True:
            listed = rank < len(scores)
            upper = base + (scores[rank] if listed else scores[0] - within)
            if upper <= best or _tied(upper, best):
                return not _tied(upper, best)
            if not listed:  # rank the labellings further below the best
                within = np.inf
                scores, labellings, _ = graph.nbest(rows, n + 1, within)
            elif rank == n:
                open_ = max(open_, upper)
                return True
            elif search((*prefix, labellings[rank]), upper):
                rank += 1
            else:
                return False

    if not search((), 0.0) or _tied(open_, best) or (proven and open_ > best):
        return None
    warn_unproven(int(open_ > best), 1)
    return paths


def _tied(score: float, other: float) -> bool:
    return math.isclose(score, other, rel_tol=1e-9, abs_tol=1e-9)


# --- Other questions about one sentence -----------------------------------------------------------


@dataclass(frozen=True)
class ChainSentence:
    """One sentence under the chain rule: samples, scores and probabilities of its labellings."""

    composition: JointCRF
    sentence: SentenceLike
    evidence: Evidence | None

    def score(self, labels: Sequence[Sequence[str]]) -> float:
        """Return the weighted log probability of a labelling, plus scores of the grammar."""
        corpus = _with_evidence(self.composition, [self.sentence], self.evidence)
        ids = self._numbered(labels, corpus.n_tokens)
        if not corpus.n_tokens:
            return self.composition._program.empty_score
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
        """Return n exact samples: labels of the first tape, then of the second given these, etc."""
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        model = self.composition
        if self.evidence is not None or model.conjuncts or any(w != 1.0 for w in model.weights):
            raise OptionError(
                "samples with normalize='chain' need weights of 1, no grammar, no known "
                "labels and no biases, since otherwise the probabilities of labellings do "
                "not sum to one: use normalize='product', or the n best labellings, "
                "lattice(sentence, n=50)"
            )
        corpus, ids = as_corpus(model, [self.sentence]), {}
        size, rng = corpus.n_tokens, np.random.default_rng(seed)
        if not n or not size:
            return [((),) * len(model.taggers)] * n
        corpus = corpus.select([0] * n)
        for stage in model._stages:
            batch = stage.plain_batch(stage.potentials(corpus))
            path = kernel.sample_paths(batch, rng.random((1, n * size)))[0]
            ids[stage.tagger.tape] = stage.tagger.topology.state_label[path]
            corpus = with_tape(corpus, stage.tagger, ids[stage.tagger.tape])
        rows = [
            np.asarray(tagger.labels, dtype=object)[ids[tagger.tape]].reshape(n, size).tolist()
            for tagger in model.taggers
        ]
        return [tuple(map(tuple, row)) for row in zip(*rows, strict=True)]

    def _numbered(self, labels: Sequence[Sequence[str]], length: int) -> dict[str, Ints]:
        tapes = self.composition.tapes
        rows = items_of(labels, "the labels are", "one list for each tape")
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

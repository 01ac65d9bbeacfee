"""Weights of patterns on top of a tagger that stays as it is: a log-linear model over labellings.

With c_k(x, y) how often pattern k counts in a labelling, p(y | x) is proportional to
exp(tagger(x, y) + sum_k w_k c_k(x, y)) over the labellings that the hard rules allow. Likelihood
and gradient are exact: forward-backward over the product of the tagger's lattice and one automaton
that counts all patterns.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from fstcrf.arguments import one_of
from fstcrf.arrays import Floats, Ints, Longs, distinct
from fstcrf.corpus import Corpus
from fstcrf.corpus.files import atomic_write
from fstcrf.errors import DataError, LabelError, NumericError, OptionError
from fstcrf.grammar import Grammar
from fstcrf.grammar.labels import listed, nearest
from fstcrf.joint.batches import as_corpus
from fstcrf.joint.jointmodel import JointModel
from fstcrf.kernel.counting import Counter, Counts, expected_steps
from fstcrf.model.model import Model
from fstcrf.model.reading import Data
from fstcrf.plans import Chain
from fstcrf.rules.patterns import (
    CountingAutomaton,
    RuleFile,
    counting_automaton,
    kinds_of,
    written,
)
from fstcrf.train import Progress, fit
from fstcrf.train.lbfgs import LBFGS, OWLQN, LBFGSSettings
from fstcrf.train.shards import Workers, shard_bounds

OnMissing = Literal["error", "skip"]


class RuleCount(NamedTuple):
    """A rule whose weight was learned."""

    name: str
    weight: float  # natural-log score of each match; the file has its negative as a cost
    gold: float  # how often it counts in the gold labels
    before: float  # how often it is expected to, by the tagger alone
    after: float  # by the tagger and the rules


@dataclass(frozen=True)
class LearnedRules:
    """Rules with their weights; made by `learn_rules`.

    Parameters
    ----------
    rules : tuple of RuleCount
        Of the open costs, in the order of the file.
    text : str
        The file with its costs filled in, in the language of grammar files.
    sentences : int
        Sentences that were learned from.
    skipped : int
        Those left out, whose gold labels the hard rules or the tagger's structure forbid.
    before, after : float
        Mean log-likelihood of a sentence, natural log: without and with the weights.
    reason : str
        Why training ended.
    """

    rules: tuple[RuleCount, ...]
    text: str
    sentences: int
    skipped: int
    before: float
    after: float
    reason: str = field(repr=False)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each rule by name: natural-log score of a match."""
        return {rule.name: rule.weight for rule in self.rules}

    @property
    def grammar(self) -> Grammar:
        """The soft grammar: ``tagger & learned.grammar``."""
        return Grammar.from_text(self.text)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the grammar file, whole or not at all.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        with atomic_write(path) as file:
            file.write(self.text.encode())

    def __str__(self) -> str:
        width = max(4, *(len(rule.name) for rule in self.rules))
        lines = [f"{'rule':<{width}} {'weight':>9} {'gold':>9} {'tagger':>11} {'with rules':>11}"]
        lines += [
            f"{r.name:<{width}} {r.weight:>+9.4f} {r.gold:>9,.0f} {r.before:>11,.1f} "
            f"{r.after:>11,.1f}"
            for r in self.rules
        ]
        return "\n".join(lines)


def learn_rules(
    tagger: Model | JointModel,
    data: Data,
    rules: str | os.PathLike[str],
    *,
    target: str | None = None,
    l2: float = 0.1,
    l1: float = 0.0,
    max_iterations: int = 100,
    on_missing: OnMissing = "error",
    threads: int = 1,
    report: Callable[[Progress], None] | None = None,
) -> LearnedRules:
    """Learn the open costs of a grammar file on top of a tagger, which stays as it is.

    Learn from sentences that the tagger was not trained on: of those it was, it makes fewer errors
    than it will, and rules get too little weight.

    Parameters
    ----------
    tagger : CRF, or Composition of one
        It may stand under a grammar: ``tagger & hard``.
    data : Corpus or sequence of sentences
        With the columns that the tagger and the rules read, and the gold labels.
    rules : path or str
        A ``.grm`` file, or its text, in which costs to be learned are written ``<?>``. Its other
        exports hold as they are.
    target : str, optional
        The column of gold labels; what the tagger was trained on when absent.
    l2, l1 : float
        Strengths of the penalties l2 · |weights|² and l1 · sum |weights|; with `l1`, rules that do
        not help get a weight of zero.
    max_iterations : int
        Iterations of L-BFGS, or OWL-QN, at most.
    on_missing : {"error", "skip"}
        Sentences whose gold labels the hard rules forbid, or the tagger does not have: an error
        that names and counts them, or they are left out.
    threads : int
        The result has the same bits for any number.
    report : callable, optional
        Is told of every iteration.

    Raises
    ------
    GrammarError
        What cannot be read or bound, with its line; no open cost.
    DataError
        No sentence; no such column; gold labels that are forbidden.
    LabelError
        A gold label that the tagger does not have.
    OptionError
        Several taggers, a chain of them, or options outside what they may be.
    TooLargeError
        The patterns have too many states together.

    Examples
    --------
    >>> import fstcrf
    >>> words = {"word": ["a", "b", "a", "b"]}
    >>> data = fstcrf.Corpus.from_sentences([{**words, "tag": list("XYXY")}] * 3)
    >>> plain = fstcrf.CRF.train(data, "tag", "U:%x[0,word]", l2=5.0)
    >>> learned = fstcrf.learn_rules(plain, data, 'export SAME = each["[X][X]" | "[Y][Y]", <?>];')
    >>> learned.weights["SAME"] < -1
    True
    """
    one_of("on_missing", on_missing, OnMissing)
    for name, value in (("l2", l2), ("l1", l1)):
        if not (np.isfinite(value) and value >= 0.0):
            raise OptionError(f"{name} is {value}, expected a number from 0")
    if threads < 1 or max_iterations < 1:
        raise OptionError("threads and max_iterations: expected at least 1")
    file = RuleFile.of(rules if isinstance(rules, str) else Path(rules))
    whole = _one_tagger(tagger)
    automaton = counting_automaton(file, whole)
    text, skipped = _text(whole, automaton, data, target, on_missing)
    objective = RuleLikelihood(text, automaton, l2=l2, threads=threads)
    settings = LBFGSSettings(l2=l2, l1=l1, period=3, delta=1e-7)
    start = np.zeros(len(automaton.patterns))
    optimiser = OWLQN(objective, start, settings) if l1 > 0 else LBFGS(objective, start, settings)
    outcome = fit(optimiser, max_iterations=max_iterations, report=report)
    # As the file has them, so that file and figures are of one model.
    weights = np.asarray([0.0 - float(written(w)) for w in outcome.theta.tolist()])
    first, last = objective.expected(start), objective.expected(weights)
    n = len(text.offsets) - 1
    found = tuple(
        RuleCount(rule.name, *map(float, numbers))
        for rule, *numbers in zip(
            file.open, weights, objective.observed, first[1], last[1], strict=True
        )
    )
    gold = objective.gold
    return LearnedRules(
        rules=found,
        text=file.with_costs(weights.tolist()),
        sentences=n,
        skipped=skipped,
        before=float(gold - first[0]) / n,
        after=float(gold + weights @ objective.observed - last[0]) / n,
        reason=outcome.reason,
    )


def _one_tagger(tagger: Model | JointModel) -> JointModel:
    whole = tagger if isinstance(tagger, JointModel) else JointModel((tagger,), (1.0,))
    if len(whole.taggers) > 1 or whole.maps:
        raise OptionError(
            "rules are learned on top of one tagger, not of several: learn them before you compose"
        )
    return whole


# --- Sentences as potentials ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RuleText:
    """Sentences with the potentials of a tagger, their kinds of tokens and gold labels."""

    chain: Chain
    offsets: Longs
    node: Floats  # [N, S]
    arc: Floats  # [S, S] or [N, S, S]
    kind: Ints  # [N]
    gold: Ints  # [N] labels

    def select(self, sentences: Longs) -> RuleText:
        """Return some of the sentences."""
        lengths = np.diff(self.offsets)
        kept = np.zeros(len(lengths), dtype=bool)
        kept[sentences] = True
        token = np.repeat(kept, lengths)
        arc = self.arc if self.arc.ndim == 2 else self.arc[token]
        offsets = np.append(0, np.cumsum(lengths[kept]))
        return RuleText(
            self.chain, offsets, self.node[token], arc, self.kind[token], self.gold[token]
        )

    def run(self, first: int, last: int) -> RuleText:
        """Return a run of sentences."""
        a, b = self.offsets[[first, last]].tolist()
        arc = self.arc if self.arc.ndim == 2 else self.arc[a:b]
        offsets = self.offsets[first : last + 1] - a
        return RuleText(self.chain, offsets, self.node[a:b], arc, self.kind[a:b], self.gold[a:b])

    def sums(self, automaton: CountingAutomaton, weights: Floats, *, gold: bool = False) -> Counts:
        """Return sums over all labellings, or over the gold ones alone."""
        topology, node = self.chain.topology, self.node
        if gold:
            node = np.where(topology.state_label == self.gold[:, None], node, -np.inf)
        step, end = automaton.scored(weights)
        counter = Counter(
            topology.state_label.astype(np.int32),
            self.arc,
            self.chain.initial,
            self.chain.final,
            automaton.target,
            step,
            end,
        )
        return expected_steps(counter, self.offsets, node, self.kind)


def _text(
    whole: JointModel,
    automaton: CountingAutomaton,
    data: Data,
    target: str | None,
    on_missing: OnMissing,
) -> tuple[RuleText, int]:
    """Return the sentences that can be learned from, and how many were left out."""
    _, corpus = as_corpus(whole, _with_target(whole, data, target))
    if not len(corpus):
        raise DataError("no sentences to learn from", path=corpus.source)
    tagger = whole.taggers[0]
    chain = whole.components[0].chain
    _, values = whole.components[0].prepare(corpus)
    found = values(0, len(corpus))
    size = chain.topology.n_states
    arcs = found[-1].reshape(corpus.n_tokens, -1) if chain.arc is None else chain.arc.reshape(-1)
    dense = np.full((*arcs.shape[:-1], size * size), -np.inf)
    pairs = chain.topology.source.astype(np.int64) * size + chain.topology.target
    dense[..., pairs] = arcs[..., chain.topology.kernel_arcs()]
    ids = {given.tape: given.ids(corpus) for given in automaton.given}
    text = RuleText(
        chain,
        corpus.offsets,
        np.ascontiguousarray(found[0]),
        dense.reshape(*arcs.shape[:-1], size, size),
        kinds_of(automaton.given, ids, corpus.n_tokens),
        _gold(corpus, _target(tagger, target), tagger.labels, on_missing),
    )
    weights = np.zeros(len(automaton.patterns))
    allowed = text.sums(automaton, weights, gold=True).log_z > -np.inf
    lost = np.flatnonzero(~allowed)
    if not len(lost):
        return text, 0
    if on_missing == "error" or not allowed.any():
        raise DataError(
            f"the gold labels of {len(lost):,} of {len(allowed):,} sentences are forbidden by the "
            "hard rules or the tagger's structure; on_missing='skip' leaves them out",
            path=corpus.source,
            sentence=int(lost[0]),
        )
    return text.select(np.flatnonzero(allowed)), len(lost)


def _target(tagger: Model, target: str | None) -> str:
    if target is not None:
        return target
    record = tagger.record
    return tagger.tape if record is None or record.target is None else record.target


def _with_target(whole: JointModel, data: Data, target: str | None) -> Data:
    """Return the data; rows of strings have the columns of training and no gold labels."""
    name = _target(whole.taggers[0], target)
    if isinstance(data, Corpus):
        if name not in data.columns:
            there = ", ".join(map(str, data.columns))
            raise DataError(f"no column {name!r}: there is {there}", path=data.source)
        return data
    return Corpus.from_sentences([sentence for sentence in data if len(sentence)])


def _gold(corpus: Corpus, target: str, labels: tuple[str, ...], on_missing: OnMissing) -> Ints:
    """Return the gold label of each token; −1 for those that the tagger does not have."""
    column = corpus.column(target)
    number = {label: i for i, label in enumerate(labels)}
    used = set(distinct(column.ids).tolist())
    odd = [v for i, v in enumerate(column.values) if v not in number and i in used]
    if odd and on_missing == "error":
        raise LabelError(
            f"gold label {odd[0]!r} is none of the tagger's {listed(labels)}"
            f"{nearest(odd[0], labels)}"
        )
    place = np.asarray([number.get(value, -1) for value in column.values], dtype=np.int32)
    return place[column.ids]


# --- The objective --------------------------------------------------------------------------------


class RuleLikelihood:
    """Penalised negative log-likelihood of gold labels, as a function of the rules' weights.

    Parameters
    ----------
    text : RuleText
    automaton : CountingAutomaton
    l2 : float
        Coefficient of |weights|².
    threads : int
        The result has the same bits for any number.

    Attributes
    ----------
    observed : float64 [open costs]
        How often each rule counts in the gold labels.
    gold : float
        Scores of the gold labels, weights of zero, added up.
    """

    def __init__(
        self, text: RuleText, automaton: CountingAutomaton, *, l2: float, threads: int = 1
    ) -> None:
        self.l2, self.size, self.evaluations, self.noise = l2, len(automaton.patterns), 0, 0.0
        self._automaton, self._workers = automaton, Workers(threads)
        bounds = shard_bounds(text.offsets)
        self._shards = [text.run(first, last) for first, last in pairwise(bounds)]
        gold = text.sums(automaton, np.zeros(self.size), gold=True)
        self.gold = float(gold.log_z.sum())
        self.observed = automaton.counted(gold.read, gold.ended)

    def expected(self, weights: Floats) -> tuple[float, Floats]:
        """Return the sum of log Z, and how often each rule is expected to count."""
        parts = list(
            self._workers.map(lambda shard: shard.sums(self._automaton, weights), self._shards)
        )
        log_z = sum(float(part.log_z.sum()) for part in parts)
        read = np.sum([part.read for part in parts], axis=0)
        ended = np.sum([part.ended for part in parts], axis=0)
        return log_z, self._automaton.counted(read, ended)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return value and gradient at weights, float64 [open costs].

        Raises
        ------
        NumericError
            The value is not finite.
        """
        self.evaluations += 1
        log_z, expected = self.expected(theta)
        value = log_z - self.gold - float(theta @ self.observed) + self.l2 * float(theta @ theta)
        if not np.isfinite(value):
            raise NumericError(f"the objective is {value} at evaluation {self.evaluations}")
        self.noise = 2.0**-48 * abs(log_z)
        return value, expected - self.observed + 2.0 * self.l2 * theta

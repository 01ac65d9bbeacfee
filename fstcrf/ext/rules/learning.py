"""Weights of patterns on top of a tagger that stays as it is: a log-linear model over labellings.

With c_k(x, y) how often pattern k counts in a labelling, p(y | x) is proportional to
exp(tagger(x, y) + sum_k w_k c_k(x, y)) over the labellings that the hard rules allow. Likelihood
and gradient are exact: forward-backward over the product of the tagger's lattice and one automaton
that counts all patterns.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arguments import one_of
from fstcrf.arrays import Floats, Ints, Longs, Singles
from fstcrf.errors import LearningWarning, warn
from fstcrf.ext.course import Course
from fstcrf.ext.rules.kernel import Counts, expected_steps
from fstcrf.ext.rules.patterns import CountingAutomaton, RuleFile, counting_automaton, written
from fstcrf.ext.rules.sentences import (
    OnMissing,
    RuleSentences,
    all_pairs,
    counter,
    one_tagger,
    rule_sentences,
)
from fstcrf.files import atomic_write
from fstcrf.kernel.native import Workers
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import TapeChain
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.joint import JointCRF
from fstcrf.text.sentences import Data
from fstcrf.training.arguments import Run
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.likelihood import LOG_ROUNDING, SummedLikelihood
from fstcrf.training.shards import shard_bounds


class RuleCount(NamedTuple):
    """A rule whose weight was learned."""

    name: str
    weight: float  # natural-log score of each match; the file has its negative as a cost
    gold: float  # how often it counts in the gold labels
    before: float  # expected number of matches under the given tagger
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
    tagger: CRF | JointCRF,
    data: Data,
    rules: str | os.PathLike[str],
    *,
    target: str | None = None,
    on_missing: OnMissing = "error",
    method: Literal["lbfgs"] | LBFGS = "lbfgs",
    l2: float | None = None,
    max_iterations: int | None = None,
    run: Run | None = None,
) -> LearnedRules:
    """Learn the open costs of a grammar file on top of a tagger, which stays as it is.

    Learn from sentences outside the tagger's training data: on its training data, it makes fewer
    errors than on other data, and rules receive too little weight.

    Parameters
    ----------
    tagger : CRF, or JointCRF of one
        It may have a grammar: ``tagger & hard``.
    data : Corpus or sequence of sentences
        With the columns that the tagger and the rules read, and the gold labels.
    rules : path or str
        A ``.grm`` file, or its text, in which costs to be learned are written ``<?>``. Its other
        exports hold as they are.
    target : str, optional
        The column of gold labels; by default, the target of the tagger's training.
    on_missing : {"error", "skip"}
        Sentences whose gold labels the hard rules forbid, or the tagger does not have: an error
        that names and counts them, or they are left out.
    method : "lbfgs" or LBFGS
        L-BFGS, or OWL-QN with l1, which gives rules that do not help a weight of zero; options
        ``l1``, ``period`` and ``delta``.
    l2 : float, optional
        Strength of the penalty l2 · |weights|²; by default 0.1.
    max_iterations : int, optional
        Most iterations; by default 100.
    run : Run, optional
        Threads, which do not change the result, and progress.

    Raises
    ------
    GrammarError
        Rules that cannot be read or bound, with their line; no open cost.
    DataError
        No sentence; no such column; gold labels that are forbidden.
    LabelError
        A gold label that the tagger does not have.
    OptionError
        Several taggers, a chain of taggers, or options outside their range.
    TooLargeError
        The patterns have too many states together.

    Warns
    -----
    LearningWarning
        A rule that never matches any labels: its weight stays 0.

    Examples
    --------
    >>> import fstcrf
    >>> words = {"word": ["a", "b", "a", "b"]}
    >>> data = fstcrf.Corpus.from_sentences([{**words, "tag": list("XYXY")}] * 3)
    >>> plain = fstcrf.CRF.train(data, "tag", "U:%x[0,word]", l2=5.0)
    >>> learned = fstcrf.ext.rules.learn_rules(
    ...     plain, data, 'export SAME = each["[X][X]" | "[Y][Y]", <?>];'
    ... )
    >>> learned.weights["SAME"] < -1
    True
    """
    one_of("on_missing", on_missing, OnMissing)
    usual = {"l2": 0.1, "max_iterations": 100, "period": 3, "delta": 1e-7}
    course = Course.of(method, l2=l2, max_iterations=max_iterations, run=run, usual=usual)
    file = RuleFile.of(rules)
    whole = one_tagger(tagger)
    automaton = counting_automaton(file, whole)
    sentences = rule_sentences(whole, automaton, data, target, on_missing)
    scores = potentials(whole, sentences)
    objective = rule_likelihood(scores, automaton, l2=course.l2, threads=course.threads)
    start = np.zeros(objective.size)
    before = objective.expected(start)
    warn_of_idle(file, sentences, before)
    outcome = course.outcome(course.minimiser(objective, start), fingerprint=str, evaluate=None)
    weights = as_written(outcome.theta)
    after = objective.expected(weights)
    return LearnedRules(**learned(file, sentences, weights, before, after), reason=outcome.reason)


# --- What is told of rules ------------------------------------------------------------------------


Expected: TypeAlias = tuple[float, Floats]
"""The log-likelihood of gold labels, without the penalty, and the expected counts of open costs."""


def as_written(weights: Floats) -> Floats:
    """Return weights as files have their costs, so that file and figures are of one model."""
    return np.asarray([0.0 - float(written(w)) for w in weights.tolist()])


def learned(
    file: RuleFile,
    sentences: RuleSentences,
    weights: Floats,
    before: Expected,
    after: Expected,
) -> dict[str, Any]:
    """Return the fields of `LearnedRules` but the reason."""
    numbers = zip(weights, sentences.counts, before[1], after[1], strict=True)
    n = len(sentences.corpus)
    return {
        "rules": tuple(
            RuleCount(rule.name, *map(float, own))
            for rule, own in zip(file.open, numbers, strict=True)
        ),
        "text": file.with_costs(weights.tolist()),
        "sentences": n,
        "skipped": sentences.skipped,
        "before": before[0] / n,
        "after": after[0] / n,
    }


def warn_of_idle(file: RuleFile, sentences: RuleSentences, before: Expected) -> None:
    """Warn of rules that never match any labels: their weights cannot be learnt."""
    idle = (sentences.counts == 0.0) & (before[1] == 0.0)
    names = [rule.name for rule, alone in zip(file.open, idle, strict=True) if alone]
    if names:
        warn(
            f"no legal labelling of these {len(sentences.corpus):,} sentences has a "
            f"match of {', '.join(names)}, so its weight stays 0: check that the "
            "pattern uses labels and strings of this text",
            LearningWarning,
        )


# --- Sentences as potentials ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RuleText:
    """Sentences with the potentials of a tagger, their kinds of tokens and gold labels."""

    chain: TapeChain
    offsets: Longs
    node: Floats  # [N, S]
    arc: Floats  # [S, S] or [N, S, S]
    kind: Ints  # [N]
    gold: Ints  # [N] labels

    def shards(self) -> Iterator[RuleText]:
        """Cut the text into runs of sentences, the same for any number of threads."""
        for first, last in pairwise(shard_bounds(self.offsets)):
            a, b = self.offsets[[first, last]].tolist()
            arc = self.arc if self.arc.ndim == 2 else self.arc[a:b]
            offsets = self.offsets[first : last + 1] - a
            yield RuleText(self.chain, offsets, self.node[a:b], arc, self.kind[a:b], self.gold[a:b])

    def sums(self, automaton: CountingAutomaton, weights: Floats, *, gold: bool = False) -> Counts:
        """Return sums over all labellings, or over only the gold ones."""
        node = self.node
        if gold:
            node = np.where(self.chain.topology.state_label == self.gold[:, None], node, -np.inf)
        beside = counter(automaton, self.chain, self.arc, weights)
        return expected_steps(beside, self.offsets, node, self.kind)


def potentials(whole: JointCRF, sentences: RuleSentences) -> RuleText:
    """Return sentences with the potentials of a tagger."""
    corpus, component = sentences.corpus, whole._components[0]
    chain = component.chain
    found = component.prepare(corpus)[1](0, len(corpus))
    arcs = found[-1].reshape(corpus.n_tokens, -1) if chain.arc is None else chain.arc.reshape(-1)
    arc = all_pairs(chain.topology, arcs)
    node = np.ascontiguousarray(found[0])
    return RuleText(chain, corpus.offsets, node, arc, sentences.kind, sentences.gold)


# --- The objective --------------------------------------------------------------------------------


class RuleExpectation:
    """Sum of log Z over all labellings, and expected counts of the rules.

    Parameters
    ----------
    text : RuleText
    automaton : CountingAutomaton
    workers : Workers
        The result has the same bits for any number of threads.
    """

    def __init__(self, text: RuleText, automaton: CountingAutomaton, *, workers: Workers) -> None:
        self._automaton, self._workers, self._shards = automaton, workers, list(text.shards())

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return the sum of log Z and the expected counts at weights of the rules."""
        weights = theta.astype(np.float64, copy=False)
        parts = list(
            self._workers.map(lambda shard: shard.sums(self._automaton, weights), self._shards)
        )
        log_z = sum(math.fsum(part.log_z.tolist()) for part in parts)
        read = np.sum([part.read for part in parts], axis=0)
        ended = np.sum([part.ended for part in parts], axis=0)
        return log_z, self._automaton.counted(read, ended)

    def curvature(self, theta: Singles | Floats) -> None:
        """Return `None`: there is no curvature."""
        del theta


def rule_likelihood(
    text: RuleText, automaton: CountingAutomaton, *, l2: float, threads: int = 1
) -> SummedLikelihood:
    """Return the penalised likelihood of gold labels, as a function of the rules' weights."""
    workers = Workers(threads)
    gold = text.sums(automaton, np.zeros(len(automaton.patterns)), gold=True)
    return SummedLikelihood(
        RuleExpectation(text, automaton, workers=workers),
        automaton.counted(gold.read, gold.ended),
        l2=l2,
        threads=workers,
        fixed=math.fsum(gold.log_z.tolist()),
        rounding=LOG_ROUNDING,
    )

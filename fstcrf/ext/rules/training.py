"""A tagger and patterns whose weights are learned together: one penalised likelihood of both.

With f(x, y) the features of a tagger and c_k(x, y) how often pattern k counts, p(y | x) is
proportional to exp(theta · f(x, y) + sum_k w_k c_k(x, y)) over the labellings that the hard rules
allow. The objective, negative log-likelihood + tagger_l2 |theta|² + l2 |w|², is convex in both. Its
gradient is exact: expected counts of features and of patterns under the product of the tagger's
lattice and one automaton that counts all patterns. Sources: arXiv 2411.12484 (regular patterns),
arXiv 2106.07306 (training under hard rules).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.arguments import one_of
from fstcrf.arrays import Floats, Ints, Singles
from fstcrf.errors import OptionError
from fstcrf.ext.course import Course, known
from fstcrf.ext.rules.kernel import Counter, expected_steps
from fstcrf.ext.rules.learning import (
    Expected,
    LearnedRules,
    as_written,
    learned,
    warn_of_idle,
)
from fstcrf.ext.rules.patterns import CountingAutomaton, RuleFile, counting_automaton
from fstcrf.ext.rules.sentences import (
    OnMissing,
    RuleSentences,
    all_pairs,
    gold_column,
    one_tagger,
    rule_sentences,
)
from fstcrf.kernel.native import Workers
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.joint import JointCRF
from fstcrf.text.sentences import Data, read_sentences
from fstcrf.training.arguments import Run
from fstcrf.training.evidence import Evidence
from fstcrf.training.expectation import General
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.likelihood import SummedLikelihood
from fstcrf.training.loop import Outcome
from fstcrf.training.problem import Blocks, ParameterSpace, Problem
from fstcrf.training.record import TrainingRecord
from fstcrf.training.shards import digest, parts_of

Start = Literal["tagger", "zero"]


@dataclass(frozen=True)
class TrainedWithRules(LearnedRules):
    """A tagger and rules with their weights; made by `train_with_rules`.

    Parameters
    ----------
    tagger : CRF
        With its new weights. It belongs to the rules: ``tagger & grammar``.
    rules, text, sentences, skipped, before, after, reason
        As for `LearnedRules`; before: with the weights that training started from.
    """

    tagger: CRF = field(repr=False)


def train_with_rules(
    tagger: CRF | JointCRF,
    data: Data,
    rules: str | os.PathLike[str],
    *,
    target: str | None = None,
    on_missing: OnMissing = "error",
    tagger_l2: float | None = None,
    start: Start = "tagger",
    method: Literal["lbfgs"] | LBFGS = "lbfgs",
    l2: float | None = None,
    max_iterations: int | None = None,
    run: Run | None = None,
) -> TrainedWithRules:
    """Train a tagger's own weights and the open costs of a grammar file together.

    The features and labels are the tagger's, its weights where training begins. Train on the
    sentences that it was trained on: `learn_rules`, which leaves it as it is, needs others.

    Parameters
    ----------
    tagger : CRF, or JointCRF of one
        It may have a grammar, ``tagger & hard``, which then also applies in training.
    data : Corpus or sequence of sentences
        With the columns that the tagger and the rules read, and the gold labels, all of them known.
    rules : path or str
        A ``.grm`` file, or its text, with open costs. Its other exports apply unchanged, also in
        training: hard ones remove all probability of forbidden labels.
    target, on_missing
        As for `learn_rules`.
    tagger_l2 : float, optional
        Strength of the penalty of the tagger's weights; by default, the value of its training, or
        0.5.
    start : {"tagger", "zero"}
        Weights of the tagger that training begins with. There is one best set of weights: a start
        saves iterations.
    method : "lbfgs" or LBFGS
        L-BFGS; options ``period`` and ``delta``.
    l2 : float, optional
        Strength of the penalty l2 · |weights|² of the rules; by default 0.1.
    max_iterations : int, optional
        Most iterations; by default 500.
    run : Run, optional
        Threads, progress and checkpoints.

    Raises
    ------
    OptionError
        Several taggers, a tagger with a factor, or options outside their range.
    GrammarError, DataError, LabelError, TooLargeError
        As for `learn_rules`; so is the warning of rules that never match.

    Examples
    --------
    >>> import fstcrf
    >>> words = {"word": ["a", "b", "a", "b"]}
    >>> data = fstcrf.Corpus.from_sentences([{**words, "tag": list("XYXY")}] * 3)
    >>> plain = fstcrf.CRF.train(data, "tag", "U:%x[0,word]", l2=5.0)
    >>> both = fstcrf.ext.rules.train_with_rules(
    ...     plain, data, 'export S = each["[X][X]" | "[Y][Y]", <?>];'
    ... )
    >>> both.weights["S"] < -1
    True
    >>> (both.tagger & both.grammar).tag(words)
    ['X', 'Y', 'X', 'Y']
    """
    one_of("on_missing", on_missing, OnMissing)
    one_of("start", start, Start)
    usual = {"l2": 0.1, "max_iterations": 500, "period": 10, "delta": 1e-5}
    course = Course.of(method, l2=l2, max_iterations=max_iterations, run=run, usual=usual)
    if course.l1:
        raise OptionError(f"l1 is {course.l1}: a tagger and its rules are trained without it")
    file = RuleFile.of(rules)
    whole = _plain(tagger)
    model = whole.taggers[0]
    strength = _tagger_l2(model, tagger_l2)
    automaton = counting_automaton(file, whole)
    sentences = rule_sentences(whole, automaton, data, target, on_missing)
    problem = RuledProblem.of(model, sentences, automaton)
    objective = problem.likelihood(strength, course.l2, threads=course.threads)
    theta = model.theta if start == "tagger" else np.zeros(model.space.size)
    first = np.concatenate([theta, np.zeros(len(automaton.patterns))])
    mark = problem.fingerprint(first, strength, course.l2)
    before = problem.expected(objective, first)
    warn_of_idle(file, sentences, before)
    minimiser = course.minimiser(objective, first)
    outcome = course.outcome(minimiser, fingerprint=lambda: mark, evaluate=None)
    theta, weights = problem.parts(outcome.theta)
    weights = as_written(weights)
    after = problem.expected(objective, np.concatenate([theta, weights]))
    record = _record(model, file, sentences, outcome, strength, mark, target)
    return TrainedWithRules(
        **learned(file, sentences, weights, before, after),
        reason=outcome.reason,
        tagger=replace(model, theta=theta.copy(), record=record),
    )


def _plain(tagger: CRF | JointCRF) -> JointCRF:
    """Return a tagger whose potentials are its weights, as a composition of one."""
    whole = one_tagger(tagger)
    if whole.weights[0] != 1.0:
        raise OptionError(
            f"the tagger has the weight {whole.weights[0]:g} in its composition, "
            "expected 1: train rules without this weight"
        )
    return whole


def _tagger_l2(model: CRF, given: float | None) -> float:
    told = None if model.record is None else model.record.options.get("l2")
    usual = told if isinstance(told, float) else LBFGS().l2
    strength = usual if given is None else given
    if not 0.0 <= strength < np.inf:
        raise OptionError(f"tagger_l2 is {strength}, expected a number from 0")
    return strength


def _record(
    model: CRF,
    file: RuleFile,
    sentences: RuleSentences,
    outcome: Outcome,
    tagger_l2: float,
    run: str,
    target: str | None,
) -> TrainingRecord:
    """Return the record of the tagger, with the old values that training did not change."""
    earlier = model.record
    options: dict[str, Any] = {"order": model._markov_order} if earlier is None else earlier.options
    method: dict[str, Any] = {"objective": "likelihood", "method": "lbfgs", "l2": tagger_l2}
    names = ", ".join(rule.name for rule in file.rules)
    grammar = None if earlier is None else earlier.grammar
    return TrainingRecord(
        options={**options, **method},
        sentences=len(sentences.corpus),
        tokens=sentences.corpus.n_tokens,
        attributes=model.index.n_node_rows + model.index.n_arc_rows,
        parameters=model.space.size,
        best_iteration=outcome.best_iteration,
        target=gold_column(model, target),
        grammar=" & ".join([*([grammar] if grammar else []), f"learned with it: {names}"]),
        run=run,
        **known(outcome),
    )


# --- The objective --------------------------------------------------------------------------------


class RuledExpectation:
    """Sum of log Z and expected counts, of features and of rules, under their product.

    Parameters
    ----------
    problem : Problem
        All labels known.
    space : ParameterSpace
    kind : int32 [N]
        Kinds of tokens, as the automaton distinguishes them.
    automaton : CountingAutomaton
    workers : Workers
        The result has the same bits for any number.
    """

    def __init__(
        self,
        problem: Problem,
        space: ParameterSpace,
        kind: Ints,
        automaton: CountingAutomaton,
        *,
        workers: Workers,
    ) -> None:
        self._size, self._kind, self._automaton = space.size, kind, automaton
        self._chain = General(problem, space, workers=workers, posteriors=self._posteriors)
        self._topology, self._scored = problem.topology, (automaton.step, automaton.end)
        self._counted: dict[int, Floats] = {}  # of shards, by their first tokens

    def __call__(self, theta: Singles | Floats) -> tuple[float, Floats]:
        """Return the sum of log Z, and expected counts, float64 [features + rules]."""
        both = theta.astype(np.float64, copy=False)
        self._scored = self._automaton.scored(both[self._size :])
        log_z, features = self._chain(both[: self._size])
        rules = np.zeros(len(both) - self._size)
        for first in sorted(self._counted):
            rules += self._counted[first]
        return log_z, np.concatenate([features, rules])

    def curvature(self, theta: Singles | Floats) -> None:
        """Return `None`: there is no curvature."""
        del theta

    def _posteriors(
        self, problem: Problem, tokens: slice, graph: kernel.Graph, node: Floats
    ) -> kernel.Posterior:
        topology, automaton = self._topology, self._automaton
        beside = Counter(
            topology.state_label.astype(np.int32),
            all_pairs(topology, graph.score),
            graph.initial,
            graph.final,
            automaton.target,
            *self._scored,
        )
        kind, inner = self._kind[tokens], np.ascontiguousarray(node)
        found = expected_steps(beside, problem.offsets, inner, kind, chain=True)
        assert found.state is not None  # noqa: S101 (asked for)
        assert found.pair is not None  # noqa: S101
        self._counted[tokens.start] = automaton.counted(found.read, found.ended)
        pair = found.pair.reshape(*found.pair.shape[:-2], -1)
        if graph.source is not None and graph.target is not None:
            pair = pair[..., graph.source.astype(np.int64) * topology.n_states + graph.target]
        return kernel.Posterior(found.log_z, found.state, pair)


@dataclass(frozen=True, eq=False)
class RuledProblem(Blocks):
    """Sentences with the features of a tagger and the rules; its weights are those of both.

    Parameters
    ----------
    problem : Problem
        All labels known, and legal.
    space : ParameterSpace
    sentences : RuleSentences
        The same ones.
    automaton : CountingAutomaton
    """

    problem: Problem
    space: ParameterSpace
    sentences: RuleSentences
    automaton: CountingAutomaton

    @classmethod
    def of(cls, model: CRF, sentences: RuleSentences, automaton: CountingAutomaton) -> RuledProblem:
        """Return the problem of a tagger on sentences."""
        corpus = sentences.corpus
        design = read_sentences(model.index, corpus, model.columns, model.reads).design
        rows = design(0, len(corpus))
        allowed = np.zeros((corpus.n_tokens, len(model.labels)), dtype=bool)
        allowed[np.arange(corpus.n_tokens), sentences.gold] = True
        weight = np.ones(len(corpus))
        problem = Problem(model.topology, corpus.offsets, rows.node, rows.arc, allowed, weight)
        return cls(problem, model.space, sentences, automaton)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Number of weights of the tagger and of the rules."""
        return self.space.size, len(self.automaton.patterns)

    def likelihood(self, l2: float, rule_l2: float, *, threads: int = 1) -> SummedLikelihood:
        """Return the penalised likelihood, with a coefficient for the tagger and for the rules."""
        workers, problem, space = Workers(threads), self.problem, self.space
        counts, kind = self.sentences.counts, self.sentences.kind
        data = Evidence.of(problem, space)
        sums = data.value_sums()
        if sums is not None:
            sums = np.pad(sums, ((0, 0), (0, len(counts))), constant_values=1.0)
        return SummedLikelihood(
            RuledExpectation(problem, space, kind, self.automaton, workers=workers),
            np.concatenate([data.observed(), counts]),
            l2=l2,
            threads=workers,
            fixed=self.sentences.score,
            value_sums=sums,
            block_l2=(slice(space.size, None), rule_l2),
        )

    def expected(self, objective: SummedLikelihood, theta: Floats) -> Expected:
        """Return the log-likelihood, without the penalties, and expected counts of the rules."""
        likelihood, counts = objective.expected(theta)
        return likelihood, self.parts(counts)[1]

    def fingerprint(self, first: Floats, *penalties: float) -> str:
        """Hash everything that determines the course of a run from the weights `first`."""
        state = hashlib.sha256(repr(penalties).encode())
        for part in parts_of(self.problem):
            state.update(digest(part))
        space, automaton = self.space, self.automaton
        arrays: list[NDArray[Any]] = [first, space.node_cells, space.transitions, space.arc_cells]
        arrays += [self.sentences.kind, automaton.target, automaton.step, automaton.end]
        for pattern in automaton.patterns:
            arrays += [pattern.cell, pattern.value, pattern.end]
        for array in arrays:
            state.update(f"{array.dtype}{array.shape}".encode())
            state.update(np.ascontiguousarray(array).tobytes())
        return state.hexdigest()

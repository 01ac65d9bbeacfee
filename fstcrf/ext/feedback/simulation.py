"""Learning from the rewards of gold labels or of a log, and the initial taggers of such learning.

Which weights a trained tagger has depends on the labels of its training text. Where a reward is all
that is known of a label, any label may turn out to be right, so every weight must be there.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fstcrf.arguments import LabelSet, label_tuple, real_array
from fstcrf.arrays import Floats, Ragged
from fstcrf.errors import DataError, LearningWarning, OptionError, warn
from fstcrf.evaluate.labellings import warn_of_unseen
from fstcrf.ext.feedback.bandit import Bandit, RewardedPaths, Schedule, feedback_over, gold_judge
from fstcrf.ext.feedback.descent import Aim, Descent, Rule
from fstcrf.ext.feedback.raters import Rater
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus, legal_transitions
from fstcrf.text.corpus.schemes import has_spans
from fstcrf.text.features import FeatureIndex, LiteralIndex, TemplateSet, is_literal
from fstcrf.text.features.template import as_templates
from fstcrf.text.sentences import allowed_labels, read_sentences
from fstcrf.training import Outcome, ParameterSpace, Problem, Progress, fit
from fstcrf.training.data import held_out_labels, held_out_score
from fstcrf.training.online import online_parameters
from fstcrf.training.structure import chain


def untrained(
    data: Any,
    labels: LabelSet,
    template: TemplateSet | str | os.PathLike[str] | None = None,
    *,
    order: int = 1,
    scheme: str | None = None,
    start_label: str | None = None,
    ends: bool = False,
    boundary: Literal["pad", "skip"] = "pad",
    min_count: int = 1,
    hash_bits: int | None = None,
    tape: str = "label",
) -> CRF:
    """Return a tagger to which all labellings are alike.

    Parameters
    ----------
    data : Corpus or sequence of sentences
        The source of attributes; its labels are not read.
    labels : sequence of str, or mapping of id to str
    template : TemplateSet, text or path
        Feature templates; required for columns.
    order, scheme, start_label, ends, boundary, min_count, tape
        As for `CRF.train`.
    hash_bits : int, optional
        Hash attributes into 2^k rows; this also learns attributes that `data` does not contain.

    Raises
    ------
    DataError, OptionError, TemplateError
        Invalid arguments.
    """
    names = label_tuple(labels)
    table = None if scheme is None else legal_transitions(names, scheme)
    topology = chain(names, order, table, start_label)
    index, columns = _index(data, template, boundary, min_count, hash_bits)
    first, last = (
        np.flatnonzero(states & ends).astype(np.int32)
        for states in (topology.initial, topology.final)
    )
    space = ParameterSpace(topology, index.n_node_rows, index.n_arc_rows, initial=first, final=last)
    return completed(CRF(topology, index, space, np.zeros(space.size), tape, columns))


def completed(model: CRF) -> CRF:
    """Return a tagger with the same weights, in which all others are there as well, as zeros.

    Parameters
    ----------
    model : CRF

    Raises
    ------
    OptionError
        Templates for pairs of labels and the input, which samples do not train.
    """
    old, topology = model.space, model.topology
    if old.n_arc_rows:
        raise OptionError("the template has B features of the input, which samples do not train")
    slots = np.arange(len(topology.node_slot_names))
    rows = np.arange(old.n_node_rows, dtype=np.int64)[:, None] * old.width
    cells = (rows + slots).ravel()
    transitions = np.arange(topology.n_arc_slots, dtype=np.int32)
    space = replace(old, node_cells=cells, transitions=transitions)
    return replace(model, space=space, theta=space.collect(old.tables(model.theta)), record=None)


def _index(
    data: Any,
    template: TemplateSet | str | os.PathLike[str] | None,
    boundary: Literal["pad", "skip"],
    min_count: int,
    hash_bits: int | None,
) -> tuple[FeatureIndex | LiteralIndex, tuple[str, ...]]:
    if not isinstance(data, Corpus):
        full = [sentence for sentence in data if len(sentence)]
        if not full:
            raise DataError("no sentence to take attributes from")
        if is_literal(full[0]):
            if template is not None:
                raise OptionError("a template needs columns, not attribute lists")
            literal, _ = LiteralIndex.build(full, min_count=min_count, hash_bits=hash_bits)
            return literal, ()
        data = Corpus.from_sentences(full)
    if template is None:
        raise OptionError("columns need a feature template: template='chunking.tpl'")
    index, _ = FeatureIndex.build(
        data, as_templates(template), boundary=boundary, min_count=min_count, hash_bits=hash_bits
    )
    return index, tuple(data.columns)


# --- Simulation -----------------------------------------------------------------------------------


def simulate(
    model: CRF,
    data: Corpus,
    target: str,
    *,
    aim: Aim,
    rule: Rule,
    schedule: Schedule = Schedule(),  # noqa: B008 (frozen)
    graded: bool = False,
    epochs: int = 10,
    samples: int | None = None,
    batch: int = 1,
    dev: Corpus | None = None,
    patience: int | None = None,
    rater: Rater | None = None,
    complete: bool = True,
    seed: int = 0,
    report: Callable[[Progress], None] | None = None,
) -> tuple[CRF, Outcome]:
    """Let a tagger learn from rewards for its own samples, which gold labels give.

    Only the reward reads the gold labels: it is the F-score of the spans of a sentence (1 if
    neither labelling has spans), or the share of right labels if labels are not spans.

    Parameters
    ----------
    model : CRF
        Where to start: `untrained`, or a tagger that was trained on something.
    data : Corpus
    target : str
        The column of gold labels.
    aim, rule, schedule
        The objective of learning, and the rule and schedule for the size of a step.
    graded : bool
        For pairs: the reward is the difference between the rewards of both samples instead of 0 or
        1.
    epochs : int
        Maximum number of epochs of `samples` samples each.
    samples : int, optional
        An epoch; one for each sentence when absent, or as many as it has draws.
    batch : int
        Rewards that are asked for at a time.
    dev : Corpus, optional
        Held-out data with labels: the epoch that does best on it is kept.
    patience : int, optional
        Stop after this number of epochs without improvement; never by default.
    rater : Rater, optional
        A model of noisy raters; by default, rewards are exact.
    complete : bool
        Learn all weights; otherwise only the weights of the tagger, whose set may depend on gold
        labels.
    seed : int
    report : callable, optional
        Called after every epoch.

    Returns
    -------
    model : CRF
        The tagger of the best epoch, or of the last one.
    outcome : Outcome

    Raises
    ------
    DataError, LabelError, OptionError
        Invalid data or options; held-out data without gold spans.
    NumericError
        The first epoch diverged.

    Warns
    -----
    LearningWarning
        A later epoch diverged; or learning has stalled: the tagger has become certain of labels
        with low rewards, so that all its samples are alike. `outcome.reason` has the same
        explanation.
    """
    start = completed(model) if complete else model
    evaluate = _held_out(start, dev, target)
    problem = problem_of(start, data, target)
    optimiser = Bandit(
        problem,
        start.space,
        start.theta,
        aim=aim,
        rule=rule,
        schedule=schedule,
        samples=samples,
        batch=batch,
        graded=graded,
        rater=rater,
        seed=seed,
    )
    outcome = _fitted(optimiser, epochs, evaluate, patience, report)
    return replace(start, theta=outcome.theta), outcome


def _fitted(
    optimiser: Bandit,
    epochs: int,
    evaluate: Callable[[Floats], float] | None,
    patience: int | None,
    report: Callable[[Progress], None] | None,
) -> Outcome:
    """Run a learner, and warn if it did not learn."""
    last: list[Progress] = []

    def told(progress: Progress) -> None:
        last[:] = [progress]
        if report is not None:
            report(progress)

    outcome = fit(
        optimiser,
        max_iterations=epochs,
        evaluate=evaluate,
        patience=epochs if patience is None else patience,
        report=told,
    )
    wrong = stalled(optimiser.aim, last[0]) if last else ""
    if wrong:
        outcome = replace(outcome, reason=f"{outcome.reason}; {wrong}")
    if wrong or outcome.reason.startswith("diverged"):
        warn(f"learning from rewards: {outcome.reason}", LearningWarning)
    return outcome


def stalled(aim: Aim, last: Progress) -> str:
    """Return why learning has stalled after an epoch, or an empty string.

    A tagger that is sure of labels draws them again and again; where these are rated low, it never
    sees better ones.
    """
    reward, sure = last.measures["reward"], last.measures.get("certainty", 0.0)
    if aim.pairs or "effective share" in last.measures or sure < 0.5 or reward >= 0.5:
        return ""
    return (
        f"stands still: samples have a mean probability of {sure:.2f} and a mean reward of "
        f"{reward:.2f}: take a control, a lower rate or another seed"
    )


# --- Logs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RewardLog:
    """Past samples of labels, their probabilities, and their rewards.

    Parameters
    ----------
    data : Corpus
        A sentence for each record, not empty; its column `target` has the labels that were shown.
    target : str
        Name of that column.
    reward : float64 [n]
        In [0, 1].
    log_p : float64 [n]
        Log-probabilities that the labels had of being shown, natural.

    Raises
    ------
    ShapeError, OptionError
        Lengths that differ from the number of sentences, or numbers outside their range.
    DataError
        There is no such column.
    """

    data: Corpus
    target: str
    reward: Floats
    log_p: Floats

    def __post_init__(self) -> None:
        self.data.column(self.target)
        for name in ("reward", "log_p"):
            object.__setattr__(self, name, real_array(getattr(self, name), name))
        paths = RewardedPaths(self.reward, self.log_p)
        if len(paths.reward) != len(self.data) or not Ragged(self.data.offsets).lengths.all():
            raise OptionError(
                f"{len(self.reward)} rewards for {len(self.data)} sentences: expected one for "
                "each, and no empty sentence"
            )


def collect_log(
    model: CRF, data: Corpus, target: str, *, rater: Rater | None = None, seed: int = 0
) -> RewardLog:
    """Let a tagger label each sentence by a sample, with the rewards that gold labels give.

    Parameters
    ----------
    model : CRF
        The tagger that is in use; it does not learn.
    data : Corpus
    target : str
        The column of gold labels.
    rater : Rater, optional
        A model of noisy raters.
    seed : int

    Raises
    ------
    DataError, LabelError
        Invalid data.
    """
    problem = problem_of(model, data, target)
    learner = feedback_over(model.space, Descent(online_parameters(model.space, model.theta)))
    sentences = learner.batch(problem.offsets, problem.node)
    order, aim = np.arange(len(problem.weight)), Aim()
    uniform = np.random.default_rng((seed, 0)).random(sentences.tokens(order))
    made = learner.propose(sentences, order, aim, Rule(), uniform)
    chance, noise = np.random.default_rng((seed, 0, 1)), None
    if rater is not None:
        biases = rater.biases(np.random.default_rng((seed, 0, 2)))
        noise = rater.noise(len(order), aim, biases, chance)
    reward = learner.judge(sentences, made, aim, gold_judge(problem), noise)
    names = [model.labels[i] for i in model.topology.state_label[made.path].tolist()]
    bounds = problem.offsets.tolist()
    shown = [names[a:b] for a, b in itertools.pairwise(bounds)]
    full = data.select(np.flatnonzero(Ragged(data.offsets).lengths))
    return RewardLog(full.with_column(target, shown), target, reward, made.log_p)


def learn_from_log(
    model: CRF,
    log: RewardLog,
    *,
    aim: Aim,
    rule: Rule,
    epochs: int = 10,
    dev: Corpus | None = None,
    patience: int | None = None,
    seed: int = 0,
    report: Callable[[Progress], None] | None = None,
) -> tuple[CRF, Outcome]:
    """Let a tagger learn from rewards of labels that another one has shown.

    A step is weighted with the ratio between the current probability of the labels and their
    probability at the time of sampling, at most `aim.cap`. Means over the log are therefore means
    over the tagger's own samples.

    Parameters
    ----------
    model : CRF
        Where to start: mostly the tagger that has shown the labels.
    log : RewardLog
    aim : Aim
        Of single samples; not to leave one out.
    rule : Rule
    epochs : int
        Passes over the log.
    dev : Corpus, optional
        Held-out data with labels in the column of the log: the epoch that does best is kept.
    patience, seed, report
        As for `simulate`.

    Returns
    -------
    model : CRF
    outcome : Outcome

    Raises
    ------
    DataError, LabelError, OptionError
        As for `simulate`; shown labels that the tagger holds for illegal.
    NumericError
        The first epoch diverged.

    Warns
    -----
    LearningWarning
        A later epoch diverged.
    """
    start = completed(model)
    evaluate = _held_out(start, dev, log.target)
    optimiser = Bandit(
        problem_of(start, log.data, log.target),
        start.space,
        start.theta,
        aim=aim,
        rule=rule,
        log=RewardedPaths(log.reward, log.log_p),
        seed=seed,
    )
    outcome = _fitted(optimiser, epochs, evaluate, patience, report)
    return replace(start, theta=outcome.theta), outcome


def problem_of(model: CRF, data: Corpus, target: str) -> Problem:
    """Return the nonempty sentences of a corpus as a problem for a tagger."""
    sizes = Ragged(data.offsets).lengths
    full = data if sizes.all() else data.select(np.flatnonzero(sizes))
    if not full.n_tokens:
        raise DataError("no sentence to learn from", path=data.source)
    prepared = read_sentences(model.index, full, model.columns, model.reads)
    return Problem(
        model.topology,
        full.offsets,
        prepared.design(0, len(full)).node,
        None,
        allowed_labels(full.column(target), model.labels, partial=False),
        np.ones(len(full)),
    )


def _held_out(start: CRF, dev: Corpus | None, target: str) -> Callable[[Floats], float] | None:
    """Return weights → how well they do on held-out data."""
    gold = held_out_labels(dev, None, target)
    if gold is None or dev is None:
        return None
    if has_spans(start.labels) and not any(map(has_spans, gold)):
        raise DataError("the held-out data has no gold segment: its F cannot choose an epoch")
    warn_of_unseen(gold, start.labels, "labels of the held-out data")
    return held_out_score(lambda theta: replace(start, theta=theta), dev, gold, 1, partial=True)

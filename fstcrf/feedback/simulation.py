"""Learning from rewards that gold labels give, in place of people.

==========  ===========================================
simulate    a tagger → the tagger after so many rewards
problem_of  sentences and gold labels as a tagger sees them
==========  ===========================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus
from fstcrf.errors import DataError
from fstcrf.feedback.start import completed
from fstcrf.kernel import Aim, Rule
from fstcrf.model import CRF
from fstcrf.model.heldout import has_spans, held_out_labels, held_out_score
from fstcrf.model.reading import read_sentences
from fstcrf.model.targets import allowed_labels
from fstcrf.train import Bandit, Outcome, Problem, Progress, Schedule, fit

__all__ = ["Schedule", "problem_of", "simulate"]

Floats = NDArray[np.float64]


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
    seed: int = 0,
    report: Callable[[Progress], None] | None = None,
) -> tuple[CRF, Outcome]:
    """Let a tagger learn from rewards for its own samples, which gold labels give.

    The gold labels are seen by nothing but the reward: the F of the spans of a sentence (1 where
    neither side has any), or the share of right labels where labels are not spans.

    Parameters
    ----------
    model : CRF
        Where to start: `untrained`, or a tagger that was trained on something.
    data : Corpus
    target : str
        The column of gold labels.
    aim, rule, schedule
        What rewards mean, and how far steps go.
    graded : bool
        Pairs: the reward is how far the first is ahead, not 1 where it is.
    epochs : int
        At most so many steps of `samples` samples.
    samples : int, optional
        One for each sentence when absent.
    batch : int
        Rewards that are asked for at a time.
    dev : Corpus, optional
        Held-out data with labels: the epoch that does best on it is kept.
    patience : int, optional
        Stop after so many epochs without a better one; never when absent.
    seed : int
    report : callable, optional
        Is told of every epoch.

    Returns
    -------
    model : CRF
        The tagger of the best epoch, or of the last one.
    outcome : Outcome

    Raises
    ------
    DataError, LabelError, OptionError
        Data or options that are not what they must be; held-out data without a gold span.
    NumericError
        The first epoch diverged.
    """
    start = completed(model)
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
        seed=seed,
    )
    outcome = fit(
        optimiser,
        max_iterations=epochs,
        evaluate=evaluate,
        patience=epochs if patience is None else patience,
        report=report,
    )
    return replace(start, theta=outcome.theta), outcome


def problem_of(model: CRF, data: Corpus, target: str) -> Problem:
    """Return the sentences of a corpus, those that are not empty, as a problem for a tagger.

    Raises
    ------
    DataError, LabelError
        No sentence, no such column, or labels that the tagger does not have.
    """
    sizes = np.diff(data.offsets)
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
    """Return weights → how well they do on held-out data.

    Raises
    ------
    DataError
        Labels are spans, and there is none.
    """
    gold = held_out_labels(dev, None, target)
    if gold is None:
        return None
    if has_spans(start.labels) and not any(map(has_spans, gold)):
        raise DataError("the held-out data has no gold segment: its F cannot choose an epoch")
    return held_out_score(lambda theta: replace(start, theta=theta), dev, gold, (), 1)

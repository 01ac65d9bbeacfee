"""Systems at work: where they begin, and what becomes of them.

=========  ===========================================================
Trained    what became of a system
trained    learn from rewards, ...
learnt     ... without a look at the test part
beginning  where a system begins
unlearned  the tagger to which all labellings are alike
informed   learn from gold labels, for comparison and for warm starts
f_of       F of a tagger on a corpus
=========  ===========================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fstcrf.corpus import Corpus
from fstcrf.evaluate import evaluate_spans
from fstcrf.feedback.simulation import simulate, untrained
from fstcrf.model import CRF
from fstcrf.recipes.partial_feedback.data import LABELS, TARGET, TEMPLATE, Data
from fstcrf.recipes.partial_feedback.systems import System
from fstcrf.train import Outcome, Progress

__all__ = ["L2", "Trained", "beginning", "f_of", "informed", "learnt", "trained", "unlearned"]

L2 = 0.2  # of full information, chosen on the dev part


@dataclass(frozen=True, slots=True)
class Trained:
    """What became of a system.

    Parameters
    ----------
    system : System
    model : CRF
        The best one on the dev part.
    dev, test : float
        Its F, in percent.
    samples : int
        Samples up to it.
    seconds : float
        Wall clock of all of them, looks at the dev part included.
    course : list of Progress
        What was known after each step.
    """

    system: System
    model: CRF
    dev: float
    test: float
    samples: int
    seconds: float
    course: list[Progress]


def unlearned(data: Data, hash_bits: int | None = None) -> CRF:
    """Return the tagger to which all labellings are alike: order 2, complete features."""
    return untrained(
        data.train,
        LABELS,
        TEMPLATE,
        order=2,
        scheme="iob2",
        hash_bits=hash_bits,
        tape=TARGET,
    )


def beginning(system: System, data: Data) -> CRF:
    """Return where a system begins."""
    start = unlearned(data, system.hash_bits)
    if not system.warm:
        return start
    return informed(data.train[: system.warm], l2=L2, base=start)


def informed(
    train: Corpus, *, l2: float, dev: Corpus | None = None, base: CRF | None = None
) -> CRF:
    """Return the tagger that gold labels give, by L-BFGS, over the attributes of `base` as well."""
    return CRF.train(
        train,
        TARGET,
        TEMPLATE,
        dev=dev,
        warm_start=base,
        order=2,
        scheme="iob2",
        l2=l2,
        features="complete",
        transitions="all",
    )


def trained(system: System, start: CRF, data: Data, passes: int, seed: int) -> Trained:
    """Learn from rewards, in so many passes over the training part, times `longer`."""
    course: list[Progress] = []
    began = time.perf_counter()
    model, outcome = learnt(system, start, data, passes, seed, course.append)
    seconds = time.perf_counter() - began
    dev, test = f_of(model, data.dev), f_of(model, data.test)
    samples = len(data.train) * system.passes * outcome.best_iteration
    return Trained(system, model, dev, test, samples, seconds, course)


def learnt(
    system: System,
    start: CRF,
    data: Data,
    passes: int,
    seed: int,
    report: Callable[[Progress], None] | None = None,
) -> tuple[CRF, Outcome]:
    """Learn from rewards; the test part is not looked at."""
    return simulate(
        start,
        data.train,
        TARGET,
        aim=system.aim,
        rule=system.rule,
        schedule=system.schedule,
        graded=system.graded,
        epochs=max(system.longer * passes // system.passes, 1),
        samples=len(data.train) * system.passes,
        dev=data.dev,
        seed=seed,
        report=report,
    )


def f_of(model: CRF, corpus: Corpus) -> float:
    """Return the F of a tagger on a corpus, in percent."""
    found = model.tag_all(corpus)
    return 100.0 * evaluate_spans(corpus.column_lists(TARGET), found).overall.f

"""How many samples a second, on one core: drawn, judged, learnt from.

=========  =====================================================
speeds     updates a second of processor time, by way of working
latencies  microseconds of a `FeedbackLearner`'s calls
=========  =====================================================
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus
from fstcrf.feedback.folder import Sync
from fstcrf.feedback.learner import FeedbackLearner
from fstcrf.feedback.simulation import problem_of
from fstcrf.kernel import Aim, Proposals, Rule
from fstcrf.model import CRF
from fstcrf.recipes.partial_feedback.data import TARGET
from fstcrf.train import Bandit

__all__ = ["latencies", "speeds"]

BATCH = 512
CALLS = 300


def speeds(start: CRF, train: Corpus, passes: int) -> dict[str, float]:
    """Return updates a second of processor time.

    Parameters
    ----------
    start : CRF
    train : Corpus
    passes : int
        Passes over it that are timed, after a first one.
    """
    problem = problem_of(start, train, TARGET)
    gold = problem.states

    def from_python(made: Proposals) -> NDArray[np.float64]:
        """Give the share of right states, in NumPy: a reward that the kernel knows nothing of."""
        lengths = np.diff(problem.offsets)[made.order]
        starts = np.cumsum(lengths) - lengths
        tokens = np.repeat(problem.offsets[made.order] - starts, lengths) + np.arange(
            len(made.path)
        )
        right = np.add.reduceat((gold[tokens] == made.path).astype(np.float64), starts)
        return np.asarray(right / lengths)

    aim, pair, rule = Aim(control="mean"), Aim("preference", control="mean"), Rule(rate=0.1)
    space, theta = start.space, start.theta
    adadelta = Rule("adadelta", rate=0.1)
    ways: dict[str, Callable[[], Bandit]] = {
        "one by one": lambda: Bandit(problem, space, theta, aim=aim, rule=rule),
        f"rewards for {BATCH} at a time": lambda: Bandit(
            problem, space, theta, aim=aim, rule=rule, batch=BATCH
        ),
        f"rewards for {BATCH} at a time, from Python": lambda: Bandit(
            problem, space, theta, aim=aim, rule=rule, batch=BATCH, rewards=from_python
        ),
        "pairs, one by one": lambda: Bandit(problem, space, theta, aim=pair, rule=rule),
        "ADADELTA, one by one": lambda: Bandit(problem, space, theta, aim=aim, rule=adadelta),
    }
    return {name: _speed(make(), passes) for name, make in ways.items()}


def latencies(start: CRF, sentences: Corpus) -> dict[str, float]:
    """Return what a call takes, median, in microseconds of wall clock."""
    found: dict[str, float] = {}
    for sync in get_args(Sync):
        asked, told = [], []
        with (
            tempfile.TemporaryDirectory() as folder,
            FeedbackLearner.create(Path(folder) / "learner", start, sync=sync) as learner,
        ):
            for sentence in sentences[:CALLS]:
                began = time.perf_counter()
                proposal = learner.propose(sentence)
                between = time.perf_counter()
                learner.feedback(proposal, 0.5)
                asked.append(between - began)
                told.append(time.perf_counter() - between)
        found[f"propose, sync={sync}"] = 1e6 * float(np.median(asked))
        found[f"feedback, sync={sync}"] = 1e6 * float(np.median(told))
    return found


def _speed(bandit: Bandit, passes: int) -> float:
    bandit.step()
    began = time.process_time()
    for _ in range(passes):
        bandit.step()
    return passes * bandit.samples / (time.process_time() - began)

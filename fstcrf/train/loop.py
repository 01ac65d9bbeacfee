"""The training loop: steps, evaluation on held-out data, early stopping, checkpoints, Ctrl-C.

=========  =====================================================
Progress   what is known after an iteration
Outcome    the weights to keep, and why training stopped
fit        run an optimiser to its end
=========  =====================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError
from fstcrf.train.protocols import snapshot

if TYPE_CHECKING:
    from fstcrf.train.checkpoint import Checkpoint, Saved
    from fstcrf.train.protocols import Optimiser, Step

__all__ = ["Outcome", "Progress", "fit"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known after an iteration.

    Parameters
    ----------
    iteration : int
        From 1.
    value : float
        Objective; of online learners, what their sentences cost before each update.
    gradient_norm : float or None
    evaluations : int
        Passes over the data so far.
    seconds : float
        Since training began (this run of it).
    dev : float or None
        Score on held-out data, where there is any; larger is better.
    best : bool
        Is this the best score so far.
    measures : mapping of str to float
        What else the optimiser tells (see `Step`).
    """

    iteration: int
    value: float
    gradient_norm: float | None
    evaluations: int
    seconds: float
    dev: float | None
    best: bool
    measures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The weights to keep.

    Parameters
    ----------
    theta : float64 [size]
        Those of the best score on held-out data, or the last ones; where training diverged without
        such data, those of the least value, or at the start.
    iterations : int
        Made in all.
    best_iteration : int
        The one that `theta` comes from; 0 is the start.
    value : float
        Objective at the last iteration.
    dev : float or None
        Best score on held-out data.
    reason : str
        Why training stopped.
    interrupted : bool
        Ctrl-C stopped it.
    """

    theta: Floats
    iterations: int
    best_iteration: int
    value: float
    dev: float | None
    reason: str
    interrupted: bool = False


class _Best:
    """Keeps the weights of the best score; without scores the last, and those of least value."""

    def __init__(self, optimiser: Optimiser) -> None:
        self.theta, self.score, self.iteration = snapshot(optimiser), -np.inf, 0
        self._start, self._first = (self.theta, 0), np.nan
        self._least: tuple[float, Callable[[], Floats], int] | None = None

    def offer(
        self, optimiser: Optimiser, score: float | None, iteration: int, value: float
    ) -> bool:
        if score is not None and not score > self.score:
            return False
        self.score = self.score if score is None else score
        self._first = value if np.isnan(self._first) else self._first
        self.theta, self.iteration = snapshot(optimiser), iteration
        if score is None and (self._least is None or value <= self._least[0]):
            self._least = value, self.theta, iteration
        return True

    def resume(self, saved: Saved) -> None:
        self.theta, self.score = (lambda: saved.theta), saved.score
        self.iteration = saved.best_iteration
        self._start, self._first = (self.theta, self.iteration), saved.value

    def fall_back(self) -> str:
        """Take the weights of least value, where there is no score to go by; tell where from.

        The value of an iteration may be that of the weights before it: where none is below the
        first, nothing is known to be better than the start.
        """
        if self._least is None:
            return ""
        value, self.theta, self.iteration = self._least
        if value < self._first:
            return ""
        self.theta, self.iteration = self._start
        return "; the weights kept are those at the start"


def fit(
    optimiser: Optimiser,
    *,
    max_iterations: int,
    evaluate: Callable[[Floats], float] | None = None,
    patience: int = 10,
    report: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
    keep_on_interrupt: bool = False,
) -> Outcome:
    """Run an optimiser until it is done, out of iterations, or no longer better on held-out data.

    Parameters
    ----------
    optimiser : Optimiser
    max_iterations : int
        Iterations in all, those before a resume included.
    evaluate : callable, optional
        theta → score on held-out data, larger is better.
    patience : int
        Stop after this many iterations without a better score.
    report : callable, optional
        Is told of every iteration.
    checkpoint : Checkpoint, optional
        Where the state is saved, and taken from when there is one.
    keep_on_interrupt : bool
        On Ctrl-C return the best weights so far instead of raising KeyboardInterrupt, which is
        still raised where no iteration is complete yet.

    Raises
    ------
    NumericError
        The optimiser diverged at its first iteration; later, the best weights so far are returned
        with the reason: those of the best score, else of the least value, those at the start where
        no value is below that of the first iteration.
    """
    started = time.perf_counter()
    best, iteration, value = _Best(optimiser), 0, np.inf
    saved = None if checkpoint is None else checkpoint.restore(optimiser)
    if saved is not None:
        iteration, value = saved.iteration, saved.value
        best.resume(saved)
    done = None if saved is None else saved.done
    reason, interrupted = done or f"the limit of {max_iterations} iterations", False
    try:
        while iteration < max_iterations and not done:
            step = optimiser.step()
            iteration, value = iteration + 1, step.value
            dev = None if evaluate is None else evaluate(optimiser.theta())
            better = best.offer(optimiser, dev, iteration, value)
            if report is not None:
                report(
                    _progress(step, iteration, time.perf_counter() - started, dev, better=better)
                )
            done = step.done or _out_of_patience(iteration - best.iteration, patience)
            last = bool(done) or iteration == max_iterations
            if checkpoint is not None and (last or checkpoint.due(iteration)):
                checkpoint.save(
                    optimiser, iteration, value, best.theta(), best.score, best.iteration, done
                )
            reason = done or reason
    except KeyboardInterrupt:
        if not keep_on_interrupt or not best.iteration:
            raise
        reason, interrupted = f"interrupted after iteration {iteration}", True
    except NumericError as error:
        if iteration == 0:
            raise
        reason = f"diverged after iteration {iteration}: {error}{best.fall_back()}"
    dev = best.score if evaluate is not None and best.iteration else None
    return Outcome(best.theta(), iteration, best.iteration, value, dev, reason, interrupted)


def _out_of_patience(waited: int, patience: int) -> str | None:
    if waited >= patience:
        return f"no better score on held-out data for {waited} iterations"
    return None


def _progress(
    step: Step, iteration: int, seconds: float, dev: float | None, *, better: bool
) -> Progress:
    return Progress(
        iteration,
        step.value,
        step.gradient_norm,
        step.evaluations,
        seconds,
        dev,
        better,
        step.measures,
    )

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
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NumericError
from fstcrf.interruption import patient, undisturbed
from fstcrf.train.checkpoint import Saved
from fstcrf.train.protocols import snapshot

if TYPE_CHECKING:
    from fstcrf.train.checkpoint import Checkpoint
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
        """Go on from what was best; the start is still that of the run."""
        self.theta, self.score = (lambda: saved.theta), saved.score
        self.iteration, self._first = saved.best_iteration, saved.first
        if saved.least is not None:
            value, theta, iteration = saved.least
            self._least = value, (lambda: theta), iteration

    def saved(self, iteration: int, value: float, done: str | None) -> Saved:
        """Return what a checkpoint holds of it."""
        theta = self.theta()
        least = None
        if self._least is not None:
            lowest, weights, when = self._least
            least = lowest, theta if when == self.iteration else weights(), when
        return Saved(iteration, value, theta, self.score, self.iteration, self._first, least, done)

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
        Where the state is saved, and taken from when there is one. With it, Ctrl-C ends training
        after the iteration that it comes in, whose state is saved; a second one ends it at once,
        and the state is what was saved before.
    keep_on_interrupt : bool
        On Ctrl-C return the best weights so far instead of raising KeyboardInterrupt, which is
        still raised where no iteration is complete yet.

    Raises
    ------
    NumericError
        The optimiser diverged at its first iteration; later, the best weights so far are returned
        with the reason: those of the best score, else of the least value, those at the start where
        no value is below that of the first iteration.
    OSError
        The state cannot be saved.
    """
    started = time.perf_counter()
    course = _Course(optimiser, evaluate, patience, checkpoint)
    best, interrupted = course.best, False
    try:
        while course.iteration < max_iterations and not course.done:
            with nullcontext() if checkpoint is None else patient():
                step, dev, better = course.go_on()
            if report is not None:
                seconds = time.perf_counter() - started
                report(_progress(step, course.iteration, seconds, dev, better=better))
            last = bool(course.done) or course.iteration == max_iterations
            if checkpoint is not None and checkpoint.due(course.iteration, last=last):
                course.save(checkpoint)
        reason = course.done or f"the limit of {max_iterations} iterations"
    except KeyboardInterrupt:
        kept = best.iteration if keep_on_interrupt else 0
        reason, interrupted = f"interrupted after iteration {course.iteration}", True
        reason += course.save_last(checkpoint, quiet=bool(kept))
        if not kept:
            raise
    except NumericError as error:
        if course.iteration == 0:
            raise
        reason = f"diverged after iteration {course.iteration}: {error}{best.fall_back()}"
    score = best.score if evaluate is not None and best.iteration else None
    return Outcome(
        best.theta(), course.iteration, best.iteration, course.value, score, reason, interrupted
    )


class _Course:
    """Where a run stands: after whole iterations, as the optimiser may not in their midst."""

    def __init__(
        self,
        optimiser: Optimiser,
        evaluate: Callable[[Floats], float] | None,
        patience: int,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._optimiser, self._evaluate, self._patience = optimiser, evaluate, patience
        self.best, self.iteration, self.value = _Best(optimiser), 0, np.inf
        self.done: str | None = None
        saved = None if checkpoint is None else checkpoint.restore(optimiser)
        if saved is not None:
            self.iteration, self.value, self.done = saved.iteration, saved.value, saved.done
            self.best.resume(saved)
        self._begun, self._whole = self.iteration, True

    def go_on(self) -> tuple[Step, float | None, bool]:
        """Make an iteration; return its step, its score, and whether that is the best."""
        self._whole = False
        step = self._optimiser.step()
        score = None if self._evaluate is None else self._evaluate(self._optimiser.theta())
        better = self.best.offer(self._optimiser, score, self.iteration + 1, step.value)
        self.iteration, self.value = self.iteration + 1, step.value
        waited = self.iteration - self.best.iteration
        self.done = step.done or _out_of_patience(waited, self._patience)
        self._whole = True
        return step, score, better

    def save(self, checkpoint: Checkpoint) -> None:
        """Write where the run stands."""
        saved = self.best.saved(self.iteration, self.value, self.done)
        checkpoint.save(self._optimiser, saved)

    def save_last(self, checkpoint: Checkpoint | None, *, quiet: bool) -> str:
        """Write where an interrupted run stands, if it can go on from there.

        Returns
        -------
        str
            What there is to say: with `quiet`, why the file cannot be written.
        """
        if checkpoint is None or not self._whole or self.iteration == self._begun:
            return ""
        try:
            with suppress(KeyboardInterrupt), undisturbed():  # training ends anyway
                self.save(checkpoint)
        except OSError as error:
            if not quiet:
                raise
            return f"; its state could not be saved: {error}"
        return ""


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

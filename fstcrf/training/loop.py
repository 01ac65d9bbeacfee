"""The training loop: held-out scores, early stopping, and the state of a run in a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.errors import ModelFileError, NumericError, OptionError, ShapeError
from fstcrf.files import check_writable, held
from fstcrf.storage import read_arrays, write_arrays
from fstcrf.training.interruption import patient, undisturbed
from fstcrf.training.optimiser import Optimiser, State, Step, snapshot

KIND, VERSION = "fstcrf-checkpoint", 3


@dataclass(frozen=True, slots=True)
class Saved:
    """The state of a run after an iteration, without its optimiser.

    Parameters
    ----------
    iteration : int
    value : float
        Objective at that iteration.
    theta : float64 [size]
        Best weights so far.
    score : float
        Their score on held-out data; −inf without such data.
    best_iteration : int
    first : float
        Objective at the first iteration that was kept; NaN before that.
    least : (float, float64 [size], int) or None
        Without held-out data: least objective so far, its weights and iteration.
    done : str or None
        Reason why the run ended, other than its limit of iterations.
    """

    iteration: int
    value: float
    theta: Floats
    score: float
    best_iteration: int
    first: float = np.nan
    least: tuple[float, Floats, int] | None = None
    done: str | None = None


class _Position(msgspec.Struct, frozen=True):
    iteration: int
    best_iteration: int
    least_iteration: int | None = None
    done: str | None = None


class Checkpoint:
    """A file with the state of one training run.

    Parameters
    ----------
    path : path
    fingerprint : str
        Identity of the run: a hash of data, template, options. A checkpoint of another run is
        refused.
    every : int, optional
        Save after every `every` iterations; if `None`, only when the run is interrupted.
    resume : bool
        Continue from the file if it exists.

    Raises
    ------
    OptionError
        The file exists, and `resume` is not set, so it is not overwritten. Or another run is
        writing to it.
    OSError
        The file cannot be written; this is found before training.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fingerprint: str,
        every: int | None = 10,
        resume: bool,
    ) -> None:
        check_checkpoint(path, every=every, resume=resume)
        self.path, self.fingerprint, self.every, self.resume = path, fingerprint, every, resume

    def held(self) -> AbstractContextManager[None]:
        """Lock the file against other runs for a block."""
        return held(self.path, "training")

    def due(self, iteration: int, *, last: bool = False) -> bool:
        """Return whether to save now; the last iteration of a run is always saved."""
        return self.every is not None and (last or iteration % self.every == 0)

    def save(self, optimiser: Optimiser, saved: Saved) -> None:
        """Write the state of the run.

        Raises
        ------
        OSError
            The file cannot be written; the old file is unchanged.
        """
        value, least, iteration = saved.least or (np.nan, None, None)
        position = _Position(saved.iteration, saved.best_iteration, iteration, saved.done)
        arrays = {f"optimiser.{name}": array for name, array in optimiser.state().items()}
        arrays["best"] = saved.theta
        arrays["scores"] = np.asarray([saved.value, saved.score, saved.first, value])
        if least is not None and iteration != saved.best_iteration:
            arrays["least"] = least
        write_arrays(
            self.path,
            arrays,
            {
                "fingerprint": self.fingerprint,
                "position": msgspec.json.encode(position).decode(),
                "variant": kernel.variant(),
            },
            kind=KIND,
            version=VERSION,
        )

    def restore(self, optimiser: Optimiser) -> Saved | None:
        """Restore the optimiser's saved state; return `None` if there is no file to resume.

        Raises
        ------
        ModelFileError
            The file is damaged, of another version, or the checkpoint of another run.
        """
        if not self.resume or not Path(self.path).exists():
            return None
        arrays, metadata = read_arrays(self.path, kind=KIND, version=VERSION)
        if metadata.get("fingerprint") != self.fingerprint:
            raise ModelFileError(
                f"{os.fspath(self.path)}: belongs to a run with other data or options; "
                "repeat that run, or remove the file to start again"
            )
        position = _position(metadata, self.path)
        state = {
            name.removeprefix("optimiser."): array.copy()
            for name, array in arrays.items()
            if name.startswith("optimiser.")
        }
        try:
            _restore(optimiser, state)
            value, score, first, least = arrays["scores"].astype(np.float64).tolist()
            best = _weights(arrays["best"], optimiser)
            lowest = None
            if position.least_iteration is not None:
                weights = _weights(arrays["least"], optimiser) if "least" in arrays else best
                lowest = least, weights, position.least_iteration
        except (LookupError, ValueError, TypeError, OverflowError) as error:
            raise ModelFileError(
                f"{os.fspath(self.path)}: not a sound state of a training: {error}"
            ) from None
        return Saved(
            position.iteration,
            value,
            best,
            score,
            position.best_iteration,
            first,
            lowest,
            position.done,
        )


def _restore(optimiser: Optimiser, state: State) -> None:
    """Restore an optimiser's state, if its arrays have the right shapes."""
    expected = optimiser.state()
    # Otherwise a second optimiser is active, or `restore` converts a state of an earlier version.
    if state.get("left", np.zeros(1))[0] >= 0 and expected.keys() <= state.keys():
        for name, new in expected.items():
            # Arrays that are empty at first may grow.
            if new.size and state[name].shape != new.shape:
                raise ShapeError(f"{name} is {list(state[name].shape)}, expected {list(new.shape)}")
    size = len(optimiser.theta())
    optimiser.restore(state)
    if optimiser.theta().shape != (size,):
        raise ShapeError(f"{optimiser.theta().size} weights, expected {size}")


def _weights(array: Floats, optimiser: Optimiser) -> Floats:
    """Return the weights of a state, which must have the optimiser's size."""
    size = len(optimiser.theta())
    if array.shape != (size,) or array.dtype != np.float64:
        raise ShapeError(
            f"weights are {array.dtype} {list(array.shape)}, expected float64 [{size}]"
        )
    return array.copy()


def check_checkpoint(
    path: str | os.PathLike[str], *, every: int | None = None, resume: bool
) -> None:
    """Check before long work whether a run can have a checkpoint; arguments as above.

    Raises
    ------
    OptionError, OSError
        As for `Checkpoint`.
    """
    if every is not None and every < 1:
        raise OptionError(f"a checkpoint every {every} iterations: expected at least 1")
    check_writable(path)
    with held(path, "training"):
        pass
    if not resume and Path(path).exists():
        raise OptionError(
            f"{os.fspath(path)} exists and holds the state of an earlier run: continue "
            "it with resume=, or remove it to start again"
        )


def saved_iteration(path: str | os.PathLike[str]) -> int | None:
    """Return the iteration from which a run would continue; `None` if there is no file.

    Raises
    ------
    ModelFileError
        The file is damaged, or not a checkpoint.
    """
    metadata = _saved(path)
    return None if metadata is None else _position(metadata, path).iteration


def _saved(path: str | os.PathLike[str]) -> Mapping[str, str] | None:
    """Return the metadata of a checkpoint, if it exists."""
    return read_arrays(path, kind=KIND, version=VERSION)[1] if Path(path).exists() else None


def _position(metadata: Mapping[str, str], path: str | os.PathLike[str]) -> _Position:
    try:
        return msgspec.json.decode(metadata["position"], type=_Position)
    except (KeyError, msgspec.DecodeError, RecursionError) as error:
        raise ModelFileError(f"{os.fspath(path)}: not a sound checkpoint: {error}") from None


def saved_variant(path: str | os.PathLike[str]) -> str | None:
    """Return the kernel variant of a saved run; `None` if the file does not record it.

    Raises
    ------
    ModelFileError
        The file is damaged, or not a checkpoint.
    """
    metadata = _saved(path)
    return None if metadata is None else metadata.get("variant")


# --- The training loop ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a training run after an iteration, for reports.

    Parameters
    ----------
    iteration : int
        From 1.
    value : float
        Objective; for online learners, the losses of the sentences before each update.
    gradient_norm : float or None
    evaluations : int
        Passes over the data so far.
    seconds : float
        Since training began, or was resumed.
    dev : float or None
        Score on held-out data, if there is any; larger is better.
    best : bool
        Whether this is the best score so far.
    measures : mapping of str to float
        Further measures of the optimiser (see `Step`).
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
    """The result of training.

    Parameters
    ----------
    theta : float64 [size]
        Weights with the best score on held-out data, or the last ones. If training diverged without
        such data, weights with the least value, or the initial ones.
    iterations : int
        Total number of iterations.
    best_iteration : int
        The iteration of `theta`; 0 is the start.
    value : float
        Objective at the last iteration.
    dev : float or None
        Best score on held-out data.
    reason : str
        Why training stopped.
    interrupted : bool
        Whether Ctrl-C stopped it.
    """

    theta: Floats
    iterations: int
    best_iteration: int
    value: float
    dev: float | None
    reason: str
    interrupted: bool = False


class _Best:
    """Stores the weights with the best score.

    Without scores, it stores the last weights, and the weights with the least value.
    """

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
        """Restore the best weights of a saved run."""
        self.theta, self.score = (lambda: saved.theta), saved.score
        self.iteration, self._first = saved.best_iteration, saved.first
        if saved.least is not None:
            value, theta, iteration = saved.least
            self._least = value, (lambda: theta), iteration

    def saved(self, iteration: int, value: float, done: str | None) -> Saved:
        """Return the contents of a checkpoint."""
        theta = self.theta()
        least = None
        if self._least is not None:
            lowest, weights, when = self._least
            least = lowest, theta if when == self.iteration else weights(), when
        return Saved(iteration, value, theta, self.score, self.iteration, self._first, least, done)

    def fall_back(self) -> str:
        """Choose the weights with the least value, if there are no scores; return a note.

        The value of an iteration may belong to the previous weights. So if no value is below the
        first, the initial weights may be the best ones.
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
        Total number of iterations, including those before a resume.
    evaluate : callable, optional
        theta → score on held-out data, larger is better.
    patience : int
        Stop after this many iterations without a better score.
    report : callable, optional
        Called after every iteration.
    checkpoint : Checkpoint, optional
        File in which the state is saved, and from which it is restored. With it, Ctrl-C ends
        training after the current iteration, whose state is saved. A second Ctrl-C ends training at
        once, and the file keeps the previous state.
    keep_on_interrupt : bool
        On Ctrl-C return the best weights so far instead of raising KeyboardInterrupt, unless no
        iteration is complete.

    Raises
    ------
    NumericError
        The optimiser diverged at its first iteration. If it diverges later, the best weights so far
        are returned with the reason: the best score, or else the least value, or the initial
        weights if no value is below the first.
    OptionError
        Another run uses the checkpoint.
    OSError
        The state cannot be saved.
    """
    with nullcontext() if checkpoint is None else checkpoint.held():
        course = _Course(optimiser, evaluate, patience, checkpoint)
        return _run(course, max_iterations, report, checkpoint, keep=keep_on_interrupt)


def _run(
    course: _Course,
    max_iterations: int,
    report: Callable[[Progress], None] | None,
    checkpoint: Checkpoint | None,
    *,
    keep: bool,
) -> Outcome:
    started = time.perf_counter()
    best, interrupted = course.best, False
    try:
        while course.iteration < max_iterations and not course.done:
            with nullcontext() if checkpoint is None else patient():
                step, dev, better = course.go_on()
            if report is not None:
                seconds = time.perf_counter() - started
                reached = step.value, step.gradient_norm, step.evaluations
                report(Progress(course.iteration, *reached, seconds, dev, better, step.measures))
            last = bool(course.done) or course.iteration == max_iterations
            if checkpoint is not None and checkpoint.due(course.iteration, last=last):
                course.save(checkpoint)
        reason = course.done or f"the limit of {max_iterations} iterations"
    except KeyboardInterrupt:
        kept = best.iteration if keep else 0
        reason, interrupted = f"interrupted after iteration {course.iteration}", True
        reason += course.save_last(checkpoint, quiet=bool(kept))
        if not kept:
            raise
    except NumericError as error:
        if course.iteration == 0:
            raise
        reason = f"diverged after iteration {course.iteration}: {error}{best.fall_back()}"
    score = best.score if course.scored and best.iteration else None
    return Outcome(
        best.theta(), course.iteration, best.iteration, course.value, score, reason, interrupted
    )


class _Course:
    """Progress of a run after whole iterations; the optimiser may be interrupted within one."""

    def __init__(
        self,
        optimiser: Optimiser,
        evaluate: Callable[[Floats], float] | None,
        patience: int,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._optimiser, self._evaluate, self._patience = optimiser, evaluate, patience
        self.scored = evaluate is not None
        self.best, self.iteration, self.value = _Best(optimiser), 0, np.inf
        self.done: str | None = None
        saved = None if checkpoint is None else checkpoint.restore(optimiser)
        if saved is not None:
            self.iteration, self.value, self.done = saved.iteration, saved.value, saved.done
            self.best.resume(saved)
        self._begun, self._whole = self.iteration, True

    def go_on(self) -> tuple[Step, float | None, bool]:
        """Make an iteration; return its step, its score, and whether this is the best score."""
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
        """Write the state of the run."""
        saved = self.best.saved(self.iteration, self.value, self.done)
        checkpoint.save(self._optimiser, saved)

    def save_last(self, checkpoint: Checkpoint | None, *, quiet: bool) -> str:
        """Write the state of an interrupted run, if it can be resumed from there.

        Returns
        -------
        str
            With `quiet`, the reason if the file cannot be written; otherwise empty.
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

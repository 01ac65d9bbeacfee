"""Saving the state of training, and going on from it with the same bits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import check_writable
from fstcrf.errors import ModelFileError, OptionError
from fstcrf.storage import read_arrays, write_arrays
from fstcrf.train.protocols import Optimiser

__all__ = ["Checkpoint", "Saved", "check_checkpoint", "saved_iteration"]

Floats = NDArray[np.float64]

KIND, VERSION = "fstcrf-checkpoint", 2


@dataclass(frozen=True, slots=True)
class Saved:
    """Where a run stands after an iteration, beside its optimiser.

    Parameters
    ----------
    iteration : int
    value : float
        Objective at that iteration.
    theta : float64 [size]
        Best weights so far.
    score : float
        Their score on held-out data; −inf when there was none.
    best_iteration : int
    first : float
        Objective at the first iteration that was kept; not a number when there was none.
    least : (float, float64 [size], int) or None
        Where there is no held-out data: least objective so far, weights and iteration.
    done : str or None
        Why the run had ended, other than by its limit of iterations.
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
    """A file that holds the state of one training run.

    Parameters
    ----------
    path : path
    fingerprint : str
        What the run is about: data, template, options. A checkpoint of another run is refused.
    every : int, optional
        Save after every so many iterations; when None, only where the run is interrupted.
    resume : bool
        Go on from the file if it exists.

    Raises
    ------
    OptionError
        The file exists, without `resume`: what it holds is not overwritten.
    OSError
        The file cannot be written: better now than after hours.
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

    def due(self, iteration: int, *, last: bool = False) -> bool:
        """Is it time to save; the last iteration of a run is."""
        return self.every is not None and (last or iteration % self.every == 0)

    def save(self, optimiser: Optimiser, saved: Saved) -> None:
        """Write the state of the run.

        Raises
        ------
        OSError
            The file cannot be written; it is as it was.
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
            },
            kind=KIND,
            version=VERSION,
        )

    def restore(self, optimiser: Optimiser) -> Saved | None:
        """Put the optimiser back to the saved state; None when there is nothing to resume.

        Raises
        ------
        ModelFileError
            Damaged, of another version, or the checkpoint of another run.
        """
        if not self.resume or not Path(self.path).exists():
            return None
        arrays, metadata = read_arrays(self.path, kind=KIND, version=VERSION)
        if metadata.get("fingerprint") != self.fingerprint:
            raise ModelFileError(
                f"{os.fspath(self.path)}: is of a run with other data or options; "
                "repeat that run, or remove the file to start anew"
            )
        position = msgspec.json.decode(metadata["position"], type=_Position)
        state = {
            name.removeprefix("optimiser."): array.copy()
            for name, array in arrays.items()
            if name.startswith("optimiser.")
        }
        optimiser.restore(state)
        value, score, first, least = arrays["scores"].tolist()
        best = arrays["best"].copy()
        lowest = None
        if position.least_iteration is not None:
            weights = arrays["least"].copy() if "least" in arrays else best
            lowest = least, weights, position.least_iteration
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


def check_checkpoint(
    path: str | os.PathLike[str], *, every: int | None = None, resume: bool
) -> None:
    """Find out before long work whether a run can have a checkpoint; arguments as above.

    Raises
    ------
    OptionError, OSError
        As for `Checkpoint`.
    """
    if every is not None and every < 1:
        raise OptionError(f"a checkpoint every {every} iterations: expected at least 1")
    check_writable(path)
    if not resume and Path(path).exists():
        raise OptionError(
            f"{os.fspath(path)} exists, the state of an earlier run: go on from it by resume=, "
            "or remove it to start anew"
        )


def saved_iteration(path: str | os.PathLike[str]) -> int | None:
    """Return the iteration from which a run would go on; None where nothing is saved.

    Raises
    ------
    ModelFileError
        Damaged, or no checkpoint.
    """
    if not Path(path).exists():
        return None
    _, metadata = read_arrays(path, kind=KIND, version=VERSION)
    return msgspec.json.decode(metadata["position"], type=_Position).iteration

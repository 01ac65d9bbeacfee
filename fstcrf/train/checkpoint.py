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

__all__ = ["Checkpoint", "Saved", "saved_iteration"]

Floats = NDArray[np.float64]

KIND, VERSION = "fstcrf-checkpoint", 1


@dataclass(frozen=True, slots=True)
class Saved:
    """Where the saved run stood.

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
    done : str or None
        Why the run had ended, other than by its limit of iterations.
    """

    iteration: int
    value: float
    theta: Floats
    score: float
    best_iteration: int
    done: str | None = None


class _Position(msgspec.Struct, frozen=True):
    iteration: int
    best_iteration: int
    done: str | None = None


class Checkpoint:
    """A file that holds the state of one training run.

    Parameters
    ----------
    path : path
    fingerprint : str
        What the run is about: data, template, options. A checkpoint of another run is refused.
    every : int
        Save after every so many iterations.
    resume : bool
        Go on from the file if it exists; otherwise it is overwritten.

    Raises
    ------
    OSError
        The file cannot be written: better now than after hours.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, fingerprint: str, every: int = 10, resume: bool
    ) -> None:
        if every < 1:
            raise OptionError(f"a checkpoint every {every} iterations: expected at least 1")
        check_writable(path)
        self.path, self.fingerprint, self.every, self.resume = path, fingerprint, every, resume

    def due(self, iteration: int) -> bool:
        """Is it time to save."""
        return iteration % self.every == 0

    def save(
        self,
        optimiser: Optimiser,
        iteration: int,
        value: float,
        theta: Floats,
        score: float,
        best_iteration: int,
        done: str | None = None,
    ) -> None:
        """Write the state of the run."""
        position = _Position(iteration, best_iteration, done)
        arrays = {f"optimiser.{name}": array for name, array in optimiser.state().items()}
        arrays["best"] = theta
        arrays["scores"] = np.asarray([value, score])
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
            Damaged, or the checkpoint of another run.
        """
        if not self.resume or not Path(self.path).exists():
            return None
        arrays, metadata = read_arrays(self.path, kind=KIND, version=VERSION)
        if metadata.get("fingerprint") != self.fingerprint:
            raise ModelFileError(
                f"{os.fspath(self.path)}: is of a run with other data or options; "
                "remove it or train without resuming"
            )
        position = msgspec.json.decode(metadata["position"], type=_Position)
        state = {
            name.removeprefix("optimiser."): array.copy()
            for name, array in arrays.items()
            if name.startswith("optimiser.")
        }
        optimiser.restore(state)
        value, score = arrays["scores"].tolist()
        return Saved(
            position.iteration,
            value,
            arrays["best"].copy(),
            score,
            position.best_iteration,
            position.done,
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

"""The history of training, iteration by iteration: recorded while it runs, drawn on request."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fstcrf.ext.report.figures import figure_of_curves
from fstcrf.ext.tune import Trial
from fstcrf.files import atomic_write, path_name
from fstcrf.training.loop import Progress

TRAINING, TRIALS = "training", "trials"
"""Names of the files, without their endings."""


class Iteration(msgspec.Struct, frozen=True):
    """The progress after an iteration; see `fstcrf.training.Progress`."""

    iteration: int
    objective: float | None
    gradient_norm: float | None
    dev: float | None
    seconds: float
    stage: str = ""


class TrialTold(msgspec.Struct, frozen=True):
    """The result of a trial; see `fstcrf.ext.tune.Trial`."""

    number: int
    options: dict[str, Any]
    template: str | None
    score: float | None
    outcome: str
    seconds: float


class History:
    """The iterations of a training, or the trials of a search, in a folder: JSON, and a figure.

    Parameters
    ----------
    folder : path
        Created with the first event. The files are written anew every `every` seconds of training,
        whole or not at all, and by `write`.
    every : float
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: float = 5.0) -> None:
        self._folder, self._every, self._next = Path(path_name(folder)), every, every
        self.iterations: list[Iteration] = []
        self.trials: list[TrialTold] = []

    def tried(self, trial: Trial) -> None:
        """Record the result of a trial, and write the files."""
        self.trials.append(
            TrialTold(
                trial.number,
                dict(trial.options),
                trial.template,
                trial.score,
                trial.outcome,
                trial.seconds,
            )
        )
        self.write()

    def __call__(self, progress: Progress) -> None:
        """Hear how an iteration went."""
        self.iterations.append(
            Iteration(
                progress.iteration,
                _number(progress.value),
                None if progress.gradient_norm is None else _number(progress.gradient_norm),
                progress.dev,
                progress.seconds,
                getattr(progress, "stage", None) or "",
            )
        )
        if progress.seconds >= self._next:
            self._next = progress.seconds + self._every
            self.write()

    def write(self) -> None:
        """Write the recorded history; nothing before the first event.

        Raises
        ------
        OSError
            The folder cannot be written.
        MissingDependencyError
            matplotlib is not installed.
        """
        if self.iterations:
            self._kept(TRAINING, self.iterations, training_figure(self.iterations))
        if self.trials:
            self._kept(TRIALS, self.trials, trials_figure(self.trials))

    def _kept(self, name: str, told: Sequence[msgspec.Struct], figure: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(self._folder / f"{name}.json") as file:
            file.write(msgspec.json.format(msgspec.json.encode(told)) + b"\n")
        with atomic_write(self._folder / f"{name}.svg") as file:
            file.write(figure)


def trials_figure(trials: Sequence[TrialTold]) -> bytes:
    """Return the scores of trials, and the best so far, as SVG."""
    told = [(float(one.number), 100.0 * one.score) for one in trials if one.score is not None]
    best = [max(score for _, score in told[: k + 1]) for k in range(len(told))]
    numbers = [number for number, _ in told]
    curves = [("trial", numbers, [score for _, score in told]), ("best so far", numbers, best)]
    drawn: bytes = figure_of_curves([("held-out score, %", curves)], "trial")
    return drawn


def training_figure(iterations: Sequence[Iteration]) -> bytes:
    """Return the course of a training as SVG: a curve for each task or fold."""
    stages = list(dict.fromkeys(one.stage for one in iterations))
    parts = {name: [one for one in iterations if one.stage == name] for name in stages}

    def curves(value: Any) -> list[tuple[str, list[float], list[float]]]:
        found = []
        for name, mine in parts.items():
            told = [(float(one.iteration), value(one)) for one in mine if value(one) is not None]
            if told:
                found.append((name, [x for x, _ in told], [y for _, y in told]))
        return found

    panels = [("objective", curves(lambda one: one.objective))]
    held = curves(lambda one: None if one.dev is None else 100.0 * one.dev)
    if held:
        panels.append(("held-out score, %", held))
    drawn: bytes = figure_of_curves(panels, "iteration")
    return drawn


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None

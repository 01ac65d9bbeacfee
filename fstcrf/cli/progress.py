"""Telling how training goes: a live line, plain lines, or JSON lines, all on stderr.

=========  ======================================================
Reporter   told of the data, of every iteration, and of the end
reporter   the one that fits stderr and the options
=========  ======================================================
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from fstcrf.cli.failures import log, say, tell

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from fstcrf.train import Progress

__all__ = ["Reporter", "reporter"]


class Reporter(Protocol):
    """Told of the data, of every iteration, and of the end."""

    def data(self, message: str, **facts: Any) -> None:
        """Hear what was read."""

    def line(self, message: str) -> str:
        """Return the line that a message is."""

    def note(self, message: str) -> None:
        """Hear what is worth knowing before training."""

    def iteration(self, progress: Progress) -> None:
        """Hear how an iteration went."""

    def done(self, message: str, **facts: Any) -> None:
        """Hear the end."""


class _Plain:
    """One line per iteration."""

    def data(self, message: str, **_: Any) -> None:
        say(message)

    def line(self, message: str) -> str:
        return f"fstcrf: {message}"

    def note(self, message: str) -> None:
        say(message)

    def iteration(self, progress: Progress) -> None:
        tell(f"{_stage(progress)}iteration {progress.iteration:4}  {_figures(progress)}")

    def done(self, message: str, **_: Any) -> None:
        say(message)


class _Json:
    """One JSON object per line, with the member ``event``."""

    def data(self, message: str, **facts: Any) -> None:
        log("data", message=message, **facts)

    def line(self, message: str) -> str:
        return json.dumps({"event": "note", "message": message})

    def note(self, message: str) -> None:
        tell(self.line(message))

    def iteration(self, progress: Progress) -> None:
        facts = asdict(progress)
        facts |= facts.pop("measures")
        log("iteration", objective=facts.pop("value"), **facts)

    def done(self, message: str, **facts: Any) -> None:
        log("done", message=message, **facts)


class _Live(_Plain):
    """A line that changes in place."""

    def __init__(self, bar: Bar, task: TaskID) -> None:
        self._bar, self._task = bar, task
        self._best = ""

    def iteration(self, progress: Progress) -> None:
        if progress.dev is not None and progress.best:
            self._best = f"  (best: iteration {progress.iteration})"
        figures = _stage(progress) + _figures(progress) + self._best
        self._bar.update(self._task, completed=progress.iteration, figures=figures)

    def done(self, message: str, **facts: Any) -> None:
        self._bar.stop()
        super().done(message, **facts)


@contextmanager
def reporter(*, as_json: bool, max_iterations: int | None) -> Iterator[Reporter]:
    """Give the reporter that fits stderr and the options.

    Parameters
    ----------
    as_json : bool
    max_iterations : int, optional
        Length of the bar; without it there is none.
    """
    if as_json:
        yield _Json()
    elif not sys.stderr.isatty():
        yield _Plain()
    else:
        with _bar(max_iterations) as live:
            yield live


@contextmanager
def _bar(max_iterations: int | None) -> Iterator[_Live]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn

    columns: list[ProgressColumn] = [
        SpinnerColumn(),
        TextColumn("iteration {task.completed}"),
        TextColumn("{task.fields[figures]}"),
    ]
    if max_iterations is not None:
        columns.insert(1, BarColumn(bar_width=20))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Live(bar, bar.add_task("training", total=max_iterations, figures=""))


def _stage(progress: Progress) -> str:
    """Say which fold is trained, if it is one."""
    from fstcrf.model.jackknife import FoldProgress

    return f"{progress.stage}: " if isinstance(progress, FoldProgress) else ""


def _figures(progress: Progress) -> str:
    parts = [f"objective {progress.value:,.2f}"]
    if progress.gradient_norm is not None:
        parts.append(f"gradient {progress.gradient_norm:.4g}")
    parts.append(f"evaluations {progress.evaluations}")
    if progress.dev is not None:
        parts.append(f"dev {100 * progress.dev:.2f}{' *' if progress.best else ''}")
    return "  ".join([*parts, f"{progress.seconds:.1f} s"])

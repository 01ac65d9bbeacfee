"""Learning curves: F on the dev part by the number of samples, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fstcrf.recipes.partial_feedback.learning import Trained
from fstcrf.recipes.recipe import blank_figure

__all__ = ["draw", "samples_until"]


def samples_until(one: Trained, f: float, sentences: int) -> int | None:
    """Return how many samples it took until the F on the dev part was as high; None for never."""
    step = sentences * one.system.passes
    for progress in one.course:
        if progress.dev is not None and 100.0 * progress.dev >= f:
            return step * progress.iteration
    return None


def draw(runs: Sequence[Trained], sentences: int, best: float, path: Path) -> None:
    """Draw the curves of runs, and the F of full information.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    figure = blank_figure(8, 5.5)
    axes = figure.add_subplot()
    for number, one in enumerate(runs):
        step = sentences * one.system.passes
        known = [(p.iteration * step, 100 * p.dev) for p in one.course if p.dev is not None]
        style = ("-", "--", ":")[number // 10 % 3]
        axes.plot(*zip(*known, strict=True), style, label=one.system.name, linewidth=1.2)
    axes.axhline(best, color="black", linewidth=0.8, label="full information")
    axes.set_xscale("log")
    axes.set_ylim(60, 96)
    axes.set_xlabel("samples, each with one reward")
    axes.set_ylabel("F of noun phrases, dev part, %")
    axes.legend(fontsize="x-small", loc="lower right")
    figure.savefig(path, metadata={"Date": None})

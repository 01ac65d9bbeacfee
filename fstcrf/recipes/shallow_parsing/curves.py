"""The course of training: what the log-likelihood, its gradient and F are after how many passes.

=======  ====================================================
draw     the paper's figures, for all optimisers
courses  the same as a table, at some numbers of passes
lowest   where the panel of F begins
reached  passes until the log-likelihood is as high
=======  ====================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fstcrf.recipes.recipe import blank_figure
from fstcrf.recipes.report import number, table
from fstcrf.recipes.shallow_parsing.systems import Point, Run

__all__ = ["courses", "draw", "lowest", "reached"]

PASSES = (5, 10, 20, 30, 50, 75, 100, 150, 200, 400)


def reached(course: Sequence[Point], objective: float) -> Point | None:
    """Return the first point whose penalised log-likelihood is as high; None for never."""
    return next((point for point in course if point.objective >= objective), None)


def _after(course: Sequence[Point], passes: int) -> Point | None:
    """Return the last point that took at most so many passes, if training went on as long."""
    if not course or course[-1].passes < passes:
        return None
    known = [point for point in course if point.passes <= passes]
    return known[-1] if known else None


def courses(runs: Sequence[Run]) -> str:
    """Return tables of the penalised log-likelihood, the gradient and F by passes."""
    parts = []
    shown: tuple[tuple[str, Callable[[Point], float | None]], ...] = (
        ("Penalised log-likelihood", lambda p: p.objective),
        ("Norm of the gradient", lambda p: p.gradient_norm),
        ("F on the dev part, %", lambda p: p.dev),
    )
    for title, value in shown:
        rows = []
        for run in runs:
            points = [_after(run.course, passes) for passes in PASSES]
            cells = [None if point is None else value(point) for point in points]
            known = [None if cell is None or np.isnan(cell) else cell for cell in cells]
            if any(cell is not None for cell in known):
                rows.append([run.name, *map(number, known)])
        if rows:
            head = [title, *(f"{passes} passes" for passes in PASSES)]
            parts.append(table(head, rows))
    return "\n\n".join(parts)


def lowest(runs: Sequence[Run]) -> float | None:
    """Return where the panel of F begins: below the best F of the worst run; None for anywhere."""
    scores = [[point.dev for point in run.course if point.dev is not None] for run in runs]
    best = [max(course) for course in scores if course]
    return max(0.0, math.floor(min(best)) - 1.0) if best else None


def draw(runs: Sequence[Run], path: Path) -> None:
    """Draw log-likelihood, gradient and F on the dev part by passes over the data.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    figure = blank_figure(8, 10)
    above, middle, below = figure.subplots(3, 1, sharex=True)
    for run in runs:
        passes = np.asarray([point.passes for point in run.course])
        for axes, values in (
            (above, [-point.objective for point in run.course]),
            (middle, [point.gradient_norm or np.nan for point in run.course]),
            (below, [np.nan if point.dev is None else point.dev for point in run.course]),
        ):
            axes.plot(passes, values, label=run.name, linewidth=1.2)
    above.set_yscale("log")
    above.set_ylabel("negative penalised log-likelihood")
    above.legend(fontsize="small")
    middle.set_yscale("log")
    middle.set_ylabel("norm of the gradient")
    below.set_ylim(bottom=lowest(runs))
    below.set_ylabel("F of noun phrases, dev part, %")
    below.set_xlabel("passes of forward-backward over the data")
    figure.savefig(path, metadata={"Date": None})

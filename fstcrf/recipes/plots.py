"""Plots of recipes: curves in panels, one above the other. They need matplotlib, an extra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fstcrf.lazy import optional

__all__ = ["Curve", "Panel", "blank_figure", "draw"]

_PER_STYLE = 10  # colours before matplotlib begins again


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a panel.

    Parameters
    ----------
    name : str
    x : sequence of float
    y : sequence of float or None
        As many; where None or NaN, the line is interrupted.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one axis.

    Parameters
    ----------
    label : str
        Of the vertical axis, with its unit.
    curves : sequence of Curve
    log : bool
        The vertical axis is logarithmic.
    bottom, top : float, optional
        Its ends.
    level : tuple of (str, float), optional
        A horizontal line with its name.
    """

    label: str
    curves: Sequence[Curve]
    log: bool = False
    bottom: float | None = None
    top: float | None = None
    level: tuple[str, float] | None = None


def blank_figure(width: float, height: float) -> Any:
    """Return a ``matplotlib.figure.Figure`` of so many inches.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    advice = "it needs matplotlib: pip install 'fstcrf[recipes]'"
    figure = optional("matplotlib.figure", advice).Figure
    return figure(figsize=(width, height), layout="constrained")


def draw(
    path: Path,
    panels: Sequence[Panel],
    x_label: str,
    *,
    size: tuple[float, float],
    log: bool = False,
) -> None:
    """Draw panels with one horizontal axis; the legend stands in the first.

    Parameters
    ----------
    path : Path
        Of the picture; its suffix says the format.
    panels : sequence of Panel
    x_label : str
        Of the horizontal axis, with its unit.
    size : (float, float)
        Width and height, in inches.
    log : bool
        The horizontal axis is logarithmic.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    figure = blank_figure(*size)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(rows, panels, strict=True):
        for k, curve in enumerate(panel.curves):
            y = [float("nan") if value is None else value for value in curve.y]
            style = ("-", "--", ":")[k // _PER_STYLE % 3]
            marker = "o" if len(y) < _PER_STYLE else None
            axes.plot(curve.x, y, style, marker=marker, label=curve.name, linewidth=1.2)
        if panel.level is not None:
            name, height = panel.level
            axes.axhline(height, color="black", linewidth=0.8, label=name)
        axes.set_yscale("log" if panel.log else "linear")
        axes.set_ylim(panel.bottom, panel.top)
        axes.set_ylabel(panel.label)
    rows[0].legend(fontsize="small" if len(panels[0].curves) < _PER_STYLE else "x-small")
    rows[-1].set_xscale("log" if log else "linear")
    rows[-1].set_xlabel(x_label)
    figure.savefig(path, metadata={"Date": None})

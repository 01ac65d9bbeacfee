"""Figures of a report, as SVG; drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fstcrf.ext.calibration import Reliability
from fstcrf.lazy import optional

_NEEDED = "figures need matplotlib: pip install 'fstcrf[recipes]'"
Curve: TypeAlias = tuple[str, Sequence[float], Sequence[float]]
"""A name, and equally many x and y."""


def _figure(width: float, height: float) -> Any:
    figure = optional("matplotlib.figure", _NEEDED).Figure
    return figure(figsize=(width, height), layout="constrained")


def _svg(figure: Any) -> bytes:
    written = io.BytesIO()
    settings = optional("matplotlib", _NEEDED).rc_context
    with settings({"svg.hashsalt": "fstcrf", "svg.fonttype": "none"}):
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def png_of(draw: Any, *arguments: Any) -> bytes:
    """Return a figure as PNG: `draw` is one of the functions below."""
    written = io.BytesIO()
    draw(*arguments, as_figure=True).savefig(written, format="png", dpi=150)
    return written.getvalue()


def figure_of_curves(
    panels: Sequence[tuple[str, Sequence[Curve]]], x_label: str, *, as_figure: bool = False
) -> Any:
    """Return panels one above the other, each with a label and its curves, over one axis."""
    figure = _figure(6.0, 2.4 * len(panels) + 0.6)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, curves) in zip(rows, panels, strict=True):
        for name, x, y in curves:
            axes.plot(x, y, label=name or None, linewidth=1.2)
        if any(name for name, _, _ in curves):
            axes.legend(fontsize="small")
        axes.set_ylabel(label)
    rows[-1].set_xlabel(x_label)
    return figure if as_figure else _svg(figure)


def figure_of_reliability(
    tables: Sequence[tuple[str, Reliability]], *, as_figure: bool = False
) -> Any:
    """Return the frequency of right spans against their probability: a curve for each tagger."""
    figure = _figure(4.2, 4.2)
    axes = figure.add_subplot(xlabel="claimed probability", ylabel="share correct")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, table in tables:
        there = table.count > 0
        axes.plot(table.claimed[there], table.true[there], marker="o", label=name)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    if len(tables) > 1:
        axes.legend(fontsize="small")
    return figure if as_figure else _svg(figure)


def figure_of_precision(curves: Sequence[Curve], *, as_figure: bool = False) -> Any:
    """Return precision against recall, as the threshold falls: a curve for each tagger."""
    figure = _figure(4.2, 4.2)
    axes = figure.add_subplot(xlabel="recall", ylabel="precision")
    for name, precision, recall in curves:
        axes.plot(recall, precision, label=name, drawstyle="steps-post", linewidth=1.2)
    axes.set(xlim=(0, 1), ylim=(0, 1.01), aspect="equal")
    if len(curves) > 1:
        axes.legend(fontsize="small")
    return figure if as_figure else _svg(figure)


def figure_of_confusions(
    labels: Sequence[str], counts: Sequence[Sequence[int]], *, as_figure: bool = False
) -> Any:
    """Return a heat map of confusions: gold labels (rows) and found labels (columns)."""
    size = 0.28 * len(labels) + 1.6
    figure = _figure(size, size)
    axes = figure.add_subplot(xlabel="found", ylabel="gold")
    table = np.asarray(counts, dtype=np.float64)
    axes.imshow(np.log1p(table), cmap="Blues")
    for row, column in zip(*np.nonzero(table), strict=True):
        dark = table[row, column] > 0.5 * table.max()
        colour = "white" if dark else "black"
        text = f"{int(table[row, column])}"
        axes.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    return figure if as_figure else _svg(figure)

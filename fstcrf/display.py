"""HTML of objects for notebooks: text is escaped, and large parts are cut, with a note.

Its functions take plain data; the callers interpret it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    import html
else:  # taggers in production do not import it
    html = LazyModule("html")

MOST_TOKENS, MOST_LABELS, MOST_ROWS = 40, 25, 50
_FAINT = 0.005  # smaller probabilities are not shown as numbers

Cell: TypeAlias = str | int | float | None

_TABLE = "border-collapse:collapse;font-size:90%;margin:0.3em 0"
_CELL = "padding:1px 5px;text-align:right;border:1px solid rgba(128,128,128,.25)"
_NAME = f"{_CELL};text-align:left;font-weight:bold;white-space:nowrap"
_MARK = "outline:2px solid rgba(220,80,0,.9);outline-offset:-2px;font-weight:bold"
_NOTE = "color:gray;font-size:85%"


def heading(text: str) -> str:
    """Return the line above a picture."""
    return f"<div><code>{html.escape(text)}</code></div>"


def note(text: str) -> str:
    """Return a remark on a picture, such as the parts it leaves out."""
    return f'<div style="{_NOTE}">{html.escape(text)}</div>'


def facts(pairs: Mapping[str, Cell]) -> str:
    """Return names and values, a line each, without values that are `None`."""
    rows = "".join(
        f'<tr><td style="{_NAME}">{html.escape(name)}</td>'
        f'<td style="{_CELL};text-align:left">{_shown(value)}</td></tr>'
        for name, value in pairs.items()
        if value is not None
    )
    return f'<table style="{_TABLE}">{rows}</table>'


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    what: str = "rows",
    most: int = MOST_ROWS,
) -> str:
    """Return rows under a header, the first column with names; at most `most` rows.

    Numbers between 0 and 1 are coloured by their size.
    """
    top = "".join(f'<th style="{_CELL}">{html.escape(name)}</th>' for name in head)
    body = "".join(_row(row) for row in rows[:most])
    left = len(rows) - most
    more = note(f"… {left:,} more {what}") if left > 0 else ""
    return f'<table style="{_TABLE}"><tr>{top}</tr>{body}</table>{more}'


def _row(cells: Sequence[Cell]) -> str:
    first, *rest = cells
    return f'<tr><td style="{_NAME}">{_shown(first)}</td>{"".join(map(_cell, rest))}</tr>'


def _cell(value: Cell) -> str:
    shade = f";{_shade(value)}" if isinstance(value, float) and 0 <= value <= 1 else ""
    return f'<td style="{_CELL}{shade}">{_shown(value)}</td>'


def _shown(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}" if value == 0 or 0.001 <= value <= 1 else f"{value:.4g}"
    return html.escape(f"{value:,}" if isinstance(value, int) else value)


def _shade(share: float) -> str:
    return f"background:rgba(40,110,210,{0.75 * share:.3f})"


def sequences(rows: Mapping[str, Sequence[str]]) -> str:
    """Return label sequences of equal length as rows; at most `MOST_TOKENS` tokens."""
    length = max(map(len, rows.values()), default=0)
    body = "".join(
        f'<tr><td style="{_NAME}">{html.escape(name)}</td>'
        + "".join(
            f'<td style="{_CELL}">{html.escape(label)}</td>' for label in labels[:MOST_TOKENS]
        )
        + "</tr>"
        for name, labels in rows.items()
    )
    numbers = _numbers(min(length, MOST_TOKENS))
    return f'<table style="{_TABLE}">{numbers}{body}</table>{_cut_tokens(length)}'


def heat_map(name: str, labels: Sequence[str], shares: Floats, best: Sequence[str]) -> str:
    """Return the probability of each label at each token, the labels of a path marked.

    Parameters
    ----------
    name : str
        Name of the tape.
    labels : sequence of L str
    shares : float64 [T, L]
        Probabilities.
    best : sequence of T str
        The labels to mark.
    """
    shown = shares[:MOST_TOKENS]
    rows = _chosen(labels, shown, set(best[:MOST_TOKENS]))
    body = "".join(
        f'<tr><td style="{_NAME}">{html.escape(labels[row])}</td>'
        + "".join(
            _share(share, marked=best[token] == labels[row])
            for token, share in enumerate(shown[:, row].tolist())
        )
        + "</tr>"
        for row in rows
    )
    left = len(labels) - len(rows)
    more = note(f"{left} of {len(labels)} labels, less probable, are left out") if left else ""
    top = _numbers(len(shown), name)
    return f'<table style="{_TABLE}">{top}{body}</table>{_cut_tokens(len(shares))}{more}'


def _chosen(labels: Sequence[str], shares: Floats, kept: Collection[str]) -> list[int]:
    """Return the labels to show, in their order: labels of the path, and the likeliest."""
    highest = shares.max(axis=0, initial=0.0)
    order = sorted(range(len(labels)), key=lambda i: (labels[i] not in kept, -highest[i]))
    shown = order[: max(MOST_LABELS, len(kept))]
    return sorted(i for i in shown if labels[i] in kept or highest[i] >= _FAINT)


def _share(share: float, *, marked: bool) -> str:
    text = f"{share:.2f}" if share >= _FAINT else ""
    mark = f";{_MARK}" if marked else ""
    return f'<td style="{_CELL};{_shade(min(share, 1.0))}{mark}" title="{share:.6g}">{text}</td>'


def _numbers(count: int, name: str = "") -> str:
    cells = "".join(f'<th style="{_CELL}">{number}</th>' for number in range(count))
    return f'<tr><th style="{_CELL}">{html.escape(name)}</th>{cells}</tr>'


def _cut_tokens(length: int) -> str:
    return note(f"… {length - MOST_TOKENS:,} more tokens") if length > MOST_TOKENS else ""


def picture(*parts: str) -> str:
    """Return parts as a column, in their natural width."""
    return f'<div style="overflow-x:auto">{"".join(parts)}</div>'


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return a list of names, at most `most`, and the number of all if there are more.

    Examples
    --------
    >>> listed("abc"), listed("abc", 2)
    ('a, b, c', 'a, b, … (3)')
    """
    all_names = list(names)
    if len(all_names) <= most:
        return ", ".join(all_names)
    return f"{', '.join(all_names[:most])}, … ({len(all_names):,})"


def number(value: float) -> str:
    """Return a score or probability as text of four digits."""
    return "NaN" if np.isnan(value) else f"{value:.4g}"

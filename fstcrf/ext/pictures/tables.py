"""Lattices as tables of text: probabilities of labels, the best path marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from fstcrf.arrays import Floats
from fstcrf.errors import ShapeError
from fstcrf.lattices.paths import Labels, Path

_LEAST = 0.005  # shown as 0.01
_MARK = "*"


class _Lattice(Protocol):
    @property
    def labels(self) -> Labels: ...

    def best(self) -> Path: ...

    def marginals(self) -> object: ...


def lattice_table(lattice: _Lattice, tokens: Sequence[str] | None = None) -> str:
    """Return a table of marginals: a row for each token, a column for each label.

    Labels of the best path have a star; labels that are unlikely everywhere are left out and
    counted below. A lattice of several tapes has one table for each, headed by the tape's name.
    """
    best, marginals = lattice.best(), cast("Any", lattice.marginals())
    tapes: Sequence[str] = getattr(lattice, "tapes", ())
    if len(tapes) < 2:
        lines = _table(lattice.labels, marginals, best.labels, tokens)
    else:
        parts = zip(tapes, lattice.labels, marginals, best.labels, strict=True)
        lines = [
            line
            for tape, labels, share, path in parts
            for line in [f"{tape}:", *_table(labels, share, path, tokens), ""]
        ]
    last = f"{_MARK} best path: score {best.score:.6g}, probability {best.probability:.4g}"
    return "\n".join([*lines, last, ""])


def _table(
    labels: Sequence[str], marginals: Floats, path: Sequence[str], tokens: Sequence[str] | None
) -> list[str]:
    if tokens is not None and len(tokens) != len(marginals):
        raise ShapeError(f"{len(tokens)} names for {len(marginals)} tokens")
    if not len(marginals):
        return ["no tokens"]
    names = [str(t) for t in range(len(marginals))] if tokens is None else list(tokens)
    likely = marginals.max(axis=0, initial=0.0) >= _LEAST
    shown = [k for k, label in enumerate(labels) if likely[k] or label in path]
    rows = [["", *(labels[k] for k in shown)]]
    for name, share, label in zip(names, marginals, path, strict=True):
        cells = [_cell(float(share[k]), marked=labels[k] == label) for k in shown]
        rows.append([name, *cells])
    lines = _aligned(rows)
    left = len(labels) - len(shown)
    if left:
        what = "1 label" if left == 1 else f"{left} labels"
        lines.append(f"not shown: {what} below {_LEAST} at every token")
    return lines


def _cell(probability: float, *, marked: bool) -> str:
    number = f"{probability:.2f}" if probability >= _LEAST else "."
    return number + (_MARK if marked else " ")


def _aligned(rows: list[list[str]]) -> list[str]:
    first, *others = zip(*rows, strict=True)
    columns = [[name.ljust(max(map(len, first))) for name in first]]
    columns += [[cell.rjust(max(map(len, column))) for cell in column] for column in others]
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]

"""The parts of a machine as C reads them: structures of sizes and pointers.

==============  ==========================================================
axis_view       fields of an axis
factor_view     fields of a factor
residual_view   a residual automaton
kept            the pointer to an array
==============  ==========================================================

A structure does not own what it points to: that goes into ``keep``. The potentials of what is
moving are taken from ``rest``, as far as there are any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ShapeError
from fstcrf.kernel.native import array_in, ffi
from fstcrf.kernel.parts import Axis, Factor, Residual

__all__ = ["axis_view", "factor_view", "kept", "residual_view"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def kept(array: Any, dtype: Any, shape: tuple[int, ...], name: str, keep: list[Any]) -> Any:
    """Return the pointer to an array of that type and shape, which is kept alive.

    Raises
    ------
    ShapeError
        Another shape.
    """
    pointer = array_in(array, dtype, shape, name)
    keep.append(pointer)
    return pointer


def _place(place: Ints | None, n: int, keep: list[Any]) -> Any:
    return ffi.NULL if place is None else kept(place, np.int32, (n,), "place", keep)


def _arcs(source: Ints, target: Ints, n: int, keep: list[Any]) -> dict[str, Any]:
    """Return the fields of a list of arcs sorted by source."""
    shape = (source.size,)
    ends = (
        kept(source, np.int32, shape, "source", keep),
        kept(target, np.int32, shape, "target", keep),
    )
    if len(source) and (source.min() < 0 or source.max() >= n):
        raise ShapeError(f"an arc leaves a state that is none of the {n}")
    row = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=n), out=row[1:])
    return {
        "row": kept(row, np.int64, (n + 1,), "row", keep),
        "source": ends[0],
        "target": ends[1],
    }


def axis_view(axis: Axis, outer: int, rest: Iterator[Floats], keep: list[Any]) -> dict[str, Any]:
    """Return the fields of an axis; `outer` is the product of the earlier axes' states."""
    fields: dict[str, Any] = {
        "S": axis.n_states,
        "contexts": axis.contexts,
        "moving": axis.score is None,
        "place": _place(axis.place, outer, keep),
    }
    if axis.source is not None and axis.target is not None:
        if not len(axis.source):
            raise ShapeError("an axis has no arcs; there must be an arc")
        fields |= _arcs(axis.source, axis.target, axis.n_states, keep)
        fields["A"] = len(axis.source)
    if axis.score is not None:
        shape = (axis.contexts, axis.n_arcs)
        fields["score"] = kept(axis.score, np.float64, shape, "arc potentials", keep)
    else:
        values = next(rest, None)
        if values is not None:
            fields["score"] = kept(values, np.float64, values.shape, "arc potentials", keep)
    return fields


def factor_view(
    factor: Factor, outer: int, rest: Iterator[Floats], keep: list[Any]
) -> dict[str, Any]:
    """Return the fields of a factor."""
    fields: dict[str, Any] = {
        "rows": factor.rows,
        "width": factor.width,
        "moving": factor.value is None,
        "place": _place(factor.place, outer, keep),
    }
    values = next(rest, None) if factor.value is None else factor.value
    if values is not None:
        tokens = () if factor.value is not None else values.shape[:1]
        shape = (*tokens, factor.rows, factor.width)
        fields["value"] = kept(values, np.float64, shape, "factor", keep)
    return fields


def residual_view(residual: Residual, outer: int, keep: list[Any]) -> Any:
    """Return the C view of a residual automaton."""
    n = residual.n_states
    shape = (len(residual.source), residual.rows, residual.width)
    fields = {
        "Q": n,
        "E": len(residual.source),
        "rows": residual.rows,
        "width": residual.width,
        "place": _place(residual.place, outer, keep),
        "value": kept(residual.value, np.float64, shape, "residual", keep),
        "initial": kept(residual.initial, np.float64, (n,), "residual initial", keep),
        "final": kept(residual.final, np.float64, (n,), "residual final", keep),
        **_arcs(residual.source, residual.target, n, keep),
    }
    view = ffi.new("fc_residual *", fields)
    keep.append(view)
    return view

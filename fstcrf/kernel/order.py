"""Which states of a machine lie on a path, and in which order; the machine may have cycles.

============  =================================================
rows          where each state's arcs begin
connected     states on a path from the start to an end
topological   states numbered so that every arc leads upwards
============  =================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ShapeError
from fstcrf.kernel.native import array_in, ffi, lib

__all__ = ["connected", "rows", "topological"]

Ints = NDArray[np.int32]


def rows(source: NDArray[np.integer], n_states: int) -> NDArray[np.int64]:
    """Return where the arcs of each state begin, int64 [S + 1], for arcs sorted by source [A]."""
    row = np.zeros(n_states + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=n_states), out=row[1:])
    return row


def connected(
    row: NDArray[np.int64], target: Ints, start: int, ends: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which states lie on a path from the start to a state that ends, bool [S].

    Parameters
    ----------
    row : int64 [S + 1]
        The arcs that leave state s are ``row[s] : row[s + 1]``.
    target : int32 [A]
    start : int
        −1: none.
    ends : bool [S]

    Raises
    ------
    ShapeError
        Sizes that disagree, or an arc to a state that is not there.
    """
    states, arcs = len(ends), len(target)
    if not states:
        return np.zeros(0, dtype=bool)
    keep, turned = np.empty(states, dtype=np.uint8), np.empty(states + 1, dtype=np.int64)
    work, where = np.empty(states + arcs, dtype=np.int32), ffi.new("int64_t *")
    status = lib.fc_connected(
        *_arcs(row, target, states),
        start,
        array_in(ends.astype(np.uint8), np.uint8, (states,), "ends"),
        array_in(keep, np.uint8, keep.shape, "keep", writable=True),
        array_in(turned, np.int64, turned.shape, "turned", writable=True),
        array_in(work, np.int32, work.shape, "work", writable=True),
        where,
    )
    _check(status, where[0])
    return keep.astype(bool)


def topological(row: NDArray[np.int64], target: Ints) -> tuple[Ints, int]:
    """Return numbers of the states such that every arc leads to a higher one.

    Parameters
    ----------
    row, target
        As for `connected`.

    Returns
    -------
    number : int32 [S]
        New number of each state.
    cycle : int
        −1, or a state on a cycle; the numbers mean nothing then.

    Raises
    ------
    ShapeError
        As for `connected`.
    """
    states = len(row) - 1
    number = np.empty(states, dtype=np.int32)
    if not states:
        return number, -1
    work, cycle = np.empty(2 * states, dtype=np.int32), ffi.new("int64_t *")
    where = ffi.new("int64_t *")
    status = lib.fc_topological(
        *_arcs(row, target, states),
        array_in(number, np.int32, number.shape, "number", writable=True),
        cycle,
        array_in(work, np.int32, work.shape, "work", writable=True),
        where,
    )
    _check(status, where[0])
    return number, int(cycle[0])


def _arcs(row: NDArray[np.int64], target: Ints, states: int) -> tuple[int, Any, Any]:
    if len(row) != states + 1 or row[-1] != len(target):
        raise ShapeError(f"row is {list(row.shape)}, expected [{states + 1}] up to {len(target)}")
    return (
        states,
        array_in(row, np.int64, row.shape, "row"),
        array_in(target, np.int32, target.shape, "target"),
    )


def _check(status: int, where: int) -> None:
    if status != lib.FC_OK:
        raise ShapeError(f"arcs are not sorted by source, or name no state: entry {where}")

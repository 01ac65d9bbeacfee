"""Sparse rows times a table that is mostly empty: potentials of a tagger.

===========  ==========================================================
PackedTable  a table [R, W] without its zeros, laid out for sums of rows
===========  ==========================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ShapeError
from fstcrf.kernel.native import ENTRY, array_in, check, ffi, lib
from fstcrf.kernel.rows import SparseRows

__all__ = ["PackedTable"]

_PER_ENTRY = 16  # columns of a padded row that cost as much as one entry more


@dataclass(frozen=True, slots=True)
class PackedTable:
    """A table [R, W]: rows with many weights padded, the others as lists of entries.

    Made by `from_cells`.

    Parameters
    ----------
    place : int32 [R]
        Row p ≥ 0 of `table`, or the entries from ~p on.
    table : float64 [rows, W]
    entries : (weight, slot) [n]
        The last of each list has the slot ``~slot``.
    """

    place: NDArray[np.int32]
    table: NDArray[np.float64]
    entries: NDArray[Any]

    @classmethod
    def from_cells(
        cls,
        n_rows: int,
        width: int,
        cells: NDArray[np.int64],
        weights: NDArray[np.float64],
    ) -> Self:
        """Lay out the weights at some cells, ``row * width + column`` each; the rest is zero.

        Parameters
        ----------
        n_rows, width : int
            R and W, a multiple of 8.
        cells : int64 [M]
            Rising.
        weights : float64 [M]

        Raises
        ------
        ShapeError
            Cells that do not rise or lie outside the table.
        """
        least = max(width // _PER_ENTRY, 2)
        where, sizes = ffi.new("int64_t *"), ffi.new("int64_t[2]")
        n = len(cells)
        at = array_in(cells, np.int64, (n,), "cells")
        status = lib.fc_packed_size(n_rows, width, n, at, least, sizes, sizes + 1, where)
        if status != lib.FC_OK:
            raise ShapeError(f"cells of a table of {n_rows} x {width}: entry {where[0]} is wrong")
        place = np.empty(n_rows, dtype=np.int32)
        table = np.empty((sizes[0], width))
        entries = np.empty(sizes[1], dtype=ENTRY)
        status = lib.fc_pack(
            n_rows,
            width,
            n,
            at,
            array_in(weights, np.float64, (n,), "weights"),
            least,
            array_in(place, np.int32, place.shape, "place", writable=True),
            array_in(table, np.float64, table.shape, "table", writable=True),
            array_in(entries, ENTRY, entries.shape, "entries", writable=True),
        )
        check(status, "packing weights")
        return cls(place, table, entries)

    def gathered(self, rows: SparseRows, width: int) -> NDArray[np.float64]:
        """Return rows times the table, its first columns only.

        Parameters
        ----------
        rows : SparseRows [N, R]
        width : int
            Columns that are kept, at most W.

        Returns
        -------
        float64 [N, width]
        """
        n, full = len(rows), self.table.shape[1]
        if rows.n_columns != len(self.place):
            raise ShapeError(f"rows over {rows.n_columns} columns, a table of {len(self.place)}")
        fields = {
            "place": array_in(self.place, np.int32, self.place.shape, "place"),
            "table": array_in(self.table, np.float64, self.table.shape, "table"),
            "entry": array_in(self.entries, ENTRY, self.entries.shape, "entries"),
        }
        sizes = {"R": len(self.place), "W": full}
        counts = {"rows": len(self.table), "entries": len(self.entries)}
        packed = ffi.new("fc_packed *", {**sizes, **counts, **fields})
        out, scratch, value = np.empty((n, width)), np.empty(full), rows.value
        status = lib.fc_gather_packed(
            n,
            packed,
            array_in(rows.indptr, np.int64, (n + 1,), "indptr"),
            array_in(rows.index, np.int32, rows.index.shape, "index"),
            ffi.NULL if value is None else array_in(value, np.float32, value.shape, "value"),
            width,
            array_in(out, np.float64, out.shape, "out", writable=True),
            array_in(scratch, np.float64, scratch.shape, "scratch", writable=True),
        )
        check(status, "rows times packed table")
        return out

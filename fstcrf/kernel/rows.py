"""Sparse rows (CSR) times a table: potentials from weights, gradients from posteriors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints, Longs, Singles
from fstcrf.errors import ShapeError
from fstcrf.kernel.native import ENTRY, array_in, array_out, check, ffi, freeze, lib
from fstcrf.ragged import Ragged

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData


_LANES = 8


def padded(width: int) -> int:
    """Round a width up to whole vector registers."""
    return -(-max(width, 1) // _LANES) * _LANES


@dataclass(frozen=True, slots=True)
class SparseRows:
    """A sparse matrix [N, R] in rows, checked once.

    Parameters
    ----------
    Created by `from_cells`.
        Row n holds the entries ``indptr[n] : indptr[n + 1]``.
    index : int32 [nnz]
        Column of each entry, below `n_columns`.
    value : float32 [nnz], optional
        Value of each entry; ones if absent.
    n_columns : int
        Number of columns, R.

    Raises
    ------
    ShapeError
        Sizes that disagree or an index out of range.
    """

    indptr: Longs
    index: Ints
    value: Singles | None
    n_columns: int

    def __post_init__(self) -> None:
        if not self.indptr.size:
            raise ShapeError("indptr is empty, expected [N + 1] numbers from 0")
        freeze(self, "indptr", "index", owned=True)
        where = ffi.new("int64_t *")
        status = lib.fc_check_rows(
            len(self),
            self.n_columns,
            len(self.index),
            array_in(self.indptr, np.int64, (self.indptr.size,), "indptr"),
            array_in(self.index, np.int32, (self.index.size,), "index"),
            where,
        )
        if status != lib.FC_OK:
            raise ShapeError(
                f"sparse rows over {self.n_columns} columns: entry {where[0]} is out of range"
            )
        if self.value is not None:
            array_in(self.value, np.float32, self.index.shape, "value")

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def times(self, table: Floats, *, out: Floats | None = None) -> Floats:
        """Return the product with a table.

        Parameters
        ----------
        table : float64 [R, W]
            W a multiple of 8.
        out : float64 [N, W], optional
            Array for the result.

        Returns
        -------
        float64 [N, W]

        Raises
        ------
        ShapeError
            Another shape or dtype; memory that is not contiguous.
        """
        n, width = len(self), table.shape[-1] if table.ndim == 2 else 0
        if width == 0 or width % _LANES != 0:
            raise ShapeError(f"table is {list(table.shape)}, expected [R, a multiple of {_LANES}]")
        result = np.empty((n, width)) if out is None else out
        value = self.value
        status = lib.fc_gather(
            n,
            self.n_columns,
            width,
            array_in(self.indptr, np.int64, (n + 1,), "indptr"),
            array_in(self.index, np.int32, self.index.shape, "index"),
            ffi.NULL if value is None else array_in(value, np.float32, value.shape, "value"),
            array_in(table, np.float64, (self.n_columns, width), "table"),
            array_in(result, np.float64, (n, width), "out", writable=True),
        )
        check(status, "rows times table")
        return result

    def cells(self, table: Floats, first: Longs, slot: Ints, *, out: Floats) -> None:
        """Write some columns of the product with a table, separate ones for each row, into `out`.

        Parameters
        ----------
        table : float64 [R, W]
            W a multiple of 8.
        first : int64 [N + 1]
            The columns of row n are ``slot[first[n] : first[n + 1]]``.
        slot : int32 [first[N]]
        out : float64 [first[N]]
        """
        n, width, value = len(self), table.shape[1], self.value
        where, size = ffi.new("int64_t *"), (int(first[-1]),)
        status = lib.fc_gather_cells(
            n,
            self.n_columns,
            width,
            array_in(self.indptr, np.int64, (n + 1,), "indptr"),
            array_in(self.index, np.int32, self.index.shape, "index"),
            ffi.NULL if value is None else array_in(value, np.float32, value.shape, "value"),
            array_in(table, np.float64, (self.n_columns, width), "table"),
            array_in(first, np.int64, (n + 1,), "first"),
            array_in(slot, np.int32, size, "slot"),
            array_in(out, np.float64, size, "out", writable=True),
            array_out(np.empty(width)),
            where,
        )
        check(status, "cells of rows times table", where[0])

    def slice(self, start: int, end: int) -> SparseRows:
        """Return the rows ``start : end``."""
        a, b = int(self.indptr[start]), int(self.indptr[end])
        value = None if self.value is None else self.value[a:b]
        indptr = self.indptr[start : end + 1] - a
        return SparseRows(indptr, self.index[a:b], value, self.n_columns)

    def taken(self, chosen: Longs) -> SparseRows:
        """Return some of the rows, in the given order."""
        rows = Ragged(self.indptr)
        entries = rows.entries(chosen)
        value = None if self.value is None else self.value[entries]
        offsets = rows.select(chosen).offsets
        return SparseRows(offsets, self.index[entries], value, self.n_columns)

    def transposed(self) -> SparseRows:
        """Return the transpose [R, N], its entries in the order of N within each row."""
        order = np.argsort(self.index, kind="stable")
        rows = Ragged(self.indptr).repeat(np.arange(len(self), dtype=np.int32))
        value = None if self.value is None else self.value[order]
        indptr = Ragged.from_rows(self.index, self.n_columns).offsets
        return SparseRows(indptr, rows[order], value, len(self))


# --- Sparse rows times a table that is mostly empty -----------------------------------------------

_PER_ENTRY = 16  # columns of a padded row that cost as much as one more entry


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

    place: Ints
    table: Floats
    entries: NDArray[np.void]

    def __post_init__(self) -> None:
        freeze(self, "place", "entries", owned=True)
        slot, width = self.entries["slot"], self.table.shape[1]
        inside = (
            self.place.max(initial=-1) < len(self.table)
            and ~self.place.min(initial=-1) < len(slot)
            and (np.where(slot < 0, ~slot, slot) < width).all()
            and (not len(slot) or slot[-1] < 0)  # the last list ends with the entries
        )
        if not inside:
            raise ShapeError("a packed table has places or slots outside its bounds")

    @classmethod
    def from_cells(cls, n_rows: int, width: int, cells: Longs, weights: Floats) -> Self:
        """Store the weights of some cells, ``row * width + column`` each; the rest is zero.

        Parameters
        ----------
        n_rows, width : int
            R and W, a multiple of 8.
        cells : int64 [M]
            Ascending.
        weights : float64 [M]

        Raises
        ------
        ShapeError
            Cells that do not ascend or are outside the table.
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
            array_out(place),
            array_out(table),
            array_out(entries),
        )
        check(status, "packing weights")
        return cls(place, table, entries)

    def view(self) -> tuple[CData, dict[str, CData]]:
        """Return the C view of the table, and the memory it points into."""
        fields = {
            "place": array_in(self.place, np.int32, self.place.shape, "place"),
            "table": array_in(self.table, np.float64, self.table.shape, "table"),
            "entry": array_in(self.entries, ENTRY, self.entries.shape, "entries"),
        }
        sizes = {"R": len(self.place), "W": self.table.shape[1]}
        counts = {"rows": len(self.table), "entries": len(self.entries)}
        return ffi.new("fc_packed *", {**sizes, **counts, **fields}), fields

    def sum_rows(self, rows: SparseRows, width: int) -> Floats:
        """Return the weighted sums of rows of the table, in its first columns.

        Parameters
        ----------
        rows : SparseRows [N, R]
        width : int
            Number of columns to return, at most W.

        Returns
        -------
        float64 [N, width]
        """
        n, full = len(rows), self.table.shape[1]
        if rows.n_columns != len(self.place):
            raise ShapeError(f"rows over {rows.n_columns} columns, a table of {len(self.place)}")
        packed, _memory = self.view()
        out, scratch, value = np.empty((n, width)), np.empty(full), rows.value
        status = lib.fc_gather_packed(
            n,
            packed,
            array_in(rows.indptr, np.int64, (n + 1,), "indptr"),
            array_in(rows.index, np.int32, rows.index.shape, "index"),
            ffi.NULL if value is None else array_in(value, np.float32, value.shape, "value"),
            width,
            array_out(out),
            array_out(scratch),
        )
        check(status, "rows times packed table")
        return out

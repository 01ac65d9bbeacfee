"""Sparse rows (CSR) times a table: potentials from weights, gradients from posteriors.

The rows of attributes are found by string ids of tokens, packed into keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ints, Longs, Ragged, Singles
from fstcrf.errors import ShapeError
from fstcrf.kernel.native import ENTRY, SLOT, array_in, array_out, check, ffi, freeze, lib
from fstcrf.lazy import given_state, made_once

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData, View


SentenceRows: TypeAlias = "tuple[list[int] | Longs, bytes | Ints, Singles | None]"
"""The bounds of a sentence's tokens among its rows, [T + 1], the rows, and their values or None.

Rows are int32 numbers, or their bytes: these are joined in less time than lists of int.
"""

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


@dataclass(frozen=True, eq=False)
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
        inside = not len(cells) or (cells[0] >= 0 and cells[-1] < n_rows * width)
        if not inside or (cells[1:] <= cells[:-1]).any():
            raise ShapeError(f"cells of a table of {n_rows} x {width} do not ascend in it")
        array_in(weights, np.float64, cells.shape, "weights")
        row = cells // width
        count = np.bincount(row, minlength=n_rows)
        full = count >= max(width // _PER_ENTRY, 2)
        padded, number = full[row], np.cumsum(full) - 1
        table = np.zeros((np.count_nonzero(full), width))
        moved = (number - np.arange(n_rows)) * width  # from a cell to its place in the table
        table.reshape(-1)[(cells + moved[row])[padded]] = weights[padded]
        listed, entries = ~padded, np.zeros(1 + len(cells) - np.count_nonzero(padded), dtype=ENTRY)
        ends = np.cumsum(np.where(full, 0, count))  # of the lists
        entries["weight"][1:], entries["slot"][1:] = weights[listed], (cells % width)[listed]
        entries["slot"][ends] ^= -1
        entries["slot"][0] = -1  # the list of rows without weights
        lists = ~np.where(count > 0, ends - count + 1, 0)
        return cls(np.where(full, number, lists).astype(np.int32), table, entries)

    @made_once
    def view(self) -> CData:
        """The C view of the table."""
        arrays: dict[str, object] = {
            "place": array_in(self.place, np.int32, self.place.shape, "place"),
            "table": array_in(self.table, np.float64, self.table.shape, "table"),
            "entry": array_in(self.entries, ENTRY, self.entries.shape, "entries"),
        }
        sizes = {"R": len(self.place), "W": self.table.shape[1]}
        counts = {"rows": len(self.table), "entries": len(self.entries)}
        return ffi.new("fc_packed *", {**sizes, **counts, **arrays})

    def __getstate__(self) -> dict[str, object]:
        """Return the arrays."""
        return given_state(self)

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
        out, scratch, value = np.empty((n, width)), np.empty(full), rows.value
        status = lib.fc_gather_packed(
            n,
            self.view,
            array_in(rows.indptr, np.int64, (n + 1,), "indptr"),
            array_in(rows.index, np.int32, rows.index.shape, "index"),
            ffi.NULL if value is None else array_in(value, np.float32, value.shape, "value"),
            width,
            0,
            array_out(out),
            array_out(scratch),
        )
        check(status, "rows times packed table")
        return out


def packed_cells(n_rows: int, width: int, cells: Longs) -> Callable[[Floats], PackedTable]:
    """Return a function from weights at these cells, as of `from_cells`, to a table.

    A table is made in the memory of the one before, which ends then: for one thread.
    """
    made: list[tuple[PackedTable, Longs, Longs, Longs]] = []

    def table(weights: Floats) -> PackedTable:
        if not made:
            first = PackedTable.from_cells(n_rows, width, cells, weights)
            row, column = np.divmod(cells, width)
            place = first.place[row].astype(np.int64)
            padded, listed = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
            made.append((first, padded, place[padded] * width + column[padded], listed))
            return first
        before, padded, at, listed = made[0]
        if weights.shape != cells.shape:
            raise ShapeError(f"{len(weights)} weights for {len(cells)} cells")
        entries = before.entries.copy()
        entries["weight"][1:] = weights[listed]
        before.table.reshape(-1)[at] = weights[padded]
        return replace(before, entries=entries)

    return table


Firing = Literal["every", "first", "last", "inner"]
_FIRING = {"every": lib.FC_EVERY, "first": lib.FC_FIRST, "last": lib.FC_LAST, "inner": lib.FC_INNER}


class KeyTerm(NamedTuple):
    """One string id of a key."""

    column: int  # of the codes
    offset: int  # relative to the token
    # outside the sentence the term reads a pad; otherwise the attribute is missing there
    pads: bool
    width: int  # bits


def _bits(n: int) -> int:
    return max(n.bit_length() + 1, 2)


def hash_table(keys: NDArray[np.uint64], rows: Ints) -> NDArray[np.generic]:
    """Return a hash table of distinct keys, [n], and their rows, [n], ≥ 0; half or more is free."""
    bits = _bits(len(keys))
    slots = np.empty(1 << bits, dtype=SLOT)
    status = lib.fc_fill_slots(
        len(keys),
        array_in(keys, np.uint64, keys.shape, "keys"),
        array_in(rows, np.int32, keys.shape, "rows"),
        len(slots),
        64 - bits,
        array_out(slots),
    )
    check(status, "hash table")
    return slots


@dataclass(frozen=True, slots=True)
class KeyFamily:
    """One kind of attributes: the terms of its keys, and the row of each key.

    Sorted keys need no construction, but each doubling of their number adds a step to look-ups;
    `laid_out` builds a faster table.
    """

    firing: Firing  # tokens at which it fires; inner: all but the first
    terms: tuple[KeyTerm, ...]  # first term highest in the key
    keys: NDArray[np.uint64]  # [n], increasing
    rows: Ints  # [n], ≥ 0
    direct: Ints | None = None  # row of every possible key, −1: unknown key; or:
    slots: NDArray[np.generic] | None = None  # (key, row) [2^k], a hash table

    @classmethod
    def of(
        cls,
        terms: Sequence[KeyTerm],
        keys: NDArray[np.uint64],
        rows: Ints,
        *,
        firing: Firing = "every",
    ) -> Self:
        """Return a family with these keys, [n], ascending, and their rows, [n], ≥ 0."""
        return cls(firing, tuple(terms), keys, rows)

    @property
    def steps(self) -> int:
        """Comparisons of a look-up in the sorted keys."""
        return len(self.keys).bit_length()

    def laid_out(self) -> KeyFamily:
        """Return the family with an array over all keys, or a hash table."""
        if self.direct is not None or self.slots is not None:
            return self
        keys, rows = self.keys, self.rows
        bits = _bits(len(keys))
        width = sum(term.width for term in self.terms)
        if width <= bits + 2:  # an array over all keys is no larger
            direct = np.full(1 << width, -1, dtype=np.int32)
            direct[keys] = rows
            return replace(self, direct=direct)
        return replace(self, slots=hash_table(keys, rows))

    def c_fields(self) -> tuple[dict[str, object], list[object]]:
        """Return the fields of the C view, and the memory they point into."""
        terms = ffi.new("fc_term[]", [tuple(map(int, term)) for term in self.terms])
        fields = {"firing": _FIRING[self.firing], "M": len(self.terms), "term": terms}
        if self.direct is not None:
            memory = array_in(self.direct, np.int32, self.direct.shape, "direct")
            return {**fields, "size": len(self.direct), "direct": memory}, [terms, memory]
        if self.slots is not None:
            memory = array_in(self.slots, SLOT, self.slots.shape, "slots")
            shift = 65 - len(self.slots).bit_length()
            return {**fields, "size": len(self.slots), "shift": shift, "slot": memory}, [
                terms,
                memory,
            ]
        keys = array_in(self.keys, np.uint64, self.keys.shape, "keys")
        rows = array_in(self.rows, np.int32, self.keys.shape, "rows")
        return {**fields, "size": len(self.keys), "key": keys, "row": rows}, [terms, keys, rows]


def check_keys(
    keys: NDArray[np.uint64], widths: Sequence[int] = (), limits: Sequence[int] = ()
) -> None:
    """Check that keys ascend, and that each packs numbers below these limits.

    Parameters
    ----------
    keys : uint64 [n]
    widths : sequence of int
        Bits of each number, at most 63 together; empty: keys are any numbers.
    limits : sequence of int
        1 + the largest value of each number.

    Raises
    ------
    KernelError
        The keys violate this.
    """
    where = ffi.new("int64_t *")
    width, limit = ffi.new("int64_t[]", list(widths)), ffi.new("int64_t[]", list(limits))
    view = array_in(keys, np.uint64, keys.shape, "keys")
    status = lib.fc_check_keys(len(keys), view, len(widths), width, limit, where)
    check(status, "keys", where[0])


def is_permutation(rows: Ints) -> bool:
    """Return whether int32 [n] contains each of the numbers below n once."""
    n = len(rows)
    below = n == 0 or bool(rows.min() >= 0 and rows.max() < n)
    return below and bool((np.bincount(rows, minlength=n) == 1).all())


class TokenPlaces(NamedTuple):
    """Tokens, in any order, any number of times."""

    token: Longs  # [M] of the codes
    before: Ints  # [M] number of tokens before it in its sentence
    after: Ints  # [M] number of tokens after it in its sentence


class RowFinder:
    """Families prepared for repeated look-ups.

    String ids below 2 * reach are the pads outside of sentences.
    """

    def __init__(self, families: Sequence[KeyFamily], *, reach: int) -> None:
        self._given = tuple(families)
        self._lists, self._memory = _views(self._given)
        self._steps = sum(family.steps for family in self._given)
        # building tables pays after this many steps
        self._pays = sum(len(family.keys) for family in self._given)
        self._done = 0
        self._reach = reach

    def __len__(self) -> int:
        return len(self._given)

    @made_once
    def _laid_out(self) -> View:
        """The families with arrays or hash tables, for C, and the memory they point into."""
        return _views([family.laid_out() for family in self._given])

    def _families(self, tokens: int) -> CData:
        """Return the families in the form that is faster for `tokens` more tokens.

        Tables are built once look-ups in sorted keys have taken as many steps as there are keys:
        for few sentences, never.
        """
        # a race between threads may lose some: then tables are built a bit later
        self._done += tokens * self._steps
        return self._lists if self._done <= self._pays else self._laid_out[0]

    def entries(self, codes: Ints, offsets: Longs) -> tuple[Longs, Ints]:
        """Return the rows that are not missing as sparse rows: indptr and index; see `rows`."""
        indptr = np.empty(int(offsets[-1] - offsets[0]) + 1, dtype=np.int64)
        rows = self.rows(codes, offsets, indptr)
        return indptr, rows.ravel()[: indptr[-1]]

    def rows(self, codes: Ints, offsets: Longs, indptr: Longs | None = None) -> Ints:
        """Return the row of each family at each token, int32 [N, F], −1 for a missing attribute.

        Codes, int32 [K, M], are string ids of each token in K columns, −1 if unknown. Ids below
        2 * reach are pads: those before the sentence, by distance, then those after it. Sentences
        are from any of the M tokens on; rows are of the tokens ``offsets[0] : offsets[-1]``. With
        `indptr`, int64 [N + 1], the missing ones are dropped and it becomes their bounds.
        """
        n = int(offsets[-1] - offsets[0])
        out, where = np.empty((n, len(self)), dtype=np.int32), ffi.new("int64_t *")
        status = lib.fc_find_rows(
            len(offsets) - 1,
            array_in(offsets, np.int64, offsets.shape, "offsets"),
            codes.shape[0],
            codes.shape[1],
            array_in(codes, np.int32, codes.shape, "codes"),
            self._reach,
            len(self),
            self._families(n),
            array_out(out),
            ffi.NULL if indptr is None else array_out(indptr),
            where,
        )
        check(status, "looking attributes up", where[0])
        return out

    def rows_at(
        self, codes: Ints, places: TokenPlaces, listed: Ints, indptr: Longs | None = None
    ) -> Ints:
        """Return the row of each family at listed tokens, int32 [M, F], −1 if missing.

        Each listed token brings its own string ids, int32 [K, M], in place of its ids in `codes`,
        which is as for `rows`, as is `indptr`; its neighbours keep theirs.
        """
        size = len(places.token)
        out, where = np.empty((size, len(self)), dtype=np.int32), ffi.new("int64_t *")
        status = lib.fc_find_rows_at(
            size,
            array_in(places.token, np.int64, (size,), "token"),
            array_in(places.before, np.int32, (size,), "before"),
            array_in(places.after, np.int32, (size,), "after"),
            array_in(listed, np.int32, (codes.shape[0], size), "own"),
            codes.shape[0],
            codes.shape[1],
            array_in(codes, np.int32, codes.shape, "codes"),
            self._reach,
            len(self),
            self._families(size),
            array_out(out),
            ffi.NULL if indptr is None else array_out(indptr),
            where,
        )
        check(status, "looking attributes up", where[0])
        return out


def _views(families: Sequence[KeyFamily]) -> View:
    """Return families for C, and the memory they point into."""
    views = [family.c_fields() for family in families]
    return ffi.new("fc_family[]", [fields for fields, _ in views]), [memory for _, memory in views]

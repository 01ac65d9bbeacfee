"""Rows of attributes: string numbers of tokens packed into keys, keys looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Ints, Longs
from fstcrf.errors import ShapeError
from fstcrf.kernel.native import SLOT, array_in, array_out, check, ffi, lib

Firing = Literal["every", "first", "last", "inner"]
_FIRING = {
    "every": lib.FC_EVERY,
    "first": lib.FC_FIRST,
    "last": lib.FC_LAST,
    "inner": lib.FC_INNER,
}


class KeyTerm(NamedTuple):
    """One string number of a key."""

    column: int  # of the codes
    offset: int  # relative to the token
    pads: bool  # outside the sentence there is a pad, not nothing
    width: int  # bits


@dataclass(frozen=True, slots=True)
class KeyFamily:
    """One kind of attributes: the terms of its keys, and the row of each key; made by `of`."""

    firing: Firing  # which tokens have them; inner: all but the first
    terms: tuple[KeyTerm, ...]  # first term highest in the key
    direct: Ints | None  # row of every key there could be, −1: none; or:
    slots: NDArray[Any] | None  # (key, row) [2^k], a hash table

    @classmethod
    def of(
        cls,
        terms: Sequence[KeyTerm],
        keys: NDArray[np.uint64],
        rows: Ints,
        *,
        firing: Firing = "every",
    ) -> Self:
        """Return a family with these keys, [n], all different, and their rows, [n], ≥ 0."""
        bits = max(len(keys).bit_length() + 1, 2)
        width = sum(term.width for term in terms)
        if width <= bits + 2:  # an array over all keys is no larger
            direct = np.full(1 << width, -1, dtype=np.int32)
            direct[keys] = rows
            return cls(firing, tuple(terms), direct, None)
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
        return cls(firing, tuple(terms), None, slots)

    def c_fields(self) -> tuple[dict[str, Any], list[Any]]:
        """Return the C view, and what keeps its memory alive."""
        terms = ffi.new("fc_term[]", [tuple(map(int, term)) for term in self.terms])
        fields = {"firing": _FIRING[self.firing], "M": len(self.terms), "term": terms}
        if self.direct is not None:
            memory = array_in(self.direct, np.int32, self.direct.shape, "direct")
            return {**fields, "size": len(self.direct), "direct": memory}, [terms, memory]
        slots = self.slots
        if slots is None:
            raise ShapeError("a family needs an array or a hash table")
        memory = array_in(slots, SLOT, slots.shape, "slots")
        shift = 65 - len(slots).bit_length()
        return {**fields, "size": len(slots), "shift": shift, "slot": memory}, [terms, memory]


class RowFinder:
    """Families ready to be looked up, again and again.

    Numbers below 2 * reach stand for what is outside the sentence.
    """

    def __init__(self, families: Sequence[KeyFamily], *, reach: int) -> None:
        views = [family.c_fields() for family in families]
        self._families = ffi.new("fc_family[]", [fields for fields, _ in views])
        self._memory = [memory for _, memory in views]
        self._reach = reach

    def __len__(self) -> int:
        return len(self._memory)

    def rows(self, codes: Ints, offsets: Longs) -> Ints:
        """Return the row of each family at each token, int32 [N, F], −1 where there is none.

        Codes, int32 [K, M], number each token's string in K columns, −1 where it is unknown.
        Numbers below 2 * reach are those of the pads before the sentence, by distance, then behind
        it. Sentences are from any of the M tokens on; rows are of the tokens ``offsets[0] :
        offsets[-1]``.
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
            self._families,
            array_out(out),
            where,
        )
        check(status, "looking attributes up", where[0])
        return out


def compacted(rows: Ints) -> tuple[Longs, Ints]:
    """Return what is not negative in int32 [N, F], as sparse rows: indptr and index."""
    n, width = rows.shape
    indptr, index = np.empty(n + 1, dtype=np.int64), np.empty(n * width, dtype=np.int32)
    status = lib.fc_compact_rows(
        n,
        width,
        array_in(rows, np.int32, rows.shape, "rows"),
        array_out(indptr),
        array_out(index),
    )
    check(status, "compacting rows")
    return indptr, index[: indptr[n]]

"""Integer keys of attributes: packing string numbers, and looking the keys up.

============= ===============================================================
KeyTable      sorted keys with a row each
Packing       string numbers ↔ one 64-bit key
distinct      sorted distinct keys, and where each key is among them
============= ===============================================================

An attribute of one template is a tuple of string numbers, one per macro. With ``w`` bits for
each number the tuple is packed, first macro highest::

    key = (((n_1 << w_2) | n_2) << w_3) | n_3 ...

Where the sum of the widths exceeds 63 bits, the numbers packed so far are first replaced by
*their* number in a table of the prefixes that occur; so keys are exact whatever the template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Codes", "KeyTable", "Packing", "distinct", "width_of"]

KEY_BITS = 63
_DENSE = 4

Codes = Sequence[NDArray[np.uint64]]
"""String numbers, one array [n] per macro."""


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Sorted keys with a row each.

    Parameters
    ----------
    keys : uint64 [n]
        Strictly increasing.
    rows : int32 [n]
        Row of each key, ≥ 0.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int32]

    @classmethod
    def empty(cls) -> KeyTable:
        """Return a table without keys."""
        return cls(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.keys)

    def lookup(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the row of each key, −1 for unknown ones.

        Complexity: O(log n) a key.
        """
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.int32)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.rows[place], np.int32(-1))

    def merged(self, keys: NDArray[np.uint64], rows: NDArray[np.int32]) -> KeyTable:
        """Return the table with further keys, none of which it has yet."""
        if not len(self.keys):
            return KeyTable(keys, rows)
        all_keys = np.concatenate([self.keys, keys])
        order = np.argsort(all_keys)
        return KeyTable(all_keys[order], np.concatenate([self.rows, rows])[order])

    def by_row(self) -> NDArray[np.uint64]:
        """Return the keys in the order of their rows."""
        return self.keys[np.argsort(self.rows)]


@dataclass(frozen=True, slots=True)
class Packing:
    """How the string numbers of one template family become keys.

    Parameters
    ----------
    widths : tuple of int
        Bits of each number.
    prefixes : tuple of KeyTable
        Numbers of the prefixes that are replaced, first to last; empty when 63 bits suffice.
    """

    widths: tuple[int, ...]
    prefixes: tuple[KeyTable, ...] = ()

    @classmethod
    def fitted(cls, widths: Sequence[int], codes: Iterable[NDArray[np.uint64]]) -> Packing:
        """Return the packing of numbers that occur.

        Parameters
        ----------
        widths : sequence of int
            Bits of each number, at most 32.
        codes : iterable of uint64 [n]
            The numbers, one array per macro; not looked at where 63 bits suffice.
        """
        if sum(widths) <= KEY_BITS:
            return cls(tuple(widths))
        prefixes: list[KeyTable] = []
        used, key = 0, np.empty(0, dtype=np.uint64)
        for width, code in zip(widths, codes, strict=True):
            if used + width > KEY_BITS:
                keys, numbers, _ = distinct(key, used)
                prefixes.append(KeyTable(keys, np.arange(len(keys), dtype=np.int32)))
                key, used = numbers.astype(np.uint64), width_of(len(keys))
            key = key << np.uint64(width) | code if used else code
            used += width
        return cls(tuple(widths), tuple(prefixes))

    @classmethod
    def of_tables(cls, widths: Sequence[int], tables: Iterator[KeyTable]) -> Packing:
        """Return the packing that takes the prefix tables it needs from an iterator.

        Raises
        ------
        StopIteration
            There are too few.
        """
        prefixes: list[KeyTable] = []
        used = 0
        for width in widths:
            if used + width > KEY_BITS:
                prefixes.append(next(tables))
                used = width_of(len(prefixes[-1]))
            used += width
        return cls(tuple(widths), tuple(prefixes))

    @property
    def bits(self) -> int:
        """Bits of the final keys."""
        return self._stages()[-1][1]

    def pack(self, codes: Codes, count: int) -> tuple[NDArray[np.uint64], NDArray[np.bool] | None]:
        """Return the keys of numbers.

        Parameters
        ----------
        codes : sequence of uint64 [n]
            The numbers, one array per macro.
        count : int
            Their count, n: a template without macros has no array to tell it.

        Returns
        -------
        keys : uint64 [n]
        known : bool [n] or None
            Whether the prefixes are known; None when all of them are.
        """
        key, known = np.zeros(count, dtype=np.uint64), None
        stages = self._stages()
        for number, (macros, _) in enumerate(stages):
            if number:
                found = self.prefixes[number - 1].lookup(key)
                fits = found >= 0
                known = fits if known is None else known & fits
                key = np.where(fits, found, 0).astype(np.uint64)
            for macro in macros:
                key = key << np.uint64(self.widths[macro]) | codes[macro]
        return key, known

    def unpack(self, keys: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
        """Return the numbers of keys, one array per macro; the inverse of `pack`.

        Raises
        ------
        IndexError
            A prefix number that no table has.
        """
        codes: list[NDArray[np.uint64]] = []
        for number, (macros, _) in reversed(list(enumerate(self._stages()))):
            for macro in reversed(macros):
                width = np.uint64(self.widths[macro])
                codes.append(keys & ((np.uint64(1) << width) - np.uint64(1)))
                keys = keys >> width
            if number:
                keys = self.prefixes[number - 1].by_row()[keys]
        return codes[::-1]

    def _stages(self) -> list[tuple[range, int]]:
        """Return the macros that are packed between replacements, and the bits so far."""
        stages: list[tuple[range, int]] = []
        first, used = 0, 0
        for macro, width in enumerate(self.widths):
            if used + width > KEY_BITS:
                stages.append((range(first, macro), used))
                first, used = macro, width_of(len(self.prefixes[len(stages) - 1]))
            used += width
        return [*stages, (range(first, len(self.widths)), used)]


def distinct(
    keys: NDArray[np.uint64], bits: int
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64]]:
    """Return sorted distinct keys, the place of each key among them, and their counts.

    Parameters
    ----------
    keys : uint64 [n]
        The keys, below 2^bits.
    bits : int
        Their width. Where 2^bits is of the order of n, counting replaces sorting.

    Returns
    -------
    unique : uint64 [m]
    inverse : int32 [n]
    counts : int64 [m]
    """
    if bits < KEY_BITS and 1 << bits <= _DENSE * len(keys) + 1024:
        table = np.bincount(keys.view(np.int64), minlength=1 << bits)
        unique = np.flatnonzero(table)
        place = np.empty(len(table), dtype=np.int32)
        place[unique] = np.arange(len(unique), dtype=np.int32)
        return unique.astype(np.uint64), place[keys.view(np.int64)], table[unique]
    unique_keys, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return unique_keys, inverse.astype(np.int32), counts


def width_of(count: int) -> int:
    """Return the bits that `count` different numbers need."""
    return max(count - 1, 0).bit_length()

"""String ids, and the integer keys of attributes that are packed from them.

An attribute of one template is a tuple of string ids, one per macro. With ``w`` bits for each id,
the tuple is packed, first macro highest::

    key = (((n_1 << w_2) | n_2) << w_3) | n_3 ...

If the sum of the widths exceeds 63 bits, the ids packed so far are first replaced by *their* number
in a table of occurring prefixes; so keys are exact for every template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Bytes, Ints, Longs
from fstcrf.errors import ModelFileError, ShapeError
from fstcrf.kernel.strings import Strings, pack_strings

KEY_BITS = 63
_DENSE = 4

IndexArrays = Mapping[str, NDArray[np.generic]]
"""An index as the arrays of a model file."""

Metadata = Mapping[str, object]
"""The rest of an index, values of JSON."""

Codes = Sequence[NDArray[np.uint64]]
"""String ids, one array [n] per macro."""


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Sorted keys and the row of each."""

    keys: NDArray[np.uint64]  # [n]: strictly increasing
    rows: Ints  # [n]: row of each key, ≥ 0

    @classmethod
    def of(cls, keys: NDArray[np.uint64], first: int = 0) -> KeyTable:
        """Return a table of sorted keys, whose rows are numbered from `first` on."""
        return cls(keys, np.arange(first, first + len(keys), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.keys)

    def lookup(self, keys: NDArray[np.uint64]) -> Ints:
        """Return the row of each key, −1 for unknown ones.

        Complexity: O(log n) a key.
        """
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.int32)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.rows[place], np.int32(-1))

    def merged(self, other: KeyTable) -> KeyTable:
        """Return the table with further keys, which must be new."""
        if not len(self.keys):
            return other
        keys = np.concatenate([self.keys, other.keys])
        order = np.argsort(keys)
        return KeyTable(keys[order], np.concatenate([self.rows, other.rows])[order])


@dataclass(frozen=True, slots=True)
class Packing:
    """The packing of a template family's string ids into keys."""

    widths: tuple[int, ...]  # bits of each number
    # Numbers of the prefixes that are replaced, first to last; empty when 63 bits suffice.
    prefixes: tuple[KeyTable, ...] = ()

    @classmethod
    def fitted(cls, widths: Sequence[int], prefixes: Callable[[Packing], KeyTable]) -> Packing:
        """Return the packing of the numbers that occur.

        `prefixes` maps a packing of the first numbers to the table of the keys that occur; it is
        not called if 63 bits suffice.
        """
        tables: list[KeyTable] = []
        used = 0
        for place, width in enumerate(widths):
            if used + width > KEY_BITS:
                tables.append(prefixes(cls(tuple(widths[:place]), tuple(tables))))
                used = width_of(len(tables[-1]))
            used += width
        return cls(tuple(widths), tuple(tables))

    @classmethod
    def of_codes(cls, widths: Sequence[int], codes: Codes, count: int) -> Packing:
        """Return the packing of `count` tuples of numbers, one array per macro."""
        return cls.fitted(widths, lambda packing: KeyTable.of(packing.distinct(codes, count)))

    def distinct(self, codes: Codes, count: int) -> NDArray[np.uint64]:
        """Return the distinct keys of the first numbers of `count` tuples, ascending."""
        return distinct_keys(self.pack(codes[: len(self.widths)], count)[0], self.bits)[0]

    @property
    def bits(self) -> int:
        """Bits of the final keys."""
        return self._stages()[-1][1]

    def pack(self, codes: Codes, count: int) -> tuple[NDArray[np.uint64], Bools | None]:
        """Return the keys of `count` tuples of ids, and whether their prefixes are known.

        The second value is `None` if all are known. `count` is needed for templates without macros,
        which have no array.
        """
        key, in_vocabulary = np.zeros(count, dtype=np.uint64), None
        stages = self._stages()
        for number, (macros, _) in enumerate(stages):
            if number:
                rank = self.prefixes[number - 1].lookup(key)
                fits = rank >= 0
                in_vocabulary = fits if in_vocabulary is None else in_vocabulary & fits
                key = np.where(fits, rank, 0).astype(np.uint64)
            for macro in macros:
                key = key << np.uint64(self.widths[macro]) | codes[macro]
        return key, in_vocabulary

    def unpack(self, keys: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
        """Return the ids of keys, one array per macro; the inverse of `pack`.

        Raise IndexError for a prefix number that no table has.
        """
        codes: list[NDArray[np.uint64]] = []
        for number, (macros, _) in reversed(list(enumerate(self._stages()))):
            for macro in reversed(macros):
                width = np.uint64(self.widths[macro])
                codes.append(keys & ((np.uint64(1) << width) - np.uint64(1)))
                keys = keys >> width
            if number:
                prefixes = self.prefixes[number - 1]
                keys = prefixes.keys[np.argsort(prefixes.rows)][keys]
        return codes[::-1]

    def _stages(self) -> list[tuple[range, int]]:
        """Return the macros between two prefix replacements, and the bits so far."""
        stages: list[tuple[range, int]] = []
        first, used = 0, 0
        for macro, width in enumerate(self.widths):
            if used + width > KEY_BITS:
                stages.append((range(first, macro), used))
                first, used = macro, width_of(len(self.prefixes[len(stages) - 1]))
            used += width
        return [*stages, (range(first, len(self.widths)), used)]


def distinct_keys(keys: NDArray[np.uint64], bits: int) -> tuple[NDArray[np.uint64], Ints, Longs]:
    """Return sorted distinct keys, the position of each key among them, and their counts.

    The keys are below 2^bits: if this is near their number, they are counted, not sorted.
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
    """Return the number of bits for `count` different numbers."""
    return max(count - 1, 0).bit_length()


# --- Numbered strings -----------------------------------------------------------------------------

# Bytes 10xxxxxx of UTF-8 continue a character.
_CONTINUES, _CONTINUATION = np.uint8(0b11000000), np.uint8(0b10000000)


class Vocabulary:
    """Distinct strings and their ids; immutable.

    Repeated strings count once.
    """

    __slots__ = ("_size", "_strings", "_table")

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._strings: tuple[str, ...] | None = tuple(dict.fromkeys(strings))
        self._size = len(self._strings)
        self._table: Strings | None = None

    @classmethod
    def from_blob(cls, blob: Bytes, offsets: Longs, name: str) -> Self:
        """Return the vocabulary of a blob that `check_blob` accepts; its strings are not copied."""
        new = cls()
        try:
            new._table = Strings(blob, offsets)
        except ShapeError:
            raise ModelFileError(f"{name} holds a string twice") from None
        new._size, new._strings = len(new._table), None
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.strings,)

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.strings == other.strings

    def __hash__(self) -> int:
        return hash(self.strings)

    @property
    def strings(self) -> tuple[str, ...]:
        """The strings in the order of their numbers."""
        if self._strings is None:
            self._strings = self._lookup.strings()
        return self._strings

    def extended(self, strings: Iterable[str]) -> Vocabulary:
        """Return a vocabulary with further strings after the present ones."""
        return Vocabulary((*self.strings, *strings))

    def number(self, string: str) -> int | None:
        """Return the id of a string, `None` if it is unknown."""
        number = int(self.numbers([string])[0])
        return None if number < 0 else number

    def numbers(self, strings: Sequence[str]) -> Longs:
        """Return the ids of strings, −1 for unknown ones."""
        return self._lookup.numbers(*pack_strings(strings, surrogates="surrogatepass"))

    @property
    def _lookup(self) -> Strings:
        # A race of two threads is harmless: both make the same table.
        if self._table is None:
            self._table = Strings(*pack_strings(self.strings, surrogates="surrogatepass"))
        return self._table


def check_blob(blob: Bytes, offsets: Longs, name: str) -> None:
    """Check concatenated strings of a file; `name` describes them in errors."""
    if blob.dtype != np.uint8 or blob.ndim != 1 or offsets.dtype != np.int64 or offsets.ndim != 1:
        raise ModelFileError(
            f"{name} is {blob.dtype} {list(blob.shape)} with offsets {offsets.dtype} "
            f"{list(offsets.shape)}, expected uint8 [B] and int64 [n + 1]"
        )
    ends = (0, len(blob))
    if not len(offsets) or (offsets[0], offsets[-1]) != ends or np.any(offsets[1:] < offsets[:-1]):
        raise ModelFileError(f"the offsets of {name} do not partition its {len(blob)} bytes")
    heads = blob[offsets[offsets < len(blob)]]
    damaged = bool(np.any(heads & _CONTINUES == _CONTINUATION))
    try:
        blob.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        damaged = True
    if damaged:
        raise ModelFileError(f"{name} holds bytes that are not UTF-8")


def unpack_strings(blob: Bytes, offsets: Longs, name: str) -> list[str]:
    """Return the strings of a blob; arguments as for `check_blob`."""
    check_blob(blob, offsets, name)
    data, bounds = blob.tobytes(), offsets.tolist()
    return [data[a:b].decode("utf-8") for a, b in pairwise(bounds)]


def check_kind(metadata: Metadata, kind: str, version: int) -> None:
    """Refuse the metadata of another kind of index, or of another version."""
    actual = metadata.get("kind"), metadata.get("version")
    if actual != (kind, version):
        raise ModelFileError(f"the index is {actual}, expected {(kind, version)}")


Scalar = TypeVar("Scalar", bound=np.generic)


def checked_array(arrays: IndexArrays, name: str, dtype: type[Scalar]) -> NDArray[Scalar]:
    """Return one array of a model file."""
    if name not in arrays:
        raise ModelFileError(f"the index has no array {name!r}")
    array = arrays[name]
    if array.dtype != dtype or array.ndim != 1:
        raise ModelFileError(
            f"{name} is {array.dtype} {list(array.shape)}, expected {np.dtype(dtype)} [n]"
        )
    return array.astype(dtype, copy=False)

"""The attributes of templates hashed into 2^k rows; neither strings nor names are stored.

The row is the high bits of a hash of the family's text and of the strings, so it is the same in
every run and on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Ints, Ragged, distinct
from fstcrf.errors import OptionError
from fstcrf.kernel import SparseRows
from fstcrf.kernel.strings import pack_strings
from fstcrf.text.features.derive import Source
from fstcrf.text.features.design import assembled
from fstcrf.text.features.reader import Encoder, Entries, Family, Reader

MAX_BITS = 30
_FNV_BASIS = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def string_hashes(strings: Sequence[str]) -> NDArray[np.uint64]:
    """Return the hash of each string, uint64 [n].

    FNV-1a, ``h = (h xor byte) * prime`` over the bytes, vectorised over strings; then `mixed`,
    because FNV gives short strings similar high bits.
    """
    blob, offsets = pack_strings(strings)
    lengths = Ragged(offsets).lengths
    longest_first = np.argsort(-lengths, kind="stable")
    starts, lengths = offsets[:-1][longest_first], lengths[longest_first]
    hashes = np.full(len(strings), _FNV_BASIS)
    for position in range(int(lengths[0]) if len(lengths) else 0):
        alive = int(np.searchsorted(-lengths, -position, side="left"))  # length > position
        hashes[:alive] ^= blob[starts[:alive] + position]
        hashes[:alive] *= _FNV_PRIME
    result = np.empty_like(hashes)
    result[longest_first] = mixed(hashes)
    return result


def mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return SplitMix64's finaliser of each number, a bijection that spreads every bit.

    Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators.
    """
    z = hashes + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hashed_rows(hashes: NDArray[np.uint64], bits: int) -> Ints:
    """Return the row of each hash among 2^bits: its high bits."""
    return (hashes >> np.uint64(64 - bits)).astype(np.int32)


def check_bits(bits: object) -> int | None:
    """Return a valid number of hash bits, or raise an error."""
    if bits is None or (type(bits) is int and 1 <= bits <= MAX_BITS):
        return bits
    raise OptionError(f"hash_bits is {bits!r}, expected a number from 1 to {MAX_BITS}")


# --- Rows by hash ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Collisions:
    """Statistics of collisions in hashed rows.

    Parameters
    ----------
    attributes : int
        Distinct attributes of the corpus.
    rows : int
        Number of rows, 2^k.
    used : int
        Rows with at least one attribute.
    shared : int
        Attributes that share their row with another one.
    """

    attributes: int
    rows: int
    used: int
    shared: int

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], bits: int) -> Collisions:
        """Count the collisions of distinct hashes."""
        _, counts = np.unique(hashed_rows(hashes, bits), return_counts=True)
        return cls(len(hashes), 1 << bits, len(counts), int(counts[counts > 1].sum()))

    def __str__(self) -> str:
        part = self.shared / max(self.attributes, 1)
        return (
            f"{self.attributes} attributes in {self.used} of {self.rows} rows; "
            f"{self.shared} ({part:.1%}) share theirs"
        )


@dataclass(frozen=True, slots=True)
class Hashed:
    """The attributes of families, by hash."""

    families: tuple[Family, ...]  # the families, in the order of their templates
    bits: int  # the k of 2^k rows

    @property
    def n_rows(self) -> int:
        """Number of rows; 0 without families."""
        return 1 << self.bits if self.families else 0

    def rows(self, reader: Reader) -> SparseRows:
        """Return the attributes of every token."""
        encoder = Encoder(reader, self)
        blocks = []
        for family in self.families:
            entries = encoder.entries(family)
            rows = hashed_rows(_hashes(family, entries.codes, entries.count), self.bits)
            blocks.append(reader.block(family, entries.tokens, rows))
        return assembled(reader.n_tokens, blocks, self.n_rows)

    def runs(self, reader: Reader) -> Callable[[int, int], SparseRows]:
        """Return the function from a run of sentences, (first, end), to its attributes."""
        return lambda first, end: self.rows(Reader(reader.corpus[first:end], reach=reader.reach))

    def collisions(self, reader: Reader) -> Collisions:
        """Return the number of a corpus's attributes that share their row."""
        encoder = Encoder(reader, self)
        hashes = [np.empty(0, dtype=np.uint64)]
        for family in self.families:
            entries: Entries = encoder.entries(family)
            hashes.append(distinct(_hashes(family, entries.codes, entries.count)))
        return Collisions.of(distinct(np.concatenate(hashes)), self.bits)

    def find(self, attribute: str) -> int | None:
        """Return the row of an attribute; `None` if its text can be split in several ways."""
        readings = [(f, strings) for f in self.families for strings in f.readings(attribute)]
        if len(readings) != 1:
            return None
        ((family, strings),) = readings
        codes = [string_hashes([string]) for string in strings]
        return int(hashed_rows(_hashes(family, codes, 1), self.bits)[0])

    def pads(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """Return the hashes of the pads."""
        return string_hashes(names)

    def codes(self, source: Source, strings: Sequence[str]) -> tuple[NDArray[np.uint64], Bools]:
        """Return the hashes of strings; every string has one."""
        del source
        return string_hashes(strings), np.ones(len(strings), dtype=np.bool)


def _hashes(family: Family, codes: Sequence[NDArray[np.uint64]], count: int) -> NDArray[np.uint64]:
    hashes = np.full(count, string_hashes([family.identity])[0])
    for code in codes:
        hashes = mixed(hashes * _FNV_PRIME ^ code)
    return hashes

"""64-bit hashes of strings that are the same on every machine and in every run.

============== ==============================================================
string_hashes  FNV-1a of each string's UTF-8 bytes, mixed
mixed          SplitMix64's finaliser
combined       a hash of a hash and a further one
hashed_rows    hash → row among 2^k
============== ==============================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import OptionError
from fstcrf.features.vocabulary import pack_strings

__all__ = ["check_bits", "combined", "hashed_rows", "mixed", "string_hashes"]

MAX_BITS = 30
_FNV_BASIS = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def string_hashes(strings: Sequence[str]) -> NDArray[np.uint64]:
    """Return the hash of each string.

    FNV-1a, ``h = (h xor byte) * prime`` over the bytes, here one byte of all strings at a time;
    then `mixed`, because FNV leaves the high bits of short strings alike.

    Returns
    -------
    uint64 [n]
    """
    blob, offsets = pack_strings(strings)
    lengths = np.diff(offsets)
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

    References
    ----------
    Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators.
    """
    z = hashes + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def combined(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of two hashes in this order."""
    return mixed(first * _FNV_PRIME ^ second)


def hashed_rows(hashes: NDArray[np.uint64], bits: int) -> NDArray[np.int32]:
    """Return the row of each hash among 2^bits: its high bits."""
    return (hashes >> np.uint64(64 - bits)).astype(np.int32)


def check_bits(bits: int | None) -> int | None:
    """Return the number of hash bits if it can be.

    Raises
    ------
    OptionError
        Outside 1 to 30.
    """
    if bits is not None and (type(bits) is not int or not 1 <= bits <= MAX_BITS):
        raise OptionError(f"hash_bits is {bits!r}, expected a number from 1 to {MAX_BITS}")
    return bits

"""Token sequences that a document holds more than once, numbered.

Consistency asks whether two spans say the same, and whether one is a part of another. A span whose
tokens come once in the document agrees with everything; only repeated sequences need a number.

==================  ======================================
RepeatedSequences   numbers of all repeated sequences
repeated_sequences  find them
==================  ======================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["RepeatedSequences", "repeated_sequences"]

Ints = NDArray[np.int64]


class RepeatedSequences(NamedTuple):
    """Numbers of the token sequences that occur at least twice, within sentences.

    Attributes
    ----------
    first : int64 [N + 1]
        Where the sequences from each token on begin in ...
    number : int32
        ... the numbers of those of 1, 2, ... tokens; a longer one occurs once.
    """

    first: Ints
    number: NDArray[np.int32]

    def of(self, start: int, end: int) -> int:
        """Return the number of the sequence of some tokens, −1 where it occurs once."""
        room = int(self.first[start + 1] - self.first[start])
        length = end - start
        return int(self.number[self.first[start] + length - 1]) if length <= room else -1

    def inside(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield number and length of the sequences among some tokens, but for all of them."""
        for first in range(start, end):
            for stop in range(first + 1, end + 1):
                number = self.of(first, stop)
                if number < 0:
                    break
                if stop - first < end - start:
                    yield number, stop - first


def repeated_sequences(tokens: Ints, offsets: Ints) -> RepeatedSequences:
    """Find and number all repeated sequences of a document.

    Parameters
    ----------
    tokens : int [N]
        Equal where tokens are equal.
    offsets : int64 [B + 1]
        Sentences.

    Returns
    -------
    RepeatedSequences
        Numbers count from 0, shorter sequences first.
    """
    n, known = len(tokens), 0
    last = np.repeat(offsets[1:], np.diff(offsets))  # end of each token's sentence
    number = np.full(n + 1, -1, dtype=np.int64)  # of the sequence of this length from each token
    number[:n] = _numbered(np.asarray(tokens, dtype=np.int64))
    found: list[tuple[Ints, Ints]] = []
    length = 1
    while True:
        at = np.flatnonzero(number >= 0)
        if not len(at):
            break
        found.append((at, number[at] + known))
        count = int(number.max()) + 1
        known += count
        length += 1
        # It can repeat only where both sequences that are a token shorter do.
        at = at[(at + length <= last[at]) & (number[np.minimum(at + 1, n)] >= 0)]
        key = number[at] * count + number[at + 1]
        number = np.full(n + 1, -1, dtype=np.int64)
        number[at] = _numbered(key)
    place = np.concatenate([at for at, _ in found]) if found else np.zeros(0, dtype=np.int64)
    numbers = np.concatenate([k for _, k in found]) if found else place
    first = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(place, minlength=n), out=first[1:])
    order = np.argsort(place, kind="stable")  # by token, and by length for each
    return RepeatedSequences(first, numbers[order].astype(np.int32))


def _numbered(keys: Ints) -> Ints:
    """Return numbers for the keys that are there twice or more, −1 for others."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    group = np.cumsum(new) - 1
    repeated = np.bincount(group, minlength=1) > 1
    name = np.cumsum(repeated) - 1
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = np.where(repeated[group], name[group], -1)
    return out

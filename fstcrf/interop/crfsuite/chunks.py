"""Parts of a file, every access to which is checked against its length.

======  =======================================================
Chunk   some bytes of a file, with a name
joined  parts of an array one after the other
spread  the places of these parts
======  =======================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError

__all__ = ["U4", "Chunk", "joined", "spread"]

U4 = np.dtype("<u4")


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Some bytes of a file.

    Parameters
    ----------
    data : uint8 [n]
    where : str
        What they are, for messages: ``"names.crfsuite: labels"``.
    """

    data: NDArray[np.uint8]
    where: str

    def __len__(self) -> int:
        return len(self.data)

    def damaged(self, what: str) -> ModelFileError:
        """Return the error that says what is wrong here."""
        return ModelFileError(f"{self.where}: damaged or cut short: {what}")

    def part(self, begin: int, size: int, name: str) -> Chunk:
        """Return some of the bytes as a chunk of its own.

        Raises
        ------
        ModelFileError
            They are not there.
        """
        if not 0 <= begin <= begin + size <= len(self.data):
            raise self.damaged(f"{name} would be bytes {begin} to {begin + size} of {len(self)}")
        return Chunk(self.data[begin : begin + size], f"{self.where}: {name}")

    def array(self, begin: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return successive numbers, a view: `dtype` [count].

        Raises
        ------
        ModelFileError
            They are not there.
        """
        end = begin + count * dtype.itemsize
        if not 0 <= begin <= end <= len(self.data):
            raise self.damaged(f"{count} entries at byte {begin} of {len(self)}")
        return self.data[begin:end].view(dtype)

    def numbers(self, begin: int, count: int) -> NDArray[np.uint32]:
        """Return successive 32-bit numbers, uint32 [count].

        Raises
        ------
        ModelFileError
            They are not there.
        """
        return self.array(begin, count, U4)

    def numbers_at(self, places: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return the 32-bit numbers at some bytes, uint32 [n].

        Raises
        ------
        ModelFileError
            One of them is not there.
        """
        self.check_places(places, 4)
        if not len(places):
            return np.empty(0, dtype=np.uint32)
        # All numbers at all bytes, one of which begins at each: a view, not a copy.
        every = np.ndarray(len(self.data) - 3, U4, self.data, strides=(1,))
        found: NDArray[np.uint32] = every[places]
        return found

    def check_places(self, places: NDArray[np.int64], size: int) -> None:
        """Check that so many bytes follow at each place.

        Raises
        ------
        ModelFileError
            They do not.
        """
        last = len(self.data) - size
        if len(places) and not (places.min() >= 0 and places.max() <= last):
            wrong = places[(places < 0) | (places > last)][0]
            raise self.damaged(f"an offset of {wrong}, with {len(self)} bytes")


def spread(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``starts[i], starts[i] + 1, ...``, ``counts[i]`` of them, for each i; int64 [sum]."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - counts), counts) + np.arange(total)


def joined(
    data: NDArray[Any], starts: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[Any]:
    """Return ``data[starts[i] : starts[i] + counts[i]]`` for each i, one after the other.

    Parameters
    ----------
    data : array [n]
    starts, counts : int64 [m]
        Parts that are there.

    Returns
    -------
    array [sum of counts]
    """
    full = counts > 0
    if not full.all():
        starts, counts = starts[full], counts[full]
    ends = starts + counts
    if not (starts[1:] >= ends[:-1]).all():
        return data[spread(starts, counts)]
    # In order: +1 where a part begins, −1 where it ends, is a mask once summed up. A list of
    # places would be eight times as long as a text.
    mask = np.zeros(len(data) + 1, dtype=np.int8)
    mask[starts] = 1
    mask[ends] -= 1
    np.cumsum(mask, out=mask)
    return data[mask[:-1].view(np.bool_)]

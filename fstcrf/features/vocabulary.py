"""Numbered strings, and strings as arrays.

============== ==============================================================
Vocabulary     distinct strings, numbered by first appearance
pack_strings   strings as one UTF-8 blob with offsets
unpack_strings the strings of such a blob, checked
============== ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError
from fstcrf.kernel.strings import pack_strings

__all__ = ["Vocabulary", "pack_strings", "unpack_strings"]


class Vocabulary:
    """Distinct strings and their numbers; a value, never changed.

    Parameters
    ----------
    strings : iterable of str
        The strings; repeated ones count once.
    """

    __slots__ = ("_numbers", "strings")

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self.strings = tuple(dict.fromkeys(strings))
        self._numbers = dict(zip(self.strings, range(len(self.strings)), strict=True))

    def __len__(self) -> int:
        return len(self.strings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.strings == other.strings

    def __hash__(self) -> int:
        return hash(self.strings)

    def extended(self, strings: Iterable[str]) -> Vocabulary:
        """Return a vocabulary with further strings after the present ones."""
        return Vocabulary((*self.strings, *strings))

    def number(self, string: str) -> int | None:
        """Return the number of a string, None when it is unknown."""
        return self._numbers.get(string)

    def numbers(self, strings: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of strings, −1 for unknown ones."""
        found = map(self._numbers.get, strings, [-1] * len(strings))
        return np.fromiter(found, dtype=np.int64, count=len(strings))


def unpack_strings(blob: NDArray[Any], offsets: NDArray[Any], name: str) -> list[str]:
    """Return the strings of a blob.

    Parameters
    ----------
    blob : uint8 [B]
        The bytes.
    offsets : int64 [n + 1]
        Where each string starts.
    name : str
        What they are, for messages.

    Raises
    ------
    ModelFileError
        Offsets that do not partition the blob, or bytes that are not UTF-8.
    """
    if blob.dtype != np.uint8 or blob.ndim != 1 or offsets.dtype != np.int64 or offsets.ndim != 1:
        raise ModelFileError(
            f"{name} is {blob.dtype} {list(blob.shape)} with offsets {offsets.dtype} "
            f"{list(offsets.shape)}, expected uint8 [B] and int64 [n + 1]"
        )
    ends = (0, len(blob))
    if not len(offsets) or (offsets[0], offsets[-1]) != ends or np.any(np.diff(offsets) < 0):
        raise ModelFileError(f"the offsets of {name} do not partition its {len(blob)} bytes")
    data, bounds = blob.tobytes(), offsets.tolist()
    try:
        return [data[a:b].decode("utf-8") for a, b in pairwise(bounds)]
    except UnicodeDecodeError:
        raise ModelFileError(f"{name} holds bytes that are not UTF-8") from None

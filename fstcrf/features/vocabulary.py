"""Numbered strings, and strings as arrays.

============== ==============================================================
Vocabulary     distinct strings, numbered by first appearance
pack_strings   strings as one UTF-8 blob with offsets
check_blob     whether a blob holds strings
unpack_strings its strings, checked
============== ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError, ShapeError
from fstcrf.kernel.strings import Strings, pack_strings

__all__ = ["Vocabulary", "check_blob", "pack_strings", "unpack_strings"]

# Bytes 10xxxxxx of UTF-8 continue a character.
_CONTINUES, _CONTINUATION = np.uint8(0b11000000), np.uint8(0b10000000)


class Vocabulary:
    """Distinct strings and their numbers; a value, never changed.

    Parameters
    ----------
    strings : iterable of str
        The strings; repeated ones count once.
    """

    __slots__ = ("_size", "_strings", "_table")

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._strings: tuple[str, ...] | None = tuple(dict.fromkeys(strings))
        self._size = len(self._strings)
        self._table: Strings | None = None

    @classmethod
    def from_blob(cls, blob: NDArray[np.uint8], offsets: NDArray[np.int64], name: str) -> Self:
        """Return the vocabulary of a blob that `check_blob` accepts; its strings are not copied.

        Raises
        ------
        ModelFileError
            A string is there twice.
        """
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
            self._strings = self._found.strings()
        return self._strings

    def extended(self, strings: Iterable[str]) -> Vocabulary:
        """Return a vocabulary with further strings after the present ones."""
        return Vocabulary((*self.strings, *strings))

    def number(self, string: str) -> int | None:
        """Return the number of a string, None when it is unknown."""
        number = int(self.numbers([string])[0])
        return None if number < 0 else number

    def numbers(self, strings: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of strings, −1 for unknown ones."""
        return self._found.numbers(*pack_strings(strings, surrogates="surrogatepass"))

    @property
    def _found(self) -> Strings:
        # Two threads may both make it: the same table.
        if self._table is None:
            self._table = Strings(*pack_strings(self.strings, surrogates="surrogatepass"))
        return self._table


def check_blob(blob: NDArray[Any], offsets: NDArray[Any], name: str) -> None:
    """Check strings that a file holds as a blob.

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
    heads = blob[offsets[offsets < len(blob)]]
    damaged = bool(np.any(heads & _CONTINUES == _CONTINUATION))
    try:
        blob.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        damaged = True
    if damaged:
        raise ModelFileError(f"{name} holds bytes that are not UTF-8")


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
    check_blob(blob, offsets, name)
    data, bounds = blob.tobytes(), offsets.tolist()
    return [data[a:b].decode("utf-8") for a, b in pairwise(bounds)]

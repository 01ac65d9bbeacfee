"""Kinds of characters: the rules that form unknown words, which no dictionary has.

MeCab's ``char.def``, or compiled ``char.bin``: 32 bytes for the name of each kind, then for each
code point below 65,535 its kinds and how words are made of it. ::

    bits 0-17   kinds        18-25  its main kind, the first one     26-29  lengths to try
    bit  30     a run of one kind is a word      31     also if a dictionary has words
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import DataError, ModelFileError
from fstcrf.files import atomic_write

_CODES = 0xFFFF
_MOST_KINDS, _NAME, _MOST_LENGTHS = 18, 32, 15
_DEFAULT, _SPACE = "DEFAULT", "SPACE"


@dataclass(frozen=True, slots=True)
class Kind:
    """The rule that forms unknown words from characters of a kind.

    Parameters
    ----------
    always : bool
        Also if a dictionary has words.
    runs : bool
        A run of the kind is a word.
    length : int
        So are its first 1 to `length` characters.
    """

    always: bool
    runs: bool
    length: int


@dataclass(frozen=True, eq=False)
class Characters:
    """Names of kinds, and for each code point below 65,535 the bits that the module describes."""

    names: tuple[str, ...]
    codes: NDArray[np.uint32]

    @classmethod
    def of_kinds(
        cls, kinds: Mapping[str, Kind], ranges: Iterable[tuple[int, int, Sequence[str]]]
    ) -> Characters:
        """Return the table of kinds and ranges ``(first, last, its kinds)``; the last range counts.

        Raises
        ------
        DataError
            DEFAULT or SPACE is not among the kinds, more than 18 kinds, or one that is unknown.
        """
        names = tuple(kinds)
        for needed in (_DEFAULT, _SPACE):
            if needed not in kinds:
                raise DataError(f"kinds of characters are {', '.join(names)}: {needed} is missing")
        if len(names) > _MOST_KINDS:
            raise DataError(f"{len(names)} kinds of characters, expected at most {_MOST_KINDS}")
        for name, kind in kinds.items():
            if len(name.encode()) >= _NAME or not 0 <= kind.length <= _MOST_LENGTHS:
                raise DataError(
                    f"kind {name!r}: expected a name of at most 31 bytes and a length of 0 to 15"
                )
        codes = np.full(_CODES, _coded(names, kinds, [_DEFAULT]), dtype=np.uint32)
        for first, last, own in ranges:
            unknown = [name for name in own if name not in kinds]
            if unknown or not own or not 0 <= first <= last:
                raise DataError(
                    f"characters {first:#06x} to {last:#06x} of kinds {' '.join(own)}: expected a "
                    f"range and kinds among {', '.join(names)}"
                )
            codes[first : last + 1] = _coded(names, kinds, own)
        return cls(names, codes)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The formation of words for each kind; zeros for a kind without characters."""
        found = {}
        for k, name in enumerate(self.names):
            rows = self.codes[(self.codes >> 18 & 0xFF) == k]
            code = int(rows[0]) if len(rows) else 0
            found[name] = Kind(bool(code >> 31), bool(code >> 30 & 1), code >> 26 & 0xF)
        return found

    def ranges(self) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return runs of code points of the same kinds, except code points of DEFAULT only."""
        own = np.stack([self.codes >> 18 & 0xFF, self.codes & 0x3FFFF])
        edges = np.flatnonzero((np.diff(own, axis=1) != 0).any(axis=0)) + 1
        found = []
        for first, end in zip([0, *edges.tolist()], [*edges.tolist(), _CODES], strict=True):
            kind, mask = int(own[0, first]), int(own[1, first])
            others = [n for k, n in enumerate(self.names) if mask >> k & 1 and k != kind]
            names = (self.names[kind], *others)
            if names != (_DEFAULT,):
                found.append((first, end - 1, names))
        return found

    # --- Files ------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path) -> Characters:
        """Read ``char.bin``.

        Raises
        ------
        ModelFileError
            It cannot be read, or is damaged.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
        n = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
        if not 0 < n <= _MOST_KINDS or len(data) != 4 + _NAME * n + 4 * _CODES:
            raise ModelFileError(f"{path}: {len(data)} bytes are no table of characters")
        rows = [data[4 + _NAME * k : 4 + _NAME * (k + 1)] for k in range(n)]
        names = tuple(row.split(b"\0")[0].decode("utf-8", "replace") for row in rows)
        codes = np.frombuffer(data, dtype="<u4", offset=4 + _NAME * n).astype(np.uint32)
        if ((codes >> 18 & 0xFF) >= n).any():
            raise ModelFileError(f"{path}: damaged: a character has an unknown category")
        return cls(names, codes)

    def write(self, path: str | Path) -> None:
        """Write ``char.bin``."""
        with atomic_write(path) as file:
            file.write(struct.pack("<I", len(self.names)))
            for name in self.names:
                file.write(name.encode().ljust(_NAME, b"\0"))
            file.write(self.codes.astype("<u4").tobytes())


def _coded(names: tuple[str, ...], kinds: Mapping[str, Kind], own: Sequence[str]) -> int:
    mask = sum({1 << names.index(name) for name in own})
    kind = kinds[own[0]]
    bits = kind.length << 26 | kind.runs << 30 | kind.always << 31
    return bits | names.index(own[0]) << 18 | mask

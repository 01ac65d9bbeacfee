"""One dictionary as MeCab compiles it: a double array, entries, the features of words.

A file is mapped, not read: a dictionary may have hundreds of megabytes, and a text needs only a
small part. Numbers in it are checked when they are used. The header::

    uint32   size of the file ^ 0xef718f77, version 102, type, words, right contexts,
             left contexts, bytes of double array, entries and features, 0
    char[32] charset
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bytes, Longs
from fstcrf.errors import DataError, ModelFileError, ShapeError
from fstcrf.ext.lexicon.kernel import UNIT, WORD_ENTRY, build_trie
from fstcrf.files import atomic_write
from fstcrf.kernel.strings import pack_strings
from fstcrf.lazy import made_once

_MAGIC, _VERSION = 0xEF718F77, 102
_HEADER = struct.Struct("<10I32s")
_MOST_ENTRIES = 255  # of one word: a value of the double array has 8 bits for them
_SYSTEM = 0
UNKNOWN = 2


class Entry(NamedTuple):
    """A word as a dictionary lists it; costs are integers, the lower the better."""

    surface: str
    left: int
    right: int
    cost: int
    feature: str


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Words with their contexts, costs and features; words of one surface are adjacent.

    units : UNIT [U]; a double array over the bytes of surfaces.
    entries : WORD_ENTRY [n].
    Strings as UTF-8, each followed by a zero byte.
    contexts : right contexts and left contexts that there are.
    """

    units: NDArray[Any]
    entries: NDArray[Any]
    features: Bytes
    contexts: tuple[int, int]

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"<Dictionary: {len(self):,} words>"

    # --- Made of lists, and back ------------------------------------------------------------------

    @classmethod
    def from_entries(cls, entries: Iterable[Entry], contexts: tuple[int, int]) -> Dictionary:
        """Return the dictionary of some words, in any order; words of one surface keep their order.

        Raises
        ------
        DataError
            An empty surface, a context that there is not, a cost beyond 16 bits, a zero byte, or
            more than 255 words of one surface.
        """
        found = list(entries)
        for one in found:
            _check_entry(one, contexts)
        surfaces = [one.surface.encode() for one in found]
        order = sorted(range(len(found)), key=surfaces.__getitem__)
        first = [i for i, k in enumerate(order) if not i or surfaces[order[i - 1]] != surfaces[k]]
        sizes = np.diff([*first, len(order)])
        crowded = np.flatnonzero(sizes > _MOST_ENTRIES)
        if len(crowded):
            surface, most = found[order[first[crowded[0]]]].surface, sizes[crowded[0]]
            raise DataError(f"{surface!r} has {most} entries, expected at most {_MOST_ENTRIES}")
        text, offsets = pack_strings([found[order[i]].surface for i in first])
        values = (np.asarray(first, dtype=np.int64) << 8 | sizes).astype(np.int32)
        table = np.zeros(len(order), dtype=WORD_ENTRY)
        for name in ("left", "right", "cost"):
            table[name] = [getattr(found[k], name) for k in order]
        blob, table["feature"] = _feature_blob([found[k].feature for k in order])
        return cls(build_trie(offsets, text, values), table, blob, contexts)

    def listed(self) -> Iterator[Entry]:
        """Yield all words, sorted by the bytes of their surfaces."""
        for surface, value in self._surfaces():
            for k in range(value >> 8, (value >> 8) + (value & 255)):
                row = self.entries[k]
                left, right, cost = int(row["left"]), int(row["right"]), int(row["cost"])
                yield Entry(_text(surface), left, right, cost, self.feature(k))

    def feature(self, word: int) -> str:
        """Return the feature of a word, unchanged from the dictionary.

        Raises
        ------
        DataError
            A damaged dictionary: the feature is outside the file, or is not UTF-8.
        """
        at, width, text = int(self.entries["feature"][word]), 256, self.features.data
        while at < len(text):
            part = bytes(text[at : at + width])
            if (end := part.find(b"\0")) >= 0:
                return _text(part[:end])
            if at + width >= len(text):
                break
            width *= 4
        raise DataError(f"the dictionary is damaged: it has no feature {at}")

    def _surfaces(self) -> list[tuple[bytes, int]]:
        """Return the keys of the double array, sorted, and their values."""
        if not len(self.units):
            return []
        base, check = self.units["base"].astype(np.int64), self.units["check"].astype(np.int64)
        found: list[tuple[bytes, int]] = []
        if base[0] < 0:
            raise DataError("the dictionary is damaged: its double array has no root")
        level = [(b"", int(base[0]))]
        seen = {int(base[0])}
        while level:
            below: list[tuple[bytes, int]] = []
            at = np.asarray([node for _, node in level])
            for code in range(257):
                place = at + code
                inside = place < len(base)
                there = np.zeros(len(at), dtype=bool)
                there[inside] = check[place[inside]] == at[inside]
                for k in np.flatnonzero(there).tolist():
                    key, value = level[k][0], int(base[place[k]])
                    if code:
                        below.append((key + bytes([code - 1]), value))
                    elif value < 0:
                        found.append((key, -value - 1))
            level = [pair for pair in below if pair[1] >= 0]
            nodes = {node for _, node in level}
            if len(nodes) < len(level) or nodes & seen or len(found) > len(self.entries):
                raise DataError("the dictionary is damaged: its double array is no tree")
            seen |= nodes
        lost = [value >> 8 for _, value in found if (value >> 8) + (value & 255) > len(self)]
        if lost:
            raise DataError(f"the dictionary is damaged: it has no entry {lost[0]}")
        return sorted(found)

    # --- Files ------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path) -> Dictionary:
        """Map a compiled dictionary.

        Raises
        ------
        ModelFileError
            It cannot be read, is damaged, or is no dictionary of UTF-8.
        """
        path = Path(path)
        try:
            data = np.memmap(path, dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{path}: cannot be read: {error}") from None
        if len(data) < _HEADER.size:
            raise ModelFileError(f"{path}: {len(data)} bytes are no compiled dictionary")
        head = _HEADER.unpack(data[: _HEADER.size].tobytes())
        magic, version, _, words, rights, lefts, *sizes, _, charset = head
        if magic ^ _MAGIC != len(data) or version != _VERSION:
            raise ModelFileError(f"{path}: no compiled dictionary of version {_VERSION}, or torn")
        name = charset.split(b"\0")[0].decode("ascii", "replace").lower()
        if name.replace("-", "") != "utf8":
            raise ModelFileError(f"{path}: its charset is {name}; compile it with -t utf-8")
        units, entries, _ = sizes
        fits = _HEADER.size + sum(sizes) == len(data)
        if not fits or units % UNIT.itemsize or entries != words * WORD_ENTRY.itemsize:
            raise ModelFileError(f"{path}: the sizes of its parts do not add up")
        at = np.cumsum([_HEADER.size, units, entries])
        return cls(
            data[at[0] : at[1]].view(UNIT),
            data[at[1] : at[2]].view(WORD_ENTRY),
            data[at[2] :],
            (rights, lefts),
        )

    def write(self, path: str | Path, *, kind: int = _SYSTEM) -> None:
        """Write the dictionary as MeCab reads it; an old file is replaced when all is written."""
        parts = [self.units.tobytes(), self.entries.tobytes(), self.features.tobytes()]
        size = _HEADER.size + sum(map(len, parts))
        head = _HEADER.pack(
            size ^ _MAGIC, _VERSION, kind, len(self), *self.contexts, *map(len, parts), 0, b"utf-8"
        )
        with atomic_write(path) as file:
            for part in (head, *parts):
                file.write(part)

    @made_once
    def rows(self) -> dict[str, tuple[int, int]]:
        """First entry and number of entries of each surface."""
        return {_text(key): (value >> 8, value & 255) for key, value in self._surfaces()}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DataError(f"the dictionary is damaged: {data[:20]!r} is no UTF-8") from None


def _check_entry(entry: Entry, contexts: tuple[int, int]) -> None:
    rights, lefts = contexts
    name = repr(entry.surface)
    if not entry.surface or "\0" in entry.surface or "\0" in entry.feature:
        raise DataError(f"a word {name} with the feature {entry.feature!r}: empty, or a zero byte")
    if not 0 <= entry.left < lefts or not 0 <= entry.right < rights:
        raise DataError(
            f"word {name}: contexts {entry.left} and {entry.right}; the matrix has left ones below "
            f"{lefts} and right ones below {rights}"
        )
    if not -(2**15) <= entry.cost < 2**15:
        raise DataError(f"word {name}: its cost is {entry.cost}, expected -32768 to 32767")


def _feature_blob(features: list[str]) -> tuple[Bytes, Longs]:
    """Return distinct features, ended by zero bytes, and the place of each word's feature."""
    place: dict[str, int] = {}
    at = 0
    for feature in features:
        if feature not in place:
            place[feature] = at
            at += len(feature.encode()) + 1
    if at > np.iinfo(np.uint32).max:
        raise ShapeError("features of more than 4 GiB")
    blob = b"".join(feature.encode() + b"\0" for feature in place)
    where: Longs = np.asarray([place[feature] for feature in features], dtype=np.int64)
    return np.frombuffer(blob, dtype=np.uint8), where

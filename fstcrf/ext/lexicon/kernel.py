"""Words of unspaced text: dictionaries in memory, lattices of words, cheapest ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bytes, Ints, Longs, Ragged
from fstcrf.errors import DataError, ShapeError, TooLargeError
from fstcrf.kernel.native import array_in, array_out, check, ffi, lib
from fstcrf.lazy import made_once

UNIT = np.dtype([("base", np.int32), ("check", np.uint32)])
WORD_ENTRY = np.dtype(
    [
        ("left", np.uint16),
        ("right", np.uint16),
        ("part", np.uint16),
        ("cost", np.int16),
        ("feature", np.uint32),
        ("compound", np.uint32),
    ]
)
WORD = np.dtype(
    [
        ("from", np.int32),
        ("start", np.int32),
        ("end", np.int32),
        ("word", np.int32),
        ("before", np.int32),
        ("next", np.int32),
        ("total", np.int64),
    ]
)
CHEAPEST_NONE = np.iinfo(np.int64).max  # the cost if there is no path
_MOST = np.iinfo(np.int32).max
_WORDS_A_BYTE = 12  # of a first attempt; dictionaries of common texts give 5
_LEAST_ROOM = 4096

_Array = NDArray[Any]


def _structures(array: _Array, dtype: np.dtype[Any], name: str, kind: str) -> Any:
    if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
        raise ShapeError(f"{name} is {array.dtype} {list(array.shape)}, expected {kind}[]")
    return ffi.from_buffer(f"{kind}[]", array)


class WordList(NamedTuple):
    """The words of one dictionary.

    units : UNIT [U]; a double array over their bytes, values ``first << 8 | entries``.
    entries : WORD_ENTRY [n].
    """

    units: _Array
    entries: _Array


@dataclass(frozen=True, eq=False)
class LexiconTables:
    """Costs of words and rules for their places; arrays are used without copies.

    Words are numbered through all vocabularies in sequence, and finally the unknown words.
    """

    vocabularies: Sequence[WordList]
    unknown: Longs  # [K + 1] entries of each kind of characters
    unknown_entries: _Array  # WORD_ENTRY [u]
    characters: NDArray[np.uint32]  # [C]
    matrix: NDArray[np.int16]  # [lefts, rights]
    longest_run: int = 24
    _held: list[Any] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or self.matrix.dtype != np.int16:
            raise ShapeError("matrix is not int16 [left contexts, right contexts]")
        if not (self.matrix.size and len(self.characters) and len(self.unknown) > 1):
            raise ShapeError("a lexicon without contexts, characters or kinds of them")
        if len(self.first) and self.first[-1] + len(self.unknown_entries) > _MOST:
            raise TooLargeError("more than 2^31 words")
        unknown = np.array(self.unknown, dtype=np.int64)
        if unknown[0] or (np.diff(unknown) < 0).any() or unknown[-1] > len(self.unknown_entries):
            raise ShapeError("rows of unknown words do not fit their entries")
        unknown.flags.writeable = False
        object.__setattr__(self, "unknown", unknown)

    def __reduce__(self) -> tuple[object, ...]:
        """Omit the kernel's structures, which are made again."""
        return LexiconTables, tuple(getattr(self, part.name) for part in fields(self) if part.init)

    @made_once
    def first(self) -> tuple[int, ...]:
        """Number of the first word of each vocabulary, and of the first unknown one."""
        entries = Ragged.from_lengths(len(one.entries) for one in self.vocabularies)
        return tuple(entries.offsets.tolist())

    @made_once
    def handle(self) -> Any:
        """The tables as the kernel's structure, for as long as this object lives."""
        dictionaries = ffi.new("fc_dictionary[]", len(self.vocabularies))
        for k, one in enumerate(self.vocabularies):
            view = dictionaries[k]
            view.units, view.entries, view.first = len(one.units), len(one.entries), self.first[k]
            view.unit = self._kept(_structures(one.units, UNIT, "units", "fc_unit"))
            entries = _structures(one.entries, WORD_ENTRY, "entries", "fc_entry_cost")
            view.entry = self._kept(entries)
        unknown = _structures(self.unknown_entries, WORD_ENTRY, "unknown", "fc_entry_cost")
        lefts, rights = self.matrix.shape
        parts = {
            "dictionaries": len(self.vocabularies),
            "dictionary": self._kept(dictionaries),
            "characters": len(self.characters),
            "character": self._kept(ffi.from_buffer("uint32_t[]", self.characters)),
            "kinds": len(self.unknown) - 1,
            "unknowns": len(self.unknown_entries),
            "first": self.first[-1],
            "unknown": self._kept(array_in(self.unknown, np.int64, self.unknown.shape, "unknown")),
            "unknown_entry": self._kept(unknown),
            "rights": rights,
            "lefts": lefts,
            "matrix": self._kept(ffi.from_buffer("int16_t[]", self.matrix)),
            "longest_run": self.longest_run,
        }
        return ffi.new("fc_lexicon *", parts)

    def _kept(self, pointer: Any) -> Any:
        self._held.append(pointer)
        return pointer


class Words(NamedTuple):
    """The cheapest words of some texts.

    row : int64 [B + 1]; words of text b are ``row[b] : row[b + 1]``.
    word, start, end : int32 [n]; numbers, and bytes within the text.
    cost : int64 [B]; `CHEAPEST_NONE`: there is no way.
    """

    row: Longs
    word: Ints
    start: Ints
    end: Ints
    cost: Longs


def find_words(
    tables: LexiconTables, text: bytes, boundary: Bytes | None = None
) -> tuple[_Array, int]:
    """Return the candidate words of a text, WORD [n], sorted by the end of the previous word.

    Also return the byte at the end of the last words, if only blanks follow; −1 without a path.

    `boundary`, uint8 [bytes + 1]: 1 if a word begins here, 2 if no word begins, 0 if unknown.
    """
    data, size = np.frombuffer(text, dtype=np.uint8), len(text)
    head, count, last, where = np.empty(size + 1, dtype=np.int32), *_out(3)
    limits = _limits(boundary, size + 1)
    room = max(_LEAST_ROOM, _WORDS_A_BYTE * size)
    while True:
        words = np.empty(min(room, _MOST), dtype=WORD)
        status = lib.fc_find_words(
            tables.handle,
            size,
            ffi.from_buffer("uint8_t[]", data),
            limits,
            len(words),
            ffi.from_buffer("fc_word[]", words, require_writable=True),
            array_out(head),
            count,
            last,
            where,
        )
        if status != lib.FC_EFULL or room >= _MOST:
            break
        room *= 4
    _check(status, where)
    return words[: count[0]].copy(), int(last[0])


def best_words(
    tables: LexiconTables, text: bytes, offsets: Longs, boundary: Bytes | None = None
) -> Words:
    """Return the cheapest words of texts ``text[offsets[b] : offsets[b + 1]]``.

    `boundary`, uint8 [bytes + texts], has one more than its bytes for each text; see `find_words`.
    """
    data, count = np.frombuffer(text, dtype=np.uint8), len(offsets) - 1
    longest = Ragged(offsets).longest
    found = _empty_words(count, len(text))
    done, where = _out(2)
    limits = _limits(boundary, len(text) + count)
    head = np.empty(longest + 1, dtype=np.int32)
    slot = np.zeros(sum(tables.matrix.shape), dtype=np.int32)
    room = max(_LEAST_ROOM, _WORDS_A_BYTE * longest)
    while True:
        words, group = np.empty(min(room, _MOST), dtype=WORD), np.empty((2, room), dtype=np.int32)
        status = lib.fc_best_words(
            tables.handle,
            count,
            array_in(offsets, np.int64, (count + 1,), "offsets"),
            ffi.from_buffer("uint8_t[]", data),
            limits,
            len(words),
            ffi.from_buffer("fc_word[]", words, require_writable=True),
            array_out(head),
            array_out(group),
            array_out(slot),
            array_out(found.row),
            array_out(found.word),
            array_out(found.start),
            array_out(found.end),
            array_out(found.cost),
            done,
            where,
        )
        if status != lib.FC_EFULL or room >= _MOST:
            break
        room *= 4
    _check(status, where)
    n = found.row[-1]
    return Words(found.row, found.word[:n], found.start[:n], found.end[:n], found.cost)


def build_trie(offsets: Longs, text: Bytes, values: Ints) -> _Array:
    """Return a double array, UNIT [U], of keys ``text[offsets[k] : offsets[k + 1]]``.

    They are sorted by their bytes, distinct and not empty; values are at least 0.

    Raises
    ------
    DataError
        Keys out of order.
    """
    n = len(values)
    size, where = _out(2)
    stack = np.empty(4 * (n + 257), dtype=np.int64)
    room = len(text) + n + (1 << 12)
    while True:
        units, used = np.zeros(room, dtype=UNIT), np.zeros(room, dtype=np.uint8)
        status = lib.fc_build_trie(
            n,
            array_in(offsets, np.int64, (n + 1,), "offsets"),
            array_in(text, np.uint8, text.shape, "text"),
            array_in(values, np.int32, (n,), "values"),
            room,
            ffi.from_buffer("fc_unit[]", units, require_writable=True),
            array_out(used),
            array_out(stack),
            size,
            where,
        )
        if status != lib.FC_EFULL or room >= _MOST:
            break
        room = min(2 * room, _MOST)
    if status == lib.FC_EINVAL:
        raise DataError(f"key {where[0]} is empty or out of order, expected sorted, distinct keys")
    check(status, "building a trie")
    return units[: size[0]].copy()


def find_prefixes(units: _Array, text: bytes) -> list[tuple[int, int]]:
    """Return byte lengths and values of the keys that begin a text, shortest first."""
    _structures(units, UNIT, "units", "fc_unit")
    checks, bases = units["check"], units["base"]
    found, at = list[tuple[int, int]](), int(bases[0]) if len(units) else -1
    for length, byte in enumerate(text, start=1):
        place = at + byte + 1
        if at < 0 or place >= len(units) or checks[place] != at:
            break
        at = int(bases[place])  # the next node; below 0: none
        if 0 <= at < len(units) and checks[at] == at and bases[at] < 0:
            found.append((length, -int(bases[at]) - 1))
    return found


def _empty_words(count: int, size: int) -> Words:
    word, start, end = (np.empty(size, dtype=np.int32) for _ in range(3))
    return Words(np.zeros(count + 1, np.int64), word, start, end, np.zeros(count, np.int64))


def _limits(boundary: Bytes | None, size: int) -> Any:
    return ffi.NULL if boundary is None else array_in(boundary, np.uint8, (size,), "boundary")


def _out(n: int) -> list[Any]:
    return [ffi.new("int64_t *") for _ in range(n)]


def _check(status: int, where: Any) -> None:
    if status == lib.FC_EINVAL:
        raise DataError(f"the dictionary is damaged: entry {where[0]} points outside its tables")
    if status == lib.FC_EFULL:
        raise TooLargeError("a text with more than 2^31 words: split it")
    check(status, "looking for words")

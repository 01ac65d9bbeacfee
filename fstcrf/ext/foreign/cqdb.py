"""The string tables of CRFsuite models, and parts of a file whose every access is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bytes, Longs, Ragged, distinct
from fstcrf.errors import ModelFileError

U4 = np.dtype("<u4")
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Some bytes of a file; ModelFileError where bytes are asked for that are not there."""

    data: Bytes  # uint8 [n]
    where: str  # the contents, for messages: ``"names.crfsuite: labels"``

    def __len__(self) -> int:
        return len(self.data)

    def damaged(self, what: str) -> ModelFileError:
        """Return the error that describes the damage."""
        return ModelFileError(f"{self.where}: damaged or cut short: {what}")

    def part(self, begin: int, size: int, name: str) -> Chunk:
        """Return some of the bytes as a new chunk."""
        if not 0 <= begin <= begin + size <= len(self.data):
            raise self.damaged(f"{name} would be bytes {begin} to {begin + size} of {len(self)}")
        return Chunk(self.data[begin : begin + size], f"{self.where}: {name}")

    def array(self, begin: int, count: int, dtype: np.dtype[Scalar]) -> NDArray[Scalar]:
        """Return successive numbers, a view: `dtype` [count]."""
        end = begin + count * dtype.itemsize
        if not 0 <= begin <= end <= len(self.data):
            raise self.damaged(f"{count} entries at byte {begin} of {len(self)}")
        return self.data[begin:end].view(dtype)

    def numbers(self, begin: int, count: int) -> NDArray[np.uint32]:
        """Return successive 32-bit numbers, uint32 [count]."""
        return self.array(begin, count, U4)

    def numbers_at(self, places: Longs) -> NDArray[np.uint32]:
        """Return the 32-bit numbers at some bytes, uint32 [n]."""
        self.check_places(places, 4)
        if not len(places):
            return np.empty(0, dtype=np.uint32)
        # All numbers at all bytes, one of which begins at each: a view, not a copy.
        every = np.ndarray(len(self.data) - 3, U4, self.data, strides=(1,))
        found: NDArray[np.uint32] = every[places]
        return found

    def check_places(self, places: Longs, size: int) -> None:
        """Check that `size` bytes follow each place."""
        last = len(self.data) - size
        if len(places) and not (places.min() >= 0 and places.max() <= last):
            wrong = places[(places < 0) | (places > last)][0]
            raise self.damaged(f"an offset of {wrong}, with {len(self)} bytes")


def spread(starts: Longs, counts: Longs) -> Longs:
    """Return ``starts[i], starts[i] + 1, ...``, ``counts[i]`` of them, for each i; int64 [sum]."""
    return Ragged.from_lengths(counts).ranges(starts)


def joined(data: NDArray[Scalar], starts: Longs, counts: Longs) -> NDArray[Scalar]:
    """Return ``data[starts[i] : starts[i] + counts[i]]`` for each i, one after the other."""
    full = counts > 0
    if not full.all():
        starts, counts = starts[full], counts[full]
    ends = starts + counts
    if not (starts[1:] >= ends[:-1]).all():
        return data[spread(starts, counts)]
    # The cumulative sum of +1 at the beginning and −1 at the end of each part is a mask. A list of
    # places would be eight times as long as a text.
    mask = np.zeros(len(data) + 1, dtype=np.int8)
    mask[starts] = 1
    mask[ends] -= 1
    np.cumsum(mask, out=mask)
    return data[mask[:-1].view(np.bool_)]


# --- The hash: Bob Jenkins's lookup3 (2006), public domain ----------------------------------------

_SEED = 0xDEADBEEF
_MIX = ((0, 2, 4), (1, 0, 6), (2, 1, 8), (0, 2, 16), (1, 0, 19), (2, 1, 4))
_FINAL = ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24))

Words = NDArray[np.uint32]


def hashes(text: Bytes, offsets: Longs) -> Words:
    """Return the hash of each string, including its final NUL, which the text omits."""
    sizes = Ragged(offsets).lengths + 1
    out = np.empty(len(sizes), dtype=np.uint32)
    # Strings of one number of blocks go together: their blocks are a table without gaps.
    blocks = np.maximum((sizes + 11) // 12, 1)
    for count in np.flatnonzero(np.bincount(blocks)).tolist():
        chosen = np.flatnonzero(blocks == count)
        bytes_ = np.zeros((len(chosen), 12 * count), dtype=np.uint8)
        lengths = sizes[chosen] - 1
        places = spread(np.arange(len(chosen)) * (12 * count), lengths)
        bytes_.ravel()[places] = text[spread(offsets[:-1][chosen], lengths)]
        out[chosen] = _hashed(bytes_.view("<u4").astype(np.uint32), sizes[chosen])
    return out


def _hashed(words: Words, sizes: Longs) -> Words:
    """Hash strings that are padded with zeros to whole blocks of three words, uint32 [n, 3 k]."""
    start = (np.uint64(_SEED) + sizes.astype(np.uint64)).astype(np.uint32)
    state = [start.copy(), start.copy(), start.copy()]
    last = words.shape[1] - 3
    for block in range(0, last + 3, 3):
        for k in range(3):
            state[k] += words[:, block + k]
        if block < last:
            _mix(state)
    _finish(state)
    return state[2]


def _mix(state: list[Words]) -> None:
    for i, j, bits in _MIX:
        state[i] -= state[j]
        state[i] ^= _rotated(state[j], bits)
        state[j] += state[3 - i - j]


def _finish(state: list[Words]) -> None:
    for i, j, bits in _FINAL:
        state[i] ^= state[j]
        state[i] -= _rotated(state[j], bits)


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


# --- String tables: CQDB, the constant quark database ---------------------------------------------

# "CQDB"  size  flag  byte order  n  offset of the n backward links     6 words of 32 bits
# 256 x (offset, slots) of a hash table                                 2 words each
# records: number, size, text, NUL
# slots of the hash tables: (hash, offset of the record), 0 where empty
# backward links: the offset of each record, by number
#
# Offsets count from the beginning of the table. A string is found in hash table hash % 256, from
# slot (hash >> 8) % slots on, before the first empty slot.

_NAME = b"CQDB"
_BYTE_ORDER = 0x62445371
_TABLES = 256
_HEAD = 24
_RECORDS = _HEAD + 8 * _TABLES
_HEADER = 8
"""Bytes of a record before its text."""


class Texts(NamedTuple):
    """Strings, one after the other."""

    text: Bytes  # uint8 [B], as UTF-8
    offsets: Longs  # int64 [n + 1], where each begins


def read_strings(file: Chunk, begin: int, count: int, name: str) -> Texts:
    """Return the strings, numbers 0 to count − 1, of the table that begins at a byte of a file."""
    head = file.part(begin, _RECORDS, name)
    size, _, order, links, links_at = head.numbers(4, 5).tolist()
    if head.data[:4].tobytes() != _NAME or order != _BYTE_ORDER:
        raise head.damaged("no string table begins here")
    table = file.part(begin, size, name)
    if links_at:
        if links != count:
            raise table.damaged(f"{links} strings, expected {count}")
        places = table.numbers(links_at, count).astype(np.int64)
    else:  # written one way, string to number: the hash tables know the records
        places = _hashed_places(table, count)
    return _texts(table, places, by_number=bool(links_at))


def _hashed_places(table: Chunk, count: int) -> Longs:
    """Return the places of the records in the slots of all hash tables, int64 [count]."""
    tables = table.numbers(_HEAD, 2 * _TABLES).reshape(_TABLES, 2).astype(np.int64)
    tables = tables[tables[:, 0] > 0]
    if 8 * int(tables[:, 1].sum()) > len(table):
        raise table.damaged("more slots than there is room for")
    slots = [table.numbers(place, 2 * n)[1::2] for place, n in tables.tolist()]
    found = np.concatenate([np.empty(0, dtype=np.uint32), *slots]).astype(np.int64)
    found = found[found > 0]
    if len(found) != count:
        raise table.damaged(f"{len(found)} strings, expected {count}")
    return found


def _texts(table: Chunk, places: Longs, *, by_number: bool) -> Texts:
    """Return the strings of records, by the numbers that these have."""
    if len(places) and places.min() < _RECORDS:
        raise table.damaged("a number without a string")
    table.check_places(places, _HEADER + 1)
    numbers = table.numbers_at(places)
    if not by_number:
        places, numbers = places[np.argsort(numbers)], np.sort(numbers)
    if not np.array_equal(numbers, np.arange(len(places))):
        raise table.damaged("the numbers of its strings are not 0, 1, 2, ...")
    sizes = table.numbers_at(places + 4).astype(np.int64)
    # Records do not overlap, so all of them fit: no string can be copied more than once.
    if len(sizes) and (sizes.min() < 1 or int(sizes.sum()) + _HEADER * len(sizes) > len(table)):
        raise table.damaged("strings longer than the table")
    ends = places + _HEADER + sizes - 1
    table.check_places(ends, 1)
    if table.data[ends].any():
        raise table.damaged("a string that does not end with NUL")
    text = joined(table.data, places + _HEADER, sizes - 1)
    return Texts(text, Ragged.from_lengths(sizes - 1).offsets)


def string_table(strings: Texts) -> bytes:
    """Return strings without NUL as a table."""
    hashed = hashes(*strings)
    sizes = Ragged(strings.offsets).lengths + 1
    ends = _RECORDS + np.cumsum(sizes + _HEADER)
    places = ends - sizes - _HEADER
    tables, slots = _hash_tables(hashed, places)
    slots_at = int(ends[-1]) if len(ends) else _RECORDS
    links_at = slots_at + slots.nbytes if len(ends) else 0
    total = slots_at + slots.nbytes + 4 * len(places)
    begins = slots_at + 8 * Ragged.from_lengths(tables).offsets[:-1]
    words = np.stack([np.where(tables > 0, begins, 0), tables], axis=1)
    head = np.array([total, 0, _BYTE_ORDER, len(places), links_at])
    return b"".join(
        [
            _NAME,
            head.astype(U4).tobytes(),
            words.astype(U4).tobytes(),
            _records(strings, places - _RECORDS, slots_at - _RECORDS),
            slots.tobytes(),
            places.astype(U4).tobytes(),
        ]
    )


def _records(strings: Texts, places: Longs, size: int) -> bytes:
    out = np.zeros(size, dtype=np.uint8)
    sizes = Ragged(strings.offsets).lengths
    head = np.stack([np.arange(len(places)), sizes + 1], axis=1).astype(U4)
    out[places[:, None] + np.arange(_HEADER)] = head.view(np.uint8).reshape(-1, _HEADER)
    out[spread(places + _HEADER, sizes)] = strings.text
    return out.tobytes()


def _hash_tables(hashed: NDArray[np.uint32], places: Longs) -> tuple[Longs, NDArray[np.uint32]]:
    """Return the slots of each table, int64 [256], and the slots of all tables, uint32 [2 n, 2]."""
    table = (hashed % _TABLES).astype(np.int64)
    sizes = 2 * np.bincount(table, minlength=_TABLES)
    first, room = Ragged.from_lengths(sizes).offsets[table], sizes[table]
    offset = (hashed >> 8) % np.maximum(room, 1)
    nobody = len(hashed)
    holder = np.full(2 * nobody, nobody)
    waiting = np.arange(nobody)
    # If records are inserted in sequence, each takes the first free slot: a slot belongs to the
    # earliest record that reaches it. All records may therefore try at once, if an earlier one
    # displaces a later one.
    while len(waiting):
        wanted = first[waiting] + offset[waiting]
        before = distinct(holder[wanted])
        np.minimum.at(holder, wanted, waiting)
        tried = np.concatenate([waiting, before[before < nobody]])
        waiting = tried[holder[first[tried] + offset[tried]] != tried]
        offset[waiting] = (offset[waiting] + 1) % room[waiting]
    slots = np.zeros((2 * nobody, 2), dtype=U4)
    taken = np.flatnonzero(holder < nobody)
    slots[taken] = np.stack([hashed[holder[taken]], places[holder[taken]]], axis=1)
    return sizes, slots

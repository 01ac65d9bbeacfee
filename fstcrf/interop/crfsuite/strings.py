"""The string tables of a CRFsuite model: CQDB, the constant quark database.

============  ==================================================
read_strings  the strings of a table by their numbers
string_table  strings as a table
============  ==================================================

::

    "CQDB"  size  flag  byte order  n  offset of the n backward links     6 words of 32 bits
    256 x (offset, slots) of a hash table                                 2 words each
    records: number, size, text, NUL
    slots of the hash tables: (hash, offset of the record), 0 where empty
    backward links: the offset of each record, by number

Offsets count from the beginning of the table. A string is found in hash table ``hash % 256``, from
slot ``(hash >> 8) % slots`` on, before the first empty slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.interop.crfsuite.chunks import U4, Chunk, joined, spread
from fstcrf.interop.crfsuite.hashing import hashes

__all__ = ["Texts", "read_strings", "string_table"]

_NAME = b"CQDB"
_BYTE_ORDER = 0x62445371
_TABLES = 256
_HEAD = 24
_RECORDS = _HEAD + 8 * _TABLES
_HEADER = 8
"""Bytes of a record before its text."""


class Texts(NamedTuple):
    """Strings, one after the other.

    Parameters
    ----------
    text : uint8 [B]
        As UTF-8.
    offsets : int64 [n + 1]
        Where each begins.
    """

    text: NDArray[np.uint8]
    offsets: NDArray[np.int64]


def read_strings(file: Chunk, begin: int, count: int, name: str) -> Texts:
    """Return the strings of the table that begins at a byte of a file.

    Parameters
    ----------
    file : Chunk
    begin : int
    count : int
        How many there must be: numbers 0 to count − 1, each once.
    name : str
        What they are, for messages.

    Raises
    ------
    ModelFileError
        Damage of any kind.
    """
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


def _hashed_places(table: Chunk, count: int) -> NDArray[np.int64]:
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


def _texts(table: Chunk, places: NDArray[np.int64], *, by_number: bool) -> Texts:
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
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes - 1, out=offsets[1:])
    return Texts(text, offsets)


def string_table(strings: Texts) -> bytes:
    """Return strings without NUL as a table."""
    hashed = hashes(*strings)
    sizes = np.diff(strings.offsets) + 1
    ends = _RECORDS + np.cumsum(sizes + _HEADER)
    places = ends - sizes - _HEADER
    tables, slots = _hash_tables(hashed, places)
    slots_at = int(ends[-1]) if len(ends) else _RECORDS
    links_at = slots_at + slots.nbytes if len(ends) else 0
    total = slots_at + slots.nbytes + 4 * len(places)
    begins = slots_at + 8 * (np.cumsum(tables) - tables)
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


def _records(strings: Texts, places: NDArray[np.int64], size: int) -> bytes:
    out = np.zeros(size, dtype=np.uint8)
    sizes = np.diff(strings.offsets)
    head = np.stack([np.arange(len(places)), sizes + 1], axis=1).astype(U4)
    out[places[:, None] + np.arange(_HEADER)] = head.view(np.uint8).reshape(-1, _HEADER)
    out[spread(places + _HEADER, sizes)] = strings.text
    return out.tobytes()


def _hash_tables(
    hashed: NDArray[np.uint32], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return the slots of each table, int64 [256], and those of all tables, uint32 [2 n, 2]."""
    table = (hashed % _TABLES).astype(np.int64)
    sizes = 2 * np.bincount(table, minlength=_TABLES)
    first, room = (np.cumsum(sizes) - sizes)[table], sizes[table]
    offset = (hashed >> 8) % np.maximum(room, 1)
    nobody = len(hashed)
    holder = np.full(2 * nobody, nobody)
    waiting = np.arange(nobody)
    # Records that are put one by one take the first free slot: a slot is that of the earliest
    # record that comes to it. So all may try at once, where an earlier one displaces a later.
    while len(waiting):
        wanted = first[waiting] + offset[waiting]
        before = np.unique(holder[wanted])
        np.minimum.at(holder, wanted, waiting)
        tried = np.concatenate([waiting, before[before < nobody]])
        waiting = tried[holder[first[tried] + offset[tried]] != tried]
        offset[waiting] = (offset[waiting] + 1) % room[waiting]
    slots = np.zeros((2 * nobody, 2), dtype=U4)
    taken = np.flatnonzero(holder < nobody)
    slots[taken] = np.stack([hashed[holder[taken]], places[holder[taken]]], axis=1)
    return sizes, slots

"""Damage: what happens to files, and what somebody may do to them on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

__all__ = ["mutated"]

_NUMBER = re.compile(rb"-?[0-9][0-9a-fA-FxX.+p-]*")
_TEXTS = (b"0", b"-1", b"1", b"4294967295", b"99999999999999999999", b"nan", b"inf", b"1e999", b"")
_WORDS = (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 0x10000, 0x1000000)

Mutation = Callable[[bytearray, Random], None]


def mutated(seeds: Sequence[bytes], random: Random) -> bytes:
    """Return one of some files with one to four mutations, perhaps crossed with another."""
    data = bytearray(random.choice(seeds))
    if random.random() < 0.1:
        _cross(data, random.choice(seeds), random)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        if data:
            random.choice(_MUTATIONS)(data, random)
    return bytes(data)


def _cross(data: bytearray, other: bytes, random: Random) -> None:
    """Go on as another file does."""
    cut = random.randrange(min(len(data), len(other)) + 1)
    data[cut:] = other[cut:]


def _flip_bits(data: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_bytes(data: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 2, 8))):
        data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, 9, 10, 32))


def _truncate(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def _remove(data: bytearray, random: Random) -> None:
    start = random.randrange(len(data))
    del data[start : start + random.choice((1, 2, 4, 8, 20, 100))]


def _repeat(data: bytearray, random: Random) -> None:
    start, place = random.randrange(len(data)), random.randrange(len(data) + 1)
    data[place:place] = data[start : start + random.choice((1, 4, 8, 20, 100, 1000))]


def _overwrite(data: bytearray, random: Random) -> None:
    size = min(len(data), random.choice((1, 4, 8, 20, 100)))
    start, place = (random.randrange(len(data) - size + 1) for _ in range(2))
    data[place : place + size] = data[start : start + size]


def _word_at(data: bytearray, random: Random) -> int | None:
    """Return the place of a word: in the head, where counts and sizes stand, or anywhere."""
    if len(data) < 4:
        return None
    end = min(len(data), random.choice((64, 64, 4096, len(data))))
    return random.randrange(max(end // 4, 1)) * 4 if end >= 4 else None


def _set_word(data: bytearray, random: Random) -> None:
    place = _word_at(data, random)
    if place is not None:
        near = (len(data), len(data) - 1, len(data) + 1, random.getrandbits(32))
        value = random.choice((*_WORDS, *near))
        data[place : place + 4] = value.to_bytes(4, "little")


def _change_word(data: bytearray, random: Random) -> None:
    place = _word_at(data, random)
    if place is not None:
        value = int.from_bytes(data[place : place + 4], "little")
        value += random.choice((-4, -2, -1, 1, 2, 4, value, 256))
        data[place : place + 4] = (value % 2**32).to_bytes(4, "little")


def _swap_words(data: bytearray, random: Random) -> None:
    one, two = _word_at(data, random), _word_at(data, random)
    if one is not None and two is not None:
        first, second = data[one : one + 4], data[two : two + 4]
        data[one : one + 4], data[two : two + 4] = second, first


def _change_number(data: bytearray, random: Random) -> None:
    """Replace a number that is written out."""
    found = list(_NUMBER.finditer(data[:100_000]))
    if found:
        match = random.choice(found)
        data[match.start() : match.end()] = random.choice(_TEXTS)


def _change_lines(data: bytearray, random: Random) -> None:
    """Drop, repeat or swap lines."""
    lines = bytes(data).split(b"\n")
    one, two = random.randrange(len(lines)), random.randrange(len(lines))
    if random.random() < 0.3:
        del lines[one]
    elif random.random() < 0.5:
        lines.insert(two, lines[one])
    else:
        lines[one], lines[two] = lines[two], lines[one]
    data[:] = b"\n".join(lines)


_MUTATIONS: tuple[Mutation, ...] = (
    _flip_bits,
    _set_bytes,
    _truncate,
    _remove,
    _repeat,
    _overwrite,
    _set_word,
    _set_word,
    _change_word,
    _swap_words,
    _change_number,
    _change_lines,
)

"""Counts and numbers the attributes of a text, read in pieces, exactly and in bounded memory.

Pieces yield distinct keys with counts; a text in memory is one piece. Keys that exceed a memory
limit are written to files, ordered by a hash, and read back one range of hashes at a time.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Ints, Longs, distinct
from fstcrf.errors import DataError
from fstcrf.text.features.hashed import mixed
from fstcrf.text.features.keys import Codes, KeyTable, Packing, distinct_keys, width_of
from fstcrf.text.features.reader import Encoder, Family, once
from fstcrf.text.features.tables import AttributeTables, Vocabularies

Keys = NDArray[np.uint64]
Counted = tuple[Keys, Longs]
"""Distinct keys, ascending, and the number of tokens with each."""

_RANGES = 64  # of hashes
_BUDGET = 1 << 26  # bytes of keys and counts in memory, before they go to files


def counted_keys(
    encoder: Encoder, families: Sequence[Family], packings: Sequence[Packing]
) -> list[Counted]:
    """Return the keys of each family in a corpus."""
    counted = []
    for family, packing in zip(families, packings, strict=True):
        entries = encoder.entries(family)
        keys, _ = packing.pack(entries.codes, entries.count)
        unique, inverse, counts = distinct_keys(keys, packing.bits)
        if family.is_plural:
            _, inverse = once(entries.tokens, inverse)
            counts = np.bincount(inverse, minlength=len(unique))
        counted.append((unique, counts.astype(np.int64)))
    return counted


def prefix_keys(encoder: Encoder, family: Family, packing: Packing) -> Keys:
    """Return the distinct keys of the first numbers of a family, one number per width."""
    entries = encoder.entries(family)
    return packing.distinct(entries.codes, entries.count)


def numbered(
    families: Sequence[Family],
    vocabularies: Vocabularies,
    prefixes: Callable[[Family, Packing], Keys],
    counts: Callable[[Sequence[Family], Sequence[Packing]], Iterable[Sequence[Counted]]],
    *,
    min_count: int,
    base: AttributeTables | None = None,
    folder: str | None = None,
) -> AttributeTables:
    """Return the attributes that at least `min_count` tokens have, numbered family by family.

    Parameters
    ----------
    families : sequence of Family
    vocabularies : Vocabularies
    prefixes : callable
        (family, packing of its first numbers) → their distinct keys in the text.
    counts : callable
        (families, their packings) → the keys of each, for each piece of the text.
    min_count : int
    base : AttributeTables, optional
        These attributes of the same families keep their rows, whether or not they occur.
    folder : str, optional
        Folder for keys, if memory is short.
    """
    earlier = [_existing(base, number, family) for number, family in enumerate(families)]

    def packing_of(family: Family, codes: Codes, count: int) -> Packing:
        def prefixes_of(packing: Packing) -> KeyTable:
            return KeyTable.of(distinct(prefixes(family, packing), packing.distinct(codes, count)))

        widths = [width_of(vocabularies.size(source)) for source in family.sources]
        return Packing.fitted(widths, prefixes_of)

    pairs = zip(families, earlier, strict=True)
    packings = [packing_of(family, codes, len(rows)) for family, (codes, rows) in pairs]
    keys, next_row = [], 0 if base is None else base.n_rows
    budget = sys.maxsize if folder is None else _BUDGET
    with KeyCounter(len(families), budget=budget, folder=folder) as counter:
        for piece in counts(families, packings) if families else ():
            counter.add(piece)
        for number, (codes, rows) in enumerate(earlier):
            old_keys, _ = packings[number].pack(codes, len(rows))
            order = np.argsort(old_keys)
            old, new = KeyTable(old_keys[order], rows[order]), counter.frequent(number, min_count)
            table = KeyTable.of(new[old.lookup(new) < 0], next_row)
            next_row += len(table)
            keys.append(old.merged(table))
    return AttributeTables(tuple(families), vocabularies, tuple(packings), tuple(keys), next_row)


def _existing(base: AttributeTables | None, number: int, family: Family) -> tuple[Codes, Ints]:
    """Return the string ids and the rows of a family's attributes in another index."""
    if base is None:
        return [np.empty(0, dtype=np.uint64) for _ in family.sources], np.empty(0, dtype=np.int32)
    table = base.keys[number]
    return base.packings[number].unpack(table.keys), table.rows


# --- Counting -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """The keys of one family in the file: the bounds of each range of hashes, [ranges + 1]."""

    start: int
    bounds: Longs


class KeyCounter:
    """Adds up counts of keys of several families.

    Parameters
    ----------
    families : int
    budget : int
        Bytes of keys and counts that are held in memory.
    folder : str, optional
        Folder for keys that exceed the budget; the system's temporary folder if absent.
    """

    def __init__(self, families: int, *, budget: int = _BUDGET, folder: str | None = None) -> None:
        self._held: list[list[Counted]] = [[] for _ in range(families)]
        self._runs: list[list[_Run]] = [[] for _ in range(families)]
        self._budget, self._folder, self._bytes = budget, folder, 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, counts: Sequence[Counted]) -> None:
        """Add the counts of each family."""
        for held, one in zip(self._held, counts, strict=True):
            held.append(one)
            self._bytes += 16 * len(one[0])
        if self._bytes > self._budget:
            self._held = [[joined_counts(held)] if held else [] for held in self._held]
            self._bytes = sum(16 * len(keys) for held in self._held for keys, _ in held)
        if 2 * self._bytes > self._budget:
            self._write()

    def frequent(self, family: int, min_count: int) -> Keys:
        """Return the keys of a family with at least this count, ascending."""
        held = joined_counts(self._held[family]) if self._held[family] else _NOTHING
        if not self._runs[family]:
            return held[0][held[1] >= min_count]
        kept = []
        ranges = _range_of(held[0])
        for number in range(_RANGES):
            inside = ranges == number
            parts = [self._read(run, number) for run in self._runs[family]]
            keys, counts = joined_counts([*parts, (held[0][inside], held[1][inside])])
            kept.append(keys[counts >= min_count])
        return np.sort(np.concatenate(kept))

    def _write(self) -> None:
        """Write the keys in memory to the file, family by family, ordered by hash."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, prefix="fstcrf-")  # noqa: SIM115
            for runs, held in zip(self._runs, self._held, strict=True):
                for keys, counts in held:
                    ranges = _range_of(keys)
                    order = np.argsort(ranges, kind="stable")
                    start = self._file.seek(0, 2)
                    self._file.write(np.stack([keys[order], counts[order].view(np.uint64)], 1).data)
                    bounds = np.searchsorted(ranges[order], np.arange(_RANGES + 1))
                    runs.append(_Run(start, bounds))
        except OSError as error:
            raise DataError(
                f"keys of attributes cannot be written: {error.strerror or error}",
                path=self._folder or tempfile.gettempdir(),
            ) from None
        self._held, self._bytes = [[] for _ in self._held], 0

    def _read(self, run: _Run, number: int) -> Counted:
        first, end = run.bounds[number : number + 2].tolist()
        if self._file is None:
            return _NOTHING
        self._file.seek(run.start + 16 * first)
        pairs = np.frombuffer(self._file.read(16 * (end - first)), dtype=np.uint64).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].astype(np.int64)


_NOTHING: Counted = (np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))


def _range_of(keys: Keys) -> NDArray[np.uint8]:
    return (mixed(keys) >> np.uint64(64 - (_RANGES - 1).bit_length())).astype(np.uint8)


def joined_counts(parts: Sequence[Counted]) -> Counted:
    """Return the keys of several lists, with their counts added up."""
    if len(parts) == 1:
        return parts[0]
    keys = np.concatenate([keys for keys, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    if not len(keys):
        return _NOTHING
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.add.reduceat(counts, first)

"""The attributes of templates, hashed into 2^k rows: nothing is stored, nothing is known by name.

=========== =================================================================
Hashed      the rows of families by hash
Collisions  how many attributes of a corpus share their row
=========== =================================================================

The row is the high bits of a hash of the family's text and of the strings, so it is the same in
every run and on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.features.derive import Source
from fstcrf.features.design import Rows, assembled
from fstcrf.features.encode import Encoder, Entries
from fstcrf.features.families import Family
from fstcrf.features.hashing import combined, hashed_rows, string_hashes
from fstcrf.features.reader import Reader

__all__ = ["Collisions", "Hashed"]


@dataclass(frozen=True, slots=True)
class Collisions:
    """How crowded hashed rows are.

    Parameters
    ----------
    attributes : int
        Distinct attributes of the corpus.
    rows : int
        Rows there are, 2^k.
    used : int
        Rows that have an attribute.
    shared : int
        Attributes whose row another one has too.
    """

    attributes: int
    rows: int
    used: int
    shared: int

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], bits: int) -> Collisions:
        """Count the collisions of distinct hashes."""
        _, counts = np.unique(hashed_rows(hashes, bits), return_counts=True)
        return cls(len(hashes), 1 << bits, len(counts), int(counts[counts > 1].sum()))

    def __str__(self) -> str:
        part = self.shared / max(self.attributes, 1)
        return (
            f"{self.attributes} attributes in {self.used} of {self.rows} rows; "
            f"{self.shared} ({part:.1%}) share theirs"
        )


@dataclass(frozen=True, slots=True)
class Hashed:
    """The attributes of families, by hash.

    Parameters
    ----------
    families : tuple of Family
        The families, in the order of their templates.
    bits : int
        The k of 2^k rows.
    """

    families: tuple[Family, ...]
    bits: int

    @property
    def n_rows(self) -> int:
        """Number of rows; none where there are no families."""
        return 1 << self.bits if self.families else 0

    def rows(self, reader: Reader) -> Rows:
        """Return the attributes of every token."""
        encoder = Encoder(reader, self)
        blocks = []
        for family in self.families:
            entries = encoder.entries(family)
            rows = hashed_rows(_hashes(family, entries.codes, entries.count), self.bits)
            blocks.append(reader.block(family, entries.tokens, rows))
        return assembled(reader.n_tokens, blocks)

    def runs(self, reader: Reader) -> Callable[[int, int], Rows]:
        """Return the function from a run of sentences, (first, end), to its attributes."""
        return lambda first, end: self.rows(Reader(reader.corpus[first:end], reach=reader.reach))

    def collisions(self, reader: Reader) -> Collisions:
        """Return how many attributes of a corpus share their row."""
        encoder = Encoder(reader, self)
        found = [np.empty(0, dtype=np.uint64)]
        for family in self.families:
            entries: Entries = encoder.entries(family)
            found.append(np.unique(_hashes(family, entries.codes, entries.count)))
        return Collisions.of(np.unique(np.concatenate(found)), self.bits)

    def find(self, attribute: str) -> int | None:
        """Return the row of an attribute; None when its text can be read in several ways."""
        readings = [(f, strings) for f in self.families for strings in f.readings(attribute)]
        if len(readings) != 1:
            return None
        ((family, strings),) = readings
        codes = [string_hashes([string]) for string in strings]
        return int(hashed_rows(_hashes(family, codes, 1), self.bits)[0])

    def pads(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """Return the hashes of the pads."""
        return string_hashes(names)

    def codes(
        self, source: Source, strings: Sequence[str]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool]]:
        """Return the hashes of strings, all of which have one."""
        del source
        return string_hashes(strings), np.ones(len(strings), dtype=np.bool)


def _hashes(family: Family, codes: Sequence[NDArray[np.uint64]], count: int) -> NDArray[np.uint64]:
    """Return the hash of each attribute."""
    hashes = np.full(count, string_hashes([family.identity])[0])
    for code in codes:
        hashes = combined(hashes, code)
    return hashes

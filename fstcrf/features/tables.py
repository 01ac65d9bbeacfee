"""The attributes of templates, each known by name.

============= ===============================================================
Vocabularies  the vocabulary of each source; numbers its strings
Tables        per family: how strings become keys, and the row of each key
fitted        the tables of a corpus, with its rows
============= ===============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.corpus import Sentence
from fstcrf.features.derive import Source
from fstcrf.features.design import Block, Rows, assembled
from fstcrf.features.encode import Encoder, Entries
from fstcrf.features.families import Boundary, Family, pad_texts
from fstcrf.features.finding import PlainFamilies, sentence_codes, string_codes
from fstcrf.features.keys import Codes, KeyTable, Packing, distinct, width_of
from fstcrf.features.reader import Reader, once
from fstcrf.features.vocabulary import Vocabulary
from fstcrf.kernel.lookup import compacted
from fstcrf.once import made_once

__all__ = ["Tables", "Vocabularies", "fitted"]


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """The vocabulary of each source. The pads have the numbers before its strings.

    Parameters
    ----------
    reach : int
        Distance of the farthest pad.
    by_source : mapping of Plain or Derived to Vocabulary
        The strings of each source.
    boundary : {"pad", "skip", "wapiti"}
        What the texts of pads are.
    """

    reach: int
    by_source: Mapping[Source, Vocabulary]
    boundary: Boundary = "pad"

    def extended(self, reader: Reader, sources: Sequence[Source]) -> Vocabularies:
        """Return the vocabularies with the strings of a corpus."""
        old = self.by_source
        new = {s: old.get(s, Vocabulary()).extended(reader.strings(s)) for s in sources}
        return replace(self, by_source=new)

    def pads(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """Return the numbers of the pads."""
        return np.arange(len(names), dtype=np.uint64)

    def codes(
        self, source: Source, strings: Sequence[str]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool]]:
        """Return the numbers of strings, and which are known."""
        numbers = self.by_source[source].numbers(strings)
        known = numbers >= 0
        return np.where(known, numbers + 2 * self.reach, 0).astype(np.uint64), known

    def numbers(self, source: Source, strings: Sequence[str]) -> NDArray[np.int32]:
        """Return the numbers of strings, −1 for unknown ones."""
        numbers = self.by_source[source].numbers(strings).astype(np.int32)
        np.add(numbers, 2 * self.reach, out=numbers, where=numbers >= 0)
        return numbers

    def size(self, source: Source) -> int:
        """Return how many numbers a source has."""
        return 2 * self.reach + len(self.by_source[source])

    def texts(self, source: Source, codes: NDArray[np.uint64]) -> list[str]:
        """Return the strings of numbers."""
        pads = pad_texts(source, self.reach, self.boundary)
        strings = self.by_source[source].strings
        return [pads[i] if i < len(pads) else strings[i - len(pads)] for i in codes.tolist()]

    def candidates(self, source: Source, text: str) -> list[int]:
        """Return the numbers that a string in the text of an attribute may have."""
        pads = pad_texts(source, self.reach, self.boundary)
        number = self.by_source[source].number(text)
        known = [] if number is None else [number + len(pads)]
        return known + [place for place, pad in enumerate(pads) if pad == text]


@dataclass(frozen=True)
class Tables:
    """The attributes of families.

    Parameters
    ----------
    families : tuple of Family
        The families, in the order of their templates.
    vocabularies : Vocabularies
        Numbers of the strings.
    packings : tuple of Packing
        For each family, from numbers to keys.
    keys : tuple of KeyTable
        For each family, from keys to rows.
    """

    families: tuple[Family, ...]
    vocabularies: Vocabularies
    packings: tuple[Packing, ...]
    keys: tuple[KeyTable, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def n_rows(self) -> int:
        """Number of attributes."""
        return sum(map(len, self.keys))

    def rows(self, reader: Reader) -> Rows:
        """Return the attributes of every token; unknown ones are absent."""
        return self.runs(reader)(0, len(reader.corpus))

    def runs(self, reader: Reader) -> Callable[[int, int], Rows]:
        """Return the function from a run of sentences, (first, end), to its attributes.

        What is done per distinct string is done once for all runs.
        """
        plain, offsets = self._plain, reader.corpus.offsets
        codes = string_codes(reader, plain.sources, self.vocabularies.numbers)

        def rows(first: int, end: int) -> Rows:
            found = plain.finder.rows(codes, offsets[first : end + 1])
            if len(plain.numbers) == len(self.families):
                return Rows(*compacted(found))
            whole = (first, end) == (0, len(reader.corpus))
            part = reader if whole else Reader(reader.corpus[first:end], reach=reader.reach)
            return self._mixed(part, found)

        return rows

    def of_one(self, sentence: Sentence) -> Rows | None:
        """Return the attributes of every token of a sentence; None where that needs a reader."""
        plain = self._plain
        if len(plain.numbers) < len(self.families):
            return None
        codes = sentence_codes(sentence, plain.sources, self.vocabularies.numbers)
        return Rows(*compacted(plain.finder.rows(codes, np.asarray([0, len(sentence)]))))

    def _mixed(self, reader: Reader, found: NDArray[np.int32]) -> Rows:
        """Return the attributes of every token, those of plain families given."""
        encoder = Encoder(reader, self.vocabularies)
        column = {number: k for k, number in enumerate(self._plain.numbers)}
        blocks: list[Block] = []
        for number, family in enumerate(self.families):
            if number in column:
                rows = np.ascontiguousarray(found[:, column[number]])
                blocks.append(reader.block(family, None, rows))
                continue
            entries = encoder.entries(family)
            keys, known = self.packings[number].pack(entries.codes, entries.count)
            rows = self.keys[number].lookup(keys)
            if known is not None:
                rows[~known] = -1
            blocks.append(reader.block(family, entries.tokens, rows))
        return assembled(reader.n_tokens, blocks)

    @made_once
    def _plain(self) -> PlainFamilies:
        return PlainFamilies(self.families, self.packings, self.keys, reach=self.vocabularies.reach)

    def attributes(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the texts of attributes."""
        texts = [""] * len(rows)
        family_of, key_of = self._by_row
        for number, (family, packing) in enumerate(zip(self.families, self.packings, strict=True)):
            places = np.flatnonzero(family_of[rows] == number)
            codes = packing.unpack(key_of[rows[places]])
            strings = [
                self.vocabularies.texts(s, c) for s, c in zip(family.sources, codes, strict=True)
            ]
            for i, place in enumerate(places.tolist()):
                texts[place] = family.attribute([column[i] for column in strings])
        return texts

    def find(self, attribute: str) -> int | None:
        """Return the row of an attribute; None when it is unknown."""
        for family, packing, table in zip(self.families, self.packings, self.keys, strict=True):
            for strings in family.readings(attribute):
                pairs = zip(family.sources, strings, strict=True)
                for numbers in product(*(self.vocabularies.candidates(s, t) for s, t in pairs)):
                    codes = [np.array([n], dtype=np.uint64) for n in numbers]
                    key, known = packing.pack(codes, 1)
                    row = int(table.lookup(key)[0])
                    if row >= 0 and (known is None or known[0]):
                        return row
        return None

    def renumbered(self, order: NDArray[np.int32]) -> Tables:
        """Return the same attributes under other rows: row ``r`` becomes ``order[r]``."""
        return replace(self, keys=tuple(KeyTable(k.keys, order[k.rows]) for k in self.keys))

    @cached_property
    def _by_row(self) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """The family and the key of each row."""
        family_of = np.zeros(self.n_rows, dtype=np.int32)
        key_of = np.zeros(self.n_rows, dtype=np.uint64)
        for number, table in enumerate(self.keys):
            family_of[table.rows] = number
            key_of[table.rows] = table.keys
        return family_of, key_of


def fitted(
    reader: Reader,
    families: Sequence[Family],
    vocabularies: Vocabularies,
    *,
    min_count: int,
    base: Tables | None = None,
) -> tuple[Tables, Rows]:
    """Return the attributes that occur in a corpus, and its rows.

    Parameters
    ----------
    reader : Reader
        The corpus.
    families : sequence of Family
        The families; rows are numbered family by family.
    vocabularies : Vocabularies
        With all the strings of the corpus.
    min_count : int
        New attributes that fewer tokens have are left out.
    base : Tables, optional
        Attributes that keep their rows; they have the same families.
    """
    encoder = Encoder(reader, vocabularies)
    packings: list[Packing] = []
    tables: list[KeyTable] = []
    blocks: list[Block] = []
    next_row = 0 if base is None else base.n_rows
    for number, family in enumerate(families):
        entries = encoder.entries(family)
        old_codes, old_rows = _known(base, number, family)
        widths = [width_of(vocabularies.size(source)) for source in family.sources]
        pairs = zip(old_codes, entries.codes, strict=True)
        packing = Packing.fitted(widths, map(np.concatenate, pairs))
        old_keys, _ = packing.pack(old_codes, len(old_rows))
        old = KeyTable.empty().merged(*_sorted(old_keys, old_rows))
        table, rows, tokens = _numbered(
            family, packing, entries=entries, old=old, next_row=next_row, min_count=min_count
        )
        next_row += len(table) - len(old)
        packings.append(packing)
        tables.append(table)
        blocks.append(reader.block(family, tokens, rows))
    result = Tables(tuple(families), vocabularies, tuple(packings), tuple(tables))
    return result, assembled(reader.n_tokens, blocks)


def _known(base: Tables | None, number: int, family: Family) -> tuple[Codes, NDArray[np.int32]]:
    """Return the numbers and rows of the attributes that a family has already."""
    if base is None:
        none = [np.empty(0, dtype=np.uint64) for _ in family.sources]
        return none, np.empty(0, dtype=np.int32)
    table = base.keys[number]
    return base.packings[number].unpack(table.keys), table.rows


def _sorted(
    keys: NDArray[np.uint64], rows: NDArray[np.int32]
) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    order = np.argsort(keys)
    return keys[order], rows[order]


def _numbered(
    family: Family,
    packing: Packing,
    *,
    entries: Entries,
    old: KeyTable,
    next_row: int,
    min_count: int,
) -> tuple[KeyTable, NDArray[np.int32], NDArray[np.int32] | None]:
    """Return the table with new attributes, the row of each entry, and its token."""
    keys, _ = packing.pack(entries.codes, entries.count)
    unique, inverse, counts = distinct(keys, packing.bits)
    tokens = entries.tokens
    if family.is_plural:
        tokens, inverse = once(tokens, inverse)
        counts = np.bincount(inverse, minlength=len(unique))
    row_of = old.lookup(unique)
    new = np.flatnonzero((row_of < 0) & (counts >= min_count))
    row_of[new] = np.arange(next_row, next_row + len(new), dtype=np.int32)
    return old.merged(unique[new], row_of[new]), row_of[inverse], tokens

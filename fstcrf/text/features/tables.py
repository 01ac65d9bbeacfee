"""The attributes of templates, known by name: from the strings of a token to its rows.

The kernel builds and looks up the keys of families that read one string at each offset. NumPy
builds the keys of other families: with several strings (bags, n-grams), with factors, with fixed
positions in the sentence or positions past its ends, or with more than 63 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Ints, Longs
from fstcrf.kernel import SparseRows
from fstcrf.kernel.rows import Firing, KeyFamily, KeyTerm, RowFinder, TokenPlaces
from fstcrf.lazy import made_once
from fstcrf.text.corpus.corpus import Sentence
from fstcrf.text.features.derive import Plain, Source, root
from fstcrf.text.features.design import Block, assembled
from fstcrf.text.features.hashed import Hashed
from fstcrf.text.features.keys import Codes, KeyTable, Packing, Vocabulary, distinct_keys
from fstcrf.text.features.reader import (
    Boundary,
    Encoder,
    Family,
    Reader,
    pad_texts,
    remembered,
)
from fstcrf.text.features.template import tape_column

_SEEN = 50_000  # cached strings of a source
_FEW = 1_000  # strings of a text whose codes are cached; for more, this costs more than it saves

_FIRING: dict[str, Firing] = {"node": "every", "bos": "first", "eos": "last", "arc": "inner"}


class _PlainFamilies:
    """The families whose keys the kernel builds; parameters as in `AttributeTables`.

    `numbers` are their positions among the families, `sources` the sources they read, each with a
    column of codes.
    """

    def __init__(
        self,
        families: Sequence[Family],
        packings: Sequence[Packing],
        keys: Sequence[KeyTable],
        *,
        reach: int,
    ) -> None:
        self.numbers = [
            i
            for i, (family, packing) in enumerate(zip(families, packings, strict=True))
            if not (
                family.is_plural
                or family.is_absolute
                or family.is_wide
                or family.values
                or packing.prefixes
            )
        ]
        read = dict.fromkeys(source for i in self.numbers for source in families[i].sources)
        by_column: dict[str, list[Source]] = {}
        for source in read:
            by_column.setdefault(str(root(source)), []).append(source)
        self.sources: list[Source] = [s for several in by_column.values() for s in several]
        place = {source: k for k, source in enumerate(self.sources)}
        made = [
            KeyFamily.of(
                _terms(families[i], packings[i], place, reach),
                keys[i].keys,
                keys[i].rows,
                firing=_FIRING[families[i].kind],
            )
            for i in self.numbers
        ]
        self.finder = RowFinder(made, reach=reach)
        self._columns = [_ColumnCodes(*column) for column in by_column.items()]

    def codes(
        self,
        sentence: Sentence,
        numbers: Callable[[Source, Sequence[str]], Ints],
        others: Sequence[str],
    ) -> tuple[Ints, dict[str, slice]]:
        """Return the code of each token's string, as of `text_codes`, int32 [sources, N].

        `others` are columns that the sentence does not have; their places in the codes are returned
        instead.
        """
        codes = np.empty((len(self.sources), len(sentence)), dtype=np.int32)
        first, places = 0, {}
        for column in self._columns:
            end = first + len(column.sources)
            if column.name in others:
                places[column.name] = slice(first, end)
            else:
                codes[first:end] = column.codes(sentence[column.name], numbers).T
            first = end
        return codes, places

    def text_codes(self, reader: Reader, numbers: Callable[[Source, Sequence[str]], Ints]) -> Ints:
        """Return the code of each token's string, −1 if it has no code, int32 [sources, N].

        Each source gives one string a token; `numbers` returns the codes of its distinct strings.
        """
        codes = np.empty((len(self.sources), reader.n_tokens), dtype=np.int32)
        first = 0
        for column in self._columns:
            end, read = first + len(column.sources), reader.column(column.name)
            if len(read.values) <= _FEW:
                codes[first:end] = column.codes(read.values, numbers).T[:, read.ids]
            else:
                for source, out in zip(column.sources, codes[first:end], strict=True):
                    plain = isinstance(source, Plain)
                    strings = read.values if plain else [made[0] for made in reader.made(source)]
                    np.take(numbers(source, strings), read.ids, out=out, mode="clip")
            first = end
        return codes


class _ColumnCodes:
    """The sources of a column, and a cache of codes, because words repeat across sentences."""

    def __init__(self, name: str, sources: Sequence[Source]) -> None:
        self.name, self.sources = name, sources
        self._codes: dict[str, bytes] = {}  # for each string of the column, int32 [sources]
        self._made: list[dict[str, int]] = [{} for _ in sources]

    def codes(
        self, strings: Sequence[str], numbers: Callable[[Source, Sequence[str]], Ints]
    ) -> Ints:
        """Return the code of each string in each source, int32 [N, sources]."""
        codes = self._codes
        try:
            joined = b"".join(map(codes.__getitem__, strings))
        except KeyError:
            if len(codes) > _SEEN:  # other threads may still read the old one
                codes = self._codes = {}
                self._made = [{} for _ in self.sources]
            new = list(dict.fromkeys(string for string in strings if string not in codes))
            codes.update(zip(new, map(bytes, self._of_new(new, numbers)), strict=True))
            joined = b"".join(map(codes.__getitem__, strings))
        return np.frombuffer(joined, dtype=np.int32).reshape(len(strings), len(self.sources))

    def _of_new(
        self, strings: Sequence[str], numbers: Callable[[Source, Sequence[str]], Ints]
    ) -> Ints:
        rows = np.empty((len(strings), len(self.sources)), dtype=np.int32)
        for source, numbered, column in zip(self.sources, self._made, rows.T, strict=True):
            make = remembered(source)
            made = [make(string)[0] for string in strings]
            new = [string for string in made if string not in numbered]
            if new:
                numbered.update(zip(new, numbers(source, new).tolist(), strict=True))
            column[:] = [numbered[string] for string in made]
        return rows


def _terms(family: Family, packing: Packing, place: dict[Source, int], reach: int) -> list[KeyTerm]:
    (member,) = family.members
    return [
        KeyTerm(place[source], term.offset, term.pads and reach > 0, width)
        for source, term, width in zip(family.sources, member, packing.widths, strict=True)
    ]


# --- Tables of keys -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """The vocabulary of each source.

    The numbers of pads precede the numbers of strings.
    """

    reach: int  # distance of the farthest pad
    by_source: Mapping[Source, Vocabulary]  # the strings of each source
    boundary: Boundary = "pad"  # text of the pads

    def extended(
        self, strings: Callable[[Source], Iterable[str]], sources: Sequence[Source]
    ) -> Vocabularies:
        """Return the vocabularies with the strings that sources derive from a text."""
        old = self.by_source
        new = {s: old.get(s, Vocabulary()).extended(strings(s)) for s in sources}
        return replace(self, by_source=new)

    def pads(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """Return the numbers of the pads."""
        return np.arange(len(names), dtype=np.uint64)

    def codes(self, source: Source, strings: Sequence[str]) -> tuple[NDArray[np.uint64], Bools]:
        """Return the numbers of strings, and a mask of the known ones."""
        numbers = self.by_source[source].numbers(strings)
        in_vocabulary = numbers >= 0
        return np.where(in_vocabulary, numbers + 2 * self.reach, 0).astype(np.uint64), in_vocabulary

    def numbers(self, source: Source, strings: Sequence[str]) -> Ints:
        """Return the numbers of strings, −1 for unknown ones."""
        numbers = self.by_source[source].numbers(strings).astype(np.int32)
        np.add(numbers, 2 * self.reach, out=numbers, where=numbers >= 0)
        return numbers

    def size(self, source: Source) -> int:
        """Return the number of codes of a source."""
        return 2 * self.reach + len(self.by_source[source])

    def texts(self, source: Source, codes: NDArray[np.uint64]) -> list[str]:
        """Return the strings with these numbers."""
        pads = pad_texts(source, self.reach, self.boundary)
        strings = self.by_source[source].strings
        return [pads[i] if i < len(pads) else strings[i - len(pads)] for i in codes.tolist()]

    def candidates(self, source: Source, text: str) -> list[int]:
        """Return the numbers that a string in the text of an attribute may have."""
        pads = pad_texts(source, self.reach, self.boundary)
        number = self.by_source[source].number(text)
        candidates = [] if number is None else [number + len(pads)]
        return candidates + [place for place, pad in enumerate(pads) if pad == text]


@dataclass(frozen=True, eq=False)
class TokenRows:
    """The attributes of a corpus's tokens, run by run; created by `AttributeTables.runs`.

    `codes`, int32 [K, N]: the code of each token's string in each source of plain families.
    """

    tables: AttributeTables
    reader: Reader
    codes: Ints

    def __call__(self, first: int, end: int) -> SparseRows:
        """Return the attributes of the tokens of sentences first .. end."""
        tables, corpus = self.tables, self.reader.corpus
        finder, offsets = tables._plain.finder, corpus.offsets[first : end + 1]  # noqa: SLF001
        if tables.is_plain:
            return SparseRows(*finder.entries(self.codes, offsets), None, tables.n_rows)
        is_complete = (first, end) == (0, len(corpus))
        part = self.reader if is_complete else Reader(corpus[first:end], reach=self.reader.reach)
        return tables._mixed(part, finder.rows(self.codes, offsets))  # noqa: SLF001

    def at(self, tokens: Longs, numbers: Mapping[Source, Ints], ids: Ints) -> SparseRows:
        """Return the attributes of tokens, with other strings for some sources.

        `ids`, int32 [K, M], selects a string for each of K sources and M tokens; `numbers` has the
        codes of the strings. A token may occur several times.
        """
        plain, offsets = self.tables._plain, self.reader.corpus.offsets  # noqa: SLF001
        sentence = np.searchsorted(offsets, tokens, side="right") - 1
        places = TokenPlaces(
            tokens,
            (tokens - offsets[sentence]).astype(np.int32),
            (offsets[sentence + 1] - 1 - tokens).astype(np.int32),
        )
        codes = self.codes[:, tokens]
        for (source, table), labels in zip(numbers.items(), ids, strict=True):
            if source in plain.sources:
                codes[plain.sources.index(source)] = table[labels]
        indptr = np.empty(len(tokens) + 1, dtype=np.int64)
        rows = plain.finder.rows_at(self.codes, places, np.ascontiguousarray(codes), indptr)
        return SparseRows(indptr, rows.ravel()[: indptr[-1]], None, self.tables.n_rows)


@dataclass(frozen=True)
class AttributeTables:
    """The attributes of families."""

    families: tuple[Family, ...]  # the families, in the order of their templates
    vocabularies: Vocabularies  # numbers of the strings
    packings: tuple[Packing, ...]  # for each family, from numbers to keys
    keys: tuple[KeyTable, ...]  # for each family, from keys to rows
    n_rows: int  # number of rows: more than keys if some families of the index were left out

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def rows(self, reader: Reader) -> SparseRows:
        """Return the attributes of every token; the tables of the lookup are not kept."""
        return replace(self).runs(reader)(0, len(reader.corpus))

    def runs(self, reader: Reader) -> TokenRows:
        """Return the function from a run of sentences, (first, end), to its attributes.

        Work per distinct string is shared by all runs.
        """
        codes = self._plain.text_codes(reader, self.vocabularies.numbers)
        return TokenRows(self, reader, codes)

    def of_one(self, sentence: Sentence) -> SparseRows | None:
        """Return the attributes of every token of a sentence; `None` if that needs a reader."""
        if not self.is_plain:
            return None
        return SparseRows(*self.entries(sentence)({}), None, self.n_rows)

    def entries(
        self, sentence: Sentence, others: Sequence[str] = ()
    ) -> Callable[[Mapping[str, Ints]], tuple[Longs, Ints]]:
        """Return the function to the bounds of a sentence's tokens among its attributes, and these.

        All families are plain. The function takes codes, int32 [N] each, of the columns `others`,
        which the sentence does not have.
        """
        plain, offsets = self._plain, np.asarray([0, len(sentence)])
        codes, places = plain.codes(sentence, self.vocabularies.numbers, others)

        def entries(columns: Mapping[str, Ints]) -> tuple[Longs, Ints]:
            for name, place in places.items():
                codes[place] = columns[name]
            return plain.finder.entries(codes, offsets)

        return entries

    @property
    def is_plain(self) -> bool:
        """Whether every family has one string a token, so that `TokenRows.at` works."""
        return len(self._plain.numbers) == len(self.families)

    def _mixed(self, reader: Reader, plain_rows: Ints) -> SparseRows:
        """Return the attributes of every token, given the attributes of plain families."""
        encoder = Encoder(reader, self.vocabularies)
        column = {number: k for k, number in enumerate(self._plain.numbers)}
        blocks: list[Block] = []
        for number, family in enumerate(self.families):
            if number in column:
                rows = np.ascontiguousarray(plain_rows[:, column[number]])
                blocks.append(reader.block(family, None, rows))
                continue
            entries = encoder.entries(family)
            keys, in_vocabulary = self.packings[number].pack(entries.codes, entries.count)
            rows = self.keys[number].lookup(keys)
            if in_vocabulary is not None:
                rows[~in_vocabulary] = -1
            blocks.append(reader.block(family, entries.tokens, rows))
        return assembled(reader.n_tokens, blocks, self.n_rows)

    @made_once
    def _plain(self) -> _PlainFamilies:
        return _PlainFamilies(
            self.families, self.packings, self.keys, reach=self.vocabularies.reach
        )

    def attributes(self, rows: Longs) -> list[str]:
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
        """Return the row of an attribute; `None` if it is unknown."""
        for family, packing, table in zip(self.families, self.packings, self.keys, strict=True):
            for strings in family.readings(attribute):
                pairs = zip(family.sources, strings, strict=True)
                for numbers in product(*(self.vocabularies.candidates(s, t) for s, t in pairs)):
                    codes = [np.array([n], dtype=np.uint64) for n in numbers]
                    key, in_vocabulary = packing.pack(codes, 1)
                    row = int(table.lookup(key)[0])
                    if row >= 0 and (in_vocabulary is None or in_vocabulary[0]):
                        return row
        return None

    def renumbered(self, order: Ints) -> AttributeTables:
        """Return the same attributes under other rows: row ``r`` becomes ``order[r]``."""
        return replace(self, keys=tuple(KeyTable(k.keys, order[k.rows]) for k in self.keys))

    @made_once
    def _by_row(self) -> tuple[Ints, NDArray[np.uint64]]:
        """The family and the key of each row."""
        family_of = np.zeros(self.n_rows, dtype=np.int32)
        key_of = np.zeros(self.n_rows, dtype=np.uint64)
        for number, table in enumerate(self.keys):
            family_of[table.rows] = number
            key_of[table.rows] = table.keys
        return family_of, key_of


# --- Attributes of labels that are not known yet --------------------------------------------------
# In a joint decoder the label of an earlier tape is a state, not a column: the tape is *open*. An
# attribute of ``U:%y[0,pos]/%x[0,word]`` is then the pair of a predicate, "this word is *in*",
# which a token may have, and a label. The keys of an index are the existing pairs. So a token's
# predicates are looked up once, for any number of labels, and only existing pairs are visited.

Context = tuple[str, ...]
Labels = Mapping[str, Sequence[str]]


def divided(
    side: AttributeTables | Hashed, tapes: Sequence[str]
) -> dict[Context, AttributeTables | Hashed]:
    """Group the families of one side of an index by the open tapes that they read together.

    Each context lists some of the tapes in their order; () lists no tape. Attributes keep their
    rows; each group omits the other families.
    """
    places: dict[Context, list[int]] = {}
    for place, family in enumerate(side.families):
        context = tuple(tape for tape in tapes if tape_column(tape) in family.columns)
        places.setdefault(context, []).append(place)
    return {context: _chosen(side, chosen) for context, chosen in places.items()}


def is_constant(side: AttributeTables | Hashed, context: Context) -> bool:
    """Return whether families have the same attributes at every token, given the tapes' labels."""
    columns = set(map(tape_column, context))
    return all(family.columns <= columns for family in side.families)


def _chosen(side: AttributeTables | Hashed, places: Sequence[int]) -> AttributeTables | Hashed:
    families = tuple(side.families[i] for i in places)
    if isinstance(side, Hashed):
        return replace(side, families=families)
    packings = tuple(side.packings[i] for i in places)
    keys = tuple(side.keys[i] for i in places)
    return AttributeTables(families, side.vocabularies, packings, keys, side.n_rows)


@dataclass(frozen=True, slots=True)
class Predicates:
    """Attributes that depend on open tapes, as pairs of a predicate and labels."""

    # The predicates are the families without the open tapes; their rows number the predicates.
    tables: AttributeTables
    row: Ints  # [n]: row of each conditioned attribute, each once
    predicate: Ints  # [n]: its predicate
    label: Longs  # [n]: number of its tuple of labels in the context, the last tape fastest

    @classmethod
    def of(cls, tables: AttributeTables, context: Context, labels: Labels) -> Predicates:
        """Split the conditioned attributes of families, as grouped by `divided`.

        `labels` are the labels of each tape, in the order of their numbers; attributes with other
        labels are dropped.
        """
        axes = {Plain(tape_column(tape)): tuple(labels[tape]) for tape in context}
        families, packings, keys = [], [], []
        parts: list[tuple[Ints, Ints, Longs]] = []
        total = 0
        for family, packing, table in zip(
            tables.families, tables.packings, tables.keys, strict=True
        ):
            codes = packing.unpack(table.keys)
            label = _label_numbers(family, codes, len(table), axes, tables.vocabularies)
            used = np.flatnonzero(label >= 0)
            kept = [i for i, source in enumerate(family.sources) if source not in axes]
            rest = [codes[i][used] for i in kept]
            short = Packing.of_codes([packing.widths[i] for i in kept], rest, len(used))
            unique, inverse, _ = distinct_keys(short.pack(rest, len(used))[0], short.bits)
            numbers = np.arange(total, total + len(unique), dtype=np.int32)
            total += len(unique)
            families.append(_without(family, kept))
            packings.append(short)
            keys.append(KeyTable(unique, numbers))
            parts.append((table.rows[used], numbers[inverse], label[used]))
        row, predicate, label = (np.concatenate(part) for part in zip(*parts, strict=True))
        bare = AttributeTables(
            tuple(families), tables.vocabularies, tuple(packings), tuple(keys), total
        )
        return cls(bare, row, predicate, label)


def _label_numbers(
    family: Family,
    codes: Codes,
    count: int,
    axes: Mapping[Plain, tuple[str, ...]],
    vocabularies: Vocabularies,
) -> Longs:
    """Return the number of each attribute's labels, −1 if it has other labels."""
    number = np.zeros(count, dtype=np.int64)
    possible = np.ones(count, dtype=np.bool)
    for source, labels in axes.items():
        # The extra position at the end is for labels that the index does not know: their number is
        # −1.
        place_of = np.full(vocabularies.size(source) + 1, -1, dtype=np.int64)
        place_of[vocabularies.numbers(source, labels)] = np.arange(len(labels))
        # A template may read the label twice: both are the same.
        place = place_of[codes[family.sources.index(source)]]
        possible &= place >= 0
        number = number * len(labels) + place
    return np.where(possible, number, -1)


def _without(family: Family, kept: Sequence[int]) -> Family:
    members = (tuple(terms[i] for i in kept) for terms in family.members)
    return replace(
        family,
        literals=(family.literals[0], *(family.literals[i + 1] for i in kept)),
        sources=tuple(family.sources[i] for i in kept),
        members=tuple(dict.fromkeys(members)),
    )

"""Features of whole segments: their strings in a column, their entry in a dictionary.

A phrase is the sequence of a column's strings over a segment. Phrases are a trie over numbers of
strings, in which the kernel looks all stretches of sentences up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged, distinct
from fstcrf.errors import OptionError
from fstcrf.ext.segments.gold import GoldSegments
from fstcrf.ext.segments.kernel import Extras, PhraseFinder, PhraseTrie
from fstcrf.lazy import made_once
from fstcrf.text.corpus import Corpus
from fstcrf.text.lines import text_fields

Lexicon = Mapping[str, Iterable[str]]
"""Names of entries, and their phrases: words with blanks between them."""


@dataclass(frozen=True, eq=False)
class PhraseTable:
    """Phrases of one column, each with the attributes it has.

    Parameters
    ----------
    column : str
    strings : tuple of str
        The strings that form phrases, by number.
    parent, string : int64 [nodes]
        For each node of the trie except the root, node k + 1: the previous node, and the last
        string. Nodes are sorted by (depth, parent, string).
    depth : int64 [levels + 1]
        Nodes of each depth are ``depth[d - 1] : depth[d]``, minus one.
    row : int64 [nodes + 1]
        Attributes of node k + 1 are ``attribute[row[k] : row[k + 1]]``.
    attribute : int64
    """

    column: str
    strings: tuple[str, ...]
    parent: Longs
    string: Longs
    depth: Longs
    row: Longs
    attribute: Longs

    @classmethod
    def build(cls, column: str, phrases: Sequence[tuple[tuple[str, ...], int]]) -> PhraseTable:
        """Return the table of (phrase, attribute), each a pair that may be there twice."""
        strings = {s: k for k, s in enumerate(sorted({s for phrase, _ in phrases for s in phrase}))}
        nodes: dict[tuple[int, int], int] = {}
        keys: list[tuple[int, int, int]] = []  # depth, parent, string
        found: list[set[int]] = [set()]
        for phrase, attribute in phrases:
            node = 0
            for depth, name in enumerate(phrase, 1):
                key = node, strings[name]
                if key not in nodes:
                    nodes[key] = len(found)
                    keys.append((depth, *key))
                    found.append(set())
                node = nodes[key]
            found[node].add(attribute)
        # numbered level by level, so that parents are known when their children are sorted
        number, order = {0: 0}, []
        levels: dict[int, list[tuple[int, int, int]]] = {}
        for k, (depth, parent, text) in enumerate(keys, 1):
            levels.setdefault(depth, []).append((k, parent, text))
        bounds = [0]
        for depth in sorted(levels):
            for k, parent, text in sorted(levels[depth], key=lambda e: (number[e[1]], e[2])):
                order.append((number[parent], text, k))
                number[k] = len(order)
            bounds.append(len(order))
        attributes = [sorted(found[k]) for _, _, k in order]
        return cls(
            column,
            tuple(strings),
            np.asarray([parent for parent, _, _ in order], dtype=np.int64),
            np.asarray([text for _, text, _ in order], dtype=np.int64),
            np.asarray(bounds, dtype=np.int64),
            Ragged.from_lengths(map(len, attributes)).offsets,
            np.asarray([a for each in attributes for a in each], dtype=np.int64),
        )

    @made_once
    def _number(self) -> dict[str, int]:
        return {s: k for k, s in enumerate(self.strings)}

    def tokens(self, corpus: Corpus) -> Ints:
        """Return the number of each token's string, int32 [N]; −1: no phrase has it."""
        column, number = corpus.columns[self.column], self._number
        known = np.asarray([number.get(s, -1) for s in column.values], dtype=np.int32)
        return known[column.ids] if len(known) else np.zeros(0, dtype=np.int32)

    @property
    def first(self) -> Ints:
        """Node of each single string, int32 [strings]; 0 without one."""
        first, alone = np.zeros(len(self.strings), dtype=np.int32), self.depth[1:2].sum()
        first[self.string[:alone]] = np.arange(1, alone + 1)
        return first

    @property
    def size(self) -> Longs:
        """Strings of each node but the root, int64 [nodes]."""
        return Ragged(self.depth).rows() + 1


@dataclass(frozen=True, eq=False)
class SegmentFeatures:
    """Features of whole segments: phrases of columns, entries of a lexicon.

    Parameters
    ----------
    tables : tuple of PhraseTable
        The attributes of all of them are numbered through.
    names : tuple of str
        The name of each attribute, for users who read weights.
    cell : int64 [V]
        The weights that there are: attribute times labels plus label, ascending.
    labels : int
    """

    tables: tuple[PhraseTable, ...]
    names: tuple[str, ...]
    cell: Longs
    labels: int

    def finder(self, longest: Ints, depth: int, width: int) -> PhraseFinder:
        """Return the finder of the weights of stretches, within the length limits of labels."""
        tries = [self._trie(table, longest) for table in self.tables]
        return PhraseFinder(tries, depth=depth, width=width)

    def _trie(self, table: PhraseTable, longest: Ints) -> PhraseTrie:
        first = np.searchsorted(self.cell, np.arange(len(self.names) + 1) * self.labels)
        weight, entry = _entries(first, table.attribute)
        node = Ragged(table.row).rows()[entry]
        label = self.cell[weight] % self.labels
        short = longest[label] >= table.size[node]
        counts = np.bincount(node[short] + 1, minlength=len(table.parent) + 1)
        return PhraseTrie(
            table.first,
            table.parent,
            table.string,
            Ragged.from_lengths(counts).offsets,
            label[short].astype(np.int32),
            weight[short].astype(np.int32),
        )

    def runs(self, finder: PhraseFinder, corpus: Corpus) -> Callable[[int, int], Extras]:
        """Return the function from a run of sentences, (first, end), to extras of stretches."""
        found = [table.tokens(corpus) for table in self.tables]
        tokens = np.stack(found) if found else np.zeros((0, corpus.n_tokens), dtype=np.int32)

        def run(first: int, end: int) -> Extras:
            offset = corpus.offsets[first : end + 1]
            own = tokens[:, offset[0] : offset[-1]]
            return finder.extras(offset - offset[0], np.ascontiguousarray(own))

        return run

    def extras(self, corpus: Corpus, longest: Ints, depth: int, width: int) -> Extras:
        """Return the weights of all stretches of a corpus, of labels that may be so long."""
        return self.runs(self.finder(longest, depth, width), corpus)(0, len(corpus))


def _entries(row: Longs, chosen: Longs) -> tuple[Longs, Longs]:
    """Return the entries of some rows, and which of the chosen each belongs to."""
    rows = Ragged(row)
    return rows.entries(chosen), rows.select(chosen).rows()


def segment_features(
    corpus: Corpus,
    gold: GoldSegments,
    labels: int,
    longest: Ints,
    columns: Sequence[str],
    lexicon: Lexicon | None,
    lexicon_column: str | None,
) -> SegmentFeatures:
    """Return the features of segments that gold segments have.

    Phrases of columns are taken from gold segments within the length limit of their label.

    Raises
    ------
    OptionError
        A column that the corpus does not have; a lexicon without phrases.
    """
    names: list[str] = []
    cells: list[Longs] = []
    tables: list[PhraseTable] = []
    short = (gold.end - gold.start) <= longest[gold.label]
    for column in columns:
        _check_column(corpus, column)
        texts = corpus.columns[column]
        values, ids = texts.values, texts.ids.tolist()
        numbers: dict[tuple[str, ...], int] = {}
        used = set()
        rows = zip(
            gold.start[short].tolist(),
            gold.end[short].tolist(),
            gold.label[short].tolist(),
            strict=True,
        )
        for start, end, label in rows:
            phrase = tuple(values[k] for k in ids[start:end])
            number = numbers.setdefault(phrase, len(names) + len(numbers))
            used.add(number * labels + label)
        names += [f"{column}={' '.join(phrase)}" for phrase in numbers]
        cells.append(np.asarray(sorted(used), dtype=np.int64))
        tables.append(PhraseTable.build(column, list(numbers.items())))
    if lexicon:
        column = lexicon_column if lexicon_column is not None else next(iter(corpus.columns))
        _check_column(corpus, column)
        pairs = []
        for name, phrases in lexicon.items():
            pairs += [(tuple(text_fields(str(phrase))), len(names)) for phrase in phrases]
            cells.append(len(names) * labels + np.arange(labels))
            names.append(f"lexicon={name}")
        if any(not phrase for phrase, _ in pairs):
            raise OptionError("the lexicon has an empty phrase")
        tables.append(PhraseTable.build(column, pairs))
    cell = np.concatenate(cells) if cells else np.zeros(0, dtype=np.int64)
    return SegmentFeatures(tuple(tables), tuple(names), cell, labels)


def _check_column(corpus: Corpus, column: str) -> None:
    if column not in corpus.columns:
        there = ", ".join(map(str, corpus.columns))
        raise OptionError(f"no column {column!r} of segments: the columns are {there}")


def observed_values(
    extras: Extras, gold: GoldSegments, offsets: Longs, depth: int, width: int, size: int
) -> Floats:
    """Return the count of each weight of segments in gold ones, float64 [size]."""
    own = np.searchsorted(offsets, gold.start, side="right") - 1
    length = gold.end - gold.start
    kept = length <= depth
    place = ((gold.start - offsets[own]) * depth + length - 1) * width + gold.label
    most = Ragged(offsets).longest * depth * width + 1
    wanted = distinct((own * most + place)[kept])
    sentence = Ragged(extras.offset).rows()
    keys = sentence * most + extras.cell
    at = np.searchsorted(wanted, keys)
    there = at < len(wanted)
    there[there] = wanted[at[there]] == keys[there]
    return np.bincount(extras.what[there], minlength=size).astype(np.float64)

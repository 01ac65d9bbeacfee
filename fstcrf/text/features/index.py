"""The index of the attributes that templates give, in memory and as the arrays of a model file.

Columns are interned. Strings that templates derive are computed once per distinct string. The
attributes of a template are tuples of string ids, packed into 64-bit keys. Rows are the numbers of
the keys, template by template. The arrays::

    strings.blob    uint8 [B]     all strings, UTF-8: member lists, then vocabularies
    strings.offsets int64 [n + 1] string i is blob[offsets[i] : offsets[i + 1]]
    strings.starts  int64 [v + 1] list or vocabulary j has the strings starts[j] : starts[j + 1]
    node.keys       uint64 [A]    keys, increasing within each family
    node.rows       int32 [A]     row of each key, a permutation
    node.starts     int64 [f + 1] family j has the keys starts[j] : starts[j + 1]
    node.prefix.*                 the same three for the prefixes of families beyond 63 bits
    arc.*                         the same for label pairs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bytes, Ints, Longs, Ragged
from fstcrf.errors import KernelError, ModelFileError, OptionError, TemplateError
from fstcrf.kernel.rows import check_keys, is_permutation
from fstcrf.kernel.strings import pack_strings
from fstcrf.text.corpus.corpus import Corpus, Sentence
from fstcrf.text.features.counting import counted_keys, numbered, prefix_keys
from fstcrf.text.features.derive import Plain
from fstcrf.text.features.design import Design, check_order
from fstcrf.text.features.hashed import Collisions, Hashed, check_bits
from fstcrf.text.features.keys import (
    IndexArrays,
    KeyTable,
    Metadata,
    Packing,
    Vocabulary,
    check_blob,
    check_kind,
    checked_array,
    unpack_strings,
    width_of,
)
from fstcrf.text.features.reader import (
    BOUNDARIES,
    Boundary,
    Encoder,
    Family,
    Reader,
    families,
    padding,
    sources,
    with_surroundings,
)
from fstcrf.text.features.tables import AttributeTables, Vocabularies
from fstcrf.text.features.template import TemplateSet, parse_template, tape_column

KIND = "templates"
VERSION = 1

TRAINED = ("pad", "skip")
"""Options of `build`; the boundary of Wapiti occurs only in imported models."""


class FeatureIndex:
    """The attributes of a set of templates; created by `build` or `from_arrays`.

    Parameters
    ----------
    templates : TemplateSet
        The templates, columns by name.
    boundary : {"pad", "skip", "wapiti"}
        Treatment of positions outside the sentence: the string is ``_B-1``, ``_B+1``, ...; or the
        attribute is dropped; or the string is ``_x-1``, ..., and strings are derived from it.
    node, arc : AttributeTables or Hashed
        Attributes of labels and of label pairs.

    Attributes
    ----------
    columns, tapes : tuple of str
        Columns and tapes of earlier taggers that the templates read.
    """

    def __init__(
        self,
        templates: TemplateSet,
        boundary: Boundary,
        *,
        node: AttributeTables | Hashed,
        arc: AttributeTables | Hashed,
    ) -> None:
        self.templates = templates
        self.boundary: Boundary = boundary
        self.node = node
        self.arc = arc
        self._families = (*node.families, *arc.families)
        self._read = {column for family in self._families for column in family.columns}
        self.columns = tuple(map(str, templates.columns))  # names, since `build` resolves numbers
        self.tapes = templates.tapes
        self._padding = padding(boundary, self._families)

    def observed(self) -> dict[str, tuple[str, ...]]:
        """Return the columns whose strings appear unchanged in attributes, with these strings.

        For hashed attributes no strings are known.
        """
        strings: dict[str, tuple[str, ...]] = {}
        for side in (self.node, self.arc):
            if not isinstance(side, AttributeTables):
                continue
            for source, vocabulary in side.vocabularies.by_source.items():
                if isinstance(source, Plain) and str(source.column) in self.columns:
                    strings[str(source.column)] = tuple(vocabulary.strings)
        return strings

    @classmethod
    def build(
        cls,
        corpus: Corpus,
        templates: TemplateSet,
        *,
        boundary: Boundary = "pad",
        min_count: int = 1,
        hash_bits: int | None = None,
        base: FeatureIndex | None = None,
    ) -> tuple[FeatureIndex, Design]:
        """Return the index of the attributes of a corpus, and the design of the corpus.

        Parameters
        ----------
        corpus : Corpus
            The training text, with the column ``tape_column(tape)`` for each tape that the
            templates read.
        templates : TemplateSet
            The templates.
        boundary : {"pad", "skip"}, default "pad"
            Treatment of positions outside the sentence. Bags and values always skip them.
        min_count : int, default 1
            Drop attributes of fewer tokens.
        hash_bits : int, optional
            Hash attributes into 2^hash_bits rows instead of keeping them by name.
        base : FeatureIndex, optional
            An index of the same templates and options: its attributes keep their rows, whether
            or not they occur, and new ones follow.

        Raises
        ------
        TemplateError
            A template that reads a column that the corpus does not have.
        DataError
            A value that is not a finite number.
        OptionError
            Options out of range, or other than the options of `base`.
        """
        cls.check_options(boundary, min_count, hash_bits)
        templates = templates.resolved(tuple(corpus.columns), data=corpus.source)
        corpus = with_surroundings(corpus, templates)
        node, arc = families(templates, arc=False), families(templates, arc=True)
        if base is not None:
            base.check_like(templates, boundary, hash_bits)
        if hash_bits is not None:
            index = cls.hashed(templates, boundary, hash_bits)
            return index, index.design(corpus)
        distance = padding(boundary, (*node, *arc))
        reader = Reader(corpus, reach=distance)
        for column in templates.columns:
            # refuses strings that no file can store
            pack_strings(reader.column(str(column)).values)
        old_node, old_arc = (None, None) if base is None else (base.node, base.arc)
        if isinstance(old_node, Hashed) or isinstance(old_arc, Hashed):
            raise OptionError("a hashed index cannot be continued by name")
        earlier = Vocabularies(distance, {}) if old_node is None else old_node.vocabularies
        vocabularies = earlier.extended(reader.strings, sources((*node, *arc)))
        encoder = Encoder(reader, vocabularies)
        node_tables, arc_tables = (
            numbered(
                group,
                vocabularies,
                partial(prefix_keys, encoder),
                lambda *packed: [counted_keys(encoder, *packed)],
                min_count=min_count,
                base=old,
            )
            for group, old in ((node, old_node), (arc, old_arc))
        )
        index = cls(templates, boundary, node=node_tables, arc=arc_tables)
        return index, Design(node_tables.rows(reader), arc_tables.rows(reader) if arc else None)

    @classmethod
    def hashed(cls, templates: TemplateSet, boundary: Boundary, bits: int) -> FeatureIndex:
        """Return an index that hashes attributes into 2^bits rows."""
        node, arc = families(templates, arc=False), families(templates, arc=True)
        return cls(templates, boundary, node=Hashed(node, bits), arc=Hashed(arc, bits))

    def design(self, corpus: Corpus, /) -> Design:
        """Return the attributes of every token; unknown attributes are absent.

        Raises
        ------
        TemplateError
            A column that the templates read is missing.
        DataError
            A value that is not a finite number.
        """
        return self.runs(corpus)(0, len(corpus))

    def runs(self, corpus: Corpus) -> Callable[[int, int], Design]:
        """Return the function from a run of sentences, (first, end), to its design.

        Use it for many runs of one corpus: work per distinct string is shared.

        Raises
        ------
        TemplateError
            A column that the templates read is missing.
        """
        reader = self.reader(corpus)
        node = self.node.runs(reader)
        if not self.arc.families:
            return lambda first, end: Design(node(first, end))
        arc = self.arc.runs(reader)
        return lambda first, end: Design(node(first, end), arc(first, end))

    def of_one(self, sentence: Sentence) -> Design | None:
        """Return the attributes of a sentence quickly; `None` if the templates need a full reader.

        Parameters
        ----------
        sentence : Sentence
            Not empty, with all columns that the templates read, of strings.
        """
        if isinstance(self.node, Hashed) or self.arc.families or self.tapes:
            return None
        rows = self.node.of_one(sentence)
        return None if rows is None else Design(rows)

    def reader(self, corpus: Corpus, *, open_tapes: Sequence[str] = ()) -> Reader:
        """Return a reader of a corpus, after checking its columns.

        Parameters
        ----------
        corpus : Corpus
        open_tapes : sequence of str
            Tapes that need no column, because their families are looked up separately.

        Raises
        ------
        TemplateError
            A column is missing.
        """
        columns = (*corpus.columns, *map(tape_column, open_tapes))
        if not self._read <= set(columns):
            self.templates.resolved(columns, data=corpus.source)
        return Reader(with_surroundings(corpus, self.templates), reach=self._padding)

    @property
    def n_node_rows(self) -> int:
        """Number of attributes of single labels."""
        return self.node.n_rows

    @property
    def n_arc_rows(self) -> int:
        """Number of attributes of label pairs."""
        return self.arc.n_rows

    @property
    def hash_bits(self) -> int | None:
        """The k of 2^k hashed rows; `None` if attributes are kept by name."""
        return self.node.bits if isinstance(self.node, Hashed) else None

    def attribute(self, row: int, *, arc: bool = False) -> str:
        """Return the text of an attribute, such as ``U05:in/the``; ``#row`` if it is hashed.

        Raises
        ------
        OptionError
            There is no such row.
        """
        return self.attributes([row], arc=arc)[0]

    def attributes(self, rows: Iterable[int], *, arc: bool = False) -> list[str]:
        """Return the texts of many attributes.

        Raises
        ------
        OptionError
            There is no such row.
        """
        side = self._side(arc=arc)
        wanted = np.fromiter(rows, dtype=np.int64)
        outside = wanted[(wanted < 0) | (wanted >= side.n_rows)]
        if len(outside):
            raise OptionError(f"row {outside[0]} of an index with {side.n_rows} rows")
        if isinstance(side, Hashed):
            return [f"#{row}" for row in wanted.tolist()]
        return side.attributes(wanted)

    def row(self, attribute: str, *, arc: bool = False) -> int | None:
        """Return the row of an attribute by its text; `None` if it is unknown.

        Two attributes share a text only if strings contain the template's separators; then the row
        of one of them is returned. A hashed attribute is found if its text can be split in one way
        only.
        """
        return self._side(arc=arc).find(attribute)

    def collisions(self, corpus: Corpus) -> Collisions:
        """Return the number of label attributes that share a hashed row.

        Raises
        ------
        OptionError
            The index is not hashed.
        """
        if not isinstance(self.node, Hashed):
            raise OptionError("only a hashed index has collisions: build it with hash_bits=")
        return self.node.collisions(self.reader(corpus))

    def renumbered(self, order: Ints, *, arc: bool = False) -> FeatureIndex:
        """Return the index under other rows: row ``r`` becomes ``order[r]``.

        Raises
        ------
        ShapeError
            `order` is no permutation of the rows.
        OptionError
            The index is hashed.
        """
        side = self._side(arc=arc)
        if isinstance(side, Hashed):
            raise OptionError("hashed rows cannot be renumbered")
        new = side.renumbered(check_order(order, side.n_rows))
        node, arc_tables = (self.node, new) if arc else (new, self.arc)
        return FeatureIndex(self.templates, self.boundary, node=node, arc=arc_tables)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the index as arrays, for a model file (see `from_arrays`)."""
        return _index_arrays(self.templates, self.node, self.arc)

    def metadata(self) -> dict[str, str | int | list[str] | None]:
        """Return the rest of the index as JSON values."""
        return {
            "kind": KIND,
            "version": VERSION,
            "templates": str(self.templates),
            "lists": list(self.templates.lists),
            "boundary": self.boundary,
            "hash_bits": self.hash_bits,
        }

    @classmethod
    def from_arrays(cls, arrays: IndexArrays, metadata: Metadata) -> FeatureIndex:
        """Return the index that `arrays` and `metadata` describe.

        Raises
        ------
        ModelFileError
            An array or entry is missing or damaged.
        """
        templates, boundary, hash_bits = _read_templates(arrays, metadata)
        if hash_bits is not None:
            return cls.hashed(templates, boundary, hash_bits)
        node, arc = families(templates, arc=False), families(templates, arc=True)
        distance = padding(boundary, (*node, *arc))
        tables = _read_tables(arrays, node, arc, distance=distance, boundary=boundary)
        return cls(templates, boundary, node=tables[0], arc=tables[1])

    def check_like(self, templates: TemplateSet, boundary: Boundary, hash_bits: int | None) -> None:
        """Check that another index may extend this one.

        Raises
        ------
        OptionError
            It has other templates or options.
        """
        if self.templates != templates:
            raise OptionError("a warm start needs the same templates as the model it starts from")
        if (self.boundary, self.hash_bits) != (boundary, hash_bits):
            raise OptionError(
                f"the model to start from has boundary {self.boundary!r} and hash_bits "
                f"{self.hash_bits}, not {boundary!r} and {hash_bits}"
            )

    @staticmethod
    def check_options(boundary: str, min_count: int, hash_bits: int | None) -> None:
        """Check the options of `build`.

        Raises
        ------
        OptionError
            Options out of range.
        """
        if boundary not in TRAINED:
            raise OptionError(f"boundary is {boundary!r}, expected one of {TRAINED}")
        if min_count < 1:
            raise OptionError(f"min_count is {min_count}, expected at least 1")
        if check_bits(hash_bits) is not None and min_count > 1:
            raise OptionError(
                "min_count has no meaning with hash_bits: hashed rows are not counted"
            )

    def _side(self, *, arc: bool) -> AttributeTables | Hashed:
        return self.arc if arc else self.node


# --- Arrays and JSON values -----------------------------------------------------------------------


def _index_arrays(
    templates: TemplateSet, node: AttributeTables | Hashed, arc: AttributeTables | Hashed
) -> dict[str, NDArray[np.generic]]:
    """Return strings, keys and rows as flat arrays."""
    groups: list[Sequence[str]] = list(templates.lists.values())
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, side in (("node", node), ("arc", arc)):
        if isinstance(side, AttributeTables):
            prefixes = [table for packing in side.packings for table in packing.prefixes]
            arrays |= _flat(name, side.keys) | _flat(f"{name}.prefix", prefixes)
    if isinstance(node, AttributeTables):
        groups += [v.strings for v in node.vocabularies.by_source.values()]
    blob, offsets = pack_strings([string for group in groups for string in group])
    starts = Ragged.from_lengths(map(len, groups)).offsets
    return arrays | {"strings.blob": blob, "strings.offsets": offsets, "strings.starts": starts}


def _read_templates(
    arrays: IndexArrays, metadata: Metadata
) -> tuple[TemplateSet, Boundary, int | None]:
    """Return the templates, the boundary and the hash bits of a model file."""
    check_kind(metadata, KIND, VERSION)
    text, names = metadata.get("templates"), metadata.get("lists")
    boundary, bits = metadata.get("boundary"), metadata.get("hash_bits")
    if not isinstance(text, str) or not isinstance(names, list):  # JSON may contain any value
        raise ModelFileError("the index names no templates")
    if boundary not in BOUNDARIES:
        raise ModelFileError(f"the index has boundary {boundary!r}, expected one of {BOUNDARIES}")
    blob, offsets, bounds = _groups(arrays)
    groups = [
        unpack_strings(*_cut(blob, offsets, a, b), "strings")
        for a, b in pairwise(bounds[: len(names) + 1])
    ]
    try:
        lists = dict(zip(names, groups, strict=True))
        templates = parse_template(text, lists=lists, source="the model's templates")
        hash_bits = check_bits(bits)
    except (TemplateError, OptionError, TypeError, ValueError) as error:
        raise ModelFileError(f"the index is damaged: {error}") from None
    if any(isinstance(column, int) for column in templates.columns):
        raise ModelFileError("the index reads columns by number, expected names")
    return templates, cast("Boundary", boundary), hash_bits


def _read_tables(
    arrays: IndexArrays,
    node: Sequence[Family],
    arc: Sequence[Family],
    *,
    distance: int,
    boundary: Boundary,
) -> tuple[AttributeTables, AttributeTables]:
    """Return the attributes of a model file, of labels and of label pairs."""
    (blob, offsets, bounds), used = _groups(arrays), sources((*node, *arc))
    if len(bounds) - 1 < len(used):
        raise ModelFileError(f"the index has {len(bounds) - 1} vocabularies, expected {len(used)}")
    cuts = pairwise(bounds[len(bounds) - 1 - len(used) :])
    by_source = {
        s: Vocabulary.from_blob(*_cut(blob, offsets, a, b), "a vocabulary of the index")
        for s, (a, b) in zip(used, cuts, strict=True)
    }
    vocabularies = Vocabularies(distance, by_source, boundary)
    return (
        _side(arrays, "node", tuple(node), vocabularies),
        _side(arrays, "arc", tuple(arc), vocabularies),
    )


def _flat(name: str, tables: Sequence[KeyTable]) -> dict[str, NDArray[np.generic]]:
    keys = [table.keys for table in tables] or [np.empty(0, dtype=np.uint64)]
    rows = [table.rows for table in tables] or [np.empty(0, dtype=np.int32)]
    return {
        f"{name}.keys": np.concatenate(keys),
        f"{name}.rows": np.concatenate(rows),
        f"{name}.starts": Ragged.from_lengths(map(len, tables)).offsets,
    }


def _groups(arrays: IndexArrays) -> tuple[Bytes, Longs, list[int]]:
    """Return all strings as a blob, and the bounds of member lists and vocabularies."""
    blob = checked_array(arrays, "strings.blob", np.uint8)
    offsets = checked_array(arrays, "strings.offsets", np.int64)
    check_blob(blob, offsets, "strings")
    return blob, offsets, _bounds(arrays, "strings.starts", len(offsets) - 1)


def _cut(blob: Bytes, offsets: Longs, first: int, end: int) -> tuple[Bytes, Longs]:
    """Return the strings ``first : end`` of a blob as a separate blob."""
    bounds = offsets[first : end + 1]
    return blob[bounds[0] : bounds[-1]], bounds - bounds[0]


def _bounds(arrays: IndexArrays, name: str, size: int) -> list[int]:
    starts = checked_array(arrays, name, np.int64)
    ends = (0, size)
    if not len(starts) or (starts[0], starts[-1]) != ends or np.any(starts[1:] < starts[:-1]):
        raise ModelFileError(f"{name} does not partition {size} entries")
    return list(starts.tolist())


def _read_flat(arrays: IndexArrays, name: str) -> list[KeyTable]:
    keys = checked_array(arrays, f"{name}.keys", np.uint64)
    rows = checked_array(arrays, f"{name}.rows", np.int32)
    if len(keys) != len(rows):
        raise ModelFileError(f"{name} has {len(keys)} keys and {len(rows)} rows")
    bounds = _bounds(arrays, f"{name}.starts", len(keys))
    tables = [KeyTable(keys[a:b], rows[a:b]) for a, b in pairwise(bounds)]
    try:
        for table in tables:
            check_keys(table.keys)
    except KernelError:
        raise ModelFileError(f"{name}.keys do not increase") from None
    return tables


def _side(
    arrays: IndexArrays, name: str, families: tuple[Family, ...], vocabularies: Vocabularies
) -> AttributeTables:
    keys, prefixes = _read_flat(arrays, name), _read_flat(arrays, f"{name}.prefix")
    if len(keys) != len(families):
        raise ModelFileError(f"{name} has {len(keys)} families, the templates {len(families)}")
    _check_permutation(checked_array(arrays, f"{name}.rows", np.int32), name)
    for table in prefixes:
        _check_permutation(table.rows, f"{name}.prefix")
    remaining = iter(prefixes)
    packings = tuple(_packing(f, vocabularies, remaining, name) for f in families)
    if next(remaining, None) is not None:
        raise ModelFileError(f"{name}.prefix has more tables than the templates need")
    for family, packing, table in zip(families, packings, keys, strict=True):
        _check_keys(family, packing, table, vocabularies, name)
    return AttributeTables(families, vocabularies, packings, tuple(keys), sum(map(len, keys)))


def _packing(
    family: Family, vocabularies: Vocabularies, prefixes: Iterator[KeyTable], name: str
) -> Packing:
    widths = [width_of(vocabularies.size(source)) for source in family.sources]
    try:
        return Packing.fitted(widths, lambda _: next(prefixes))
    except StopIteration:
        raise ModelFileError(f"{name}.prefix has fewer tables than the templates need") from None


def _check_permutation(rows: Ints, name: str) -> None:
    if not is_permutation(rows):
        raise ModelFileError(f"{name}.rows is not a permutation of its {len(rows)} rows")


def _check_keys(
    family: Family, packing: Packing, table: KeyTable, vocabularies: Vocabularies, name: str
) -> None:
    """Check that every key consists of ids of existing strings."""
    damaged = ModelFileError(f"{name}.keys holds numbers of strings that do not exist")
    sizes = [vocabularies.size(source) for source in family.sources]
    if not sizes and table.keys.any():  # a family without strings has one attribute, the key 0
        raise damaged
    try:
        if not packing.prefixes:
            check_keys(table.keys, packing.widths, sizes)
            return
        codes = packing.unpack(table.keys)
    except (IndexError, KernelError):
        raise damaged from None
    if any(np.any(code >= np.uint64(size)) for code, size in zip(codes, sizes, strict=True)):
        raise damaged
    again, _ = packing.pack(codes, len(table))
    if not np.array_equal(again, table.keys):
        raise damaged

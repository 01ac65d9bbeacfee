"""The index of the attributes that templates give.

============== ==============================================================
FeatureIndex   attributes ↔ rows, and the design matrix of any corpus
============== ==============================================================

Columns are interned; what templates derive from them is computed once per distinct string; the
attributes of a template are tuples of string numbers packed into 64-bit keys; rows are the
numbers of the keys, template by template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.corpus import Corpus, Sentence
from fstcrf.errors import OptionError
from fstcrf.features.design import Design, check_order
from fstcrf.features.families import Boundary, families, padding, sources
from fstcrf.features.hashed import Collisions, Hashed
from fstcrf.features.hashing import check_bits
from fstcrf.features.reader import Reader
from fstcrf.features.storage import index_arrays, index_metadata, read_tables, read_templates
from fstcrf.features.tables import Tables, Vocabularies, fitted
from fstcrf.features.template import TemplateSet, tape_column

__all__ = ["FeatureIndex"]

TRAINED = ("pad", "skip")
"""What `build` knows; the boundary of Wapiti comes with its models."""


class FeatureIndex:
    """The attributes of a set of templates; made by `build` or `from_arrays`.

    Parameters
    ----------
    templates : TemplateSet
        The templates, columns by name.
    boundary : {"pad", "skip", "wapiti"}
        A string outside the sentence is ``_B-1``, ``_B+1``, ..., or drops the attribute; or it is
        ``_x-1``, ..., and strings are derived from it.
    node, arc : Tables or Hashed
        Attributes of labels and of label pairs.
    """

    def __init__(
        self,
        templates: TemplateSet,
        boundary: Boundary,
        *,
        node: Tables | Hashed,
        arc: Tables | Hashed,
    ) -> None:
        self.templates = templates
        self.boundary: Boundary = boundary
        self.node = node
        self.arc = arc
        self._families = (*node.families, *arc.families)
        self._columns = {column for family in self._families for column in family.columns}
        # Asked for with every sentence.
        self._names = tuple(map(str, templates.columns))  # names since `build`
        self._tapes = templates.tapes
        self._padding = padding(boundary, self._families)

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
        """Return the index of the attributes of a corpus, and the corpus's design.

        Parameters
        ----------
        corpus : Corpus
            The training text, with the column ``tape_column(tape)`` for each tape that is read.
        templates : TemplateSet
            The templates.
        boundary : {"pad", "skip"}, default "pad"
            What a string outside the sentence is. Bags and values are skipped there always.
        min_count : int, default 1
            Leave out attributes that fewer tokens have.
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
            Options outside what they may be, or other than those of `base`.
        """
        _check_options(boundary, min_count, hash_bits)
        templates = templates.resolved(tuple(corpus.columns), data=corpus.source)
        node, arc = families(templates, arc=False), families(templates, arc=True)
        if base is not None:
            base.check_like(templates, boundary, hash_bits)
        if hash_bits is not None:
            hashed = Hashed(node, hash_bits), Hashed(arc, hash_bits)
            index = cls(templates, boundary, node=hashed[0], arc=hashed[1])
            return index, index.design(corpus)
        distance = padding(boundary, (*node, *arc))
        reader = Reader(corpus, reach=distance)
        old_node, old_arc = (None, None) if base is None else (base.node, base.arc)
        if isinstance(old_node, Hashed) or isinstance(old_arc, Hashed):
            raise OptionError("a hashed index cannot be continued by name")
        known = Vocabularies(distance, {}) if old_node is None else old_node.vocabularies
        vocabularies = known.extended(reader, sources((*node, *arc)))
        node_tables, node_rows = fitted(
            reader, node, vocabularies, min_count=min_count, base=old_node
        )
        arc_tables, arc_rows = fitted(reader, arc, vocabularies, min_count=min_count, base=old_arc)
        index = cls(templates, boundary, node=node_tables, arc=arc_tables)
        return index, Design(node_rows, arc_rows if arc else None)

    def design(self, corpus: Corpus, /) -> Design:
        """Return the attributes of every token; those the index does not know are absent.

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

        For many runs of one corpus: what is done per distinct string is done once.

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
        """Return the attributes of a sentence, where there is a short way to them.

        Parameters
        ----------
        sentence : Sentence
            Not empty, with all columns that are read, of strings.
        """
        if isinstance(self.node, Hashed) or self.arc.families or self._tapes:
            return None
        rows = self.node.of_one(sentence)
        return None if rows is None else Design(rows)

    def reader(self, corpus: Corpus, *, open_tapes: Sequence[str] = ()) -> Reader:
        """Return a pass over a corpus that has the columns which the templates read.

        Parameters
        ----------
        corpus : Corpus
        open_tapes : sequence of str
            Tapes that need no column: their families are not looked up as they are.

        Raises
        ------
        TemplateError
            A column is missing.
        """
        given = (*corpus.columns, *map(tape_column, open_tapes))
        if not self._columns <= set(given):
            self.templates.resolved(given, data=corpus.source)
        return Reader(corpus, reach=self._padding)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the templates read, without tapes."""
        return self._names

    @property
    def tapes(self) -> tuple[str, ...]:
        """Tapes of earlier taggers that the templates read."""
        return self._tapes

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
        """The k of 2^k hashed rows; None when attributes are kept by name."""
        return self.node.bits if isinstance(self.node, Hashed) else None

    def attribute(self, row: int, *, arc: bool = False) -> str:
        """Return the text of an attribute, such as ``U05:in/the``; ``#row`` when it is hashed.

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
        """Return the row of an attribute by its text; None when it is unknown.

        Two attributes have one text only where strings hold the template's separators; then it
        is one of theirs. Hashed attributes are found where the text can be cut in one way.
        """
        return self._side(arc=arc).find(attribute)

    def collisions(self, corpus: Corpus) -> Collisions:
        """Return how many attributes of single labels share a hashed row.

        Raises
        ------
        OptionError
            The index is not hashed.
        """
        if not isinstance(self.node, Hashed):
            raise OptionError("only a hashed index has collisions: build it with hash_bits=")
        return self.node.collisions(self.reader(corpus))

    def renumbered(self, order: NDArray[np.int32], *, arc: bool = False) -> FeatureIndex:
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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the index as arrays, for a model file (see `from_arrays`)."""
        return index_arrays(self.templates, self.node, self.arc)

    def metadata(self) -> dict[str, Any]:
        """Return the rest of the index as JSON values."""
        return index_metadata(self.templates, self.boundary, self.hash_bits)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]
    ) -> FeatureIndex:
        """Return the index that `arrays` and `metadata` describe.

        Raises
        ------
        ModelFileError
            Something is missing, or not what it must be.
        """
        templates, boundary, hash_bits = read_templates(arrays, metadata)
        node, arc = families(templates, arc=False), families(templates, arc=True)
        if hash_bits is not None:
            return cls(
                templates, boundary, node=Hashed(node, hash_bits), arc=Hashed(arc, hash_bits)
            )
        distance = padding(boundary, (*node, *arc))
        tables = read_tables(arrays, node, arc, distance=distance, boundary=boundary)
        return cls(templates, boundary, node=tables[0], arc=tables[1])

    def check_like(self, templates: TemplateSet, boundary: Boundary, hash_bits: int | None) -> None:
        """Check that another index may continue this one.

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

    def _side(self, *, arc: bool) -> Tables | Hashed:
        return self.arc if arc else self.node


def _check_options(boundary: str, min_count: int, hash_bits: int | None) -> None:
    if boundary not in TRAINED:
        raise OptionError(f"boundary is {boundary!r}, expected one of {TRAINED}")
    if min_count < 1:
        raise OptionError(f"min_count is {min_count}, expected at least 1")
    if check_bits(hash_bits) is not None and min_count > 1:
        raise OptionError("min_count has no meaning with hash_bits: hashed rows are not counted")

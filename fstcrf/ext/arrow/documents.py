"""Documents of a `TokenDecoder` in tables: scores of word pieces, or texts and a function of them.

===============================  ==============================================================
``logits``                       ``list<list<float>>``: for each piece a score of each label
``offsets``, ``offset_mapping``  ``list<list<int>>``: where each piece begins and ends in the text
``word_ids``, optional           ``list<int>``: the word of each piece, null for special tokens
``text``, optional               ``string``
===============================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

from fstcrf.arrays import Array
from fstcrf.errors import DataError, FstcrfError, NoPathError, OptionError
from fstcrf.ext.arrow.columns import is_list, is_string, pyarrow
from fstcrf.ext.tokens import Pieces, TextSpan, TokenDecoder
from fstcrf.taggers.tagger import OnNoPath

if TYPE_CHECKING:
    import pyarrow as pa

PiecesOf: TypeAlias = Callable[[Sequence[str]], Sequence[Pieces]]
"""Texts → what a model says of each."""

_OFFSETS = ("offsets", "offset_mapping")


@dataclass(frozen=True, slots=True)
class DocumentJob:
    """The decoder, the columns it reads, and the output schema."""

    decoder: TokenDecoder
    columns: tuple[str, ...]
    schema: pa.Schema
    pieces: PiecesOf | None
    on_no_path: OnNoPath
    threads: int
    least: float

    @classmethod
    def of(
        cls,
        decoder: TokenDecoder,
        schema: pa.Schema,
        column: str | None,
        outputs: Sequence[str] | None,
        prefix: str,
        *,
        pieces: PiecesOf | None = None,
        on_no_path: OnNoPath = "error",
        threads: int = 1,
        least: float | None = None,
        **others: object,
    ) -> Self:
        """Return the job for batches of a schema; errors as for `tag_batches`."""
        odd = next((name for name, value in others.items() if value is not None), None)
        if odd is not None:
            raise OptionError(f"{odd}= is for taggers of sentences, and this is a TokenDecoder")
        if outputs is not None and tuple(outputs) != ("spans",):
            raise OptionError(f"outputs is {outputs!r}: a TokenDecoder gives spans, ['spans']")
        if on_no_path == "relax":
            raise OptionError("on_no_path='relax' is for taggers of sentences: use 'skip' here")
        if not 0.0 <= (least or 0.0) <= 1.0:
            raise OptionError(f"min_confidence is {least}, expected a probability, 0 to 1")
        columns = _columns(schema, column, texts=pieces is not None)
        name = f"{prefix}spans"
        if name in schema.names:
            raise OptionError(
                f"the table has a column {name!r} already: give another prefix, such as "
                "prefix='tagged_'"
            )
        whole = schema.append(pyarrow().field(name, pyarrow().list_(_span_type())))
        return cls(decoder, columns, whole, pieces, on_no_path, threads, least or 0.0)

    def added(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the spans of documents; null where one is null, or is skipped."""
        arrays = [rows.column(name) for name in self.columns]
        missing = np.asarray(arrays[0].is_null().to_numpy(zero_copy_only=False))
        asked = np.flatnonzero(~missing).tolist()
        documents = self._documents(dict(zip(self.columns, arrays, strict=True)), asked)
        found = iter(self._decoded(documents, asked))
        spans = [None if silent else next(found) for silent in missing.tolist()]
        kept = [None if s is None else [x for x in s if x.probability >= self.least] for s in spans]
        values = [None if s is None else [x._asdict() for x in s] for s in kept]
        return [pyarrow().array(values, type=self.schema.field(-1).type)]

    def _documents(self, arrays: dict[str, pa.Array], asked: list[int]) -> list[Pieces]:
        if self.pieces is not None:
            (texts,) = arrays.values()
            made = list(self.pieces([texts[k].as_py() for k in asked]))
            if len(made) != len(asked):
                raise DataError(f"pieces returned {len(made)} documents for {len(asked)} texts")
            return made
        logits, places = (arrays[name] for name in self.columns[:2])
        others = [arrays.get(name) for name in ("word_ids", "text")]
        width = len(self.decoder.labels)
        return [
            Pieces(
                _matrix(logits[k], self.columns[0], width, k),
                _matrix(places[k], self.columns[1], 2, k),
                *(None if other is None else other[k].as_py() for other in others),
            )
            for k in asked
        ]

    def _decoded(self, documents: list[Pieces], rows: list[int]) -> list[list[TextSpan] | None]:
        try:
            found = self.decoder.decode_all(documents, threads=self.threads)
        except FstcrfError as error:
            if isinstance(error, NoPathError) and self.on_no_path == "skip":
                alive = self.decoder.lattices(documents).log_partition() > -np.inf
                kept = [one for one, there in zip(documents, alive, strict=True) if there]
                rest = iter(self.decoder.decode_all(kept, threads=self.threads))
                return [next(rest) if there else None for there in alive.tolist()]
            raise self._of_row(error, documents, rows) from None
        return list(found)

    def _of_row(self, error: FstcrfError, documents: list[Pieces], rows: list[int]) -> FstcrfError:
        """Return the error of the first document that has one by itself, with its row."""
        for k, document in zip(rows, documents, strict=True):
            try:
                self.decoder.decode_all([document])
            except FstcrfError as own:
                kind = NoPathError if isinstance(own, NoPathError) else DataError
                text = str(own).removeprefix("document 0, ").removeprefix("document 0: ")
                return kind(text, sentence=k)
        return error


def _columns(schema: pa.Schema, column: str | None, *, texts: bool) -> tuple[str, ...]:
    """Return the columns that are read: of texts, or of logits, offsets and what else there is."""
    there = ", ".join(schema.names) or "none"
    if texts:
        name = "text" if column is None else column
        if name not in schema.names or not is_string(schema.field(name).type):
            raise DataError(f"no column {name!r} of text: set column= to one of {there}")
        return (name,)
    if column is not None:
        raise OptionError("column= names the texts that pieces= is asked about; pieces= is missing")
    places = [name for name in _OFFSETS if name in schema.names]
    if "logits" not in schema.names or not places:
        raise DataError(
            f"no columns 'logits' and 'offsets', which a TokenDecoder reads; there are {there}; or "
            "pass pieces=, a function that returns the Pieces of texts"
        )
    for name in ("logits", places[0]):
        kind = schema.field(name).type
        if not is_list(kind) or not is_list(kind.value_type):
            raise DataError(f"column {name!r} is {kind}, expected lists of lists of numbers")
    return ("logits", places[0], *(n for n in ("word_ids", "text") if n in schema.names))


def _matrix(row: pa.ListScalar, name: str, width: int, number: int) -> Array:
    """Return the lists of a row as an array, [pieces, width]."""
    compute, lists = pyarrow().compute, row.values
    sizes = [] if lists is None else compute.list_value_length(lists).to_pylist()
    flat = None if lists is None else compute.list_flatten(lists)
    if flat is None or flat.null_count or sizes != [width] * len(sizes):
        raise DataError(f"{name!r} is null or ragged, expected {width} numbers", sentence=number)
    found: Array = flat.to_numpy(zero_copy_only=False).reshape(len(sizes), width)
    return found


def _span_type() -> pa.DataType:
    arrow = pyarrow()
    places = [("start", arrow.int64()), ("end", arrow.int64())]
    return arrow.struct([*places, ("type", arrow.string()), ("probability", arrow.float64())])

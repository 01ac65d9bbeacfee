"""Sentences of interned columns, tagging schemes and spans."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.text.corpus.columns import ColumnWriter, read_columns, stream_columns, write_columns
    from fstcrf.text.corpus.conllu import read_conllu, stream_conllu
    from fstcrf.text.corpus.corpus import Column, Corpus, Sentence, concatenated
    from fstcrf.text.corpus.items import read_items, stream_items
    from fstcrf.text.corpus.schemes import (
        Scheme,
        Span,
        SpanArrays,
        convert,
        convert_column,
        labels_from_spans,
        legal_transitions,
        named_scheme,
        span_arrays,
        spans,
    )

__all__ = [
    "Column",
    "ColumnWriter",
    "Corpus",
    "Scheme",
    "Sentence",
    "Span",
    "SpanArrays",
    "concatenated",
    "convert",
    "convert_column",
    "labels_from_spans",
    "legal_transitions",
    "named_scheme",
    "read_columns",
    "read_conllu",
    "read_items",
    "span_arrays",
    "spans",
    "stream_columns",
    "stream_conllu",
    "stream_items",
    "write_columns",
]

__getattr__ = importer(
    __name__,
    {
        "Column": "corpus",
        "ColumnWriter": "columns",
        "Corpus": "corpus",
        "Scheme": "schemes",
        "Sentence": "corpus",
        "Span": "schemes",
        "SpanArrays": "schemes",
        "concatenated": "corpus",
        "convert": "schemes",
        "convert_column": "schemes",
        "labels_from_spans": "schemes",
        "legal_transitions": "schemes",
        "named_scheme": "schemes",
        "read_columns": "columns",
        "read_conllu": "conllu",
        "read_items": "items",
        "span_arrays": "schemes",
        "spans": "schemes",
        "stream_columns": "columns",
        "stream_conllu": "conllu",
        "stream_items": "items",
        "write_columns": "columns",
    },
)

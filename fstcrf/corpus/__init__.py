"""Sentences of interned columns, tagging schemes and spans."""

from fstcrf.corpus.columns import ColumnWriter, read_columns, stream_columns, write_columns
from fstcrf.corpus.conllu import read_conllu, stream_conllu
from fstcrf.corpus.corpus import Column, Corpus, Sentence, concatenated
from fstcrf.corpus.files import atomic_write, check_writable, open_binary, open_text
from fstcrf.corpus.items import read_items, stream_items
from fstcrf.corpus.schemes import (
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
    "atomic_write",
    "check_writable",
    "concatenated",
    "convert",
    "convert_column",
    "labels_from_spans",
    "legal_transitions",
    "named_scheme",
    "open_binary",
    "open_text",
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

"""Sentences of interned columns, tagging schemes and spans.

================= ============================================================
Column            one column of a corpus: an id per token, the distinct strings
Sentence          one sentence: its columns as lists of strings
Corpus            many sentences as a struct of arrays
read_columns      a column file
stream_columns    a column file of any size, some sentences at a time
write_columns     a corpus as a column file
ColumnWriter      the same, batch by batch
read_conllu       a CoNLL-U file
stream_conllu     a CoNLL-U file of any size, some sentences at a time
Scheme            a tagging scheme as a table
named_scheme      the scheme of a name
legal_transitions which label may follow which
Span              start, end and type
spans             the spans of labelled tokens
span_arrays       the same for a whole column
SpanArrays        what it returns
labels_from_spans labels that say these spans
convert           labels in another scheme
convert_column    the same for a column of a corpus
read_items        a file of attribute lists, CRFsuite's item text
stream_items      the same, some sentences at a time
open_binary       a file, standard input or gzip as bytes
open_text         a small file as text
atomic_write      a file that appears only when it is complete
check_writable    whether it could
concatenated      several corpora as one
================= ============================================================
"""

from fstcrf.corpus.columns import ColumnWriter, read_columns, stream_columns, write_columns
from fstcrf.corpus.conllu import read_conllu, stream_conllu
from fstcrf.corpus.corpus import Column, Corpus, Sentence
from fstcrf.corpus.files import atomic_write, check_writable, open_binary, open_text
from fstcrf.corpus.items import read_items, stream_items
from fstcrf.corpus.joining import concatenated
from fstcrf.corpus.schemes import Scheme, legal_transitions, named_scheme
from fstcrf.corpus.span import (
    Span,
    SpanArrays,
    convert,
    convert_column,
    labels_from_spans,
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

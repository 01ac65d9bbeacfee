"""Sentences of interned columns, tagging schemes and spans."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.text.corpus.columns import ColumnWriter as ColumnWriter
    from fstcrf.text.corpus.columns import read_columns as read_columns
    from fstcrf.text.corpus.columns import stream_columns as stream_columns
    from fstcrf.text.corpus.columns import write_columns as write_columns
    from fstcrf.text.corpus.conllu import read_conllu as read_conllu
    from fstcrf.text.corpus.conllu import stream_conllu as stream_conllu
    from fstcrf.text.corpus.corpus import Column as Column
    from fstcrf.text.corpus.corpus import Corpus as Corpus
    from fstcrf.text.corpus.corpus import Sentence as Sentence
    from fstcrf.text.corpus.corpus import concatenated as concatenated
    from fstcrf.text.corpus.items import read_items as read_items
    from fstcrf.text.corpus.items import stream_items as stream_items
    from fstcrf.text.corpus.schemes import Scheme as Scheme
    from fstcrf.text.corpus.schemes import Span as Span
    from fstcrf.text.corpus.schemes import SpanArrays as SpanArrays
    from fstcrf.text.corpus.schemes import convert as convert
    from fstcrf.text.corpus.schemes import convert_column as convert_column
    from fstcrf.text.corpus.schemes import labels_from_spans as labels_from_spans
    from fstcrf.text.corpus.schemes import legal_transitions as legal_transitions
    from fstcrf.text.corpus.schemes import named_scheme as named_scheme
    from fstcrf.text.corpus.schemes import span_arrays as span_arrays
    from fstcrf.text.corpus.schemes import spans as spans

__all__, __getattr__ = importer(
    __name__,
    {
        "columns": "ColumnWriter read_columns stream_columns write_columns",
        "conllu": "read_conllu stream_conllu",
        "corpus": "Column Corpus Sentence concatenated",
        "items": "read_items stream_items",
        "schemes": "Scheme Span SpanArrays convert convert_column labels_from_spans "
        "legal_transitions named_scheme span_arrays spans",
    },
)

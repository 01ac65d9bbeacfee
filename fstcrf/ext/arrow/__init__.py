"""Tables of Arrow in, the same with labels, spans and probabilities out; Parquet files."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.arrow.answers import Output
    from fstcrf.ext.arrow.tables import (
        parquet_schema,
        sentence_columns,
        tag_batches,
        tag_parquet,
        tagged_schema,
    )

__all__ = [
    "Output",
    "parquet_schema",
    "sentence_columns",
    "tag_batches",
    "tag_parquet",
    "tagged_schema",
]

__getattr__ = importer(
    __name__,
    {
        "Output": "answers",
        "parquet_schema": "tables",
        "sentence_columns": "tables",
        "tag_batches": "tables",
        "tag_parquet": "tables",
        "tagged_schema": "tables",
    },
)

"""Tables of Arrow in, the same with labels, spans and probabilities out; Parquet files."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.arrow.answers import Output as Output
    from fstcrf.ext.arrow.tables import parquet_schema as parquet_schema
    from fstcrf.ext.arrow.tables import sentence_columns as sentence_columns
    from fstcrf.ext.arrow.tables import tag_batches as tag_batches
    from fstcrf.ext.arrow.tables import tag_parquet as tag_parquet
    from fstcrf.ext.arrow.tables import tagged_schema as tagged_schema

__all__, __getattr__ = importer(
    __name__,
    {
        "answers": "Output",
        "tables": "parquet_schema sentence_columns tag_batches tag_parquet tagged_schema",
    },
)

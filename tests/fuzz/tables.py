"""Parquet files and streams of Arrow, tagged."""

from __future__ import annotations

import io
from functools import cache
from importlib.util import find_spec
from typing import Any

import fstcrf
from fstcrf import CRF
from fstcrf.errors import FstcrfError
from fstcrf.ext.arrow import tag_parquet
from tests.fuzz.target import Target, folder, in_file, nothing

__all__ = ["TABLES"]


@cache
def tagger() -> CRF:
    return CRF.train([{"word": ["a", "b"], "y": ["A", "B"]}], "y", "U:%x[0,word]\nB")


def tables() -> list[Any]:
    import pyarrow as pa

    words = pa.table({"word": [["a", "b"], ["b"], []], "n": [1, 2, 3]})
    coded = pa.table({"word": pa.array([["a", "b"], None, ["c"]], pa.list_(pa.string()))})
    large = pa.table({"word": pa.array([["a"], ["b", "a"]], pa.large_list(pa.large_string()))})
    return [words, coded, large]


def parquet() -> list[bytes]:
    import pyarrow.parquet as pq

    found = []
    for table in tables():
        file = io.BytesIO()
        pq.write_table(table, file)
        found.append(file.getvalue())
    return found


def streams() -> list[bytes]:
    import pyarrow as pa

    found = []
    for table in tables():
        file = io.BytesIO()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        found.append(file.getvalue())
    return found


def tag_file(path: Any) -> int:
    return tag_parquet(tagger(), path, folder() / "tagged.parquet", column="word")


def tag_stream(data: bytes) -> None:
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(data).read_all()
        table.validate(full=True)  # what pyarrow itself would refuse is not ours to read
    except (pa.ArrowException, OSError, ValueError):
        raise fstcrf.errors.DataError("no stream") from None
    for batch in fstcrf.tag_batches(tagger(), table, column="word"):
        batch.validate(full=True)


TABLES = (
    (
        Target("parquet", parquet, in_file(tag_file), nothing, refuses=FstcrfError),
        Target("arrow", streams, tag_stream, nothing, refuses=FstcrfError),
    )
    if find_spec("pyarrow")
    else ()
)
"""Where pyarrow is installed."""

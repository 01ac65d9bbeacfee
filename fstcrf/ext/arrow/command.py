"""``fstcrf tag`` of Parquet files: a sentence in each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from fstcrf.cli.options import flag_of
from fstcrf.cli.progress import progress
from fstcrf.cli.tagging import Outcomes
from fstcrf.errors import DataError
from fstcrf.lazy import LazyModule
from fstcrf.taggers import Tagger

if TYPE_CHECKING:
    from fstcrf.ext import arrow
else:  # plain tagging does not wait for it
    arrow = LazyModule("fstcrf.ext.arrow")

_ENDING, _MAGIC = ".parquet", b"PAR1"
_SERVED = frozenset({
    "calibration", "columns", "dask", "decode", "grammar", "inputs", "min_confidence",
    "model_path", "on_no_path", "output", "overwrite", "probabilities", "threads", "weights",
    "workers",
})  # fmt: skip


def is_parquet(path: str) -> bool:
    """Return whether a file is a Parquet file, by its name or its first bytes."""
    if path == "-" or not Path(path).is_file():
        return path.endswith(_ENDING)
    with Path(path).open("rb") as file:
        return path.endswith(_ENDING) or file.read(len(_MAGIC)) == _MAGIC


def check_table(output: str, options: Mapping[str, Any]) -> None:
    """Raise the UsageError of options that are for text, or of no file to write."""
    if output == "-" or not output.endswith(_ENDING):
        raise click.UsageError(f"a Parquet file is tagged into another: -o OUT{_ENDING}")
    check_options(options)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise the UsageError of several columns, and of options that were given and are for text."""
    columns = options["columns"]
    if columns is not None and len(columns) != 1:
        raise click.UsageError(
            "--columns names the one column of a Parquet file with the sentences"
        )
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in _SERVED and parameter.expose_value:
            raise click.UsageError(
                f"{flag_of(parameter)} is for text; a Parquet file gets labels and spans"
            )


def _column(options: Mapping[str, Any]) -> str | None:
    return None if options["columns"] is None else str(options["columns"][0])


@contextmanager
def _advising(path: str) -> Iterator[None]:
    """Word the error of a table without a column as the command line has it."""
    try:
        yield
    except DataError as error:
        if "set column=" not in error.message:
            raise
        text = error.message.replace("set column=", "set --columns")
        raise DataError(text, path=error.path or path) from None


class TableColumns(NamedTuple):
    """The columns of a Parquet file that hold the sentences, and the names of all."""

    sentences: tuple[str, ...]
    names: tuple[str, ...]


def table_columns(tagger: Tagger, path: str, options: Mapping[str, Any]) -> TableColumns:
    """Return the columns of a Parquet file; errors as for `tag_table`."""
    with _advising(path):
        schema = arrow.parquet_schema(path)
        found = arrow.sentence_columns(tagger, schema, column=_column(options))
        return TableColumns(found, tuple(schema.names))


def tag_table(tagger: Tagger, path: str, output: str, options: Mapping[str, Any]) -> Outcomes:
    """Write a Parquet file again, with columns of labels, spans and probabilities.

    Raises
    ------
    DataError
        The file has no such column, or is damaged.
    """
    outputs: tuple[arrow.Output, ...] | None = None
    if options["probabilities"]:
        outputs = ("labels", "spans", "probability", "probabilities")
    with _advising(path), progress(f"tagging {path}", "rows", output=output) as meter:

        def report(rows: int, total: int) -> None:
            meter.total = total
            meter.add(rows - meter.done)

        rows = arrow.tag_parquet(
            *(tagger, path, output),
            column=_column(options),
            outputs=outputs,
            on_no_path=options["on_no_path"],
            min_confidence=options["min_confidence"],
            calibration=options["calibration"],
            threads=options["threads"],
            report=report,
        )
    return Outcomes(sentences=rows)

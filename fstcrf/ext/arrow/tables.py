"""Tables of Arrow in, the same with labels, spans and probabilities out.

`tag_batches` maps an iterator of record batches to another one: Spark's ``mapInArrow``, Ray Data,
Dask and DuckDB call such functions. A row is a sentence, in one column, or in a column for each
column that the tagger reads:

============================  ========================================================
``list<struct<word, pos>>``   tokens with the columns, or the features, of the tagger
``list<string>``              the only column that it reads
``list<list<string>>``        attributes of each token
``string``                    text, which is cut into tokens
several ``list<string>``      named as the columns that the tagger reads
============================  ========================================================

A `TokenDecoder` reads documents, which `documents` describes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fstcrf.arrays import Ragged
from fstcrf.errors import DataError, NoPathError, OptionError
from fstcrf.ext.arrow.answers import (
    Output,
    check_least,
    fields_of,
    label_lists,
    labels_found,
    outputs_of,
    probability_lists,
    span_lists,
)
from fstcrf.ext.arrow.columns import (
    ADVICE,
    Tokenise,
    columns_of,
    columns_read,
    is_list,
    is_string,
    pyarrow,
    read_sentences,
    words,
)
from fstcrf.ext.arrow.documents import DocumentJob, PiecesOf
from fstcrf.ext.calibration.curves import Calibration
from fstcrf.ext.tokens import TokenDecoder
from fstcrf.files import atomic_write, path_name
from fstcrf.lazy import memoised, optional
from fstcrf.taggers.loading import load
from fstcrf.taggers.tagger import OnNoPath, Tagger
from fstcrf.text.corpus.collection import parquet_error

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 4096  # rows of a large batch that are tagged together
_BUFFER = 1 << 20  # bytes of a column that are read at once
_GROUP_BYTES = 1 << 26  # bytes of a row group in output


def tag_batches(
    tagger: Tagger | TokenDecoder | str | os.PathLike[str],
    batches: Iterable[pa.RecordBatch],
    *,
    column: str | None = None,
    outputs: Sequence[Output] | None = None,
    prefix: str = "",
    tokenise: Tokenise | None = None,
    on_no_path: OnNoPath = "error",
    min_confidence: float | None = None,
    calibration: Calibration | str | os.PathLike[str] | None = None,
    threads: int = 1,
    schema: pa.Schema | None = None,
    pieces: PiecesOf | None = None,
) -> pa.RecordBatchReader:
    """Tag record batches, and add columns of labels, spans and probabilities.

    Parameters
    ----------
    tagger : Tagger, TokenDecoder or path
        A tagger, or its file, so that processes elsewhere need not be sent it; each reads it once.
        A decoder reads the columns ``logits``, ``offsets`` and, if they exist, ``word_ids`` and
        ``text``, and adds ``spans`` of characters; besides the options `outputs`, `prefix`,
        `min_confidence`, `threads` and `on_no_path`, it accepts only `pieces` and `column`.
    batches : iterable of pyarrow.RecordBatch, or a table
        Rows are sentences. Or an object with ``__arrow_c_stream__``: a table of pyarrow, a
        DataFrame of Polars or pandas, a relation of DuckDB.
    column : str, optional
        The column with the sentences. When absent: ``"tokens"``, ``"text"``, the columns that the
        tagger reads, or the only column that may be it, the first of these that there is.
    outputs : sequence of {"labels", "spans", "probability", "probabilities"}, optional
        Columns to add (see `Output`); by default all but the last, and spans only if labels are
        labels of spans. A text's tokens are added in any case. For several tapes, labels, spans and
        probabilities are named ``"pos_labels"`` and so on.
    prefix : str
        In front of the names of these.
    tokenise : callable, optional
        How text becomes tokens; words and single other characters when absent.
    on_no_path : {"error", "skip", "relax"}
        As for `Tagger.decode`; with "skip", such a sentence has null values.
    min_confidence : float, optional
        Spans less probable than this are left out, and their labels are O; labels of tapes without
        spans become null.
    calibration : Calibration or path, optional
        Calibrates the probabilities of spans, before they are compared with the minimum, and the
        probabilities of labels of tapes without spans.
    threads : int
        The answer does not depend on it.
    schema : pyarrow.Schema, optional
        The schema of the batches, for the case that there are no batches.
    pieces : callable, optional
        For a `TokenDecoder`: returns the `Pieces` of a list of texts, which are in `column`, by
        default ``"text"``. Then no scores are read from the table.

    Returns
    -------
    pyarrow.RecordBatchReader
        An iterator of record batches that knows its schema beforehand, `tagged_schema`, and has
        ``__arrow_c_stream__``. A sentence that is null has null answers. Without input and
        `schema`, the result is a schema without columns.

    Raises
    ------
    MissingDependencyError
        pyarrow is not installed.
    DataError
        There is no such column, it holds something else, or a token is null; names columns and row.
    OptionError
        An output that there is not; a name that the table has already.
    NoPathError
        No label sequence of a sentence is legal, and `on_no_path` is error.
    """
    arrow = pyarrow()
    source, schema = _opened(batches, schema)
    if schema is None:
        return arrow.RecordBatchReader.from_batches(arrow.schema([]), [])
    said: dict[str, Any] = {"tokenise": tokenise, "calibration": _loaded(calibration)}
    said |= {"on_no_path": on_no_path, "threads": threads, "least": min_confidence}
    job = _job(tagger, schema, column, outputs, prefix, **said, pieces=pieces)
    return arrow.RecordBatchReader.from_batches(job.schema, _answers(job, source))


def tagged_schema(
    tagger: Tagger | TokenDecoder | str | os.PathLike[str],
    schema: pa.Schema,
    *,
    column: str | None = None,
    outputs: Sequence[Output] | None = None,
    prefix: str = "",
    pieces: PiecesOf | None = None,
) -> pa.Schema:
    """Return the schema of `tag_batches`'s result for batches of a schema.

    See `tag_batches` for parameters and errors.
    """
    return _job(tagger, schema, column, outputs, prefix, pieces=pieces).schema


def tag_parquet(
    tagger: Tagger | TokenDecoder | str | os.PathLike[str],
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    column: str | None = None,
    outputs: Sequence[Output] | None = None,
    prefix: str = "",
    tokenise: Tokenise | None = None,
    on_no_path: OnNoPath = "error",
    min_confidence: float | None = None,
    calibration: Calibration | str | os.PathLike[str] | None = None,
    threads: int = 1,
    report: Callable[[int, int], None] | None = None,
    pieces: PiecesOf | None = None,
) -> int:
    """Tag the rows of a Parquet file into another, some at a time; it is written whole or not.

    Parameters
    ----------
    source, target : path
        The files; they may be the same.
    tagger, column, outputs, prefix, tokenise, on_no_path, min_confidence, calibration, threads
        As for `tag_batches`, as `pieces` is.
    report : callable, optional
        Called occasionally with the number of tagged rows and the number of all rows.

    Returns
    -------
    int
        Rows.

    Raises
    ------
    DataError
        As for `tag_batches`, or no Parquet file; with the name of the file.
    MissingDependencyError, OptionError, NoPathError
        As for `tag_batches`.
    OSError
        A file cannot be read or written.
    """
    rows = 0
    with _parquet(source) as table, atomic_write(target) as file:
        tagged = tag_batches(
            *(tagger, _told(table, report)),
            column=column,
            outputs=outputs,
            prefix=prefix,
            tokenise=tokenise,
            on_no_path=on_no_path,
            min_confidence=min_confidence,
            calibration=calibration,
            threads=threads,
            schema=table.schema_arrow,
            pieces=pieces,
        )
        parquet = optional("pyarrow.parquet", ADVICE)
        with parquet.ParquetWriter(file, tagged.schema) as writer:
            for group in _row_groups(tagged):
                writer.write_table(group)
                rows += group.num_rows
    return rows


def _told(table: Any, report: Callable[[int, int], None] | None) -> Iterator[Any]:
    """Yield the batches of a file; report each once the next one is requested."""
    rows = 0
    for batch in table.iter_batches(batch_size=_ROWS):
        yield batch
        rows += len(batch)
        if report is not None:
            report(rows, table.metadata.num_rows)


def parquet_schema(source: str | os.PathLike[str]) -> pa.Schema:
    """Return the schema of a Parquet file; errors as for `tag_parquet`."""
    with _parquet(source) as table:
        return table.schema_arrow


def sentence_columns(
    tagger: Tagger, schema: pa.Schema, *, column: str | None = None
) -> tuple[str, ...]:
    """Return the columns of a schema that hold the sentences; errors as for `tag_batches`."""
    return columns_of(schema, column, columns_read(tagger, schema, column))


@contextmanager
def _parquet(source: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a Parquet file; errors about its contents name it."""
    parquet = optional("pyarrow.parquet", ADVICE)
    with Path(path_name(source)).open("rb") as given:
        try:
            # Piece by piece: a column of a row group may be larger than memory.
            yield parquet.ParquetFile(given, buffer_size=_BUFFER, pre_buffer=False)
        except DataError as error:
            raise DataError(
                error.message, path=os.fspath(source), sentence=error.sentence, token=error.token
            ) from None
        except Exception as error:  # noqa: BLE001 (pyarrow's have no common class)
            raise parquet_error(error, os.fspath(source)) from None


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of many batches: small row groups are slow to read."""
    arrow, kept, size = pyarrow(), [], 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield arrow.Table.from_batches(kept)
            kept, size = [], 0
    if kept:
        yield arrow.Table.from_batches(kept)


def _tagger_of(given: Tagger | TokenDecoder | str | os.PathLike[str]) -> Tagger | TokenDecoder:
    """Return a tagger; one of a file is kept, for other batches that this process will be given."""
    if not isinstance(given, str | os.PathLike):
        return given
    path = Path(path_name(given))
    known = path.stat()
    if path.is_dir():
        return load(path)
    return _read_tagger(str(path), known.st_size, known.st_mtime_ns, known.st_ino)


@memoised(2)
def _read_tagger(path: str, *_: int) -> Tagger | TokenDecoder:
    return load(path)


def _loaded(given: Calibration | str | os.PathLike[str] | None) -> Calibration | None:
    return Calibration.load(given) if isinstance(given, str | os.PathLike) else given


def _opened(batches: Any, schema: Any) -> tuple[Iterable[Any], Any]:
    """Return an iterable of batches and their schema, or `None` if it is unknown."""
    arrow = pyarrow()
    if isinstance(batches, arrow.RecordBatch):
        return [batches], batches.schema
    if hasattr(batches, "__arrow_c_stream__"):
        reader = arrow.RecordBatchReader.from_stream(batches)
        return reader, reader.schema
    if not isinstance(batches, Iterable) or isinstance(batches, str | bytes):
        raise DataError(f"batches are {type(batches).__name__}, expected record batches of Arrow")
    source = iter(batches)
    if schema is not None:
        return source, schema
    first = next(source, None)
    if first is None:
        return (), None
    if not isinstance(first, arrow.RecordBatch):
        raise DataError(f"a batch is {type(first).__name__}, expected a pyarrow.RecordBatch")
    return chain([first], source), first.schema


# --- The work on a table --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    """The tagger, the columns it reads, and the output schema."""

    tagger: Tagger
    columns: tuple[str, ...]  # columns of the table: one, or the columns that the tagger reads
    reads: tuple[str, ...]  # the columns that the tagger reads; empty for attributes
    outputs: tuple[Output, ...]
    prefix: str
    schema: pa.Schema
    is_text: bool
    tokenise: Tokenise
    on_no_path: OnNoPath = "error"
    threads: int = 1
    least: float | None = None
    calibration: Calibration | None = None

    @classmethod
    def of(
        cls,
        tagger: Tagger,
        schema: pa.Schema,
        column: str | None,
        outputs: Sequence[Output] | None,
        prefix: str,
        *,
        tokenise: Tokenise | None = None,
        **options: Any,
    ) -> _Job:
        """Return the job for batches of a schema; errors as for `tag_batches`."""
        reads = columns_read(tagger, schema, column)
        columns = columns_of(schema, column, reads)
        kind = schema.field(columns[0]).type
        is_text = is_string(kind)
        if is_text and len(reads) != 1:
            read = f"the columns {', '.join(reads)}" if reads else "attributes of tokens"
            raise DataError(
                f"column {columns[0]!r} is text, and the tagger reads {read}: give a column of "
                "lists of structs, one struct a token"
            )
        if not is_text and not is_list(kind):
            raise DataError(f"column {columns[0]!r} is {kind}, expected text or lists of tokens")
        wanted = outputs_of(tagger, outputs)
        if options.get("least") is not None:
            check_least(tagger, options["least"])
        fields = fields_of(tagger, wanted, prefix, is_text=is_text)
        twice = [f.name for f in fields if f.name in schema.names]
        if twice:
            raise OptionError(
                f"the table has a column {twice[0]!r} already: give another prefix, such as "
                "prefix='tagged_'"
            )
        whole = schema
        for one in fields:
            whole = whole.append(one)
        given = tagger, columns, reads, wanted, prefix, whole, is_text, tokenise or words
        return cls(*given, **options)

    def added(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of answers to the sentences of a batch."""
        read = read_sentences(
            rows, self.columns, self.reads, self.tokenise if self.is_text else None
        )
        answer = self.tagger.decode(read.data, on_no_path=self.on_no_path, threads=self.threads)
        silent = read.missing | answer.dead & (Ragged(answer.offsets).lengths > 0)
        added = [read.tokens] if self.is_text else []
        for tape in answer.tapes:
            found = labels_found(
                self.tagger, answer, tape, self.outputs, self.least, self.calibration
            )
            if "labels" in self.outputs:
                added.append(label_lists(answer, found, silent))
            if "probabilities" in self.outputs:
                added.append(probability_lists(answer, found, silent))
            if "spans" in self.outputs and found.spans is not None:
                added.append(span_lists(answer, found, silent, read.places))
        if "probability" in self.outputs:
            arrow = pyarrow()
            added.append(arrow.array(answer.probabilities, mask=silent, type=arrow.float64()))
        return added


def _job(
    tagger: Tagger | TokenDecoder | str | os.PathLike[str],
    *given: Any,
    pieces: PiecesOf | None = None,
    **options: Any,
) -> _Job | DocumentJob:
    """Return the job for batches of a schema; errors as for `tag_batches`."""
    found = _tagger_of(tagger)
    if isinstance(found, TokenDecoder):
        return DocumentJob.of(found, *given, pieces=pieces, **options)
    if pieces is not None:
        raise OptionError(f"pieces= is for a TokenDecoder, and this is {found!r}")
    return _Job.of(found, *given, **options)


def _answers(
    job: _Job | DocumentJob, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield each batch with the columns of its answers."""
    first, arrow = 0, pyarrow()
    for batch in batches:
        for start in range(0, max(batch.num_rows, 1), _ROWS):
            rows = batch.slice(start, _ROWS)
            try:
                added = job.added(rows)
            except (DataError, NoPathError) as error:
                raise _moved(error, first + start) from None
            yield arrow.RecordBatch.from_arrays(rows.columns + added, schema=job.schema)
        first += batch.num_rows


def _moved(error: DataError | NoPathError, first: int) -> DataError | NoPathError:
    """Return an error about a sentence with the row of the whole table."""
    if error.sentence is None:
        return error
    if isinstance(error, DataError):
        return DataError(error.message, sentence=first + error.sentence, token=error.token)
    return error.of_sentence(first + error.sentence)

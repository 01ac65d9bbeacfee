"""Tables of Arrow in, the same with labels, spans and probabilities out.

`tag_batches` maps an iterator of record batches to one: what Spark's ``mapInArrow``, Ray Data, Dask
and DuckDB call. A row is a sentence; it stands in one column, or in a column for each column that
the tagger reads:

============================  ========================================================
``list<struct<word, pos>>``   tokens with the columns, or the features, of the tagger
``list<string>``              the only column that it reads
``list<list<string>>``        attributes of each token
``string``                    text, which is cut into tokens
several ``list<string>``      named as the columns that the tagger reads
============================  ========================================================
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.calibration.curves import Calibration
from fstcrf.corpus import Column, Corpus, atomic_write
from fstcrf.corpus.schemes import OUTSIDE, SpanArrays
from fstcrf.errors import DataError, NoPathError, OptionError
from fstcrf.features import LiteralIndex
from fstcrf.joint import CRF, Composition
from fstcrf.joint.tagger import OnNoPath, Tagger
from fstcrf.lattice import Answer
from fstcrf.lazy import optional
from fstcrf.loading import load
from fstcrf.model.reading import Data
from fstcrf.model.source import has_spans
from fstcrf.once import memoised
from fstcrf.pipelines import TrainedPipeline

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Output",
    "parquet_schema",
    "sentence_columns",
    "tag_batches",
    "tag_parquet",
    "tagged_schema",
]

Output: TypeAlias = Literal["labels", "spans", "probability", "probabilities"]
"""labels: of each token; spans: with their probabilities; probability: of all labels of a sentence
together; probabilities: of the label at each token."""

Tokenise: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""Text → where each token begins and ends, in characters."""

_USUAL: tuple[Output, ...] = ("labels", "spans", "probability")
_NAMES = ("tokens", "text")  # columns that are looked for
_ROWS = 4096  # of a large batch that are tagged together
_BUFFER = 1 << 20  # bytes of a column that are read at once
_GROUP_BYTES = 1 << 26  # of a row group that is written
_TOKEN = re.compile(r"\w+|[^\w\s]")


def tag_batches(
    tagger: Tagger | str | os.PathLike[str],
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
) -> pa.RecordBatchReader:
    """Tag record batches: each comes out with columns of labels, spans and probabilities.

    Parameters
    ----------
    tagger : Tagger or path
        A tagger, or its file, so that processes elsewhere need not be sent it; each reads it once.
    batches : iterable of pyarrow.RecordBatch, or a table
        Rows are sentences. Or whatever has ``__arrow_c_stream__``: a table of pyarrow, a DataFrame
        of Polars or pandas, a relation of DuckDB.
    column : str, optional
        The column with the sentences. When absent: ``"tokens"``, ``"text"``, the columns that the
        tagger reads, or the only column that may be it, the first of these that there is.
    outputs : sequence of {"labels", "spans", "probability", "probabilities"}, optional
        Columns to add (see `Output`), all but the last when absent, spans where labels are spans. A
        text's tokens are added in any case. Of several tapes, labels, spans and probabilities are
        ``"pos_labels"`` and so on.
    prefix : str
        In front of the names of these.
    tokenise : callable, optional
        How text becomes tokens; words and single other characters when absent.
    on_no_path : {"error", "skip", "relax"}
        As for `Tagger.decode`; skip: nothing (null) is said of such a sentence.
    min_confidence : float, optional
        Spans less probable than this are left out, and their labels are O; labels of tapes without
        spans become null.
    calibration : Calibration or path, optional
        Puts the probabilities of spans right, before that is looked at, and those of labels of
        tapes without spans.
    threads : int
        The answer does not depend on it.
    schema : pyarrow.Schema, optional
        That of the batches, where there may be none of them.

    Returns
    -------
    pyarrow.RecordBatchReader
        An iterator of record batches that knows its schema beforehand, `tagged_schema`, and has
        ``__arrow_c_stream__``. A sentence that is null has null answers. Where nothing comes in and
        no `schema` is given, it is one without columns.

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
    arrow = _pyarrow()
    source, schema = _opened(batches, schema)
    if schema is None:
        return arrow.RecordBatchReader.from_batches(arrow.schema([]), [])
    tagger = _tagger_of(tagger)
    job = _Job.of(
        *(tagger, schema, column, outputs, prefix),
        tokenise=tokenise or _words,
        on_no_path=on_no_path,
        threads=threads,
        least=min_confidence,
        calibration=_loaded(calibration),
    )
    return arrow.RecordBatchReader.from_batches(job.schema, job.answers(source))


def tagged_schema(
    tagger: Tagger | str | os.PathLike[str],
    schema: pa.Schema,
    *,
    column: str | None = None,
    outputs: Sequence[Output] | None = None,
    prefix: str = "",
) -> pa.Schema:
    """Return the schema of what `tag_batches` makes of batches of a schema.

    Parameters and errors are those of `tag_batches`.
    """
    tagger = _tagger_of(tagger)
    return _Job.of(tagger, schema, column, outputs, prefix).schema


def tag_parquet(
    tagger: Tagger | str | os.PathLike[str],
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
) -> int:
    """Tag the rows of a Parquet file into another, some at a time; it is written whole or not.

    Parameters
    ----------
    source, target : path
        The files; they may be the same.
    tagger, column, outputs, prefix, tokenise, on_no_path, min_confidence, calibration, threads
        As for `tag_batches`.
    report : callable, optional
        Is told now and then how many rows are tagged, and how many there are.

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
        )
        parquet = optional("pyarrow.parquet", _ADVICE)
        with parquet.ParquetWriter(file, tagged.schema) as writer:
            for group in _row_groups(tagged):
                writer.write_table(group)
                rows += group.num_rows
    return rows


def _told(table: Any, report: Callable[[int, int], None] | None) -> Iterator[Any]:
    """Yield the batches of a file; tell of each once the next one is asked for."""
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
    return _columns(schema, column, _columns_read(tagger))


@contextmanager
def _parquet(source: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a Parquet file; errors about what is in it name it."""
    parquet, arrow = optional("pyarrow.parquet", _ADVICE), _pyarrow()
    with Path(source).open("rb") as given:
        try:
            # Piece by piece: a column of a row group may be larger than memory.
            yield parquet.ParquetFile(given, buffer_size=_BUFFER, pre_buffer=False)
        except DataError as error:
            raise DataError(
                error.message, path=os.fspath(source), sentence=error.sentence, token=error.token
            ) from None
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
            first = str(error).splitlines()[0]
            raise DataError(f"no sound Parquet file: {first}", path=os.fspath(source)) from None


def _row_groups(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield tables of many batches: small row groups are slow to read."""
    arrow, kept, size = _pyarrow(), [], 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield arrow.Table.from_batches(kept)
            kept, size = [], 0
    if kept:
        yield arrow.Table.from_batches(kept)


_ADVICE = "tables of Arrow need pyarrow: pip install 'fstcrf[arrow]'"


def _tagger_of(given: Tagger | str | os.PathLike[str]) -> Tagger:
    """Return a tagger; one of a file is kept, for other batches that this process will be given."""
    if not isinstance(given, str | os.PathLike):
        return given
    known = Path(given).stat()
    if Path(given).is_dir():
        return load(given)
    return _read_tagger(os.fspath(given), known.st_size, known.st_mtime_ns, known.st_ino)


@memoised(2)
def _read_tagger(path: str, *_: int) -> Tagger:
    return load(path)


def _loaded(given: Calibration | str | os.PathLike[str] | None) -> Calibration | None:
    return Calibration.load(given) if isinstance(given, str | os.PathLike) else given


def _pyarrow() -> Any:
    return optional("pyarrow", _ADVICE)


def _compute() -> Any:
    return optional("pyarrow.compute", _ADVICE)


def _opened(batches: Any, schema: Any) -> tuple[Iterable[Any], Any]:
    """Return an iterable of batches and their schema; None where that is not known."""
    arrow = _pyarrow()
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


def _words(text: str) -> Iterator[tuple[int, int]]:
    return (match.span() for match in _TOKEN.finditer(text))


# --- What is tagged, and what comes out -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sentences:
    """The sentences of a batch: B of them with N tokens together."""

    data: Data
    missing: Any  # bool [B]: null
    # Of text: where each token begins and ends in its text, int32 [N, 2], and the tokens.
    places: Any = None
    tokens: Any = None


@dataclass(frozen=True, slots=True)
class _Found:
    """The labels and spans of a tape of B sentences with N tokens together, and M spans."""

    tape: str
    ids: Ints  # [N]; −1: none
    spans: SpanArrays | None  # None: its labels are of no spans
    chances: Floats | None  # [M]; None: not asked for, or not to be had


@dataclass(frozen=True, slots=True)
class _Job:
    """A tagger, the columns that it reads, and the schema of what comes out."""

    tagger: Tagger
    columns: tuple[str, ...]  # of the table: one, or those that the tagger reads
    reads: tuple[str, ...]  # what the tagger reads; nothing of attributes
    outputs: tuple[Output, ...]
    prefix: str
    schema: Any
    is_text: bool
    tokenise: Tokenise = _words
    on_no_path: OnNoPath = "error"
    threads: int = 1
    least: float | None = None
    calibration: Calibration | None = None

    @classmethod
    def of(
        cls,
        tagger: Tagger,
        schema: Any,
        column: str | None,
        outputs: Sequence[Output] | None,
        prefix: str,
        **options: Any,
    ) -> _Job:
        """Return what is to be done to batches of a schema; errors as for `tag_batches`."""
        types = _pyarrow().types
        reads = _columns_read(tagger)
        columns = _columns(schema, column, reads)
        kind = schema.field(columns[0]).type
        is_text = _is_string(types, kind)
        if is_text and len(reads) != 1:
            read = f"the columns {', '.join(reads)}" if reads else "attributes of tokens"
            raise DataError(
                f"column {columns[0]!r} is text, and the tagger reads {read}: give a column of "
                "lists of structs, one struct a token"
            )
        if not is_text and not _is_list(types, kind):
            raise DataError(f"column {columns[0]!r} is {kind}, expected text or lists of tokens")
        wanted = _outputs(tagger, outputs)
        if options.get("least") is not None:
            _check_least(tagger, options["least"])
        fields = _fields(tagger, wanted, prefix, is_text=is_text)
        twice = [f.name for f in fields if f.name in schema.names]
        if twice:
            raise OptionError(f"the table has a column {twice[0]!r} already: say prefix='tagged_'")
        whole = schema
        for one in fields:
            whole = whole.append(one)
        return cls(tagger, columns, reads, wanted, prefix, whole, is_text, **options)

    def answers(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield batches with the answers beside what they have."""
        first = 0
        arrow = _pyarrow()
        for batch in batches:
            for start in range(0, max(batch.num_rows, 1), _ROWS):
                rows = batch.slice(start, _ROWS)
                try:
                    added = self._added(rows)
                except (DataError, NoPathError) as error:
                    raise _moved(error, first + start) from None
                yield arrow.RecordBatch.from_arrays(rows.columns + added, schema=self.schema)
            first += batch.num_rows

    def _added(self, rows: Any) -> list[Any]:
        read = self._read(rows)
        answer = self.tagger.decode(read.data, on_no_path=self.on_no_path, threads=self.threads)
        silent = read.missing | answer.dead & (np.diff(answer.offsets) > 0)
        added = [read.tokens] if self.is_text else []
        for tape in answer.tapes:
            found = self._found(answer, tape)
            if "labels" in self.outputs:
                added.append(_labels(answer, found, silent))
            if "probabilities" in self.outputs:
                added.append(_probabilities(answer, found, silent))
            if "spans" in self.outputs and found.spans is not None:
                added.append(_spans(answer, found, silent, read.places))
        if "probability" in self.outputs:
            arrow = _pyarrow()
            added.append(arrow.array(answer.probabilities, mask=silent, type=arrow.float64()))
        return added

    def _found(self, answer: Answer, tape: str) -> _Found:
        """Return the labels of a tape and its spans, without those that are too improbable."""
        names, ids = answer.label_sets[tape], answer[tape].flat[0]
        least, known = self.least, self.calibration
        if not has_spans(names):
            if least is not None:
                chosen = np.maximum(ids, 0)
                p = _marginals(answer, tape)[np.arange(len(ids)), chosen]
                if known is not None:
                    p = known(np.minimum(p, 1.0), [names[i] for i in chosen.tolist()])
                ids = np.where(p < least, np.int32(-1), ids)
            return _Found(tape, ids, None, None)
        spans, chances = answer[tape].span_arrays(), None
        if not _is_conditional(self.tagger) and ("spans" in self.outputs or least is not None):
            chances = answer.posterior.span_probabilities(tape, spans, answer.offsets)
            if known is not None:
                types = [spans.types[i] for i in spans.type.tolist()]
                chances = known(np.minimum(chances, 1.0), types)
        if least is not None and chances is not None:
            ids, spans, chances = _sure(ids, names, spans, chances, least)
        return _Found(tape, ids, spans, chances)

    def _read(self, rows: Any) -> _Sentences:
        arrays = [rows.column(name) for name in self.columns]
        first = arrays[0]
        missing = np.asarray(first.is_null().to_numpy(zero_copy_only=False))
        if self.is_text:
            return _text(first, missing, self.reads[0], self.tokenise)
        offsets = _offsets(first)
        for name, array in zip(self.columns, arrays, strict=True):
            where = np.flatnonzero(_offsets(array) != offsets)
            if len(where):
                raise DataError(
                    f"columns {self.columns[0]!r} and {name!r} have lists of different lengths",
                    sentence=int(where[0]) - 1,
                )
        if not self.reads:
            return _Sentences(_attributes(first), missing)
        flat = {n: _flat(a) for n, a in zip(self.columns, arrays, strict=True)}
        if len(self.columns) == 1:
            flat = _by_column(flat[self.columns[0]], self.reads, self.columns[0])
        columns = {name: _interned(name, array, offsets) for name, array in flat.items()}
        return _Sentences(Corpus(columns, offsets), missing)


def _columns_read(tagger: Tagger) -> tuple[str, ...]:
    """Return the columns of text that a tagger reads; none where it reads attributes."""
    if isinstance(tagger, CRF):
        parts: tuple[CRF, ...] = (tagger,)
    elif isinstance(tagger, Composition | TrainedPipeline):
        parts = tagger.taggers
    else:
        raise OptionError(f"{tagger!r} does not tag sentence by sentence, which batches need")
    indexes = [part.index for part in parts]
    found = dict.fromkeys(
        name for i in indexes if not isinstance(i, LiteralIndex) for name in i.columns
    )
    return tuple(name for name in found if not name.startswith("%"))


def _is_conditional(tagger: Tagger) -> bool:
    """Tell whether there are no probabilities of single labels and spans."""
    joint = tagger.decision()
    return joint is not None and joint.conditional


def _columns(schema: Any, column: str | None, reads: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table that hold the sentences."""
    there = ", ".join(schema.names) or "none"
    if column is not None:
        if column not in schema.names:
            raise DataError(f"no column {column!r}; there are {there}")
        return (column,)
    types = _pyarrow().types
    for name in _NAMES:
        if name in schema.names:
            return (name,)
    fits = [f.name for f in schema if _is_string(types, f.type) or _is_list(types, f.type)]
    if reads and set(reads) <= {n for n in fits if _is_list(types, schema.field(n).type)}:
        return tuple(reads)
    if len(fits) == 1:
        return (fits[0],)
    shown = f", nor the columns {', '.join(reads)} that the tagger reads" if reads else ""
    raise DataError(f"no column 'tokens' or 'text'{shown}; say column=, there are {there}")


def _outputs(tagger: Tagger, outputs: Sequence[Output] | None) -> tuple[Output, ...]:
    if outputs is None:
        spans = any(map(has_spans, tagger.label_sets.values()))
        return tuple(name for name in _USUAL if spans or name != "spans")
    odd = [name for name in outputs if name not in get_args(Output)]
    if odd or isinstance(outputs, str) or not outputs:
        shown = ", ".join(get_args(Output))
        raise OptionError(f"outputs is {outputs!r}, expected some of {shown}")
    if "probabilities" in outputs and _is_conditional(tagger):
        raise OptionError("normalize='chain' has no probabilities of single labels; leave them out")
    return tuple(outputs)


def _check_least(tagger: Tagger, least: float) -> None:
    if not 0.0 <= least <= 1.0:
        raise OptionError(f"min_confidence is {least}, expected a probability, 0 to 1")
    if _is_conditional(tagger):
        raise OptionError("normalize='chain' has no probabilities of spans for min_confidence")


def _fields(tagger: Tagger, outputs: Sequence[Output], prefix: str, *, is_text: bool) -> list[Any]:
    """Return the fields that are added, in the order of `_Job._added`."""
    arrow = _pyarrow()
    fields = []
    if is_text:
        fields.append(arrow.field(f"{prefix}tokens", arrow.list_(arrow.string())))
    several = len(tagger.tapes) > 1
    for tape, labels in tagger.label_sets.items():
        start = f"{prefix}{tape}_" if several else prefix
        kinds = {"labels": arrow.string(), "probabilities": arrow.float64()}
        fields += [
            arrow.field(f"{start}{name}", arrow.list_(kind))
            for name, kind in kinds.items()
            if name in outputs
        ]
        if "spans" in outputs and has_spans(labels):
            fields.append(arrow.field(f"{start}spans", arrow.list_(_span_type(is_text=is_text))))
    if "probability" in outputs:
        fields.append(arrow.field(f"{prefix}probability", arrow.float64()))
    return fields


def _span_type(*, is_text: bool) -> Any:
    arrow = _pyarrow()
    text = [("start_char", arrow.int32()), ("end_char", arrow.int32())] if is_text else []
    tokens = [("start", arrow.int32()), ("end", arrow.int32()), ("type", arrow.string())]
    return arrow.struct([*tokens, ("probability", arrow.float64()), *text])


def _moved(error: DataError | NoPathError, first: int) -> DataError | NoPathError:
    """Return an error about a sentence with the row of the whole table."""
    if error.sentence is None:
        return error
    if isinstance(error, DataError):
        return DataError(error.message, sentence=first + error.sentence, token=error.token)
    return NoPathError(
        error.reason,
        position=error.position,
        sentence=first + error.sentence,
        constraints=error.constraints,
        blame=error.blame,
    )


# --- From Arrow -----------------------------------------------------------------------------------


def _is_string(types: Any, kind: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_list(types: Any, kind: Any) -> bool:
    tests = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(types, f"is_{name}")(kind) for name in tests)


def _offsets(array: Any) -> Longs:
    """Return the bounds of lists, int64 [B + 1]; a null is empty."""
    compute = _compute()
    sizes = compute.fill_null(compute.list_value_length(array), 0)
    found = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(sizes.to_numpy(zero_copy_only=False), out=found[1:])
    return found


def _flat(array: Any) -> Any:
    """Return the elements of lists, one list after the other."""
    return _compute().list_flatten(array)


def _by_column(flat: Any, reads: Sequence[str], column: str) -> dict[str, Any]:
    """Return what tokens are by the columns that a tagger reads."""
    arrow = _pyarrow()
    if not arrow.types.is_struct(flat.type):
        if len(reads) == 1:
            return {reads[0]: flat}
        raise DataError(
            f"column {column!r} has lists of {flat.type}, and the tagger reads "
            f"{', '.join(reads)}: expected lists of structs with these fields"
        )
    names = [flat.type.field(i).name for i in range(flat.type.num_fields)]
    missing = [name for name in reads if name not in names]
    if missing:
        raise DataError(
            f"the structs of column {column!r} have no field {missing[0]!r}; there are "
            f"{', '.join(names)}"
        )
    parts = dict(zip(names, flat.flatten(), strict=True))
    return {name: parts[name] for name in reads}


def _interned(name: str, flat: Any, offsets: Longs) -> Column:
    """Return strings as a column; numbers become their text."""
    arrow = _pyarrow()
    if flat.null_count:
        token = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
        sentence = int(np.searchsorted(offsets, token, side="right")) - 1
        raise DataError(
            f"{name!r} is null, expected a string",
            sentence=sentence,
            token=token - int(offsets[sentence]),
        )
    if arrow.types.is_nested(flat.type):
        raise DataError(f"{name!r} is {flat.type} for each token, expected a string")
    coded = flat.cast(arrow.string()).dictionary_encode()
    ids = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return Column(ids, tuple(coded.dictionary.to_pylist()))


def _attributes(array: Any) -> list[Any]:
    """Return tokens as lists of attributes, or as dicts of features without those that are null."""
    types = _pyarrow().types
    is_map = types.is_map(array.type.value_type)

    def token(given: Any) -> Any:
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if value is not None}
        return dict(given) if is_map and given is not None else given

    return [[token(one) for one in row or ()] for row in array.to_pylist()]


def _text(array: Any, missing: Any, name: str, tokenise: Tokenise) -> _Sentences:
    arrow = _pyarrow()
    texts = [text or "" for text in array.cast(arrow.string()).to_pylist()]
    places = [list(tokenise(text)) for text in texts]
    for number, (text, found) in enumerate(zip(texts, places, strict=True)):
        edges = list(chain.from_iterable(found))
        if any(a > b for a, b in pairwise([0, *edges, len(text)])):
            raise DataError(f"the tokens {found[:3]}… overlap or end outside", sentence=number)
    tokens = [[t[a:b] for a, b in ps] for t, ps in zip(texts, places, strict=True)]
    column = arrow.array(tokens, mask=missing, type=arrow.list_(arrow.string()))
    flat = np.asarray(list(chain.from_iterable(places)), dtype=np.int32).reshape(-1, 2)
    corpus = Corpus.from_sentences([{name: row} for row in tokens], (name,))
    return _Sentences(corpus, missing, flat, column)


# --- To Arrow -------------------------------------------------------------------------------------


def _lists(offsets: Longs, values: Any, silent: Any) -> Any:
    """Return lists of values; null where nothing is said."""
    arrow = _pyarrow()
    bounds = arrow.array(offsets.astype(np.int32))
    mask = arrow.array(silent) if silent.any() else None
    return arrow.ListArray.from_arrays(bounds, values, mask=mask)


def _labels(answer: Answer, found: _Found, silent: Any) -> Any:
    arrow = _pyarrow()
    names = arrow.array(answer.label_sets[found.tape], type=arrow.string())
    nothing = found.ids < 0
    mask = nothing if nothing.any() else None
    values = names.take(arrow.array(np.maximum(found.ids, 0), mask=mask))
    return _lists(answer.offsets, values, silent)


def _marginals(answer: Answer, tape: str) -> Floats:
    """Return the probability of each label at each token of all sentences, [N, L]."""
    sizes = (0, len(answer.label_sets[tape]))
    return np.concatenate([np.empty(sizes), *answer.marginals(tape)])


def _probabilities(answer: Answer, found: _Found, silent: Any) -> Any:
    flat, nothing = np.maximum(found.ids, 0), found.ids < 0
    chosen: Floats = _marginals(answer, found.tape)[np.arange(len(flat)), flat]
    mask = nothing if nothing.any() else None
    return _lists(answer.offsets, _pyarrow().array(chosen, mask=mask), silent)


def _sure(
    ids: Ints, names: tuple[str, ...], spans: SpanArrays, chances: Floats, least: float
) -> tuple[Ints, SpanArrays, Floats]:
    """Return labels and spans without the spans that are less probable than `least`."""
    kept = chances >= least
    outside = np.int32(names.index(OUTSIDE) if OUTSIDE in names else -1)
    edge = np.zeros(len(ids) + 1, dtype=np.int64)
    edge[spans.start[~kept]] += 1
    np.subtract.at(edge, spans.end[~kept], 1)
    ids = np.where(np.cumsum(edge[:-1]) > 0, outside, ids)
    return (
        ids,
        SpanArrays(spans.start[kept], spans.end[kept], spans.type[kept], spans.types),
        chances[kept],
    )


def _spans(answer: Answer, found: _Found, silent: Any, places: Any) -> Any:
    arrow, spans = _pyarrow(), found.spans
    assert spans is not None  # noqa: S101 (asked for)
    bounds = np.searchsorted(spans.start, answer.offsets)
    first = np.repeat(answer.offsets[:-1], np.diff(bounds))
    types = arrow.array(spans.types, type=arrow.string())
    parts = [
        arrow.array((spans.start - first).astype(np.int32)),
        arrow.array((spans.end - first).astype(np.int32)),
        types.take(arrow.array(spans.type)),
    ]
    if found.chances is not None:
        parts.append(arrow.array(found.chances))
    else:
        parts.append(arrow.nulls(len(spans.start), arrow.float64()))
    if places is not None:
        parts += [arrow.array(places[spans.start, 0]), arrow.array(places[spans.end - 1, 1])]
    kind = _span_type(is_text=places is not None)
    return _lists(bounds, arrow.StructArray.from_arrays(parts, fields=list(kind)), silent)

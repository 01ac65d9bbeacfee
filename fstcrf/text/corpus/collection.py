"""The files of a text, read in pieces: the unit of work of distributed training.

A piece is a run of whole sentences that can be read without the rest: a range of bytes of a text, a
batch of a compressed file, or a row group of a Parquet file.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Ragged
from fstcrf.errors import DataError, FstcrfError, OptionError
from fstcrf.files import check_regular, path_name
from fstcrf.lazy import optional
from fstcrf.text.corpus.columns import read_columns, stream_columns
from fstcrf.text.corpus.conllu import read_conllu, stream_conllu
from fstcrf.text.corpus.corpus import Column, Corpus, concatenated
from fstcrf.text.lines import CHUNK_BYTES, LINE_BYTES, too_long, unix_lines

Kind: TypeAlias = Literal["columns", "conllu", "parquet"]

PIECE_BYTES = 1 << 22
"""Bytes of a piece of an uncompressed text."""

_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))[ \t]*(?:\r\n?|\n)")
_BATCH_TOKENS = 1 << 17  # of a compressed file
_GZIP_MAGIC = b"\x1f\x8b"
_ADVICE = "Parquet files need pyarrow: pip install 'fstcrf[arrow]'"


class Piece(NamedTuple):
    """Some sentences of a file.

    unit : unit of first and end: bytes, batches or row groups; "file" means the whole file.
    """

    path: str
    unit: Literal["bytes", "batch", "group", "file"]
    first: int = 0
    end: int = 0


@dataclass(frozen=True)
class CorpusFiles:
    """Files that form one text, in this order.

    Processes that read them must find them under the same paths. Training on several machines, or
    within a limit of memory, takes CorpusFiles in place of a `Corpus`.

    Parameters
    ----------
    paths : sequence of path
    columns : sequence of str, optional
        Names of the columns of column files. For Parquet files: the columns to read, lists of
        strings, one row a sentence. All of them if absent.
    kind : {"columns", "conllu", "parquet"}, optional
        Format of the files; inferred from their names if absent.
    separator : str, optional
        As for `read_columns`.
    feature_columns : sequence of str
        As for `read_conllu`.

    Raises
    ------
    OptionError
        No path; files of several kinds; column files without names of columns.

    Examples
    --------
    >>> CorpusFiles(["a.txt.gz", "b.txt"], ("word", "pos", "chunk")).kind
    'columns'
    """

    paths: Sequence[str | os.PathLike[str]]
    columns: Sequence[str] | None = None
    kind: Kind | None = None
    separator: str | None = None
    feature_columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        paths = tuple(map(path_name, self.paths))
        kinds = {self.kind or _kind(path) for path in paths}
        if len(kinds) != 1:
            raise OptionError(
                f"files are {' and '.join(sorted(kinds)) or 'none'}, expected some of one kind"
            )
        (kind,) = kinds
        columns = None if self.columns is None else tuple(self.columns)
        if kind == "columns" and not columns:
            raise OptionError("column files need names of their columns: columns=('word', ...)")
        object.__setattr__(self, "paths", paths)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "feature_columns", tuple(self.feature_columns))

    def read(self) -> Corpus:
        """Return all sentences.

        Raises
        ------
        DataError
            A file in a wrong format; names file and line.
        """
        return concatenated([self.read_piece(Piece(str(path), "file")) for path in self.paths])

    def pieces(self, path: str) -> list[Piece]:
        """Return the pieces of a file that are known without reading it."""
        if self.kind == "parquet":
            with _parquet(path) as table:
                return [Piece(path, "group", k, k + 1) for k in range(table.num_row_groups)]
        check_regular(path)
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(2) == _GZIP_MAGIC:
                return [Piece(path, "file")]
        cuts = [*range(0, size, PIECE_BYTES), size]
        return [Piece(path, "bytes", a, b) for a, b in pairwise(cuts)]

    def read_pieces(self, piece: Piece) -> Iterator[tuple[Piece, Corpus]]:
        """Read a piece; a whole file is read in batches, each a piece."""
        if piece.unit != "file" or self.kind == "parquet":
            yield piece, self.read_piece(piece)
            return
        for number, corpus in enumerate(self._stream(piece.path)):
            yield Piece(piece.path, "batch", number, number + 1), corpus

    def read_piece(self, piece: Piece) -> Corpus:
        """Return the sentences of a piece; there may be no sentence.

        Raises
        ------
        DataError
            The piece has a wrong format; names the file, and for a text the line.
        """
        if self.kind == "parquet":
            return self._read_groups(piece)
        if piece.unit == "batch":
            return _STREAMS.batch(self, piece)
        if piece.unit == "file":
            return self._read(piece.path, allow_empty=True)
        with Path(piece.path).open("rb") as file:
            start = _boundary(file, piece.path, piece.first)
            end = _boundary(file, piece.path, piece.end)
            file.seek(start)
            text = _Named(file.read(max(0, end - start)))
        text.name = piece.path
        try:
            return self._read(text, allow_empty=True)
        except DataError as error:
            if error.line is None:
                raise
            with Path(piece.path).open("rb") as file:
                before = unix_lines(file.read(start)).count(b"\n")
            raise DataError(error.message, path=piece.path, line=before + error.line) from None

    def _read(self, source: Any, *, allow_empty: bool) -> Corpus:
        if self.kind == "conllu":
            return read_conllu(
                source,
                feature_columns=self.feature_columns,
                allow_empty=allow_empty,
                allow_absent=True,  # from a piece
            )
        return read_columns(source, self.columns, separator=self.separator, allow_empty=allow_empty)

    def _stream(self, path: str) -> Iterator[Corpus]:
        if self.kind == "conllu":
            return stream_conllu(
                path, feature_columns=self.feature_columns, batch_tokens=_BATCH_TOKENS
            )
        return stream_columns(
            path, self.columns, separator=self.separator, batch_tokens=_BATCH_TOKENS
        )

    def _read_groups(self, piece: Piece) -> Corpus:
        with _parquet(piece.path) as table:
            names = table.schema_arrow.names if self.columns is None else list(self.columns)
            missing = [name for name in names if name not in table.schema_arrow.names]
            if missing:
                columns = ", ".join(map(repr, table.schema_arrow.names))
                raise DataError(f"no column {missing[0]!r}; there are {columns}", path=piece.path)
            if piece.unit == "file":
                return _corpus(table.read(columns=names), names, piece.path)
            return _corpus(table.read_row_group(piece.first, columns=names), names, piece.path)


def _kind(path: str) -> Kind:
    name = path.removesuffix(".gz")
    return (
        "conllu"
        if name.endswith(".conllu")
        else "parquet"
        if name.endswith(".parquet")
        else "columns"
    )


class _Named(io.BytesIO):
    """Bytes of a file, with its name."""

    name: str


def _boundary(file: Any, path: str, position: int) -> int:
    """Return the first sentence start after a position: the end of its next blank line."""
    if not position:
        return 0
    file.seek(position)
    held = b""
    while chunk := file.read(max(CHUNK_BYTES, len(held))):
        held += chunk
        blank = _BLANK_LINE.search(held)
        if blank is not None and blank.end() < len(held):  # otherwise a line feed may follow
            return position + blank.end()
        line = blank.start() if blank else max(0, held.rfind(b"\n"), held.rfind(b"\r"))
        if len(held) - line > LINE_BYTES:
            raise too_long(path, None)
        held, position = held[line:], position + line
    return position + len(held)


class _Streams:
    """Open compressed files, whose batches are usually requested in order."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, CorpusFiles, str], tuple[int, Iterator[Corpus]]] = {}

    def batch(self, files: CorpusFiles, piece: Piece) -> Corpus:
        """Return a batch of a file."""
        key = (threading.get_ident(), files, piece.path)
        number, stream = self._open.pop(key, (0, None))
        if stream is None or number > piece.first:
            number, stream = 0, files._stream(piece.path)  # noqa: SLF001
        for corpus in stream:
            number += 1
            if number > piece.first:
                if len(self._open) > 8:
                    self._open.clear()
                self._open[key] = number, stream
                return corpus
        raise DataError("has become shorter while it is read", path=piece.path)


_STREAMS = _Streams()


# --- Parquet --------------------------------------------------------------------------------------


class _parquet:  # noqa: N801 (used like a function)
    """Opens a Parquet file; errors name the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._module = optional("pyarrow.parquet", _ADVICE)

    def __enter__(self) -> Any:
        check_regular(self._path)
        try:
            self._file = self._module.ParquetFile(self._path)
        except Exception as error:  # noqa: BLE001 (pyarrow's have no common class)
            raise parquet_error(error, self._path) from None
        return self._file

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._file.close()
        if error is not None and (named := parquet_error(error, self._path)) is not error:
            raise named from None


def parquet_error(error: BaseException, path: str) -> BaseException:
    """Convert pyarrow's error for a bad Parquet file to a DataError; return other errors unchanged.

    For damaged files, pyarrow raises OSErrors without a number, or reports that a name is not
    UTF-8.
    """
    arrow = optional("pyarrow", _ADVICE)
    damaged = isinstance(error, OSError) and error.errno is None
    if isinstance(error, (FstcrfError, MemoryError, arrow.ArrowCancelled)) or not (
        damaged or isinstance(error, (arrow.ArrowException, UnicodeDecodeError))
    ):
        return error
    return DataError(f"no sound Parquet file: {next(iter(str(error).splitlines()), '')}", path=path)


def _corpus(table: Any, names: Sequence[str], path: str) -> Corpus:
    """Return a corpus from rows with a list of strings in each column."""
    lengths, columns = None, {}
    for name in names:
        array = table.column(name).combine_chunks()
        types = optional("pyarrow", _ADVICE).types
        if not (types.is_list(array.type) or types.is_large_list(array.type)):
            raise DataError(
                f"column {name!r} holds {array.type}, expected lists of strings", path=path
            )
        flat = array.flatten()
        if array.null_count or flat.null_count:
            raise DataError(f"column {name!r} has rows or strings that are null", path=path)
        sizes = np.asarray(array.value_lengths(), dtype=np.int64)
        if lengths is not None and not np.array_equal(sizes, lengths):
            row = int(np.flatnonzero(sizes != lengths)[0])
            raise DataError(
                f"column {name!r} has {sizes[row]} strings, column {names[0]!r} {lengths[row]}",
                path=path,
                sentence=row,
            )
        lengths, encoded = sizes, flat.dictionary_encode()
        values = tuple(map(str, encoded.dictionary.to_pylist()))
        columns[name] = Column(np.asarray(encoded.indices, dtype=np.int32), values)
    offsets = Ragged.from_lengths(() if lengths is None else lengths).offsets
    return Corpus(columns, offsets, source=path)

"""Sentences of interned columns.

A corpus is a struct of arrays. Token ``n`` of the corpus has the string
``column.values[column.ids[n]]`` in each column; sentence ``s`` owns the tokens
``offsets[s] : offsets[s + 1]``. All string work downstream (features, labels) is done once per
*distinct* string, then by indexing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, Unpack, overload

import numpy as np

from fstcrf.arguments import check_items, first_twice, items_of, name_tuple
from fstcrf.arrays import Ints, Longs, Ragged
from fstcrf.errors import DataError, OptionError

T = TypeVar("T")


class Sentence:
    """One sentence: named columns of equal length.

    Parameters
    ----------
    columns : mapping of str to sequence of str
        The columns, each with one string per token.
    document : int, optional
        Index of the document it belongs to.
    char_offsets : sequence of (int, int), optional
        Start and end of each token in the document's text, end exclusive.

    Raises
    ------
    DataError
        A missing column, columns of different lengths, or one that is not a list, such as a string.
    """

    __slots__ = ("_columns", "_length", "char_offsets", "document")

    def __init__(
        self,
        columns: Mapping[str, Sequence[str]],
        *,
        document: int = 0,
        char_offsets: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self._columns = {name: _listed(name, values) for name, values in columns.items()}
        lengths = {name: len(values) for name, values in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"columns differ in length: {lengths}")
        self._length = next(iter(lengths.values()), 0)
        self.document = document
        self.char_offsets = char_offsets

    @classmethod
    def of_lists(
        cls,
        columns: dict[str, list[str]],
        length: int,
        *,
        document: int = 0,
        char_offsets: Sequence[tuple[int, int]] | None = None,
    ) -> Sentence:
        """Return a sentence of lists of this length, which are neither checked nor copied."""
        sentence = cls.__new__(cls)
        sentence._columns, sentence._length = columns, length  # noqa: SLF001 (its own class)
        sentence.document, sentence.char_offsets = document, char_offsets
        return sentence

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, column: str) -> list[str]:
        try:
            return self._columns[column]
        except KeyError:
            raise DataError(no_column(column, self._columns)) from None

    def __contains__(self, column: object) -> bool:
        return column in self._columns

    def __repr__(self) -> str:
        return f"Sentence({self._columns!r})"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self._columns)


def _listed(name: str, values: Any) -> list[str]:
    expected = "a list of strings, one for each token"
    return list(items_of(values, f"column {name!r} is", expected, DataError))


def _strings(name: str, values: list[str], sentence: int) -> list[str]:
    check_items(values, f"column {name!r}", sentence=sentence, error=DataError)
    return values


def as_sentence(
    sentence: Sentence | Mapping[str, Sequence[str]] | Sequence[Sequence[str]],
    columns: Sequence[str] | None = None,
) -> Sentence:
    """Read a sentence given as `Sentence`, mapping column → list, or list of row tuples."""
    if isinstance(sentence, Sentence):
        return sentence
    if isinstance(sentence, Mapping):
        return Sentence(sentence)
    if isinstance(sentence, str):
        raise DataError(
            f"a sentence is the string {sentence[:20]!r}, expected columns or rows; a file is read "
            "by read_columns(path, columns)"
        )
    sentence = [*items_of(sentence, "a sentence is", "columns or rows", DataError)]
    if columns is None:
        if not sentence:
            return Sentence({})
        raise DataError("rows of strings need column names: columns=('word', ...)")
    for position, row in enumerate(sentence):
        if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != len(columns):
            raise DataError(f"row {row!r} is not of the columns {tuple(columns)}", token=position)
    return Sentence({name: [row[i] for row in sentence] for i, name in enumerate(columns)})


def each_sentence(sentences: Iterable[T], read: Callable[[T], Sentence]) -> list[Sentence]:
    """Read sentences; if there are several, an error names the number of the sentence."""
    items = list(items_of(sentences, "the sentences are", "a list of them", DataError))
    parsed = []
    for number, sentence in enumerate(items):
        try:
            parsed.append(read(sentence))
        except DataError as error:
            place = number if len(items) > 1 else None
            raise DataError(error.message, sentence=place, token=error.token) from None
    return parsed


def no_column(name: str, names: Iterable[str]) -> str:
    """Return the message that a column is missing, with the names of the existing ones."""
    return f"no column {name!r}; there are {', '.join(map(repr, names)) or 'none'}"


# --- Many sentences -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One interned column. Columns are equal if their tokens have the same strings.

    Parameters
    ----------
    ids : int32 [N]
        For each token, the index of its string in `values`.
    values : tuple of str
        The distinct strings. All of them need not occur.
    """

    ids: Ints
    values: tuple[str, ...]

    @classmethod
    def from_strings(cls, strings: Iterable[str]) -> Column:
        """Intern strings, numbering them by first appearance."""
        index: dict[Any, int] = {}
        try:
            ids = [index.setdefault(string, len(index)) for string in strings]
        except TypeError as error:  # Python's message names the type
            raise DataError(f"a column holds a value that is not a string: {error}") from None
        if odd := [string for string in index if not isinstance(string, str)]:
            raise DataError(f"a column holds {odd[0]!r}, expected strings")
        # plain str, not numpy.str_
        return cls(np.asarray(ids, dtype=np.int32), tuple(map(str, index)))

    def strings(self, start: int = 0, end: int | None = None) -> list[str]:
        """Return the strings of the tokens ``start : end``."""
        values = self.values
        return [values[i] for i in self.ids[start:end].tolist()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Column):
            return NotImplemented
        if self.values == other.values:
            return np.array_equal(self.ids, other.ids)
        return self.strings() == other.strings()

    __hash__ = None  # type: ignore[assignment]


class TokenPlace(TypedDict, total=False):
    """The place of a token, as keyword arguments of `DataError`."""

    path: str | None
    line: int
    sentence: int
    token: int


class Changes(TypedDict, total=False):
    """Parts of a corpus that `changed` can replace; see `Corpus`."""

    columns: Mapping[str, Column]
    documents: Ints
    document_headers: Sequence[str]
    first_document: int
    lines: Longs | None
    blank_lines: Ints | None


class Corpus(Sequence[Sentence]):
    """Sentences as a struct of arrays.

    Parameters
    ----------
    columns : mapping of str to Column
        Interned columns, all with N tokens.
    offsets : int64 [S + 1]
        Sentence ``s`` owns the tokens ``offsets[s] : offsets[s + 1]``.
    documents : int32 [S], optional
        Document of each sentence; one document if absent.
    document_headers : sequence of str, optional
        For each document, the line that opened it (``-DOCSTART- ...`` or a CoNLL-U ``newdoc`` id),
        or an empty string.
    first_document : int
        Number of the document that ``document_headers[0]`` belongs to: not 0 in the later
        batches of a stream.
    char_offsets : int32 [N, 2], optional
        Start and end of each token in its document's text, end exclusive; -1 if unknown.
    source : str, optional
        Name of the source, for messages.
    lines : int64 [N], optional
        Line of each token in the source, from 1, for messages.
    files : Column [S], optional
        The file of each sentence, if there are several; `lines` count in these files.
    blank_lines : int32 [S], optional
        Blank lines that follow each sentence in the source, for the writer.

    Raises
    ------
    DataError
        Arrays whose sizes disagree.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        offsets: Longs,
        *,
        documents: Ints | None = None,
        document_headers: Sequence[str] = ("",),
        first_document: int = 0,
        char_offsets: Ints | None = None,
        source: str | None = None,
        lines: Longs | None = None,
        files: Column | None = None,
        blank_lines: Ints | None = None,
    ) -> None:
        self.columns = dict(columns)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        falls = (self.offsets[1:] < self.offsets[:-1]).any()
        if len(self.offsets) == 0 or self.offsets[0] != 0 or falls:
            raise DataError("sentence offsets must start at 0 and never fall")
        self.documents = (
            np.zeros(len(self.offsets) - 1, dtype=np.int32) if documents is None else documents
        )
        self.document_headers = tuple(document_headers)
        self.first_document = first_document
        self.char_offsets = char_offsets
        self.source = source
        self.lines = lines
        self.files = files
        self.blank_lines = blank_lines
        sizes = {name: len(column.ids) for name, column in self.columns.items()}
        if any(size != self.n_tokens for size in sizes.values()):
            raise DataError(f"columns hold {sizes} tokens, the offsets {self.n_tokens}")
        if len(self.documents) != len(self):
            raise DataError(f"{len(self.documents)} document numbers for {len(self)} sentences")
        if char_offsets is not None and char_offsets.shape != (self.n_tokens, 2):
            raise DataError(
                f"char_offsets is {list(char_offsets.shape)}, expected {[self.n_tokens, 2]}"
            )

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sentence | Mapping[str, Sequence[str]] | Sequence[Sequence[str]]],
        columns: Sequence[str] | None = None,
    ) -> Corpus:
        """Intern sentences given as `Sentence`, mapping column → list, or list of row tuples.

        Parameters
        ----------
        sentences : iterable
            The sentences.
        columns : sequence of str, optional
            Names of the columns: required for row tuples, else the columns of the first sentence.

        Raises
        ------
        DataError
            A sentence without one of the columns, or of unequal columns.
        OptionError
            A string in the place of several columns.
        """
        names = None if columns is None else name_tuple(columns, "columns")
        parsed = each_sentence(sentences, lambda sentence: as_sentence(sentence, names))
        names = names if names is not None else (parsed[0].columns if parsed else ())
        table: dict[str, list[str]] = {name: [] for name in names}
        for number, sentence in enumerate(parsed):
            for name in names if len(sentence) else ():
                if name not in sentence:
                    raise DataError(no_column(name, sentence.columns), sentence=number)
                table[name] += _strings(name, sentence[name], number)
        offsets = Ragged.from_lengths(map(len, parsed)).offsets
        # A sentence without columns, such as an empty list, is in the document of the previous one.
        has_columns = np.fromiter((bool(s.columns) for s in parsed), bool, len(parsed))
        latest = np.maximum.accumulate(np.where(has_columns, np.arange(len(parsed)), 0))
        documents = np.asarray([s.document for s in parsed], dtype=np.int32)[latest]
        return cls(
            {name: Column.from_strings(strings) for name, strings in table.items()},
            offsets,
            documents=documents,
            document_headers=("",) * (int(documents.max(initial=0)) + 1),
            char_offsets=_joined_offsets(parsed),
        )

    def __repr__(self) -> str:
        columns = ", ".join(self.columns)
        return f"<Corpus: {len(self)} sentences, {self.n_tokens} tokens, columns {columns}>"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> Corpus: ...
    def __getitem__(self, index: int | slice) -> Sentence | Corpus:
        if isinstance(index, slice):
            start, end, step = index.indices(len(self))
            if step == 1:
                end = max(start, end)
                first = self.offsets[start]
                tokens = slice(int(first), int(self.offsets[end]))
                return self._part(tokens, slice(start, end), self.offsets[start : end + 1] - first)
            return self.select(np.arange(len(self))[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        index %= len(self)
        start, end = int(self.offsets[index]), int(self.offsets[index + 1])
        chars = self.char_offsets
        return Sentence.of_lists(
            {name: column.strings(start, end) for name, column in self.columns.items()},
            end - start,
            document=int(self.documents[index]),
            char_offsets=None if chars is None else [(a, b) for a, b in chars[start:end].tolist()],
        )

    def __iter__(self) -> Iterator[Sentence]:
        return (self[i] for i in range(len(self)))

    @property
    def n_tokens(self) -> int:
        """Number of tokens, N."""
        return int(self.offsets[-1])

    def column(self, name: str) -> Column:
        """Return a column by name.

        Raises
        ------
        DataError
            There is no such column; names the existing ones.
        """
        try:
            return self.columns[name]
        except KeyError:
            raise DataError(no_column(name, self.columns), path=self.source) from None

    def column_lists(self, name: str) -> list[list[str]]:
        """Return a column as one list of strings per sentence."""
        strings = self.column(name).strings()
        bounds = self.offsets.tolist()
        return [strings[a:b] for a, b in itertools.pairwise(bounds)]

    def document_header(self, document: int) -> str:
        """Return the line that opened a document, or an empty string."""
        index = document - self.first_document
        return self.document_headers[index] if 0 <= index < len(self.document_headers) else ""

    def document_slices(self) -> list[slice]:
        """Return the sentences of each document, in order, as slices for ``corpus[slice]``.

        A document without sentences has no slice; a document whose sentences are not contiguous has
        one slice for each stretch.
        """
        if len(self) == 0:
            return []
        bounds = [0, *(np.flatnonzero(np.diff(self.documents)) + 1).tolist(), len(self)]
        return [slice(a, b) for a, b in itertools.pairwise(bounds)]

    def with_column(self, name: str, strings: Iterable[Sequence[str]]) -> Corpus:
        """Return the corpus with one more column (or one replaced), given per sentence.

        Raises
        ------
        DataError
            A sentence whose list has another length than its tokens.
        """
        flat: list[str] = []
        bounds = self.offsets.tolist()
        for number, labels in enumerate(strings):
            try:
                values = _listed(name, labels)
            except DataError as error:
                raise DataError(error.message, sentence=number) from None
            flat += _strings(name, values, number)
            if number >= len(self) or len(flat) != bounds[number + 1]:
                raise DataError(f"{len(values)} strings for column {name!r}", sentence=number)
        if len(flat) != self.n_tokens:
            raise DataError(f"column {name!r} has {len(flat)} strings for {self.n_tokens} tokens")
        return self.changed(columns={**self.columns, name: Column.from_strings(flat)})

    def with_interned(self, name: str, column: Column) -> Corpus:
        """Return the corpus with one more column (or one replaced), given interned.

        Raises
        ------
        DataError
            A column of another number of tokens.
        """
        return self.changed(columns={**self.columns, name: column})

    def renamed(self, names: Mapping[str, str]) -> Corpus:
        """Return the corpus with some columns renamed, in the same order.

        Parameters
        ----------
        names : mapping of str to str
            Old names to new ones.

        Raises
        ------
        OptionError
            A column that does not exist, or a new name that another column has.
        """
        odd = next((name for name in names if name not in self.columns), None)
        if odd is not None:
            raise OptionError(no_column(odd, self.columns))
        new = [names.get(name, name) for name in self.columns]
        if (twice := first_twice(new)) is not None:
            raise OptionError(f"two columns would be called {twice!r}")
        return self.changed(columns=dict(zip(new, self.columns.values(), strict=True)))

    def select(self, sentences: Longs | Sequence[int]) -> Corpus:
        """Return the corpus of the given sentences, in the given order.

        Document numbers stay; headers of documents without a chosen sentence become empty.
        """
        chosen = np.asarray(sentences, dtype=np.int64)
        rows = Ragged(self.offsets)
        return self._part(rows.entries(chosen), chosen, rows.select(chosen).offsets)

    def _part(self, tokens: Longs | slice, sentences: Longs | slice, offsets: Longs) -> Corpus:
        """Return some sentences, which have these tokens; for slices, arrays are views."""
        documents = self.documents[sentences]
        kept = set(documents.tolist())
        headers, files = enumerate(self.document_headers, self.first_document), self.files
        return Corpus(
            {name: Column(c.ids[tokens], c.values) for name, c in self.columns.items()},
            offsets,
            documents=documents,
            document_headers=[header if number in kept else "" for number, header in headers],
            first_document=self.first_document,
            char_offsets=None if self.char_offsets is None else self.char_offsets[tokens],
            source=self.source,
            lines=None if self.lines is None else self.lines[tokens],
            files=None if files is None else Column(files.ids[sentences], files.values),
            blank_lines=None if self.blank_lines is None else self.blank_lines[sentences],
        )

    def where(self, token: int) -> TokenPlace:
        """Return the place of a token as keyword arguments of `DataError`."""
        sentence = int(np.searchsorted(self.offsets, token, side="right")) - 1
        if self.lines is not None:
            files = self.files
            path = self.source if files is None else files.values[files.ids[sentence]]
            return {"path": path, "line": int(self.lines[token])}
        return {
            "path": self.source,
            "sentence": sentence,
            "token": token - int(self.offsets[sentence]),
        }

    def changed(self, **parts: Unpack[Changes]) -> Corpus:
        """Return the same sentences with the given parts replaced."""
        return Corpus(**{**vars(self), **parts})


def _joined_offsets(sentences: Sequence[Sentence]) -> Ints | None:
    parts = [s.char_offsets for s in sentences if len(s)]
    if not parts or any(part is None for part in parts):
        return None
    flat = [pair for part in parts if part is not None for pair in part]
    return np.asarray(flat, dtype=np.int32).reshape(-1, 2)


# --- Several corpora as one -----------------------------------------------------------------------


def concatenated(corpora: Sequence[Corpus]) -> Corpus:
    """Return the sentences of several corpora as one corpus.

    Documents are numbered consecutively. Character offsets are kept if all corpora have them, and
    so are lines: messages name the file and its line.

    Parameters
    ----------
    corpora : sequence of Corpus
        With the same columns.

    Raises
    ------
    DataError
        No corpus, or one that lacks a column of the first.

    Examples
    --------
    >>> one = Corpus.from_sentences([{"word": ["a", "b"]}])
    >>> two = Corpus.from_sentences([{"word": ["b"]}])
    >>> concatenated([one, two]).column_lists("word")
    [['a', 'b'], ['b']]
    """
    if not corpora:
        raise DataError("no corpus to concatenate")
    if len(corpora) == 1:
        return corpora[0]
    tokens = Ragged.from_lengths(corpus.n_tokens for corpus in corpora).offsets.tolist()
    chars = [c.char_offsets for c in corpora if c.char_offsets is not None]
    lines = [c.lines for c in corpora if c.lines is not None]
    documents, first = [], 0
    for corpus in corpora:
        documents.append(corpus.documents - corpus.first_document + first)
        first += len(corpus.document_headers)
    return Corpus(
        {name: _joined_columns([c.column(name) for c in corpora]) for name in corpora[0].columns},
        np.concatenate(
            [[0], *(c.offsets[1:] + start for c, start in zip(corpora, tokens, strict=False))]
        ),
        documents=np.concatenate(documents).astype(np.int32),
        document_headers=[header for c in corpora for header in c.document_headers],
        char_offsets=np.concatenate(chars) if len(chars) == len(corpora) else None,
        lines=np.concatenate(lines) if len(lines) == len(corpora) else None,
        files=Column.from_strings(c.source or "<input>" for c in corpora for _ in range(len(c))),
        source=", ".join(dict.fromkeys(c.source for c in corpora if c.source is not None)) or None,
    )


def _joined_columns(columns: Sequence[Column]) -> Column:
    number: dict[str, int] = {}
    ids = []
    for column in columns:
        new = [number.setdefault(value, len(number)) for value in column.values]
        ids.append(np.asarray(new, dtype=np.int32)[column.ids])
    return Column(np.concatenate(ids), tuple(number))

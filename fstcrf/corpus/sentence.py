"""One sentence, and what may be given for one.

=========== ==================================================================
Sentence    one sentence: its columns as lists of strings
as_sentence a `Sentence` from a mapping or from rows
=========== ==================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fstcrf.errors import DataError

__all__ = ["Sentence", "as_sentence"]


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
        Columns of different lengths.
    """

    __slots__ = ("_columns", "_length", "char_offsets", "document")

    def __init__(
        self,
        columns: Mapping[str, Sequence[str]],
        *,
        document: int = 0,
        char_offsets: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self._columns = {name: list(values) for name, values in columns.items()}
        lengths = {name: len(values) for name, values in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"columns differ in length: {lengths}")
        self._length = next(iter(lengths.values()), 0)
        self.document = document
        self.char_offsets = char_offsets

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


def as_sentence(
    sentence: Sentence | Mapping[str, Sequence[str]] | Sequence[Sequence[str]],
    columns: Sequence[str] | None = None,
) -> Sentence:
    """Read a sentence given as `Sentence`, mapping column → list, or list of row tuples.

    Raises
    ------
    DataError
        Row tuples without column names, or of another width.
    """
    if isinstance(sentence, Sentence):
        return sentence
    if isinstance(sentence, Mapping):
        return Sentence(sentence)
    if columns is None:
        if len(sentence) == 0:
            return Sentence({})
        raise DataError("rows of strings need column names: columns=('word', ...)")
    for position, row in enumerate(sentence):
        if isinstance(row, str) or len(row) != len(columns):
            raise DataError(f"row {row!r} has not the columns {tuple(columns)}", token=position)
    return Sentence({name: [row[i] for row in sentence] for i, name in enumerate(columns)})


def no_column(name: str, known: Iterable[str]) -> str:
    """Return the message that a column is missing; names those there are."""
    return f"no column {name!r}; there are {', '.join(map(repr, known)) or 'none'}"

"""What the files of CRF++ and of Wapiti hold: patterns, the texts that they give, and weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from fstcrf.arrays import Floats, Longs
from fstcrf.errors import ModelFileError
from fstcrf.features.derive import Source
from fstcrf.features.reader import Boundary

__all__ = [
    "CutBudget",
    "Hole",
    "PatternModel",
    "SparseWeights",
    "TextPattern",
    "check_labels",
    "cuts",
    "decoded",
    "shown",
]


_FEW_PAIRS = 10_000
_SHOWN = 40


def check_labels(labels: Sequence[str], size: int, where: str) -> None:
    """Check labels before tables of their pairs are made.

    Raises
    ------
    ModelFileError
        None, an empty or a repeated one, or more pairs than the file accounts for.
    """
    if not labels or not all(labels) or len(set(labels)) < len(labels):
        raise ModelFileError(f"{where}: labels must be distinct, not empty, and at least one")
    if len(labels) ** 2 > _FEW_PAIRS + size:
        raise ModelFileError(f"{where}: {len(labels)} labels in a file of {size} bytes")


def decoded(data: bytes, encoding: str, where: str, what: str) -> str:
    """Return bytes of a file as text.

    Raises
    ------
    ModelFileError
        They are not of that encoding, or no line of text.
    """
    try:
        text = data.decode(encoding)
    except UnicodeError:
        raise ModelFileError(
            f"{where}: {what} {shown(data)} is not {encoding}: give the model's encoding"
        ) from None
    if "\n" in text or "\0" in text:
        raise ModelFileError(f"{where}: {what} {shown(data)} is not one line of text")
    return text


def shown(data: bytes) -> str:
    """Return bytes of a file as they stand in a message."""
    return repr(data[:_SHOWN])[1:]


# --- Weights --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SparseWeights:
    """The weights that are not zero.

    Parameters
    ----------
    numbers : int64 [n]
        Rising.
    values : float64 [n]
        Natural-log scores.
    """

    numbers: Longs
    values: Floats

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, weights: Floats) -> SparseWeights:
        """Return those of a dense vector."""
        numbers = np.flatnonzero(weights)
        return cls(numbers, weights[numbers])

    def counts(self, first: Longs, size: int) -> Longs:
        """Return how many there are among the `size` weights from each number on, int64 [R]."""
        begin, end = self._bounds(first, size)
        return end - begin

    def cells(self, first: Longs, size: int, stride: int) -> tuple[Longs, Floats]:
        """Lay blocks of weights out as rows of a table.

        Parameters
        ----------
        first : int64 [R]
            Number of each row's first weight.
        size : int
            Weights of a row.
        stride : int
            Columns of the table.

        Returns
        -------
        cells : int64 [m]
            ``row * stride + column``, rising.
        values : float64 [m]
        """
        begin, end = self._bounds(first, size)
        counts = end - begin
        rows = np.repeat(np.arange(len(first)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = begin[rows] + within
        return rows * stride + self.numbers[places] - first[rows], self.values[places]

    def _bounds(self, first: Longs, size: int) -> tuple[Longs, Longs]:
        begin = np.searchsorted(self.numbers, first)
        return begin, np.searchsorted(self.numbers, first + size)


# --- Patterns -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hole:
    """One place of a pattern.

    Parameters
    ----------
    source : Plain or Derived
        What is read; columns by number.
    offset : int
        Relative to the token; or a place of the sentence, from 1 or from its end at −1.
    absolute : bool
        Which of the two.
    """

    source: Source
    offset: int
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A pattern, of attributes of labels or of label pairs.

    Parameters
    ----------
    kind : {"node", "arc"}
    text : str
        As the file has it, for messages.
    literals : tuple of bytes [m + 1]
        What stands around the holes.
    holes : tuple of Hole [m]
    """

    kind: Literal["node", "arc"]
    text: str
    literals: tuple[bytes, ...]
    holes: tuple[Hole, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PatternModel:
    """What the file of a tagger holds.

    Parameters
    ----------
    labels : tuple of L str
        In the order of the file.
    patterns : tuple of TextPattern
        Those on labels and those on label pairs.
    attributes : list of A bytes
        Texts, sorted, each once.
    node_first, arc_first : int64 [A]
        Number of each attribute's first weight on a label (L of them) and on a label pair (L²,
        the later label faster); −1 where it has none.
    weights : SparseWeights
        Natural-log scores.
    n_columns : int
        Columns that the patterns may read.
    boundary : {"pad", "wapiti"}
        What stands outside a sentence.
    encoding : str
        Of all texts.
    size : int
        Bytes of the file.
    where : str
        Name of the file, for messages.
    """

    labels: tuple[str, ...]
    patterns: tuple[TextPattern, ...]
    attributes: list[bytes]
    node_first: Longs
    arc_first: Longs
    weights: SparseWeights
    n_columns: int
    boundary: Boundary
    encoding: str
    size: int
    where: str

    def first(self, kind: Literal["node", "arc"]) -> Longs:
        """Return the number of each attribute's first weight of a kind, −1 for none."""
        return self.node_first if kind == "node" else self.arc_first

    def block(self, kind: Literal["node", "arc"]) -> int:
        """Return how many weights of a kind an attribute has."""
        return len(self.labels) if kind == "node" else len(self.labels) ** 2


# --- Cuts -----------------------------------------------------------------------------------------

_ALWAYS = 1000

Choices: TypeAlias = Sequence[Collection[bytes] | None]


class CutBudget:
    """How many cuts a model may have: no file may ask for more memory than its size justifies.

    Parameters
    ----------
    size : int
        Bytes of the file.
    where : str
        Its name, for messages.
    """

    def __init__(self, size: int, where: str) -> None:
        self._left = _ALWAYS + size // 2
        self._where = where

    def spend(self, count: int, pattern: str) -> None:
        """Take some away.

        Raises
        ------
        ModelFileError
            There are not so many; names the pattern.
        """
        self._left -= count
        if self._left < 0:
            raise ModelFileError(
                f"{self._where}: the texts of pattern {pattern!r} can be cut in too many ways: "
                "its places need text between them"
            )


def cuts(text: bytes, literals: Sequence[bytes], choices: Choices) -> Iterator[tuple[bytes, ...]]:
    """Yield the strings between which the literals stand, in every way there is.

    Parameters
    ----------
    text : bytes
    literals : sequence of bytes [m + 1]
        The first begins the text, the last ends it.
    choices : sequence of collection of bytes or None [m]
        What each string may be; None: anything.
    """
    first, last = literals[0], literals[-1]
    if len(literals) == 1:
        if text == first:
            yield ()
        return
    end = len(text) - len(last)
    if end < len(first) or not (text.startswith(first) and text.endswith(last)):
        return
    if len(literals) == 2:  # most patterns
        string = text[len(first) : end]
        if choices[0] is None or string in choices[0]:
            yield (string,)
        return
    latest = _latest(text, literals[1:-1], len(first), end)
    if latest is not None:
        yield from _between(
            text, len(first), end, list(zip(literals[1:-1], latest, strict=True)), choices
        )


def _latest(text: bytes, middle: Sequence[bytes], begin: int, end: int) -> list[int] | None:
    """Return the last place where each literal may stand; None where they do not fit."""
    places: list[int] = []
    for literal in reversed(middle):
        end = text.rfind(literal, begin, end)
        if end < 0:
            return None
        places.append(end)
    return places[::-1]


def _between(
    text: bytes, begin: int, end: int, middle: Sequence[tuple[bytes, int]], choices: Choices
) -> Iterator[tuple[bytes, ...]]:
    """Yield the strings from `begin` to `end`, cut at literals, each with its last place.

    But for choices, no literal is put where the others would not fit any more.
    """
    choice = choices[0]
    if not middle:
        if choice is None or text[begin:end] in choice:
            yield (text[begin:end],)
        return
    (literal, latest), place = middle[0], begin
    while (place := text.find(literal, place, latest + len(literal))) >= 0:
        if choice is None or text[begin:place] in choice:
            for rest in _between(text, place + len(literal), end, middle[1:], choices[1:]):
                yield text[begin:place], *rest
        place += 1

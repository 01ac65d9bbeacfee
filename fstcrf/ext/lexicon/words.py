"""Words of texts, as flat arrays: the best words, and all candidate words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, distinct
from fstcrf.errors import NoPathError
from fstcrf.lazy import Turns


class WordTable(Protocol):
    """The properties of a lexicon's words, by their numbers."""

    @property
    def n_known(self) -> int:
        """Words of dictionaries."""

    @property
    def n_words(self) -> int:
        """Number of words in dictionaries, plus unknown words."""

    def feature(self, word: int) -> str:
        """Return a word's feature."""


class Word(NamedTuple):
    """A word in a text, at its characters ``start`` to ``end − 1``.

    feature : str
        Unchanged from the dictionary.
    number : int
        Of the word in its lexicon.
    """

    surface: str
    start: int
    end: int
    feature: str
    number: int


@dataclass(frozen=True, eq=False)
class WordAnswer:
    """The best words of some texts.

    row : int64 [B + 1]
        Words of text b are ``row[b] : row[b + 1]``.
    start, end : int32 [n]
        Characters within the text.
    word : int32 [n]
        Numbers of words in the lexicon.
    scores : float64 [B]
        Natural logs; −inf: no words cover the text.
    """

    texts: tuple[str, ...]
    lexicon: WordTable
    row: Longs
    start: Ints
    end: Ints
    word: Ints
    scores: Floats

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[list[Word]]:
        return (self.words(b) for b in range(len(self)))

    def __repr__(self) -> str:
        return f"<WordAnswer: {len(self.word):,} words of {len(self):,} texts>"

    @property
    def known(self) -> Bools:
        """Which words a dictionary has, bool [n]."""
        return self.word < self.lexicon.n_known

    def words(self, b: int) -> list[Word]:
        """Return the words of text b."""
        rows = slice(int(self.row[b]), int(self.row[b + 1]))
        columns = (a[rows].tolist() for a in (self.start, self.end, self.word))
        return _words(self.texts[b], self.lexicon, *columns)

    def only(self) -> list[Word]:
        """Return the words of the only text.

        Raises
        ------
        NoPathError
            No words cover it.
        """
        if self.scores[0] == -np.inf:
            raise NoPathError(f"no words cover the text {self.texts[0][:20]!r}")
        return self.words(0)

    def surfaces(self, b: int) -> list[str]:
        """Return the strings of the words of text b."""
        rows = slice(int(self.row[b]), int(self.row[b + 1]))
        text = self.texts[b]
        pairs = zip(self.start[rows].tolist(), self.end[rows].tolist(), strict=True)
        return [text[s:e] for s, e in pairs]


@dataclass(frozen=True, eq=False)
class Candidates:
    """All candidate words of a text, sorted by the end of the previous word.

    Of paths of `Lexicon.lattice`, ``arcs`` numbers these words.

    first : int32 [n]
        The end of the previous word, in characters; blanks may follow.
    start, end : int32 [n]
        Characters of each word.
    word : int32 [n]
        Its number in the lexicon.
    last : int
        The end of the last words, if only blanks follow; −1 if no words cover the text.
    """

    text: str
    lexicon: WordTable
    first: Ints
    start: Ints
    end: Ints
    word: Ints
    last: int

    def __len__(self) -> int:
        return len(self.word)

    def __iter__(self) -> Iterator[Word]:
        return iter(self.chosen(np.arange(len(self))))

    def __repr__(self) -> str:
        return f"<Candidates: {len(self):,} words, {len(self.text):,} characters>"

    def chosen(self, numbers: Ints | Longs) -> list[Word]:
        """Return some of the words."""
        columns = (a[numbers].tolist() for a in (self.start, self.end, self.word))
        return _words(self.text, self.lexicon, *columns)


def _words(
    text: str, lexicon: WordTable, start: list[int], end: list[int], word: list[int]
) -> list[Word]:
    feature = lexicon.feature
    places = zip(start, end, word, strict=True)
    return [Word(text[s:e], s, e, feature(w), w) for s, e, w in places]


class WordLabels:
    """Labels of the words of a lexicon, each looked at once; any number of threads may ask.

    Parameters
    ----------
    lexicon : WordTable
    label : callable
        Feature of a word to its label.
    """

    def __init__(self, lexicon: WordTable, label: Callable[[str], str]) -> None:
        self.lexicon, self._label = lexicon, label
        self._number = np.full(lexicon.n_words, -1, dtype=np.int32)
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        self._turns = Turns()

    def __getitem__(self, word: int) -> str:
        number = int(self._number[word])
        return self._names[self._found(word) if number < 0 else number]

    def _found(self, word: int) -> int:
        label = self._label(self.lexicon.feature(word))
        with self._turns.lock:
            if label not in self._index:
                self._names.append(label)
                self._index[label] = len(self._names) - 1
            number = self._number[word] = self._index[label]
            return number

    def of(self, words: Ints) -> tuple[tuple[str, ...], Ints]:
        """Return the labels of some words, sorted, and which of them each word has, int32 [n]."""
        number = self._number[words]
        if (number < 0).any():
            for word in distinct(words[number < 0]).tolist():
                self._found(word)
            number = self._number[words]
        rank = np.zeros(len(self._names), dtype=np.int32)
        rank[number] = 1
        there = sorted(np.flatnonzero(rank).tolist(), key=self._names.__getitem__)
        rank[there] = np.arange(len(there))
        return tuple(self._names[k] for k in there) or ("",), rank[number]


def first_field(feature: str) -> str:
    """Return the text before the first comma of a feature: in most dictionaries, the class."""
    return feature.partition(",")[0]

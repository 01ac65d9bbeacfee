"""Words of texts: the best ones as flat arrays, and lattices of all that may stand in a text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fstcrf.arguments import whole_number
from fstcrf.arrays import Array, Bools, Floats, Ints, Longs, distinct
from fstcrf.errors import NoPathError
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.ragged import Ragged

__all__ = ["Word", "WordAnswer", "WordLattice", "WordPath", "WordTable"]


class WordTable(Protocol):
    """What a lexicon knows of its words by their numbers."""

    matrix: NDArray[np.int16]
    unit: float

    @property
    def n_known(self) -> int:
        """Words of dictionaries."""

    def feature(self, word: int) -> str:
        """Return a word's feature."""

    def entries(self, words: Ints) -> NDArray[np.void]:
        """Return contexts and costs of words."""


class Word(NamedTuple):
    """A word in a text, at its characters ``start`` to ``end − 1``.

    feature : str
        As it stands in the dictionary.
    number : int
        Of the word in its lexicon.
    """

    surface: str
    start: int
    end: int
    feature: str
    number: int


class WordPath(NamedTuple):
    """Words that cover a text, their natural-log score, and its share among all ways."""

    words: list[Word]
    score: float
    probability: float


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
        places = zip(*(a[rows].tolist() for a in (self.start, self.end, self.word)), strict=True)
        text, feature = self.texts[b], self.lexicon.feature
        return [Word(text[s:e], s, e, feature(w), w) for s, e, w in places]

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
class WordLattice:
    """All words that may stand in a text, as an acyclic machine.

    A state is a place where words end and the right context that they leave; an arc is a word after
    one of them. Words are in no way of the lattice if what follows them has no words.

    start, end : int32 [n]
        Characters of each word.
    word : int32 [n]
        Its number in the lexicon.
    machine : Acyclic
        Scores are natural logs.
    arc_word : int32 [A]
        Word of each arc, −1: none, as between neighbours or at the end of the text.
    """

    text: str
    lexicon: WordTable
    start: Ints
    end: Ints
    word: Ints
    machine: Acyclic
    arc_word: Ints

    @classmethod
    def of(
        cls, text: str, lexicon: WordTable, words: Array, last: int, start: Ints, end: Ints
    ) -> WordLattice:
        """Return the lattice of the words that `find_words` found; `last`: where the text ends."""
        number = np.ascontiguousarray(words["word"])
        entries = lexicon.entries(number)
        where = words["end"].astype(np.int64)
        key = where << 16 | entries["right"]
        keys = distinct(key)
        state = np.searchsorted(keys, key) + 1  # state 0: the text begins
        place, context = np.append(0, keys >> 16), np.append(0, keys & 0xFFFF)
        first = np.searchsorted(words["from"], place, side="left")
        count = np.searchsorted(words["from"], place, side="right") - first
        behind = Ragged.from_lengths(count)
        source, arc = behind.rows(), behind.ranges(first)
        cost = lexicon.matrix[entries["left"][arc], context[source]].astype(np.float64)
        cost += entries["cost"][arc]
        ends = place == last
        final = np.full(len(place), -np.inf)
        final[ends] = -lexicon.matrix[0, context[ends]] / lexicon.unit
        machine = Acyclic(
            behind.offsets,
            state[arc].astype(np.int32),
            -cost / lexicon.unit,
            final,
        )
        return cls(text, lexicon, start, end, number, machine, arc.astype(np.int32))

    def __repr__(self) -> str:
        return f"<WordLattice: {len(self.word):,} words, {len(self.arc_word):,} arcs>"

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all ways; −inf where there is none."""
        return float(self.machine.log_partitions()[0])

    def best(self) -> WordPath:
        """Return the best way.

        Raises
        ------
        NoPathError
            No words cover the text.
        """
        found = self.nbest(1)
        if not found:
            raise NoPathError(f"no words cover the text {self.text[:20]!r}")
        return found[0]

    def best_words(self) -> tuple[Ints, float]:
        """Return which words are on the best way, int32 [k], and its score; −inf: there is none."""
        words = self.arc_word[self.machine.best_paths()[0]]
        return words[words >= 0], float(self.machine.best_scores()[0])

    def nbest(self, n: int) -> list[WordPath]:
        """Return the n best ways, best first; fewer where there are fewer.

        Raises
        ------
        OptionError
            n is negative.
        """
        arcs, scores, _ = self.machine.nbest(n)
        total = self.log_partition()
        return [
            WordPath(self._words(row[row >= 0]), score, min(1.0, math.exp(score - total)))
            for row, score in zip(arcs, scores.tolist(), strict=True)
        ]

    def sample(self, n: int, *, seed: int = 0) -> list[list[Word]]:
        """Return the words of n independent exact samples.

        Raises
        ------
        NoPathError
            No words cover the text.
        OptionError
            A negative n or seed.
        """
        n, seed = whole_number(n, "n", narrow=True), whole_number(seed, "seed")
        if self.log_partition() == -np.inf:
            raise NoPathError(f"no words cover the text {self.text[:20]!r}")
        arcs = self.machine.sample(n, [np.random.default_rng(seed)])
        return [self._words(row[row >= 0]) for row in arcs]

    def marginals(self) -> Floats:
        """Return the probability of each word, float64 [n]; zeros where there is no way."""
        share = self.machine.marginals()[1]
        own = self.arc_word >= 0
        return _summed(self.arc_word[own], share[own], len(self.word))

    def boundaries(self) -> Floats:
        """Return the probability that a word begins before each character, float64 [characters]."""
        share = self.marginals()
        return _summed(self.start, share, len(self.text))

    def words(self) -> list[Word]:
        """Return all words, as they stand in `start`, `end` and `word`."""
        return [self._word(k) for k in range(len(self.word))]

    def _words(self, arcs: Ints) -> list[Word]:
        return [self._word(k) for k in self.arc_word[arcs].tolist() if k >= 0]

    def _word(self, k: int) -> Word:
        start, end, number = int(self.start[k]), int(self.end[k]), int(self.word[k])
        feature = self._features.get(number)
        if feature is None:
            feature = self._features[number] = self.lexicon.feature(number)
        return Word(self.text[start:end], start, end, feature, number)

    @cached_property
    def _features(self) -> dict[int, str]:
        return {}


def _summed(place: Ints, share: Floats, size: int) -> Floats:
    total: Floats = np.bincount(place, weights=share, minlength=size).astype(np.float64)
    return total

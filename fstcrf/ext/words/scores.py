"""Scores of words and neighbours under learnt weights, for all words, including new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Array, Floats, Ints, Longs, Ragged
from fstcrf.ext.lexicon import Candidates, Lexicon
from fstcrf.ext.lexicon.words import WordLabels
from fstcrf.ext.words.classes import ClassVocabulary, WordClasses
from fstcrf.ext.words.templates import Rewrites, WordTemplates
from fstcrf.lattices import AnyLattice, Lattice
from fstcrf.lattices.constructors import from_words, word_arcs
from fstcrf.lazy import Turns

_MOST = 1 << 26  # cells of a table of neighbours
_OWN = 0xFFFF  # bits of a context of the lexicon


@dataclass(frozen=True, eq=False)
class WordWeights:
    """Features and their weights.

    Parameters
    ----------
    unigrams : list of (template, string)
        Features of words.
    firsts, seconds : list of (template, string)
        The contributions of the first and of the second word to features of neighbours.
    words : float64 [unigrams]
    pair : int64 [features]
        Features of neighbours: number of the first part · number of second parts + number of the
        second part, ascending.
    pairs : float64 [features]
    costs : float
        Scale of the lexicon's costs; 0: they do not count.
    """

    unigrams: list[tuple[int, str]]
    firsts: list[tuple[int, str]]
    seconds: list[tuple[int, str]]
    words: Floats
    pair: Longs
    pairs: Floats
    costs: float

    @property
    def size(self) -> int:
        """Features."""
        return len(self.words) + len(self.pairs)

    def between(self, first: Ints, second: Ints) -> Floats:
        """Return scores of neighbours, by the parts of both: int32 [n, templates], float64 [n]."""
        if not len(self.pair):
            return np.zeros(len(first))
        key = first.astype(np.int64) * len(self.seconds) + second
        place = np.minimum(np.searchsorted(self.pair, key), len(self.pair) - 1)
        there = (first >= 0) & (second >= 0) & (self.pair[place] == key)
        found: Floats = np.where(there, self.pairs[place], 0.0).sum(axis=1)
        return found


class BestWords(NamedTuple):
    """The best words of texts, ``row[b] : row[b + 1]`` for text b; without a path, score −inf."""

    row: Longs
    start: Ints
    end: Ints
    word: Ints
    score: Floats


class WordScores:
    """Lattices of texts with scores; any number of threads may ask.

    Parameters
    ----------
    lexicon : Lexicon
    templates : WordTemplates
    rewrites : Rewrites
    weights : WordWeights
    classes : WordClasses, optional
        Classes of words with the numbers of these features, if they are there already.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        templates: WordTemplates,
        rewrites: Rewrites,
        weights: WordWeights,
        classes: WordClasses | None = None,
    ) -> None:
        self._lexicon, self._weights = lexicon, weights
        parts = weights.unigrams, weights.firsts, weights.seconds
        if classes is None:
            unigrams, firsts, seconds = (ClassVocabulary(keys, grows=False) for keys in parts)
            classes = WordClasses(lexicon, templates, rewrites, (unigrams, firsts, seconds))
        self.classes = classes
        self._words = np.append(weights.words, 0.0)
        self._own = np.zeros(0)
        self._between = np.full((0, 0), np.nan)
        self._turns = Turns()

    def own(self) -> Floats:
        """Return the scores of all classes of words met so far, float64 [classes]."""
        rows = self.classes.own.rows
        known = self._own
        if len(known) < len(rows):
            known = np.concatenate([known, self._words[rows[len(known) :]].sum(axis=1)])
            self._own = known
        return known

    def between(self, right: Array, left: Array) -> Floats:
        """Return the scores of neighbours, by right and left classes: int [n], float64 [n]."""
        table = self._between
        if not len(right):
            return np.zeros(0)
        if table.shape[0] <= right.max() or table.shape[1] <= left.max():
            with self._turns.lock:
                table = self._grown()
        if not table.size:
            return self._looked(right, left)
        found = table[right, left]
        new = np.isnan(found)
        if new.any():
            found[new] = table[right[new], left[new]] = self._looked(right[new], left[new])
        return found

    def _grown(self) -> Floats:
        sizes = len(self.classes.right), len(self.classes.left)
        old = self._between
        rights, lefts = (
            max(n, 64 if n < 64 else n + n // 4) if n > o else o
            for n, o in zip(sizes, old.shape, strict=True)
        )
        if rights * lefts > _MOST:
            return np.zeros((0, 0))
        table = np.full((rights, lefts), np.nan)
        table[: old.shape[0], : old.shape[1]] = old
        self._between = table
        return table

    def _looked(self, right: Array, left: Array) -> Floats:
        classes = self.classes
        return self._weights.between(classes.right.rows[right], classes.left.rows[left])

    def lattice(self, words: Candidates, labels: WordLabels) -> AnyLattice:
        """Return the lattice of candidate words of a text, with scores and labels."""
        row, (names, label) = np.array([0, len(words)]), labels.of(words.word)
        contexts = self._contexts([words.text], row, words.start, words.end, words.word)
        places = words.first, words.end
        found = from_words(len(words.text), *places, label, names, *contexts, words.last)
        return Lattice(found)

    def best(
        self, texts: Sequence[str], boundaries: Sequence[Mapping[int, bool]] | None = None
    ) -> BestWords:
        """Return the best words of texts; ties as of their lattices."""
        marks = repeat(None) if boundaries is None else boundaries
        pairs = zip(texts, marks, strict=boundaries is not None)
        several = [self._lexicon.candidates(t, boundaries=m) for t, m in pairs]
        first, start, end, word = (
            np.concatenate([getattr(one, name) for one in several])
            for name in ("first", "start", "end", "word")
        )
        lengths, last = np.array([(len(one.text), one.last) for one in several]).T
        row = Ragged.from_lengths(map(len, several)).offsets
        contexts = self._contexts(texts, row, start, end, word)
        words = int(word.max(initial=-1)) + 1
        arcs = word_arcs(lengths, row, first, end, word, words, *contexts, last)
        runs, rows = arcs.nbest(1), np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(runs.counts, out=rows[1:])
        chosen = arcs.origin[runs.elements]
        return BestWords(
            runs.bounds[rows], start[chosen], end[chosen], word[chosen], arcs.best_scores
        )

    def _contexts(
        self, texts: Sequence[str], row: Longs, start: Ints, end: Ints, word: Ints
    ) -> tuple[Longs, Callable[[Longs, Longs], Floats]]:
        """Return the right contexts of words, ``row[b] : row[b + 1]`` of each text, and of ends.

        The second value is a function that returns the scores of words after contexts. A context is
        class · 2¹⁶ + the lexicon's context.
        """
        found, entries = (
            self.classes.of_all(texts, row, start, end, word),
            self._lexicon.entries(word),
        )
        left, right = (
            np.append(classes, end).astype(np.int64) << 16
            for classes, end in zip((found.left, found.right), self.classes.ends, strict=True)
        )
        own, costs = np.append(self.own()[found.own], 0.0), self._weights.costs
        if costs:
            own[:-1] -= costs * entries["cost"] / self._lexicon.unit
            left[:-1] |= entries["left"]
            right[:-1] |= entries["right"]

        def behind(context: Longs, word: Longs) -> Floats:
            score: Floats = self._pairs(context, left[word]) + own[word]
            return score

        return right, behind

    def _pairs(self, right: Longs, left: Longs) -> Floats:
        score = self.between(right >> 16, left >> 16)
        if self._weights.costs:
            cost = self._lexicon.matrix[left & _OWN, right & _OWN]
            score = score - self._weights.costs * cost / self._lexicon.unit
        return score

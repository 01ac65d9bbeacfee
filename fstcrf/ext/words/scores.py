"""What words and neighbours score under weights that were learnt, whatever words are met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from threading import RLock
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Array, Floats, Ints, Longs
from fstcrf.ext.lexicon import Lexicon, WordLattice
from fstcrf.ext.words.classes import ClassVocabulary, WordClasses
from fstcrf.ext.words.machines import Shape, word_shapes
from fstcrf.ext.words.templates import Rewrites, WordTemplates
from fstcrf.kernel.acyclic import Acyclic
from fstcrf.ragged import Ragged

__all__ = ["WordScores", "WordWeights"]

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
        What features of neighbours have of the first word and of the second.
    words : float64 [unigrams]
    pair : int64 [features]
        Features of neighbours: number of the first part · seconds + that of the second, ascending.
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


class _Contexts(NamedTuple):
    """Contexts of words: their numbers in this text, and class · 2¹⁶ + the lexicon's of each."""

    number: Longs
    code: Longs
    end: int


Candidates = tuple[Array, int, Ints, Ints]
"""Words, where the last of them end, and their characters: `Lexicon.candidates`."""


class _Scored(NamedTuple):
    """Words of texts, and their machine, in which each text has a state where it begins."""

    start: Ints
    end: Ints
    number: Ints
    shape: Shape
    machine: Acyclic


class BestWords(NamedTuple):
    """The best words of texts, ``row[b] : row[b + 1]`` those of text b; score −inf: no way."""

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
        self._lock = RLock()

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
            with self._lock:
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

    def lattice(self, text: str, boundaries: Mapping[int, bool] | None = None) -> WordLattice:
        """Return the words that may stand in a text, with scores."""
        one = self._scored([text], [self._lexicon.candidates(text, boundaries=boundaries)])
        parts = one.start, one.end, one.number, one.machine, one.shape.word
        return WordLattice(text, self._lexicon, *parts)

    def best(
        self, texts: Sequence[str], boundaries: Sequence[Mapping[int, bool]] | None = None
    ) -> BestWords:
        """Return the best words of texts; ties as of their lattices."""
        marks = repeat(None) if boundaries is None else boundaries
        pairs = zip(texts, marks, strict=boundaries is not None)
        one = self._scored(texts, [self._lexicon.candidates(t, boundaries=m) for t, m in pairs])
        arcs, row = one.machine.best_paths()
        word = one.shape.word[arcs]
        rows = Ragged(row).filtered(word >= 0)
        chosen = word[word >= 0]
        scores = one.machine.best_scores()
        return BestWords(
            rows.offsets, one.start[chosen], one.end[chosen], one.number[chosen], scores
        )

    def _scored(self, texts: Sequence[str], candidates: Sequence[Candidates]) -> _Scored:
        """Return the words of texts with scores, side by side in one machine."""
        lexicon, costs = self._lexicon, self._weights.costs
        words = np.concatenate([one[0] for one in candidates])
        row = Ragged.from_lengths(len(one[0]) for one in candidates).offsets
        last = np.asarray([one[1] for one in candidates], dtype=np.int64)
        start, end = (np.concatenate([one[k] for one in candidates]) for k in (2, 3))
        sizes = [int(one[0]["end"].max(initial=0)) + 1 for one in candidates]
        begin = Ragged.from_lengths(sizes).offsets[:-1]
        number = np.ascontiguousarray(words["word"])
        found = self.classes.of_all(texts, row, start, end, number)
        entries = lexicon.entries(number)
        score = self.own()[found.own]
        if costs:
            score = score - costs * entries["cost"] / lexicon.unit
        left = self._contexts(found.left, entries["left"], self.classes.ends[0])
        right = self._contexts(found.right, entries["right"], self.classes.ends[1])
        shift = Ragged(row).repeat(begin)
        shape, states = word_shapes(
            words["from"] + shift,
            words["end"] + shift,
            left.number,
            right.number,
            begin,
            np.where(last < 0, -1, last + begin),
            (left.end, right.end),
        )
        final = np.full(shape.states, -np.inf)
        final[-1] = 0.0
        arcs = np.zeros(len(shape.target))
        is_word, is_pair = shape.word >= 0, shape.pair >= 0
        arcs[is_word] = score[shape.word[is_word]]
        pair = shape.pair[is_pair]
        arcs[is_pair] = self._pairs(right.code[pair >> 32], left.code[pair & (1 << 32) - 1])
        machine = Acyclic(shape.row, shape.target, arcs, final, states)
        return _Scored(start, end, number, shape, machine)

    def _contexts(self, classes: Ints, own: Array, end: int) -> _Contexts:
        code = np.append(classes, end).astype(np.int64) << 16
        if self._weights.costs:
            code[:-1] |= own
        distinct, number = np.unique(code, return_inverse=True)
        return _Contexts(number[:-1], distinct, int(number[-1]))

    def _pairs(self, right: Longs, left: Longs) -> Floats:
        score = self.between(right >> 16, left >> 16)
        if self._weights.costs:
            cost = self._lexicon.matrix[left & _OWN, right & _OWN]
            score = score - self._weights.costs * cost / self._lexicon.unit
        return score

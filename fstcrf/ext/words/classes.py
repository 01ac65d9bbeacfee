"""Classes of words: all templates give the words of a class the same strings.

A word has three classes: one for itself, one for the previous word (its left class) and one for the
next word (its right class). Templates are evaluated once for each class. Classes are numbered in
the order of their first word; the ends of a text have a left and a right class, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fstcrf.arrays import Array, Ints, Longs
from fstcrf.errors import DataError
from fstcrf.ext.lexicon import Lexicon
from fstcrf.ext.words.templates import (
    BOUNDARY,
    MOST_CHARACTERS,
    Rewrites,
    WordSeen,
    WordTemplates,
    fields_of,
)
from fstcrf.lazy import Turns

_LENGTHS = MOST_CHARACTERS + 1


class ClassVocabulary:
    """Numbers of strings, each of a template.

    Parameters
    ----------
    keys : iterable of (int, str)
        The known strings.
    grows : bool
        Others get numbers as they are met.
    """

    def __init__(self, keys: Iterable[tuple[int, str]] = (), *, grows: bool = True) -> None:
        self._number = {key: k for k, key in enumerate(keys)}
        self._grows = grows

    def __len__(self) -> int:
        return len(self._number)

    def keys(self) -> list[tuple[int, str]]:
        """Return all strings in the order of their numbers."""
        return list(self._number)

    def number(self, template: int, text: str | None) -> int:
        """Return the number of a string, −1 if it is unknown."""
        if text is None:
            return -1
        key = template, text
        if self._grows:
            return self._number.setdefault(key, len(self._number))
        return self._number.get(key, -1)


class ClassTable:
    """Classes of one sort, and the numbers that each has in a vocabulary.

    Parameters
    ----------
    templates : int
    """

    def __init__(self, templates: int) -> None:
        self._number: dict[Hashable, int] = {}
        self._rows = np.empty((64, templates), dtype=np.int32)

    def __len__(self) -> int:
        return len(self._number)

    @property
    def rows(self) -> Ints:
        """Numbers of strings, int32 [classes, templates]; −1 if a template has no string."""
        return self._rows[: len(self)]

    def number(self, key: Hashable) -> int | None:
        """Return the number of a class that is known."""
        return self._number.get(key)

    def add(self, key: Hashable, row: Sequence[int]) -> int:
        """Add a class and return its number."""
        k = len(self._number)
        if k == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[k] = row
        self._number[key] = k
        return k


class FoundClasses(NamedTuple):
    """Classes of words: int32 [n] each."""

    own: Ints
    left: Ints
    right: Ints


class WordClasses:
    """Classes of the words of a lexicon, found as they are asked for.

    Parameters
    ----------
    lexicon : Lexicon
    templates : WordTemplates
    rewrites : Rewrites
    unigrams, firsts, seconds : ClassVocabulary
        Strings of words, and of the first and second words of pairs.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        templates: WordTemplates,
        rewrites: Rewrites,
        vocabularies: tuple[ClassVocabulary, ClassVocabulary, ClassVocabulary],
    ) -> None:
        self.lexicon, self._templates, self._rewrites = lexicon, templates, rewrites
        self._unigrams, self._firsts, self._seconds = vocabularies
        self.own = ClassTable(len(templates.unigrams))
        self.left = ClassTable(len(templates.bigrams))
        self.right = ClassTable(len(templates.bigrams))
        self._turns = Turns()
        self.counted = templates.uses("n")
        """Templates look at how many characters a word has."""
        unknown = len(lexicon.tables.unknown_entries)
        self._known = lexicon.n_known
        self._slots = np.full((3, self._known + unknown * _LENGTHS), -1, dtype=np.int32)
        blank = [BOUNDARY, *["*"] * (max(rewrites.fields, templates.fields) - 1)]
        _, left, right = rewrites.applied(blank)
        self.ends = self._left(left), self._right(right)
        """Left and right class of the ends of a text."""

    def of(self, text: str, start: Ints, end: Ints, word: Ints) -> FoundClasses:
        """Return the classes of words at some characters of a text; errors as for many."""
        return self.of_all([text], np.asarray([0, len(word)]), start, end, word)

    def of_all(
        self, texts: Sequence[str], row: Longs, start: Ints, end: Ints, word: Ints
    ) -> FoundClasses:
        """Return the classes of words at some characters of texts: ``row[b] : row[b + 1]`` of each.

        Raises
        ------
        DataError
            A feature that no rule rewrites, or of a damaged dictionary.
        """
        slot = self._slot(word, end - start)
        if len(slot) and self._slots[0, slot].min() < 0:
            with self._turns.lock:
                new, first = np.unique(slot, return_index=True)
                for s, k in zip(new.tolist(), first.tolist(), strict=True):
                    if self._slots[0, s] < 0:
                        text = texts[int(np.searchsorted(row, k, side="right")) - 1]
                        self._add(s, int(word[k]), text[start[k] : end[k]])
        return FoundClasses(*self._slots[:, slot])

    def of_word(self, word: int, surface: str) -> tuple[int, int, int]:
        """Return the classes of one word; only the length of an unknown surface counts."""
        slot = int(self._slot(np.asarray([word]), np.asarray([len(surface)]))[0])
        if self._slots[0, slot] < 0:
            with self._turns.lock:
                if self._slots[0, slot] < 0:
                    self._add(slot, word, surface)
        own, left, right = self._slots[:, slot].tolist()
        return own, left, right

    def _slot(self, word: Ints, characters: Array) -> Array:
        slot = word.astype(np.int64)
        unknown = slot >= self._known
        if unknown.any():
            kept = np.minimum(characters, MOST_CHARACTERS) if self.counted else 0
            beyond = self._known + (slot - self._known) * _LENGTHS + kept
            slot = np.where(unknown, beyond, slot)
        return slot

    def _add(self, slot: int, word: int, surface: str) -> None:
        fields = fields_of(self.lexicon.feature(word))
        try:
            own, left, right = self._rewrites.applied(fields)
        except DataError as error:
            raise DataError(f"the word {surface!r}: {error}") from None
        # the class for itself is stored last: if it exists, all exist
        self._slots[2, slot] = self._right(right)
        self._slots[1, slot] = self._left(left)
        self._slots[0, slot] = self._own(own, word, surface)

    def _own(self, fields: tuple[str, ...], word: int, surface: str) -> int:
        uses = self._templates.uses
        known = word < self._known
        seen = WordSeen(
            fields,
            self._kind(word, surface) if uses("t") else 0,
            surface if known and uses("w") else None,
            len(surface) if self.counted else 0,
        )
        key = fields, seen.kind, seen.surface, min(seen.characters, MOST_CHARACTERS)
        found = self.own.number(key)
        if found is not None:
            return found
        templates = enumerate(self._templates.unigrams)
        return self.own.add(key, [self._unigrams.number(k, t.of_word(seen)) for k, t in templates])

    def _kind(self, word: int, surface: str) -> int:
        if word >= self._known:
            rows = self.lexicon.tables.unknown
            return int(np.searchsorted(rows, word - self._known, side="right")) - 1
        codes = self.lexicon.characters.codes
        code = ord(surface[0])
        return int(codes[code if code < len(codes) else 0]) >> 18 & 0xFF

    def _left(self, fields: tuple[str, ...]) -> int:
        found = self.left.number(fields)
        if found is not None:
            return found
        texts = [one.second(fields) for one in self._templates.bigrams]
        return self.left.add(fields, [self._seconds.number(k, t) for k, t in enumerate(texts)])

    def _right(self, fields: tuple[str, ...]) -> int:
        found = self.right.number(fields)
        if found is not None:
            return found
        texts = [one.first(fields) for one in self._templates.bigrams]
        return self.right.add(fields, [self._firsts.number(k, t) for k, t in enumerate(texts)])

"""Lattices to learn from: candidate words of annotated texts, marked if they agree.

If the lattice lacks a word of an annotation, `on_missing` decides: it is an error that names the
word, the text is skipped, the nearest paths are learnt, or the word is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from fstcrf.arrays import Array, Bools, Floats, Ints, Longs
from fstcrf.errors import DataError, LabelWarning, warn
from fstcrf.ext.lexicon import Lexicon
from fstcrf.ext.lexicon.words import WordLabels
from fstcrf.ext.words.annotation import Annotation, KnownWord, label_of
from fstcrf.ext.words.classes import WordClasses
from fstcrf.ext.words.machines import Shape, word_shape
from fstcrf.ext.words.templates import fields_of
from fstcrf.kernel.acyclic import Acyclic

OnMissing = Literal["error", "nearest", "skip", "add"]


class CandidateLabels(WordLabels):
    """Labels of the words of a lexicon, by their numbers: some fields of their features."""

    def __init__(self, lexicon: Lexicon, fields: Sequence[int]) -> None:
        super().__init__(lexicon, lambda feature: label_of(fields_of(feature), fields))

    def among(self, labels: Iterable[str]) -> set[str]:
        """Return the given labels that some word of the lexicon has, known or unknown."""
        wanted = set(labels)
        left = wanted.copy()
        for word in range(self.lexicon.n_words):
            if not left:
                break
            left.discard(self._label(self.lexicon.feature(word)))
        return wanted - left

    def unknown(self, label: str | None) -> int:
        """Return the unknown word whose label has most in common with a label from its start."""
        first = self.lexicon.n_known
        wanted = (label or "").split("-")

        def common(word: int) -> int:
            parts = self[word].split("-")
            same = [a == b for a, b in zip(wanted, parts, strict=False)]
            return same.index(False) if False in same else len(same) - (len(parts) != len(wanted))

        return max(range(first, self.lexicon.n_words), key=common)


class Contexts:
    """Numbers of contexts: a class and, if the lexicon's costs count, its context."""

    def __init__(self, *, costs: bool) -> None:
        self._costs = costs
        self._number: dict[int, int] = {}

    def numbers(self, classes: Ints, own: Array) -> Longs:
        """Return the numbers of contexts, int64 [n]; new ones get the next."""
        code = classes.astype(np.int64) << 16
        if self._costs:
            code |= own
        distinct, inverse = np.unique(code, return_inverse=True)
        known = self._number
        found = [known.setdefault(c, len(known)) for c in distinct.tolist()]
        return np.asarray(found, dtype=np.int64)[inverse]

    @property
    def codes(self) -> Longs:
        """Class · 2¹⁶ + own context of each."""
        return np.fromiter(self._number, dtype=np.int64, count=len(self._number))


class _Words(NamedTuple):
    """Candidate words of a text.

    table : int64 [4, n]
        The end of the word before each word; the start and end of the word; its number.
    added : bool [n]
        The lexicon does not give them.
    last : int
        Where the last words end; −1: there is no way.
    """

    table: Longs
    added: Bools
    last: int

    @property
    def first(self) -> Longs:
        found: Longs = self.table[0]
        return found

    @property
    def start(self) -> Longs:
        found: Longs = self.table[1]
        return found

    @property
    def end(self) -> Longs:
        found: Longs = self.table[2]
        return found

    @property
    def word(self) -> Longs:
        found: Longs = self.table[3]
        return found


@dataclass(frozen=True, eq=False)
class TrainingLattice:
    """One lattice to learn from.

    Parameters
    ----------
    whole, agreeing : Shape
        All paths through the text, and the paths that agree with the annotation.
    own : int32 [n]
        Class of each word.
    base, offset : float64 [n]
        The lexicon's score of each word, and the logarithm of the number of words that it
        represents.
    """

    whole: Shape
    agreeing: Shape
    own: Ints
    base: Floats
    offset: Floats


def sentences(
    annotations: Sequence[Annotation],
    classes: WordClasses,
    labels: CandidateLabels,
    contexts: tuple[Contexts, Contexts],
    *,
    costs: bool,
    on_missing: OnMissing = "error",
) -> list[TrainingLattice]:
    """Return the lattices of annotated texts; those without text are left out.

    Raises
    ------
    DataError
        The lattice lacks an annotation (`on_missing` "error"), or there is nothing to learn.
    """
    builder = _Builder(classes, labels, contexts, costs=costs, on_missing=on_missing)
    found = [builder.of(k, one) for k, one in enumerate(annotations) if one.text.strip()]
    _tell(builder.missing, on_missing)
    kept = [one for one in found if one is not None]
    if not kept:
        raise DataError("no text to learn from")
    return kept


def _tell(missing: list[tuple[int, int, str]], on_missing: OnMissing) -> None:
    if not missing:
        return
    number, _, example = missing[0]
    words = sum(count for _, count, _ in missing)
    what = (
        f"{len(missing)} texts have words or boundaries that no way through their lattice has, "
        f"{words} words among them; the first is text {number + 1}: {example}"
    )
    if on_missing == "error":
        raise DataError(
            f"{what}: set on_missing to 'nearest', 'add' or 'skip', or add entries to the lexicon"
        )
    done = {
        "skip": "these texts are left out",
        "nearest": "the ways nearest to them are learnt",
        "add": "the words are added as unknown ones",
    }
    warn(f"{what}: {done[on_missing]}", LabelWarning)


class _Builder:
    def __init__(
        self,
        classes: WordClasses,
        labels: CandidateLabels,
        contexts: tuple[Contexts, Contexts],
        *,
        costs: bool,
        on_missing: OnMissing,
    ) -> None:
        self._lexicon, self._classes, self._labels = classes.lexicon, classes, labels
        self._contexts, self._costs, self._on_missing = contexts, costs, on_missing
        self.missing: list[tuple[int, int, str]] = []
        left, right = contexts
        nothing = np.zeros(1, dtype=np.int64)
        self._ends = (
            int(left.numbers(np.asarray([classes.ends[0]], dtype=np.int32), nothing)[0]),
            int(right.numbers(np.asarray([classes.ends[1]], dtype=np.int32), nothing)[0]),
        )

    def of(self, number: int, given: Annotation) -> TrainingLattice | None:
        """Return the lattice of a text; `None` if the text is skipped or its words are missing."""
        words = self._words(given.text)
        agrees = self._agrees(given, words)
        made = self._made(given.text, words, agrees)
        if made is not None:
            return made
        absent = self._absent(given, words)
        self.missing.append((number, len(absent), _named(given, absent)))
        if self._on_missing in ("error", "skip"):
            return None
        if self._on_missing == "add" and absent:
            words = self._with(given.text, words, absent)
            agrees = self._agrees(given, words) | words.added
            made = self._made(given.text, words, agrees)
        return made or self._made(given.text, words, self._nearest(given, words))

    def _words(self, text: str) -> _Words:
        words = self._lexicon.candidates(text)
        columns = words.first, words.start, words.end, words.word
        table = np.stack([column.astype(np.int64) for column in columns])
        return _Words(table, np.zeros(len(words), dtype=bool), words.last)

    def _agrees(self, given: Annotation, words: _Words) -> Bools:
        return given.agrees(words.start, words.end, lambda k: self._labels[int(words.word[k])])

    def _made(self, text: str, words: _Words, agrees: Bools) -> TrainingLattice | None:
        start, end, word = words.table[1:].astype(np.int32)
        found = self._classes.of(text, start, end, word)
        entries = self._lexicon.entries(word)
        left = self._contexts[0].numbers(found.left, entries["left"])
        right = self._contexts[1].numbers(found.right, entries["right"])
        cost = entries["cost"].astype(np.int64) if self._costs else np.zeros(len(left), np.int64)
        table = np.stack([words.first, words.end, left, right, found.own, agrees, cost])
        distinct, count = np.unique(table, axis=1, return_counts=True)
        first, stop, left, right, own, known, cost = distinct
        whole = word_shape(first, stop, left, right, words.last, self._ends)
        whole_kept = whole.kept(np.ones(len(whole.target), dtype=bool))
        if whole_kept is None:
            return None
        agreeing = whole_kept.kept((whole_kept.word < 0) | (known[whole_kept.word] != 0))
        if agreeing is None:
            return None
        base = -cost / self._lexicon.unit
        return TrainingLattice(whole_kept, agreeing, own.astype(np.int32), base, np.log(count))

    # --- What is not there ------------------------------------------------------------------------

    def _absent(self, given: Annotation, words: _Words) -> list[KnownWord]:
        spans: dict[tuple[int, int], set[str]] = {}
        rows = zip(words.start.tolist(), words.end.tolist(), words.word.tolist(), strict=True)
        for start, end, word in rows:
            spans.setdefault((start, end), set()).add(self._labels[word])
        return [
            one
            for one in given.words
            if (one.start, one.end) not in spans
            or (one.label is not None and one.label not in spans[one.start, one.end])
        ]

    def _with(self, text: str, words: _Words, absent: Sequence[KnownWord]) -> _Words:
        """Add words as unknown words, and the candidates after them."""
        for one in absent:
            before = len(text[: one.start].rstrip())
            row = before, one.start, one.end, self._labels.unknown(one.label)
            last = one.end if not text[one.end :].strip() else words.last
            table = np.concatenate([words.table, np.asarray(row)[:, None]], axis=1)
            words = _Words(table, np.append(words.added, True), last)
            if one.end not in words.first:
                words = self._continued(text, words, one.end)
        return words

    def _continued(self, text: str, words: _Words, at: int) -> _Words:
        """Add the candidate words after an added word."""
        further = self._words(text[at:])
        new = ~np.isin(further.first + at, words.first)
        shift = np.asarray([at, at, at, 0])[:, None]
        table = np.concatenate([words.table, further.table[:, new] + shift], axis=1)
        added = np.concatenate([words.added, further.added[new]])
        last = max(words.last, further.last + at if further.last >= 0 else -1)
        return _Words(table, added, last)

    def _nearest(self, given: Annotation, words: _Words) -> Bools:
        """Return the words on paths with as many known words as possible."""
        known = {(w.start, w.end): w.label for w in given.words}
        free = replace(given, words=())
        fits = free.agrees(words.start, words.end, lambda _: "")
        worth = np.where(fits, 0.0, -1.0)
        rows = zip(words.start.tolist(), words.end.tolist(), words.word.tolist(), strict=True)
        right = words.added.copy()
        for k, (start, end, word) in enumerate(rows):
            if (start, end) in known:
                right[k] |= known[start, end] in (None, self._labels[word])
                worth[k] += 2.0 if right[k] else 1.0
        blank = np.zeros(len(words.word), dtype=np.int64)
        shape = word_shape(words.first, words.end, blank, blank, words.last, (0, 0))
        score = np.where(shape.word < 0, 0.0, np.append(worth, 0.0)[shape.word])
        final = np.full(shape.states, -np.inf)
        final[-1] = 0.0
        arcs, _ = Acyclic(shape.row, shape.target, score, final).best_paths()
        taken = shape.word[arcs]
        taken = taken[taken >= 0]
        held = [
            KnownWord(int(words.start[k]), int(words.end[k]))
            for k in taken.tolist()
            if worth[k] >= 1.0
        ]
        found = Annotation(given.text, held).agrees(words.start, words.end, lambda _: "")
        strict = {(int(words.start[k]), int(words.end[k])) for k in taken.tolist() if right[k]}
        spans = zip(words.start.tolist(), words.end.tolist(), strict=True)
        wrong = np.asarray([span in strict for span in spans], dtype=bool) & ~right
        found &= ~wrong & fits
        found[taken] = True
        return found


def _named(given: Annotation, absent: Sequence[KnownWord]) -> str:
    if not absent:
        return f"boundaries of {given.text[:20]!r}"
    one = absent[0]
    label = "" if one.label is None else f" as {one.label}"
    return f"{given.text[one.start : one.end]!r}{label} at character {one.start}"

"""Words of documents: scores of their labels from their pieces, and their places in the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Array, Bools, Floats, Longs, Ragged
from fstcrf.errors import LabelError, NoPathError, OptionError
from fstcrf.ext.tokens.biases import Steps
from fstcrf.ext.tokens.pieces import PieceRows
from fstcrf.lattices import Lattices, TapeLattice
from fstcrf.lazy import made_once
from fstcrf.text.corpus import Span
from fstcrf.text.corpus.schemes import Scheme, named_scheme, split_label

PieceRule: TypeAlias = Literal["all", "first", "each"]
"""The use of the pieces of a word; see `fstcrf.TokenDecoder`."""

_CHAINS: Mapping[str, Mapping[str, str]] = {
    "iob1": {"B": "BII", "I": "III"},
    "io": {"I": "III"},
    "iob2": {"B": "BII", "I": "III"},
    "bioes": {"B": "BII", "I": "III", "E": "IIE", "S": "BIE"},
    "bilou": {"B": "BII", "I": "III", "L": "IIL", "U": "BIL"},
    "bmes": {"B": "BMM", "M": "MMM", "E": "MME", "S": "BME"},
    "bmewo": {"B": "BMM", "M": "MMM", "E": "MME", "W": "BME"},
}
"""The label of a word on its first piece, on inner pieces, and on its last piece."""


class WordRows(NamedTuple):
    """Words of a document.

    Attributes
    ----------
    scores : float64 [W, L]
        Scores of each word's label, from the only sequence of piece labels that represents it.
    start, end : int64 [W]
        Characters.
    """

    scores: Floats
    start: Longs
    end: Longs


class Spelling:
    """The labels of the pieces of a word, for each label of the word.

    Parameters
    ----------
    labels : tuple of L str
    scheme : Scheme
    steps : Steps
        Between pieces.
    rule : {"all", "first", "each"}

    Raises
    ------
    OptionError
        A type that no word of several pieces can have, under "all".
    """

    def __init__(
        self, labels: tuple[str, ...], scheme: Scheme, steps: Steps, rule: PieceRule
    ) -> None:
        self._rule, self._steps = rule, steps
        place = {label: i for i, label in enumerate(labels)}
        self._columns = np.full((3, len(labels)), -1)
        for i, label in enumerate(labels):
            letter, dash, kind = label.partition("-")
            chain = _CHAINS[scheme.name].get(letter, letter * 3)
            self._columns[:, i] = [place.get(a + dash + kind, -1) for a in chain]
        if rule == "all":
            self._check(labels)
        self._entry = self._entries()

    def _entries(self) -> Floats:
        """Return the bias of a step to a label's first piece minus the bias of a step to the label.

        A word of several pieces that ends a span is entered as an inner word. The previous label
        has no influence on the difference.
        """
        table, letter, kind = self._steps.table, self._steps.letter, self._steps.kind
        own = np.arange(len(letter))
        first = np.where(self._columns[0] < 0, own, self._columns[0])  # of the same type
        present = np.zeros((len(table), int(kind.max(initial=0)) + 1), dtype=bool)
        present[letter, kind] = True
        entry = np.full(len(letter), np.nan)
        for before, same in product(range(len(table)), (0, 1)):
            mine = present[before, kind]
            there = mine if same else present[before].sum() > mine
            to_first, to_own = table[before, letter[first], same], table[before, letter, same]
            usable = there & np.isfinite(to_first) & np.isfinite(to_own) & np.isnan(entry)
            entry[usable] = to_first[usable] - to_own[usable]
        return np.where(np.isnan(entry), 0.0, entry)

    def _check(self, labels: tuple[str, ...]) -> None:
        whole = np.flatnonzero((self._columns >= 0).all(axis=0)).tolist()
        able = {labels[i].partition("-")[2] for i in whole}
        for label in labels:
            kind = label.partition("-")[2]
            if kind not in able:
                raise OptionError(
                    f"no word of several pieces can have the type {kind!r}, because the label "
                    "for inner pieces is missing: use pieces='first', which reads only the "
                    "first piece of a word"
                )

    def words(self, document: PieceRows) -> WordRows:
        """Return the words of a document, with the scores of their labels."""
        n = len(document.start)
        if not n:
            return WordRows(document.scores, document.start, document.end)
        begins = np.ones(n, dtype=bool)
        begins[1:] = document.start[1:] >= document.end[:-1]
        if self._rule != "each":
            begins[1:] &= document.word[1:] != document.word[:-1]
        first = np.flatnonzero(begins)
        last = np.append(first[1:], n) - 1
        scores = document.scores[first]
        several = np.flatnonzero(last > first)
        if len(several) and self._rule != "first":
            scores[several] = self._spelt(document.scores, first[several], last[several])
        return WordRows(scores, document.start[first], document.end[last])

    def _spelt(self, scores: Floats, first: Longs, last: Longs) -> Floats:
        """Return the scores of words of several pieces, steps between their pieces included."""
        a, b, c = self._columns
        inner = (last - first - 1)[:, None]
        more = np.maximum(inner - 1, 0)
        out = scores[first][:, a] + scores[last][:, c] + self._entry
        between = self._steps.scores
        steps = between(a, b) + between(b, c) + more * _finite(between(b, b))
        out += np.where(inner > 0, steps, between(a, c))
        longer = np.flatnonzero(inner)
        if len(longer):
            parts = Ragged.from_lengths(inner[longer, 0])
            middle = scores[parts.ranges(first[longer] + 1)]
            out[longer] += np.add.reduceat(middle, parts.offsets[:-1], axis=0)[:, b]
        out[:, (self._columns < 0).any(axis=0)] = -np.inf
        return out


def _finite(values: Array) -> Floats:
    return np.where(np.isfinite(values), values, 0.0)


@dataclass(frozen=True, eq=False)
class WordBatch:
    """Documents as words, and the questions about them."""

    words: list[WordRows]
    texts: list[str | None]
    lattices: Lattices[TapeLattice]
    threads: int

    @made_once
    def alive(self) -> Bools:
        """Documents that have a labelling, bool [B]."""
        return self.lattices.log_partition(threads=self.threads) > -np.inf

    def size(self, k: int, start: int, end: int) -> int:
        """Return the number of words in a range of characters; 0 if an end is inside a word."""
        rows = self.words[k]
        first = int(np.searchsorted(rows.end, start, side="right"))
        last = int(np.searchsorted(rows.start, end, side="left"))
        if first >= last:
            return 0
        place = self.placed(k, Span(first, last, ""))
        return last - first if place is not None and place[:2] == (start, end) else 0

    def placed(self, k: int, span: Span) -> tuple[int, int, str] | None:
        """Return a span of words in characters; `None` for white space."""
        rows, text = self.words[k], self.texts[k]
        start, end = int(rows.start[span.start]), int(rows.end[span.end - 1])
        if text is not None:
            while start < end and text[start].isspace():
                start += 1
            while start < end and text[end - 1].isspace():
                end -= 1
        return (start, end, span.type) if start < end else None


def check_alive(alive: Bools) -> None:
    """Raise NoPathError for the first document without a legal labelling; bool [B]."""
    for k in np.flatnonzero(~alive).tolist()[:1]:
        why = "the grammar, or scores of -inf, leave no labelling"
        error = NoPathError(f"document {k}: {why}; on_no_path='skip' goes on")
        error.sentence = k
        raise error


def scheme_of(labels: Iterable[str]) -> str:
    """Return the name of the scheme that has all of these labels: the usual one where several do.

    The result is ``iob2`` for B and I, which ``iob1`` also has, and ``io`` for only I.

    Raises
    ------
    LabelError
        No scheme has them.

    Examples
    --------
    >>> scheme_of(["O", "B-PER", "I-PER"]), scheme_of(["O", "B-X", "I-X", "L-X", "U-X"])
    ('iob2', 'bilou')
    """
    usual = [named_scheme(name) for name in ("io", "iob2", "bioes", "bilou", "bmes", "bmewo")]
    names = list(dict.fromkeys(labels))
    strange = [[x for x in names if split_label(x, scheme)[0] == "?"] for scheme in usual]
    for scheme, odd in zip(usual, strange, strict=True):
        if not odd:
            return scheme.name
    never = next((x for x in names if all(x in odd for odd in strange)), None)
    what = f"labels {', '.join(names[:8])} together" if never is None else f"label {never!r}"
    raise LabelError(
        f"no tagging scheme has {what}: expected O and B-TYPE, I-TYPE, with E-TYPE, "
        "S-TYPE (bioes) or L-TYPE, U-TYPE (bilou), or B-TYPE, M-TYPE, E-TYPE with "
        "S-TYPE (bmes) or W-TYPE (bmewo); if labels are written in another way, "
        "describe it with names="
    )

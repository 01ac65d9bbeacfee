"""Gold spans of held-out documents: read, spelt as labels of words, and warned of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fstcrf.errors import DataError, LabelWarning, ShapeError, warn
from fstcrf.evaluate.labellings import counted
from fstcrf.ext.tokens.words import PieceRule, WordBatch
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.grammar.labels import listed
from fstcrf.text.corpus.schemes import labels_from_spans, named_scheme

Key: TypeAlias = tuple[int, int, str]
GoldText: TypeAlias = Iterable[tuple[int, int, str]]
"""The spans of a document: first character, the one behind the last, type."""


def gold_sets(gold: Sequence[GoldText]) -> list[set[Key]]:
    """Return the gold spans of each document; DataError where one is no span."""
    found = []
    for k, one in enumerate(gold):
        try:
            found.append({(int(a), int(b), str(kind)) for a, b, kind in one})
        except (TypeError, ValueError):
            raise DataError(
                f"gold spans of document {k}: expected (start, end, type) each, with "
                "character offsets and end exclusive"
            ) from None
    return found


def check_gold(gold: Sequence[Any], size: int) -> None:
    """Refuse the gold spans of another number of documents."""
    if len(gold) != size:
        raise ShapeError(f"gold spans of {len(gold)} documents, expected {size}")


def spelt(batch: WordBatch, k: int, spans: GoldText, scheme: str) -> list[str]:
    """Return the labels of the words of a document that spans of characters spell."""
    rows, mine = batch.words[k], []
    for start, end, kind in spans:
        first = int(np.searchsorted(rows.end, start, side="right"))
        last = int(np.searchsorted(rows.start, end, side="left"))
        if first >= last:
            raise DataError(f"document {k}: span {start} to {end} contains no word")
        mine.append((first, last, kind))
    try:
        return labels_from_spans(mine, len(rows.start), scheme)
    except DataError as error:
        raise DataError(f"document {k}, by words: {error}") from None


@dataclass(frozen=True, slots=True)
class GoldCheck:
    """Which gold spans a decoder can find, by its labels, scheme and grammar."""

    labels: tuple[str, ...]
    types: tuple[str, ...]
    scheme: str
    pieces: PieceRule
    grammar: Grammar | None

    def warn(self, batch: WordBatch, gold: Sequence[set[Key]]) -> None:
        """Count the gold spans that cannot be found, in one warning of each kind."""
        check_gold(gold, len(batch.words))
        for message in (
            self._of_other_types(gold),
            self._within_words(batch, gold),
            self._unspelt(batch, gold),
            self._breaking(batch, gold),
        ):
            if message:
                warn(message, LabelWarning)

    def _of_other_types(self, gold: Sequence[set[Key]]) -> str:
        unknown = Counter(kind for one in gold for *_, kind in one if kind not in self.types)
        if not unknown:
            return ""
        return (
            f"gold spans of types that are no label count as missed: {counted(unknown)}; the "
            f"types are {listed(self.types)}"
        )

    def _within_words(self, batch: WordBatch, gold: Sequence[set[Key]]) -> str:
        within = [
            (k, start, end)
            for k, one in enumerate(gold)
            for start, end, kind in sorted(one)
            if kind in self.types and not batch.size(k, start, end)
        ]
        if not within:
            return ""
        k, start, end = within[0]
        what = "piece" if self.pieces == "each" else "word"
        return (
            f"{len(within)} of {sum(map(len, gold))} gold spans count as missed, because they "
            f"begin or end within a {what} or outside all of them; the first: document {k}, "
            f"characters {start} to {end}"
        )

    def _unspelt(self, batch: WordBatch, gold: Sequence[set[Key]]) -> str:
        sizes = Counter(
            (kind, batch.size(k, start, end))
            for k, one in enumerate(gold)
            for start, end, kind in one
            if kind in self.types
        )
        without = {
            f"{kind} of {size} word{'s'[: size > 1]}": count
            for (kind, size), count in sorted(sizes.items())
            if size and not self._spells(kind, size)
        }
        if not without:
            return ""
        return (
            f"gold spans that {self.scheme} cannot spell with these labels count as missed: "
            f"{counted(Counter(without))}"
        )

    def _spells(self, kind: str, size: int) -> bool:
        """Return whether the labels can spell a span of this type and number of words."""
        table = named_scheme(self.scheme)
        letters = [x for x in table.letters[1:] if f"{x}-{kind}" in self.labels]
        now = [x for x in letters if ("O", x, False) in table.starts]
        for _ in range(min(size, len(table.letters)) - 1):  # then letters repeat
            now = [y for y in letters if any((x, y, True) in table.inside for x in now)]
        return any(x in table.last for x in now)

    def _breaking(self, batch: WordBatch, gold: Sequence[set[Key]]) -> str:
        """Describe how many documents have gold spans that break the grammar, and the first."""
        if self.grammar is None:
            return ""
        grammar, broken = self.grammar.bound(self.labels), {}
        for k, one in enumerate(gold):
            try:
                labels = spelt(batch, k, [s for s in one if batch.size(k, *s[:2])], self.scheme)
            except DataError:  # they overlap, so no labelling has them all
                continue
            if {*labels} <= {*self.labels} and not grammar.accepts(labels):
                broken[k] = labels
        if not broken:
            return ""
        k = next(iter(broken))
        row: Any = batch.lattices[k].row
        why = row.illegal(row.masks(broken[k]), k)
        word = "" if why.position is None else f", word {why.position}"
        return (
            f"gold spans of {len(broken)} of {len(gold)} documents break the grammar, so some "
            f"count as missed; the first: document {k}{word}: {why.reason}"
        )

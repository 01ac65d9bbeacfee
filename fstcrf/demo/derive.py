"""Drawing sentences from the grammar, with their labels.

======== =================================================================
Row      one token: word, part of speech, field
Draws    random choices that are the same on every machine and version
Names    what is fixed for a notice: the rows behind ``@host``, ``@place``, ...
derive   the rows of one symbol, drawn at random
======== =================================================================
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from fstcrf.demo.grammar import RULES
from fstcrf.demo.lexicon import WORDS

__all__ = ["Draws", "Names", "Row", "derive"]

T = TypeVar("T")


class Row(NamedTuple):
    """One token of the corpus, in the order of its columns."""

    word: str
    pos: str
    field: str = "O"


Names: TypeAlias = Mapping[str, Sequence[Row]]


class Draws:
    """Random choices from one seed.

    Only `random.Random.random` is used: Python promises its sequence for a seed, and not that of
    `choice` or `shuffle`.

    Parameters
    ----------
    seed : int
        Where the sequence starts.
    fresh : float
        Probability that a word comes from the fresh half of its class.
    """

    def __init__(self, seed: int, *, fresh: float) -> None:
        self._uniform = random.Random(seed).random  # noqa: S311  no secret depends on it
        self._fresh = fresh

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._uniform() < probability

    def below(self, end: int) -> int:
        """Return a number from 0 to `end` - 1, each as likely."""
        return int(self._uniform() * end)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items, each as likely."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[tuple[float, T]]) -> T:
        """Return one of the items, as likely as their weights say."""
        left = self._uniform() * sum(weight for weight, _ in items)
        for weight, item in items:
            left -= weight
            if left < 0:
                return item
        return items[-1][1]

    def word(self, name: str) -> Row:
        """Return a word of a class of the lexicon."""
        words = WORDS[name]
        fresh = bool(words.fresh) and self.chance(self._fresh)
        return Row(self.pick(words.fresh if fresh else words.seen), words.pos)


def derive(symbol: str, draws: Draws, names: Names) -> list[Row]:
    """Draw the rows of a symbol of the grammar or of a word class.

    Parameters
    ----------
    symbol : str
        A key of `RULES` or of `WORDS`.
    draws : Draws
        The random choices.
    names : mapping of str to sequence of Row
        What ``@`` items stand for.
    """
    if symbol in WORDS:
        return [draws.word(symbol)]
    rows: list[Row] = []
    start = 0
    field = ""
    for item in draws.weighted(RULES[symbol]):
        if item.startswith("["):
            start, field = len(rows), item[1:]
        elif item == "]":
            rows[start:] = _as_span(rows[start:], field)
        elif item.startswith("$"):
            rows += _another(item[1:], draws, names, rows)
        elif item.startswith("@"):
            rows += names[item[1:]]
        else:
            word, _, pos = item.rpartition("/")
            rows.append(Row(word, pos))
    return rows


def _another(symbol: str, draws: Draws, names: Names, before: Sequence[Row]) -> list[Row]:
    """Draw a symbol; a word anew while it stands there already ("a pencil, a pencil")."""
    rows = derive(symbol, draws, names)
    while symbol in WORDS and rows[0] in before:
        rows = derive(symbol, draws, names)
    return rows


def _as_span(rows: Sequence[Row], field: str) -> list[Row]:
    return [row._replace(field=f"{'I' if i else 'B'}-{field}") for i, row in enumerate(rows)]

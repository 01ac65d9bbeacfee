"""What hurried hands do to a notice: capitals, small letters, slips of the keyboard.

======= ====================================
roughen the sentences of a notice, as typed
======= ====================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fstcrf.demo.derive import Draws, Row

__all__ = ["roughen"]

LOWER_CASE: Final = 0.1
HEADLINE_CASE: Final = ((0.45, "as it is"), (0.35, "title"), (0.2, "upper"))
SLIP: Final = 0.015
SHORTEST: Final = 5


def roughen(sentences: Sequence[Sequence[Row]], draws: Draws, *, headline: bool) -> list[list[Row]]:
    """Return the sentences with the letters of some words changed; labels stay.

    Parameters
    ----------
    sentences : sequence of sequence of Row
        The notice as the grammar gave it.
    draws : Draws
        The random choices.
    headline : bool
        Whether the first sentence is a headline.
    """
    lower = draws.chance(LOWER_CASE)
    case = draws.weighted(HEADLINE_CASE) if headline else "as it is"
    rough = []
    for number, sentence in enumerate(sentences):
        rows = [row._replace(word=_slip(row.word, draws)) for row in sentence]
        style = "lower" if lower else case if number == 0 else "as it is"
        rough.append([row._replace(word=_cased(row, style, i)) for i, row in enumerate(rows)])
    return rough


def _cased(row: Row, style: str, position: int) -> str:
    word = row.word
    if style == "lower":
        return word.lower()
    if style == "upper":
        return word.upper()
    if position == 0 or (style == "title" and row.pos not in {"PREP", "DET", "CONJ"}):
        return word[0].upper() + word[1:]
    return word


def _slip(word: str, draws: Draws) -> str:
    """Swap two letters, lose one, or type one twice; short words and numbers are safe."""
    if len(word) < SHORTEST or not word.isalpha() or not draws.chance(SLIP):
        return word
    i = 1 + draws.below(len(word) - 3)
    a, b = word[i], word[i + 1]
    return word[:i] + draws.pick((b + a, b, a + a + b)) + word[i + 2 :]

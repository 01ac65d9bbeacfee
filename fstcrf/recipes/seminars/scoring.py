"""One field per message: which value is taken, and how many are right.

=========  =======================================================================
POLICIES   which of several values of a field a message is taken to give
values     the value of each field of each message
Score      precision, recall, F of a field
scored     the scores of all fields
token_f    F of the tokens of fields
=========  =======================================================================

A value is right if its tokens are those of one of the field's true mentions in the message. The
paper takes one value and does not say which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fstcrf.corpus import spans
from fstcrf.recipes.seminars.messages import FIELDS

__all__ = ["POLICIES", "Score", "mean_f", "scored", "token_f", "values"]

POLICIES = ("first", "frequent")
"""``first``: the first span. ``frequent``: the value of most spans, of these the first."""

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """Messages whose value is right, that were given one, and that have one."""

    right: int = 0
    found: int = 0
    there: int = 0

    @property
    def f(self) -> float:
        """The harmonic mean of precision and recall, in [0, 1]."""
        return 2 * self.right / (self.found + self.there) if self.found + self.there else 0.0


def mentions(words: Sequence[str], labels: Sequence[str]) -> dict[str, list[Words]]:
    """Return the spans of each field, in their order."""
    found: dict[str, list[Words]] = {field: [] for field in FIELDS}
    for span in spans(labels):
        found[span.type].append(tuple(words[span.start : span.end]))
    return found


def values(
    words: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], policy: str = "first"
) -> list[dict[str, Words]]:
    """Return the value of each field that is found in each message."""
    return [
        {field: _value(several, policy) for field, several in mentions(w, y).items() if several}
        for w, y in zip(words, labels, strict=True)
    ]


def _value(several: Sequence[Words], policy: str) -> Words:
    if policy == "first":
        return several[0]
    plain = [tuple(word.lower() for word in value if word.isalnum()) for value in several]
    most = Counter(plain).most_common(1)[0][0]  # of equals the one met first
    return several[plain.index(most)]


def scored(
    words: Sequence[Sequence[str]],
    gold: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str]],
    policy: str = "first",
) -> dict[str, Score]:
    """Return the score of each field."""
    right, found, there = Counter[str](), Counter[str](), Counter[str]()
    guesses = values(words, labels, policy)
    for w, y, guess in zip(words, gold, guesses, strict=True):
        for field, true in mentions(w, y).items():
            there[field] += bool(true)
            found[field] += field in guess
            right[field] += guess.get(field) in true
    return {field: Score(right[field], found[field], there[field]) for field in FIELDS}


def mean_f(scores: Mapping[str, Score]) -> float:
    """Return the mean F of the fields, the paper's overall figure."""
    return sum(score.f for score in scores.values()) / len(scores)


def token_f(gold: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> float:
    """Return F of tokens with the type of a field, all fields together, in [0, 1]."""
    right = found = there = 0
    for true, guess in zip(gold, labels, strict=True):
        for a, b in zip(true, guess, strict=True):
            there += a != "O"
            found += b != "O"
            right += a != "O" and a[2:] == b[2:]
    return 2 * right / (found + there) if found + there else 0.0

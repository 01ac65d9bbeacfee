"""What tokens look like: patterns of characters, lists, times and dates that span tokens.

======  ==========================================================
MARKS   names of the columns
marks   the columns of a text
======  ==========================================================

A column says which of several features a token has: ``cl`` of each of the five patterns of
characters, and so on. A weight for each combination can say whatever weights of the single features
can.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from fstcrf.recipes.seminars.lists import FIRST_NAMES, HONORIFICS, LAST_NAMES, PLACES, ROLES

__all__ = ["MARKS", "marks"]

MARKS = ("pattern", "list", "time")

# Table 1 of the paper.
_PATTERNS = (
    re.compile(r"[A-Z][a-z]+"),
    re.compile(r"[A-Z][A-Z]+"),
    re.compile(r"[A-Z]"),
    re.compile(r"[A-Z]+"),
    re.compile(r"[A-Z]+[a-z]+[A-Z]+[a-z]"),
)
_LISTS = {"f": FIRST_NAMES, "l": LAST_NAMES, "h": HONORIFICS, "p": PLACES, "r": ROLES}

_CLOCK = r"(?:\b\d{1,2}(?:[:.]\d\d)?(?:\s*(?:[ap]\s?\.?\s?m\b\.?|o'?clock\b|noon\b))?|\bnoon\b)"
_SURE = r"(?:\b\d{1,2}(?::\d\d(?:\s*[ap]\.?\s?m\b\.?)?|\s*[ap]\.?\s?m\b\.?)|\bnoon\b)"
_DASH = r"\s*(?:-+|\bto\b|\buntil\b|\btill?\b)\s*"
_FLAGS = re.IGNORECASE
_RANGE = re.compile(rf"({_CLOCK}){_DASH}({_SURE})|({_SURE}){_DASH}({_CLOCK})", _FLAGS)
_TIME = re.compile(_SURE, _FLAGS)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
_DATE = re.compile(
    rf"\b{_MONTH}\b\.?\s*\d{{1,2}}(?:st|n[d]|rd|th)?\b(?:\s*,\s*(?:19|20)?\d\d\b)?"
    rf"|\b\d{{1,2}}(?:st|n[d]|rd|th)?[\s-]+(?:of\s+)?{_MONTH}\b(?:[\s-]+(?:19|20)?\d\d\b)?"
    rf"|\b\d{{1,2}}/\d{{1,2}}(?:/\d\d(?:\d\d)?)?\b|\b{_DAY}\b",
    _FLAGS,
)


def marks(text: str, tokens: Sequence[tuple[int, int]]) -> dict[str, list[str]]:
    """Return the columns of a text.

    Parameters
    ----------
    text : str
    tokens : sequence of (start, end)

    Returns
    -------
    dict of str to list of str
        For each name in `MARKS` a string a token; ``-`` where it has none of the features.
    """
    words = [text[a:b] for a, b in tokens]
    return {
        "pattern": [_pattern(word) for word in words],
        "list": [_lists(word) for word in words],
        "time": _times(text, tokens),
    }


def _pattern(word: str) -> str:
    found = "".join(str(k) for k, p in enumerate(_PATTERNS, 1) if p.fullmatch(word))
    return found or ("d" if word.isdigit() else "-")


def _lists(word: str) -> str:
    low = word.lower()
    return "".join(name for name, words in _LISTS.items() if low in words) or "-"


def _times(text: str, tokens: Sequence[tuple[int, int]]) -> list[str]:
    """Mark what is part of a time (t), of one before (b) or after (a) a dash, of a date (d)."""
    found = [set[str]() for _ in tokens]
    starts = [a for a, _ in tokens]

    def mark(name: str, spans: Iterable[tuple[int, int]]) -> None:
        for a, b in spans:
            for k in range(bisect_left(starts, a), bisect_left(starts, b)):
                found[k].add(name)

    mark("t", (m.span() for m in _TIME.finditer(text)))
    ranges = list(_RANGE.finditer(text))
    mark("b", (m.span(1 if m.group(1) else 3) for m in ranges))
    mark("a", (m.span(2 if m.group(1) else 4) for m in ranges))
    mark("d", (m.span() for m in _DATE.finditer(text)))
    return ["".join(sorted(names)) or "-" for names in found]

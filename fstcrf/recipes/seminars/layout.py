"""Where on the page a token is, and what else the page says of its word.

======  ==========================================================
LAYOUT  names of the columns
layout  the columns of a text
======  ==========================================================

The paper's features see a message as a row of words. Announcements are set out in lines, many of
which begin with what they tell: ``Place:    WeH 5409``.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from fstcrf.recipes.seminars.lists import FIRST_NAMES, PLACES

__all__ = ["LAYOUT", "layout"]

LAYOUT = ("head", "line", "place", "room", "run", "also")

_HEAD = re.compile(r"\s*([^\W\d_][\w/&.' -]{0,24}?)\s*:(?!\d)")
_BUILDING = r"(?:[A-Z][A-Za-z.]+,?\s+){1,4}"
_NUMBER = r"(?:[A-Z]-?)?\d{2,4}(?:-?[A-Z]\b)?"
_ROOM = re.compile(
    rf"\b{_BUILDING}(?:(?:[Rr]oom|[Rr]m\.?)\s+)?{_NUMBER}(?!\w|:)"
    rf"|(?<![\w:.]){_NUMBER}\s+(?![AP]\.?M\b){_BUILDING}"
    rf"|\b(?:[Rr]oom|[Rr]m\.?)\s+#?{_NUMBER}(?:,?\s+{_BUILDING})?"
)
_LINKS = frozenset({"of", "the", "and", "&", "-", "."})
_TOPICS = {
    "p": ("place", "where", "location", "room"),
    "s": ("who", "speaker", "name", "by", "lecturer", "presenter"),
    "h": ("host", "postedby", "contact", "appointments"),
    "t": ("topic", "title", "subject"),
}


def layout(text: str, tokens: Sequence[tuple[int, int]]) -> dict[str, list[str]]:
    """Return, for each name in `LAYOUT`, a string a token; ``-`` where there is nothing to say.

    Parameters
    ----------
    text : str
        A whole message, with its line breaks.
    tokens : sequence of (start, end)
        Its tokens, in their order.

    Examples
    --------
    >>> layout("Place: WeH 5409", [(0, 5), (5, 6), (7, 10), (11, 15)])["head"]
    ['place', 'place', 'place', 'place']
    """
    words = [text[a:b] for a, b in tokens]
    starts = [a for a, _ in tokens]
    lines = list(_lines(text, starts))
    heads = _heads(text, lines, len(words))
    return {
        "head": heads,
        "line": _by_line(text, lines, len(words)),
        "place": [p for first, end, _ in lines for p in _places(end - first)],
        "room": _rooms(text, starts),
        "run": _runs(words, lines),
        "also": _also(words, heads),
    }


def _lines(text: str, starts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield first token, end, and number of each line that has tokens."""
    bounds = [0, *(m.end() for m in re.finditer("\n", text)), len(text)]
    for number, (a, b) in enumerate(itertools.pairwise(bounds)):
        first, end = bisect_left(starts, a), bisect_left(starts, b)
        if end > first:
            yield first, end, number


def _heads(text: str, lines: Sequence[tuple[int, int, int]], n: int) -> list[str]:
    """Return before which colon a token's line, or the line that it goes on with, begins."""
    found = ["-"] * n
    parts = text.split("\n")
    head, before = "-", -2
    for first, end, number in lines:
        own = _HEAD.match(parts[number])
        if own:
            head = " ".join(own.group(1).lower().split())
        elif number > before + 1 or not parts[number][:1].isspace():
            head = "-"
        elif not head.startswith("+"):
            head = f"+{head}"
        found[first:end] = [head if head != "+-" else "-"] * (end - first)
        before = number
    return found


def _by_line(text: str, lines: Sequence[tuple[int, int, int]], n: int) -> list[str]:
    """Return whether a line is indented, stands below or above a blank one, is short."""
    found = ["-"] * n
    parts = text.split("\n")
    numbers = {number for _, _, number in lines}
    for first, end, number in lines:
        marks = (
            ("i", parts[number][:1].isspace()),
            ("a", number - 1 not in numbers),
            ("z", number + 1 not in numbers),
            ("s", end - first < 8),
        )
        found[first:end] = ["".join(m for m, there in marks if there) or "-"] * (end - first)
    return found


def _places(length: int) -> Iterator[str]:
    """Yield how far from either end of its line each token is."""
    for k in range(length):
        yield f"{min(k, 3)}{min(length - 1 - k, 3)}"


def _rooms(text: str, starts: Sequence[int]) -> list[str]:
    """Return begin (b), inside (i), end (e) of what looks like a room and its building."""
    found = ["-"] * len(starts)
    for match in _ROOM.finditer(text):
        first, end = bisect_left(starts, match.start()), bisect_left(starts, match.end())
        found[first:end] = _ends(end - first)
    return found


def _ends(length: int) -> list[str]:
    return ["s"] if length == 1 else ["b", *["i"] * (length - 2), "e"]


def _runs(words: Sequence[str], lines: Sequence[tuple[int, int, int]]) -> list[str]:
    """Return where in a run of capitals and numbers a token is, and what the run holds."""
    found = ["-"] * len(words)
    for first, end, _ in lines:
        k = first
        while k < end:
            stop = k
            while stop < end and _starts_high(words[stop]):
                stop += 1
                while stop + 1 < end and words[stop] in _LINKS and _starts_high(words[stop + 1]):
                    stop += 1
            if stop > k:
                kind = _holds(words[k:stop])
                found[k:stop] = [f"{place}{kind}" for place in _ends(stop - k)]
            k = max(stop, k + 1)
    return found


def _starts_high(word: str) -> bool:
    return word[0].isupper() or word[0].isdigit()


def _holds(words: Sequence[str]) -> str:
    low = {word.lower() for word in words}
    marks = (
        ("n", any(word.isdigit() for word in words)),
        ("p", not low.isdisjoint(PLACES)),
        ("f", not low.isdisjoint(FIRST_NAMES)),
    )
    return "".join(mark for mark, there in marks if there)


def _also(words: Sequence[str], heads: Sequence[str]) -> list[str]:
    """Return under which heads the word stands elsewhere: of a place, speaker, host, topic."""
    where: defaultdict[str, list[int]] = defaultdict(list)
    for k, word in enumerate(words):
        if _starts_high(word) and len(word) > 1:
            where[word.lower()].append(k)
    kind = [_topic(head) for head in heads]
    found = ["-"] * len(words)
    for places in where.values():
        for k in places:
            marks = {kind[other] for other in places if kind[other] and heads[other] != heads[k]}
            found[k] = "".join(sorted(marks)) or ("m" if len(places) > 1 else "-")
    return found


def _topic(head: str) -> str:
    names = head.removeprefix("+").split()
    return next((mark for mark, known in _TOPICS.items() if not set(names).isdisjoint(known)), "")

"""Columns and templates of messages: the form of tokens, and their places on the page.

A column of `MARKS` combines several features of a token: ``cl`` of each of the five patterns of
characters, and so on. A weight for each combination is at least as expressive as weights of single
features. The columns of `LAYOUT` are not in the paper, whose features treat a message as a sequence
of words. Announcements consist of lines, and many lines begin with a heading: ``Place: WeH 5409``.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fstcrf.recipes.report import template, texts
from fstcrf.text.corpus import Corpus, convert_column

_KNOWN = {name: frozenset(words.split()) for name, words in texts("names.txt").items()}


MARKS = ("pattern", "list", "time")

# Table 1 of the paper.
_PATTERNS = (
    re.compile(r"[A-Z][a-z]+"),
    re.compile(r"[A-Z][A-Z]+"),
    re.compile(r"[A-Z]"),
    re.compile(r"[A-Z]+"),
    re.compile(r"[A-Z]+[a-z]+[A-Z]+[a-z]"),
)

_LISTS = {
    "f": _KNOWN["first names"],
    "l": _KNOWN["last names"],
    "h": _KNOWN["honorifics"],
    "p": _KNOWN["places"],
    "r": _KNOWN["roles"],
}

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
    """Return, for each name in `MARKS`, a string a token (start, end); ``-`` for no feature."""
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
    """Mark parts of a time (t), of a time before (b) or after (a) a dash, of a date (d)."""
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
    """Return, for each name in `LAYOUT`, one string for each token; ``-`` for no value."""
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
    bounds = [0, *(m.end() for m in re.finditer("\n", text)), len(text)]
    for number, (a, b) in enumerate(itertools.pairwise(bounds)):
        first, end = bisect_left(starts, a), bisect_left(starts, b)
        if end > first:
            yield first, end, number


def _heads(text: str, lines: Sequence[tuple[int, int, int]], n: int) -> list[str]:
    """Return the heading before the colon of a token's line, or of the line that it continues."""
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
    """Return whether a line is indented, is next to a blank one, is short."""
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
    """Return begin (b), inside (i), end (e) of text that looks like a room and its building."""
    found = ["-"] * len(starts)
    for match in _ROOM.finditer(text):
        first, end = bisect_left(starts, match.start()), bisect_left(starts, match.end())
        found[first:end] = _ends(end - first)
    return found


def _ends(length: int) -> list[str]:
    return ["s"] if length == 1 else ["b", *["i"] * (length - 2), "e"]


def _runs(words: Sequence[str], lines: Sequence[tuple[int, int, int]]) -> list[str]:
    """Return the place of a token in a run of capitals and numbers, and the contents of the run."""
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
        ("p", not low.isdisjoint(_LISTS["p"])),
        ("f", not low.isdisjoint(_LISTS["f"])),
    )
    return "".join(mark for mark, there in marks if there)


def _also(words: Sequence[str], heads: Sequence[str]) -> list[str]:
    """Return the headings of the word's other occurrences: place, speaker, host, topic."""
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


def _prefixed(text: str) -> str:
    """Prefix names by U: a bare letter U or B starts a template of CRF++."""
    return "".join(f"U{line}\n" if line != "B" else "B\n" for line in text.splitlines())


TAGS = _prefixed(template("seminars/tags"))

NAMES = _prefixed(template("seminars/names"))


@dataclass(frozen=True, slots=True)
class Features:
    name: str
    # alone, transfer: templates without and with the entity label
    alone: str
    transfer: str
    options: dict[str, Any] = field(hash=False)  # of training
    prefix: str = ""  # prefix of the names of its systems

    def named(self, system: str) -> str:
        return f"{self.prefix}{system}"

    def prepared(self, corpus: Corpus) -> Corpus:
        """Return messages with labels in the scheme of the options, converted from IOB2."""
        scheme = self.options["scheme"]
        return corpus if scheme == "iob2" else convert_column(corpus, "field", "iob2", scheme)


_WINDOWS = {"W": "word", "P": "pattern", "L": "list", "T": "time", "G": "tag"}

LABELS = "U\nB\n"


def windows(columns: Collection[str]) -> str:
    """Return templates of columns of the paper's Table 1: each token from -4 to 4."""
    return _prefixed("".join(f"{n}:%x[-4..4,{c}]\n" for n, c in _WINDOWS.items() if c in columns))


_TABLE1 = windows(_WINDOWS.values())

# Digits, times without a dash, lists of places and of roles are not in the paper.
_OWN = {
    **_WINDOWS,
    "P": 'find(pattern,"^[1-5]+")',
    "L": 'find(list,"^[flh]+")',
    "T": 'find(time,"^[abd]+")',
}
_PAPER_TABLE1 = _prefixed("".join(f"{n}:%x[-4..4,{c}]\n" for n, c in _OWN.items()))
_PAIRS = "".join(f"E{n}:%y[0,ner]/%x[-4..4,{c}]\n" for n, c in _OWN.items()) + "E:%y[0,ner]\n"

CONVERGED = 1000  # limit of iterations; training of the paper's features ends earlier

PAPER = Features(
    "features of the paper",
    f"{_PAPER_TABLE1}{LABELS}",
    f"{_PAPER_TABLE1}{_prefixed(_PAIRS)}{LABELS}",
    # l2 = 1 / 2σ², for its σ² = 0.5
    {"scheme": "iob2", "l2": 1.0, "max_iterations": CONVERGED},
)

PAGE = _prefixed(template("seminars/page"))

WORDS = _prefixed(template("seminars/words"))

FURTHER = PAGE + WORDS

_MORE_PAIRS = template("seminars/more_pairs")

MORE = Features(
    "more features",
    f"{_TABLE1}{FURTHER}{LABELS}",
    f"{_TABLE1}{FURTHER}{_prefixed(_MORE_PAIRS)}{LABELS}",
    {"scheme": "bioes", "l2": 1.0, "max_iterations": 60},
    prefix="more features, ",
)

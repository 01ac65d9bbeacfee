"""What the tokens of a message look like, and where on the page they are: columns for templates.

A column of `MARKS` says which of several features a token has: ``cl`` of each of the five patterns
of characters, and so on. A weight for each combination can say whatever weights of single features
can. Those of `LAYOUT` are not in the paper, whose features see a message as a row of words.
Announcements are set out in lines, many of which begin with what they tell: ``Place:    WeH 5409``.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["LAYOUT", "MARKS", "layout", "marks"]


# --- Common names, honorifics, words of places and roles ------------------------------------------


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FIRST_NAMES = _words(
    """
    aaron adam alan albert alex alexander alexandra alfred alice allen amy andrea andrew andy
    angela anita ann anna anne anthony antonio arthur barbara ben benjamin bernard beth betty
    bill bob brad brenda brian bruce carl carla carlos carol caroline catherine charles charlie
    cheryl chris christina christine christopher claire claude cynthia dan daniel danny dave
    david dean deborah debra dennis diana diane don donald donna dorothy doug douglas ed edgar
    edith edmund eduardo edward eileen elaine elizabeth ellen emily emma eric erik ernest eugene
    eva evelyn florence frances francis frank franz fred frederick gabriel gary geoffrey george
    gerald gerard gilbert gina giovanni glen gloria gordon grace greg gregory guy hans harold
    harry heather heidi helen helena henry herbert howard hugh ian irene isaac ivan jack jacob
    jacques james jan jane janet janice jason jay jean jeff jeffrey jennifer jeremy jerome jerry
    jessica jill jim joan joe joel johannes john jon jonathan jorge jose joseph joshua juan
    judith judy julia julian julie june karen karl katherine kathleen kathy katie keith kelly
    ken kenneth kevin kim klaus kurt larry laura lauren lawrence lee leo leon leonard leslie
    lewis linda lisa lloyd lois louis louise lucy luis lynn manuel marc marcel marcia marco
    margaret maria marie marilyn mario mark martha martin marvin mary matt matthew maurice max
    megan melissa michael michel michelle mike miriam mitchell monica nancy natalie nathan neil
    nicholas nicole nina norman olga oliver oscar otto pamela patricia patrick paul paula pedro
    peggy peter phil philip phillip phyllis pierre rachel ralph ray raymond rebecca rene richard
    rick robert robin roger roland ron ronald rosa rose roy russell ruth ryan sally sam samuel
    sandra sara sarah scott sean sharon sheila shirley simon sophie stanley stefan stephanie
    stephen steve steven stewart stuart sue susan suzanne sylvia ted teresa terry theodore
    theresa thomas tim timothy tina todd tom tony tracy ursula valerie vera victor victoria
    vincent virginia vivian walter warren wayne wendy werner wesley william winston wolfgang
    yvonne zachary
    """
)

_LAST_NAMES = _words(
    """
    abbott adams alexander allen anderson andrews armstrong arnold austin bailey baker baldwin
    barker barnes barnett barrett bauer becker bell bennett berg berger bernstein berry bishop
    black blake boyd bradley brady brooks brown bryant burke burns burton butler byrne cameron
    campbell carlson carpenter carr carroll carter chan chandler chang chapman chen cheng cho
    choi chu clark clarke cohen cole coleman collins cook cooper cox craig crawford cross cruz
    cunningham daniels davidson davies davis dawson day dean diaz dixon douglas doyle duncan
    dunn edwards elliott ellis erickson evans ferguson fernandez fischer fisher fleming fletcher
    ford foster fox francis frank franklin fraser freeman friedman fuller garcia gardner gibson
    gilbert goldberg goldman goldstein gomez gonzalez goodman gordon graham grant gray green
    greene griffin gupta hall hamilton hansen hanson harper harris harrison hart harvey hayes
    henderson henry hernandez hill hoffman holland holmes horowitz howard hu huang hudson hughes
    hunt hunter ito jackson jacobs james jenkins jensen johnson johnston jones jordan joseph
    kahn kaplan katz kaufman keller kelley kelly kennedy kim king klein knight kramer krishnan
    kumar lane larsen larson lawrence lawson lee lehman leonard levin levine levy lewis li lin
    liu long lopez lu lynch lyons ma marshall martin martinez mason matthews mccarthy mcdonald
    mckenzie mehta meyer miller mills mitchell moore moreno morgan morris morrison murphy murray
    myers nakamura nelson newman nguyen nichols nielsen norman novak olson ortiz owens palmer
    park parker patel patterson payne perez perkins perry peters petersen peterson phillips
    pierce porter powell price rao reed reynolds rice richards richardson riley rivera roberts
    robertson robinson rodriguez rogers rosen rosenberg rosenthal ross rubin russell ryan
    sanchez sanders sato schmidt schneider schultz schwartz scott shah shapiro sharma shaw silva
    simmons simon simpson singh smith snyder spencer stein stephens stern stevens stewart stone
    sullivan sun suzuki tanaka tang taylor thomas thompson torres tucker turner wagner walker
    wallace walsh wang ward warren watanabe watkins watson weaver webb weber weiss wells west
    wheeler white williams williamson willis wilson wolf wong wood woods wright wu xu yamamoto
    yang yates young yu zhang zhao zhou zimmerman
    """
)

_HONORIFICS = _words(
    """
    dr doctor prof professor profs drs mr mrs ms miss sir dame lord lady rev reverend father
    sister president dean chancellor senator governor judge justice ambassador captain colonel
    general
    """
)

_ROLES = _words(
    """
    host hosts hosted speaker speakers who lecturer presenter presented guest contact sponsor
    sponsored organizer chair chairman director phd candidate student students author fellow
    department university college institute school laboratory center centre company corporation
    appointment appointments secretary assistant coordinator postedby
    """
)

_PLACES = _words(
    """
    hall room rm auditorium building bldg center centre lounge theater theatre library chapel
    gallery conference floor wing tower hotel museum cafeteria lab laboratory place location
    where avenue ave street st road boulevard plaza court square house union club campus
    classroom lobby
    """
)


# --- Patterns, lists, times and dates -------------------------------------------------------------

MARKS = ("pattern", "list", "time")

# Table 1 of the paper.
_PATTERNS = (
    re.compile(r"[A-Z][a-z]+"),
    re.compile(r"[A-Z][A-Z]+"),
    re.compile(r"[A-Z]"),
    re.compile(r"[A-Z]+"),
    re.compile(r"[A-Z]+[a-z]+[A-Z]+[a-z]"),
)

_LISTS = {"f": _FIRST_NAMES, "l": _LAST_NAMES, "h": _HONORIFICS, "p": _PLACES, "r": _ROLES}

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


# --- The page: lines, their heads, rooms, runs of capitals ----------------------------------------

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
        ("p", not low.isdisjoint(_PLACES)),
        ("f", not low.isdisjoint(_FIRST_NAMES)),
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

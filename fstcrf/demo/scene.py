"""What is fixed for the whole of one notice: who, where, on which day, at what hours.

===== ==========================================
scene the names of one notice, drawn at random
clock an hour as words, in one of five styles
===== ==========================================

======== ============================================== ======================
``@``    what it is                                     where it is a field
======== ============================================== ======================
host     the person who leads the event                 HOST
given    their given name, if known                        HOST
last     their surname                                  HOST
person   somebody else                                  never
place    where the event is                             PLACE, unless it is lent or locked
other    somewhere else                                 never
day      the day of the event                           DAY
deadline another day                                    never
start    when it begins                                 START
end      when it ends                                   END
doors    an hour before that                            never
late     an hour after that                             never
topic    what it is about                               never
event    what kind of event it is                       never
======== ============================================== ======================
"""

from __future__ import annotations

from typing import Final

from fstcrf.demo.derive import Draws, Names, Row, derive
from fstcrf.demo.lexicon import WORDS

__all__ = ["clock", "scene"]

_STYLES: Final = ((4, "7.30 pm"), (2, "7.30pm"), (4, "19:30"), (2, "half past seven"), (1, "7.30"))
_NUMBERS: Final = tuple(
    "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
)
_NOON: Final = 24
_TITLES: Final = frozenset(WORDS["title"].seen + WORDS["title"].fresh)


def scene(draws: Draws) -> Names:
    """Draw what is fixed for one notice."""
    names = {name: derive(name, draws, {}) for name in ("topic", "event")}
    for name, other, symbol in (
        ("host", "person", "person"),
        ("place", "other", "place"),
        ("day", "deadline", "date"),
    ):
        names[name] = derive(symbol, draws, {})
        names[other] = _another(names[name], symbol, draws)
    names["last"] = names["host"][-1:]
    names["given"] = [row for row in names["host"][:-1] if row.word not in _TITLES] or names["host"]
    return {**names, **_hours(draws)}


def _another(rows: list[Row], symbol: str, draws: Draws) -> list[Row]:
    """Draw until no word is shared: otherwise the gold labels would be a matter of taste."""
    words = {row.word for row in rows} - {"the"}
    while True:
        other = derive(symbol, draws, {})
        if words.isdisjoint(row.word for row in other):
            return other


def _hours(draws: Draws) -> dict[str, list[Row]]:
    start = 18 + draws.below(22)
    doors = start - 1 - draws.below(2)
    end = start + 2 + draws.below(4)
    late = end + 1 + draws.below(2)
    usual = draws.weighted(_STYLES)
    return {
        name: clock(hour, draws.weighted(_STYLES) if draws.chance(0.1) else usual)
        for name, hour in (("doors", doors), ("start", start), ("end", end), ("late", late))
    }


def clock(half_hours: int, style: str) -> list[Row]:
    """Write an hour.

    Parameters
    ----------
    half_hours : int
        Half hours since midnight.
    style : str
        What half past seven in the evening looks like in that style.

    Examples
    --------
    >>> [row.word for row in clock(39, "7.30 pm")]
    ['7.30', 'pm']
    >>> [row.word for row in clock(39, "half past seven")]
    ['half', 'past', 'seven']
    """
    hour, half = divmod(half_hours, 2)
    twelve = (hour - 1) % 12 + 1
    short = f"{twelve}.30" if half else f"{twelve}"
    noon = "am" if half_hours < _NOON else "pm"
    single = {"19:30": f"{hour}:{half * 30:02d}", "7.30pm": short + noon, "7.30": short}
    if style in single:
        return [Row(single[style], "NUM")]
    if half_hours == _NOON:
        return [Row("noon", "NOUN")]
    if style == "7.30 pm":
        return [Row(short, "NUM"), Row(noon, "NOUN")]
    spoken = Row(_NUMBERS[twelve - 1], "NUM")
    if half:
        return [Row("half", "NOUN"), Row("past", "PREP"), spoken]
    return [spoken, Row("o'clock", "NOUN")]

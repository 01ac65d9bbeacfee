"""Notices drawn from the grammar, and the shipped files made of them.

``python -m fstcrf.demo.generate train > train.txt`` prints a part.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from fstcrf.demo.grammar import NOTICE, RULES, WORDS
from fstcrf.errors import OptionError

T = TypeVar("T")


class Token(NamedTuple):
    """One token of the corpus, in the order of its columns."""

    word: str
    pos: str
    field: str = "O"


Names: TypeAlias = Mapping[str, Sequence[Token]]


class Draws:
    """Random choices from one seed; `fresh` is the probability of a word of its class's fresh half.

    Only `random.Random.random` is used: Python promises its sequence for a seed, and not that
    of `choice` or `shuffle`.
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

    def word(self, name: str) -> Token:
        """Return a word of a class of the lexicon."""
        words = WORDS[name]
        fresh = bool(words.fresh) and self.chance(self._fresh)
        return Token(self.pick(words.fresh if fresh else words.seen), words.pos)


def derive(symbol: str, draws: Draws, names: Names) -> list[Token]:
    """Draw the rows of a key of `RULES` or `WORDS`; `names` are what ``@`` items stand for."""
    if symbol in WORDS:
        return [draws.word(symbol)]
    rows: list[Token] = []
    start = 0
    field = ""
    for item in draws.weighted(RULES[symbol]):
        if item.startswith("["):
            start, field = len(rows), item[1:]
        elif item == "]":
            letters = "B" + "I" * len(rows)
            span = zip(rows[start:], letters, strict=False)
            rows[start:] = [row._replace(field=f"{letter}-{field}") for row, letter in span]
        elif item.startswith("$"):
            rows += _another(item[1:], draws, names, rows)
        elif item.startswith("@"):
            rows += names[item[1:]]
        else:
            word, _, pos = item.rpartition("/")
            rows.append(Token(word, pos))
    return rows


def _another(symbol: str, draws: Draws, names: Names, before: Sequence[Token]) -> list[Token]:
    """Draw a symbol; a word anew while it stands there already ("a pencil, a pencil")."""
    rows = derive(symbol, draws, names)
    while symbol in WORDS and rows[0] in before:
        rows = derive(symbol, draws, names)
    return rows


# --- What is fixed for the whole of one notice ----------------------------------------------------
#
# ``@``    what it is                                     where it is a field
# host     the person who leads the event                 HOST
# given    their given name, if known                        HOST
# last     their surname                                  HOST
# person   somebody else                                  never
# place    where the event is                             PLACE, unless it is lent or locked
# other    somewhere else                                 never
# day      the day of the event                           DAY
# deadline another day                                    never
# start    when it begins                                 START
# end      when it ends                                   END
# doors    an hour before that                            never
# late     an hour after that                             never
# topic    what it is about                               never
# event    what kind of event it is                       never

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
        names[other] = _somebody_else(names[name], symbol, draws)
    names["last"] = names["host"][-1:]
    names["given"] = [row for row in names["host"][:-1] if row.word not in _TITLES] or names["host"]
    return {**names, **_hours(draws)}


def _somebody_else(rows: list[Token], symbol: str, draws: Draws) -> list[Token]:
    """Draw until no word is shared: otherwise the gold labels would be a matter of taste."""
    words = {row.word for row in rows} - {"the"}
    while True:
        other = derive(symbol, draws, {})
        if words.isdisjoint(row.word for row in other):
            return other


def _hours(draws: Draws) -> dict[str, list[Token]]:
    start = 18 + draws.below(22)
    doors = start - 1 - draws.below(2)
    end = start + 2 + draws.below(4)
    late = end + 1 + draws.below(2)
    usual = draws.weighted(_STYLES)
    return {
        name: clock(hour, draws.weighted(_STYLES) if draws.chance(0.1) else usual)
        for name, hour in (("doors", doors), ("start", start), ("end", end), ("late", late))
    }


def clock(half_hours: int, style: str) -> list[Token]:
    """Write an hour, in half hours since midnight, as `style` is half past seven in the evening.

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
        return [Token(single[style], "NUM")]
    if half_hours == _NOON:
        return [Token("noon", "NOUN")]
    if style == "7.30 pm":
        return [Token(short, "NUM"), Token(noon, "NOUN")]
    spoken = Token(_NUMBERS[twelve - 1], "NUM")
    if half:
        return [Token("half", "NOUN"), Token("past", "PREP"), spoken]
    return [spoken, Token("o'clock", "NOUN")]


# --- What hurried hands do to a notice ------------------------------------------------------------

LOWER_CASE: Final = 0.1
HEADLINE_CASE: Final = ((0.45, "as it is"), (0.35, "title"), (0.2, "upper"))
SLIP: Final = 0.015
SHORTEST: Final = 5


def roughen(
    sentences: Sequence[Sequence[Token]], draws: Draws, *, headline: bool
) -> list[list[Token]]:
    """Return a notice with the letters of some words changed; labels stay."""
    lower = draws.chance(LOWER_CASE)
    case = draws.weighted(HEADLINE_CASE) if headline else "as it is"
    rough = []
    for number, sentence in enumerate(sentences):
        rows = [row._replace(word=_slip(row.word, draws)) for row in sentence]
        style = "lower" if lower else case if number == 0 else "as it is"
        rough.append([row._replace(word=_cased(row, style, i)) for i, row in enumerate(rows)])
    return rough


def _cased(row: Token, style: str, position: int) -> str:
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


# --- Notices and files ----------------------------------------------------------------------------

Notice: TypeAlias = list[list[Token]]


class DemoSplit(NamedTuple):
    """What a shipped part is made from."""

    seed: int
    sentences: int
    fresh: float


SPLITS: Final = {
    "train": DemoSplit(1, 1200, 0.0),
    "dev": DemoSplit(2, 200, 0.2),
    "test": DemoSplit(3, 300, 0.2),
}


def generate(seed: int, sentences: int, *, fresh: float = 0.0) -> list[Notice]:
    """Draw notices from the grammar, the last one cut after so many sentences in all.

    Equal seeds give equal notices, on every machine and Python version. `fresh` is the
    probability of a word of the half of its class that training never sees.

    >>> sum(len(notice) for notice in generate(1, 30))
    30
    """
    if sentences < 0 or not 0 <= fresh <= 1:
        raise OptionError(f"sentences={sentences}, fresh={fresh}: expected >= 0 and in [0, 1]")
    draws = Draws(seed, fresh=fresh)
    notices: list[Notice] = []
    while sentences > 0:
        names = scene(draws)
        symbols = [symbol for symbol, probability in NOTICE if draws.chance(probability)]
        drawn = [_with_articles(derive(symbol, draws, names)) for symbol in symbols]
        notices.append(roughen(drawn, draws, headline=symbols[0] == "headline")[:sentences])
        sentences -= len(notices[-1])
    return notices


def shipped(name: str) -> str:
    """Return the text of a shipped part, made anew."""
    if name not in SPLITS:
        raise OptionError(f"no part of the demo corpus {name!r}; there are {', '.join(SPLITS)}")
    split = SPLITS[name]
    return text(generate(split.seed, split.sentences, fresh=split.fresh))


def text(notices: Iterable[Notice]) -> str:
    """Return notices as a column file: ``word pos field``, documents marked."""
    lines: list[str] = []
    for notice in notices:
        lines += ["-DOCSTART- -X- O", ""]
        for sentence in notice:
            lines += [*map(" ".join, sentence), ""]
    return "".join(f"{line}\n" for line in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a shipped part to standard output."""
    parser = argparse.ArgumentParser("python -m fstcrf.demo.generate", description=main.__doc__)
    parser.add_argument("part", choices=list(SPLITS))
    part = parser.parse_args(arguments).part
    try:
        sys.stdout.write(shipped(part))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough (``| head``); nor flush again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _with_articles(rows: list[Token]) -> list[Token]:
    follows = [row.word for row in rows[1:]] + [""]
    return [
        row._replace(word="an") if row.word == "a" and word[:1] in {*"aeiou"} else row
        for row, word in zip(rows, follows, strict=True)
    ]


if __name__ == "__main__":
    main()

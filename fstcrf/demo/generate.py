"""Notices drawn from the grammar, and the shipped files made of them.

======== ========================================================
SPLITS   for each shipped part: seed, size, share of fresh words
generate notices of one seed
shipped  the text of one shipped part
text     notices as a column file
main     ``python -m fstcrf.demo.generate train > train.txt``
======== ========================================================
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from fstcrf.demo.derive import Draws, Row, derive
from fstcrf.demo.grammar import NOTICE
from fstcrf.demo.noise import roughen
from fstcrf.demo.scene import scene
from fstcrf.errors import OptionError

__all__ = ["SPLITS", "Notice", "Split", "generate", "main", "shipped", "text"]

Notice: TypeAlias = list[list[Row]]


class Split(NamedTuple):
    """What a shipped part is made from."""

    seed: int
    sentences: int
    fresh: float


SPLITS: Final = {
    "train": Split(1, 1200, 0.0),
    "dev": Split(2, 200, 0.2),
    "test": Split(3, 300, 0.2),
}


def generate(seed: int, sentences: int, *, fresh: float = 0.0) -> list[Notice]:
    """Draw notices from the grammar.

    Parameters
    ----------
    seed : int
        Equal seeds give equal notices, on every machine and Python version.
    sentences : int
        How many sentences to draw; the last notice is cut there.
    fresh : float, optional
        Probability that a word comes from the fresh half of its class, which training never sees.

    Returns
    -------
    list of list of list of Row
        Notices of sentences of tokens.

    Raises
    ------
    OptionError
        A negative size, or a probability outside [0, 1].

    Examples
    --------
    >>> sum(len(notice) for notice in generate(1, 30))
    30
    """
    if sentences < 0 or not 0 <= fresh <= 1:
        raise OptionError(f"sentences={sentences}, fresh={fresh}: expected >= 0 and in [0, 1]")
    draws = Draws(seed, fresh=fresh)
    notices: list[Notice] = []
    while sentences > 0:
        notices.append(_notice(draws)[:sentences])
        sentences -= len(notices[-1])
    return notices


def shipped(name: str) -> str:
    """Return the text of a shipped part, made anew.

    Raises
    ------
    OptionError
        There is no such part.
    """
    if name not in SPLITS:
        raise OptionError(f"no part of the demo corpus {name!r}; there are {', '.join(SPLITS)}")
    split = SPLITS[name]
    return text(generate(split.seed, split.sentences, fresh=split.fresh))


def text(notices: Iterable[Notice]) -> str:
    """Return notices as a column file: ``word pos field``, documents marked."""
    return "".join(
        "-DOCSTART- -X- O\n\n" + "".join(_block(sentence) for sentence in notice)
        for notice in notices
    )


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


def _notice(draws: Draws) -> Notice:
    names = scene(draws)
    symbols = [symbol for symbol, probability in NOTICE if draws.chance(probability)]
    sentences = [_with_articles(derive(symbol, draws, names)) for symbol in symbols]
    return roughen(sentences, draws, headline=symbols[0] == "headline")


def _with_articles(rows: list[Row]) -> list[Row]:
    follows = [row.word for row in rows[1:]] + [""]
    return [
        row._replace(word="an") if row.word == "a" and word[:1] in {*"aeiou"} else row
        for row, word in zip(rows, follows, strict=True)
    ]


def _block(sentence: Iterable[Row]) -> str:
    return "\n".join(" ".join(row) for row in sentence) + "\n\n"


if __name__ == "__main__":
    main()

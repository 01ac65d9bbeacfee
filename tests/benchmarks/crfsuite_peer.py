"""Features for python-crfsuite, extracted in Python, as its users do it.

Nothing is imported here that python-crfsuite does not need either.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path


def tutorial_attributes(words: Sequence[str], tags: Sequence[str]) -> list[list[str]]:
    """19 templates, __BOS__ and __EOS__; positions beyond the sentence give nothing."""
    n = len(words)
    out: list[list[str]] = []
    for i in range(n):
        w, p = words[i], tags[i]
        found = ["w[0]=" + w, "p[0]=" + p]
        if i:
            w1, p1 = words[i - 1], tags[i - 1]
            found += ["w[-1]=" + w1, f"w[-1]|w[0]={w1}|{w}", "p[-1]=" + p1, f"pp[-1]={p1}|{p}"]
        if i > 1:
            p2 = tags[i - 2]
            found += ["w[-2]=" + words[i - 2], "p[-2]=" + p2]
            found += [f"pp[-2]={p2}|{p1}", f"ppp[-2]={p2}|{p1}|{p}"]
        if i + 1 < n:
            next_w, next_p = words[i + 1], tags[i + 1]
            found += ["w[1]=" + next_w, f"w[0]|w[1]={w}|{next_w}", "p[1]=" + next_p]
            found.append(f"pp[0]={p}|{next_p}")
            if i:
                found.append(f"ppp[-1]={p1}|{p}|{next_p}")
        if i + 2 < n:
            after = tags[i + 2]
            found += ["w[2]=" + words[i + 2], "p[2]=" + after]
            found += [f"pp[1]={next_p}|{after}", f"ppp[0]={p}|{next_p}|{after}"]
        out.append(found)
    _mark_ends(out)
    return out


def word_attributes(words: Sequence[str], *_: Sequence[str]) -> list[list[str]]:
    """Words in a window of five, prefixes and suffixes up to 4, two shapes; the ends."""
    n = len(words)
    out: list[list[str]] = []
    for i in range(n):
        w = words[i]
        shape = w.translate(_CLASSES)
        found = ["w[0]=" + w, "shape=" + shape, "short=" + _RUNS.sub(r"\1", shape)]
        found += ["1<" + w[:1], "2<" + w[:2], "3<" + w[:3], "4<" + w[:4]]
        found += ["1>" + w[-1:], "2>" + w[-2:], "3>" + w[-3:], "4>" + w[-4:]]
        if i:
            found.append("w[-1]=" + words[i - 1])
        if i > 1:
            found.append("w[-2]=" + words[i - 2])
        if i + 1 < n:
            found.append("w[1]=" + words[i + 1])
        if i + 2 < n:
            found.append("w[2]=" + words[i + 2])
        out.append(found)
    _mark_ends(out)
    return out


class _Classes(dict[int, str]):
    """Code point to upper case A, lower case a, other letter x, number 0, or itself."""

    def __missing__(self, code: int) -> str:
        category = unicodedata.category(chr(code))
        exact = {"Lu": "A", "Lt": "A", "Ll": "a"}
        rough = {"L": "x", "M": "x", "N": "0"}
        self[code] = exact.get(category) or rough.get(category[0], chr(code))
        return self[code]


_CLASSES = _Classes()
_RUNS = re.compile(r"(.)\1+", re.DOTALL)


def _mark_ends(out: list[list[str]]) -> None:
    if out:
        out[0].append("__BOS__")
        out[-1].append("__EOS__")


ATTRIBUTES: dict[str, Callable[..., list[list[str]]]] = {
    "tutorial": tutorial_attributes,
    "words": word_attributes,
}


def read_sentences(path: str, separator: str | None = None) -> Iterator[list[list[str]]]:
    """Yield each sentence as its columns, lists of strings."""
    with Path(path).open(encoding="utf-8") as file:
        rows: list[list[str]] = []
        for line in file:
            if row := line.rstrip("\n").split(separator) if line != "\n" else []:
                rows.append(row)
            elif rows:
                yield [list(column) for column in zip(*rows, strict=True)]
                rows = []
        if rows:
            yield [list(column) for column in zip(*rows, strict=True)]

"""Models of CRF++ and of Wapiti give the scores that their definition gives: a sum over texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, reject

from fstcrf import load_crfpp, load_wapiti
from fstcrf.errors import ModelFileError
from fstcrf.text.features import bytewise
from tests.support.pattern_models import crfpp_binary, crfpp_text, wapiti

Sentence = list[tuple[str, str]]
Expand = Callable[[str, Sentence, int], str]

LABELS = "XY"
WORDS = st.text("ab/", min_size=1, max_size=3)
SENTENCES = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4)
LITERALS = st.sampled_from(["", "", "/", "a", "0:"])


def outside(place: int, length: int, letter: str, farthest: int) -> str:
    distance = -place if place < 0 else place - length + 1
    shown = "#" if distance > farthest else str(distance)
    return f"_{letter}{'-' if place < 0 else '+'}{shown}"


def crfpp_expand(template: str, sentence: Sentence, token: int) -> str:
    def fill(found: re.Match[str]) -> str:
        place = token + int(found[1])
        inside = 0 <= place < len(sentence)
        return sentence[place][int(found[2])] if inside else outside(place, len(sentence), "B", 9)

    return re.sub(r"%x\[(-?\d),(\d)\]", fill, template)


# What is matched; None where nothing is.
EXPRESSIONS: dict[str, Callable[[str], str | None]] = {
    "": lambda s: s[:0],
    "^a": lambda s: "a" if s.startswith("a") else None,
    "b$": lambda s: "b" if s.endswith("b") else None,
    "^.?.?": lambda s: s[:2],
    ".?.?$": lambda s: s[-2:],
    "\\p.*$": lambda s: (s.lstrip("ab") and s[len(s) - len(s.lstrip("ab")) :]) or None,
    "^\\a\\a*$": lambda s: s if s.isalpha() else None,
}


def wapiti_expand(pattern: str, sentence: Sentence, token: int) -> str:
    def fill(found: re.Match[str]) -> str:
        letter, absolute, offset, column, expression = found.groups()
        place = token + int(offset)
        if absolute:
            place = int(offset) - 1 if int(offset) > 0 else len(sentence) + int(offset)
        inside = 0 <= place < len(sentence)
        text = sentence[place][int(column)] if inside else outside(place, len(sentence), "x", 4)
        if letter in "tm":
            part = EXPRESSIONS[expression](text)
            text = str(part is not None).lower() if letter == "t" else part or ""
        return text.lower() if letter == "X" else text

    return re.sub(r'%([xXtm])\[(@?)(-?\d),(\d)(?:,"([^"]*)")?\]', fill, pattern)


@st.composite
def holes(draw: st.DrawFn, *, rich: bool) -> str:
    offset, column = (
        draw(st.integers(-6 if rich else -3, 6 if rich else 3)),
        draw(st.integers(0, 1)),
    )
    letter = draw(st.sampled_from("xxXtm")) if rich else "x"
    absolute = "@" if rich and offset and draw(st.integers(0, 3)) == 0 else ""
    expression = draw(st.sampled_from(list(EXPRESSIONS))) if letter in "tm" else None
    extra = "" if expression is None else f',"{expression}"'
    return f"%{letter}[{absolute}{offset},{column}{extra}]"


@st.composite
def models(draw: st.DrawFn, *, rich: bool) -> dict[str, Any]:
    """Templates, texts that they give somewhere, and weights that are small whole numbers."""
    templates = []
    for kind in draw(st.lists(st.sampled_from("ub*" if rich else "UB"), min_size=1, max_size=4)):
        parts = draw(st.lists(st.tuples(LITERALS, holes(rich=rich)), max_size=3))
        templates.append(kind + "".join(a + b for a, b in parts) + draw(LITERALS))
    seen = draw(st.lists(SENTENCES, min_size=1, max_size=3))
    expand = wapiti_expand if rich else crfpp_expand
    texts = sorted(
        {expand(t, s, i) for t, s, i in product(templates, seen, range(4)) if i < len(s)}
    )
    sizes = {"u": 2, "U": 2, "b": 4, "B": 4, "*": 6}
    numbers = draw(st.lists(st.integers(-4, 4), min_size=6, max_size=30))
    weights = {
        text.encode(): [float(numbers[(i + j) % len(numbers)]) for j in range(sizes[text[0]])]
        for i, text in enumerate(texts)
    }
    return {"templates": templates, "weights": weights, "tests": [*seen, draw(SENTENCES)]}


def score(
    model: dict[str, Any], expand: Expand, sentence: Sentence, labels: Sequence[int]
) -> float:
    """The definition: every template, at every token, adds the weights of its text."""
    total = 0.0
    for template, token in product(model["templates"], range(len(sentence))):
        weights = model["weights"].get(expand(template, sentence, token).encode())
        if weights is None:
            continue
        if template[0] in "uU*":
            total += weights[labels[token]]
        if template[0] in "bB*" and token:
            pair = 2 * labels[token - 1] + labels[token]
            total += weights[(2 if template[0] == "*" else 0) + pair]
    return total


def check(tagger: Any, model: dict[str, Any], expand: Expand) -> None:
    for sentence in model["tests"]:
        lattice = tagger.lattice(sentence)
        for labels in product(range(2), repeat=len(sentence)):
            names = [LABELS[label] for label in labels]
            assert lattice.score(names) == score(model, expand, sentence, labels)


def loaded(load: Callable[[], Any]) -> Any:
    """Load a model; one with many places that have no text between them is none to test."""
    try:
        return load()
    except ModelFileError as error:
        assert "can be cut in too many ways" in str(error)  # noqa: PT017
        reject()


@given(models(rich=False))
@example(
    {
        "templates": ["B%x[0,0]%x[0,0]%x[0,0]", "B%x[0,0]%x[0,0]%x[0,0]", "B%x[0,0]%x[0,0]%x[2,0]"],
        "weights": {
            text.encode(): [1.0, 0.0, 1.0, 0.0]
            for text in (
                *("Ba/aa/a_B+2", "Ba/aa/aa/a", "Baa/aa/a/a", "Baa/aa/aa/", "Baa_B+1", "Baaa"),
                *("Baaaaaa_B+2", "Baaaaaaaaa", "Baabaab_B+1", "Baabaabaab"),
            )
        },
        "tests": [[("a", "a"), ("aaa", "a")]],
    }
)
def test_crfpp(model: dict[str, Any]) -> None:
    parts = [b"X", b"Y"], [t.encode() for t in model["templates"]], model["weights"]
    check(loaded(lambda: load_crfpp(crfpp_text(*parts))), model, crfpp_expand)
    check(loaded(lambda: load_crfpp(crfpp_binary(*parts))), model, crfpp_expand)


@given(models(rich=True))
def test_wapiti(model: dict[str, Any]) -> None:
    parts = [b"X", b"Y"], [t.encode() for t in model["templates"]], model["weights"]
    columns = {
        name for template in model["templates"] for name in re.findall(r",(\d)[],]", template)
    }
    names = ("a", "b")[: 1 + max(map(int, columns), default=0)]
    tagger = loaded(lambda: load_wapiti(wapiti(*parts), columns=("a", "b")))
    assert set(tagger.index.columns) <= set(names)
    check(tagger, model, wapiti_expand)


ATOMS = st.sampled_from(["a", "b", ".", "\\a", "\\D", "\\.", "$", "\\^"])


@given(
    st.booleans(),
    st.lists(st.tuples(ATOMS, st.sampled_from(["", "", "*", "?"])), max_size=6),
    st.booleans(),
    st.text("ab.$^1", max_size=6),
)
def test_both_ways_to_match_agree(
    start: bool, atoms: list[tuple[str, str]], end: bool, string: str
) -> None:
    expression = "^" * start + "".join(map("".join, atoms)) + "$" * end
    parsed = bytewise._parsed(expression)
    hit = bytewise._compiled(parsed).search(string.encode())
    taken = bytewise._taken(parsed, string.encode())
    assert (hit is None) == (taken is None)
    if hit is not None and taken is not None:
        if parsed.misjudges:
            assert taken.startswith(hit.group())
        else:
            assert taken == hit.group()


@pytest.mark.parametrize("part", [".?", ".*", "a?.*"])
def test_expressions_that_try_everything_end(part: str) -> None:
    expression = part * 30 + "!"
    assert bytewise.test(expression)("a" * 40) == "false"
    assert bytewise.find(expression)("a" * 40) == ""

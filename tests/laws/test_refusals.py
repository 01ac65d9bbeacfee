"""What the algebra refuses: each row of the table in the guide is provoked and read.

The message is one line, of the error that the row names, with a word that it gives as the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Lattice, Lattices, SegmentCRF, Transducer, errors
from fstcrf.constraints import at_most
from fstcrf.kernel import Budget
from fstcrf.lattices import distinct

_GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "lattices.md"
_MOST = 12


class Refusal(NamedTuple):
    """A row of the table."""

    rule: str
    errors: tuple[str, ...]
    remedies: tuple[str, ...]


@cache
def table() -> tuple[Refusal, ...]:
    _, _, text = _GUIDE.read_text("utf-8").partition("### What is refused\n")
    lines = [line for line in text.partition("\n#")[0].splitlines() if line.startswith("|")]
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    marked = re.compile(r"`([^`]+)`|\*([^*]+)\*")
    return tuple(
        Refusal(rule, *(tuple(a or b for a, b in marked.findall(cell)) for cell in rest))
        for rule, *rest in rows
    )


def tokens(length: int, labels: Sequence[str] = ("a", "b"), tape: str = "label") -> Any:
    return Lattice.from_arrays(labels, np.zeros((length, len(labels))), tape=tape)


def machine(text: str, tape: str | None = "z", **options: Any) -> Transducer:
    return Transducer.from_text(text, tape=tape, **options)


ONE, TWO = tokens(3), tokens(3) @ tokens(3)
SPANS: Any = Lattice.from_spans(3, [(0, 2, "X", 1.0)])
RULE: Any = at_most(1, "a")
WRITES: Any = machine("0 0 a y\n0 0 b <eps>\n0")
WRITTEN: Any = ONE @ WRITES
TABLE = np.zeros((2, 2))


@cache
def taggers() -> tuple[CRF, CRF]:
    data = [{"word": ["a", "b"], "p": ["x", "y"], "q": ["u", "v"]}]
    first = CRF.train(data, "p", "U:%x[0,word]\n", tape="p", max_iterations=1)
    template = "U:%x[0,word]\nU2:%y[0,p]\n"
    return first, CRF.train(data, "q", template, tape="q", reads=(first,), max_iterations=1)


def chain() -> Any:
    return fstcrf.compose(*taggers(), normalize="chain")


def segments() -> Any:
    data = [{"word": ["a", "b"], "q": ["B-X", "O"]}]
    return SegmentCRF.train(data, "q", "U:%x[0,word]\n", max_iterations=1)


def large() -> Any:
    every = [(a, b, "X", 0.0) for a in range(300) for b in range(a + 1, 301)]
    return tokens(300, [*map(str, range(400))]) @ Lattice.from_spans(300, every)


def drifting() -> Any:
    """Return a composition with two loops that drift apart in weight for ever, from either end."""
    text = "0 1 a\n0 2 a\n1 1 a 1\n2 2 a 2\n1 1 b 2\n2 2 b 1\n1 3 a\n2 3 a\n3"
    return tokens(6) @ machine(text, None, semiring="tropical")


SENTENCE: Any = {"word": ["a", "b"]}
compose: Any = fstcrf.compose
CALLS: dict[str, Sequence[Callable[[], Any]]] = {
    "numbers of tokens": (
        lambda: ONE @ tokens(2),
        lambda: compose(ONE, tokens(2)),
        lambda: Lattices([ONE]) @ Lattices([ONE, ONE]),
    ),
    "labels that the tape does not have": (
        lambda: ONE & at_most(1, "c"),
        lambda: WRITTEN & at_most(1, "x", tape="z"),
        lambda: ONE @ machine("0 0 c y\n0"),
        lambda: WRITTEN @ Lattice.from_segments(3, [0], [3], [0], [0.0], ("X",), tape="z"),
    ),
    "exists already": (
        lambda: ONE @ machine("0 0 a y\n0", "label"),
        lambda: compose(taggers()[0], taggers()[0]),
    ),
    "no tape given": (
        lambda: ONE @ WRITES.on("pos"),
        lambda: TWO.span_probability(0, 1, "a"),
        lambda: TWO.nbest(1, tapes=["pos"]),
        lambda: TWO & RULE,
        lambda: compose(TWO, ONE, coupling={(0, 1): TABLE}),
    ),
    "in a circle": (lambda: ONE @ machine("0 1 a y\n1 1 <eps> y\n1"),),
    "too large": (large,),
    "a tropical transducer": (
        lambda: drifting().log_partition(),
        lambda: drifting().marginals(),
        lambda: drifting().gradient(),
    ),
    "chain rule": (
        lambda: chain().lattice(SENTENCE),
        lambda: chain().marginals_all([SENTENCE]),
        lambda: (chain() & at_most(1, "x", tape="p")).lattice(SENTENCE, samples=9),
        lambda: ONE.standard_error(0.5),
    ),
    "another kind": (
        lambda: SPANS.best(search="lazy"),
        lambda: SPANS.nbest(2, budget=Budget(states=5)),
        lambda: SPANS.constrained(at_most(1, "X"), search="lazy"),
        lambda: SPANS.probable_spans(scheme="iob2"),
        lambda: segments().lattice(SENTENCE, n=2),
        lambda: compose(ONE, ONE, normalize="chain"),
        lambda: compose(*taggers(), coupling={(0, 1): TABLE}),
    ),
    "not aligned with tokens": (
        lambda: WRITTEN.constrained(at_most(1, "y", tape="z"), over="tokens"),
        lambda: WRITTEN @ tokens(3, ("y",), "z"),
    ),
    "within other spans": (lambda: Lattice.from_spans(3, [(0, 2, "X", 1.0)], nested=True),),
    "a grammar after": (
        lambda: ONE @ RULE,
        lambda: taggers()[0] @ RULE,
        lambda: compose(ONE, RULE),
        lambda: ONE & WRITES,
        lambda: taggers()[0] & WRITES,
        lambda: WRITES @ ONE,
        lambda: compose(ONE, taggers()[0]),
    ),
}
"""What provokes each rule, by words of its own."""


def provoked(call: Callable[[], Any]) -> errors.FstcrfError:
    with pytest.raises(errors.FstcrfError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("words", CALLS)
def test_a_rule_is_refused_as_the_guide_says(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "MOST_RIVALS", 3)
    (row,) = (row for row in table() if words in row.rule)
    found = [provoked(call) for call in CALLS[words]]
    assert {type(error).__name__ for error in found} == {*row.errors}
    for message in map(str, found):
        assert message.isprintable(), "one line"
        assert any(remedy in message for remedy in row.remedies), message
    named = "\n".join(map(str, found))
    assert [remedy for remedy in row.remedies if remedy not in named] == []


def test_the_table_is_short_and_has_no_rule_that_is_not_provoked() -> None:
    assert len(table()) == len(CALLS) <= _MOST
    assert all(sum(words in row.rule for words in CALLS) == 1 for row in table())

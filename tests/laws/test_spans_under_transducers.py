"""A transducer that rewrites each label in one way, at no cost, changes no question about spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Corpus, Lattice, Lattices, Transducer

ROWS = [
    {"w": list("abcab"), "t": ["B-X", "I-X", "O", "B-Y", "B-X"]},
    {"w": list("bca"), "t": ["O", "B-Y", "I-Y"]},
    {"w": list("c"), "t": ["B-X"]},
]
LABELS = ("B-X", "B-Y", "I-X", "I-Y", "O")
TEXT = [{"w": row["w"]} for row in ROWS]


def _memory() -> Transducer:
    """Return a transducer that writes whether a B- label was read before."""
    arcs = [f"0 {int(x[0] == 'B')} {x} {'N' if x[0] == 'B' else '<eps>'}" for x in LABELS]
    arcs += [f"1 1 {x} {'A' if x[0] == 'B' else '<eps>'}" for x in LABELS]
    return Transducer.from_text("\n".join([*arcs, "0", "1"]), tape="s")


_TABLE = {x: x[2:] if x[0] == "B" else None for x in LABELS}
TRANSDUCERS: dict[str, Callable[[], Transducer]] = {
    "one label each": lambda: Transducer.from_table({x: x[-1] for x in LABELS}, tape="s"),
    "labels deleted": lambda: Transducer.from_table(_TABLE, tape="s"),
    "its input": lambda: Transducer.from_table(_TABLE, tape="s").project("input"),
    "memory": _memory,
}


def _sorted(spans: Any) -> list[tuple[int, int, str, float]]:
    return sorted((span.start, span.end, span.type, p) for span, p in spans)


DOORS: dict[str, Callable[[Any], Any]] = {
    "probable spans": lambda one: _sorted(one.probable_spans(0.01, tape="t")),
    "a span": lambda one: one.span_probability(0, 1, "X", tape="t"),
    "several spans": lambda one: one.span_probabilities([(0, 1, "X"), (0, 1, "Y")], tape="t"),
    "least risk": lambda one: (
        (best := one.minimum_risk("span", tape="t")).labels,
        best.expected,
    ),
}


@pytest.fixture(scope="module")
def tagger() -> CRF:
    return CRF.train(Corpus.from_sentences(ROWS), "t", "U:%x[0,w]\nB", max_iterations=4)


def same(one: Any, other: Any) -> None:
    if isinstance(one, tuple | list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, float | np.ndarray):
        np.testing.assert_allclose(one, other, atol=1e-9)
    else:
        assert one == other


@pytest.mark.parametrize("transducer", TRANSDUCERS)
@pytest.mark.parametrize("door", DOORS)
def test_spans_of_a_lattice(tagger: CRF, door: str, transducer: str) -> None:
    for row in TEXT:
        plain: Lattice = tagger.lattice(row)
        same(DOORS[door](plain @ TRANSDUCERS[transducer]()), DOORS[door](plain))


@pytest.mark.parametrize("transducer", TRANSDUCERS)
def test_spans_of_lattices_and_answers(tagger: CRF, transducer: str) -> None:
    composed = tagger @ TRANSDUCERS[transducer]()
    plain, both = (Lattices([one.lattice(row) for row in TEXT]) for one in (tagger, composed))
    several = ([*map(_sorted, x.probable_spans(0.01, tape="t"))] for x in (both, plain))
    same(*several)
    spans = [[(0, 1, "X")]] * len(TEXT)
    same(*(x.span_probabilities(spans, tape="t") for x in (both, plain)))
    found, wanted = composed.decode(TEXT), tagger.decode(TEXT)
    assert found["t"].labels() == wanted["t"].labels()
    same(found.span_probabilities("t"), wanted.span_probabilities("t"))

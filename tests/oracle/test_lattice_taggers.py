"""Lattices of trained taggers, of order 2 and under schemes, in products and under grammars."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF
from fstcrf.constraints import at_most, bioes, pairs
from fstcrf.lattices import Lattice, product

SENTENCES: list[Any] = [
    {"word": ["the", "big", "dog", "ran"], "x": ["B-X", "I-X", "E-X", "O"], "y": list("abba")},
    {"word": ["a", "dog", "ran", "home"], "x": ["B-X", "E-X", "O", "S-X"], "y": list("abab")},
    {"word": ["ran"], "x": ["O"], "y": ["a"]},
    {"word": ["home", "ran", "the", "dog"], "x": ["S-X", "O", "B-X", "E-X"], "y": list("baab")},
]
TEMPLATE = "U1:%x[0,word]\nU2:%x[-1,word]\nB\n"
KINDS: dict[str, dict[str, Any]] = {
    "order 2": {"order": 2},
    "order 2, bioes": {"order": 2, "scheme": "bioes"},
    "bioes": {"scheme": "bioes", "ends": True, "transitions": "all"},
    "arcs": {"template": TEMPLATE + "B1:%x[0,word]\n"},
}
WORDS = ["the", "dog", "home"]


@pytest.fixture(scope="module", params=list(KINDS.values()), ids=list(KINDS))
def chunker(request: pytest.FixtureRequest) -> CRF:
    return CRF.train(SENTENCES, "x", **{"template": TEMPLATE, "l2": 0.2, **request.param})


@pytest.fixture(scope="module")
def tagger() -> CRF:
    return CRF.train(SENTENCES, "y", TEMPLATE, l2=0.2, order=2)


def scores(lattice: Lattice) -> dict[tuple[str, ...], float]:
    every = itertools.product(lattice.labels, repeat=len(lattice))
    return {labels: lattice.score(labels) for labels in every}


def check(lattice: Lattice, wanted: dict[Any, float]) -> None:
    """A lattice of two tapes against the score of every pair of label sequences."""
    legal = {labels: s for labels, s in wanted.items() if s > -np.inf}
    values = np.asarray(list(legal.values()))
    log_z = float(np.logaddexp.reduce(values))
    assert lattice.log_partition() == pytest.approx(log_z, rel=1e-9)
    ranked = lattice.nbest(len(legal) + 5)
    assert len(ranked) == len(legal)
    assert [p.score for p in ranked] == pytest.approx(sorted(values, reverse=True), rel=1e-9)
    assert {p.labels: p.score for p in ranked} == pytest.approx(legal, rel=1e-9, abs=1e-9)
    for k, found in enumerate(lattice.marginals()):
        mass = np.zeros(found.shape)
        for labels, score in legal.items():
            for t, label in enumerate(labels[k]):
                mass[t, lattice.labels[k].index(label)] += np.exp(score - log_z)
        np.testing.assert_allclose(found, mass, rtol=1e-9, atol=1e-11)
    share = np.exp(values - log_z)
    assert lattice.entropy() == pytest.approx(-(share * (values - log_z)).sum(), rel=1e-9)


def test_products_of_taggers(chunker: CRF, tagger: CRF) -> None:
    first, second = chunker.lattice({"word": WORDS}), tagger.lattice({"word": WORDS})
    rng = np.random.default_rng(0)
    table = rng.normal(size=(len(first.labels), 2))
    alone = scores(first), scores(second)

    def coupled(a: tuple[str, ...], b: tuple[str, ...]) -> float:
        ids = [(first.labels.index(x), second.labels.index(y)) for x, y in zip(a, b, strict=True)]
        return float(sum(table[i] for i in ids))

    wanted = {
        (a, b): p + 0.5 * q + coupled(a, b)
        for (a, p), (b, q) in itertools.product(alone[0].items(), alone[1].items())
    }
    both = product([first, second], coupling={(0, 1): table}, weights=[1.0, 0.5])
    check(both, wanted)
    turned = product([second, first], coupling={(1, 0): table}, weights=[0.5, 1.0])
    assert turned.log_partition() == pytest.approx(both.log_partition(), rel=1e-9)


def test_products_of_taggers_under_grammars(chunker: CRF, tagger: CRF) -> None:
    first, second = chunker.lattice({"word": WORDS}), tagger.lattice({"word": WORDS})
    rule = bioes(tape=first.tapes[0]) & at_most(1, "X", tape=first.tapes[0], weight=-0.7)
    agree = pairs({"a": ["O", "B-X", "S-X"]}, (second.tapes[0], first.tapes[0]))
    both = (first @ second) & rule & agree
    bound = (rule & agree).bound({t: x.labels for x in (first, second) for t in x.tapes})
    alone = scores(first), scores(second)
    wanted = {
        (a, b): p + q + bound.score({first.tapes[0]: a, second.tapes[0]: b})
        for (a, p), (b, q) in itertools.product(alone[0].items(), alone[1].items())
    }
    check(both, wanted)


def test_a_tagger_with_itself(chunker: CRF) -> None:
    one = chunker.lattice({"word": WORDS})
    both = one @ one
    assert both.log_partition() == pytest.approx(2 * one.log_partition(), rel=1e-9)
    for found in both.marginals():
        np.testing.assert_allclose(found, one.marginals(), rtol=1e-9, atol=1e-12)
    same = [(x, x) for x in one.labels]
    equal = both & pairs(same, both.tapes)
    assert equal.best().labels == (one.best().labels,) * 2
    assert equal.log_partition() == pytest.approx(one.scale(2.0).log_partition(), rel=1e-9)


def test_an_empty_sentence(chunker: CRF, tagger: CRF) -> None:
    both = chunker.lattice({"word": []}) @ tagger.lattice({"word": []})
    assert both.best().labels == ((), ())
    assert both.log_partition() == 0.0
    assert [m.shape for m in both.marginals()] == [(0, len(x)) for x in both.labels]


def test_spans_of_an_order_2_tagger(chunker: CRF, tagger: CRF) -> None:
    first, second = chunker.lattice({"word": WORDS}), tagger.lattice({"word": WORDS})
    both = first @ second
    tape = first.tapes[0]
    for start, end in itertools.combinations(range(4), 2):
        alone = first.span_probability(start, end, "X", scheme="bioes")
        found = both.span_probability(start, end, "X", tape=tape, scheme="bioes")
        assert found == pytest.approx(alone, rel=1e-9, abs=1e-12)
        mass = sum(
            np.exp(score - first.log_partition())
            for labels, score in scores(first).items()
            if score > -np.inf and _is_span(labels, start, end)
        )
        assert found == pytest.approx(mass, rel=1e-9, abs=1e-11)


def _is_span(labels: tuple[str, ...], start: int, end: int) -> bool:
    letters = [label[0] for label in labels[start:end]]
    return letters == (["S"] if end - start == 1 else ["B", *"I" * (end - start - 2), "E"])

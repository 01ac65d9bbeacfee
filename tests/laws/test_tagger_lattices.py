"""A tagger and the lattices that it makes are one machine: the same answers, to the bit."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, Grammar, compose
from fstcrf.constraints import at_most, contiguous, pairs

LABELS = tuple("ABCDEFGHIJ")
RNG = np.random.default_rng(3)
DATA = Corpus.from_sentences(
    [
        {
            "word": [*RNG.choice([*"uvwx"], size)],
            "y": [*RNG.choice(LABELS, size)],
            "z": ["K"] * size,
        }
        for size in (1, 4, 7, 9, 3)
    ]
    + [{"word": ["u"], "y": ["A"], "z": ["M"]}]
)
TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]\nB"


def history(size: int) -> Grammar:
    """Return a language model that remembers the last two labels, or the last one."""
    many = len(LABELS)
    states = 1 + many + many**2
    target = np.zeros((states, many), dtype=np.int64)
    for state in range(states):
        last = (state - 1) % many if state else 0
        target[state] = np.arange(many) + (1 + many + many * last if state and size > 2 else 1)
    score = np.random.default_rng(7).normal(size=(states, many))
    return Grammar.from_arrays(LABELS, target, score=score, tape="y", name=f"order {size}")


@cache
def crf() -> CRF:
    return CRF.train(DATA, "y", TEMPLATE, max_iterations=8)


@cache
def kinds() -> dict[str, Any]:
    other = CRF.train(DATA, "z", TEMPLATE, max_iterations=3)
    rule = at_most(2, "A", tape="y")
    return {
        "CRF": crf(),
        "CRF & at_most": crf() & rule,
        "CRF & bigrams": crf() & history(2),
        "CRF & trigrams": crf() & history(3),
        "CRF & trigrams & at_most": crf() & history(3) & rule,
        "CRF & contiguous": crf() & contiguous("A"),
        "CRF & trigrams, lazy": crf().constrained(history(3), search="lazy"),
        "CRF & trigrams, expanded": crf().constrained(history(3), search="expanded"),
        "product": compose(crf(), other),
        "product & at_most": compose(crf(), other) & rule,
        "product & both tapes": compose(crf(), other)
        & pairs([(y, "M" if y in "CA" else "K") for y in LABELS] + [("A", "K")], ("y", "z")),
    }


@pytest.mark.parametrize("kind", kinds())
def test_a_tagger_answers_as_its_lattices(kind: str) -> None:
    tagger = kinds()[kind]
    lattices = [tagger.lattice(sentence) for sentence in DATA]
    for n in (1, 5):
        answer = tagger.decode(DATA, n=n, on_no_path="skip")
        for b, paths in enumerate(fstcrf.nbest(lattices, n)):
            own = answer.paths(b)
            assert [p.labels for p in own] == [p.labels for p in paths]
            assert [p.score for p in own] == [p.score for p in paths]
            assert [p.exact for p in own] == [p.exact for p in paths]
            assert [p.probability for p in own] == pytest.approx(
                [p.probability for p in paths], nan_ok=True
            )
    for own, lattice in zip(tagger.marginals_all(DATA), lattices, strict=True):
        found = lattice.marginals()
        for mine, its in zip(
            [own] if len(tagger.tapes) == 1 else own,
            [found] if len(tagger.tapes) == 1 else found,
            strict=True,
        ):
            np.testing.assert_array_equal(mine, its)


def test_some_of_them_are_folded() -> None:
    folded = [kind for kind, tagger in kinds().items() if kind != "CRF" and tagger._program.pairs]
    assert folded == ["CRF & trigrams"]


@pytest.mark.parametrize("kind", [kind for kind in kinds() if "&" in kind])
def test_both_have_one_plan(kind: str) -> None:
    tagger = kinds()[kind]
    assert str(tagger.lattice(DATA[1]).plan()) == str(tagger.plan())

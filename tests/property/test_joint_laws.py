"""Compositions of random taggers under random grammars agree with what every labelling scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf import CRF
from fstcrf.errors import GrammarError
from fstcrf.machines.grammar import Acceptor, is_empty
from fstcrf.taggers import JointCRF
from tests.support.joint_cases import CASES, WORDS, Truth, close, shaped, taggers
from tests.support.strategies import fewer

pytestmark = pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")

SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(lambda w: {"word": w})
PAIRS = [case for case in CASES if len(CASES[case]) == 2]
THREE = ("three in a row", "two readers")
WEIGHTS = st.sampled_from([0.0, 0.25, 1.0, 1.7])


def with_random_weights(tagger: CRF, rng: np.random.Generator, size: float) -> CRF:
    """The same features with other weights: what training would hardly give."""
    return replace(tagger, theta=rng.normal(size=len(tagger.theta)) * size)


def random_acceptor(rng: np.random.Generator, tapes: dict[str, tuple[str, ...]]) -> Acceptor:
    """A random acceptor over some of the tapes that accepts something."""
    names = [t for t in tapes if rng.random() < 0.7] or list(tapes)[:1]
    labels = tuple(tapes[t] for t in names)
    states = int(rng.integers(1, 4))
    shape = (states, *map(len, labels))
    while True:
        target = rng.integers(-1, states, shape).astype(np.int32)
        score = None
        if rng.random() < 0.5:
            score = np.where(target >= 0, np.round(rng.normal(size=shape), 3), 0.0)
        final = np.where(rng.random(states) < 0.6, 0.0, -np.inf)
        found = Acceptor(tuple(names), labels, target, score, final, "random")
        if not is_empty(found):
            return found


@st.composite
def worlds(
    draw: st.DrawFn, cases: list[str], normalize: Literal["product", "chain"]
) -> tuple[JointCRF, Truth]:
    case, sentence = draw(st.sampled_from(cases)), draw(SENTENCES)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from([0.3, 1.0, 4.0]))
    parts = [with_random_weights(t, rng, size) for t in taggers(case)]
    weights = tuple(draw(WEIGHTS) for _ in parts)
    tapes = {t.tape: t.labels for t in parts}
    conjuncts = tuple(random_acceptor(rng, tapes) for _ in range(draw(st.integers(0, 2))))
    composition = JointCRF(tuple(parts), weights, conjuncts, normalize=normalize)
    return composition, Truth(parts, sentence, weights, conjuncts, normalize)


def contradictory(composition: JointCRF, truth: Truth) -> bool:
    """Whether the grammar says that its parts accept nothing together; then they do not."""
    try:
        for program in (composition._program, composition._grammar_program):
            _ = program and program.automaton
        _ = [stage.legal.automaton for stage in composition._stages]
    except GrammarError:
        assert not truth.scores
        return True
    return False


@pytest.mark.thorough
@fewer(2)
@given(worlds(list(CASES), "product"))
def test_products(world: tuple[JointCRF, Truth]) -> None:
    composition, truth = world
    if len(truth.taggers) > 2:
        truth = replace(truth, sentence={"word": truth.sentence["word"][:2]})
    if contradictory(composition, truth):
        return
    (path,) = composition.paths_all([truth.sentence])
    lattice: Any = composition.lattice(truth.sentence)
    assert close(lattice.log_partition(), truth.log_z)
    assert (path is None) == (not truth.scores)
    if path is None:
        return
    for found in (path, lattice.best()):
        labels = shaped(found.labels, truth)
        assert close(found.score, truth.best)
        assert close(truth.scores[labels], truth.best)
        assert close(found.probability, truth.probability(labels))
        assert close(found.probability, lattice.probability(found.labels))
        assert found.exact
        assert found.bound == found.score
    ranked = [p.score for p in lattice.nbest(6)]
    assert all(close(a, b) for a, (b, _) in zip(ranked, truth.ranking[:6], strict=True))
    tables = shaped(composition.marginals_all([truth.sentence])[0], truth)
    for k, marginals in enumerate(tables):
        np.testing.assert_allclose(marginals, truth.marginals(k), rtol=1e-8, atol=1e-11)


@pytest.mark.thorough
@fewer(2)
@given(worlds([*PAIRS, *THREE], "chain"), st.sampled_from([1, 2, 3, 5, 1024]))
def test_chains(world: tuple[JointCRF, Truth], budget: int) -> None:
    composition, truth = world
    if len(truth.taggers) > 2:
        truth = replace(truth, sentence={"word": truth.sentence["word"][:2]})
    if contradictory(composition, truth):
        return
    (path,) = composition.paths_all([truth.sentence], budget=budget)
    assert (path is None) == (not truth.scores)
    if path is None:
        assert composition.nbest_all([truth.sentence], 2, budget=budget) == [[]]
        return
    assert close(truth.scores[path.labels], path.score)
    # A grammar takes labellings away and leaves probabilities, which are of the taggers as trained.
    sure = Truth(truth.taggers, truth.sentence, normalize="chain")
    assert close(path.probability, sure.probability(path.labels))
    assert path.bound >= truth.best - 1e-9 * max(1.0, abs(truth.best))
    assert path.exact == (path.bound == path.score)
    if path.exact or budget == 1024:
        assert close(path.score, truth.best)
    if len(truth.taggers) > 2:
        return
    (ranked,) = composition.nbest_all([truth.sentence], 4, budget=budget)
    assert ranked
    for number, found in enumerate(ranked):
        assert close(truth.scores[found.labels], found.score)
        if found.exact:
            assert close(found.score, truth.ranking[number][0])


@pytest.mark.thorough
@pytest.mark.parametrize("case", THREE)
@pytest.mark.parametrize("budget", [2, 3, 4, 1024])
def test_labels_are_found_where_the_cascade_has_none(case: str, budget: int) -> None:
    """Under the cascade's labels the last tagger has no legal path, under others it has some.

    These counted as having none, too, and the sentence as one without a path.
    """
    only = np.array([[[0, -1], [-1, -1], [-1, -1]]], dtype=np.int32)
    acceptor = Acceptor(
        ("chunk", "ent"), (("B", "I", "O"), ("E0", "E1")), only, None, np.zeros(1), "only B, E0"
    )
    for seed in range(4):
        parts = [with_random_weights(t, np.random.default_rng(seed), 0.3) for t in taggers(case)]
        composition = JointCRF(tuple(parts), (1.0,) * 3, (acceptor,), normalize="chain")
        for sentence in ({"word": ["a"]}, {"word": ["a", "b"]}):
            truth = Truth(parts, sentence, (1.0,) * 3, (acceptor,), "chain")
            (path,) = composition.paths_all([sentence], budget=budget)
            assert path is not None
            assert close(truth.scores[path.labels], path.score)
            if path.exact or budget == 1024:
                assert close(path.score, truth.best)


@given(st.lists(SENTENCES, min_size=2, max_size=5), st.integers(0, 2**32), st.booleans())
def test_sentences_do_not_see_each_other(
    data: list[dict[str, list[str]]], seed: int, chain: bool
) -> None:
    rng = np.random.default_rng(seed)
    parts = [with_random_weights(t, rng, 1.0) for t in taggers("pair")]
    acceptor = random_acceptor(rng, {t.tape: t.labels for t in parts})
    normalize: Any = "chain" if chain else "product"
    composition = JointCRF(tuple(parts), (1.0, 1.0), (acceptor,), normalize=normalize)
    together = composition.paths_all(data)
    assert together == [composition.paths_all([sentence])[0] for sentence in data], "to the bit"

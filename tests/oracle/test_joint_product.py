"""Products of taggers against every labelling, scored tagger by tagger."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf import Grammar, Lattice, compose
from fstcrf.constraints import at_least, at_most, label, pairs, transitions
from fstcrf.taggers import Composition
from tests.support.joint_cases import CASES, TEST, Truth, assert_frequencies, close, shaped, taggers

WEIGHTS = {1: (0.5,), 2: (1.0, 0.3), 3: (1.0, 0.7, 0.0)}

ONE_TAPE = {
    "folded": lambda: transitions([("P0", "P1"), ("P1", "P0"), ("P1", "P2"), ("P2", "P0")]),
    "counted": lambda: at_most(1, label("P0")),
    "soft": lambda: Grammar.from_text('export E = (("[P0]" <0.7>) | ("[P1]" <-0.4>) | "[P2]")*;'),
}
TWO_TAPES = {
    "pairs": lambda: pairs([("P0", "B"), ("P1", "I"), ("P2", "O"), ("P2", "B")], ["pos", "chunk"]),
    "folded": lambda: transitions([("P0", "P1"), ("P1", "P0"), ("P0", "P0")], tape="pos"),
    "counted on the later": lambda: at_most(1, label("O"), tape="chunk"),
    "both": lambda: at_most(1, label("B"), tape="chunk") & at_least(1, label("P0"), tape="pos"),
    "soft pairs": lambda: Grammar.from_text(
        "tape pos, chunk; export E = "
        '(("[pos=P0 chunk=B]" <1.3>) | "[pos=P1]" | ("[pos=P2]" <-0.5>))*;'
    ),
    "soft residual": lambda: Grammar.from_text(
        'tape chunk; export E = any* (("[B]" "[I]" <-2>) any*)?;'
    ),
}


def check(composition: Composition, truth: Truth) -> None:
    lattice = composition.lattice(truth.sentence)
    assert isinstance(lattice, Lattice)
    assert close(lattice.log_partition(), truth.log_z)
    (path,) = composition.paths_all([truth.sentence])
    if not truth.scores:
        assert path is None
        assert lattice.nbest(3) == []
        return
    assert path is not None
    labels = shaped(path.labels, truth)
    assert close(path.score, truth.best)
    assert close(truth.scores[labels], truth.best)
    assert close(path.probability, truth.probability(labels))
    assert path.exact
    assert path.bound == path.score
    tagged = shaped(composition.tag(truth.sentence), truth)
    assert tuple(map(tuple, tagged)) == labels
    assert lattice.best().labels == path.labels
    ranked = lattice.nbest(20)
    wanted = [score for score, _ in truth.ranking[:20]]
    assert len(ranked) == len(wanted)
    assert all(close(p.score, s) for p, s in zip(ranked, wanted, strict=True))
    assert all(close(p.score, truth.scores[shaped(p.labels, truth)]) for p in ranked)
    assert len({p.labels for p in ranked}) == len(ranked)
    marginals = shaped(composition.marginals_all([truth.sentence])[0], truth)
    for k, found in enumerate(marginals):
        np.testing.assert_allclose(found, truth.marginals(k), rtol=1e-9, atol=1e-12)
    for labelling in list(truth.scores)[:5]:
        own = labelling[0] if len(truth.taggers) == 1 else labelling
        assert close(lattice.score(own), truth.scores[labelling])


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_case(case: str, weighted: bool) -> None:
    parts = taggers(case)
    weights = WEIGHTS[len(parts)] if weighted else (1.0,) * len(parts)
    composition = compose(*parts, weights=weights)
    for sentence in TEST[: 6 if len(parts) < 3 else 2]:
        check(composition, Truth(parts, sentence, weights))


@pytest.mark.parametrize("grammar", ONE_TAPE)
@pytest.mark.parametrize("case", ["one"])
def test_a_tagger_under_a_grammar(case: str, grammar: str) -> None:
    parts = taggers(case)
    composition = compose(*parts, grammar=ONE_TAPE[grammar](), weights=(0.8,))
    for sentence in TEST:
        check(composition, Truth(parts, sentence, (0.8,), composition.conjuncts))


@pytest.mark.thorough
@pytest.mark.parametrize("grammar", TWO_TAPES)
@pytest.mark.parametrize("case", ["pair", "reader first", "conditioned arcs", "order 2"])
def test_two_taggers_under_a_grammar(case: str, grammar: str) -> None:
    parts = taggers(case)
    composition = compose(*parts, grammar=TWO_TAPES[grammar](), weights=(1.0, 0.6))
    for sentence in TEST[:4]:
        check(composition, Truth(parts, sentence, (1.0, 0.6), composition.conjuncts))


@pytest.mark.thorough
def test_three_tapes_under_grammars() -> None:
    parts = taggers("three in a row")
    grammar = TWO_TAPES["pairs"]() & at_most(1, label("E1"), tape="ent")
    composition = compose(*parts, grammar=grammar, normalize="product")
    for sentence in TEST[:2]:
        check(composition, Truth(parts, sentence, (), composition.conjuncts))


@pytest.mark.parametrize("case", ["pair", "three in a row", "order 2"])
def test_samples_have_the_right_frequencies(case: str) -> None:
    parts = taggers(case)
    sentence = min(TEST, key=lambda s: abs(len(s["word"]) - 2))
    truth = Truth(parts, sentence)
    lattice = compose(*parts, normalize="product").lattice(sentence)
    assert isinstance(lattice, Lattice)
    n = 4000
    assert_frequencies([tuple(y) for y in lattice.sample(n, seed=1)], truth)


def test_span_probabilities_add_up_labellings() -> None:
    parts = taggers("pair")
    sentence = next(s for s in TEST if len(s["word"]) == 3)
    truth, lattice = Truth(parts, sentence), compose(*parts, normalize="product").lattice(sentence)
    assert isinstance(lattice, Lattice)
    # A span of the empty type: conlleval begins one at an I, too.
    shapes = [(first, "I", last) for first in "BI" for last in "BO"]
    wanted = sum(truth.probability(y) for y in truth.scores if y[1] in shapes)
    assert close(lattice.span_probability(0, 2, "", tape="chunk"), wanted)


def test_a_weight_of_zero_leaves_the_first_tagger_alone() -> None:
    for case in ("pair", "conditioned arcs", "order 2", "two readers"):
        parts = taggers(case)
        composition = compose(*parts, weights=(1.0, *[0.0] * (len(parts) - 1)))
        for sentence in TEST:
            assert composition.tag(sentence)[0] == parts[0].tag(sentence)
            marginals = composition.marginals_all([sentence])[0][0]
            np.testing.assert_allclose(
                marginals, parts[0].marginals_all([sentence])[0], rtol=1e-9, atol=1e-12
            )


def test_weights_multiply_potentials_and_not_the_grammar() -> None:
    parts = taggers("pair")
    composition = compose(*parts, grammar=TWO_TAPES["soft pairs"](), weights=(0.5, 0.2))
    twice = compose(composition, weights=(2.0,))
    assert twice.weights == (1.0, 0.4)
    check(twice, Truth(parts, TEST[1], (1.0, 0.4), composition.conjuncts))

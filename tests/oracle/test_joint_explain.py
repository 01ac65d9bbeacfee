"""What pushes labels in a composition against the scores of every joint labelling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fstcrf import CRF, Composition, Grammar, compose
from fstcrf.errors import NoPathError, OptionError
from tests.support.joint_cases import (
    CASES,
    CHUNK,
    POS,
    TEST,
    Labelling,
    Truth,
    close,
    taggers,
    trained,
)

# Features of label pairs, and weights of beginnings and ends, are no pushes.
PLAIN = [case for case in CASES if case not in {"order 2", "ends", "one"}]
ONE_TOKEN = {"word": ["b"]}


def with_label(labelling: Labelling, tape: int, token: int, label: str) -> Labelling:
    changed = (*labelling[tape][:token], label, *labelling[tape][token + 1 :])
    return (*labelling[:tape], changed, *labelling[tape + 1 :])


def check(composition: Composition, truth: Truth, token: int) -> None:
    """Pushes say by how much the joint score changes with one label of one tape."""
    found = composition.explain(truth.sentence, token)
    best = truth.ranking[0][1]
    assert found.token == token
    assert list(found.tapes) == list(composition.tapes)
    for k, (tape, told) in enumerate(found.tapes.items()):
        assert told.best == best[k][token]
        labels = composition.label_sets[tape]
        scores = [truth.scores[with_label(best, k, token, label)] for label in labels]
        for label, score in zip(labels, scores, strict=True):
            assert close(told.emission[label] - told.emission[labels[0]], score - scores[0])
            pushes = [push.value for push in told.pushes if push.label == label]
            assert close(told.emission[label], sum(pushes))
        sizes = [abs(push.value) for push in told.pushes]
        assert sizes == sorted(sizes, reverse=True)
        for push in told.pushes:
            couples = push.tagger != tape or "%y" in "".join(
                line
                for line in str(truth.taggers[k].index.templates).splitlines()  # type: ignore[union-attr]
                if line.partition(":")[0] == push.attribute.partition(":")[0]
            )
            assert bool(push.given) == couples or push.attribute.startswith("#")
            for other, label in push.given:
                assert label == best[composition.tapes.index(other)][token]


@pytest.mark.parametrize("case", PLAIN)
def test_pushes_are_what_a_label_changes(case: str) -> None:
    parts = taggers(case)
    composition = compose(*parts, weights=[1.0, 0.4, 0.7][: len(parts)])
    assert isinstance(composition, Composition)
    truth = Truth(parts, ONE_TOKEN, composition.weights)
    check(composition, truth, 0)
    for k, tape in enumerate(composition.tapes):
        told = composition.explain(ONE_TOKEN, 0).tapes[tape]
        np.testing.assert_allclose(list(told.probability.values()), truth.marginals(k)[0])


def order0() -> list[CRF]:
    pos = trained("pos", POS, order=0)
    return [pos, trained("chunk", CHUNK, pos, order=0)]


def test_every_token_of_longer_sentences() -> None:
    parts = order0()
    composition = compose(*parts, weights=(1.0, 0.6))
    assert isinstance(composition, Composition)
    for sentence in TEST[:4]:
        for token in range(len(sentence["word"])):
            check(composition, Truth(parts, sentence, (1.0, 0.6)), token)


def test_couplings_stand_on_both_sides() -> None:
    found = compose(*order0()).explain(ONE_TOKEN, 0)
    both = [
        {(p.tagger, p.attribute, p.label, round(p.value, 9)) for p in told.pushes if p.given}
        for told in found.tapes.values()
    ]
    pos, chunk = (told.best for told in found.tapes.values())
    read = {(a, v) for tagger, a, label, v in both[0] if tagger == "chunk" and label == pos}
    own = {(a, v) for tagger, a, label, v in both[1] if tagger == "chunk" and label == chunk}
    assert read == own
    assert read
    assert f"chunk: U2:{pos}  given chunk {chunk}" in str(found)


@pytest.mark.parametrize("case", ["pair", "three in a row", "hashed", "order 2", "ends"])
def test_a_chain_tells_what_each_tagger_thinks_given_those_before(case: str) -> None:
    composition = replace(compose(*taggers(case)), normalize="chain")
    sentence = dict(TEST[0])
    best = dict(zip(composition.tapes, composition.tag(sentence), strict=True))
    found = composition.explain(sentence, 0)
    for tagger in composition.taggers:
        alone = tagger.explain({**sentence, **best}, 0)
        told = found.tapes[tagger.tape]
        assert told.best == best[tagger.tape][0]
        assert told.probability == pytest.approx(alone.probability)
        mine = [(p.attribute, p.label, p.value) for p in told.pushes if p.tagger == tagger.tape]
        own = [(p.attribute, p.label, p.value) for p in alone.pushes]
        assert sorted(mine) == sorted(own)


def test_a_tagger_under_a_grammar_and_attribute_lists() -> None:
    (pos,) = taggers("one")
    legal = compose(pos, grammar=Grammar.from_text('export A = ("[P0]" | "[P1]")*;'))
    told = legal.explain(TEST[0], 0).tapes["pos"]
    assert told.probability["P2"] == 0.0
    assert {(p.attribute, p.label) for p in told.pushes} == {
        (p.attribute, p.label) for p in pos.explain(TEST[0], 0).pushes
    }
    literal = [
        CRF.train([[["a"], ["b"]]], [["X", "Y"]], tape=tape, max_iterations=3) for tape in "xy"
    ]
    found = compose(*literal).explain([["a"], ["b"]], 1)
    for tagger in literal:
        alone = tagger.explain([["a"], ["b"]], 1)
        assert found.tapes[tagger.tape].emission == pytest.approx(alone.emission)
        assert found.tapes[tagger.tape].probability == pytest.approx(alone.probability)


def test_what_cannot_be_explained() -> None:
    composition = compose(*taggers("pair"))
    for sentence, token in ((ONE_TOKEN, 1), (ONE_TOKEN, -1), ({"word": []}, 0)):
        with pytest.raises(OptionError, match=r"token .* of a sentence of"):
            composition.explain(sentence, token)
    dead = compose(*taggers("pair"), grammar=Grammar.from_text("tape pos; export A = any{3,};"))
    with pytest.raises(NoPathError):
        dead.explain(ONE_TOKEN, 0)

"""Why a label: weights by name, and what adds up to an emission."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Corpus
from fstcrf.errors import OptionError
from tests.support.training import flat_train

DATA = [
    {"word": ["the", "dog", "ran"], "n": ["1", "2.5", "-1"], "y": ["B-X", "I-X", "O"]},
    {"word": ["a", "dog"], "n": ["0", "1"], "y": ["B-X", "I-X"]},
]
TEMPLATE = "U1:%x[0,word]\nU2:%x[-1,word]\nU3:%v[0,n]\nB1:%x[0,word]\nB\n"


def train(**options: Any) -> CRF:
    return flat_train(DATA, "y", TEMPLATE, l2=0.05, **options)


@pytest.mark.parametrize("options", [{}, {"order": 0}, {"hash_bits": 5}, {"ends": True}])
def test_pushes_sum_to_the_emission(options: dict[str, Any]) -> None:
    model = train(**options)
    for sentence in DATA:
        lattice = model.lattice(sentence)
        for t in range(len(sentence["y"])):
            found = model.explain(sentence, t)
            for j, label in enumerate(model.labels):
                pushes = [push.value for push in found.pushes if push.label == label]
                assert found.emission[label] == pytest.approx(sum(pushes), abs=1e-12)
                assert found.emission[label] == pytest.approx(
                    lattice.dense.values[0][t, j], abs=1e-9
                )
            assert sum(found.probability.values()) == pytest.approx(1.0)
            assert found.best == model.tag(sentence)[t]
            sizes = [abs(push.value) for push in found.pushes]
            assert sizes == sorted(sizes, reverse=True)


def test_second_order_pushes_pairs_too() -> None:
    model = train(order=2)
    found = model.explain(DATA[0], 1)
    names = {push.label for push in found.pushes}
    assert "B-X I-X" in names
    assert set(found.emission) == set(model.labels)
    for label in model.labels:
        pushes = [push.value for push in found.pushes if push.label == label]
        assert found.emission[label] == pytest.approx(sum(pushes), abs=1e-12)


def test_a_value_multiplies() -> None:
    model = train()
    weight = {(w.attribute, w.slot): w.weight for w in model.top_features(999)}
    found = {(p.attribute, p.label): p.value for p in model.explain(DATA[0], 1).pushes}
    assert found["U3:", "I-X"] == pytest.approx(2.5 * weight["U3:", "I-X"])
    assert found["U1:dog", "I-X"] == pytest.approx(weight["U1:dog", "I-X"])


def test_text() -> None:
    lines = str(train().explain(DATA[0], 1)).splitlines()
    assert lines[0] == "token 1: I-X"
    assert lines[1].split()[:2] == ["I-X", "probability"]
    assert any("U1:dog" in line for line in lines)


@pytest.mark.parametrize("form", ["mapping", "rows", "sentence"])
def test_every_form_of_a_sentence(form: str) -> None:
    model = CRF.train(DATA, "y", "U:%x[0,word]\nB\n")
    sentence: Any = {
        "mapping": {"word": ["a", "dog", "ran", "home"]},
        "rows": [(word,) for word in ["a", "dog", "ran", "home"]],
        "sentence": Corpus.from_sentences([{"word": ["a", "dog", "ran", "home"]}])[0],
    }[form]
    assert [model.explain(sentence, t).token for t in range(4)] == [0, 1, 2, 3]
    for t in (-1, 4):
        with pytest.raises(OptionError, match=f"token {t} of a sentence of 4"):
            model.explain(sentence, t)


def test_no_token_to_explain() -> None:
    model = train()
    empties: list[Any] = [[], {}, {"word": []}]
    for empty in empties:
        with pytest.raises(OptionError, match="token 0 of a sentence of 0"):
            model.explain(empty, 0)


def test_literal_attributes() -> None:
    model = CRF.train([[["a", "b"], {"n": 2.0}]], [["X", "Y"]])
    found = model.explain([{"n": 3.0, "a": 1, "unknown": 5}], 0)
    assert {push.attribute for push in found.pushes} == {"n", "a"}


def test_unknown_words_push_nothing() -> None:
    model = CRF.train(DATA, "y", "U:%x[0,word]\nB\n")
    found = model.explain({"word": ["never"]}, 0)
    assert found.pushes == ()
    assert set(found.emission.values()) == {0.0}


def test_top_features() -> None:
    model = train(ends=True)
    found = model.top_features(5)
    weights = [abs(weight.weight) for weight in found]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == np.abs(model.theta).max()
    everything = model.top_features(10_000)
    assert len(everything) == model.space.size
    assert sorted(w.weight for w in everything) == sorted(model.theta.tolist())
    kinds = {(w.attribute, w.slot) for w in everything}
    assert {
        ("U1:dog", "I-X"),
        ("", "B-X → I-X"),
        ("B1:dog", "B-X → I-X"),
        ("first label", "B-X"),
        ("last label", "O"),
    } <= kinds
    assert len(kinds) == len(everything)
    assert model.top_features(0) == []
    with pytest.raises(OptionError, match="-1 features"):
        model.top_features(-1)


def test_names_of_second_order() -> None:
    slots = {weight.slot for weight in train(order=2).top_features(10_000)}
    assert {"I-X", "B-X I-X", "O B-X → B-X I-X"} <= slots

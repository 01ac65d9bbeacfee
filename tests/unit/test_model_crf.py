"""Tagging: what may be asked of a model, in every form that a sentence may have."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Corpus, Sentence
from fstcrf.errors import (
    DataError,
    LabelError,
    NoPathError,
    OptionError,
    ShapeError,
    TemplateError,
)
from tests.support.training import flat_train

BIO = ("B-X", "I-X", "O")
SENTENCES: list[Any] = [
    {"word": ["the", "big", "dog", "ran"], "y": ["B-X", "I-X", "I-X", "O"]},
    {"word": ["a", "dog", "ran", "home"], "y": ["B-X", "I-X", "O", "O"]},
    {"word": ["ran"], "y": ["O"]},
    {"word": ["home", "ran", "the", "dog"], "y": ["O", "O", "B-X", "I-X"]},
]
TEMPLATE = "U1:%x[-1..1,word]\nU2:%x[0,suffix(word,1)]\nB\n"
WORDS = ["the", "new", "dog", "ran", "home"]


def train(**options: Any) -> CRF:
    return flat_train(SENTENCES, "y", TEMPLATE, **{"l2": 0.1, **options})


@pytest.fixture(scope="module")
def model() -> CRF:
    return train()


KINDS: dict[str, Callable[[], CRF]] = {
    "order 0": lambda: train(order=0),
    "order 1": train,
    "order 2": lambda: train(order=2),
    "ends": lambda: train(ends=True, transitions="all"),
    "scheme": lambda: train(scheme="iob2"),
    "order 2, scheme": lambda: train(scheme="iob2", order=2, ends=True),
    "arcs": lambda: CRF.train(SENTENCES, "y", TEMPLATE + "B1:%x[0,word]", l2=0.1),
    "perceptron": lambda: train(method="perceptron", l2=None),
    "sgd": lambda: train(method="l2sgd", max_iterations=20),
}


@pytest.fixture(params=list(KINDS.values()), ids=list(KINDS), scope="module")
def any_model(request: pytest.FixtureRequest) -> CRF:
    made = request.param()
    assert isinstance(made, CRF)
    return made


def test_training_data_is_learnt(any_model: CRF) -> None:
    assert [any_model.tag(s) for s in SENTENCES] == [s["y"] for s in SENTENCES]


def test_a_scheme_is_never_broken() -> None:
    """No probability at all on O I-X, whatever is forced around it."""
    for order in (1, 2):
        model = train(scheme="iob2", order=order, transitions="all", pairs="complete")
        for length in (1, 2, 4):
            lattice = model.lattice({"word": WORDS[:length]})
            for path in itertools.product(BIO, repeat=length):
                legal = all(b != "I-X" or a != "O" for a, b in itertools.pairwise(("O", *path)))
                assert (lattice.score(path) > -np.inf) == legal
                assert (lattice.probability(path) > 0) == legal
        with pytest.raises(NoPathError, match="sentence 0"):
            model.tag({"word": WORDS}, forced=["O", "I-X", None, None, None])
        assert model.paths_all([SENTENCES[2]], forced=[["I-X"]]) == [None]
        with pytest.raises(NoPathError):
            model.marginals_all([SENTENCES[2]], forced=[["I-X"]])
        asked: Any = {"forced": [["I-X"], None], "on_no_path": "skip"}
        skipped, other = model.marginals_all([SENTENCES[2], SENTENCES[0]], **asked)
        assert skipped.tolist() == [[0.0, 0.0, 0.0]]
        np.testing.assert_allclose(other, model.marginals_all([SENTENCES[0]])[0], rtol=1e-9)
        (free,) = model.marginals_all([SENTENCES[2]], forced=[["I-X"]], on_no_path="relax")
        np.testing.assert_allclose(free, model.marginals_all([SENTENCES[2]])[0], rtol=1e-9)


def test_observed_successions() -> None:
    model = train(scheme="observed")
    lattice = model.lattice({"word": WORDS[:2]})
    assert lattice.score(("O", "I-X")) == -np.inf
    assert lattice.score(("I-X", "B-X")) == -np.inf
    assert lattice.score(("O", "B-X")) == -np.inf or lattice.score(("O", "O")) > -np.inf


def test_batches_change_nothing(model: CRF, monkeypatch: pytest.MonkeyPatch) -> None:
    data: list[Any] = [*SENTENCES, {"word": []}, *SENTENCES, {"word": []}]
    forced = [[None] * len(s["word"]) for s in data]
    whole = model.tag_all(data, forced=forced), model.marginals_all(data)
    monkeypatch.setattr("fstcrf.taggers.tagged._tokens_of_runs", lambda _: 3)
    assert model.tag_all(data, forced=forced) == whole[0]
    for threads in (1, 2):
        cut = model.marginals_all(data, threads=threads)
        assert all(np.array_equal(a, b) for a, b in zip(cut, whole[1], strict=True))


# --- Forms of a sentence ----------------------------------------------------------------------


def test_every_form_of_a_sentence(model: CRF) -> None:
    expected = model.tag({"word": WORDS})
    forms: list[Any] = [
        Sentence({"word": WORDS}),
        [(word,) for word in WORDS],
        [(word, "O") for word in WORDS],
        {"y": ["O"] * 5, "word": tuple(WORDS), "more": WORDS},
    ]
    for form in forms:
        assert model.tag(form) == expected
        assert model.tag_all([form, form]) == [expected, expected]
        assert model.lattice(form).best().labels == tuple(expected)
    corpus = Corpus.from_sentences(forms[:1])
    assert model.tag_all(corpus) == [expected]
    assert model.tag(corpus[0]) == expected


def test_no_sentences(model: CRF) -> None:
    assert model.tag_all([]) == []
    assert model.marginals_all([]) == []
    assert model.tag_all(Corpus.from_sentences([{"word": []}])) == [[]]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ({"token": WORDS}, "'word'"),
        ([("a", "b", "c")], "rows of 3 strings"),
        ([("a",), ("a", "b")], "token 1"),
        (["a", "b"], "rows of strings"),
        ([["w=a"], {"w": 1}], "columns"),
        ({"word": ["a"], "y": []}, "differ in length"),
        ("text", "rows of strings"),
    ],
)
def test_what_is_no_sentence(model: CRF, sentence: Any, message: str) -> None:
    for ask in (model.tag, model.lattice):
        with pytest.raises((DataError, TemplateError), match=message):
            ask(sentence)


def test_literal_sentences() -> None:
    data: list[Any] = [[["w=a"], {"w": "b", "n": 2.0}], [], [{"w=a"}]]
    model = CRF.train(data, [["X", "Y"], [], ["X"]])
    assert model.tag(data[0]) == ["X", "Y"]
    assert model.tag([]) == []
    assert model.tag([["unknown"], {}]) in ([a, b] for a in "XY" for b in "XY")
    assert model.tag_all(data) == [["X", "Y"], [], ["X"]]
    wrongs: list[Any] = [
        Corpus.from_sentences(SENTENCES),
        [{"word": ["a"]}],
        [Sentence({"word": ["a"]})],
        [[("a", "b")]],
        [["a"]],
        [[[1]]],
        [[{"n": float("nan")}]],
        [[{"n": float("inf")}]],
    ]
    for wrong in wrongs:
        with pytest.raises(DataError):
            model.tag_all(wrong)


# --- Forced labels and bias -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forced", "error", "message"),
    [
        (["B-Y"] * 5, LabelError, "token 0: forced label 'B-Y' is not a label"),
        ([None, "O|Z", None, None, None], LabelError, "token 1: forced label 'O.Z'"),
        ([None] * 4, ShapeError, "4 forced labels for 5 tokens"),
        ([None] * 6, ShapeError, "6 forced labels for 5 tokens"),
    ],
)
def test_forced_labels_that_cannot_be(
    model: CRF, forced: list[str | None], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        model.tag({"word": WORDS}, forced=forced)
    with pytest.raises(error, match=message):
        model.lattice({"word": WORDS}, forced=forced)
    with pytest.raises(ShapeError, match="2 sentences for 1"):
        model.tag_all([{"word": WORDS}], forced=[[None] * 5] * 2)


@pytest.mark.parametrize(
    ("bias", "error"),
    [
        ({"B-Y": 1.0}, LabelError),
        ({"O": float("nan")}, OptionError),
        ({"O": float("-inf")}, OptionError),
        ({"O": float("inf")}, OptionError),
    ],
)
def test_a_bias_that_cannot_be(model: CRF, bias: dict[str, float], error: type[Exception]) -> None:
    with pytest.raises(error):
        model.tag({"word": WORDS}, bias=bias)


def test_models_are_told_apart_by_identity(model: CRF) -> None:
    other = train()
    assert model != other
    assert len({model, other, model}) == 2

"""CRF.train: its options, what it refuses, and how it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Corpus, parse_template
from fstcrf.errors import (
    DataError,
    FstcrfError,
    LabelError,
    OptionError,
    SchemeError,
    TemplateError,
)
from fstcrf.training import Gold
from tests.support.training import flat_train

SENTENCES = [
    {"word": ["the", "big", "dog", "ran"], "y": ["B-X", "I-X", "I-X", "O"]},
    {"word": ["a", "dog", "ran", "home"], "y": ["B-X", "I-X", "O", "O"]},
    {"word": ["ran"], "y": ["O"]},
]
TEMPLATE = "U1:%x[0,word]\nU2:%x[0,suffix(word,1)]\nB\n"
METHODS = ("cg", "preconditioned-cg", "gis", "l2sgd", "asgd", "ap", "pa", "arow", "perceptron")


def train(data: Any = SENTENCES, target: Any = "y", template: Any = TEMPLATE, **more: Any) -> CRF:
    return flat_train(data, target, template, **more)


# --- What may be given ------------------------------------------------------------------------


def test_forms_of_data_and_template(tmp_path: Path) -> None:
    corpus = Corpus.from_sentences(SENTENCES)
    file = tmp_path / "words.tpl"
    file.write_text(TEMPLATE)
    labels = [s["y"] for s in SENTENCES]
    words = [{"word": s["word"]} for s in SENTENCES]
    expected = train().theta
    for data, target in ((corpus, "y"), (list(corpus), "y"), (words, labels), (corpus, labels)):
        for template in (TEMPLATE, file, str(file), parse_template(TEMPLATE)):
            assert np.array_equal(train(data, target, template).theta, expected)


def test_the_tape_that_is_written() -> None:
    assert train().tape == "y"
    assert train(target=[s["y"] for s in SENTENCES]).tape == "label"
    assert train(tape="chunk").tape == "chunk"


def test_the_record() -> None:
    record = train(max_iterations=3, l2=0.25).record
    assert record is not None
    assert (record.sentences, record.tokens, record.attributes) == (3, 9, 10)
    assert record.parameters == train().space.size
    assert (record.iterations, record.best_iteration) == (3, 3)
    assert record.reason == "the limit of 3 iterations"
    assert (record.options["l2"], record.options["order"], record.dev_score) == (0.25, 1, None)
    assert np.isfinite(record.objective)


@pytest.mark.parametrize("empty", [{"word": [], "y": []}])
def test_sentences_without_tokens_are_passed_over(empty: Any) -> None:
    expected = train(weights=[1.0, 2.0, 0.5])
    data = [empty, *SENTENCES[:2], empty, SENTENCES[2], empty]
    weights = [9.0, 1.0, 2.0, 9.0, 0.5, 9.0]
    corpus = Corpus.from_sentences(data)
    labels = [s["y"] for s in data]
    for found in (
        train(data, weights=weights),
        train(corpus, weights=weights),
        train(corpus, labels, weights=weights),
    ):
        assert np.array_equal(found.theta, expected.theta)
        assert found.record is not None
        assert found.record.sentences == 3


def test_literal_sentences_without_tokens_are_passed_over() -> None:
    data: list[Any] = [[["a"], {"b": 2.0}], [["b"]]]
    expected = CRF.train(data, Gold([["X", "Y"], ["X"]], weights=[1.0, 3.0]))
    found = CRF.train(
        [[], data[0], [], data[1]],
        Gold([[], ["X", "Y"], [], ["X"]], weights=[5.0, 1.0, 5.0, 3.0]),
    )
    assert np.array_equal(found.theta, expected.theta)


@pytest.mark.parametrize("threads", [2, 7])
@pytest.mark.parametrize(
    "options",
    [{}, {"order": 2}, {"l1": 0.05}, {"stochastic_epochs": 2}]
    + [
        {"method": m}
        for m in ("cg", "preconditioned-cg", "gis", "l2sgd", "asgd", "ap", "pa", "arow")
    ]
    + [{"method": "perceptron"}],
    ids=str,
)
def test_threads_change_no_bit(threads: int, options: dict[str, Any]) -> None:
    few: dict[str, Any] = {"data": SENTENCES * 9, "max_iterations": 9, **options}
    assert np.array_equal(train(threads=threads, **few).theta, train(**few).theta)


def test_weights_of_sentences() -> None:
    twice = train([*SENTENCES, SENTENCES[0]])
    weighted = train(weights=[2.0, 1.0, 1.0])
    assert weighted.theta == pytest.approx(twice.theta, abs=1e-3)
    without = train(SENTENCES[:2])
    ignored = train(weights=[1.0, 1.0, 0.0])
    assert ignored.tag_all(SENTENCES[:2]) == without.tag_all(SENTENCES[:2])
    assert np.array_equal(train(weights=[1.0] * 3).theta, train().theta)


def test_weights_of_classes() -> None:
    # Means over tokens: (3 + 3 + 3 + 1) / 4, (3 + 3 + 1 + 1) / 4, 1.
    found = train(class_weights={"B-X": 3.0, "I-X": 3.0})
    expected = train(weights=[2.5, 2.0, 1.0])
    assert np.array_equal(found.theta, expected.theta)
    both = train(class_weights={"B-X": 3.0, "I-X": 3.0}, weights=[2.0, 0.5, 1.0])
    assert np.array_equal(both.theta, train(weights=[5.0, 1.0, 1.0]).theta)


def test_min_frequency() -> None:
    """Weights go, attributes stay; what is complete has weights that never occur."""
    whole, few = train(), train(min_frequency=2.0)
    kept = {(w.attribute, w.slot) for w in few.top_features(999)}
    assert kept < {(w.attribute, w.slot) for w in whole.top_features(999)}
    assert few.index.n_node_rows == whole.index.n_node_rows
    assert train(min_frequency=0.0).space.size == whole.space.size
    assert train(pairs="complete", min_frequency=1.0).space.size == whole.space.size
    assert train(weights=[2.0] * 3, min_frequency=2.0).space.size == whole.space.size
    unknown = [{"word": ["a", "b"], "y": ["O", "_"]}]
    with pytest.raises(OptionError, match="min_frequency cannot count"):
        train([*SENTENCES, *unknown], min_frequency=1.0, partial=True)


def test_min_count() -> None:
    texts = {train(min_count=2).index.attribute(i) for i in range(5)}
    assert texts == {"U1:dog", "U1:ran", "U2:e", "U2:g", "U2:n"}


def test_hashing() -> None:
    model = train(hash_bits=5)
    assert model.index.n_node_rows == 32
    assert model.tag_all(SENTENCES) == [s["y"] for s in SENTENCES]
    assert all(w.attribute.startswith("#") or "→" in w.slot for w in model.top_features(50))
    large = train(hash_bits=12)
    assert large.record is not None
    exact = train().record
    assert exact is not None
    assert large.record.objective == pytest.approx(exact.objective, rel=1e-5), "no collision"


def test_real_values_scale() -> None:
    data = [[{"n": 2.0}, {"n": -1.0}], [{"n": 0.5}]]
    target = [["X", "Y"], ["X"]]
    scaled = [[{"n": 4.0}, {"n": -2.0}], [{"n": 1.0}]]
    one, other = (CRF.train(d, target, l2=l2) for d, l2 in ((data, 0.4), (scaled, 1.6)))
    # Without transitions the weights would be halved exactly.
    assert one.tag_all(data) == other.tag_all(scaled)
    value = CRF.train(
        [{"v": ["2", "-1"], "y": ["X", "Y"]}, {"v": ["0.5"], "y": ["X"]}],
        "y",
        "U:n%v[0,v]\nB",
        l2=0.4,
    )
    assert value.record is not None
    assert one.record is not None
    assert value.record.objective == pytest.approx(one.record.objective, rel=1e-6)


def test_partial_labels() -> None:
    data = [
        {"word": ["a", "b"], "y": ["X", "_"]},
        {"word": ["a", "b"], "y": ["X", "Y|Z"]},
        {"word": ["b", "c"], "y": ["Y", "Z"]},
    ]
    model = train(data, l2=0.01, partial=True)
    assert model.labels == ("X", "Y", "Z")
    assert model.tag({"word": ["a", "b"]}) == ["X", "Y"]
    plain = train(data, partial=False, l2=0.01)
    assert plain.labels == ("X", "Y", "Y|Z", "Z", "_")
    with pytest.raises(OptionError, match="method 'lbfgs'"):
        train(data, method="perceptron", partial=True)


def test_unknown_labels_are_free_information() -> None:
    """Text without labels changes neither optimum nor the labels found."""
    data = [*SENTENCES, {"word": ["home", "ran"], "y": ["_", "_"]}]
    assert train(data, partial=True).tag_all(SENTENCES) == train().tag_all(SENTENCES)
    nothing = [{"word": ["a"], "y": ["_"]}]
    with pytest.raises(DataError, match="holds no label"):
        train(nothing)


def test_an_objective_without_attributes() -> None:
    model = train(template="B\n")
    assert [w.attribute for w in model.top_features(9)] == [""] * 4
    assert len(model.tag(SENTENCES[0])) == 4


# --- What is refused --------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"l2": -1.0}, OptionError, "l2 is -1.0"),
    ({"l2": float("nan")}, OptionError, "l2 is nan"),
    ({"l2": float("inf")}, OptionError, "l2 is inf"),
    ({"l2": "much"}, OptionError, "l2"),
    ({"order": 3}, OptionError, "order"),
    ({"grammar": "bio"}, OptionError, "grammar is 'bio', expected a Grammar"),
    ({"order": True}, OptionError, "order"),
    ({"method": "adam"}, OptionError, "method"),
    ({"pairs": "some"}, OptionError, "pairs"),
    ({"transitions": "none"}, OptionError, "transitions"),
    ({"boundary": "wrap"}, OptionError, "boundary"),
    ({"min_count": 0}, OptionError, "min_count is 0"),
    ({"min_frequency": float("inf")}, OptionError, "min_frequency is inf"),
    ({"method": "pa", "aggressiveness": 0.0}, OptionError, "aggressiveness is 0.0"),
    ({"method": "pa", "aggressiveness": -1.0}, OptionError, "aggressiveness is -1.0"),
    ({"method": "pa", "pa_variant": "PA-III"}, OptionError, "pa_variant"),
    ({"method": "pa", "epsilon": -1.0}, OptionError, "epsilon is -1.0"),
    ({"method": "arow", "gamma": 0.0}, OptionError, "gamma is 0.0"),
    ({"method": "arow", "variance": float("nan")}, OptionError, "variance is nan"),
    ({"method": "arow", "l1": 1.0}, OptionError, "l1 needs method 'lbfgs', not 'arow'"),
    ({"gamma": 2.0}, OptionError, "gamma needs method 'arow', not 'lbfgs'"),
    ({"method": "ap", "period": 5}, OptionError, "period needs method 'lbfgs' or 'cg' or"),
    ({"method": "cg", "memory": 5}, OptionError, "memory needs method 'lbfgs', not 'cg'"),
    ({"method": "cg", "preconditioned": 5}, OptionError, "preconditioned needs method 'mixed-cg'"),
    ({"method": "mixed-cg", "preconditioned": 0}, OptionError, "preconditioned is 0"),
    ({"method": "preconditioned-cg", "l2": 0.0}, OptionError, "the preconditioner needs it"),
    ({"method": "gis", "l2": 0.0, "pairs": "complete"}, OptionError, "never occurs"),
    ({"method": "l2sgd", "calibration_factor": 1.0}, OptionError, "calibration_factor is 1.0"),
    ({"method": "l2sgd", "calibration_rate": 0.0}, OptionError, "calibration_rate is 0.0"),
    ({"method": "l2sgd", "calibration_trials": 0}, OptionError, "calibration_trials is 0"),
    ({"memory": 0}, OptionError, "memory is 0"),
    ({"delta": -1e-5}, OptionError, "delta is -1e-05"),
    ({"epsilon": -1.0}, OptionError, "epsilon is -1.0"),
    ({"period": 0}, OptionError, "period is 0"),
    ({"max_line_search": 0}, OptionError, "max_line_search is 0"),
    ({"l1": float("inf")}, OptionError, "l1 is inf"),
    ({"method": "ap", "epsilon": float("nan")}, OptionError, "epsilon is nan"),
    ({"method": "arow", "epsilon": float("inf")}, OptionError, "epsilon is inf"),
    ({"method": "l2sgd", "period": 0}, OptionError, "period is 0"),
    ({"line_search": "golden"}, OptionError, "line_search"),
    ({"stochastic_epochs": -1}, OptionError, "stochastic_epochs is -1"),
    ({"patience": 0}, OptionError, "patience is 0"),
    ({"max_iterations": 0}, OptionError, "max_iterations is 0"),
    ({"seed": -1}, OptionError, "seed is -1"),
    ({"hash_bits": 0}, OptionError, "hash_bits"),
    ({"hash_bits": 99}, OptionError, "hash_bits"),
    ({"hash_bits": 8, "min_count": 2}, OptionError, "min_count"),
    ({"scheme": "bio9"}, OptionError, "scheme"),
    ({"order": 2, "start_label": "Z"}, OptionError, "start label 'Z'"),
    ({"threads": 0}, OptionError, "threads is 0"),
    ({"resume": True}, OptionError, "resume needs a checkpoint"),
    (
        {"target": [[1] * len(s["y"]) for s in SENTENCES]},
        DataError,
        "the label is 1, expected a string",
    ),
    ({"checkpoint": "x", "checkpoint_every": 0}, OptionError, "every is 0"),
    ({"weights": [1.0]}, DataError, r"weights are \[1\], expected \[3\]"),
    ({"weights": [[1.0]] * 3}, DataError, "weights are"),
    ({"weights": [1.0, -1.0, 1.0]}, DataError, "sentence 1: .* weight -1, expected"),
    ({"weights": [1.0, float("nan"), 1.0]}, DataError, "finite"),
    ({"weights": ["a", "b", "c"]}, DataError, "weights"),
    ({"class_weights": {"Z": 1.0}}, DataError, "'Z'"),
    ({"class_weights": {"O": -0.5}}, DataError, "class weight of 'O' is -0.5"),
    ({"template": ""}, TemplateError, "the template is empty"),
    ({"data": "train.txt"}, DataError, "string 't'|string 'train.txt'"),
    ({"target": "chunk"}, DataError, "no column 'chunk'; there are 'word', 'y'"),
    ({"target": [["O"]]}, DataError, "labels of 1 sentences"),
    ({"target": [["O"] * 4, ["O"] * 4]}, DataError, "labels of 2 sentences"),
    ({"template": None}, OptionError, "template"),
    ({"template": "U:%x[0,lemma]\n"}, TemplateError, "'lemma'"),
    ({"template": "U:%x[0,y]\n"}, TemplateError, "target column 'y' itself"),
    ({"template": "U:%x[0,7]\n"}, TemplateError, "7"),
    ({"template": "X:%x[0,0]\n"}, TemplateError, "line 1|:1"),
    ({"template": "U:%y[0,pos]\n"}, TemplateError, "pos"),
    ({"data": []}, DataError, "no sentence to train on"),
    ({"data": [[], []]}, DataError, "no sentence to train on"),
    ({"data": [{"word": [], "y": []}]}, DataError, "no sentence to train on"),
    ({"data": Corpus.from_sentences([])}, DataError, "no sentence to train on"),
    ({"data": [[["a"]]], "target": "y"}, OptionError, "template"),
    ({"data": [[["a"]]], "target": "y", "template": None}, OptionError, "no columns"),
    ({"data": [[["a"]]], "target": [["X"], []], "template": None}, DataError, "2 sentences for 1"),
    ({"data": [[["a"]]], "target": [["X", "Y"]], "template": None}, DataError, "sentence 0"),
    ({"data": [[["a"]], []], "target": [["X"], ["Y"]], "template": None}, DataError, "sentence 1"),
    ({"dev": [{"word": ["a"]}]}, DataError, "'y'"),
    ({"target": [s["y"] for s in SENTENCES], "dev": SENTENCES}, OptionError, "dev_target"),
]


def test_an_option_that_is_none() -> None:
    call: Any = CRF.train
    for name, advice in {
        "ordre": "did you mean 'order'",
        "warm_start": "did you mean 'start'",
        "template": "did you mean 'features'",
        "threads": r"pass run=Run\(threads=…\)",
        "jackknife": r"pass reads=Reads\(jackknife=…\)",
        "class_weights": r"pass target=Gold\(class_weights=…\)",
        "dev_target": r"pass dev=Dev\(target=…\)",
        "memory": r"pass method=LBFGS\(memory=…\)",
        "psi": r"pass objective=MCE\(psi=…\)",
    }.items():
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; {advice}"):
            call(SENTENCES, "y", TEMPLATE, **{name: 1})


@pytest.mark.parametrize(
    ("options", "error", "message"), WRONG, ids=[str(i) for i in range(len(WRONG))]
)
def test_what_is_refused(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    if "checkpoint" in options:
        options = {**options, "checkpoint": tmp_path / "c"}
    with pytest.raises(error, match=message) as caught:
        train(**options)
    assert isinstance(caught.value, FstcrfError)
    assert "\n" not in str(caught.value)


def test_labels_that_break_the_scheme() -> None:
    data = [{"word": ["a", "b"], "y": ["O", "I-X"]}, {"word": ["c"], "y": ["B-X"]}]
    with pytest.raises(DataError, match="sentence 0"):
        train(data, scheme="iob2")
    with pytest.raises((LabelError, SchemeError), match="'S-X'"):
        train([{"word": ["a"], "y": ["S-X"]}], scheme="iob2")


@pytest.mark.parametrize("start", [None, "O", "B-X"])
def test_observed_successions_of_second_order(start: str | None) -> None:
    """What begins a sentence need not follow the start label anywhere else."""
    model = train(order=2, scheme="observed", start_label=start, l2=0.01)
    assert model.tag_all(SENTENCES) == [s["y"] for s in SENTENCES]
    lattice = model.lattice({"word": ["the", "dog"]})
    assert lattice.score(["I-X", "O"]) == -np.inf, "no sentence begins so"


def test_values_that_are_not_finite() -> None:
    for value in ("nan", "inf", "x", "1e99"):
        data = [{"v": ["1", value], "y": ["X", "Y"]}]
        with pytest.raises(DataError):
            train(data, template="U:%v[0,v]\nB")
    with pytest.raises(DataError, match="token 0"):
        CRF.train([[{"n": float("nan")}]], [["X"]])

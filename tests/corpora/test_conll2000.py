"""The chunker of CoNLL-2000: the numbers that CRFsuite's tutorial template must give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.errors import LabelError
from fstcrf.evaluate import evaluate_spans
from tests.benchmarks.parity import COLUMNS, FEATURES, MIN_F1, failures, ours, theirs
from tests.benchmarks.tasks import L2, TUTORIAL

pytestmark = pytest.mark.corpus

OBJECTIVE = 9_118.9


@pytest.fixture(scope="module")
def train(data: Path) -> Corpus:
    return fstcrf.read_columns(data / "conll2000" / "train.txt", COLUMNS)


@pytest.fixture(scope="module")
def test(data: Path) -> Corpus:
    return fstcrf.read_columns(data / "conll2000" / "test.txt", COLUMNS)


@pytest.fixture(scope="module")
def perceptron(train: Corpus) -> CRF:
    return CRF.train(
        train, "chunk", TUTORIAL, boundary="skip", method="perceptron", max_iterations=5
    )


def f1(model: CRF, test: Corpus) -> float:
    return 100 * evaluate_spans(test.column_lists("chunk"), model.tag_all(test)).f


@pytest.mark.slow
def test_the_tutorial(data: Path) -> None:
    found = ours(data / "conll2000")
    assert failures(found) == []
    assert found.features == FEATURES
    assert found.f1 >= MIN_F1
    assert found.objective == pytest.approx(OBJECTIVE, rel=1e-4)


@pytest.mark.slow
def test_the_same_as_crfsuite(data: Path) -> None:
    pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    assert failures(ours(data / "conll2000"), theirs(data / "conll2000")) == []


def test_the_number_of_features(train: Corpus) -> None:
    model = CRF.train(train, "chunk", TUTORIAL, boundary="skip", l2=L2, max_iterations=1)
    assert model.record is not None
    assert model.record.parameters == FEATURES
    assert model.record.attributes == 335_674
    assert (model.record.sentences, model.record.tokens) == (8_936, 211_727)
    # CRFsuite's value where all weights are 0 is N log L; the first step goes down from there.
    assert model.record.objective < 211_727 * np.log(22)


def test_the_perceptron(perceptron: CRF, test: Corpus) -> None:
    assert f1(perceptron, test) > 93.0


def test_a_label_that_training_never_saw(perceptron: CRF, test: Corpus) -> None:
    """I-LST occurs in the test part only: an error there, and unknown to the model."""
    assert "I-LST" not in perceptron.labels
    gold = test.column_lists("chunk")
    number = next(i for i, labels in enumerate(gold) if "I-LST" in labels)
    report = evaluate_spans(gold, perceptron.tag_all(test))
    assert report.types["LST"].recall < 1.0
    with pytest.raises(LabelError, match="I-LST"):
        perceptron.lattice(test[number]).score(gold[number])


def test_save_load_and_threads(perceptron: CRF, test: Corpus, tmp_path: Path) -> None:
    perceptron.save(tmp_path / "model")
    loaded = CRF.load(tmp_path / "model")
    assert np.array_equal(loaded.theta, perceptron.theta)
    expected = perceptron.tag_all(test)
    for threads in (1, 2, 7):
        assert loaded.tag_all(test, threads=threads) == expected
    assert loaded.tag(test[7]) == expected[7]


def test_a_scheme_forbids_what_the_model_would_say(train: Corpus, test: Corpus) -> None:
    part = train[:1500]
    free, bound = (
        CRF.train(
            part,
            "chunk",
            TUTORIAL,
            boundary="skip",
            scheme=scheme,
            method="perceptron",
            max_iterations=3,
        )
        for scheme in (None, "iob2")
    )
    for labels in bound.tag_all(test):
        for before, after in zip(["O", *labels], labels, strict=False):
            assert after[:2] != "I-" or before[2:] == after[2:]
    assert f1(bound, test) > f1(free, test) - 0.3


def test_second_order(train: Corpus, test: Corpus) -> None:
    model = CRF.train(
        train[:3000],
        "chunk",
        TUTORIAL,
        boundary="skip",
        order=2,
        scheme="observed",
        method="perceptron",
        max_iterations=3,
    )
    assert f1(model, test) > 91.0

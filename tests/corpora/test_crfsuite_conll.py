"""Chunkers that CRFsuite trains on CoNLL-2000: the same answers on its whole test file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import load_crfsuite
from fstcrf.ext.foreign.crfsuite import export, read_model, write_model
from tests.benchmarks.crfsuite_peer import read_sentences, tutorial_attributes

pytestmark = pytest.mark.corpus

pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")

Sentences = list[list[list[str]]]


@pytest.fixture(scope="module")
def train(data: Path) -> Sentences:
    return list(read_sentences(str(data / "conll2000" / "train.txt")))


@pytest.fixture(scope="module")
def test(data: Path) -> Sentences:
    return list(read_sentences(str(data / "conll2000" / "test.txt")))


def trained(train: Sentences, path: Path, algorithm: str, iterations: int) -> Any:
    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    for words, tags, chunks in train:
        trainer.append(tutorial_attributes(words, tags), chunks)
    trainer.set_params({"max_iterations": iterations})
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def check_the_same(path: Path, theirs: Any, test: Sentences) -> None:
    """Check all labels, all probabilities and, of every label at every token, the marginals."""
    ours = load_crfsuite(path)
    sentences = [tutorial_attributes(words, tags) for words, tags, _ in test]
    marginals = ours.marginals_all(sentences)
    paths = ours.paths_all(sentences)
    for sentence, found, best in zip(sentences, marginals, paths, strict=True):
        assert best is not None
        tags = theirs.tag(sentence)
        assert list(best.labels) == tags
        assert best.probability == pytest.approx(theirs.probability(tags), abs=1e-6)
        every = [[theirs.marginal(label, t) for label in ours.labels] for t in range(len(sentence))]
        np.testing.assert_allclose(found, every, atol=1e-6)


@pytest.mark.slow
def test_everything(train: Sentences, test: Sentences, tmp_path: Path) -> None:
    path = tmp_path / "chunk.crfsuite"
    check_the_same(path, trained(train, path, "l2sgd", 4), test)
    whole = path.read_bytes()
    assert write_model(read_model(whole)) == whole
    assert write_model(export(load_crfsuite(path))) == whole

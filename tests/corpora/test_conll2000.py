"""The chunker of CoNLL-2000: the numbers that CRFsuite's tutorial template must give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.training import Features
from tests.benchmarks.parity import COLUMNS, FEATURES, MIN_F1, failures, ours, theirs
from tests.benchmarks.tasks import L2, TUTORIAL

pytestmark = pytest.mark.corpus

OBJECTIVE = 9_118.9


@pytest.fixture(scope="module")
def train(data: Path) -> Corpus:
    return fstcrf.read_columns(data / "conll2000" / "train.txt", COLUMNS)


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
    model = CRF.train(train, "chunk", Features(TUTORIAL, boundary="skip"), l2=L2, max_iterations=1)
    assert model.record is not None
    assert model.record.parameters == FEATURES
    assert model.record.attributes == 335_674
    assert (model.record.sentences, model.record.tokens) == (8_936, 211_727)
    # CRFsuite's value where all weights are 0 is N log L; the first step goes down from there.
    assert model.record.objective < 211_727 * np.log(22)

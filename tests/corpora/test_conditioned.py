"""A chunker of CoNLL-2000 whose parts of speech are open: the same as trying every one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.text.corpus import Column
from fstcrf.text.features import tape_column
from fstcrf.training.options import Options
from fstcrf.training.passing import pass_on
from tests.benchmarks.parity import COLUMNS

pytestmark = pytest.mark.corpus

POS = "U0:%x[-1..1,word]\nU1:%x[0,suffix(word,3)]\nU2:%x[0,shape(word)]\nB"
CHUNK = """
U0:%x[-2..2,word]
U1:%x{-3..-1,suffix(word,2)}
U2:%y[0,pos]
U3:%y[0,pos]/%x[0,word]
U4:%y[0,pos]/%x[-1,word]
U5:%y[0,pos]/%x{1..3,suffix(word,2)}
B
"""
PAIRS = "B1:%y[0,pos]\nB2:%x[0,suffix(word,1)]\n"


@pytest.fixture(scope="module")
def train(data: Path) -> Corpus:
    return fstcrf.read_columns(data / "conll2000" / "train.txt", COLUMNS)[:1500]


@pytest.fixture(scope="module")
def test(data: Path) -> Corpus:
    return fstcrf.read_columns(data / "conll2000" / "test.txt", COLUMNS)[:200]


@pytest.fixture(scope="module")
def pos(train: Corpus) -> CRF:
    return CRF.train(train, "pos", POS, method="perceptron", max_iterations=4)


def test_jackknifed_labels_are_as_wrong_as_those_of_new_text(
    train: Corpus, test: Corpus, pos: CRF
) -> None:
    def accuracy(corpus: Corpus, column: Column) -> float:
        gold = corpus.columns["pos"].strings()
        return sum(map(str.__eq__, gold, column.strings())) / len(gold)

    own = accuracy(train, pos.tag_column(train))
    new = accuracy(test, pos.tag_column(test))
    held_out = accuracy(
        train, pass_on(train, [pos], Options(jackknife=5)).corpus.columns[tape_column("pos")]
    )
    assert own > 0.98
    assert held_out == pytest.approx(new, abs=0.02)
    assert held_out < 0.95

"""Part-of-speech tagger and chunker of CoNLL-2000, composed: what exactness implies there."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, compose
from fstcrf.constraints import at_most, bio, exactly
from fstcrf.ext.pipelines.trained import Decode
from fstcrf.taggers.pipelines import Pipeline, Task
from fstcrf.text.corpus import Column
from tests.benchmarks.parity import COLUMNS

pytestmark = [
    pytest.mark.corpus,
    # what is not proven is compared all the same
    pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning"),
]

POS = "U0:%x[-1..1,word]\nU1:%x[0,suffix(word,3)]\nU2:%x[0,shape(word)]\nB"
CHUNK = """
U0:%x[-1..1,word]
U1:%x[0,suffix(word,3)]
U2:%y[0,pos]
U3:%y[0,pos]/%x[0,word]
U4:%y[0,pos]/%x{-1..1,suffix(word,2)}
B
"""


@pytest.fixture(scope="module")
def train(data: Path) -> Corpus:
    return fstcrf.read_columns(data / "conll2000" / "train.txt", COLUMNS)[:1200]


@pytest.fixture(scope="module")
def gold(data: Path) -> Corpus:
    return fstcrf.read_columns(data / "conll2000" / "test.txt", COLUMNS)[:80]


@pytest.fixture(scope="module")
def words(gold: Corpus) -> Corpus:
    return Corpus({"word": gold.columns["word"]}, gold.offsets)


@pytest.fixture(scope="module")
def pair(train: Corpus) -> tuple[CRF, CRF]:
    half = len(train) // 2
    pos = CRF.train(train[:half], "pos", POS, max_iterations=25)
    return pos, CRF.train(train[half:], "chunk", CHUNK, reads=[pos], max_iterations=25)


def split(columns: tuple[Column, ...], offsets: Any) -> list[tuple[list[str], ...]]:
    flat = [column.strings() for column in columns]
    return [tuple(strings[a:b] for strings in flat) for a, b in itertools.pairwise(offsets)]


def score_by_hand(pair: tuple[CRF, CRF], sentence: Any, labels: Any) -> tuple[float, float]:
    """Product and chain score of a labelling, tagger by tagger."""
    first = pair[0].lattice(sentence)
    second = pair[1].lattice({"word": sentence["word"], "pos": list(labels[0])})
    total = first.score(labels[0]) + second.score(labels[1])
    return total, total - first.log_partition() - second.log_partition()


def test_no_decoder_beats_another_at_its_own_game(pair: tuple[CRF, CRF], words: Corpus) -> None:
    product = compose(*pair, normalize="product")
    chain = compose(*pair, normalize="chain")
    steps = split(product.cascade(words), words.offsets.tolist())
    found, chained = product.paths_all(words), chain.paths_all(words, budget=1024)
    better, exact = [0, 0], 0
    for sentence, cascade, joint, conditional in zip(words, steps, found, chained, strict=True):
        assert joint is not None
        assert conditional is not None
        exact += conditional.exact
        scores = [
            score_by_hand(pair, sentence, labels)
            for labels in (cascade, joint.labels, conditional.labels)
        ]
        by_product, by_chain = zip(*scores, strict=True)
        assert joint.score == pytest.approx(by_product[1], rel=1e-9)
        assert conditional.score == pytest.approx(by_chain[2], rel=1e-9)
        slack = 1e-9 * abs(joint.score)
        assert by_product[1] >= max(by_product) - slack
        assert by_chain[2] >= (max(by_chain) if conditional.exact else by_chain[0]) - slack
        assert max(by_chain) <= conditional.bound + slack
        better[0] += by_product[1] > by_product[0] + 1e-6
        better[1] += by_chain[2] > by_chain[0] + 1e-6
    assert min(better) > 0, "deciding together changes something"
    assert exact >= 0.8 * len(words)


@pytest.mark.parametrize("normalize", ["product", "chain"])
def test_under_grammars(pair: tuple[CRF, CRF], words: Corpus, normalize: Any) -> None:
    free = compose(*pair, normalize=normalize)
    grammar = bio(tape="chunk") & at_most(2, "VP", tape="chunk")
    bound = free & grammar
    rule = grammar.bound({"chunk": free.label_sets["chunk"]})
    changed = exact = 0
    for before, after in zip(free.paths_all(words), bound.paths_all(words), strict=True):
        assert before is not None
        assert after is not None
        assert rule.accepts(after.labels[1])
        assert after.score <= before.score + 1e-9 * abs(before.score)
        if rule.accepts(before.labels[1]):
            assert after.labels == before.labels
        changed += after.labels != before.labels
        exact += after.exact
    assert changed > 0
    # Where the grammar leaves nothing probable, the chain rule's budget may end first.
    assert exact >= (1.0 if normalize == "product" else 0.5) * len(words)


def test_tuning_is_not_worse_than_as_trained_or_nearly_the_cascade(
    pair: tuple[CRF, CRF], gold: Corpus
) -> None:
    trials = {}
    tuned = compose(*pair, normalize="product").tune_weights(
        gold, grid=(0.01, 0.3, 1.0), report=lambda t: trials.update({t.weights: t.score})
    )
    assert trials[tuned.weights] == max(trials.values())
    assert len(trials) == 3
    cascade = compose(*pair).cascade(gold)
    right = np.ones(gold.n_tokens, dtype=bool)
    for column, name in zip(cascade, ("pos", "chunk"), strict=True):
        right &= np.asarray(column.strings()) == np.asarray(gold.columns[name].strings())
    assert trials[1.0, 0.01] == pytest.approx(right.mean(), abs=0.002)


def test_one_root_however_a_pipeline_decides(data: Path) -> None:
    part = str(data / "ud_english_ewt" / "en_ewt-ud-{}.conllu")
    train, test = (fstcrf.read_conllu(part.format(name))[:800] for name in ("train", "test"))
    few = {"max_iterations": 15}
    tasks = [
        Task("upos", train, "U0:%x[0,lower(form)]\nU1:%x[0,suffix(form,3)]\nB\n", options=few),
        Task("deprel", train, "U0:%y[0,upos]/%x[0,form]\nB\n", reads=["upos"], options=few),
    ]
    free = Pipeline(tasks).train()
    ruled = free.constrained(exactly(1, "root", tape="deprel"))
    ways: tuple[Decode | None, ...] = (None, "cascade", "marginals", "joint", "product")
    for way in ways:
        assert any(rel.count("root") != 1 for _, rel in free.tag_all(test, decode=way))
        assert all(rel.count("root") == 1 for _, rel in ruled.tag_all(test, decode=way))
    assert [upos for upos, _ in ruled.tag_all(test, decode="cascade")] == [
        upos for upos, _ in free.tag_all(test)
    ]

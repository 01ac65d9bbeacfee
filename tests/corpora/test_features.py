"""Templates over CoNLL-2000: counts that other programs give, and speed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fstcrf.text.corpus.columns import read_columns
from fstcrf.text.corpus.corpus import Corpus
from fstcrf.text.features import FeatureIndex, LiteralIndex, parse_template

pytestmark = pytest.mark.corpus

TUTORIAL = """
U00:%x[-2..2,word]
U01:%x[-1..0,word]|%x[0..1,word]
U02:%x[-2..2,pos]
U03:%x[-2..1,pos]|%x[-1..2,pos]
U04:%x[-2..0,pos]|%x[-1..1,pos]|%x[0..2,pos]
B
"""


@pytest.fixture(scope="module")
def train(data: Path) -> Corpus:
    return read_columns(data / "conll2000" / "train.txt", ("word", "pos", "chunk"))


@pytest.fixture(scope="module")
def test(data: Path) -> Corpus:
    return read_columns(data / "conll2000" / "test.txt", ("word", "pos", "chunk"))


def test_the_counts_of_the_tutorial_template(train: Corpus) -> None:
    """CRFsuite's tutorial has 335,674 attributes, CRF++'s padding gives 338,551."""
    plain, ends = parse_template(TUTORIAL), parse_template(TUTORIAL + "BOS\nEOS")
    assert len(plain) == 19
    assert FeatureIndex.build(train, plain, boundary="skip")[0].n_node_rows == 335_672
    assert FeatureIndex.build(train, ends, boundary="skip")[0].n_node_rows == 335_674
    assert FeatureIndex.build(train, plain, boundary="pad")[0].n_node_rows == 338_551


def tutorial_strings(corpus: Corpus) -> list[list[list[str]]]:
    """The template spelt out, as a CRFsuite user writes it."""
    offsets = {"U00": (-2, 2, 1), "U01": (-1, 0, 2)}
    tags = {"U02": (-2, 2, 1), "U03": (-2, 1, 2), "U04": (-2, 0, 3)}
    spans = [("word", *item) for item in offsets.items()] + [("pos", *i) for i in tags.items()]
    sentences = []
    for sentence in corpus:
        length = len(sentence)
        tokens: list[list[str]] = [[] for _ in range(length)]
        for column, name, (first, last, size) in spans:
            strings = sentence[column]
            for t in range(length):
                for offset in range(first, last + 1):
                    start = t + offset
                    if start >= 0 and start + size <= length:
                        value = "|".join(strings[start : start + size])
                        tokens[t].append(f"{name}[{offset}]:{value}")
        sentences.append(tokens)
    return sentences


def test_every_attribute_of_every_token(train: Corpus, test: Corpus) -> None:
    templates = parse_template(TUTORIAL)
    some, other = train[:300], test[:100]
    index, design = FeatureIndex.build(some, templates, boundary="skip")
    literal, expected = LiteralIndex.build(tutorial_strings(some))
    assert index.n_node_rows == literal.n_node_rows
    assert np.array_equal(design.node.indptr, expected.node.indptr)
    order = [index.row(text) for text in literal.attribute_strings]
    assert sorted(row for row in order if row is not None) == list(range(index.n_node_rows))
    renumbered = literal.renumbered(np.array(order, dtype=np.int32))
    assert np.array_equal(renumbered.design(tutorial_strings(some)).node.index, design.node.index)
    ours, theirs = index.design(other).node, renumbered.design(tutorial_strings(other)).node
    assert np.array_equal(ours.indptr, theirs.indptr)
    assert np.array_equal(ours.index, theirs.index)

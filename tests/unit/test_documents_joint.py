"""Documents by joint taggers whose lattices are too large to be written out token by token."""

from __future__ import annotations

import numpy as np
import pytest

import fstcrf
from fstcrf.corpus import Corpus
from fstcrf.documents import Annealing, Consistency, DocumentTagger
from fstcrf.errors import TooLargeError
from fstcrf.lattice import Lattice
from fstcrf.lattice import machines as export

WORDS = ["Rotor", "won", "in", "Kazan", "and", "Rotor", "lost", "at", "home"]
NER = ["B-ORG", "O", "O", "B-LOC", "O", "B-ORG", "O", "O", "O"]
TAG = ["N", "V", "P", "N", "C", "N", "V", "P", "N"]
TEMPLATE = "U0:%x[0,word]\nU1:%x[-1,word]\nB"


@pytest.fixture
def corpus() -> Corpus:
    words, ner, tag = ([column[k:] + column[:k] for k in (0, 3, 5)] for column in (WORDS, NER, TAG))
    found = Corpus.from_sentences([{"word": sentence} for sentence in words])
    return found.with_column("ner", ner).with_column("tag", tag)


@pytest.fixture
def joint(corpus: Corpus) -> fstcrf.Composition:
    tagger = fstcrf.CRF.train(corpus, "tag", TEMPLATE, l2=0.1)
    reading = TEMPLATE + "\nU2:%y[0,tag]"
    names = fstcrf.CRF.train(corpus, "ner", reading, reads=[tagger], l2=0.1, scheme="iob2")
    return fstcrf.compose(tagger, names, normalize="product")


def test_arcs_are_needed_once_not_at_every_token(
    corpus: Corpus, joint: fstcrf.Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    lattice = joint.lattice(corpus[0])
    assert isinstance(lattice, Lattice)
    states = len(export.joint_arrays(lattice).label)
    monkeypatch.setattr(export, "_MAX_ARCS", states**2)
    with pytest.raises(TooLargeError, match=f"{states} joint states"):
        lattice.to_att()
    model = Consistency.estimate(corpus, "ner", scheme="iob2", tape="ner")
    for sweeps in ("token", "mixed"):
        tagger = DocumentTagger(joint, [model], Annealing(50), sweeps=sweeps)
        assert tagger.tag_all(corpus) == joint.tag_all(corpus)


def test_nodes_alone_are_those_of_the_whole(corpus: Corpus, joint: fstcrf.Composition) -> None:
    at_most = fstcrf.constraints.at_most(1, "ORG", tape="ner")
    for tagger in (joint, joint & at_most):
        for sentence in corpus:
            lattice = tagger.lattice(sentence)
            assert isinstance(lattice, Lattice)
            whole = export.joint_arrays(lattice)
            np.testing.assert_array_equal(export.joint_nodes(lattice), whole.node)


def test_even_once_may_be_too_much(
    corpus: Corpus, joint: fstcrf.Composition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_MAX_ARCS", 10)
    with pytest.raises(TooLargeError, match="too many to write out"):
        DocumentTagger(joint).tag_all(corpus)

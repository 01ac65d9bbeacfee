"""Documents by joint taggers whose lattices are too large to be written out token by token."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.constraints import at_most
from fstcrf.errors import NoPathError, OptionError, TooLargeError
from fstcrf.ext.documents import Annealing, Consistency, DocumentTagger, Violation
from fstcrf.lattices import Lattice
from fstcrf.lattices import machines as export
from fstcrf.taggers import JointCRF
from fstcrf.text.corpus import Corpus

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
def joint(corpus: Corpus) -> JointCRF:
    tagger = fstcrf.CRF.train(corpus, "tag", TEMPLATE, l2=0.1)
    reading = TEMPLATE + "\nU2:%y[0,tag]"
    names = fstcrf.CRF.train(corpus, "ner", reading, reads=[tagger], l2=0.1, scheme="iob2")
    return fstcrf.compose(tagger, names, normalize="product")


def test_arcs_are_needed_once_not_at_every_token(
    corpus: Corpus, joint: JointCRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    lattice = joint.lattice(corpus[0])
    assert isinstance(lattice, Lattice)
    states = len(export.joint_arrays(lattice.dense).label)
    monkeypatch.setattr(export, "_MAX_ARCS", states**2)
    with pytest.raises(TooLargeError, match=f"{states} joint states"):
        lattice.to_att()
    model = Consistency.estimate(corpus, "ner", tape="ner")
    for sweeps in ("token", "mixed"):
        tagger = DocumentTagger(joint, [model], Annealing(50), sweeps=sweeps)
        assert tagger.tag_all(corpus) == joint.tag_all(corpus)


def test_nodes_alone_are_those_of_the_whole(corpus: Corpus, joint: JointCRF) -> None:
    for tagger in (joint, joint & at_most(1, "ORG", tape="ner")):
        for sentence in corpus:
            lattice = tagger.lattice(sentence)
            assert isinstance(lattice, Lattice)
            whole = export.joint_arrays(lattice.dense)
            np.testing.assert_array_equal(export.joint_nodes(lattice.dense), whole.node)


def test_even_once_may_be_too_much(
    corpus: Corpus, joint: JointCRF, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_MAX_ARCS", 10)
    with pytest.raises(TooLargeError, match="too many to write out"):
        DocumentTagger(joint).tag_all(corpus)


# --- Documents answer as all taggers do -----------------------------------------------------------


@pytest.mark.parametrize("take", ["best", "last"])
@pytest.mark.parametrize("alone", [True, False])
def test_scores_are_those_of_the_local_model(
    corpus: Corpus, joint: JointCRF, alone: bool, take: Any
) -> None:
    """Asked of the lattice of each sentence; forced labels, biases and the grammar count."""
    local: Any = joint.taggers[0] if alone else joint & at_most(1, "ORG", tape="ner")
    model = [] if alone else [Consistency([Violation("same", ("LOC", "ORG"), -2.0)], tape="ner")]
    documents = DocumentTagger(local, model, Annealing(7), take=take)
    bias = {"tag": {"N": -0.5}}
    forced: Any = [None, {"tag": ["N|V", *[None] * (len(corpus[1]) - 1)]}, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = documents.decode(corpus, forced=forced, bias=bias)
    wanted = local.decode(corpus, forced=forced, bias=bias)
    lattices = wanted.posterior.lattices["tag"]
    for b, lattice in enumerate(lattices):
        (path,) = answer.paths(b)
        best = lattice.best()
        assert path.score == pytest.approx(lattice.score(path.labels), abs=1e-9)
        assert path.probability == pytest.approx(lattice.probability(path.labels), abs=1e-9)
        assert path.bound == pytest.approx(best.score, abs=1e-9)
        assert path.exact == (alone and take == "best")
        assert np.allclose(answer.marginals("tag")[b], wanted.marginals("tag")[b])
    assert answer["tag"].path(1)[0] in "NV"
    if not alone:
        some = documents.decode(corpus, forced=forced, bias=bias, tapes=["ner"])
        assert some.tapes == ("ner",)
        assert np.array_equal(some["ner"].flat, answer["ner"].flat)


def test_sentences_of_documents_without_a_path(corpus: Corpus, joint: JointCRF) -> None:
    local = joint & at_most(1, "ORG", tape="ner")
    documents = DocumentTagger(local, annealing=Annealing(5))
    forced: Any = [None, {"ner": ["B-ORG", "B-ORG", *["_"] * (len(corpus[1]) - 2)]}, None]
    words = "the labels forced by tape 'ner' and the grammar are to blame, but only together"
    with pytest.raises(NoPathError, match=f"^sentence 1, token 1: {words}"):
        documents.decode(corpus, forced=forced)
    skipped = documents.decode(corpus, forced=forced, on_no_path="skip")
    assert skipped.dead.tolist() == [False, True, False]
    assert (skipped["ner"].flat[0, 9:18] == -1).all()
    relaxed = documents.decode(corpus, forced=forced, on_no_path="relax")
    assert relaxed.changed.tolist() == ["", "grammar", ""]
    assert relaxed.scores[1] == pytest.approx(joint.decode(corpus, forced=forced).scores[1])


def test_what_documents_do_not_have(corpus: Corpus, joint: JointCRF) -> None:
    documents = DocumentTagger(joint)
    with pytest.raises(OptionError, match="n is 2, expected 1: a document has one sampled"):
        documents.decode(corpus, n=2)
    with pytest.raises(OptionError, match="budget is for searches"):
        documents.decode(corpus, budget=9)
    assert isinstance(documents, fstcrf.taggers.Tagger)
    one = documents & at_most(0, "ORG", tape="ner")
    assert not any("ORG" in label for _, labels in one.tag_all(corpus) for label in labels)
